//! `hello`, and what it shares with the older `isMaster` (facts/server.md 9).

use std::sync::Arc;
use std::time::Duration;

use backfire_wire::Compressor;
use bson::oid::ObjectId;
use bson::raw::{RawArrayBuf, cstr};
use bson::{Document, RawDocumentBuf, doc};

use super::{CommandSpec, Invocation, Reply, Run, Running, idl};
use crate::auth::sasl::Start;
use crate::auth::{Mechanism, UserName};
use crate::counters::{Gauge, bump};
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::params::Param;
use crate::server::Shared;
use crate::stages::reply::append_document;
use crate::value::View;

/// `{hello: 1, …}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["hello"],
    doc: "tells what this node is; with topologyVersion and maxAwaitTimeMS, when that changes",
    needs_auth: false,
    exists: |profile| profile.hello,
    dies_with_client: true,
    parse: |request, shared| parse(request, shared, Spelling::Hello),
    ..CommandSpec::BASE
};

/// Which of the two commands it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    Hello,
    IsMaster,
}

/// The largest client metadata document.
const METADATA_MAX_BYTES: usize = 512;
/// The longest application name.
const APP_NAME_MAX_BYTES: usize = 128;

pub(super) fn parse(request: &Request, shared: &Arc<Shared>, spelling: Spelling) -> Result<Box<dyn Invocation>> {
    let client = request.get("client").map(metadata).transpose()?;
    let compression = request.get("compression").and_then(View::as_array).map(|names| {
        names.iter().filter_map(View::as_str).filter_map(Compressor::from_name).map(Compressor::name).collect()
    });
    Ok(Box::new(Hello {
        spelling,
        client,
        compression,
        hello_ok: shared.profile.hello && request.get("helloOk").is_some_and(View::is_true),
        awaited: if shared.profile.new_handshake { awaited(request, shared)? } else { None },
        mechanisms_of: mechanisms_of(request)?,
        login: if shared.profile.new_handshake { speculative(request) } else { None },
    }))
}

struct Hello {
    spelling: Spelling,
    client: Option<Document>,
    compression: Option<Vec<&'static str>>,
    hello_ok: bool,
    awaited: Option<Awaited>,
    /// The user whose mechanisms the client wants to know.
    mechanisms_of: Option<UserName>,
    /// The first message of a log-in, and the user's database.
    login: Option<(Start, String)>,
}

/// `saslSupportedMechs`.
fn mechanisms_of(request: &Request) -> Result<Option<UserName>> {
    match request.get("saslSupportedMechs") {
        None => Ok(None),
        Some(View::String(name)) => match name.split_once('.') {
            Some((db, user)) => Ok(Some(UserName::new(db, user))),
            None => Err(CommandError::bad_value("username must contain a '.' separated database.user pair")),
        },
        Some(other) => Err(idl::wrong_type("hello", "saslSupportedMechs", other, "string")),
    }
}

/// `speculativeAuthenticate`. What is wrong with it is no error: the client then logs in the long way.
fn speculative(request: &Request) -> Option<(Start, String)> {
    let document = request.get("speculativeAuthenticate")?.as_document()?;
    let db = document.get("db").and_then(View::as_str).unwrap_or("admin").to_owned();
    document.get("saslStart")?;
    Some((Start::read(document).ok()?, db))
}

/// The awaitable form.
struct Awaited {
    process_id: ObjectId,
    counter: i64,
    max_await: Duration,
}

