//! A command as it came from a connection.

use std::collections::HashSet;

use backfire_model::RequestId;
use backfire_wire::{MessageFlags, OpMsg, OpQuery, Sequence, scan};
use bson::RawDocument;
use bytes::Bytes;
use smallvec::SmallVec;

use crate::error::{CommandError, Result};
use crate::sessions::NOBODY;
use crate::value::View;

/// How a command came, and so how its reply goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `OP_MSG`.
    Msg,
    /// `OP_QUERY` on `<db>.$cmd`, answered with `OP_REPLY`.
    Query,
}

/// Of so many fields, each name is compared with each; of more, a table is made.
const FIELDS_COMPARED: usize = 32;

/// How many fields of a command are found without an allocation. Drivers send about ten.
const FIELDS_INLINE: usize = 16;

/// Where a field of the command lies in its document.
#[derive(Debug, Clone, Copy)]
struct Place {
    kind: u8,
    /// Of its name: see [`tag`].
    tag: u32,
    /// Where the element begins: type, name, zero byte, value.
    start: u32,
    name_size: u32,
    value_size: u32,
}

impl Place {
    fn of(field: &scan::Field<'_>) -> Self {
        // A document is smaller than 2 GiB: its length is a signed 32-bit number.
        let [start, name_size, value_size] = [field.start, field.name.len(), field.value.len()].map(|size| size as u32);
        Self { kind: field.kind, tag: tag(field.name), start, name_size, value_size }
    }

    fn is_called(self, tag: u32, name: &[u8], document: &[u8]) -> bool {
        self.tag == tag && self.name(document) == name
    }

    fn name(self, document: &[u8]) -> &[u8] {
        let begin = self.start as usize + 1;
        &document[begin..begin + self.name_size as usize]
    }

    fn value(self, document: &[u8]) -> &[u8] {
        let begin = self.start as usize + 1 + self.name_size as usize + 1;
        &document[begin..begin + self.value_size as usize]
    }
}

/// Length, first, middle and last byte of a name: what tells most names of fields apart in one comparison. Of a name that stands in
/// the code, the compiler knows it.
#[inline]
fn tag(name: &[u8]) -> u32 {
    match name {
        [] => 0,
        [first, ..] => u32::from_le_bytes([name.len() as u8, *first, name[name.len() / 2], name[name.len() - 1]]),
    }
}

/// A command that has been read.
#[derive(Debug, Clone)]
pub struct Request {
    /// The message's `requestID`.
    pub id: RequestId,
    /// How it came.
    pub protocol: Protocol,
    /// The command document. Validated.
    body: Bytes,
    /// Its fields. A command is asked for some twenty fields, and has few of them.
    fields: SmallVec<[Place; FIELDS_INLINE]>,
    /// Document sequences that belong to it. Validated.
    pub sequences: Vec<Sequence>,
    /// The client wants no reply.
    pub no_reply: bool,
    /// The client takes several replies.
    pub exhaust_allowed: bool,
    /// Whom the sessions belong to that it names: the digest of its sender.
    pub session_owner: [u8; 32],
    database: Option<String>,
}

impl Request {
    /// A request from an `OP_MSG`.
    pub fn from_msg(id: RequestId, message: OpMsg) -> Self {
        Self {
            id,
            protocol: Protocol::Msg,
            fields: places(&message.body),
            body: message.body,
            sequences: message.sequences,
            no_reply: message.flags.has(MessageFlags::MORE_TO_COME),
            exhaust_allowed: message.flags.has(MessageFlags::EXHAUST_ALLOWED),
            session_owner: NOBODY,
            database: None,
        }
    }

    /// A request from an `OP_QUERY` on `<database>.$cmd`. A command may be wrapped in `$query` or `query`.
    pub fn from_query(id: RequestId, database: &str, query: &OpQuery) -> Self {
        let first = scan::fields(&query.query).next().and_then(Result::ok);
        let body = match first {
            Some(field) if matches!(field.name, b"$query" | b"query") && field.kind == scan::kind::DOCUMENT => {
                query.query.slice_ref(field.value)
            }
            _ => query.query.clone(),
        };
        Self {
            id,
            protocol: Protocol::Query,
            fields: places(&body),
            body,
            sequences: Vec::new(),
            no_reply: false,
            exhaust_allowed: false,
            session_owner: NOBODY,
            database: Some(database.to_owned()),
        }
    }

    /// The same request with another command document, which must be valid BSON.
    pub fn with_body(&self, body: Bytes) -> Self {
        Self { fields: places(&body), body, ..self.clone() }
    }

    /// The bytes of the command document.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The command document.
    pub fn document(&self) -> &RawDocument {
        raw(&self.body)
    }

    /// The command's name: the first field of the document, whatever it is.
    pub fn command_name(&self) -> &str {
        self.fields.first().map_or("", |place| self.name(place))
    }

