//! One send: what the driver adds to a command, the exchange, and what its outcome does to session, server and events.

use std::time::Duration;

use bson::{Bson, Document, doc};
use tokio::time::Instant;

use backfire_model::RequestId;
use backfire_wire::MessageFlags;

use crate::connection::command::{Command, SentCommand, encode_message};
use crate::connection::handshake::add_server_api;
use crate::connection::{ConnectionInfo, ServerType};
use crate::error::reply::{command_error, is_ok, write_concern_failure, write_errors};
use crate::error::{DriverError, ErrorKind, Result, codes};
use crate::events::{CommandEvent, CommandFailed, CommandStarted, CommandSucceeded, Event, is_sensitive};
use crate::random::lsid_document;
use crate::retry::Identity;
use crate::session::ClientSession;
use crate::settings::{ReadMode, ReadPreference};
use crate::topology::TopologyType;

use super::Attempt;

/// The first wire version with snapshot reads outside of transactions (5.0).
const WIRE_VERSION_SNAPSHOT_READS: i32 = 13;

/// How a command is sent.
pub(crate) struct SendOptions {
    /// The identity of a numbered write.
    pub(crate) identity: Option<Identity>,
    /// The read preference, for commands that have one.
    pub(crate) read_preference: Option<ReadPreference>,
    /// False for `w: 0`.
    pub(crate) expect_reply: bool,
}

impl SendOptions {
    pub(crate) fn write(identity: Option<Identity>, expect_reply: bool) -> Self {
        Self { identity, read_preference: None, expect_reply }
    }
}

/// What the events of one send have in common.
struct Sending {
    request_id: RequestId,
    operation_id: u64,
    connection: ConnectionInfo,
    database: String,
    command_name: String,
    sensitive: bool,
    started: Instant,
}

/// Gives up the session of a command whose caller stopped waiting: the server may still be busy with it.
struct DirtyUnlessDone(Option<ClientSession>);

impl Drop for DirtyUnlessDone {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            session.mark_dirty();
        }
    }
}

