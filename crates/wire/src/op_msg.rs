//! `OP_MSG`: one body document, any number of document sequences, an optional CRC-32C.

use bytes::Bytes;

use crate::frame::{Frame, HEADER_SIZE_BYTES, Header, OpCode};
use crate::scan;

/// The flag bits of an `OP_MSG`. Bits 0 to 15 must be understood, the others may be ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageFlags(pub u32);

impl MessageFlags {
    /// The message ends with a CRC-32C over everything before it.
    pub const CHECKSUM_PRESENT: u32 = 1;
    /// From a client: no reply is wanted. From a server: another reply follows.
    pub const MORE_TO_COME: u32 = 1 << 1;
    /// The client takes several replies to this request.
    pub const EXHAUST_ALLOWED: u32 = 1 << 16;
    const REQUIRED_MASK: u32 = 0xffff;
    const KNOWN_REQUIRED: u32 = Self::CHECKSUM_PRESENT | Self::MORE_TO_COME;

    /// Whether `bit` is set.
    pub fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

/// A kind-1 section: a named run of documents, used for the bulk of a write command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// The field of the command the documents belong to, such as `documents` or `updates`.
    pub name: String,
    /// The documents, one after another, each validated.
    pub documents: Bytes,
}

impl Sequence {
    /// The documents as slices that share the message's buffer.
    pub fn iter(&self) -> impl Iterator<Item = Bytes> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let length = scan::document_length(&self.documents[at..]).ok()?;
            at += length;
            Some(self.documents.slice(at - length..at))
        })
    }
}

/// A parsed `OP_MSG`. Body and sequences are validated BSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpMsg {
    /// The flag bits as sent.
    pub flags: MessageFlags,
    /// The body section's document.
    pub body: Bytes,
    /// The document sequences, in order.
    pub sequences: Vec<Sequence>,
}

/// Why a message is not an `OP_MSG`. Codes and texts are a mongod's (facts/server.md 11.6).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpMsgError {
    /// 40587.
    #[error("OP_MSG messages must have a body")]
    NoBody,
    /// 40430.
    #[error("Multiple body sections in message")]
    SeveralBodies,
    /// 40431.
    #[error("Duplicate document sequence: {0}")]
    DuplicateSequence(String),
    /// 40433.
    #[error("Duplicate field between body and document sequence {0}")]
    FieldInBodyAndSequence(String),
    /// 40432.
    #[error("Unknown section kind {0}")]
    UnknownSectionKind(u8),
    /// 51251.
    #[error("Invalid message size for an OpMsg containing a checksum")]
    TooShortForChecksum,
    /// 22 `InvalidBSON` (or 15 `Overflow` when nested too deeply).
    #[error("{0}")]
    InvalidBson(scan::ScanError),
    /// 223 `IllegalOpMsgFlag`: fatal for the connection.
    #[error("Message contains illegal flags value: Ob{0:b}")]
    IllegalFlags(u32),
    /// 233 `TooManyDocumentSequences`: fatal for the connection.
    #[error("Too many document sequences in OP_MSG")]
    TooManySequences,
    /// 288 `ChecksumMismatch`: fatal for the connection.
    #[error("OP_MSG checksum does not match contents")]
    ChecksumMismatch,
    /// The message ends inside a section or has no room for its flags: fatal for the connection.
    #[error("message ends inside a section")]
    Truncated,
}

impl OpMsgError {
    /// The error code a mongod answers with.
    pub fn code(&self) -> i32 {
        match self {
            OpMsgError::NoBody => 40587,
            OpMsgError::SeveralBodies => 40430,
            OpMsgError::DuplicateSequence(_) => 40431,
            OpMsgError::UnknownSectionKind(_) => 40432,
            OpMsgError::FieldInBodyAndSequence(_) => 40433,
            OpMsgError::TooShortForChecksum => 51251,
            OpMsgError::InvalidBson(error) if error.is_too_deep() => 15,
            OpMsgError::InvalidBson(_) | OpMsgError::Truncated => 22,
            OpMsgError::IllegalFlags(_) => 223,
            OpMsgError::TooManySequences => 233,
            OpMsgError::ChecksumMismatch => 288,
        }
    }

    /// Whether a mongod closes the connection instead of answering.
    pub fn closes_connection(&self) -> bool {
        matches!(
            self,
            OpMsgError::IllegalFlags(_)
                | OpMsgError::TooManySequences
                | OpMsgError::ChecksumMismatch
                | OpMsgError::Truncated
        )
    }
}

const FLAGS_SIZE_BYTES: usize = 4;
const CHECKSUM_SIZE_BYTES: usize = 4;
const MAX_SEQUENCES: usize = 2;