    /// What the command's name is given as: the first field's value.
    pub fn first(&self) -> Option<View<'_>> {
        self.fields.first().and_then(|place| self.value(place))
    }

    /// The names of the command's fields behind the first, in order.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.fields.iter().skip(1).map(|place| place.name(&self.body))
    }

    fn name(&self, place: &Place) -> &str {
        name_text(place.name(&self.body))
    }

    /// A name that two fields of the command have.
    pub fn name_given_twice(&self) -> Option<&str> {
        let was_before = |at: usize| {
            let (before, place) = (&self.fields[..at], self.fields[at]);
            before.iter().any(|other| other.is_called(place.tag, place.name(&self.body), &self.body))
        };
        // A table, where comparing each with each would take long.
        let at = if self.fields.len() <= FIELDS_COMPARED {
            (0..self.fields.len()).find(|at| was_before(*at))
        } else {
            let mut seen = HashSet::new();
            self.fields.iter().position(|place| !seen.insert(place.name(&self.body)))
        };
        at.map(|at| self.name(&self.fields[at]))
    }

    /// The database it runs on.
    ///
    /// # Errors
    /// 40571 without a `$db`, 13111 when it is not a string.
    pub fn database(&self) -> Result<&str> {
        if let Some(database) = &self.database {
            return Ok(database);
        }
        match self.get("$db") {
            Some(View::String(database)) => Ok(database),
            None => Err(CommandError::new(40571, "OP_MSG requests require a $db argument")),
            Some(other) => {
                Err(CommandError::new(13111, format!("wrong type for field ($db) {} != string", other.type_name())))
            }
        }
    }

    /// A field of the command.
    #[inline]
    pub fn get(&self, name: &str) -> Option<View<'_>> {
        let tag = tag(name.as_bytes());
        let place = self.fields.iter().find(|place| place.is_called(tag, name.as_bytes(), &self.body))?;
        self.value(place)
    }

    fn value(&self, place: &Place) -> Option<View<'_>> {
        View::of_field(place.kind, place.value(&self.body))
            .or_else(|| self.document().get(self.name(place)).ok().flatten().map(View::from))
    }

    /// The documents of an array field, given in the body or as a document sequence.
    pub fn sequence(&self, name: &str) -> Option<&Sequence> {
        self.sequences.iter().find(|sequence| sequence.name == name)
    }
}

/// The name of a field of a validated document, which is text.
pub fn name_text(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap_or("")
}

/// Where the fields of a valid document lie.
fn places(document: &[u8]) -> SmallVec<[Place; FIELDS_INLINE]> {
    scan::fields(document).map_while(Result::ok).map(|field| Place::of(&field)).collect()
}

/// Validated bytes as a document.
///
/// # Panics
/// When the bytes are not a document, which validation has excluded.
pub fn raw(bytes: &[u8]) -> &RawDocument {
    RawDocument::from_bytes(bytes).expect("validated when it was read")
}

#[cfg(test)]
mod tests {
    use backfire_wire::{Frame, OpMsgEncoder};

    use super::*;
    use crate::commands::idl::whole_number;

    /// A request whose fields have these names.
    fn request<'a>(names: impl IntoIterator<Item = &'a str>) -> Request {
        let mut body = vec![0; 4];
        for (value, name) in names.into_iter().enumerate() {
            body.extend([&[scan::kind::INT], name.as_bytes(), &[0], &(value as i32).to_le_bytes()].concat());
        }
        body.push(0);
        let length_bytes = body.len() as i32;
        body[..4].copy_from_slice(&length_bytes.to_le_bytes());
        let bytes = OpMsgEncoder::new(MessageFlags(0), 0).body(&body).finish(1, 0, false);
        let frame = Frame::from_whole(bytes.into()).expect("a frame");
        Request::from_msg(RequestId(1), OpMsg::parse(&frame).expect("a message"))
    }

    #[test]
    fn a_name_given_twice_is_found_however_many_there_are() {
        let names: Vec<String> = (0..80).map(|number| format!("field{number}")).collect();
        for count in [1, 15, 16, 17, 31, 32, 33, 80] {
            let once = || names[..count].iter().map(String::as_str);
            assert_eq!(request(once()).name_given_twice(), None, "{count}");
            for twice in [0, count / 2, count - 1] {
                let twice = names[twice].as_str();
                assert_eq!(request(once().chain([twice])).name_given_twice(), Some(twice), "{count}");
            }
        }
    }

    #[test]
    fn fields_are_told_apart() {
        // The same length, first, middle and last byte; empty; no ASCII; longer than a byte can count.
        let long = "x".repeat(256 + 3);
        let names = ["abcde", "aXcYe", "", "é", &long, "xxx"];
        let request = request(names);
        for (value, name) in names.into_iter().enumerate() {
            assert_eq!(request.get(name).and_then(whole_number), Some(value as i64), "{name}");
        }
        for absent in ["abcdf", "a", "xx", "xxxx"] {
            assert!(request.get(absent).is_none(), "{absent}");
        }
        assert_eq!((request.command_name(), request.first().and_then(whole_number)), ("abcde", Some(0)));
        assert_eq!(request.names().map(name_text).collect::<Vec<_>>(), names[1..]);
    }
}
