//! The timeline: what client and server did, side by side.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use backfire_model::event::{ClientEvent, Event, Outcome, SendError, ServerEvent, Wait, What, WriteId};
use backfire_model::ledger::{CopyKey, Ledger};
use backfire_model::{Lsid, OpId};
use comfy_table::{Table, presets};

use backfire_model::run::Run;

/// One moment: what both sides did in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// When it began.
    pub at_ms: u64,
    /// What the client did.
    pub client: Vec<String>,
    /// What the server did.
    pub server: Vec<String>,
}

/// The timeline of a run as text.
pub fn render(run: &Run) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["time", "client", "server"]);
    for row in rows(run) {
        table.add_row([time(row.at_ms), row.client.join("; "), row.server.join("; ")]);
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn time(at_ms: u64) -> String {
    format!("{:.1} s", at_ms as f64 / 1000.0)
}

/// Events that are this close to each other are one moment.
fn moment_ms(scale: f64) -> u64 {
    (scale * 1000.0).clamp(20.0, 250.0) as u64
}

/// The rows of the timeline.
pub fn rows(run: &Run) -> Vec<Row> {
    let mut teller = Teller::new(run);
    let mut rows: Vec<Row> = Vec::new();
    for event in &run.events {
        let Some(told) = teller.tell(event) else { continue };
        let close = rows.last().is_some_and(|row| event.at_ms - row.at_ms <= moment_ms(run.scale));
        if !close {
            rows.push(Row { at_ms: event.at_ms, ..Row::default() });
        }
        let Some(row) = rows.last_mut() else { continue };
        match told {
            Told::Client(text) => row.client.push(text),
            Told::Server(text) => row.server.push(text),
        }
    }
    rows
}

enum Told {
    Client(String),
    Server(String),
}

/// Puts events into words; remembers the letters of sessions and the numbers of copies.
struct Teller {
    ledger: Ledger,
    letters: BTreeMap<Lsid, String>,
    copies: BTreeMap<CopyKey, u64>,
    resends: BTreeMap<OpId, bool>,
    reads: BTreeMap<OpId, String>,
}

impl Teller {
    fn new(run: &Run) -> Self {
        Self {
            ledger: Ledger::new(run.namespace.clone()),
            letters: BTreeMap::new(),
            copies: BTreeMap::new(),
            resends: BTreeMap::new(),
            reads: BTreeMap::new(),
        }
    }

    fn tell(&mut self, event: &Event) -> Option<Told> {
        self.ledger.record(event);
        match &event.what {
            What::Client(event) => self.client(event).map(Told::Client),
            What::Server(event) => self.server(event).map(Told::Server),
        }
    }

    /// `A, 1`: the session's letter and the number.
    fn identity(&mut self, write: &WriteId) -> String {
        let Some(lsid) = write.lsid else { return "no session".to_owned() };
        let next = self.letters.len();
        let letter = self.letters.entry(lsid).or_insert_with(|| letter(next)).clone();
        match write.txn_number {
            Some(number) => format!("{letter}, {number}"),
            None => format!("{letter}, no number"),
        }
    }

    fn client(&mut self, event: &ClientEvent) -> Option<String> {
        Some(match event {
            ClientEvent::Send { execution, write, command, attempt, .. } => {
                let identity = self.identity(write);
                match execution {
                    _ if *attempt > 1 => format!("the driver resends ({identity})"),
                    Some(execution) => format!("execution {execution} sends {command} ({identity})"),
                    None => format!("sends {command} ({identity})"),
                }
            }
            ClientEvent::SendFailed { error, .. } => match error {
                SendError::SocketTimeout => "socket timeout".to_owned(),
                SendError::OperationTimeout => "timeoutMS ran out".to_owned(),
                SendError::Network { .. } => "the connection broke".to_owned(),
                SendError::Server { code, code_name, .. } => format!("the server answers {code_name} ({code})"),
            },
            ClientEvent::ExecutionSucceeded { execution } => format!("execution {execution} succeeds"),
            ClientEvent::ExecutionFailed { execution, .. } => format!("execution {execution} fails"),
            ClientEvent::BackOff { wait_ms, .. } if *wait_ms > 0 => format!("back-off {}", time(*wait_ms)),
            ClientEvent::DeadLetter { .. } => "retries exhausted: dead letter".to_owned(),
            ClientEvent::HungUp => "the client closes its connections".to_owned(),
            ClientEvent::ExecutionStarted { .. } | ClientEvent::Reply { .. } | ClientEvent::BackOff { .. } => {
                return None;
            }
        })
    }

    fn server(&mut self, event: &ServerEvent) -> Option<String> {
        let op = event.op();
        let Some(key) = self.ledger.copy_of_op(op) else { return self.read(event) };
        let next = self.copies.len() as u64 + 1;
        if let ServerEvent::Arrived { .. } = event {
            let is_resend = self.copies.contains_key(&key);
            self.copies.entry(key).or_insert(next);
            self.resends.insert(op, is_resend);
            return None;
        }
        let copy = self.copies.get(&key).copied().unwrap_or(next);
        let who = if self.resends.get(&op) == Some(&true) {
            format!("the resend of copy {copy}")
        } else {
            format!("copy {copy}")
        };
        let running = |ledger: &Ledger| match ledger.running_copies() {
            1 => "1 copy runs".to_owned(),
            many => format!("{many} copies run"),
        };
        let text = match event {
            ServerEvent::Waiting { wait, .. } => match wait {
                Wait::Session => format!("{who} waits for its session"),
                Wait::FailPoint => format!("{who} is held by the fail point ({})", running(&self.ledger)),
                Wait::Ticket => format!("{who} waits for a ticket ({})", running(&self.ledger)),
                Wait::Lock => format!("{who} waits for a lock"),
                Wait::WriteConflict => format!("{who} meets a write conflict ({})", running(&self.ledger)),
                Wait::EngineStall => format!("{who} stands still in the engine ({})", running(&self.ledger)),
                Wait::InterruptibleStall => format!("{who} stands still ({})", running(&self.ledger)),
            },
            ServerEvent::Committed { documents, .. } => {
                let mut text = format!("{who} commits");
                if *documents != 1 {
                    let _ = write!(text, " {documents} documents");
                }
                text
            }
            ServerEvent::Replayed { .. } => format!("{who} is answered from history"),
            ServerEvent::Ended { outcome: Outcome::Error { code, code_name }, .. } => {
                format!("{who} ends with {code_name} ({code})")
            }
            ServerEvent::Ended { outcome: Outcome::ConnectionClosed, .. } => {
                format!("{who}: the connection is closed without a reply")
            }
            ServerEvent::Ended { outcome: Outcome::Ok, client_there: false, .. } => {
                format!("{who} ends, its client is gone")
            }
            ServerEvent::Ended { .. }
            | ServerEvent::Arrived { .. }
            | ServerEvent::Resumed { .. }
            | ServerEvent::Executing { .. } => return None,
        };
        Some(text)
    }

    /// Reads are told only when they are held or ended.
    fn read(&mut self, event: &ServerEvent) -> Option<String> {
        if !self.ledger.knows(event.op()) {
            return None;
        }
        if let ServerEvent::Arrived { command, .. } = event {
            self.reads.insert(event.op(), command.clone());
            return None;
        }
        let command = self.reads.get(&event.op())?;
        match event {
            ServerEvent::Waiting { .. } => Some(format!("a {command} is held")),
            ServerEvent::Ended { outcome: Outcome::Error { code, code_name }, .. } => {
                Some(format!("the {command} ends with {code_name} ({code})"))
            }
            _ => None,
        }
    }
}

/// A, B, … Z, AA, AB, …
fn letter(mut number: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'A' + (number % 26) as u8));
        match (number / 26).checked_sub(1) {
            Some(rest) => number = rest,
            None => break,
        }
    }
    letters.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_get_letters() {
        assert_eq!([0, 1, 25, 26, 27, 701, 702].map(letter), ["A", "B", "Z", "AA", "AB", "ZZ", "AAA"]);
    }
}
