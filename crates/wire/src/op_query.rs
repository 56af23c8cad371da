//! `OP_QUERY` and `OP_REPLY`: what is left of the legacy protocol, used by drivers for their first handshake.

use bytes::{Buf, Bytes};

use crate::frame::{Frame, HEADER_SIZE_BYTES, Header, OpCode};
use crate::scan;

/// A parsed `OP_QUERY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpQuery {
    /// Flag bits; bit 2 is `slaveOk`.
    pub flags: u32,
    /// The namespace, `<db>.$cmd` for a command.
    pub namespace: String,
    /// Documents to skip (a plain find).
    pub skip: i32,
    /// Documents to return (a plain find); -1 or 1 for a command.
    pub limit: i32,
    /// The query, or the command. A `$query` wrapper is left in place.
    pub query: Bytes,
}

/// Why a message is not an `OP_QUERY`. The connection should be closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpQueryError {
    /// The message ends too early.
    #[error("message ends inside its fields")]
    Truncated,
    /// The query document is not BSON.
    #[error("{0}")]
    InvalidBson(scan::ScanError),
}

impl OpQuery {
    /// Parses a frame whose op code is [`OpCode::Query`].
    ///
    /// # Errors
    /// See [`OpQueryError`].
    pub fn parse(frame: &Frame) -> Result<Self, OpQueryError> {
        let body = frame.body();
        let mut rest = body.get(..4).ok_or(OpQueryError::Truncated)?;
        let flags = rest.get_u32_le();
        let name_length = body[4..].iter().position(|byte| *byte == 0).ok_or(OpQueryError::Truncated)?;
        let namespace = String::from_utf8_lossy(&body[4..4 + name_length]).into_owned();
        let at = 4 + name_length + 1;
        let mut numbers = body.get(at..at + 8).ok_or(OpQueryError::Truncated)?;
        let (skip, limit) = (numbers.get_i32_le(), numbers.get_i32_le());
        let query = body.slice(at + 8..);
        let length = scan::validate(&query).map_err(OpQueryError::InvalidBson)?;
        Ok(Self { flags, namespace, skip, limit, query: query.slice(..length) })
    }

    /// Writes a command as an `OP_QUERY` on `<db>.$cmd`.
    pub fn encode_command(database: &str, command: &[u8], request_id: i32) -> Vec<u8> {
        let mut body = Vec::with_capacity(command.len() + database.len() + 32);
        body.extend_from_slice(&4_u32.to_le_bytes());
        body.extend_from_slice(database.as_bytes());
        body.extend_from_slice(b".$cmd\0");
        body.extend_from_slice(&0_i32.to_le_bytes());
        body.extend_from_slice(&(-1_i32).to_le_bytes());
        body.extend_from_slice(command);
        with_header(OpCode::Query, request_id, 0, &body)
    }
}

/// The flag bits of an `OP_REPLY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyFlags(pub u32);

impl ReplyFlags {
    /// The query failed; the one document says why.
    pub const QUERY_FAILURE: Self = Self(1 << 1);
    /// What a mongod sets on every command's reply.
    pub const AWAIT_CAPABLE: Self = Self(1 << 3);
}

/// An `OP_REPLY` with one document, which is all a command needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpReply {
    /// Flag bits.
    pub flags: ReplyFlags,
    /// The first document.
    pub document: Bytes,
}

impl OpReply {
    /// Writes the reply to request `response_to`.
    pub fn encode(&self, request_id: i32, response_to: i32) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.document.len() + 20);
        body.extend_from_slice(&self.flags.0.to_le_bytes());
        body.extend_from_slice(&0_i64.to_le_bytes());
        body.extend_from_slice(&0_i32.to_le_bytes());
        body.extend_from_slice(&1_i32.to_le_bytes());
        body.extend_from_slice(&self.document);
        with_header(OpCode::Reply, request_id, response_to, &body)
    }

    /// Parses a frame whose op code is [`OpCode::Reply`].
    ///
    /// # Errors
    /// When it is cut off or holds no document.
    pub fn parse(frame: &Frame) -> Result<Self, OpQueryError> {
        let body = frame.body();
        let mut flags = body.get(..4).ok_or(OpQueryError::Truncated)?;
        let documents = body.get(20..).ok_or(OpQueryError::Truncated)?;
        let length = scan::validate(documents).map_err(OpQueryError::InvalidBson)?;
        Ok(Self { flags: ReplyFlags(flags.get_u32_le()), document: body.slice(20..20 + length) })
    }
}

fn with_header(op_code: OpCode, request_id: i32, response_to: i32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_SIZE_BYTES + body.len());
    let length_bytes = (HEADER_SIZE_BYTES + body.len()) as i32;
    Header { length_bytes, request_id, response_to, op_code }.write(&mut out);
    out.extend_from_slice(body);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn command_and_reply_round_trip() {
        let command = doc! {"isMaster": 1}.to_vec().unwrap();
        let frame = Frame::from_whole(OpQuery::encode_command("admin", &command, 9).into()).unwrap();
        let query = OpQuery::parse(&frame).unwrap();
        assert_eq!((query.namespace.as_str(), query.limit, &query.query[..]), ("admin.$cmd", -1, &command[..]));

        let reply = OpReply { flags: ReplyFlags::AWAIT_CAPABLE, document: command.into() };
        let frame = Frame::from_whole(reply.encode(3, 9).into()).unwrap();
        assert_eq!(frame.header.response_to, 9);
        assert_eq!(OpReply::parse(&frame), Ok(reply));
    }

    #[test]
    fn every_cut_is_an_error() {
        let whole = OpQuery::encode_command("admin", &doc! {"isMaster": 1}.to_vec().unwrap(), 9);
        for cut in HEADER_SIZE_BYTES..whole.len() {
            let mut short = whole[..cut].to_vec();
            short[..4].copy_from_slice(&(cut as i32).to_le_bytes());
            assert!(OpQuery::parse(&Frame::from_whole(short.into()).unwrap()).is_err(), "cut at {cut}");
        }
    }
}
