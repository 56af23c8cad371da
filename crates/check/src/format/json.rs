//! JSON with the place of every key and value. Comments are no JSON, and are an error here.

use std::sync::Arc;

use super::tree::{DEPTH_MAX, Entry, Flaw, NODES_MAX, Node, Value};
use crate::source::{Place, SourceFile};

/// Reads one document.
///
/// # Errors
/// The first mistake and its place.
pub fn read(file: &Arc<SourceFile>) -> Result<Node, Flaw> {
    let mut reader = Reader { file, text: &file.text, at: 0, nodes: 0 };
    let node = reader.value(0)?;
    reader.blanks();
    if reader.at < reader.text.len() {
        return Err(reader.flaw("something follows the end of the document"));
    }
    Ok(node)
}

struct Reader<'a> {
    file: &'a Arc<SourceFile>,
    text: &'a str,
    at: usize,
    nodes: usize,
}

impl Reader<'_> {
    fn flaw(&self, message: &str) -> Flaw {
        Flaw { message: format!("this is no JSON: {message}"), place: Place::new(self.file, self.at..self.at + 1) }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Flaw> {
        self.blanks();
        if self.peek() != Some(byte) {
            return Err(self.flaw(&format!("'{}' is missing", char::from(byte))));
        }
        self.at += 1;
        Ok(())
    }

    /// Whether a collection goes on after an item.
    fn goes_on(&mut self, end: u8) -> Result<bool, Flaw> {
        self.blanks();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.flaw(&format!("',' or '{}' is missing", char::from(end)))),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Flaw> {
        self.blanks();
        self.nodes += 1;
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            return Err(self.flaw("it is nested too deep or holds too many values"));
        }
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => {
                self.at += 1;
                let mut entries = Vec::new();
                self.blanks();
                if self.peek() == Some(b'}') {
                    self.at += 1;
                } else {
                    loop {
                        self.blanks();
                        let key_start = self.at;
                        let key = self.string()?;
                        let key_place = Place::new(self.file, key_start..self.at);
                        self.expect(b':')?;
                        let node = self.value(depth + 1)?;
                        entries.push(Entry { key, key_place, node });
                        if !self.goes_on(b'}')? {
                            break;
                        }
                    }
                }
                Value::Map(entries)
            }
            Some(b'[') => {
                self.at += 1;
                let mut items = Vec::new();
                self.blanks();
                if self.peek() == Some(b']') {
                    self.at += 1;
                } else {
                    loop {
                        items.push(self.value(depth + 1)?);
                        if !self.goes_on(b']')? {
                            break;
                        }
                    }
                }
                Value::List(items)
            }
            Some(b'"') => Value::Scalar(self.string()?),
            Some(_) => {
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                let length = self.text.as_bytes()[start..].iter().take_while(|byte| is_word(byte)).count();
                let word = &self.text[start..start + length];
                if word.is_empty() {
                    return Err(self.flaw("a value is missing"));
                }
                self.at += length;
                match word {
                    "null" => Value::Null,
                    _ => Value::Scalar(word.to_owned()),
                }
            }
            None => return Err(self.flaw("it ends too early")),
        };
        Ok(Node { value, place: Place::new(self.file, start..self.at) })
    }

    fn string(&mut self) -> Result<String, Flaw> {
        if self.peek() != Some(b'"') {
            return Err(self.flaw("a '\"' is missing"));
        }
        let start = self.at;
        let mut end = start + 1;
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(end) {
            match byte {
                b'"' => {
                    let text = serde_json::from_str(&self.text[start..=end]).map_err(|_| self.flaw("a bad text"))?;
                    self.at = end + 1;
                    return Ok(text);
                }
                b'\\' => end += 2,
                _ => end += 1,
            }
        }
        Err(self.flaw("a text does not end"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_values() {
        let file = SourceFile::new("a.json", "{\n  \"a\": {\"b\\n\": [1, true, null, \"x\"]}\n}\n");
        let node = read(&file).unwrap();
        let inner = &node.get("a").unwrap().entries()[0];
        assert_eq!((inner.key.as_str(), format!("{:?}", inner.key_place)), ("b\n", "a.json:2:9".to_owned()));
        assert!(matches!(&inner.node.value, Value::List(items) if items.len() == 4));
    }

    #[test]
    fn mistakes_have_a_place_and_deep_nesting_an_end() {
        for text in ["", "{", "{\"a\"}", "[1,]", "{\"a\":1}x", "\"", "\"\\", "{\"a\":\u{e4}}", "nul\u{0}"] {
            assert!(read(&SourceFile::new("a", text)).is_err(), "{text:?}");
        }
        assert!(read(&SourceFile::new("a", "[".repeat(200_000))).is_err());
    }
}
