//! Regular expressions with PCRE's syntax and error texts.
//!
//! Patterns run on `fancy-regex`, which falls back to backtracking only for look-around and back-references. The
//! pattern is rewritten where the two syntaxes differ: `\d`, `\w`, `\s` and POSIX classes are ASCII, `$` also matches
//! before a final newline, a brace or a bracket that means nothing is itself.

use crate::error::{CommandError, Result, fail};

/// The longest pattern that a mongod takes.
const MAX_PATTERN_BYTES: usize = 32_764;
/// Backtracking steps for one search before it counts as no match.
const BACKTRACK_LIMIT: usize = 1_000_000;

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub struct Regex {
    compiled: fancy_regex::Regex,
    pattern: String,
    options: String,
}

/// One match with its capture groups, as byte ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captures {
    /// The whole match.
    pub whole: std::ops::Range<usize>,
    /// The groups, `None` where a group took no part.
    pub groups: Vec<Option<std::ops::Range<usize>>>,
}

/// Why a pattern or its options were refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The pattern; PCRE's words.
    Pattern(String),
    /// An option letter.
    Option(char),
}

impl Regex {
    /// Compiles a pattern with the option letters `imsx`.
    ///
    /// # Errors
    /// 51091 with PCRE's words for a bad pattern, 51108 for an unknown option.
    pub fn new(pattern: &str, options: &str) -> Result<Self> {
        Self::compile(pattern, options).map_err(|refusal| match refusal {
            Refusal::Pattern(why) => CommandError::new(51091, format!("Regular expression is invalid: {why}")),
            Refusal::Option(letter) => CommandError::new(51108, format!("invalid flag in regex options: {letter}")),
        })
    }

    /// Compiles a pattern, leaving the spelling of errors to the caller.
    ///
    /// # Errors
    /// What was refused.
    pub fn compile(pattern: &str, options: &str) -> std::result::Result<Self, Refusal> {
        let mut flags = String::new();
        let mut multiline = false;
        for letter in options.chars() {
            match letter {
                'i' | 's' | 'x' => flags.push(letter),
                'm' => {
                    multiline = true;
                    flags.push('m');
                }
                'u' => {}
                other => return Err(Refusal::Option(other)),
            }
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(Refusal::Pattern("regular expression is too large".into()));
        }
        let body = translate(pattern, multiline, flags.contains('x')).map_err(|why| Refusal::Pattern(why.into()))?;
        let source = if flags.is_empty() { body } else { format!("(?{flags}){body}") };
        let compiled = fancy_regex::RegexBuilder::new(&source)
            .backtrack_limit(BACKTRACK_LIMIT)
            .build()
            .map_err(|error| Refusal::Pattern(error.to_string()))?;
        Ok(Self { compiled, pattern: pattern.to_owned(), options: options.to_owned() })
    }

    /// The pattern as given.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The option letters as given.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Whether it matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.compiled.is_match(text).unwrap_or(false)
    }

    /// The number of capture groups.
    pub fn group_count(&self) -> usize {
        self.compiled.captures_len() - 1
    }

    /// The first match at or after byte `from`.
    pub fn find_from(&self, text: &str, from: usize) -> Option<Captures> {
        let captures = self.compiled.captures_from_pos(text, from).ok()??;
        let whole = captures.get(0)?.range();
        let groups = (1..captures.len()).map(|at| captures.get(at).map(|group| group.range())).collect();
        Some(Captures { whole, groups })
    }
}

/// Reads a regular expression from a `$regex`/`$options` pair that was checked for types.
///
/// # Errors
/// As [`Regex::new`]; `BadValue` for a zero byte.
pub fn from_parts(pattern: &str, options: &str) -> Result<Regex> {
    if pattern.contains('\0') {
        return fail(2, "Regular expression cannot contain an embedded null byte");
    }
    if options.contains('\0') {
        return fail(2, "Regular expression options string cannot contain an embedded null byte");
    }
    Regex::new(pattern, options)
}

