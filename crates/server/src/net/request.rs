//! A command as it came from a connection.

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

/// How many fields of a command are found without an allocation. Drivers send about ten.
const FIELDS_INLINE: usize = 16;

/// Where a field of the command lies in its document.
#[derive(Debug, Clone, Copy)]
struct Place {
    kind: u8,
    /// Where the element begins: type, name, zero byte, value.
    start: u32,
    name_size: u32,
    value_size: u32,
}

impl Place {
    fn of(field: &scan::Field<'_>) -> Self {
        // A document is smaller than 2 GiB: its length is a signed 32-bit number.
        let [start, name_size, value_size] = [field.start, field.name.len(), field.value.len()].map(|size| size as u32);
        Self { kind: field.kind, start, name_size, value_size }
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
        self.names().next().unwrap_or("")
    }

    /// The names of the command's fields, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        // Validated, so that each of them is text.
        self.fields.iter().map(|place| std::str::from_utf8(place.name(&self.body)).unwrap_or(""))
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
    pub fn get(&self, name: &str) -> Option<View<'_>> {
        let place = self.fields.iter().find(|place| place.name(&self.body) == name.as_bytes())?;
        View::of_field(place.kind, place.value(&self.body))
            .or_else(|| self.document().get(name).ok().flatten().map(View::from))
    }

    /// The documents of an array field, given in the body or as a document sequence.
    pub fn sequence(&self, name: &str) -> Option<&Sequence> {
        self.sequences.iter().find(|sequence| sequence.name == name)
    }
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
