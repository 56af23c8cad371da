//! Logging in on a fresh connection: which mechanism, and the conversation over the wire.
//!
//! Source: the [authentication specification](https://github.com/mongodb/specifications/blob/master/source/auth/auth.md).
//! Connections of monitors do not log in, and arbiters keep no users.

pub mod scram;

use std::fmt;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};

use backfire_model::connection_string::Secret;

use crate::connection::command::encode_message;
use crate::connection::handshake::add_server_api;
use crate::connection::{Connection, ReadLimit, RequestIds};
use crate::error::reply::{command_error, is_ok};
use crate::error::{DriverError, Result};
use crate::random::Random;
use crate::settings::ClientSettings;
use scram::{KeyCache, ScramClient, ScramError, ScramMechanism};

/// How many empty messages end a conversation at most. One does, where the server does not skip it.
const CLOSING_ROUNDS_MAX: usize = 1;

/// Who a client is.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The user.
    pub user: String,
    /// The password.
    pub password: Secret,
    /// The database that holds the user.
    pub source: String,
    /// The mechanism; `None`: the best one that the server has for the user.
    pub mechanism: Option<ScramMechanism>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.mechanism.map_or("default", ScramMechanism::name))
    }
}

impl Credential {
    /// Checks what can be checked without a server.
    pub(crate) fn validate(&self) -> Result<()> {
        // Where the server may choose, it may not choose SHA-256 for such a password.
        let Some(mechanism) = self.mechanism else { return Ok(()) };
        self.client(mechanism, "-").map(drop)
    }

    fn client(&self, mechanism: ScramMechanism, nonce: &str) -> Result<ScramClient> {
        ScramClient::new(mechanism, &self.user, self.password.expose(), nonce)
            .map_err(|error| DriverError::invalid_argument(error.to_string()))
    }
}

/// What all log-ins of a client share.
pub(crate) struct Authenticator {
    credential: Credential,
    keys: KeyCache,
}

/// A conversation that went out with the greeting.
pub(crate) struct Speculation(ScramClient);

impl Authenticator {
    pub(crate) fn new(credential: Credential) -> Self {
        Self { credential, keys: KeyCache::default() }
    }

    /// Adds to the greeting what saves a round trip: the question for the user's mechanisms, and a first message.
    pub(crate) fn speculate(&self, greeting: &mut Document, random: &Random) -> Option<Speculation> {
        let Credential { user, source, mechanism, .. } = &self.credential;
        if mechanism.is_none() {
            greeting.insert("saslSupportedMechs", format!("{source}.{user}"));
        }
        let client = self.credential.client(mechanism.unwrap_or(ScramMechanism::Sha256), &random.nonce()).ok()?;
        let mut start = start_command(&client);
        start.insert("db", source);
        greeting.insert("speculativeAuthenticate", start);
        Some(Speculation(client))
    }

    /// Logs in. `greeted` is the reply to the greeting.
    ///
    /// # Errors
    /// What the server refuses; a server that cannot prove that it knows the password; network errors and timeouts.
    pub(crate) async fn log_in(
        &self,
        exchange: &mut Exchange<'_>,
        greeted: &Document,
        speculation: Option<Speculation>,
        random: &Random,
    ) -> Result<()> {
        let speculated = greeted.get_document("speculativeAuthenticate").ok().zip(speculation);
        let (mut client, reply) = match speculated {
            Some((reply, Speculation(client))) => (client, reply.clone()),
            None => {
                let client = self.credential.client(self.mechanism(greeted), &random.nonce())?;
                let reply = exchange.run(start_command(&client), &self.credential.source).await?;
                (client, reply)
            }
        };
        let wrong = |error: ScramError| DriverError::protocol(format_args!("authentication: {error}"));
        let proof = client.prove(payload(&reply)?, &self.keys).map_err(wrong)?;
        let mut reply = self.proceed(exchange, &reply, proof).await?;
        client.verify(payload(&reply)?).map_err(wrong)?;
        for _ in 0..CLOSING_ROUNDS_MAX {
            if is_done(&reply) {
                return Ok(());
            }
            reply = self.proceed(exchange, &reply, Vec::new()).await?;
        }
        if is_done(&reply) { Ok(()) } else { Err(wrong(ScramError::Message("the server does not come to an end"))) }
    }

    async fn proceed(&self, exchange: &mut Exchange<'_>, last: &Document, payload: Vec<u8>) -> Result<Document> {
        let id = last.get("conversationId").cloned().unwrap_or(Bson::Int32(1));
        let command = doc! { "saslContinue": 1, "conversationId": id, "payload": binary(payload) };
        exchange.run(command, &self.credential.source).await
    }

    /// The mechanism that was asked for, or else the best one that the server has for the user. A server that names none
    /// is one that has `SCRAM-SHA-1` only.
    fn mechanism(&self, greeted: &Document) -> ScramMechanism {
        self.credential.mechanism.unwrap_or_else(|| {
            let offered = greeted.get_array("saslSupportedMechs").into_iter().flatten();
            let has_sha_256 = offered.filter_map(Bson::as_str).any(|name| name == ScramMechanism::Sha256.name());
            if has_sha_256 { ScramMechanism::Sha256 } else { ScramMechanism::Sha1 }
        })
    }
}

/// Commands on a connection that is not open for others yet.
pub(crate) struct Exchange<'a> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) settings: &'a ClientSettings,
    pub(crate) request_ids: &'a RequestIds,
    pub(crate) limit: ReadLimit,
}

impl Exchange<'_> {
    async fn run(&mut self, mut command: Document, database: &str) -> Result<Document> {
        command.insert("$db", database);
        add_server_api(self.settings, &mut command);
        let request_id = self.request_ids.next();
        let message = encode_message(&command, &[], 0, request_id.0)?;
        // What carries secrets is never compressed.
        self.connection.send(message, request_id, false, self.limit).await?;
        let reply = self.connection.receive(self.limit).await?;
        if is_ok(&reply) { Ok(reply) } else { Err(command_error(reply)) }
    }
}

fn start_command(client: &ScramClient) -> Document {
    doc! {
        "saslStart": 1,
        "mechanism": client.mechanism().name(),
        "payload": binary(client.first()),
        "options": { "skipEmptyExchange": true },
    }
}

fn binary(bytes: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes }
}

fn payload(reply: &Document) -> Result<&[u8]> {
    match reply.get("payload") {
        Some(Bson::Binary(binary)) => Ok(&binary.bytes),
        _ => Err(DriverError::protocol("authentication: the server's reply has no payload")),
    }
}

fn is_done(reply: &Document) -> bool {
    reply.get_bool("done").unwrap_or(false)
}
