//! Files as text, places in them, and lines as they may be shown: without secrets.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock, OnceLock};

use backfire_model::connection_string::MASK;
use regex::Regex;

/// A file that was read.
#[derive(Debug)]
pub struct SourceFile {
    /// The path as it is shown.
    pub path: String,
    /// The text, without a byte order mark.
    pub text: String,
    /// Worked out when first asked for: of most files nothing is shown.
    line_starts: OnceLock<Vec<usize>>,
    secrets: OnceLock<Vec<Range<usize>>>,
}

impl SourceFile {
    /// Takes a text.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        let mut text: String = text.into();
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        Arc::new(Self { path: path.into(), text, line_starts: OnceLock::new(), secrets: OnceLock::new() })
    }

    fn line_starts(&self) -> &[usize] {
        let find = || std::iter::once(0).chain(self.text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        self.line_starts.get_or_init(find)
    }

    fn secrets(&self) -> &[Range<usize>] {
        self.secrets.get_or_init(|| secret_ranges(&self.text))
    }

    /// Line and column of a byte, both from 1; the column counts characters.
    pub fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let offset = floor_boundary(&self.text, offset);
        let line_starts = self.line_starts();
        let line = line_starts.partition_point(|start| *start <= offset).max(1);
        let start = line_starts[line - 1];
        (line, self.text[start..offset].chars().count() + 1)
    }

    /// The bytes of a line, from 1, without its end.
    pub fn line_range(&self, line: usize) -> Range<usize> {
        let Some(start) = line.checked_sub(1).and_then(|index| self.line_starts().get(index)).copied() else {
            return self.text.len()..self.text.len();
        };
        let end = self.line_starts().get(line).map_or(self.text.len(), |next| next - 1);
        let text = self.text[start..end].trim_end_matches('\r');
        start..start + text.len()
    }

    /// How many lines there are.
    pub fn lines(&self) -> usize {
        self.line_starts().len()
    }
}

/// A stretch of a file.
#[derive(Clone)]
pub struct Place {
    file: Arc<SourceFile>,
    range: Range<usize>,
}

/// A line as it may be shown, with the columns to underline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownLine {
    /// The line, secrets masked, control characters and tabs as one blank each.
    pub text: String,
    /// How many characters stand before the mark.
    pub start: usize,
    /// How many characters are marked, at least one.
    pub width: usize,
}

/// The longest line that is shown in full, in characters.
const SHOWN_MAX: usize = 160;

impl Place {
    /// The bytes `range` of `file`.
    pub fn new(file: &Arc<SourceFile>, range: Range<usize>) -> Self {
        let start = floor_boundary(&file.text, range.start);
        let end = floor_boundary(&file.text, range.end.max(start));
        Self { file: Arc::clone(file), range: start..end }
    }

    /// The whole of a line, from 1.
    pub fn of_line(file: &Arc<SourceFile>, line: usize) -> Self {
        let range = file.line_range(line);
        let text = &file.text[range.clone()];
        let indent = text.len() - text.trim_start().len();
        Self::new(file, range.start + indent..range.start + text.trim_end().len().max(indent))
    }

    /// The file's path, as shown.
    pub fn path(&self) -> &str {
        &self.file.path
    }

    /// The file.
    pub fn file(&self) -> &Arc<SourceFile> {
        &self.file
    }

