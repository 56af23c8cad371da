//! Standard output: where results go, and how wide it is.

use std::io::{self, IsTerminal, Write};

use crate::exit::Exit;

/// Writes a result. A reader that has seen enough (`| head`) is no error.
///
/// # Errors
/// The exit of a command whose result could not be written.
pub fn print(text: &str) -> Result<(), Exit> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Exit::could_not_run(format!("cannot write the result: {error}")))
        }
        _ => Ok(()),
    }
}

/// The width of the terminal that the output goes to; `None` when it goes elsewhere.
pub fn width_columns() -> Option<u16> {
    if !io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| width.0)
}