impl OpMsg {
    /// Parses a frame whose op code is [`OpCode::Msg`], checking its checksum if it has one.
    ///
    /// # Errors
    /// See [`OpMsgError`]; some of them are fatal for the connection.
    pub fn parse(frame: &Frame) -> Result<Self, OpMsgError> {
        let whole = &frame.whole;
        let flag_bytes =
            whole.get(HEADER_SIZE_BYTES..HEADER_SIZE_BYTES + FLAGS_SIZE_BYTES).ok_or(OpMsgError::Truncated)?;
        let flags = MessageFlags(u32::from_le_bytes(flag_bytes.try_into().expect("four bytes")));
        if flags.0 & MessageFlags::REQUIRED_MASK & !MessageFlags::KNOWN_REQUIRED != 0 {
            return Err(OpMsgError::IllegalFlags(flags.0));
        }
        let mut end = whole.len();
        if flags.has(MessageFlags::CHECKSUM_PRESENT) {
            end = end
                .checked_sub(CHECKSUM_SIZE_BYTES)
                .filter(|end| *end >= HEADER_SIZE_BYTES + FLAGS_SIZE_BYTES)
                .ok_or(OpMsgError::TooShortForChecksum)?;
            let sent = u32::from_le_bytes(whole[end..].try_into().expect("four bytes"));
            if crc32c::crc32c(&whole[..end]) != sent {
                return Err(OpMsgError::ChecksumMismatch);
            }
        }
        Self::sections(flags, whole, HEADER_SIZE_BYTES + FLAGS_SIZE_BYTES, end)
    }

    fn sections(flags: MessageFlags, whole: &Bytes, mut at: usize, end: usize) -> Result<Self, OpMsgError> {
        let mut body: Option<Bytes> = None;
        let mut sequences: Vec<Sequence> = Vec::new();
        while at < end {
            let kind = whole[at];
            at += 1;
            match kind {
                0 => {
                    if body.is_some() {
                        return Err(OpMsgError::SeveralBodies);
                    }
                    let length = scan::validate(&whole[at..end]).map_err(OpMsgError::InvalidBson)?;
                    body = Some(whole.slice(at..at + length));
                    at += length;
                }
                1 => {
                    if sequences.len() == MAX_SEQUENCES {
                        return Err(OpMsgError::TooManySequences);
                    }
                    let (sequence, next) = Self::sequence(whole, at, end)?;
                    if sequences.iter().any(|other| other.name == sequence.name) {
                        return Err(OpMsgError::DuplicateSequence(sequence.name));
                    }
                    sequences.push(sequence);
                    at = next;
                }
                other => return Err(OpMsgError::UnknownSectionKind(other)),
            }
        }
        let body = body.ok_or(OpMsgError::NoBody)?;
        if let Some(both) = sequences.iter().find(|sequence| scan::field(&body, &sequence.name).is_some()) {
            return Err(OpMsgError::FieldInBodyAndSequence(both.name.clone()));
        }
        Ok(Self { flags, body, sequences })
    }

    /// Parses the sequence at `at` (behind its kind byte); returns it and where the next section starts.
    fn sequence(whole: &Bytes, at: usize, end: usize) -> Result<(Sequence, usize), OpMsgError> {
        let size = whole.get(at..at + 4).filter(|_| at + 4 <= end).ok_or(OpMsgError::Truncated)?;
        let size = i32::from_le_bytes(size.try_into().expect("four bytes"));
        let section_end = usize::try_from(size)
            .ok()
            .filter(|size| *size >= 5)
            .and_then(|size| at.checked_add(size))
            .filter(|section_end| *section_end <= end)
            .ok_or(OpMsgError::Truncated)?;
        let name_at = at + 4;
        let name_length =
            whole[name_at..section_end].iter().position(|byte| *byte == 0).ok_or(OpMsgError::Truncated)?;
        let documents = whole.slice(name_at + name_length + 1..section_end);
        let mut checked = 0;
        while checked < documents.len() {
            checked += scan::validate(&documents[checked..]).map_err(OpMsgError::InvalidBson)?;
        }
        let name = String::from_utf8_lossy(&whole[name_at..name_at + name_length]).into_owned();
        Ok((Sequence { name, documents }, section_end))
    }
}

/// Writes an `OP_MSG` into one buffer.
#[derive(Debug)]
pub struct OpMsgEncoder {
    out: Vec<u8>,
    flags: u32,
}

impl OpMsgEncoder {
    /// Starts a message. `flags` without [`MessageFlags::CHECKSUM_PRESENT`]: that is [`OpMsgEncoder::finish`]'s.
    pub fn new(flags: MessageFlags, capacity_bytes: usize) -> Self {
        let mut out =
            Vec::with_capacity(capacity_bytes + HEADER_SIZE_BYTES + FLAGS_SIZE_BYTES + CHECKSUM_SIZE_BYTES + 1);
        out.resize(HEADER_SIZE_BYTES + FLAGS_SIZE_BYTES, 0);
        Self { out, flags: flags.0 & !MessageFlags::CHECKSUM_PRESENT }
    }

    /// Adds the body section.
    pub fn body(mut self, document: &[u8]) -> Self {
        self.out.push(0);
        self.out.extend_from_slice(document);
        self
    }

