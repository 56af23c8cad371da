//! A recording: an event stream and what is known beside it.

use std::io::BufRead;

use backfire_model::event::Event;
use backfire_model::run::Run;
use backfire_model::simulated::Simulated;

use crate::context::{BothExtras, Context};
use crate::scenario;

/// The latest time an event may have: a hundred years. Everything that is computed from times stays far from its limits.
pub const AT_MS_MAX: u64 = 100 * 366 * 24 * 3_600_000;

/// How to read an event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Pass over a line that is no event, and count it; otherwise the first is an error.
    pub skip_bad_lines: bool,
    /// The most events that are taken in.
    pub events_max: usize,
    /// The longest line that is taken in.
    pub line_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { skip_bad_lines: false, events_max: 4_000_000, line_bytes_max: 1 << 20 }
    }
}

/// An event stream and what is known beside it. Everything in this room is a function of it and of nothing else.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// What happened, in order. A time that runs backwards is taken as the latest one before it.
    pub events: Vec<Event>,
    /// Lines that were passed over.
    pub skipped_lines: u64,
    /// The first of them: its number, and what is wrong with it.
    pub first_skipped: Option<(u64, String)>,
    /// Events that happened and were not kept.
    pub dropped_events: u64,
    /// What is known beside the events.
    pub context: Context,
}

/// Why a stream could not be read. Lines are numbered from 1.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The source failed.
    #[error("line {line}: {source}")]
    Io {
        /// The line that was being read.
        line: u64,
        /// What the source said.
        source: std::io::Error,
    },
    /// A line is no event.
    #[error("line {line}: {why}")]
    BadLine {
        /// The line.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// There are too many events.
    #[error("line {line}: more than {events_max} events; this is the most that a report takes in")]
    TooMany {
        /// The first line that is too much.
        line: u64,
        /// The limit.
        events_max: usize,
    },
}

/// Reads an event stream: one JSON object per line. Empty lines are passed over.
///
/// # Errors
/// A source that fails, more events than the options allow, and, unless they are to be skipped, the first line that is no event.
pub fn read(mut source: impl BufRead, options: &Options) -> Result<Recording, ReadError> {
    let mut recording = Recording::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let length = next_line(&mut source, &mut line, options.line_bytes_max)
            .map_err(|source| ReadError::Io { line: number, source })?;
        if length == 0 {
            break;
        }
        let parsed = match length {
            _ if length > options.line_bytes_max as u64 => {
                Err(format!("{length} bytes; a line may have {}", options.line_bytes_max))
            }
            _ => parse(&line, number == 1),
        };
        match parsed {
            Ok(None) => {}
            Ok(Some(_)) if recording.events.len() >= options.events_max => {
                return Err(ReadError::TooMany { line: number, events_max: options.events_max });
            }
            Ok(Some(event)) => recording.events.push(event),
            Err(why) if !options.skip_bad_lines => return Err(ReadError::BadLine { line: number, why }),
            Err(why) => {
                recording.skipped_lines += 1;
                recording.first_skipped.get_or_insert((number, why));
            }
        }
    }
    Ok(recording)
}

/// Reads up to and with the next line feed; of a line that is longer than `bytes_max`, keeps no more than that. Returns the
/// line's length, line feed included; 0 at the end.
fn next_line(source: &mut impl BufRead, line: &mut Vec<u8>, bytes_max: usize) -> std::io::Result<u64> {
    let mut length = 0;
    loop {
        let available = match source.fill_buf() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let (part, ends) = match available.iter().position(|byte| *byte == b'\n') {
            Some(at) => (&available[..=at], true),
            None => (available, available.is_empty()),
        };
        let room = bytes_max.saturating_sub(line.len()).min(part.len());
        line.extend_from_slice(&part[..room]);
        let used = part.len();
        length += used as u64;
        source.consume(used);
        if ends {
            return Ok(length);
        }
    }
}

