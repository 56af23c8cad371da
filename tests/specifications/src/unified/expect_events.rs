//! What a client must have told: `expectEvents`, and single events of `waitForEvent` and `assertEventCount`.

use backfire_driver::events::{CheckOutFailure, CloseReason, CommandEvent, PoolEvent, TopologyEvent};
use backfire_driver::{ConnectionInfo, Event, ServerDescription, ServerType, TopologyDescription, TopologyType};
use bson::{Bson, Document};

use super::events::{KINDS, kind};
use super::matching::Matcher;
use crate::failure::{Checked, Within, fail};
use crate::fields::Fields;

/// The events of one client.
#[derive(Debug)]
pub struct ExpectedEvents {
    client: String,
    family: Family,
    events: Vec<ExpectedEvent>,
    ignore_extra: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Command,
    Cmap,
    Sdam,
}

impl Family {
    fn of(event: &Event) -> Self {
        match event {
            Event::Command(_) => Self::Command,
            Event::Pool(_) => Self::Cmap,
            Event::Topology(_) => Self::Sdam,
        }
    }
}

/// An event that must have been told.
#[derive(Debug, Clone)]
pub struct ExpectedEvent {
    kind: String,
    fields: Document,
}

impl ExpectedEvents {
    /// Reads `expectEvents`.
    ///
    /// # Errors
    /// When there is something in it that is not known.
    pub fn read_all(fields: &mut Fields) -> Checked<Vec<Self>> {
        let all: Option<Vec<Document>> = fields.optional("expectEvents")?;
        all.unwrap_or_default().into_iter().map(Self::read).collect()
    }

    fn read(document: Document) -> Checked<Self> {
        let mut fields = Fields::new("expectEvents", document);
        let family = match fields.optional::<String>("eventType")?.as_deref() {
            None | Some("command") => Family::Command,
            Some("cmap") => Family::Cmap,
            Some("sdam") => Family::Sdam,
            Some(other) => fail!("expectEvents: the eventType '{other}' is not known"),
        };
        let events: Vec<Document> = fields.required("events")?;
        let expected = Self {
            client: fields.required("client")?,
            family,
            events: events.into_iter().map(ExpectedEvent::read).collect::<Checked<_>>()?,
            ignore_extra: fields.optional("ignoreExtraEvents")?.unwrap_or(false),
        };
        fields.done()?;
        Ok(expected)
    }

    /// Compares what the client told with what it must have told.
    ///
    /// # Errors
    /// When an event is missing, too much or different.
    pub fn check(&self, matcher: &Matcher<'_>) -> Checked {
        let client = matcher.entities.client(&self.client)?;
        let events = client.recorder.events();
        let events: Vec<_> = events.iter().filter(|event| Family::of(event) == self.family).collect();
        self.compare(&events, matcher).within(|| format!("events of {}\n{}", self.client, show(&events)))
    }

    fn compare(&self, events: &[&Event], matcher: &Matcher<'_>) -> Checked {
        for (index, expected) in self.events.iter().enumerate() {
            match events.get(index) {
                Some(event) => expected.check(event, matcher).within(|| format!("event {index}"))?,
                None => fail!("there are {} instead of {}", events.len(), self.events.len()),
            }
        }
        if events.len() > self.events.len() && !self.ignore_extra {
            fail!("there are {} instead of {}", events.len(), self.events.len());
        }
        Ok(())
    }
}

impl ExpectedEvent {
    /// Reads an event.
    ///
    /// # Errors
    /// When its kind is not known.
    pub fn read(document: Document) -> Checked<Self> {
        let (kind, fields) = Fields::single("an event", document)?;
        match fields {
            Bson::Document(fields) if KINDS.contains(&kind.as_str()) => Ok(Self { kind, fields }),
            _ => fail!("the event '{kind}' is not known"),
        }
    }

    /// Compares an event with this one.
    ///
    /// # Errors
    /// When it is another one, or an assertion about it is not known.
    pub fn check(&self, event: &Event, matcher: &Matcher<'_>) -> Checked {
        if kind(event) != Some(&self.kind) {
            fail!("{} instead of {}", kind(event).unwrap_or("another event"), self.kind);
        }
        let mut fields = Fields::new(&self.kind, self.fields.clone());
        match event {
            Event::Command(event) => check_command(&mut fields, event, matcher)?,
            Event::Pool(event) => check_pool(&mut fields, event)?,
            Event::Topology(event) => check_topology(&mut fields, event)?,
        }
        fields.done()
    }
}

fn same<T: PartialEq + std::fmt::Display>(what: &str, expected: Option<T>, found: T) -> Checked {
    match expected {
        Some(expected) if expected != found => fail!("{what} is {found} instead of {expected}"),
        _ => Ok(()),
    }
}

