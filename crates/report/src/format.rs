//! The forms in which a recording is rendered.

use std::path::Path;

use crate::input::Recording;
use crate::{numbers, otlp, page, perfetto, svg};

/// A form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The page.
    Html,
    /// The chart alone.
    Svg,
    /// The numbers of the page.
    Json,
    /// A trace for the Perfetto viewer.
    Perfetto,
    /// OpenTelemetry spans, as OTLP JSON.
    Otlp,
}

/// The endings of file names and what they stand for, the longer first.
const ENDINGS: [(&str, Format); 9] = [
    (".perfetto.json", Format::Perfetto),
    (".perfetto-trace", Format::Perfetto),
    (".trace.json", Format::Perfetto),
    (".trace", Format::Perfetto),
    (".otlp.json", Format::Otlp),
    (".html", Format::Html),
    (".htm", Format::Html),
    (".svg", Format::Svg),
    (".json", Format::Json),
];

impl Format {
    /// The form that a file's name stands for.
    ///
    /// # Errors
    /// A text that names the endings which are known.
    pub fn of_path(path: &Path) -> Result<Self, String> {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| *format).ok_or_else(|| {
            format!(
                "cannot tell the format of {}: the name should end with .html, .svg, .json, .perfetto.json or .otlp.json",
                path.display()
            )
        })
    }

    /// The recording in this form.
    pub fn render(self, recording: &Recording) -> String {
        match self {
            Format::Html => page::render(recording),
            Format::Svg => svg::render(recording),
            Format::Json => numbers::render(recording),
            Format::Perfetto => perfetto::render(recording),
            Format::Otlp => otlp::render(recording),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_form() {
        let cases = [
            ("report.html", Some(Format::Html)),
            ("a/REPORT.HTM", Some(Format::Html)),
            ("r.svg", Some(Format::Svg)),
            ("r.json", Some(Format::Json)),
            ("r.perfetto.json", Some(Format::Perfetto)),
            ("r.otlp.json", Some(Format::Otlp)),
            ("r.trace", Some(Format::Perfetto)),
            ("report", None),
            ("report.pdf", None),
        ];
        for (name, format) in cases {
            assert_eq!(Format::of_path(Path::new(name)).ok(), format, "{name}");
        }
        assert!(Format::of_path(Path::new("x.pdf")).unwrap_err().contains("x.pdf"));
    }
}