/// Rewrites PCRE syntax; the error is PCRE's own text.
fn translate(pattern: &str, multiline: bool, extended: bool) -> std::result::Result<String, &'static str> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = Cursor { chars: pattern.chars().collect(), at: 0 };
    let mut depth = 0_usize;
    // whether there is something that a quantifier can repeat
    let mut repeatable = false;
    while let Some(letter) = chars.next() {
        match letter {
            '\\' => {
                repeatable = true;
                escape(&mut chars, &mut out)?;
            }
            '[' => {
                repeatable = true;
                class(&mut chars, &mut out)?;
            }
            '(' => {
                depth += 1;
                repeatable = false;
                out.push('(');
                if chars.peek() == Some('?') {
                    group(&mut chars, &mut out, &mut depth)?;
                }
            }
            ')' => {
                if depth == 0 {
                    return Err("unmatched parentheses");
                }
                depth -= 1;
                repeatable = true;
                out.push(')');
            }
            '*' | '+' | '?' => {
                if !repeatable {
                    return Err("nothing to repeat");
                }
                out.push(letter);
                if matches!(chars.peek(), Some('+' | '?')) {
                    out.extend(chars.next());
                }
                repeatable = false;
            }
            '{' => match counts(&chars) {
                Some((text, low, high)) => {
                    if !repeatable {
                        return Err("nothing to repeat");
                    }
                    if low > 65_535 || high.is_some_and(|high| high > 65_535) {
                        return Err("number too big in {} quantifier");
                    }
                    if high.is_some_and(|high| high < low) {
                        return Err("numbers out of order in {} quantifier");
                    }
                    chars.at += text.chars().count();
                    out.push('{');
                    out.push_str(&text);
                    if matches!(chars.peek(), Some('+' | '?')) {
                        out.extend(chars.next());
                    }
                    repeatable = false;
                }
                None => {
                    out.push_str("\\{");
                    repeatable = true;
                }
            },
            '}' | ']' => {
                out.push('\\');
                out.push(letter);
                repeatable = true;
            }
            '$' if !multiline => {
                // at the end, or before a newline there
                out.push_str("(?:$|(?=\\n\\z))");
                repeatable = true;
            }
            '|' => {
                out.push('|');
                repeatable = false;
            }
            '^' => {
                out.push('^');
                repeatable = true;
            }
            '#' if extended => while chars.next().is_some_and(|letter| letter != '\n') {},
            ' ' | '\t' | '\n' | '\r' if extended => out.push(letter),
            other => {
                out.push(other);
                repeatable = true;
            }
        }
    }
    if depth > 0 {
        return Err("missing )");
    }
    Ok(out)
}

struct Cursor {
    chars: Vec<char>,
    at: usize,
}

impl Cursor {
    fn next(&mut self) -> Option<char> {
        let letter = self.chars.get(self.at).copied()?;
        self.at += 1;
        Some(letter)
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn rest(&self) -> &[char] {
        &self.chars[self.at..]
    }
}

/// `n}`, `n,}` or `n,m}`.
fn counts(chars: &Cursor) -> Option<(String, u64, Option<u64>)> {
    let rest = chars.rest();
    let end = rest.iter().take(24).position(|letter| *letter == '}')?;
    let text: String = rest[..end].iter().collect();
    let (low, high) = match text.split_once(',') {
        None => (text.as_str(), Some(text.as_str())),
        Some((low, "")) => (low, None),
        Some((low, high)) => (low, Some(high)),
    };
    let number = |digits: &str| {
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| digits.parse::<u64>().unwrap_or(u64::MAX))
    };
    let low = number(low)?;
    let high = match high {
        None => None,
        Some(digits) => Some(number(digits)?),
    };
    Some((format!("{text}}}"), low, high))
}

fn group(chars: &mut Cursor, out: &mut String, depth: &mut usize) -> std::result::Result<(), &'static str> {
    let rest: String = chars.rest().iter().take(4).collect();
    if rest.starts_with("?#") {
        // a comment
        loop {
            match chars.next() {
                None => return Err("missing ) after comment"),
                Some(')') => break,
                Some(_) => {}
            }
        }
        out.push_str("?:)");
        *depth -= 1;
        return Ok(());
    }
    let known = ["?:", "?=", "?!", "?<=", "?<!", "?>", "?P<", "?<", "?'", "?P=", "?P>", "?("];
    if let Some(start) = known.iter().find(|start| rest.starts_with(**start)) {
        match *start {
            "?P=" => {
                // a back-reference by name
                chars.at += 3;
                let mut name = String::new();
                while let Some(letter) = chars.next().filter(|letter| *letter != ')') {
                    name.push(letter);
                }
                out.pop();
                out.push_str(&format!("\\k<{name}>"));
                *depth -= 1;
            }
            "?'" => {
                chars.at += 2;
                out.push_str("?<");
                while let Some(letter) = chars.next().filter(|letter| *letter != '\'') {
                    out.push(letter);
                }
                out.push('>');
            }
            other => {
                chars.at += other.chars().count();
                out.push_str(other);
                if matches!(other, "?P<" | "?<") {
                    while let Some(letter) = chars.next() {
                        out.push(letter);
                        if letter == '>' {
                            break;
                        }
                    }
                }
            }
        }
        return Ok(());
    }
    // option letters
    chars.next();
    out.push('?');
    loop {
        match chars.next() {
            Some(letter @ ('i' | 'm' | 's' | 'x' | '-')) => out.push(letter),
            Some('J' | 'U' | 'X') => {}
            Some(':') => {
                out.push(':');
                return Ok(());
            }
            Some(')') => {
                out.push(')');
                *depth -= 1;
                return Ok(());
            }
            None => return Err("missing )"),
            Some(_) => return Err("unrecognized character after (? or (?-"),
        }
    }
}

