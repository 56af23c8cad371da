//! Placeholders: `${NAME}`, `${NAME:default}`, nested in either part.

/// How deep placeholders may stand in each other, and how often one may lead to the next.
const DEPTH_MAX: usize = 30;

/// The longest value.
const LENGTH_MAX: usize = 64 << 10;

/// A value after its placeholders were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The value; unknown placeholders stand in it as they were written.
    pub text: String,
    /// The names that nothing is known of.
    pub unknown: Vec<String>,
    /// The names whose default was taken.
    pub defaults: Vec<String>,
}

impl Resolved {
    /// The value, if all of it is known.
    pub fn known(&self) -> Option<&str> {
        self.unknown.is_empty().then_some(self.text.as_str())
    }
}

/// Resolves `text`; `lookup` says what a name stands for.
pub fn resolve(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Resolved {
    let mut resolved = Resolved { text: String::new(), unknown: Vec::new(), defaults: Vec::new() };
    resolved.text = inner(text, lookup, 0, &mut resolved.unknown, &mut resolved.defaults);
    resolved
}

fn inner(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    depth: usize,
    unknown: &mut Vec<String>,
    defaults: &mut Vec<String>,
) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        // A backslash before the placeholder makes it plain text (Spring 6.2 and later).
        if rest[..start].ends_with('\\') {
            result.push_str(&rest[..start - 1]);
            result.push_str("${");
            rest = &rest[start + 2..];
            continue;
        }
        let Some(length) = placeholder_length(&rest[start..]) else { break };
        result.push_str(&rest[..start]);
        let inside = &rest[start + 2..start + length - 1];
        rest = &rest[start + length..];
        if depth >= DEPTH_MAX || result.len() > LENGTH_MAX {
            unknown.push("a placeholder that leads to itself".to_owned());
            continue;
        }
        let (name, default) = match top_level_colon(inside) {
            Some(at) => (&inside[..at], Some(&inside[at + 1..])),
            None => (inside, None),
        };
        let name = inner(name, lookup, depth + 1, unknown, defaults);
        match (lookup(&name), default) {
            (Some(value), _) => result.push_str(&inner(&value, lookup, depth + 1, unknown, defaults)),
            (None, Some(default)) => {
                defaults.push(name);
                result.push_str(&inner(default, lookup, depth + 1, unknown, defaults));
            }
            (None, None) => {
                result.push_str(&format!("${{{name}}}"));
                if !unknown.contains(&name) {
                    unknown.push(name);
                }
            }
        }
    }
    result.push_str(rest);
    result
}

/// The length of `${…}` at the start of a text, braces in it balanced.
fn placeholder_length(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '{' => open += 1,
            '}' => {
                open = open.checked_sub(1)?;
                if open == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn top_level_colon(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '{' => open += 1,
            '}' => open = open.saturating_sub(1),
            ':' if open == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str, unknown: &[&str]) {
        let lookup = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "B" => Some("${A}2".to_owned()),
            "WHICH" => Some("A".to_owned()),
            "LOOP" => Some("x${LOOP}".to_owned()),
            "TWICE" => Some("${TWICE}${TWICE}".to_owned()),
            _ => None,
        };
        let resolved = resolve(text, &lookup);
        assert_eq!(
            (resolved.text.as_str(), resolved.unknown.iter().map(String::as_str).collect::<Vec<_>>()),
            (expected, unknown.to_vec()),
            "{text}"
        );
    }

    #[test]
    fn names_defaults_and_nesting() {
        check("x${A}y", "x1y", &[]);
        check("${B}", "12", &[]);
        check("${NO:7}", "7", &[]);
        check("${NO:mongodb://h:27017/?a=1}", "mongodb://h:27017/?a=1", &[]);
        check("${NO:${A}}", "1", &[]);
        check("${${WHICH}}", "1", &[]);
        check("${NO}", "${NO}", &["NO"]);
        check("${NO:}", "", &[]);
        check("${unclosed", "${unclosed", &[]);
        check("\\${A}", "${A}", &[]);
        check("}{", "}{", &[]);
    }

    #[test]
    fn loops_end() {
        for text in ["${LOOP}", "${TWICE}"] {
            let lookup = |name: &str| Some(if name == "LOOP" { "x${LOOP}" } else { "${LOOP}" }.to_owned());
            assert!(!resolve(text, &lookup).unknown.is_empty());
        }
    }
}
