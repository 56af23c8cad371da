//! A document as a tree in which every key and value knows its place.

use crate::source::Place;

/// The deepest nesting that is read.
pub const DEPTH_MAX: usize = 100;

/// The most nodes of a document, aliases expanded.
pub const NODES_MAX: usize = 200_000;

/// A value and its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it stands.
    pub place: Place,
}

/// What a node holds.
#[derive(Debug, Clone)]
pub enum Value {
    /// A scalar as text; numbers and booleans too.
    Scalar(String),
    /// Nothing: `null`, or an empty value.
    Null,
    /// A list.
    List(Vec<Node>),
    /// Keys and values, in order.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_place: Place,
    /// The value.
    pub node: Node,
}

impl Node {
    /// The entry with this key, the last one where there are several.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().rev().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The entries of a map; none of anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) => Some(text),
            _ => None,
        }
    }
}

/// Something wrong in a document; what could be read is read all the same.
#[derive(Debug, Clone)]
pub struct Flaw {
    /// What is wrong.
    pub message: String,
    /// Where.
    pub place: Place,
}
