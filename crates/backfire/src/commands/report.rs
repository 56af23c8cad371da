//! `backfire report`: a recorded event stream as a page, a chart, a trace or numbers.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use backfire_report::input::{self, Options};
use backfire_report::{Context, Format, Recording};

use crate::cli::{Report, ReportFormat};
use crate::exit::Exit;
use crate::out;

/// A prediction or a list of findings may be this large.
const CONTEXT_BYTES_MAX: u64 = 64 << 20;

/// Renders a recording.
pub fn run(arguments: &Report) -> Exit {
    match render(arguments) {
        Ok(exit) => exit,
        Err(why) => Exit::could_not_run(why),
    }
}

fn render(arguments: &Report) -> Result<Exit, String> {
    let to_stdout = arguments.output.as_deref().is_none_or(|path| path == Path::new("-"));
    let format = match (arguments.format, &arguments.output) {
        (Some(format), _) => of(format),
        (None, Some(path)) if !to_stdout => Format::of_path(path)?,
        _ => Format::Html,
    };
    if to_stdout && format == Format::Html && arguments.output.is_none() && io::stdout().is_terminal() {
        return Err("a page is not for the terminal; name a file: -o report.html".to_owned());
    }
    let known = known(arguments)?;
    let recording = read(arguments)?.with(known);
    if to_stdout {
        return Ok(out::print(&format.render(&recording)).err().unwrap_or(Exit::Fine));
    }
    let path = arguments.output.clone().unwrap_or_default();
    std::fs::write(&path, format.render(&recording)).map_err(|error| cannot_write(&path, &error))?;
    Ok(Exit::Fine)
}

fn of(format: ReportFormat) -> Format {
    match format {
        ReportFormat::Html => Format::Html,
        ReportFormat::Svg => Format::Svg,
        ReportFormat::Json => Format::Json,
        ReportFormat::Perfetto => Format::Perfetto,
        ReportFormat::Otlp => Format::Otlp,
    }
}

fn read(arguments: &Report) -> Result<Recording, String> {
    let options = Options { skip_bad_lines: arguments.skip_bad_lines, ..Options::default() };
    let path = &arguments.events;
    let (name, recording) = if path == Path::new("-") {
        ("stdin".to_owned(), input::read(io::stdin().lock(), &options))
    } else {
        let file = File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        (path.display().to_string(), input::read(BufReader::with_capacity(1 << 16, file), &options))
    };
    let recording = recording.map_err(|error| {
        let hint = match error {
            input::ReadError::BadLine { .. } => " (--skip-bad-lines passes over such lines)",
            _ => "",
        };
        format!("{name}: {error}{hint}")
    })?;
    if let Some((line, why)) = &recording.first_skipped {
        match recording.skipped_lines {
            1 => eprintln!("backfire: {name}: 1 line was no event; it is line {line}: {why}"),
            many => eprintln!("backfire: {name}: {many} lines were no events; the first is line {line}: {why}"),
        }
    }
    if recording.events.is_empty() {
        return Err(format!("{name}: there is no event in it"));
    }
    Ok(recording)
}

/// What is known beside the events.
fn known(arguments: &Report) -> Result<Context, String> {
    let named = Context {
        scenario: arguments.name.clone(),
        namespace: arguments.namespace.clone(),
        tickets: arguments.tickets,
        ..Context::default()
    };
    let prediction = context(arguments.prediction.as_deref(), &["predicted", "predictions"])?;
    let findings = context(arguments.findings.as_deref(), &["findings", "settings"])?;
    Ok(named.or(prediction).or(findings))
}

fn context(path: Option<&Path>, keys: &[&str]) -> Result<Context, String> {
    let Some(path) = path else { return Ok(Context::default()) };
    let mut text = String::new();
    let file = File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let length = file
        .take(CONTEXT_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if length as u64 > CONTEXT_BYTES_MAX {
        return Err(format!("{}: more than {} MiB", path.display(), CONTEXT_BYTES_MAX >> 20));
    }
    Context::parse_with(&text, keys).map_err(|error| format!("{}: {error}", path.display()))
}

/// A file that a report goes to. It is opened before the work whose report it is: a path that cannot be written should not cost
/// four minutes.
pub struct Target {
    file: File,
    path: PathBuf,
    format: Format,
}

impl Target {
    /// Opens the file; its name says the format.
    ///
    /// # Errors
    /// A name whose ending is not known, and a file that cannot be written.
    pub fn open(path: &Path) -> Result<Self, String> {
        let format = Format::of_path(path)?;
        let file = File::create(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Self { file, path: path.to_owned(), format })
    }

    /// Renders the recording into it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(mut self, recording: &Recording) -> Result<(), String> {
        let text = self.format.render(recording);
        self.file.write_all(text.as_bytes()).map_err(|error| cannot_write(&self.path, &error))
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}