fn awaited(request: &Request, shared: &Shared) -> Result<Option<Awaited>> {
    let version = match request.get("topologyVersion") {
        None => None,
        Some(View::Document(version)) => Some(version),
        Some(_) => return Err(CommandError::new(10065, "invalid parameter: expected an object (topologyVersion)")),
    };
    let max_await = request.get("maxAwaitTimeMS");
    let (version, max_await) = match (version, max_await) {
        (None, None) => return Ok(None),
        (Some(_), None) => {
            return Err(CommandError::new(31368, "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'"));
        }
        (None, Some(_)) => {
            return Err(CommandError::new(31368, "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'"));
        }
        (Some(version), Some(max_await)) => (version, max_await),
    };
    let process_id = match version.get("processId") {
        Some(View::ObjectId(id)) => id,
        Some(other) => return Err(idl::wrong_type("TopologyVersion", "processId", other, "objectId")),
        None => return Err(idl::missing("TopologyVersion", "processId")),
    };
    let counter = match version.get("counter") {
        Some(View::Int64(counter)) => counter,
        Some(other) => return Err(idl::wrong_type("TopologyVersion", "counter", other, "long")),
        None => return Err(idl::missing("TopologyVersion", "counter")),
    };
    if counter < 0 {
        return Err(CommandError::new(31372, "topologyVersion must have a non-negative counter"));
    }
    let max_await = idl::whole_number(max_await).and_then(|millis| u64::try_from(millis).ok());
    let max_await =
        max_await.ok_or_else(|| CommandError::new(31373, "maxAwaitTimeMS must be a non-negative integer"))?;
    if process_id == shared.topology.process_id() && counter > shared.topology.version() {
        let code = if shared.topology.is_replica_set() { 31382 } else { 51764 };
        return Err(CommandError::new(
            code,
            format!(
                "Received a topology version with counter: {counter} which is greater than the server topology version \
                 counter: {}",
                shared.topology.version()
            ),
        ));
    }
    Ok(Some(Awaited { process_id, counter, max_await: Duration::from_millis(max_await) }))
}

/// Checks the `client` document.
fn metadata(value: View<'_>) -> Result<Document> {
    let Some(view) = value.as_document() else {
        return Err(CommandError::type_mismatch("The client metadata document must be an object"));
    };
    let client = view.to_document()?;
    let missing = |field: &str| {
        CommandError::new(183, format!("Missing required field '{field}' in the client metadata document"))
    };
    if client.to_vec().map_or(0, |bytes| bytes.len()) > METADATA_MAX_BYTES {
        return Err(CommandError::new(185, "The client metadata document must be less then or equal to 512 bytes"));
    }
    if app_name(&client).is_some_and(|name| name.len() > APP_NAME_MAX_BYTES) {
        return Err(CommandError::new(
            184,
            "The 'application.name' field must be less then or equal to 128 bytes in the client metadata document",
        ));
    }
    for (part, fields) in [("driver", &["name", "version"][..]), ("os", &["type"])] {
        let part_document = client.get_document(part).map_err(|_| missing(part))?;
        for field in fields {
            part_document.get_str(field).map_err(|_| missing(&format!("{part}.{field}")))?;
        }
    }
    Ok(client)
}

/// The application's name in client metadata.
fn app_name(metadata: &Document) -> Option<&str> {
    metadata.get_document("application").ok()?.get_str("name").ok()
}

impl Invocation for Hello {
    fn app_name(&self) -> Option<&str> {
        self.client.as_ref().and_then(app_name)
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            self.greet(&run)?;
            let shared = run.shared();
            let streams = self.awaited.is_some() && run.request.exhaust_allowed;
            if let Some(awaited) = &self.awaited
                && awaited.process_id == shared.topology.process_id()
                && awaited.counter == shared.topology.version()
            {
                let _awaiting = Gauge::up(&shared.counters.awaiting_topology_changes);
                let _streaming = streams.then(|| Gauge::up(&shared.counters.exhaust_hellos));
                let change = tokio::time::timeout(awaited.max_await, shared.topology.changed_since(awaited.counter));
                // Whether something changed or the time is over: the client is told how things are.
                let _ = run.op.wait(change).await?;
            }
            let mut reply = Reply::new(self.describe(&run));
            self.log_in(&run, &mut reply.fields);
            // A client that takes several replies gets the next one without asking again.
            if streams {
                reply.again = Some(Box::new(next_round(run.request, shared)?));
            }
            Ok(reply)
        })
    }
}

/// The request of the next round: the same, with the version that the client is being told.
fn next_round(request: &Request, shared: &Shared) -> Result<Request> {
    let mut body = View::from(request.document()).to_bson()?;
    if let bson::Bson::Document(body) = &mut body {
        // Who logs in does so once.
        body.remove("speculativeAuthenticate");
        body.insert("topologyVersion", shared.topology.version_document());
        let bytes = body.to_vec().map_err(|error| crate::value::view::invalid_bson(&error))?;
        return Ok(request.with_body(bytes.into()));
    }
    Ok(request.clone())
}

