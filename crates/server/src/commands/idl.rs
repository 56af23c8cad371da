//! Errors and helpers of the generated command parsers: which fields a command has and of which type.

use backfire_model::Namespace;
use bson::Document;

use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::net::request::name_text;
use crate::profile::Profile;
use crate::server::Shared;
use crate::value::{Collation, View};

/// Fields that every command may have.
const GENERIC: &[&str] = &[
    "$db",
    "lsid",
    "txnNumber",
    "autocommit",
    "startTransaction",
    "maxTimeMS",
    "maxTimeMSOpOnly",
    "readConcern",
    "writeConcern",
    "comment",
    "$clusterTime",
    "$readPreference",
    "$queryOptions",
    "$audit",
    "$client",
    "$configServerState",
    "$configTime",
    "$topologyTime",
    "$oplogQueryData",
    "$replData",
    "$gleStats",
    "allowImplicitCollectionCreation",
    "rawData",
    "apiVersion",
    "apiStrict",
    "apiDeprecationErrors",
    "clientOperationKey",
    "coordinator",
    "databaseVersion",
    "help",
    "shardVersion",
    "stmtId",
    "stmtIds",
    "tracking_info",
];

/// 14: a field has another type than the parser expects.
pub fn wrong_type(owner: &str, field: &str, found: View<'_>, expected: &str) -> CommandError {
    let found = found.type_name();
    CommandError::type_mismatch(format!(
        "BSON field '{owner}.{field}' is the wrong type '{found}', expected type '{expected}'"
    ))
}

/// 40414: a field that must be there is not.
pub fn missing(owner: &str, field: &str) -> CommandError {
    CommandError::new(40414, format!("BSON field '{owner}.{field}' is missing but a required field"))
}

/// 40415: the command has no such field.
pub fn unknown(owner: &str, field: &str) -> CommandError {
    CommandError::new(40415, format!("BSON field '{owner}.{field}' is an unknown field."))
}

/// Refuses fields that are neither the command's own nor generic ones.
///
/// # Errors
/// 40415.
pub fn only(request: &Request, owner: &str, own: &[&str]) -> Result<()> {
    match request.names().find(|name| !is_one_of(name, own) && !is_generic(name)) {
        Some(name) => Err(unknown(owner, name_text(name))),
        None => Ok(()),
    }
}

/// As [`only`], for a command that takes `let` where the version has it.
///
/// # Errors
/// 40415.
pub fn only_and_let(request: &Request, profile: &Profile, owner: &str, own: &[&str]) -> Result<()> {
    if request.get("let").is_some() && !profile.let_in_commands {
        return Err(unknown(owner, "let"));
    }
    only(request, owner, &[own, &["let"]].concat())
}

/// Whether documents need not be valid.
///
/// # Errors
/// 14 when the field is not a bool.
pub fn bypasses_validation(request: &Request, owner: &str) -> Result<bool> {
    let field = "bypassDocumentValidation";
    Ok(boolean(request.get(field), owner, field, true)?.unwrap_or(false))
}

/// The unit of sizes in a reply, in bytes.
///
/// # Errors
/// 9 and 14 when it is not a positive number.
pub fn scale(request: &Request) -> Result<u64> {
    match request.get("scale") {
        None => Ok(1),
        Some(value) => match value.number().map(|number| number.to_i64_saturating()) {
            Some(scale @ 1..) => Ok(scale as u64),
            Some(_) => Err(CommandError::bad_value("scale has to be > 0")),
            None => Err(CommandError::bad_value("scale has to be a number > 0")),
        },
    }
}

/// How strings compare: as the command says, or else as the collection has it.
///
/// # Errors
/// When it is not a collation.
pub fn collation(given: Option<View<'_>>, shared: &Shared, ns: &Namespace) -> Result<Option<Collation>> {
    match given.and_then(View::as_document).filter(|collation| !collation.is_empty()) {
        Some(collation) => Collation::parse(collation),
        None => Ok(shared.catalog.get(ns).and_then(|collection| collection.collation.clone())),
    }
}

/// The variables of `let`.
///
/// # Errors
/// 14 when it is not an object.
pub fn variables(request: &Request, owner: &str) -> Result<Option<Document>> {
    match request.get("let") {
        None => Ok(None),
        Some(View::Document(variables)) => variables.to_document().map(Some),
        Some(other) => Err(wrong_type(owner, "let", other, "object")),
    }
}

/// An optional bool.
///
/// # Errors
/// 14 for another type; numbers count as bools where `lenient` (a "safe bool").
pub fn boolean(value: Option<View<'_>>, owner: &str, field: &str, lenient: bool) -> Result<Option<bool>> {
    match value {
        None => Ok(None),
        Some(View::Bool(value)) => Ok(Some(value)),
        Some(value @ (View::Int32(_) | View::Int64(_) | View::Double(_) | View::Decimal(_))) if lenient => {
            Ok(Some(value.is_true()))
        }
        Some(View::Null | View::Undefined) => Ok(None),
        Some(other) if lenient => Err(CommandError::type_mismatch(format!(
            "BSON field '{owner}.{field}' is the wrong type '{}', expected types '[bool, long, int, decimal, double]'",
            other.type_name()
        ))),
        Some(other) => Err(wrong_type(owner, field, other, "bool")),
    }
}

/// The collection a command names in its first field.
///
/// # Errors
/// 2 when it is not a string, 73 when it is not a name.
pub fn collection(request: &Request) -> Result<backfire_model::Namespace> {
    let database = request.database()?;
    match request.first() {
        Some(View::String(name)) => namespace(database, name),
        Some(other) => Err(CommandError::bad_value(format!("collection name has invalid type {}", other.type_name()))),
        None => Err(CommandError::bad_value("collection name has invalid type missing")),
    }
}

/// A namespace that a collection may have.
///
/// # Errors
/// 73.
pub fn namespace(database: &str, collection: &str) -> Result<backfire_model::Namespace> {
    const MAX_NAMESPACE_BYTES: usize = 255;
    let ns = backfire_model::Namespace::new(database, collection);
    let valid = !collection.is_empty()
        && !collection.starts_with('.')
        && !collection.contains('\0')
        && (1..64).contains(&database.len())
        && !database.contains(['.', ' ', '"', '\\', '/', '\0'])
        && database.len() + 1 + collection.len() <= MAX_NAMESPACE_BYTES;
    if valid { Ok(ns) } else { Err(CommandError::new(73, format!("Invalid namespace specified '{ns}'"))) }
}

/// A non-negative whole number, from any numeric type.
pub fn whole_number(value: View<'_>) -> Option<i64> {
    match value {
        View::Int32(number) => Some(i64::from(number)),
        View::Int64(number) => Some(number),
        View::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(number as i64),
        View::Decimal(number) => number.to_string().parse::<f64>().ok().filter(|n| n.fract() == 0.0).map(|n| n as i64),
        _ => None,
    }
}

/// Whether every command may have the field.
pub fn is_generic(name: &[u8]) -> bool {
    is_one_of(name, GENERIC)
}

/// Whether these are the bytes of one of the names.
pub fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|known| known.as_bytes() == name)
}