    /// The bytes.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.file.line_and_column(self.range.start).0
    }

    /// The column, from 1, in characters.
    pub fn column(&self) -> usize {
        self.file.line_and_column(self.range.start).1
    }

    /// Where it ends: line and the column after it.
    pub fn end(&self) -> (usize, usize) {
        self.file.line_and_column(self.range.end)
    }

    /// Its first line as it may be shown.
    pub fn shown_line(&self) -> ShownLine {
        let line = self.file.line_range(self.line());
        let marked = self.range.start.clamp(line.start, line.end)..self.range.end.clamp(line.start, line.end);
        let secrets = self.file.secrets().iter().filter(|secret| secret.start < line.end && secret.end > line.start);
        let mut shown = String::new();
        let mut places = [0, 0];
        let mut done = line.start;
        let plain = |range: Range<usize>, shown: &mut String, places: &mut [usize; 2]| {
            for (index, character) in self.file.text[range.clone()].char_indices() {
                let at = range.start + index;
                note(places, &marked, at, shown);
                shown.push(if character.is_control() { ' ' } else { character });
            }
            note(places, &marked, range.end, shown);
        };
        for secret in secrets {
            let secret = secret.start.max(done)..secret.end.min(line.end);
            plain(done..secret.start, &mut shown, &mut places);
            if marked.start > secret.start && marked.start < secret.end {
                places[0] = shown.chars().count();
            }
            shown.push_str(MASK);
            if marked.end > secret.start && marked.end <= secret.end {
                places[1] = shown.chars().count();
            }
            done = secret.end;
        }
        plain(done..line.end, &mut shown, &mut places);
        let places = [places[0], places[1].max(places[0] + 1)];
        clip(&shown, places)
    }
}

/// Remembers where the marked range begins and ends in the shown text.
fn note(places: &mut [usize; 2], marked: &Range<usize>, at: usize, shown: &str) {
    if at == marked.start {
        places[0] = shown.chars().count();
    }
    if at == marked.end {
        places[1] = shown.chars().count();
    }
}

/// A long line, cut around the mark.
fn clip(text: &str, [start, end]: [usize; 2]) -> ShownLine {
    let length = text.chars().count();
    if length <= SHOWN_MAX {
        return ShownLine { text: text.to_owned(), start, width: end - start };
    }
    let from = if start > SHOWN_MAX / 2 { start - SHOWN_MAX / 4 } else { 0 };
    let kept: String = text.chars().skip(from).take(SHOWN_MAX).collect();
    let lead = if from > 0 { "…" } else { "" };
    let tail = if from + SHOWN_MAX < length { "…" } else { "" };
    let shift = lead.chars().count();
    let width = (end - start).min(SHOWN_MAX.saturating_sub(start - from)).max(1);
    ShownLine { text: format!("{lead}{kept}{tail}"), start: start - from + shift, width }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.file.path == other.file.path && self.range == other.range
    }
}

impl Eq for Place {}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path(), self.line())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}:{}", self.column())
    }
}

fn floor_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// A connection string in running text, to the end of its line: a password with a blank or a quotation mark in it is still one.
/// A `.properties` line may go on after a backslash.
static URI: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)mongodb(?:\+srv)?://(?:\\\r?\n[ \t]*|[^\r\n])*").ok());

/// A key that names a secret, and its value.
static KEYED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?im)(?:password|passwd|pwd|secret|token|credentials?|jaas[.\-_]?config|api[\-_]?key)["'\]]{0,2}[ \t]*(?:[:=]|value=)[ \t]*(\S(?:\\\r?\n|[^\r\n])*)"#,
    )
    .ok()
});

