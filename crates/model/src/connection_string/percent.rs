//! Percent-encoding (RFC 3986, 2.1), with the place of a mistake.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What stays unescaped in user name, password, host and database: RFC 3986's unreserved characters.
const STRICT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What is escaped in an option's value. `+` is, because the Java driver reads it as a space.
const VALUE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'+')
    .add(b';')
    .add(b'<')
    .add(b'=')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'`');

/// A text that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecodeError {
    /// A `%` at this offset without two hexadecimal digits after it.
    BadEscape(usize),
    /// The escapes give bytes that are no UTF-8.
    NotUtf8,
}

/// Decodes a text. `+` stays `+`.
pub(super) fn decode(text: &str) -> Result<String, DecodeError> {
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let is_escape = || bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        if *byte == b'%' && !is_escape() {
            return Err(DecodeError::BadEscape(at));
        }
    }
    percent_decode_str(text).decode_utf8().map(|text| text.into_owned()).map_err(|_| DecodeError::NotUtf8)
}

/// Encodes user name, password, host or database.
pub(super) fn encode_strict(text: &str) -> String {
    utf8_percent_encode(text, STRICT).to_string()
}

/// Encodes an option's value.
pub(super) fn encode_value(text: &str) -> String {
    utf8_percent_encode(text, VALUE).to_string()
}

/// The escaped spelling of one character.
pub(super) fn escape(character: char) -> String {
    encode_strict(character.encode_utf8(&mut [0; 4]))
}

/// Whether a decoded text still holds an escape, as a text has that was encoded twice.
pub(super) fn looks_encoded(decoded: &str) -> bool {
    decoded.as_bytes().windows(3).any(|three| three[0] == b'%' && three[1..].iter().all(u8::is_ascii_hexdigit))
}
