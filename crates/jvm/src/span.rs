//! Places in source files.

use std::sync::Arc;

use serde::Serialize;

/// A place in a source file. Lines and columns count from 1; a column counts characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// The file's path, as the caller gave it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The first byte.
    pub start_byte: u32,
    /// The byte after the last.
    pub end_byte: u32,
}

/// Bytes of a file, without the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct Range {
    pub start: u32,
    pub end: u32,
}

/// Bytes of a named file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Site {
    pub file: u32,
    pub at: Range,
}

/// Where the lines of a text begin.
#[derive(Debug)]
pub(crate) struct Lines(Vec<u32>);

impl Lines {
    pub(crate) fn new(text: &str) -> Self {
        let begins = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at as u32 + 1);
        Self(std::iter::once(0).chain(begins).collect())
    }

    /// The span of some bytes; bytes outside the text are moved to its end.
    pub(crate) fn span(&self, file: &Arc<str>, text: &str, at: Range) -> Span {
        let mut start = (at.start as usize).min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let line = self.0.partition_point(|begin| *begin as usize <= start).saturating_sub(1);
        let begin = self.0.get(line).map_or(0, |begin| *begin as usize);
        let column = text.get(begin..start).map_or(0, |before| before.chars().count());
        Span {
            file: file.clone(),
            line: line as u32 + 1,
            column: column as u32 + 1,
            start_byte: at.start,
            end_byte: at.end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_in_characters() {
        let text = "ab\nüx\r\nz";
        let lines = Lines::new(text);
        let at = |start: u32| {
            let span = lines.span(&"f".into(), text, Range { start, end: start });
            (span.line, span.column)
        };
        assert_eq!([at(0), at(2), at(3), at(5), at(8), at(99)], [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1), (3, 2)]);
    }
}