impl Hello {
    /// Remembers what the client says of itself, once.
    fn greet(&self, run: &Run<'_>) -> Result<()> {
        let mut client = run.op.connection.client();
        if let Some(metadata) = &self.client {
            if client.greeted && client.metadata.as_ref() != Some(metadata) {
                let command = match self.spelling {
                    Spelling::Hello => "hello",
                    Spelling::IsMaster if run.op.shared.profile.hello => "hello",
                    Spelling::IsMaster => "isMaster",
                };
                return Err(CommandError::new(
                    186,
                    format!("The client metadata document may only be sent in the first {command}"),
                ));
            }
            client.app_name = app_name(metadata).map(str::to_owned);
            client.metadata = Some(metadata.clone());
        }
        client.greeted = true;
        Ok(())
    }

    /// The fields about logging in, which come last.
    fn log_in(&self, run: &Run<'_>, reply: &mut RawDocumentBuf) {
        let shared = run.shared();
        if self.mechanisms_of.is_some() {
            bump(&shared.counters.log_ins.mechanisms_asked);
        }
        if let Some(user) = self.mechanisms_of.as_ref().and_then(|name| shared.users.get(name)) {
            let names: RawArrayBuf = user.mechanisms().map(Mechanism::name).collect();
            reply.append(cstr!("saslSupportedMechs"), names);
        }
        if let Some((start, db)) = &self.login {
            let begun = start.run(shared, &run.op.connection, db, true).ok();
            append_document(reply, cstr!("speculativeAuthenticate"), begun.as_ref());
        }
    }

    fn describe(&self, run: &Run<'_>) -> RawDocumentBuf {
        let shared = run.shared();
        let topology = &shared.topology;
        let mut reply = RawDocumentBuf::new();
        if self.hello_ok {
            reply.append(cstr!("helloOk"), true);
        }
        if shared.profile.new_handshake {
            append_document(&mut reply, cstr!("topologyVersion"), Some(&topology.version_document()));
        }
        let writable = match self.spelling {
            Spelling::Hello => cstr!("isWritablePrimary"),
            Spelling::IsMaster => cstr!("ismaster"),
        };
        match topology.set_name() {
            Some(set) => {
                let address = topology.address();
                let primary = topology.is_primary();
                reply.append(cstr!("hosts"), RawArrayBuf::from_iter([address.as_str()]));
                reply.append(cstr!("setName"), set);
                reply.append(cstr!("setVersion"), 1);
                reply.append(writable, primary);
                reply.append(cstr!("secondary"), !primary);
                if primary {
                    reply.append(cstr!("primary"), address.as_str());
                }
                reply.append(cstr!("me"), address.as_str());
                if primary {
                    reply.append(cstr!("electionId"), topology.election_id());
                }
                let (op_time, date) = (topology.op_time_document(), topology.last_write_date());
                append_document(
                    &mut reply,
                    cstr!("lastWrite"),
                    Some(&doc! {
                        "opTime": op_time.clone(), "lastWriteDate": date,
                        "majorityOpTime": op_time, "majorityWriteDate": date,
                    }),
                );
            }
            None => reply.append(writable, true),
        }
        reply.append(cstr!("maxBsonObjectSize"), 16 * 1024 * 1024);
        reply.append(cstr!("maxMessageSizeBytes"), backfire_wire::MAX_MESSAGE_SIZE_BYTES as i32);
        reply.append(cstr!("maxWriteBatchSize"), shared.params.get(Param::LabMaxWriteBatchSize) as i32);
        reply.append(cstr!("localTime"), shared.clock.now());
        let minutes = crate::sessions::catalog::timeout(&shared.params).as_secs().div_ceil(60).max(1);
        reply.append(cstr!("logicalSessionTimeoutMinutes"), minutes as i32);
        reply.append(cstr!("connectionId"), run.op.connection.id.0 as i32);
        reply.append(cstr!("minWireVersion"), 0);
        reply.append(cstr!("maxWireVersion"), shared.profile.max_wire_version);
        reply.append(cstr!("readOnly"), false);
        if let Some(names) = self.compression.as_ref().filter(|names| !names.is_empty()) {
            reply.append(cstr!("compression"), names.iter().copied().collect::<RawArrayBuf>());
        }
        reply
    }
}
