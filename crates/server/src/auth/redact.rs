//! What others may see of a command: everything but passwords, proofs and keys.

use bson::{Bson, Document};
use bytes::Bytes;

use crate::net::Request;
use crate::value::View;

/// What a mongod shows in place of a secret.
const MASK: &str = "xxx";
/// A document without fields.
const EMPTY: &[u8] = &[5, 0, 0, 0, 0];

/// The command as others may see it, in `$currentOp`, error texts and logs.
pub fn shown(request: &Request) -> Bytes {
    let name = request.command_name();
    let hides = secret_fields(name).is_some_and(|fields| fields.iter().any(|field| request.get(field).is_some()))
        || name == "explain";
    if !hides {
        return request.body().clone();
    }
    let masked = match View::from(request.document()).to_bson() {
        Ok(Bson::Document(document)) => masked(document, name),
        // What cannot be looked through is not shown.
        _ => bson::doc! { name: MASK },
    };
    masked.to_vec().map(Bytes::from).unwrap_or(Bytes::from_static(EMPTY))
}

/// The fields of a command that hold secrets.
fn secret_fields(command: &str) -> Option<&'static [&'static str]> {
    match command {
        "saslStart" | "saslContinue" => Some(&["payload"]),
        "createUser" | "updateUser" => Some(&["pwd"]),
        "hello" | "isMaster" | "ismaster" => Some(&["speculativeAuthenticate"]),
        "authenticate" => Some(&["key"]),
        _ => None,
    }
}

fn masked(mut document: Document, command: &str) -> Document {
    for field in secret_fields(command).into_iter().flatten() {
        if let Some(value) = document.get_mut(*field) {
            match value {
                Bson::Document(inner) if inner.contains_key("payload") => {
                    inner.insert("payload", MASK);
                }
                other => *other = Bson::String(MASK.to_owned()),
            }
        }
    }
    if command == "explain"
        && let Some(Bson::Document(inner)) = document.get_mut("explain")
        && let Some(name) = inner.keys().next().cloned()
        && secret_fields(&name).is_some()
    {
        *inner = masked(std::mem::take(inner), &name);
    }
    document
}
