//! MongoDB's wire protocol: frames, `OP_MSG`, `OP_QUERY`/`OP_REPLY` for the handshake, `OP_COMPRESSED`, and a
//! scanner over raw BSON.
//!
//! This room turns bytes into borrowed views and back. It never knows a command, never does I/O, and never copies a
//! document that is only passed on. Every length a peer claims is checked against what is really there before
//! anything is allocated for it.

pub mod compression;
pub mod decode;
pub mod frame;
pub mod op_msg;
pub mod op_query;
pub mod scan;
pub mod with_id;

pub use compression::{CompressError, Compressor};
pub use decode::decode;
pub use frame::{Frame, FrameDecoder, FrameError, Header, MAX_MESSAGE_SIZE_BYTES, OpCode};
pub use op_msg::{MessageFlags, OpMsg, OpMsgEncoder, OpMsgError, Sequence};
pub use op_query::{OpQuery, OpReply, ReplyFlags};
pub use with_id::with_id;