fn escape(chars: &mut Cursor, out: &mut String) -> std::result::Result<(), &'static str> {
    let Some(letter) = chars.next() else { return Err("\\ at end of pattern") };
    match letter {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[A-Za-z0-9_]"),
        'W' => out.push_str("[^A-Za-z0-9_]"),
        's' => out.push_str("[ \\t\\n\\r\\f\\x0B]"),
        'S' => out.push_str("[^ \\t\\n\\r\\f\\x0B]"),
        'h' => out.push_str("[ \\t\\x{a0}]"),
        'H' => out.push_str("[^ \\t\\x{a0}]"),
        'N' => out.push_str("[^\\n]"),
        'R' => out.push_str("(?:\\r\\n|[\\n\\r\\f\\x0B])"),
        'b' => out.push_str("\\b"),
        'B' => out.push_str("\\B"),
        'A' => out.push_str("\\A"),
        'z' => out.push_str("\\z"),
        'Z' => out.push_str("(?=\\n?\\z)"),
        'e' => out.push_str("\\x1B"),
        'v' => out.push_str("[\\n\\r\\f\\x0B]"),
        'Q' => {
            // literal up to \E
            while let Some(letter) = chars.next() {
                if letter == '\\' && chars.peek() == Some('E') {
                    chars.next();
                    break;
                }
                push_literal(out, letter);
            }
        }
        'E' => {}
        'x' => hexadecimal(chars, out),
        'n' | 't' | 'r' | 'f' | 'a' | 'G' | 'K' | 'p' | 'P' | 'k' => {
            out.push('\\');
            out.push(letter);
        }
        '1'..='9' => {
            out.push('\\');
            out.push(letter);
            while let Some(digit) = chars.peek().filter(char::is_ascii_digit) {
                out.push(digit);
                chars.next();
            }
        }
        '0' => octal(chars, out),
        other => push_literal(out, other),
    }
    Ok(())
}

fn hexadecimal(chars: &mut Cursor, out: &mut String) {
    if chars.peek() == Some('{') {
        out.push_str("\\x");
        return;
    }
    let mut value = 0;
    for _ in 0..2 {
        let Some(digit) = chars.peek().and_then(|letter| letter.to_digit(16)) else { break };
        value = value * 16 + digit;
        chars.next();
    }
    out.push_str(&format!("\\x{{{value:x}}}"));
}

fn octal(chars: &mut Cursor, out: &mut String) {
    let mut value = 0;
    for _ in 0..2 {
        let Some(digit) = chars.peek().and_then(|letter| letter.to_digit(8)) else { break };
        value = value * 8 + digit;
        chars.next();
    }
    out.push_str(&format!("\\x{{{value:x}}}"));
}

fn push_literal(out: &mut String, letter: char) {
    if letter.is_ascii_punctuation() && letter != '<' && letter != '>' {
        out.push('\\');
    }
    out.push(letter);
}

