//! What a client tells its listener: commands, pools, topology.
//!
//! Events are delivered in the order in which things happen, some of them while the client holds a lock: a listener
//! must return quickly and must not call the client.

mod command;
mod pool;
mod redact;
mod topology;

pub use command::{CommandEvent, CommandFailed, CommandStarted, CommandSucceeded};
pub use pool::{CheckOutFailure, CloseReason, PoolEvent};
pub(crate) use redact::is_sensitive;
pub use topology::TopologyEvent;

/// Anything that a client reports.
#[derive(Debug, Clone)]
pub enum Event {
    /// A command was sent or answered.
    Command(CommandEvent),
    /// A connection pool changed.
    Pool(PoolEvent),
    /// What is known of the servers changed, or a heartbeat went on.
    Topology(TopologyEvent),
}

/// Receives a client's events.
pub trait Listener: Send + Sync + 'static {
    /// Called once for each event.
    fn event(&self, event: &Event);

    /// Whether a command that may be tried again by the driver's rules is: a budget may say no. Asked once before each retry.
    fn allows_retry(&self) -> bool {
        true
    }
}

/// Listens to nothing.
impl Listener for () {
    fn event(&self, _: &Event) {}
}

impl<F: Fn(&Event) + Send + Sync + 'static> Listener for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}
