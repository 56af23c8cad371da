//! Java `.properties`: escapes, continuation lines, the three separators; with the place of every key and value.
//!
//! Source: the syntax that `java.util.Properties.load(Reader)` documents.

use std::sync::Arc;

use super::tree::Flaw;
use crate::source::{Place, SourceFile};

/// One `key=value`.
#[derive(Debug, Clone)]
pub struct Property {
    /// The key, unescaped.
    pub key: String,
    /// Where it stands.
    pub key_place: Place,
    /// The value, unescaped, continuation lines joined.
    pub value: String,
    /// Where it stands, from its first character to its last.
    pub value_place: Place,
}

/// A part of a multi-document file: between lines of `#---` or `!---`, as Spring Boot 2.4 and later read it.
pub type Document = Vec<Property>;

/// The documents of a file. A bad `\u` escape is a flaw, and stays as it is.
pub fn read(file: &Arc<SourceFile>) -> (Vec<Document>, Vec<Flaw>) {
    let mut documents = vec![Vec::new()];
    let mut flaws = Vec::new();
    let mut at = 0;
    let text = file.text.as_str();
    while at < text.len() {
        let line_end = text[at..].find('\n').map_or(text.len(), |end| at + end);
        let line = &text[at..line_end];
        let lead = line.len() - line.trim_start_matches([' ', '\t', '\u{c}', '\r']).len();
        let trimmed = line[lead..].trim_end_matches('\r');
        if trimmed.is_empty() {
            at = line_end + 1;
            continue;
        }
        if trimmed.starts_with(['#', '!']) {
            if line.trim_end() == "#---" || line.trim_end() == "!---" {
                documents.push(Vec::new());
            }
            at = line_end + 1;
            continue;
        }
        let (logical, end) = logical_line(text, at + lead);
        if let Some(document) = documents.last_mut() {
            document.push(property(file, &logical, &mut flaws));
        }
        at = end;
    }
    (documents, flaws)
}

/// The characters of a logical line with their bytes, and where the next line begins.
fn logical_line(text: &str, start: usize) -> (Vec<(usize, char)>, usize) {
    let mut characters = Vec::new();
    let mut iterator = text[start..].char_indices().map(|(at, c)| (start + at, c)).peekable();
    let mut is_escaped = false;
    while let Some((at, character)) = iterator.next() {
        if character == '\n' || (character == '\r' && iterator.peek().is_none_or(|(_, next)| *next == '\n')) {
            if character == '\r' {
                iterator.next();
            }
            if !is_escaped {
                return (characters, iterator.peek().map_or(text.len(), |(next, _)| *next));
            }
            characters.pop();
            is_escaped = false;
            while iterator.next_if(|(_, next)| matches!(next, ' ' | '\t' | '\u{c}')).is_some() {}
            continue;
        }
        is_escaped = character == '\\' && !is_escaped;
        characters.push((at, character));
    }
    (characters, text.len())
}

fn property(file: &Arc<SourceFile>, line: &[(usize, char)], flaws: &mut Vec<Flaw>) -> Property {
    let is_blank = |character: char| matches!(character, ' ' | '\t' | '\u{c}');
    let mut key_end = line.len();
    let mut is_escaped = false;
    for (index, (_, character)) in line.iter().enumerate() {
        if !is_escaped && (is_blank(*character) || matches!(character, '=' | ':')) {
            key_end = index;
            break;
        }
        is_escaped = *character == '\\' && !is_escaped;
    }
    let mut value_start = key_end;
    while line.get(value_start).is_some_and(|(_, character)| is_blank(*character)) {
        value_start += 1;
    }
    if line.get(value_start).is_some_and(|(_, character)| matches!(character, '=' | ':')) {
        value_start += 1;
        while line.get(value_start).is_some_and(|(_, character)| is_blank(*character)) {
            value_start += 1;
        }
    }
    let range = |from: usize, to: usize| {
        let start = line.get(from).map_or_else(|| line.last().map_or(0, |(at, c)| at + c.len_utf8()), |(at, _)| *at);
        let end = to.checked_sub(1).filter(|last| *last >= from).and_then(|last| line.get(last));
        Place::new(file, start..end.map_or(start, |(at, c)| at + c.len_utf8()))
    };
    let key_place = range(0, key_end);
    let value_place = range(value_start, line.len());
    let key = unescape(file, &line[..key_end], flaws);
    let value = unescape(file, &line[value_start..], flaws);
    Property { key, key_place, value, value_place }
}

fn unescape(file: &Arc<SourceFile>, characters: &[(usize, char)], flaws: &mut Vec<Flaw>) -> String {
    let mut units: Vec<u16> = Vec::new();
    let mut text = String::new();
    let mut index = 0;
    while let Some((at, character)) = characters.get(index).copied() {
        index += 1;
        let plain = match (character, characters.get(index)) {
            ('\\', Some((_, escaped))) => {
                index += 1;
                match escaped {
                    't' => '\t',
                    'n' => '\n',
                    'r' => '\r',
                    'f' => '\u{c}',
                    'u' => {
                        let digits: String = characters.iter().skip(index).take(4).map(|(_, c)| *c).collect();
                        match u16::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4) {
                            Some(unit) => {
                                index += 4;
                                units.push(unit);
                                continue;
                            }
                            None => {
                                flaws.push(Flaw {
                                    message: "\\u is not followed by four hexadecimal digits; Java refuses the file"
                                        .to_owned(),
                                    place: Place::new(file, at..at + 2),
                                });
                                'u'
                            }
                        }
                    }
                    other => *other,
                }
            }
            ('\\', None) => continue,
            (plain, _) => plain,
        };
        text.push_str(&String::from_utf16_lossy(&std::mem::take(&mut units)));
        text.push(plain);
    }
    text.push_str(&String::from_utf16_lossy(&units));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let (documents, _) = read(&SourceFile::new("a.properties", text));
        let got: Vec<_> = documents.iter().flatten().map(|p| (p.key.as_str(), p.value.as_str())).collect();
        assert_eq!(got, expected, "{text:?}");
    }

    #[test]
    fn the_whole_syntax() {
        check("a=1\nb: 2\nc 3\nd = 4 \n", &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4 ")]);
        check("# no\n! no\n  a=1\r\nb", &[("a", "1"), ("b", "")]);
        check("a=x\\\n   y\\\r\n z\nb=1", &[("a", "xyz"), ("b", "1")]);
        check("a\\ b\\=c=d\\\\\ne=\\u00e4\\t\\q", &[("a b=c", "d\\"), ("e", "ä\tq")]);
        check("e=\\ud83d\\ude00!", &[("e", "😀!")]);
        check("a==b\n:x\n\\", &[("a", "=b"), ("", "x"), ("", "")]);
        check("", &[]);
    }

    #[test]
    fn documents_and_places() {
        let (documents, flaws) = read(&SourceFile::new("a.properties", "a=1\n#---\n  long.key = v\\u00zz\n"));
        assert_eq!(documents.len(), 2);
        let property = &documents[1][0];
        assert_eq!(
            format!("{:?} {:?}", property.key_place, property.value_place),
            "a.properties:3:3 a.properties:3:14"
        );
        assert_eq!(flaws.len(), 1);
    }
}
