//! One message of the wire protocol: a 16-byte header and a body.

use bytes::{Buf, Bytes, BytesMut};

/// The largest message a mongod accepts, header included (facts/server.md 11.5).
pub const MAX_MESSAGE_SIZE_BYTES: usize = 48_000_000;
/// The header's size, and so the smallest legal message.
pub const HEADER_SIZE_BYTES: usize = 16;

/// What a message's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpCode {
    /// 1: the answer to an [`OpCode::Query`].
    Reply,
    /// 2001..=2007 without 2004: writes and cursor messages that modern clients no longer send.
    Legacy(i32),
    /// 2004: the oldest way to send a command; drivers still use it for the first handshake.
    Query,
    /// 2012: another message, compressed.
    Compressed,
    /// 2013: every command of a modern client.
    Msg,
    /// Anything else.
    Unknown(i32),
}

impl OpCode {
    /// The number on the wire.
    pub fn number(self) -> i32 {
        match self {
            OpCode::Reply => 1,
            OpCode::Query => 2004,
            OpCode::Compressed => 2012,
            OpCode::Msg => 2013,
            OpCode::Legacy(number) | OpCode::Unknown(number) => number,
        }
    }
}

impl From<i32> for OpCode {
    fn from(number: i32) -> Self {
        match number {
            1 => OpCode::Reply,
            2004 => OpCode::Query,
            2001..=2007 => OpCode::Legacy(number),
            2012 => OpCode::Compressed,
            2013 => OpCode::Msg,
            _ => OpCode::Unknown(number),
        }
    }
}

/// The first 16 bytes of every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Size of the whole message in bytes, this header included.
    pub length_bytes: i32,
    /// Chosen by the sender.
    pub request_id: i32,
    /// The `request_id` this message answers, or 0.
    pub response_to: i32,
    /// What the body is.
    pub op_code: OpCode,
}

impl Header {
    /// Reads a header from the first 16 bytes; `None` when there are fewer.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut bytes = bytes.get(..HEADER_SIZE_BYTES)?;
        Some(Self {
            length_bytes: bytes.get_i32_le(),
            request_id: bytes.get_i32_le(),
            response_to: bytes.get_i32_le(),
            op_code: OpCode::from(bytes.get_i32_le()),
        })
    }

    /// Appends the header in its wire form.
    pub fn write(&self, out: &mut Vec<u8>) {
        for number in [self.length_bytes, self.request_id, self.response_to, self.op_code.number()] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// A whole message. `whole` shares the buffer it was read into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The parsed header.
    pub header: Header,
    /// Header and body as they were on the wire (a checksum covers both).
    pub whole: Bytes,
}

impl Frame {
    /// A frame from a complete message.
    ///
    /// # Errors
    /// When the length in the header is not the length of `whole`.
    pub fn from_whole(whole: Bytes) -> Result<Self, FrameError> {
        let header = Header::read(&whole).ok_or(FrameError::TooSmall { length_bytes: whole.len() as i64 })?;
        if header.length_bytes as i64 != whole.len() as i64 {
            return Err(FrameError::LengthMismatch { claimed_bytes: header.length_bytes, actual_bytes: whole.len() });
        }
        Ok(Self { header, whole })
    }

    /// Everything behind the header.
    pub fn body(&self) -> Bytes {
        self.whole.slice(HEADER_SIZE_BYTES..)
    }
}

/// Why bytes are not a message. After any of these the stream cannot be followed any more: close the connection, as
/// a mongod does (facts/server.md 11.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The claimed length is smaller than a header.
    #[error("message length {length_bytes} is invalid: the minimum is 16")]
    TooSmall {
        /// What the header claims.
        length_bytes: i64,
    },
    /// The claimed length is over the limit.
    #[error("message length {length_bytes} is invalid: the maximum is {max_bytes}")]
    TooLarge {
        /// What the header claims.
        length_bytes: i64,
        /// The limit in force.
        max_bytes: usize,
    },
    /// A message given as a whole is shorter or longer than its header says.
    #[error("message of {actual_bytes} bytes claims to be {claimed_bytes}")]
    LengthMismatch {
        /// What the header claims.
        claimed_bytes: i32,
        /// What is there.
        actual_bytes: usize,
    },
}

