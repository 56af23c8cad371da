//! `OP_COMPRESSED`: another message inside, compressed with what both sides named in their handshake.

use std::io::{Read, Write};

use bytes::{Buf, Bytes};

use crate::frame::{Frame, HEADER_SIZE_BYTES, Header, MAX_MESSAGE_SIZE_BYTES, OpCode};

/// A compression method; its name is what the handshake lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressor {
    /// Id 1.
    Snappy,
    /// Id 2, with a level from 0 to 9 (-1 is zlib's default).
    Zlib {
        /// Compression level.
        level: i32,
    },
    /// Id 3.
    Zstd,
}

/// Why an `OP_COMPRESSED` cannot be read. The connection should be closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompressError {
    /// The message ends inside its own fields.
    #[error("compressed message ends inside its fields")]
    Truncated,
    /// Not a compressor this side offered.
    #[error("compressor id {0} was not negotiated")]
    UnknownCompressor(u8),
    /// A compressed message inside a compressed message.
    #[error("a compressed message may not hold another")]
    Nested,
    /// The uncompressed message would be over the limit.
    #[error("uncompressed size {size_bytes} is invalid: the maximum is {max_bytes}")]
    TooLarge {
        /// What the message claims.
        size_bytes: i64,
        /// The limit.
        max_bytes: usize,
    },
    /// What came out has another size than the message claims.
    #[error("uncompressed size is not the claimed {claimed_bytes}")]
    SizeMismatch {
        /// What the message claims.
        claimed_bytes: usize,
    },
    /// The compressed bytes are damaged.
    #[error("cannot decompress: {0}")]
    Damaged(String),
}

impl Compressor {
    /// The one called `name` in a handshake.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "snappy" => Some(Compressor::Snappy),
            "zlib" => Some(Compressor::Zlib { level: -1 }),
            "zstd" => Some(Compressor::Zstd),
            _ => None,
        }
    }

    /// Its name in a handshake.
    pub fn name(self) -> &'static str {
        match self {
            Compressor::Snappy => "snappy",
            Compressor::Zlib { .. } => "zlib",
            Compressor::Zstd => "zstd",
        }
    }

    /// Its id on the wire.
    pub fn id(self) -> u8 {
        match self {
            Compressor::Snappy => 1,
            Compressor::Zlib { .. } => 2,
            Compressor::Zstd => 3,
        }
    }

    fn from_id(id: u8) -> Result<Self, CompressError> {
        match id {
            1 => Ok(Compressor::Snappy),
            2 => Ok(Compressor::Zlib { level: -1 }),
            3 => Ok(Compressor::Zstd),
            other => Err(CompressError::UnknownCompressor(other)),
        }
    }

    fn compress(self, bytes: &[u8]) -> Vec<u8> {
        // Writing into memory: none of these can fail.
        match self {
            Compressor::Snappy => snap::raw::Encoder::new().compress_vec(bytes).expect("snappy into memory"),
            Compressor::Zlib { level } => {
                let level =
                    u32::try_from(level).map_or_else(|_| flate2::Compression::default(), flate2::Compression::new);
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("zlib into memory")
            }
            Compressor::Zstd => zstd::bulk::compress(bytes, 0).expect("zstd into memory"),
        }
    }

    /// Decompresses to exactly `size` bytes; never produces more than `size + 1`.
    fn decompress(self, bytes: &[u8], size: usize) -> Result<Vec<u8>, CompressError> {
        let damaged = |error: &dyn std::fmt::Display| CompressError::Damaged(error.to_string());
        let mut out = Vec::new();
        match self {
            Compressor::Snappy => {
                // Snappy states its own size: believe it only when it agrees.
                if snap::raw::decompress_len(bytes).map_err(|error| damaged(&error))? != size {
                    return Err(CompressError::SizeMismatch { claimed_bytes: size });
                }
                out = snap::raw::Decoder::new().decompress_vec(bytes).map_err(|error| damaged(&error))?;
            }
            Compressor::Zlib { .. } => {
                let limited = flate2::read::ZlibDecoder::new(bytes).take(size as u64 + 1);
                { limited }.read_to_end(&mut out).map_err(|error| damaged(&error))?;
            }
            Compressor::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(bytes).map_err(|error| damaged(&error))?;
                decoder.take(size as u64 + 1).read_to_end(&mut out).map_err(|error| damaged(&error))?;
            }
        }
        if out.len() == size { Ok(out) } else { Err(CompressError::SizeMismatch { claimed_bytes: size }) }
    }
}