fn parse(line: &[u8], is_first: bool) -> Result<Option<Event>, String> {
    let text = std::str::from_utf8(line).map_err(|error| format!("not UTF-8 after {} bytes", error.valid_up_to()))?;
    let text = if is_first { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let event: Event = serde_json::from_str(text).map_err(|error| {
        // serde_json counts lines too; here there is only one.
        let why = error.to_string();
        let why = why.split(" at line ").next().unwrap_or_default().to_owned();
        format!("column {}: {why}", error.column())
    })?;
    if event.at_ms > AT_MS_MAX {
        return Err(format!("at_ms is {}; a recording has at most {AT_MS_MAX} ms", event.at_ms));
    }
    Ok(Some(event))
}

impl Recording {
    /// The recording of a run, with its prediction.
    pub fn from_run(run: &Run) -> Self {
        let context = Context {
            scenario: Some(run.scenario.clone()),
            scale: Some(run.scale),
            namespace: run.namespace.clone(),
            predicted: Some(run.predicted.0),
            measured: Some(run.measured.0),
            extras: BothExtras { predicted: Some(run.predicted.1), measured: Some(run.measured.1) },
            ..Context::default()
        };
        Self { events: run.events.clone(), context, ..Self::default() }
    }

    /// The recording of a simulation, with its settings, and with its prediction where there is one.
    pub fn from_simulated(simulated: &Simulated) -> Self {
        let settings = scenario::context(&simulated.scenario, 1.0);
        let namespace = Some(simulated.scenario.workload.namespace.clone());
        let recording = match simulated.run() {
            Some(run) => Self::from_run(&run),
            None => Self { events: simulated.events.clone(), ..Self::default() },
        };
        Self { dropped_events: simulated.events_dropped, ..recording }.with(Context { namespace, ..settings })
    }

    /// The recording with more known of it; what it knows already stays.
    #[must_use]
    pub fn with(self, context: Context) -> Self {
        Self { context: self.context.or(context), ..self }
    }

    /// The time of each event, never earlier than the one before, and never later than [`AT_MS_MAX`].
    pub(crate) fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.events.iter().scan(0, |latest, event| {
            *latest = event.at_ms.min(AT_MS_MAX).max(*latest);
            Some(*latest)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backfire_model::RecordId;

    const STARTED: &str = r#"{"at_ms":0,"side":"client","event":"execution_started","execution":1}"#;

    fn read_text(text: impl AsRef<[u8]>, change: impl FnOnce(&mut Options)) -> Result<Recording, String> {
        let mut options = Options::default();
        change(&mut options);
        read(text.as_ref(), &options).map_err(|error| error.to_string())
    }

    #[test]
    fn good_lines_are_events() {
        let text = format!("\u{feff}{STARTED}\r\n\n  \n{STARTED}");
        let recording = read_text(text, |_| {}).unwrap();
        assert_eq!((recording.events.len(), recording.skipped_lines), (2, 0));
        assert_eq!(read_text("", |_| {}).unwrap(), Recording::default());
    }

    #[test]
    fn a_bad_line_is_an_error_with_its_number() {
        let cases = [
            ("nonsense".to_owned(), "line 2: column 2: expected ident"),
            (r#"{"at_ms":0,"side":"client","event":"sleeps"}"#.into(), "line 2: column 44: unknown variant `sleeps`"),
            (
                r#"{"at_ms":-1,"side":"client","event":"hung_up"}"#.into(),
                "line 2: column 11: invalid value: integer `-1`",
            ),
            (r#"{"at_ms":1,"side":"client"#.into(), "line 2: column 25: EOF while parsing a string"),
            (
                format!(r#"{{"at_ms":{},"side":"client","event":"hung_up"}}"#, u64::MAX),
                "line 2: at_ms is 18446744073709551615",
            ),
            ("[".repeat(100_000), "line 2: column 0: invalid type"),
        ];
        for (line, says) in cases {
            let error = read_text(format!("{STARTED}\n{line}\n"), |_| {}).unwrap_err();
            assert!(error.starts_with(says), "{error}");
        }
        let error = read_text(b"\n\xff\n", |_| {}).unwrap_err();
        assert_eq!(error, "line 2: not UTF-8 after 0 bytes");
    }

    #[test]
    fn bad_lines_are_skipped_and_counted_when_asked() {
        let text = format!("{STARTED}\nno\n{STARTED}\n{}\n{STARTED}\n", "x".repeat(400));
        let recording = read_text(text, |options| {
            options.skip_bad_lines = true;
            options.line_bytes_max = 300;
        })
        .unwrap();
        assert_eq!((recording.events.len(), recording.skipped_lines), (3, 2));
        assert_eq!(recording.first_skipped.map(|(line, _)| line), Some(2));
    }

    #[test]
    fn lines_and_events_have_limits() {
        let long = format!("{STARTED}\n{}\n", "x".repeat(2_000));
        assert_eq!(
            read_text(long, |options| options.line_bytes_max = 1_000).unwrap_err(),
            "line 2: 2001 bytes; a line may have 1000"
        );
        let many = format!("{STARTED}\n{STARTED}\n");
        let error = read_text(many, |options| options.events_max = 1).unwrap_err();
        assert_eq!(error, "line 2: more than 1 events; this is the most that a report takes in");
    }

    #[test]
    fn a_line_may_name_its_record() {
        let with = |record: &str| STARTED.replace('{', &format!(r#"{{"record":{record},"#));
        let recording = read_text([STARTED, &with("\"3-17\"")].join("\n"), |_| {}).unwrap();
        let records: Vec<_> = recording.events.iter().map(|event| event.record).collect();
        assert_eq!(records, [None, Some(RecordId { partition: 3, offset: 17 })]);
        for (record, says) in [("\"orders@17\"", "'orders@17' is no record"), ("17", "invalid type")] {
            let error = read_text(with(record), |_| {}).unwrap_err();
            assert!(error.starts_with("line 1: column ") && error.contains(says), "{error}");
        }
    }

    #[test]
    fn time_never_runs_backwards() {
        let at = |at_ms| Event {
            at_ms,
            record: None,
            consumer: None,
            what: backfire_model::event::What::Client(backfire_model::event::ClientEvent::HungUp),
        };
        let recording = Recording { events: [5, 3, u64::MAX, 7].map(at).to_vec(), ..Recording::default() };
        assert_eq!(recording.times().collect::<Vec<_>>(), [5, 5, AT_MS_MAX, AT_MS_MAX]);
    }
}