/// Cuts a byte stream into frames.
///
/// It reserves no more than the peer has sent plus one step, so a header that claims 48 MB costs nothing until the
/// bytes arrive.
#[derive(Debug, Clone, Copy)]
pub struct FrameDecoder {
    max_bytes: usize,
}

impl Default for FrameDecoder {
    fn default() -> Self {
        Self { max_bytes: MAX_MESSAGE_SIZE_BYTES }
    }
}

impl FrameDecoder {
    /// How much to reserve at a time while a large message arrives.
    const RESERVE_STEP_BYTES: usize = 64 * 1024;

    /// A decoder with another limit than a mongod's.
    pub fn with_max_bytes(max_bytes: usize) -> Self {
        Self { max_bytes }
    }

    /// Takes the next whole message off the front of `buffer`; `None` when more bytes are needed.
    ///
    /// # Errors
    /// When the header's length is out of range; the connection should be closed.
    pub fn decode(&self, buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some(header) = Header::read(buffer) else { return Ok(None) };
        let length_bytes = i64::from(header.length_bytes);
        if length_bytes < HEADER_SIZE_BYTES as i64 {
            return Err(FrameError::TooSmall { length_bytes });
        }
        if length_bytes > self.max_bytes as i64 {
            return Err(FrameError::TooLarge { length_bytes, max_bytes: self.max_bytes });
        }
        let length = header.length_bytes as usize;
        if buffer.len() < length {
            buffer.reserve((length - buffer.len()).min(Self::RESERVE_STEP_BYTES.max(buffer.len())));
            return Ok(None);
        }
        Ok(Some(Frame { header, whole: buffer.split_to(length).freeze() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length_bytes: i32, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Header { length_bytes, request_id: 7, response_to: 3, op_code: OpCode::Msg }.write(&mut out);
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn header_round_trips_for_every_op_code() {
        for number in [1, 2001, 2002, 2004, 2006, 2007, 2012, 2013, 0, -5, 99_999] {
            let header = Header { length_bytes: 16, request_id: -1, response_to: 9, op_code: OpCode::from(number) };
            let mut out = Vec::new();
            header.write(&mut out);
            assert_eq!(Header::read(&out), Some(header));
            assert_eq!(header.op_code.number(), number);
        }
    }

    #[test]
    fn frames_come_out_however_the_bytes_arrive() {
        let stream = [message(20, b"abcd"), message(16, b""), message(18, b"xy")].concat();
        for step in 1..stream.len() {
            let (decoder, mut buffer, mut bodies) = (FrameDecoder::default(), BytesMut::new(), Vec::new());
            for piece in stream.chunks(step) {
                buffer.extend_from_slice(piece);
                while let Some(frame) = decoder.decode(&mut buffer).unwrap() {
                    bodies.push(frame.body());
                }
            }
            assert_eq!(bodies, [&b"abcd"[..], b"", b"xy"], "in pieces of {step}");
        }
    }

    #[test]
    fn lengths_out_of_range_are_refused() {
        for (length, expected) in [
            (15, FrameError::TooSmall { length_bytes: 15 }),
            (-1, FrameError::TooSmall { length_bytes: -1 }),
            (48_000_001, FrameError::TooLarge { length_bytes: 48_000_001, max_bytes: MAX_MESSAGE_SIZE_BYTES }),
            (i32::MAX, FrameError::TooLarge { length_bytes: i32::MAX as i64, max_bytes: MAX_MESSAGE_SIZE_BYTES }),
        ] {
            let mut buffer = BytesMut::from(&message(length, b"")[..]);
            assert_eq!(FrameDecoder::default().decode(&mut buffer), Err(expected));
        }
    }

    #[test]
    fn a_claim_of_48_mb_reserves_little() {
        let mut buffer = BytesMut::from(&message(48_000_000, b"abc")[..]);
        assert_eq!(FrameDecoder::default().decode(&mut buffer), Ok(None));
        assert!(buffer.capacity() < 200_000, "reserved {}", buffer.capacity());
    }
}