impl Attempt<'_> {
    /// The command's body with everything that is added for a send.
    ///
    /// # Errors
    /// When too little time is left for a send, or server and session do not go together.
    pub(crate) fn body_to_send(&self, command: &Command, options: &SendOptions) -> Result<Document> {
        let mut body = command.body.clone();
        if let Some((_, txn_number)) = options.identity {
            body.insert("txnNumber", txn_number.0);
        }
        if let Some(session) = &self.call.session {
            session.dress(&mut body);
        }
        if let Some(max_time_ms) = self.call.clock.max_time_ms()? {
            body.insert("maxTimeMS", max_time_ms);
        }
        body.insert("$db", &command.database);
        let session = self.call.session.as_ref();
        if let Some(cluster_time) = self.call.client.cluster_clock.newest(session)
            && self.selected.server_type != ServerType::Standalone
        {
            body.insert("$clusterTime", cluster_time);
        }
        if let Some(session) = session {
            self.add_session(session, options, &mut body)?;
        }
        add_server_api(&self.call.client.settings, &mut body);
        if let Some(preference) =
            options.read_preference.as_ref().and_then(|preference| self.sent_preference(preference))
        {
            body.insert("$readPreference", preference);
        }
        Ok(body)
    }

    fn add_session(&self, session: &ClientSession, options: &SendOptions, body: &mut Document) -> Result<()> {
        let hello = self.connection.hello();
        let supported = hello.session_timeout_minutes.is_some();
        if !supported && !session.is_implicit() {
            return Err(DriverError::client(
                "attempting to use a ClientSession while connected to a server that does not support sessions",
            ));
        }
        if supported && options.expect_reply && !body.contains_key("lsid") {
            let lsid = match options.identity {
                Some((lsid, _)) => lsid,
                None => session.use_lsid()?,
            };
            body.insert("lsid", lsid_document(lsid));
        }
        if session.is_snapshot() {
            if hello.max_wire_version < WIRE_VERSION_SNAPSHOT_READS {
                return Err(DriverError::client("Snapshot reads require MongoDB 5.0 or later"));
            }
            let mut read_concern = Document::new();
            session.add_read_concern(&mut read_concern);
            body.insert("readConcern", read_concern);
        }
        Ok(())
    }

    /// The read preference as this server needs it: a single member of a replica set is asked as if any member were
    /// good enough.
    fn sent_preference(&self, preference: &ReadPreference) -> Option<Document> {
        match (self.selected.topology_type, self.selected.server_type) {
            (_, ServerType::Standalone) => None,
            (TopologyType::Single, server_type)
                if server_type != ServerType::Mongos && preference.mode == ReadMode::Primary =>
            {
                Some(ReadPreference::mode(ReadMode::PrimaryPreferred).to_document())
            }
            _ if *preference == ReadPreference::default() => None,
            _ => Some(preference.to_document()),
        }
    }

    /// Sends a command and receives its reply. A reply that only says that a write concern was not met, or that
    /// documents of a batch failed, is a reply.
    ///
    /// # Errors
    /// Network errors and timeouts, `ok: 0`; with `timeoutMS` also code 50 anywhere in the reply.
    pub(crate) async fn send(&mut self, command: &Command, options: &SendOptions) -> Result<Document> {
        let body = self.body_to_send(command, options)?;
        let sensitive = is_sensitive(command.name(), &body);
        let request_id = self.call.client.opener.request_ids().next();
        let flags = if options.expect_reply { 0 } else { MessageFlags::MORE_TO_COME };
        let message = encode_message(&body, &command.sequences, flags, request_id.0)?;
        let max_bytes = self.connection.hello().max_message_size_bytes;
        if message.len() > max_bytes {
            return Err(DriverError::invalid_argument(format!(
                "the command's message has {} bytes, the server takes {max_bytes}",
                message.len()
            )));
        }
        let sending = Sending {
            request_id,
            operation_id: self.call.operation_id,
            connection: self.connection.info().clone(),
            database: command.database.clone(),
            command_name: command.name().to_owned(),
            sensitive,
            started: Instant::now(),
        };
        if let Some(session) = &self.call.session {
            session.command_sent();
        }
        self.tell_started(&sending, body, command, options);
        let session = self.call.session.clone().filter(|_| options.expect_reply);
        let mut dirty = DirtyUnlessDone(session);
        let result = self.exchange(message, request_id, !sensitive, options.expect_reply).await;
        dirty.0 = None;
        self.finish(sending, result)
    }

    fn transaction_number(&self) -> Option<backfire_model::TxnNumber> {
        self.call.session.as_ref().and_then(ClientSession::transaction_number)
    }

    fn tell(&self, event: CommandEvent) {
        self.call.client.listener.event(&Event::Command(event));
    }

    fn tell_started(&mut self, sending: &Sending, body: Document, command: &Command, options: &SendOptions) {
        let attempt = self.state.sending();
        let lsid = body.get_document("lsid").ok().and_then(|lsid| match lsid.get("id") {
            Some(Bson::Binary(id)) => uuid::Uuid::from_slice(&id.bytes).ok().map(backfire_model::Lsid),
            _ => None,
        });
        let shown = if sending.sensitive {
            SentCommand { body: Document::new(), sequences: Vec::new() }
        } else {
            SentCommand { body, sequences: command.sequences.clone() }
        };
        self.tell(CommandEvent::Started(CommandStarted {
            request_id: sending.request_id,
            operation_id: sending.operation_id,
            connection: sending.connection.clone(),
            database: sending.database.clone(),
            command_name: sending.command_name.clone(),
            command: shown,
            lsid,
            txn_number: options.identity.map(|(_, number)| number).or_else(|| self.transaction_number()),
            attempt,
        }));
    }

    async fn exchange(
        &mut self,
        message: Vec<u8>,
        request_id: RequestId,
        compress: bool,
        expect_reply: bool,
    ) -> Result<Document> {
        let limit = self.call.clock.read_limit(&self.call.client.settings);
        self.connection.send(message, request_id, compress, limit).await?;
        if !expect_reply {
            self.connection.expect_no_reply();
            return Ok(doc! {"ok": 1});
        }
        self.connection.receive(limit).await
    }

    /// Tells everybody how it went.
    fn finish(&mut self, sending: Sending, result: Result<Document>) -> Result<Document> {
        let duration = sending.started.elapsed();
        let reply = match result {
            Ok(reply) => reply,
            Err(error) => {
                if error.dirties_session()
                    && let Some(session) = &self.call.session
                {
                    session.mark_dirty();
                }
                self.tell_failed(&sending, &error, duration);
                self.tell_topology(&error, None);
                return Err(error);
            }
        };
        self.call.client.cluster_clock.learn(&reply);
        if let Some(session) = &self.call.session {
            session.learn(&reply);
        }
        if !is_ok(&reply) {
            let error = command_error(reply.clone()).at(self.selected.server.address());
            let error = if self.is_late(error.code()) { error.into_operation_timeout() } else { error };
            self.tell_failed(&sending, &error, duration);
            self.tell_topology(&error, Some(&reply));
            return Err(error);
        }
        let (shown, secret) = if sending.sensitive { (Document::new(), Some(reply)) } else { (reply, None) };
        let succeeded = CommandSucceeded {
            request_id: sending.request_id,
            operation_id: sending.operation_id,
            connection: sending.connection,
            database: sending.database,
            command_name: sending.command_name,
            reply: shown,
            duration,
        };
        // A reply is too large to be copied for whoever listens: it is lent.
        let event = Event::Command(CommandEvent::Succeeded(succeeded));
        self.call.client.listener.event(&event);
        let Event::Command(CommandEvent::Succeeded(CommandSucceeded { reply, .. })) = event else {
            unreachable!("it was made above")
        };
        let reply = secret.unwrap_or(reply);
        if let Some(error) = write_concern_failure(&reply) {
            self.tell_topology(&error, Some(&reply));
            if self.is_late(error.code()) {
                return Err(error.into_operation_timeout().at(self.selected.server.address()));
            }
        }
        if let Some(late) = write_errors(&reply).into_iter().find(|error| self.is_late(Some(error.code))) {
            let error = DriverError::new(ErrorKind::Write(late));
            return Err(error.into_operation_timeout().at(self.selected.server.address()));
        }
        Ok(reply)
    }

    /// Whether an error of the server is the end of `timeoutMS`: only its code counts.
    fn is_late(&self, code: Option<i32>) -> bool {
        self.call.clock.timeout().is_some() && code == Some(codes::MAX_TIME_MS_EXPIRED)
    }

    fn tell_failed(&self, sending: &Sending, error: &DriverError, duration: Duration) {
        let shown = if sending.sensitive { error.clone().redacted() } else { error.clone() };
        self.tell(CommandEvent::Failed(CommandFailed {
            request_id: sending.request_id,
            operation_id: sending.operation_id,
            connection: sending.connection.clone(),
            database: sending.database.clone(),
            command_name: sending.command_name.clone(),
            error: shown,
            duration,
        }));
    }

    fn tell_topology(&self, error: &DriverError, reply: Option<&Document>) {
        let wire_version = self.connection.hello().max_wire_version;
        let generation = self.connection.generation();
        let address = self.selected.server.address();
        self.call.client.topology.command_failed(address, generation, wire_version, error, reply);
    }
}
