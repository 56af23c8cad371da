//! Records parked in a local file: the last resort when no dead letter can be published.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::bounds::Spent;
use crate::dead_letters::{Destination, PublishError, RecoverError, Recovered, Recoverer, dead_letter};
use crate::failure::Failure;
use crate::record::Record;

/// A file with a line of JSON for each parked record: `{"topic", "partition", "offset", "timestampMs", "key", "value",
/// "headers": [[name, value], …]}`, keys and values in base64. Topic, partition and offset are those of the record, and
/// its headers are those of a dead letter. A record counts as parked when the disk has it.
#[derive(Debug, Clone)]
pub struct FileParking {
    path: PathBuf,
    destination: Destination,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug)]
struct Open {
    file: File,
    size_bytes: u64,
    limit_bytes: u64,
}

impl FileParking {
    /// Appends to a file, which is made where there is none, up to `limit_bytes`.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: impl Into<PathBuf>, destination: Destination, limit_bytes: u64) -> io::Result<Self> {
        let path = path.into();
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path)?;
        let mut size_bytes = file.metadata()?.len();
        if size_bytes > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            // A crash cut the last line off: the next one begins on its own.
            if last != *b"\n" {
                file.write_all(b"\n")?;
                size_bytes += 1;
            }
        }
        Ok(Self { path, destination, open: Arc::new(Mutex::new(Open { file, size_bytes, limit_bytes })) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Open {
    fn append(&mut self, line: &[u8]) -> Result<(), String> {
        if self.size_bytes.saturating_add(line.len() as u64) > self.limit_bytes {
            return Err(format!("the limit of {} bytes is reached", self.limit_bytes));
        }
        let written = self.file.write_all(line).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Takes back what was written of the line; where that fails too, the next opening ends the line.
            let _ = self.file.set_len(self.size_bytes);
            return Err(error.to_string());
        }
        self.size_bytes += line.len() as u64;
        Ok(())
    }
}

fn line(record: &Record, letter: &Record) -> Vec<u8> {
    let encoded = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(Value::Null, |bytes| STANDARD.encode(bytes).into());
    let headers: Vec<Value> =
        letter.headers.iter().map(|(name, value)| json!([name, STANDARD.encode(value)])).collect();
    let record = json!({
        "topic": &*record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestampMs": record.timestamp_ms,
        "key": encoded(&record.key),
        "value": encoded(&record.value),
        "headers": headers,
    });
    format!("{record}\n").into_bytes()
}

impl Recoverer for FileParking {
    async fn recover(&self, record: &Record, failure: &Failure, _: Spent) -> Result<Recovered, RecoverError> {
        let line = line(record, &dead_letter(record, failure, &self.destination));
        let open = Arc::clone(&self.open);
        let written = tokio::task::spawn_blocking(move || open.lock().append(&line)).await;
        let written = written.unwrap_or_else(|error| Err(error.to_string()));
        written.map(|()| Recovered::Discarded).map_err(|why| {
            let message = format!("{} cannot be written: {why}", self.path.display());
            RecoverError::Publish(PublishError { message })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::ErrorClass;

    #[tokio::test]
    async fn a_parked_record_is_a_line_and_the_file_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("parked.jsonl");
        let parking = FileParking::open(&path, Destination::default(), 1_000).unwrap();
        let record = Record { topic: "orders".into(), offset: 7, key: Some(vec![0, 255]), ..Record::default() };
        let failure = Failure::new(ErrorClass::new("a.B"), "line 1\nline 2");
        assert_eq!(parking.recover(&record, &failure, Spent::BackOff).await, Ok(Recovered::Discarded));
        let error = parking.recover(&record, &failure, Spent::BackOff).await.unwrap_err().to_string();
        assert!(error.contains("parked.jsonl") && error.contains("1000 bytes"), "{error}");
        let text = std::fs::read_to_string(parking.path()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 1);
        assert_eq!(
            (&lines[0]["topic"], &lines[0]["offset"], &lines[0]["key"]),
            (&json!("orders"), &json!(7), &json!("AP8="))
        );
        assert_eq!((&lines[0]["value"], lines[0]["headers"].as_array().map(Vec::len)), (&Value::Null, Some(10)));
        std::fs::write(&path, "cut off").unwrap();
        let parking = FileParking::open(&path, Destination::default(), 1_000).unwrap();
        parking.recover(&record, &failure, Spent::BackOff).await.unwrap();
        let lines: Vec<_> = std::fs::read_to_string(&path).unwrap().lines().map(str::len).collect();
        assert!(lines.len() == 2 && lines[0] == 7 && lines[1] > 100, "{lines:?}");
        assert!(FileParking::open(folder.path().join("no/such"), Destination::default(), 1).is_err());
    }
}