/// Where a text holds secrets, or may: in order, and apart.
fn secret_ranges(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for uri in URI.iter().flat_map(|regex| regex.find_iter(text)) {
        uri_secrets(uri.as_str(), uri.start(), &mut found);
    }
    for keyed in KEYED.iter().flat_map(|regex| regex.captures_iter(text)) {
        found.extend(keyed.get(1).map(|value| value.range()));
    }
    found.retain(|range| !range.is_empty());
    found.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for range in found {
        match apart.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// What may be a secret in a connection string: all between the first `:` of the user information and the last `@`,
/// and the values of all options that are not plainly harmless.
fn uri_secrets(uri: &str, base: usize, found: &mut Vec<Range<usize>>) {
    let start = uri.find("://").map_or(0, |at| at + 3);
    let rest = &uri[start..];
    if let Some(at) = rest.rfind('@') {
        let user_end = rest[..at].find(':').map_or(at, |colon| colon + 1);
        found.push(base + start + user_end..base + start + at);
    }
    // A blank ends it, but not the one of a continuation line.
    let mut is_continued = false;
    let end = rest.char_indices().find(|(at, character)| {
        is_continued = rest[*at..].starts_with("\\\n")
            || rest[*at..].starts_with("\\\r\n")
            || (is_continued && character.is_whitespace());
        character.is_whitespace() && !is_continued
    });
    let end = end.map_or(uri.len(), |(end, _)| start + end);
    if let Some(question) = uri[start..end].find('?') {
        let mut at = start + question + 1;
        for option in uri[at..end].split(['&', ';']) {
            let hidden = match option.split_once('=') {
                Some((name, _))
                    if backfire_model::connection_string::find_option(name).is_some_and(|(spec, _)| {
                        use backfire_model::connection_string::ValueKind;
                        !matches!(spec.kind, ValueKind::Secret | ValueKind::Properties)
                    }) =>
                {
                    None
                }
                Some((_, value)) => Some(at + option.len() - value.len()..at + option.len()),
                None => Some(at..at + option.len()),
            };
            found.extend(hidden.filter(|range| !range.is_empty()).map(|range| base + range.start..base + range.end));
            at += option.len() + 1;
        }
    }
}

/// A text as it may be shown: secrets masked.
pub fn masked(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut done = 0;
    for secret in secret_ranges(text) {
        shown.push_str(&text[done..secret.start]);
        shown.push_str(MASK);
        done = secret.end;
    }
    shown.push_str(&text[done..]);
    shown
}

/// Whether the name of a setting says that its value is a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '_', '.'], "");
    ["password", "passwd", "pwd", "secret", "token", "credential", "jaasconfig", "apikey"]
        .iter()
        .any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_knows_its_line_and_column_in_characters() {
        let file = SourceFile::new("a.yml", "a: 1\nß: 22\r\n");
        let place = Place::new(&file, 9..11);
        assert_eq!((place.line(), place.column(), place.end()), (2, 4, (2, 6)));
        assert_eq!(place.shown_line(), ShownLine { text: "ß: 22".into(), start: 3, width: 2 });
    }

    #[test]
    fn a_shown_line_holds_no_password_and_its_mark_stays_right() {
        let cases = [
            ("uri: mongodb://u:s3cret@h/?w=1", "uri: mongodb://u:***@h/?w=1"),
            ("uri: mongodb://u:s3@cret@h/", "uri: mongodb://u:***@h/"),
            ("uri=mongodb://s3cret@h", "uri=mongodb://s3cret@h"),
            ("spring.x.password = s3cret x", "spring.x.password = ***"),
            ("\"password\": \"s3cret\"", "\"password\": ***"),
            ("uri: mongodb://h/?x=s3cret&w=1", "uri: mongodb://h/?x=***&w=1"),
            ("uri: mongodb://u:s3'\"cr et@h", "uri: mongodb://u:***@h"),
        ];
        for (line, shown) in cases {
            assert_eq!(masked(line), shown);
            let file = SourceFile::new("a", line);
            assert_eq!(Place::new(&file, 0..1).shown_line().text, shown);
        }
        let file = SourceFile::new("a", "uri: mongodb://u:s3cret@h/?w=1");
        let shown = Place::new(&file, 27..30).shown_line();
        assert_eq!(&shown.text[shown.start..shown.start + shown.width], "w=1");
    }

    #[test]
    fn a_password_on_a_continuation_line_is_masked() {
        let file = SourceFile::new("a.properties", "uri=mongodb://u:\\\n  s3cret@h\nb=1");
        assert!(!Place::of_line(&file, 2).shown_line().text.contains("s3cret"));
    }

    #[test]
    fn a_long_line_is_cut_around_its_mark() {
        let text = format!("{}mark{}", "x".repeat(500), "y".repeat(500));
        let file = SourceFile::new("a", text);
        let shown = Place::new(&file, 500..504).shown_line();
        assert!(shown.text.chars().count() <= SHOWN_MAX + 2);
        let marked: String = shown.text.chars().skip(shown.start).take(shown.width).collect();
        assert_eq!(marked, "mark");
    }
}
