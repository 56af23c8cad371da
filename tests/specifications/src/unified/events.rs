//! Events under the names that the format gives them.

use backfire_driver::Event;
use backfire_driver::events::{CommandEvent, PoolEvent, TopologyEvent};

/// The kinds of events that a test can ask for.
pub const KINDS: &[&str] = &[
    "commandStartedEvent",
    "commandSucceededEvent",
    "commandFailedEvent",
    "poolCreatedEvent",
    "poolReadyEvent",
    "poolClearedEvent",
    "poolClosedEvent",
    "connectionCreatedEvent",
    "connectionReadyEvent",
    "connectionClosedEvent",
    "connectionCheckOutStartedEvent",
    "connectionCheckOutFailedEvent",
    "connectionCheckedOutEvent",
    "connectionCheckedInEvent",
    "serverDescriptionChangedEvent",
    "serverHeartbeatStartedEvent",
    "serverHeartbeatSucceededEvent",
    "serverHeartbeatFailedEvent",
    "topologyDescriptionChangedEvent",
];

/// Commands that carry secrets
/// (<https://github.com/mongodb/specifications/blob/master/source/command-logging-and-monitoring/command-logging-and-monitoring.md#security>).
const SENSITIVE: &[&str] = &[
    "authenticate",
    "saslStart",
    "saslContinue",
    "getnonce",
    "createUser",
    "updateUser",
    "copydbgetnonce",
    "copydbsaslstart",
    "copydb",
];

/// An event's kind; `None` for one that the format does not know.
pub fn kind(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::Command(CommandEvent::Started(_)) => "commandStartedEvent",
        Event::Command(CommandEvent::Succeeded(_)) => "commandSucceededEvent",
        Event::Command(CommandEvent::Failed(_)) => "commandFailedEvent",
        Event::Pool(PoolEvent::PoolCreated { .. }) => "poolCreatedEvent",
        Event::Pool(PoolEvent::PoolReady { .. }) => "poolReadyEvent",
        Event::Pool(PoolEvent::PoolCleared { .. }) => "poolClearedEvent",
        Event::Pool(PoolEvent::PoolClosed { .. }) => "poolClosedEvent",
        Event::Pool(PoolEvent::ConnectionCreated { .. }) => "connectionCreatedEvent",
        Event::Pool(PoolEvent::ConnectionReady { .. }) => "connectionReadyEvent",
        Event::Pool(PoolEvent::ConnectionClosed { .. }) => "connectionClosedEvent",
        Event::Pool(PoolEvent::CheckOutStarted { .. }) => "connectionCheckOutStartedEvent",
        Event::Pool(PoolEvent::CheckOutFailed { .. }) => "connectionCheckOutFailedEvent",
        Event::Pool(PoolEvent::CheckedOut { .. }) => "connectionCheckedOutEvent",
        Event::Pool(PoolEvent::CheckedIn { .. }) => "connectionCheckedInEvent",
        Event::Topology(TopologyEvent::ServerDescriptionChanged { .. }) => "serverDescriptionChangedEvent",
        Event::Topology(TopologyEvent::HeartbeatStarted { .. }) => "serverHeartbeatStartedEvent",
        Event::Topology(TopologyEvent::HeartbeatSucceeded { .. }) => "serverHeartbeatSucceededEvent",
        Event::Topology(TopologyEvent::HeartbeatFailed { .. }) => "serverHeartbeatFailedEvent",
        Event::Topology(TopologyEvent::TopologyDescriptionChanged { .. }) => "topologyDescriptionChangedEvent",
        Event::Topology(
            TopologyEvent::TopologyOpening
            | TopologyEvent::TopologyClosed
            | TopologyEvent::ServerOpening { .. }
            | TopologyEvent::ServerClosed { .. },
        ) => return None,
    })
}

/// The command that an event is about.
pub fn command_name(event: &Event) -> Option<&str> {
    match event {
        Event::Command(CommandEvent::Started(event)) => Some(&event.command_name),
        Event::Command(CommandEvent::Succeeded(event)) => Some(&event.command_name),
        Event::Command(CommandEvent::Failed(event)) => Some(&event.command_name),
        Event::Pool(_) | Event::Topology(_) => None,
    }
}

/// Whether an event is about a command with secrets. A `hello` is one if the driver left its content out.
pub fn is_sensitive(event: &Event) -> bool {
    let Some(name) = command_name(event) else { return false };
    let is_hello = name.eq_ignore_ascii_case("hello") || name.eq_ignore_ascii_case("isMaster");
    let is_redacted = match event {
        Event::Command(CommandEvent::Started(event)) => event.command.body().is_empty(),
        Event::Command(CommandEvent::Succeeded(event)) => event.reply.is_empty(),
        _ => false,
    };
    SENSITIVE.iter().any(|sensitive| sensitive.eq_ignore_ascii_case(name)) || (is_hello && is_redacted)
}
