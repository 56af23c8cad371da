//! Events in words, for the list of events.

use backfire_model::ConsumerId;
use backfire_model::event::{ClientEvent, ServerEvent, Wait};

use super::write::{ClientEnd, ServerEnd};
use crate::text::{clean, grouped, many, span};

/// One line of the list of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Who does it.
    pub who: Who,
    /// What it does.
    pub text: String,
}

/// Who does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The client; nobody knows which execution.
    Client,
    /// An execution.
    Execution(u32),
    /// The first send of a copy, at the server.
    Copy(u32),
    /// A later one.
    Resend(u32),
    /// A read, at the server.
    Read,
    /// A consumer of the group, where the event names it.
    Consumer(Option<ConsumerId>),
}

pub(super) fn of_send(command: &str, identity: &str, attempt: u32) -> String {
    let sends = if attempt > 1 { "resends" } else { "sends" };
    format!("{sends} {} ({identity})", clean(command))
}

pub(super) fn of_client_end(end: &ClientEnd) -> String {
    match end {
        ClientEnd::Reply => "gets its reply".to_owned(),
        ClientEnd::Failed(backfire_model::event::SendError::Server { .. }) => {
            format!("gets an error: {}", clean(&end.label()))
        }
        ClientEnd::Failed(_) | ClientEnd::HungUp => format!("stops waiting: {}", clean(&end.label())),
    }
}

pub(super) fn of_back_off(wait_ms: u64) -> String {
    match wait_ms {
        0 => "is repeated at once".to_owned(),
        _ => format!("is repeated after a back-off of {}", span(wait_ms)),
    }
}

pub(super) fn of_dead_letter(executions: u32) -> String {
    format!("was the last of {}: dead letter", many(u64::from(executions), "execution"))
}

/// What happens between a consumer and its group; `None` for everything else.
pub(super) fn of_group(event: &ClientEvent) -> Option<String> {
    let partitions = |numbers: &[u32]| match numbers {
        [one] => format!("partition {one}"),
        some => {
            let listed: Vec<String> = some.iter().take(8).map(u32::to_string).collect();
            let more =
                if some.len() > 8 { format!(" and {} more", grouped(some.len() as u64 - 8)) } else { String::new() };
            format!("partitions {}{more}", listed.join(", "))
        }
    };
    Some(match event {
        ClientEvent::Assigned { partitions: of } => format!("gets {}", partitions(of)),
        ClientEvent::Revoked { partitions: of } => format!("gives up {}", partitions(of)),
        ClientEvent::Lost { partitions: of } => format!("has lost {}: it had not polled in time", partitions(of)),
        ClientEvent::CommitFailed { partitions: of } => {
            format!("cannot commit offsets of {}: what it did will be done again", partitions(of))
        }
        _ => return None,
    })
}

/// An event of the server.
pub(super) fn of_server(event: &ServerEvent, command: &str) -> String {
    match event {
        ServerEvent::Arrived { connection, op, .. } => {
            format!("{} arrives on connection {connection}, operation {op}", clean(command))
        }
        ServerEvent::Waiting { wait, .. } => begins(*wait).to_owned(),
        ServerEvent::Resumed { wait, .. } => ends(*wait).to_owned(),
        ServerEvent::Executing { .. } => "begins its statements".to_owned(),
        ServerEvent::Committed { documents, first_id, .. } => {
            let first = if *documents == 1 { "_id" } else { "first _id" };
            format!("commits {}, {first} {}", many(u64::from(*documents), "document"), clean(first_id))
        }
        ServerEvent::Replayed { statements, .. } => {
            let of = if *statements == 1 {
                String::new()
            } else {
                format!(" for {} statements", grouped(u64::from(*statements)))
            };
            format!("is answered from the retry history{of}")
        }
        ServerEvent::Ended { outcome, client_there, .. } => {
            let end = ServerEnd { at_ms: 0, outcome: outcome.clone(), client_there: *client_there };
            let heard = if *client_there { "" } else { "; no client hears of it" };
            format!("ends: {}{heard}", clean(&end.label()))
        }
    }
}

fn begins(wait: Wait) -> &'static str {
    match wait {
        Wait::FailPoint => "is held by the fail point",
        Wait::Session => "waits for its session",
        Wait::Ticket => "waits for a ticket",
        Wait::Lock => "waits for a lock",
        Wait::WriteConflict => "meets a write conflict",
        Wait::EngineStall => "stands still in the engine",
        Wait::InterruptibleStall => "stands still",
    }
}

fn ends(wait: Wait) -> &'static str {
    match wait {
        Wait::FailPoint => "is let go by the fail point",
        Wait::Session => "no longer waits for its session",
        Wait::Ticket => "no longer waits for a ticket",
        Wait::Lock => "no longer waits for a lock",
        Wait::WriteConflict => "tries again after the write conflict",
        Wait::EngineStall => "goes on: the engine's stall is over",
        Wait::InterruptibleStall => "goes on: the stall is over",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use backfire_model::event::{Outcome, SendError, What};

    #[test]
    fn events_are_told_in_words() {
        let told = |what: What| match what {
            What::Server(event) => of_server(&event, "insert"),
            What::Client(_) => String::new(),
        };
        assert_eq!(told(sample::arrived(7, 1, "insert", "db.c")), "insert arrives on connection 8, operation 7");
        assert_eq!(told(sample::committed(1, 1, 2)), "commits 2 documents, first _id 000000000000000000000001");
        assert_eq!(told(sample::replayed(1, 1)), "is answered from the retry history");
        let error = Outcome::Error { code: 50, code_name: "MaxTimeMSExpired".into() };
        assert_eq!(told(sample::ended(1, 1, error, false)), "ends: MaxTimeMSExpired (50); no client hears of it");
        let server = SendError::Server { code: 11000, code_name: "DuplicateKey".into(), retryable: false };
        assert_eq!(of_client_end(&ClientEnd::Failed(server)), "gets an error: DuplicateKey (11000)");
        assert_eq!(of_client_end(&ClientEnd::Failed(SendError::SocketTimeout)), "stops waiting: socket timeout");
    }
}