/// A bracketed class, its opening bracket taken.
fn class(chars: &mut Cursor, out: &mut String) -> std::result::Result<(), &'static str> {
    const UNCLOSED: &str = "missing terminating ] for character class";
    out.push('[');
    if chars.peek() == Some('^') {
        chars.next();
        out.push('^');
    }
    let mut first = true;
    // the last single character, for the order of ranges
    let mut low: Option<char> = None;
    let mut in_range = false;
    loop {
        let Some(letter) = chars.next() else { return Err(UNCLOSED) };
        let mut single = None;
        match letter {
            ']' if !first => {
                out.push(']');
                return Ok(());
            }
            '[' if matches!(chars.peek(), Some(':')) => {
                let rest: String = chars.rest().iter().collect();
                match rest.find(":]") {
                    Some(end) => {
                        let name = &rest[1..end];
                        let known = name.trim_start_matches('^');
                        const NAMES: [&str; 14] = [
                            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
                            "space", "upper", "word", "xdigit",
                        ];
                        if !NAMES.contains(&known) {
                            return Err("unknown POSIX class name");
                        }
                        out.push_str(&format!("[:{name}:]"));
                        chars.at += rest[..end].chars().count() + 2;
                    }
                    None => {
                        out.push_str("\\[");
                        single = Some('[');
                    }
                }
            }
            '\\' => {
                let Some(escaped) = chars.next() else { return Err("\\ at end of pattern") };
                match escaped {
                    'd' => out.push_str("0-9"),
                    'D' => out.push_str("[^0-9]"),
                    'w' => out.push_str("A-Za-z0-9_"),
                    'W' => out.push_str("[^A-Za-z0-9_]"),
                    's' => out.push_str(" \\t\\n\\r\\f\\x0B"),
                    'S' => out.push_str("[^ \\t\\n\\r\\f\\x0B]"),
                    'h' => out.push_str(" \\t\\x{a0}"),
                    'b' => out.push_str("\\x08"),
                    'e' => out.push_str("\\x1B"),
                    'x' => hexadecimal(chars, out),
                    '0' => octal(chars, out),
                    'n' | 't' | 'r' | 'f' | 'a' | 'p' | 'P' => {
                        out.push('\\');
                        out.push(escaped);
                        if matches!(escaped, 'p' | 'P') && chars.peek() == Some('{') {
                            while let Some(letter) = chars.next() {
                                out.push(letter);
                                if letter == '}' {
                                    break;
                                }
                            }
                        }
                    }
                    other => {
                        push_literal(out, other);
                        single = Some(other);
                    }
                }
            }
            '-' => {
                let ends = chars.peek() == Some(']');
                if low.is_some() && !in_range && !ends {
                    out.push('-');
                    in_range = true;
                    first = false;
                    continue;
                }
                out.push_str("\\-");
                single = Some('-');
            }
            other => {
                push_literal(out, other);
                single = Some(other);
            }
        }
        if in_range {
            if let (Some(low), Some(high)) = (low, single)
                && high < low
            {
                return Err("range out of order in character class");
            }
            in_range = false;
            low = None;
        } else {
            low = single;
        }
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn matching() {
        let check = |pattern: &str, options: &str, text: &str, want: bool| {
            let regex = Regex::new(pattern, options).unwrap();
            assert_eq!(regex.is_match(text), want, "/{pattern}/{options} on {text:?}");
        };
        check("^ap", "", "apple", true);
        check("^AP", "i", "apple", true);
        check("a$", "", "a\n", true);
        check("a$", "", "a\nb", false);
        check("a$", "m", "a\nb", true);
        check("a.b", "s", "a\nb", true);
        check("a b # c", "x", "ab", true);
        check("\\d", "", "\u{663}", false);
        check("[[:alpha:]]", "", "é", false);
        check("[[]", "", "[", true);
        check("a{,2}", "", "a{,2}", true);
        check("{x}", "", "{x}", true);
        check("(a)\\1", "", "aa", true);
        check("foo(?=bar)", "", "foobar", true);
        check("\\Qa.b\\E", "", "axb", false);
        check("[a&&b]", "", "&", true);
        check("\\/\\-\\_", "", "/-_", true);
        check("[^]]", "", "]", false);
        check("(?i)A", "", "a", true);
        check("(?<n>a)(?P=n)", "", "aa", true);
    }

    #[test]
    fn errors_are_those_of_pcre() {
        let check = |pattern: &str, why: &str| {
            let error = Regex::new(pattern, "").unwrap_err();
            assert_eq!((error.code, error.message), (51091, format!("Regular expression is invalid: {why}")));
        };
        check("(", "missing )");
        check(")", "unmatched parentheses");
        check("*a", "nothing to repeat");
        check("[a", "missing terminating ] for character class");
        check("[z-a]", "range out of order in character class");
        check("a{3,2}", "numbers out of order in {} quantifier");
        check("\\", "\\ at end of pattern");
        check("(?q)", "unrecognized character after (? or (?-");
        assert_eq!(Regex::new("a", "g").unwrap_err().code, 51108);
    }

    proptest! {
        #[test]
        fn any_pattern_is_an_error_or_a_regex(pattern in "\\PC{0,12}", text in "\\PC{0,12}") {
            if let Ok(regex) = Regex::new(&pattern, "") {
                regex.is_match(&text);
                regex.find_from(&text, 0);
            }
        }

        #[test]
        fn punctuation_soup(pattern in "[\\[\\](){}?*+|^$\\\\a-c0-2:<>=!,-]{0,10}") {
            let _ = Regex::new(&pattern, "i").map(|regex| regex.is_match("abc"));
        }
    }
}
