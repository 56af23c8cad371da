//! Stage *session fields*: `lsid`, `txnNumber` and what goes with them (facts/server.md 1.1 step 6, 2.8).

use std::sync::Arc;

use bson::spec::BinarySubtype;
use uuid::Uuid;

use crate::commands::CommandSpec;
use crate::commands::idl;
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::ops::Op;
use crate::server::Shared;
use crate::sessions::SessionId;
use crate::sessions::catalog::Session;
use crate::value::View;

/// The session options of a command.
#[derive(Debug, Clone, Default)]
pub struct SessionFields {
    /// The session, which is in the cache from now on.
    pub session: Option<Arc<Session>>,
    /// `txnNumber`.
    pub txn_number: Option<i64>,
    /// `autocommit: false` makes it part of a multi-document transaction.
    pub autocommit: Option<bool>,
    /// `startTransaction: true` makes it the first of it.
    pub starts_transaction: bool,
}

impl SessionFields {
    /// Whether the command is part of a multi-document transaction.
    pub fn is_in_transaction(&self) -> bool {
        self.autocommit == Some(false)
    }
}

const STRUCT: &str = "OperationSessionInfo";

/// Reads the options and makes the session known.
///
/// # Errors
/// Those of facts/server.md 2.8 and 2.9.
pub fn read(op: &Op, spec: &CommandSpec, request: &Request) -> Result<SessionFields> {
    let lsid = request.get("lsid").filter(|value| !matches!(value, View::Null | View::Undefined));
    let lsid = lsid.map(|value| self::lsid(value, STRUCT, request.session_owner)).transpose()?;
    let txn_number = match request.get("txnNumber") {
        None | Some(View::Null | View::Undefined) => None,
        Some(View::Int64(number)) => Some(number),
        Some(other) => return Err(idl::wrong_type(STRUCT, "txnNumber", other, "long")),
    };
    let flag = |name: &str| match request.get(name) {
        None => Ok(None),
        Some(View::Bool(value)) => Ok(Some(value)),
        Some(other) => Err(idl::wrong_type(STRUCT, name, other, "bool")),
    };
    let (autocommit, start) = (flag("autocommit")?, flag("startTransaction")?);

    if !spec.needs_auth {
        // Such a command runs outside of any session.
        if txn_number.is_some() {
            return Err(CommandError::new(50889, "It is illegal to provide a txnNumber for this command"));
        }
        return Ok(SessionFields::default());
    }
    if let Some(lsid) = &lsid {
        check_owner(lsid, request, &op.shared)?;
    }
    let session = lsid.map(|id| op.shared.sessions.vivify(id, &op.shared.params)).transpose()?;
    op.view().lsid = lsid;
    if let Some(number) = txn_number {
        number_allowed(op, session.is_some(), number)?;
    }
    transaction_fields(txn_number, autocommit, start)?;
    Ok(SessionFields { session, txn_number, autocommit, starts_transaction: start == Some(true) })
}

fn number_allowed(op: &Op, has_session: bool, number: i64) -> Result<()> {
    if !has_session {
        return Err(CommandError::new(72, "Transaction number requires a session ID to also be specified"));
    }
    if !op.shared.topology.is_replica_set() {
        return Err(CommandError::new(20, "Transaction numbers are only allowed on a replica set member or mongos"));
    }
    if !op.shared.document_locking {
        let text = "Transaction numbers are only allowed on storage engines that support document-level locking";
        return Err(CommandError::new(20, text));
    }
    if number < 0 {
        return Err(CommandError::new(72, "Transaction number cannot be negative"));
    }
    Ok(())
}

fn transaction_fields(number: Option<i64>, autocommit: Option<bool>, start: Option<bool>) -> Result<()> {
    let invalid = |text: &str| Err(CommandError::new(72, text));
    match (autocommit, start) {
        (Some(_), _) if number.is_none() => {
            invalid("'autocommit' field requires a transaction number to also be specified")
        }
        (Some(true), _) => invalid("Specifying autocommit=true is not allowed."),
        (None, Some(_)) => invalid("'startTransaction' field requires 'autocommit' field to also be specified"),
        (_, Some(false)) => invalid("Specifying startTransaction=false is not allowed."),
        _ => Ok(()),
    }
}

/// Refuses a session of somebody else.
///
/// # Errors
/// 13, where clients must log in.
pub fn check_owner(session: &SessionId, request: &Request, shared: &Shared) -> Result<()> {
    if shared.auth && session.uid != request.session_owner {
        return Err(CommandError::new(13, "Unauthorized to set user digest in LogicalSessionId"));
    }
    Ok(())
}

/// Reads `{id: UUID, [uid]}`; a session without `uid` is one of `owner`.
///
/// # Errors
/// With the texts of the generated parsers when something is missing or has the wrong type.
pub fn lsid(value: View<'_>, field: &str, owner: [u8; 32]) -> Result<SessionId> {
    if value.as_document().is_none() {
        return Err(idl::wrong_type(field, "lsid", value, "object"));
    }
    lsid_document(value, &format!("{field}.lsid"), owner)
}

/// Reads `{id: UUID, [uid]}` that stands at `field`.
///
/// # Errors
/// As [`lsid`].
pub fn lsid_document(value: View<'_>, field: &str, owner: [u8; 32]) -> Result<SessionId> {
    let Some(document) = value.as_document() else {
        let found = value.type_name();
        return Err(CommandError::type_mismatch(format!(
            "BSON field '{field}' is the wrong type '{found}', expected type 'object'"
        )));
    };
    let id = document.get("id").ok_or_else(|| idl::missing(field, "id"))?;
    let View::Binary { subtype, bytes } = id else { return Err(idl::wrong_type(field, "id", id, "binData")) };
    let uuid = Uuid::from_slice(bytes)
        .ok()
        .filter(|_| subtype == u8::from(BinarySubtype::Uuid))
        .ok_or_else(|| CommandError::new(207, "uuid must be a 16-byte binary field with UUID (4) subtype"))?;
    let mut session = SessionId { id: uuid, uid: owner };
    match document.get("uid") {
        None => {}
        Some(View::Binary { bytes, .. }) => match bytes.try_into() {
            Ok(uid) => session.uid = uid,
            Err(_) => return Err(CommandError::new(12, "Unsupported SHA256Block hash length")),
        },
        Some(other) => return Err(idl::wrong_type(field, "uid", other, "binData")),
    }
    Ok(session)
}
