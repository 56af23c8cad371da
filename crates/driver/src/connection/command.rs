//! A command as it goes over the wire: a body and document sequences.

use std::sync::Arc;

use bson::{Bson, Document};
use bytes::Bytes;

use backfire_wire::{MessageFlags, OpMsgEncoder};

use crate::error::{DriverError, Result};

/// A kind-1 section: the documents, updates or deletes of a write command.
#[derive(Debug, Clone)]
pub(crate) struct DocumentSequence {
    /// The field of the command that the documents belong to.
    pub(crate) name: &'static str,
    /// The documents, encoded.
    pub(crate) documents: Arc<[Bytes]>,
}

/// A command without what is added for each send. One value is used for all sends of one command, so a resend cannot
/// differ from its original in `txnNumber` or content (facts/client.md A2).
#[derive(Debug, Clone)]
pub(crate) struct Command {
    /// The database it runs on.
    pub(crate) database: String,
    /// Name and fields; the first key is the command's name.
    pub(crate) body: Document,
    /// Document sequences.
    pub(crate) sequences: Vec<DocumentSequence>,
}

impl Command {
    pub(crate) fn new(database: impl Into<String>, body: Document) -> Self {
        Self { database: database.into(), body, sequences: Vec::new() }
    }

    /// The command's name: its first key.
    pub(crate) fn name(&self) -> &str {
        self.body.keys().next().map_or("", String::as_str)
    }
}

/// A command as it was sent, for events. The documents are decoded only when somebody looks.
#[derive(Debug, Clone)]
pub struct SentCommand {
    pub(crate) body: Document,
    pub(crate) sequences: Vec<DocumentSequence>,
}

impl SentCommand {
    /// One document with everything: the body's fields, then each sequence as an array.
    pub fn to_document(&self) -> Document {
        let mut document = self.body.clone();
        for sequence in &self.sequences {
            let documents = sequence.documents.iter().filter_map(|bytes| Document::from_reader(&bytes[..]).ok());
            document.insert(sequence.name, documents.map(Bson::Document).collect::<Vec<_>>());
        }
        document
    }

    /// The collection that the command names in its first field, if it names one.
    pub fn collection(&self) -> Option<&str> {
        self.body.values().next().and_then(Bson::as_str)
    }

    /// The body alone, with the fields that the driver added.
    pub fn body(&self) -> &Document {
        &self.body
    }
}

/// Encodes a document.
pub(crate) fn encode(document: &Document) -> Result<Bytes> {
    document
        .to_vec()
        .map(Bytes::from)
        .map_err(|error| DriverError::invalid_argument(format!("document cannot be encoded: {error}")))
}

/// Encodes a command as an `OP_MSG`.
pub(crate) fn encode_message(
    body: &Document,
    sequences: &[DocumentSequence],
    flags: u32,
    request_id: i32,
) -> Result<Vec<u8>> {
    let body = encode(body)?;
    let size: usize = sequences.iter().flat_map(|sequence| sequence.documents.iter()).map(Bytes::len).sum();
    let mut encoder = OpMsgEncoder::new(MessageFlags(flags), body.len() + size + 64).body(&body);
    for sequence in sequences {
        encoder = encoder.sequence(sequence.name, sequence.documents.iter().map(|document| &document[..]));
    }
    Ok(encoder.finish(request_id, 0, false))
}