fn check_command(fields: &mut Fields, event: &CommandEvent, matcher: &Matcher<'_>) -> Checked {
    let (name, database, connection) = match event {
        CommandEvent::Started(event) => (&event.command_name, &event.database, &event.connection),
        CommandEvent::Succeeded(event) => (&event.command_name, &event.database, &event.connection),
        CommandEvent::Failed(event) => (&event.command_name, &event.database, &event.connection),
    };
    same("commandName", fields.optional("commandName")?.as_ref(), name)?;
    same("databaseName", fields.optional("databaseName")?.as_ref(), database)?;
    // Only load balancers have services.
    same("hasServiceId", fields.optional("hasServiceId")?, false)?;
    same("hasServerConnectionId", fields.optional("hasServerConnectionId")?, has_server_id(connection))?;
    let document = |name: &str, expected: Option<Document>, found: &Document| match expected {
        Some(expected) => {
            matcher.root(&Bson::Document(expected), Some(&Bson::Document(found.clone()))).within(|| name.to_owned())
        }
        None => Ok(()),
    };
    match event {
        CommandEvent::Started(event) => document("command", fields.optional("command")?, &event.command.to_document()),
        CommandEvent::Succeeded(event) => document("reply", fields.optional("reply")?, &event.reply),
        CommandEvent::Failed(_) => Ok(()),
    }
}

fn has_server_id(connection: &ConnectionInfo) -> bool {
    connection.server_id.is_some()
}

fn check_pool(fields: &mut Fields, event: &PoolEvent) -> Checked {
    match event {
        PoolEvent::PoolCleared { .. } => same("hasServiceId", fields.optional("hasServiceId")?, false),
        PoolEvent::ConnectionClosed { reason, .. } => {
            let name = match reason {
                CloseReason::Stale => "stale",
                CloseReason::Idle => "idle",
                CloseReason::Error => "error",
                CloseReason::PoolClosed => "poolClosed",
            };
            same("reason", fields.optional("reason")?, name.to_owned())
        }
        PoolEvent::CheckOutFailed { reason, .. } => {
            let name = match reason {
                CheckOutFailure::PoolClosed => "poolClosed",
                CheckOutFailure::Timeout => "timeout",
                CheckOutFailure::ConnectionError => "connectionError",
            };
            same("reason", fields.optional("reason")?, name.to_owned())
        }
        _ => Ok(()),
    }
}

fn check_topology(fields: &mut Fields, event: &TopologyEvent) -> Checked {
    match event {
        TopologyEvent::ServerDescriptionChanged { previous, current } => {
            check_type(fields, "previousDescription", server_type(previous))?;
            check_type(fields, "newDescription", server_type(current))
        }
        TopologyEvent::TopologyDescriptionChanged { previous, current } => {
            check_type(fields, "previousDescription", topology_type(previous))?;
            check_type(fields, "newDescription", topology_type(current))
        }
        TopologyEvent::HeartbeatStarted { awaited, .. }
        | TopologyEvent::HeartbeatSucceeded { awaited, .. }
        | TopologyEvent::HeartbeatFailed { awaited, .. } => same("awaited", fields.optional("awaited")?, *awaited),
        _ => Ok(()),
    }
}

fn check_type(fields: &mut Fields, name: &str, found: &str) -> Checked {
    let Some(description) = fields.optional(name)? else { return Ok(()) };
    let mut description = Fields::new(name, description);
    same("type", description.optional("type")?, found.to_owned()).within(|| name.to_owned())?;
    description.done()
}

fn server_type(server: &ServerDescription) -> &'static str {
    match server.server_type() {
        ServerType::Unknown => "Unknown",
        ServerType::Standalone => "Standalone",
        ServerType::Mongos => "Mongos",
        ServerType::RsPrimary => "RSPrimary",
        ServerType::RsSecondary => "RSSecondary",
        ServerType::RsArbiter => "RSArbiter",
        ServerType::RsOther => "RSOther",
        ServerType::RsGhost => "RSGhost",
    }
}

fn topology_type(topology: &TopologyDescription) -> &'static str {
    match topology.topology_type() {
        TopologyType::Single => "Single",
        TopologyType::ReplicaSetNoPrimary => "ReplicaSetNoPrimary",
        TopologyType::ReplicaSetWithPrimary => "ReplicaSetWithPrimary",
        TopologyType::Sharded => "Sharded",
        TopologyType::Unknown => "Unknown",
    }
}

/// Events as failures show them, one a line.
fn show(events: &[&Event]) -> String {
    let line = |event: &&Event| {
        let what = match event {
            Event::Command(CommandEvent::Started(event)) => format!(" {}", event.command.to_document()),
            Event::Command(CommandEvent::Succeeded(event)) => format!(" {} {}", event.command_name, event.reply),
            Event::Command(CommandEvent::Failed(event)) => format!(" {} {}", event.command_name, event.error),
            Event::Pool(_) | Event::Topology(_) => String::new(),
        };
        format!("      {}{what}\n", kind(event).unwrap_or_default())
    };
    events.iter().map(line).collect()
}
