//! Logical sessions: the cache, the checkout, the retry history, multi-document transactions.
//!
//! Invariants: at most one operation has a session checked out; a statement of a (session, txnNumber) that is in the
//! history is never executed again; the history of a newer number replaces that of the older one; a session has at most
//! one open transaction, which is with the operation that has the session or, while nobody has it, with the session.

pub mod catalog;
pub mod checkout;
pub mod history;
pub mod phase;
pub mod store;
pub mod transaction;

use std::fmt;

use bson::raw::{RawBinaryRef, RawDocumentBuf, cstr};
use bson::{Binary, Document, doc, spec::BinarySubtype};
use uuid::Uuid;

use crate::value::view::document_with_room;

pub use catalog::SessionCatalog;
pub use checkout::CheckedOut;
pub use history::{Executed, StatementRecord};
pub use phase::Phase;

/// A session's identity on the server: the client's id and the digest of the user it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// `lsid.id`.
    pub id: Uuid,
    /// `lsid.uid`.
    pub uid: [u8; 32],
}

/// The user digest while nobody is authenticated: SHA-256 of the empty string (facts/server.md 1.3).
pub const NOBODY: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

impl SessionId {
    /// The session `id` of nobody in particular.
    pub fn of_nobody(id: Uuid) -> Self {
        Self { id, uid: NOBODY }
    }

    /// [`SessionId::document`], encoded.
    pub fn raw_document(&self) -> RawDocumentBuf {
        let binary = |subtype, bytes| RawBinaryRef { subtype, bytes };
        let mut document = document_with_room(80);
        document.append(cstr!("id"), binary(BinarySubtype::Uuid, &self.id.as_bytes()[..]));
        document.append(cstr!("uid"), binary(BinarySubtype::Generic, &self.uid[..]));
        document
    }

    /// `{id, uid}` as `$currentOp` and `config.transactions` show it.
    pub fn document(&self) -> Document {
        doc! {
            "id": Binary { subtype: BinarySubtype::Uuid, bytes: self.id.as_bytes().to_vec() },
            "uid": Binary { subtype: BinarySubtype::Generic, bytes: self.uid.to_vec() },
        }
    }
}

impl fmt::Display for SessionId {
    /// `<uuid> - <base64 of uid>`, as error texts spell it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} - {}", self.id, base64::Engine::encode(&base64::engine::general_purpose::STANDARD, self.uid))
    }
}
