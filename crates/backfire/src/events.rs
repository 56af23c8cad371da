//! The event stream of a run in progress, written as it happens: what there is stays when the run is interrupted.

use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backfire_model::event::Event;
use parking_lot::Mutex;

/// The name that stands for stdout.
const STDOUT: &str = "-";

/// Where events go.
#[derive(Clone)]
pub struct EventFile {
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

struct State {
    out: Box<dyn Write + Send>,
    /// The first that went wrong; nothing is written after it.
    error: Option<io::Error>,
}

/// Whether a path means stdout.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == STDOUT
}

impl EventFile {
    /// Opens a file, or stdout for `-`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path) -> Result<Self, String> {
        let out: Box<dyn Write + Send> = if is_stdout(path) {
            Box::new(LineWriter::new(io::stdout()))
        } else {
            Box::new(LineWriter::new(File::create(path).map_err(|error| cannot_write(path, &error))?))
        };
        Ok(Self { path: path.to_owned(), state: Arc::new(Mutex::new(State { out, error: None })) })
    }

    /// Writes one event as a line.
    pub fn write(&self, event: &Event) {
        let mut state = self.state.lock();
        if state.error.is_none() {
            state.error = write_line(&mut state.out, event).err();
        }
    }

    /// Writes out what is still in memory.
    ///
    /// # Errors
    /// When an event could not be written. A reader of stdout that has seen enough is no error.
    pub fn finish(&self) -> Result<(), String> {
        let mut state = self.state.lock();
        let result = match state.error.take() {
            Some(error) => Err(error),
            None => state.out.flush(),
        };
        match result {
            Err(error) if is_stdout(&self.path) && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|error| cannot_write(&self.path, &error)),
        }
    }
}

fn write_line(out: &mut impl Write, event: &Event) -> io::Result<()> {
    serde_json::to_writer(&mut *out, event)?;
    out.write_all(b"\n")
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}