    /// Adds a document sequence.
    pub fn sequence<'a>(mut self, name: &str, documents: impl IntoIterator<Item = &'a [u8]>) -> Self {
        self.out.push(1);
        let size_at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(0);
        for document in documents {
            self.out.extend_from_slice(document);
        }
        let size = (self.out.len() - size_at) as i32;
        self.out[size_at..size_at + 4].copy_from_slice(&size.to_le_bytes());
        self
    }

    /// Fills in header, flags and, if wanted, the checksum.
    pub fn finish(mut self, request_id: i32, response_to: i32, with_checksum: bool) -> Vec<u8> {
        let length_bytes = (self.out.len() + if with_checksum { CHECKSUM_SIZE_BYTES } else { 0 }) as i32;
        let mut header = Vec::with_capacity(HEADER_SIZE_BYTES);
        Header { length_bytes, request_id, response_to, op_code: OpCode::Msg }.write(&mut header);
        self.out[..HEADER_SIZE_BYTES].copy_from_slice(&header);
        let flags = self.flags | if with_checksum { MessageFlags::CHECKSUM_PRESENT } else { 0 };
        self.out[HEADER_SIZE_BYTES..HEADER_SIZE_BYTES + FLAGS_SIZE_BYTES].copy_from_slice(&flags.to_le_bytes());
        if with_checksum {
            let checksum = crc32c::crc32c(&self.out);
            self.out.extend_from_slice(&checksum.to_le_bytes());
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    fn parse(message: Vec<u8>) -> Result<OpMsg, OpMsgError> {
        OpMsg::parse(&Frame::from_whole(message.into()).expect("lengths agree"))
    }

    /// A message from hand-made sections.
    fn raw(flags: u32, sections: &[&[u8]]) -> Vec<u8> {
        let mut encoder = OpMsgEncoder::new(MessageFlags(flags), 0);
        sections.iter().for_each(|section| encoder.out.extend_from_slice(section));
        encoder.finish(7, 0, false)
    }

    fn body(document: bson::Document) -> Vec<u8> {
        [&[0][..], &document.to_vec().unwrap()].concat()
    }

    fn sequence(name: &str, documents: &[bson::Document]) -> Vec<u8> {
        let documents: Vec<_> = documents.iter().map(|document| document.to_vec().unwrap()).collect();
        OpMsgEncoder::new(MessageFlags(0), 0).sequence(name, documents.iter().map(Vec::as_slice)).out[20..].to_vec()
    }

    #[test]
    fn body_sequences_and_checksum_round_trip() {
        let command = doc! {"insert": "c", "$db": "test"}.to_vec().unwrap();
        let documents = [doc! {"_id": 1}.to_vec().unwrap(), doc! {"_id": 2}.to_vec().unwrap()];
        for with_checksum in [false, true] {
            let message = OpMsgEncoder::new(MessageFlags(MessageFlags::EXHAUST_ALLOWED), 64)
                .body(&command)
                .sequence("documents", documents.iter().map(Vec::as_slice))
                .finish(5, 6, with_checksum);
            let parsed = parse(message).unwrap();
            assert_eq!(parsed.body, command);
            assert_eq!(parsed.flags.has(MessageFlags::CHECKSUM_PRESENT), with_checksum);
            assert!(parsed.flags.has(MessageFlags::EXHAUST_ALLOWED));
            assert_eq!(parsed.sequences[0].name, "documents");
            assert_eq!(parsed.sequences[0].iter().collect::<Vec<_>>(), documents);
        }
    }

    #[test]
    fn malformed_messages_get_mongods_codes() {
        let ping = body(doc! {"ping": 1});
        let documents = sequence("documents", &[doc! {"_id": 1}]);
        let lying = [1, 200, 0, 0, 0, b'd', 0].to_vec();
        for (message, code, closes) in [
            (raw(0, &[]), 40587, false),
            (raw(0, &[&ping, &ping]), 40430, false),
            (raw(0, &[&ping, &documents, &documents]), 40431, false),
            (raw(0, &[&ping, &[5]]), 40432, false),
            (raw(0, &[&body(doc! {"documents": []}), &documents]), 40433, false),
            (raw(0, &[&ping, &documents, &sequence("b", &[]), &sequence("c", &[])]), 233, true),
            (raw(4, &[&ping]), 223, true),
            (raw(0, &[&ping, &lying]), 22, true),
            (raw(0, &[&[0, 100, 0, 0, 0, 1, b'a', 0]]), 22, false),
        ] {
            let error = parse(message).unwrap_err();
            assert_eq!((error.code(), error.closes_connection()), (code, closes), "{error}");
        }
    }

    #[test]
    fn a_wrong_checksum_is_fatal() {
        let mut message =
            OpMsgEncoder::new(MessageFlags(0), 0).body(&doc! {"ping": 1}.to_vec().unwrap()).finish(1, 0, true);
        *message.last_mut().unwrap() ^= 1;
        assert_eq!(parse(message), Err(OpMsgError::ChecksumMismatch));
    }
}