/// Wraps a whole message (header included) into an `OP_COMPRESSED` with the same request ids.
pub fn compress(message: &[u8], compressor: Compressor) -> Vec<u8> {
    let header = Header::read(message).expect("a whole message");
    let packed = compressor.compress(&message[HEADER_SIZE_BYTES..]);
    let length_bytes = (HEADER_SIZE_BYTES + 9 + packed.len()) as i32;
    let mut out = Vec::with_capacity(length_bytes as usize);
    Header { length_bytes, op_code: OpCode::Compressed, ..header }.write(&mut out);
    out.extend_from_slice(&header.op_code.number().to_le_bytes());
    out.extend_from_slice(&((message.len() - HEADER_SIZE_BYTES) as i32).to_le_bytes());
    out.push(compressor.id());
    out.extend_from_slice(&packed);
    out
}

/// Unwraps an `OP_COMPRESSED`; returns the message inside and the compressor it used (a reply uses the same).
///
/// # Errors
/// See [`CompressError`]. Id 0 (`noop`) is refused like any other that was not offered.
pub fn decompress(frame: &Frame) -> Result<(Frame, Compressor), CompressError> {
    decompress_within(frame, MAX_MESSAGE_SIZE_BYTES)
}

/// [`decompress`] with another limit on the size of the message inside, its header included.
///
/// # Errors
/// See [`CompressError`].
pub fn decompress_within(frame: &Frame, max_bytes: usize) -> Result<(Frame, Compressor), CompressError> {
    let body: Bytes = frame.body();
    let mut fields = body.get(..9).ok_or(CompressError::Truncated)?;
    let (op_code, size, id) = (OpCode::from(fields.get_i32_le()), fields.get_i32_le(), fields.get_u8());
    if op_code == OpCode::Compressed {
        return Err(CompressError::Nested);
    }
    let size = usize::try_from(size).ok().filter(|size| size + HEADER_SIZE_BYTES <= max_bytes);
    let size = size.ok_or(CompressError::TooLarge {
        size_bytes: i64::from(i32::from_le_bytes(body[4..8].try_into().expect("four bytes"))),
        max_bytes,
    })?;
    let compressor = Compressor::from_id(id)?;
    let unpacked = compressor.decompress(&body[9..], size)?;
    let mut whole = Vec::with_capacity(HEADER_SIZE_BYTES + unpacked.len());
    let header = Header { length_bytes: (HEADER_SIZE_BYTES + unpacked.len()) as i32, op_code, ..frame.header };
    header.write(&mut whole);
    whole.extend_from_slice(&unpacked);
    Ok((Frame { header, whole: whole.into() }, compressor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op_msg::{MessageFlags, OpMsgEncoder};
    use bson::doc;

    const ALL: [Compressor; 3] = [Compressor::Snappy, Compressor::Zlib { level: 6 }, Compressor::Zstd];

    fn ping() -> Vec<u8> {
        OpMsgEncoder::new(MessageFlags(0), 0)
            .body(&doc! {"ping": 1, "pad": "x".repeat(1000)}.to_vec().unwrap())
            .finish(3, 4, false)
    }

    fn frame(bytes: Vec<u8>) -> Frame {
        Frame::from_whole(bytes.into()).unwrap()
    }

    #[test]
    fn every_compressor_round_trips() {
        for compressor in ALL {
            let (inner, used) = decompress(&frame(compress(&ping(), compressor))).unwrap();
            assert_eq!(inner.whole, ping());
            assert_eq!(used.name(), compressor.name());
            assert_eq!(Compressor::from_name(compressor.name()).map(Compressor::id), Some(compressor.id()));
        }
    }

    #[test]
    fn lies_are_refused() {
        for compressor in ALL {
            let honest = compress(&ping(), compressor);
            let with = |at: usize, bytes: &[u8]| {
                let mut lie = honest.clone();
                lie[at..at + bytes.len()].copy_from_slice(bytes);
                decompress(&frame(lie)).unwrap_err()
            };
            assert_eq!(with(16, &2012_i32.to_le_bytes()), CompressError::Nested);
            assert!(matches!(with(20, &i32::MAX.to_le_bytes()), CompressError::TooLarge { .. }));
            assert!(matches!(with(20, &(-1_i32).to_le_bytes()), CompressError::TooLarge { .. }));
            assert_eq!(with(20, &17_i32.to_le_bytes()), CompressError::SizeMismatch { claimed_bytes: 17 });
            assert_eq!(with(24, &[0]), CompressError::UnknownCompressor(0));
            assert_eq!(with(24, &[9]), CompressError::UnknownCompressor(9));
        }
    }

    #[test]
    fn every_cut_is_an_error() {
        for compressor in ALL {
            let whole = compress(&ping(), compressor);
            for cut in HEADER_SIZE_BYTES..whole.len() {
                let mut short = whole[..cut].to_vec();
                short[..4].copy_from_slice(&(cut as i32).to_le_bytes());
                assert!(decompress(&frame(short)).is_err(), "{compressor:?} cut at {cut}");
            }
        }
    }
}
