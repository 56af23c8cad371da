//! Text that people read: cleaned of what could mislead, cut where it is too long, and times and numbers as they are said.

/// The most characters of one text from a recording that is shown.
pub const TEXT_CHARS_MAX: usize = 300;

/// A text from a recording, fit to be shown anywhere: no control characters, nothing that turns the direction of writing, at
/// most [`TEXT_CHARS_MAX`] characters. What is replaced stays visible as its code.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len().min(TEXT_CHARS_MAX * 4));
    for (at, character) in text.chars().enumerate() {
        if at == TEXT_CHARS_MAX {
            clean.push('…');
            break;
        }
        match character {
            '\n' | '\r' | '\t' => clean.push(' '),
            bad if misleads(bad) => clean.push_str(&format!("\\u{{{:x}}}", u32::from(bad))),
            good => clean.push(good),
        }
    }
    clean
}

/// Characters that are invisible, forbidden in XML, or change how their neighbours are shown.
fn misleads(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// The text with the five characters that mean something to HTML and XML as references.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A text from a recording as HTML or XML.
pub fn data(text: &str) -> String {
    escape(&clean(text))
}

/// `240 ms`, `30.0 s`, `4 min 0 s`, `2 h 5 min`.
pub fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        120_000..7_200_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {} min", grouped(ms / 3_600_000), ms % 3_600_000 / 60_000),
    }
}

/// A point of time, in seconds.
pub fn moment(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1_000, ms % 1_000)
}

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 send`, `8 sends`, `2 copies`.
pub fn many(number: u64, one: &str) -> String {
    let number_text = grouped(number);
    match one.strip_suffix('y') {
        _ if number == 1 => format!("{number_text} {one}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{number_text} {stem}ies"),
        _ => format!("{number_text} {one}s"),
    }
}

/// A, B, … Z, AA, AB, …
pub fn letter(mut number: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'A' + (number % 26) as u8));
        match (number / 26).checked_sub(1) {
            Some(rest) => number = rest,
            None => break,
        }
    }
    letters.into_iter().rev().collect()
}

/// JSON that may stand inside a `<script>` element: nothing in it can end the element or begin a comment.
pub fn json_in_html(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_misleads_is_shown_as_its_code() {
        assert_eq!(clean("a\u{202e}b\u{0}c\nd\u{feff}"), "a\\u{202e}b\\u{0}c d\\u{feff}");
        assert_eq!(clean("größer, 日本, 🦀"), "größer, 日本, 🦀");
        assert_eq!(clean(&"x".repeat(1_000)).chars().count(), TEXT_CHARS_MAX + 1);
        assert_eq!(data("<b a='1'>&\""), "&lt;b a=&#39;1&#39;&gt;&amp;&quot;");
    }

    #[test]
    fn times_are_said_as_people_do() {
        let cases = [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (30_049, "30.0 s"),
            (119_999, "119.9 s"),
            (240_040, "4 min 0 s"),
            (7_500_000, "2 h 5 min"),
            (u64::MAX, "5,124,095,576,030 h 25 min"),
        ];
        for (ms, text) in cases {
            assert_eq!(span(ms), text);
        }
        assert_eq!(moment(240_040), "240.040 s");
    }

    #[test]
    fn numbers_are_grouped_and_counted() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [many(1, "copy"), many(2, "copy"), many(0, "send"), many(2, "reply")],
            ["1 copy", "2 copies", "0 sends", "2 replies"]
        );
        assert_eq!(many(2, "day"), "2 days");
    }

    #[test]
    fn sessions_get_letters() {
        assert_eq!([0, 1, 25, 26, 27, 701, 702].map(letter), ["A", "B", "Z", "AA", "AB", "ZZ", "AAA"]);
    }

    #[test]
    fn json_cannot_end_its_script_element() {
        assert_eq!(json_in_html(r#"{"a":"</script><!--&"}"#), r#"{"a":"\u003c/script\u003e\u003c!--\u0026"}"#);
    }
}
