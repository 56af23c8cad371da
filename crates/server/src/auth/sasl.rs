//! Logging in: how `saslStart`, `saslContinue` and the speculative form in a handshake lead a SCRAM conversation.
//!
//! Source: facts/server.md 9 and the recorded replies of a mongod 4.4.0. What is wrong with a message is said to the log
//! and not to the client, which learns 18 only.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use rand::Rng;

use super::login::Pending;
use super::scram::{Answer, ClientFirst, Conversation, Refused};
use super::{Mechanism, UserName};
use crate::error::{CommandError, Result};
use crate::net::connection::Connection;
use crate::server::Shared;
use crate::value::View;
use crate::value::view::DocView;

/// The number of a connection's conversation. It has one at a time.
const CONVERSATION_ID: i32 = 1;
/// The server's part of a nonce: as much as a mongod takes.
const NONCE_BYTES: usize = 24;
/// The longest payload.
const PAYLOAD_MAX_BYTES: usize = 16 * 1024;

/// A payload, and whether it came as text. The answer goes back in the same form.
#[derive(Debug)]
pub struct Payload {
    bytes: Vec<u8>,
    as_text: bool,
}

/// A request to begin.
#[derive(Debug)]
pub struct Start {
    mechanism: String,
    payload: Payload,
    skip_empty: bool,
}

fn field<'a>(document: DocView<'a>, name: &str) -> Result<View<'a>> {
    document.get(name).ok_or_else(|| CommandError::new(4, format!("Missing expected field \"{name}\"")))
}

fn wrong(name: &str, expected: &str, found: View<'_>) -> CommandError {
    let found = found.type_name();
    CommandError::type_mismatch(format!("\"{name}\" had the wrong type. Expected {expected}, found {found}"))
}

impl Payload {
    /// Reads the field `payload`: bytes, or base64 as text.
    ///
    /// # Errors
    /// 4 without it, 14 for another type, 2 for what is not base64 or too long.
    pub fn read(document: DocView<'_>) -> Result<Self> {
        let (bytes, as_text) = match field(document, "payload")? {
            View::Binary { bytes, .. } => (bytes.to_vec(), false),
            View::String(text) if text.len() <= 2 * PAYLOAD_MAX_BYTES => {
                let bytes = STANDARD.decode(text);
                (bytes.map_err(|_| CommandError::bad_value("the payload is not base64"))?, true)
            }
            View::String(_) => (vec![0; PAYLOAD_MAX_BYTES + 1], true),
            other => return Err(wrong("payload", "binData", other)),
        };
        if bytes.len() > PAYLOAD_MAX_BYTES {
            return Err(CommandError::bad_value(format!("the payload is longer than {PAYLOAD_MAX_BYTES} bytes")));
        }
        Ok(Self { bytes, as_text })
    }
}

impl Start {
    /// Reads `{mechanism, payload, options: {skipEmptyExchange}}`.
    ///
    /// # Errors
    /// 4 and 14.
    pub fn read(document: DocView<'_>) -> Result<Self> {
        let mechanism = match field(document, "mechanism")? {
            View::String(mechanism) => mechanism.to_owned(),
            other => return Err(wrong("mechanism", "string", other)),
        };
        let skip_empty = match document.get("options") {
            Some(View::Document(options)) => options.get("skipEmptyExchange").is_some_and(View::is_true),
            _ => false,
        };
        Ok(Self { mechanism, payload: Payload::read(document)?, skip_empty })
    }

    /// Begins a conversation with a user of `db`, in the handshake (`is_speculative`) or after it. One that was under way is over.
    ///
    /// # Errors
    /// 2 or 334 for an unknown mechanism, 18 for everything else.
    pub fn run(&self, shared: &Shared, connection: &Connection, db: &str, is_speculative: bool) -> Result<Document> {
        let mut login = connection.login();
        login.pending = None;
        let mechanism = Mechanism::from_name(&self.mechanism).ok_or_else(|| {
            let text =
                format!("Received authentication for mechanism {} which is unknown or not enabled", self.mechanism);
            CommandError::new(shared.profile.unknown_mechanism_code, text)
        })?;
        shared.counters.log_ins.received(mechanism, is_speculative);
        let begin = || -> Result<(Pending, Answer), Refused> {
            let first = ClientFirst::parse(&self.payload.bytes)?;
            let user = shared.users.get(&UserName::new(db, &first.user)).ok_or(Refused("there is no such user"))?;
            let credentials = user.credentials.iter().find(|credentials| credentials.mechanism == mechanism);
            let credentials = credentials.ok_or(Refused("the user has no credentials for the mechanism"))?.clone();
            let mut nonce = [0; NONCE_BYTES];
            shared.rng().lock().fill_bytes(&mut nonce);
            let nonce = STANDARD.encode(nonce);
            let (conversation, answer) = Conversation::begin(first, credentials, &nonce, self.skip_empty);
            Ok((Pending { user, conversation, mechanism, is_speculative }, answer))
        };
        let (pending, answer) = begin().map_err(|refused| failed(connection, refused))?;
        login.pending = Some(pending);
        Ok(reply(answer, self.payload.as_text))
    }
}

/// Goes on with the conversation of a connection.
///
/// # Errors
/// 17 where there is none, or for another database; 18 for everything else. The conversation is over then.
pub fn proceed(
    shared: &Shared,
    connection: &Connection,
    db: &str,
    conversation_id: i64,
    payload: &Payload,
) -> Result<Document> {
    let mut login = connection.login();
    let Some(mut pending) = login.pending.take() else {
        return Err(CommandError::new(17, "No SASL session state found"));
    };
    if pending.user.name.db != db {
        return Err(CommandError::new(17, "Attempt to switch database target during SASL authentication."));
    }
    if conversation_id != i64::from(CONVERSATION_ID) {
        return Err(CommandError::new(17, "sasl: Mismatched conversation id"));
    }
    let answer = pending.conversation.step(&payload.bytes).map_err(|refused| failed(connection, refused))?;
    if answer.done {
        // The user may have been dropped since the conversation began.
        let user = shared.users.get(&pending.user.name).filter(|user| user.id == pending.user.id);
        let user = user.ok_or_else(|| failed(connection, Refused("the user is gone")))?;
        tracing::info!(connection = %connection.description, user = %user.name, "logged in");
        shared.counters.log_ins.successful(pending.mechanism, pending.is_speculative);
        login.accept(&user);
    } else {
        login.pending = Some(pending);
    }
    Ok(reply(answer, payload.as_text))
}

fn failed(connection: &Connection, refused: Refused) -> CommandError {
    tracing::info!(connection = %connection.description, reason = %refused, "authentication failed");
    CommandError::new(18, "Authentication failed.")
}

fn reply(answer: Answer, as_text: bool) -> Document {
    let payload = match as_text {
        true => Bson::String(STANDARD.encode(&answer.payload)),
        false => Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: answer.payload }),
    };
    doc! { "conversationId": CONVERSATION_ID, "done": answer.done, "payload": payload }
}
