//! YAML: several documents, anchors, merge keys, duplicate keys; with the place of every key and value.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use regex::Regex;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::tree::{DEPTH_MAX, Entry, Flaw, NODES_MAX, Node, Value};
use crate::source::{Place, SourceFile};

/// The documents of a file, and what is wrong with it. What comes before a mistake is read.
pub fn read(file: &Arc<SourceFile>) -> (Vec<Node>, Vec<Flaw>) {
    let text = without_filter_marks(&file.text);
    let mut reader = Reader::new(file);
    let mut parser = Parser::new_from_str(&text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => {
                if reader.event(event, span).is_err() {
                    break;
                }
            }
            Err(error) => {
                let at = reader.byte(error.marker().index());
                reader.flaws.push(Flaw {
                    message: format!("this is no YAML: {}", error.info()),
                    place: Place::new(file, at..at + 1),
                });
                break;
            }
        }
    }
    reader.finish()
}

/// Maven replaces `@name@` before anybody reads the file as YAML, in which a text cannot begin with `@`. Quotation marks
/// in their place keep every column.
fn without_filter_marks(text: &str) -> std::borrow::Cow<'_, str> {
    static MARKS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?m)(:[ \t]+|-[ \t]+)@([A-Za-z0-9_.\-]+)@([ \t]*\r?)$").ok());
    match MARKS.as_ref() {
        Some(marks) => marks.replace_all(text, "$1'$2'$3"),
        None => text.into(),
    }
}

/// A collection that is being read.
enum Open {
    List { items: Vec<Node>, anchor: usize, start: usize },
    Map { entries: Vec<Entry>, key: Option<(String, Place)>, anchor: usize, start: usize, merges: Vec<Node> },
}

struct Reader<'a> {
    file: &'a Arc<SourceFile>,
    /// The byte of each character, where the two differ.
    bytes: Option<Vec<usize>>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    documents: Vec<Node>,
    flaws: Vec<Flaw>,
    nodes: usize,
}

/// Reading cannot go on; a flaw says why.
struct Stop;

impl<'a> Reader<'a> {
    fn new(file: &'a Arc<SourceFile>) -> Self {
        let bytes = (!file.text.is_ascii()).then(|| file.text.char_indices().map(|(at, _)| at).collect());
        Self {
            file,
            bytes,
            open: Vec::new(),
            anchors: HashMap::new(),
            documents: Vec::new(),
            flaws: Vec::new(),
            nodes: 0,
        }
    }

    fn byte(&self, index: usize) -> usize {
        match &self.bytes {
            Some(bytes) => bytes.get(index).copied().unwrap_or(self.file.text.len()),
            None => index,
        }
    }

    fn place(&self, span: &Span) -> Place {
        self.between(self.byte(span.start.index()), self.byte(span.end.index()))
    }

    fn between(&self, start: usize, end: usize) -> Place {
        let text = self.file.text.get(start..end).unwrap_or_default();
        Place::new(self.file, start..start + text.trim_end().len())
    }

    fn flaw(&mut self, message: impl Into<String>, place: Place) {
        self.flaws.push(Flaw { message: message.into(), place });
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Stop> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            self.flaw("the file holds too many values to be read", self.place(&span));
            return Err(Stop);
        }
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let is_null = style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = if is_null { Value::Null } else { Value::Scalar(text.into_owned()) };
                self.value(Node { value, place: self.place(&span) }, anchor, 1)
            }
            Event::SequenceStart(anchor, _) => {
                let start = self.byte(span.start.index());
                self.open(Open::List { items: Vec::new(), anchor, start }, &span)
            }
            Event::MappingStart(anchor, _) => {
                let start = self.byte(span.start.index());
                self.open(Open::Map { entries: Vec::new(), key: None, anchor, start, merges: Vec::new() }, &span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(&span),
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some((mut node, size)) => {
                    self.nodes += size;
                    node.place = if size > 1 { node.place } else { self.place(&span) };
                    self.value(node, 0, size)
                }
                None => {
                    self.flaw("the alias names an anchor that is not there", self.place(&span));
                    self.value(Node { value: Value::Null, place: self.place(&span) }, 0, 1)
                }
            },
            Event::DocumentEnd => {
                self.anchors.clear();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => Ok(()),
        }
    }

    fn open(&mut self, open: Open, span: &Span) -> Result<(), Stop> {
        if self.open.len() >= DEPTH_MAX {
            self.flaw(format!("nested more than {DEPTH_MAX} deep"), self.place(span));
            return Err(Stop);
        }
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self, span: &Span) -> Result<(), Stop> {
        let end = self.byte(span.end.index());
        let (value, anchor, start) = match self.open.pop() {
            Some(Open::List { items, anchor, start }) => (Value::List(items), anchor, start),
            Some(Open::Map { entries, anchor, start, merges, .. }) => {
                (Value::Map(merged(entries, merges)), anchor, start)
            }
            None => return Ok(()),
        };
        let size = size(&value);
        self.value(Node { value, place: self.between(start, end) }, anchor, size)
    }

    fn value(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), Stop> {
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        if self.nodes > NODES_MAX {
            self.flaw("the file's aliases make too many values to be read", node.place);
            return Err(Stop);
        }
        let mut duplicate = None;
        match self.open.last_mut() {
            None => self.documents.push(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, merges, .. }) => match key.take() {
                None => {
                    let text = match node.value {
                        Value::Scalar(text) => text,
                        Value::Null => String::new(),
                        Value::List(_) | Value::Map(_) => "?".to_owned(),
                    };
                    *key = Some((text, node.place));
                }
                Some((name, _)) if name == "<<" => match node.value {
                    Value::List(items) => merges.extend(items),
                    _ => merges.push(node),
                },
                Some((key, key_place)) => {
                    if entries.iter().any(|entry| entry.key == key) {
                        duplicate = Some((key.clone(), key_place.clone()));
                    }
                    entries.push(Entry { key, key_place, node });
                }
            },
        }
        if let Some((key, place)) = duplicate {
            self.flaw(format!("the key '{key}' occurs twice in one map; Spring Boot refuses such a file"), place);
        }
        Ok(())
    }

    fn finish(mut self) -> (Vec<Node>, Vec<Flaw>) {
        // A mistake in the middle: what is open is closed, so that what came before it counts.
        while let Some(open) = self.open.pop() {
            let end = self.file.text.len();
            let (value, start) = match open {
                Open::List { items, start, .. } => (Value::List(items), start),
                Open::Map { entries, merges, start, .. } => (Value::Map(merged(entries, merges)), start),
            };
            let node = Node { value, place: self.between(start, end) };
            if self.value(node, 0, 1).is_err() {
                break;
            }
        }
        (self.documents, self.flaws)
    }
}

