//! Comments that ask to leave a finding out: `// backfire-ignore: BF012 the topic has one record a day`.

use std::sync::Arc;

use serde::Serialize;

use crate::span::{Lines, Range, Span};

/// One such comment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ignore {
    /// The rules, as written.
    pub rules: Vec<String>,
    /// Why, as written; may be empty.
    pub reason: String,
    /// From the word to the end of the reason.
    pub span: Span,
}

const WORD: &str = "backfire-ignore:";
/// More of them in one file are not looked at.
const IGNORES_MAX: usize = 1_000;

/// The comments of a file, of any kind that writes them behind `//`, `/*`, `*`, `#`, `--` or `<!--`. Works on plain text: no
/// grammar is asked.
pub fn ignores(path: &Arc<str>, text: &str) -> Vec<Ignore> {
    if !text.contains(WORD) {
        return Vec::new();
    }
    let lines = Lines::new(text);
    let mut found = Vec::new();
    for (at, _) in text.match_indices(WORD).take(IGNORES_MAX) {
        let line_begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let before = &text[line_begin..at];
        let commented = ["//", "/*", "#", "--", "<!--"].iter().any(|mark| before.contains(mark))
            || before.trim_start().starts_with('*');
        if !commented {
            continue;
        }
        let rest = text[at + WORD.len()..].lines().next().unwrap_or_default();
        let rest = ["*/", "-->"].iter().fold(rest, |rest, end| rest.split(end).next().unwrap_or(rest));
        let mut rules = Vec::new();
        let mut reason = rest.trim();
        while let Some(word) = reason.split([' ', '\t', ',']).next().filter(|word| is_rule(word)) {
            rules.push(word.to_owned());
            reason = reason[word.len()..].trim_start_matches([',', ' ', '\t']);
        }
        let end = at + WORD.len() + rest.trim_end().len();
        let span = lines.span(path, text, Range { start: at as u32, end: end as u32 });
        found.push(Ignore { rules, reason: reason.trim().to_owned(), span });
    }
    found
}

/// `BF012`.
fn is_rule(word: &str) -> bool {
    word.strip_prefix("BF").is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_every_kind_of_file_are_found() {
        let cases = [
            ("int a; // backfire-ignore: BF012 one a day", Some(("BF012", "one a day"))),
            ("/* backfire-ignore: BF001, BF2 because */ x", Some(("BF001 BF2", "because"))),
            ("a: 1 # backfire-ignore: BF012", Some(("BF012", ""))),
            ("<!-- backfire-ignore: BF012 why -->", Some(("BF012", "why"))),
            (" * backfire-ignore: no rule", Some(("", "no rule"))),
            ("String s = \"backfire-ignore: BF012\";", None),
        ];
        for (text, expected) in cases {
            let found = ignores(&"f".into(), text);
            let found = found.first().map(|it| (it.rules.join(" "), it.reason.clone()));
            assert_eq!(found.as_ref().map(|(rules, reason)| (rules.as_str(), reason.as_str())), expected, "{text}");
        }
    }
}