/// Merged entries stand behind a map's own: a key of its own wins, then the first map that has it.
fn merged(mut entries: Vec<Entry>, merges: Vec<Node>) -> Vec<Entry> {
    for map in merges {
        for entry in map.entries() {
            if !entries.iter().any(|own| own.key == entry.key) {
                entries.push(entry.clone());
            }
        }
    }
    entries
}

fn size(value: &Value) -> usize {
    let mut total: usize = 1;
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        total += 1;
        match value {
            Value::List(items) => left.extend(items.iter().map(|item| &item.value)),
            Value::Map(entries) => left.extend(entries.iter().map(|entry| &entry.node.value)),
            Value::Scalar(_) | Value::Null => {}
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docs(text: &str) -> (Vec<Node>, Vec<String>) {
        let (documents, flaws) = read(&SourceFile::new("a.yml", text));
        (documents, flaws.into_iter().map(|flaw| format!("{:?} {}", flaw.place, flaw.message)).collect())
    }

    #[test]
    fn every_key_and_value_has_its_place() {
        let (documents, flaws) = docs("ä: x\nspring:\n  kafka: 'q'\n---\nb: [1, 2]\n");
        assert!(flaws.is_empty() && documents.len() == 2, "{flaws:?}");
        let spring = &documents[0].entries()[1];
        let kafka = &spring.node.entries()[0];
        assert_eq!(format!("{:?} {:?}", kafka.key_place, kafka.node.place), "a.yml:3:3 a.yml:3:10");
        assert_eq!(kafka.node.place.shown_line().width, 3);
    }

    #[test]
    fn anchors_merge_keys_and_duplicates() {
        let (documents, flaws) = docs("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\ndup: 1\ndup: 2\n");
        let used = documents[0].get("use").unwrap();
        assert_eq!((used.get("x").unwrap().text(), used.get("y").unwrap().text()), (Some("1"), Some("3")));
        assert!(flaws.len() == 1 && flaws[0].contains("'dup' occurs twice"), "{flaws:?}");
        assert_eq!(documents[0].get("dup").unwrap().text(), Some("2"));
    }

    #[test]
    fn what_comes_before_a_mistake_is_read() {
        let (documents, flaws) = docs("a: 1\nb:\n  c: 2\n d: 3\n");
        assert_eq!(documents[0].get("a").and_then(Node::text), Some("1"));
        assert_eq!(flaws.len(), 1);
    }

    #[test]
    fn maven_placeholders_are_no_mistake() {
        let (documents, flaws) = docs("v: @project.version@\n");
        assert_eq!((documents[0].get("v").and_then(Node::text), flaws.len()), (Some("project.version"), 0));
    }

    #[test]
    fn bombs_and_deep_nesting_end_in_a_flaw() {
        let mut bomb = String::from("a0: &a0 [x]\n");
        for level in 1..40 {
            bomb += &format!("a{level}: &a{level} [*a{0}, *a{0}, *a{0}]\n", level - 1);
        }
        assert!(docs(&bomb).1.iter().any(|flaw| flaw.contains("too many values")));
        assert!(!docs(&"[".repeat(100_000)).1.is_empty());
        assert!(!docs(&"{a: ".repeat(50_000)).1.is_empty());
        docs(&"- ".repeat(50_000));
    }
}
