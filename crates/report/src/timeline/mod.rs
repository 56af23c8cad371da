//! The timeline: what client and server did, side by side.

mod said;

use std::collections::{BTreeMap, BTreeSet};

use backfire_model::event::{ClientEvent, Event, Outcome, SendError, ServerEvent, Wait, What, WriteId};
use backfire_model::ledger::{CopyKey, Ledger};
use backfire_model::{Lsid, OpId};
use comfy_table::{ContentArrangement, Table, presets};

use crate::text::letter;
use backfire_model::run::Run;
use said::{Deed, Said, Who, sentences};

/// One moment: what both sides did in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// When it began.
    pub at_ms: u64,
    /// What the client did.
    pub client: Vec<String>,
    /// What the server did; what several copies did alike is said once.
    pub server: Vec<String>,
}

/// The timeline of a run as text, wrapped to `width_columns` if that is given.
pub fn render(run: &Run, width_columns: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(width) = width_columns {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    // Where only the server was watched, what arrived is what the client did.
    let client = if has_client(run) { "client" } else { "client, as the server sees it" };
    table.set_header(["time", client, "server"]);
    for row in rows(run) {
        table.add_row([time(row.at_ms, run.scale), row.client.join("; "), row.server.join("; ")]);
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Whether the client told what it did.
fn has_client(run: &Run) -> bool {
    run.events.iter().any(|event| matches!(event.what, What::Client(_)))
}

/// An error's text, as far as it fits into a row.
fn shortened(error: &str) -> String {
    const LONGEST: usize = 160;
    match error.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &error[..end]),
        None => error.to_owned(),
    }
}

/// Seconds, the finer the shorter the run.
fn time(at_ms: u64, scale: f64) -> String {
    let decimals = if scale < 0.5 { 2 } else { 1 };
    format!("{:.decimals$} s", at_ms as f64 / 1000.0)
}

/// Events that are this close to each other are one moment.
fn moment_ms(scale: f64) -> u64 {
    (scale * 1000.0).clamp(20.0, 250.0) as u64
}

/// The rows of the timeline.
pub fn rows(run: &Run) -> Vec<Row> {
    let mut teller = Teller::new(run);
    let mut rows: Vec<(Row, Vec<Said>)> = Vec::new();
    for event in &run.events {
        let Some(told) = teller.tell(event) else { continue };
        let close = rows.last().is_some_and(|(row, _)| event.at_ms - row.at_ms <= moment_ms(run.scale));
        if !close {
            rows.push((Row { at_ms: event.at_ms, ..Row::default() }, Vec::new()));
        }
        let Some((row, server)) = rows.last_mut() else { continue };
        match told {
            Told::Client(text) => row.client.push(text),
            Told::Server(said) => server.push(said),
        }
    }
    rows.into_iter().map(|(row, server)| Row { server: sentences(&server), ..row }).collect()
}

enum Told {
    Client(String),
    Server(Said),
}

/// Puts events into words; remembers the letters of sessions and the numbers of copies.
struct Teller {
    scale: f64,
    has_client: bool,
    /// Whether the last error of the client has been told with its send.
    error_told: bool,
    ledger: Ledger,
    letters: BTreeMap<Lsid, String>,
    copies: BTreeMap<CopyKey, u64>,
    resends: BTreeMap<OpId, bool>,
    reads: BTreeMap<OpId, String>,
    /// What operations wait for at the moment.
    waits: BTreeMap<OpId, Wait>,
}

impl Teller {
    fn new(run: &Run) -> Self {
        Self {
            scale: run.scale,
            has_client: has_client(run),
            error_told: false,
            ledger: Ledger::new(run.namespace.clone()),
            letters: BTreeMap::new(),
            copies: BTreeMap::new(),
            resends: BTreeMap::new(),
            reads: BTreeMap::new(),
            waits: BTreeMap::new(),
        }
    }

    fn tell(&mut self, event: &Event) -> Option<Told> {
        self.ledger.record(event);
        match &event.what {
            What::Client(event) => self.client(event).map(Told::Client),
            What::Server(event) => {
                let said = self.server(event);
                match self.arrival(event).filter(|_| !self.has_client) {
                    Some(arrival) => Some(Told::Client(arrival)),
                    None => said.map(Told::Server),
                }
            }
        }
    }

    /// A write that arrived, from the side of the client that sent it.
    fn arrival(&mut self, event: &ServerEvent) -> Option<String> {
        let ServerEvent::Arrived { op, write, command, .. } = event else { return None };
        let is_resend = *self.resends.get(op)?;
        let identity = self.identity(write);
        Some(if is_resend {
            format!("resends {command} ({identity})")
        } else {
            format!("sends {command} ({identity})")
        })
    }

    /// Copies that have a ticket: those that run and wait neither for one nor in a fail point.
    fn copies_with_ticket(&self) -> u64 {
        let without = self.waits.iter().filter(|(_, wait)| matches!(wait, Wait::Ticket | Wait::FailPoint));
        let without: BTreeSet<_> = without.filter_map(|(op, _)| self.ledger.copy_of_op(*op)).collect();
        self.ledger.running_copies().saturating_sub(without.len() as u64)
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
        match event {
            ClientEvent::Send { .. } | ClientEvent::Reply { .. } => self.error_told = false,
            ClientEvent::SendFailed { .. } => self.error_told = true,
            _ => {}
        }
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
            ClientEvent::ExecutionFailed { execution, .. } if self.error_told => format!("execution {execution} fails"),
            ClientEvent::ExecutionFailed { execution, error } => {
                format!("execution {execution} fails: {}", shortened(error))
            }
            ClientEvent::BackOffRestarted { .. } => "another error than before: the back-off starts over".to_owned(),
            ClientEvent::BackOff { wait_ms, .. } if *wait_ms > 0 => format!("back-off {}", time(*wait_ms, self.scale)),
            ClientEvent::DeadLetter { .. } => "retries exhausted: dead letter".to_owned(),
            ClientEvent::RecoveryFailed { .. } => "the dead letter could not be published".to_owned(),
            ClientEvent::HungUp => "the client closes its connections".to_owned(),
            ClientEvent::Lost { .. } => "max.poll.interval.ms exceeded: the partitions are lost".to_owned(),
            ClientEvent::CommitFailed { .. } => "the commit fails: the consumer is out of its group".to_owned(),
            ClientEvent::Assigned { .. } | ClientEvent::Revoked { .. } => return None,
            ClientEvent::ExecutionStarted { .. } | ClientEvent::Reply { .. } | ClientEvent::BackOff { .. } => {
                return None;
            }
        })
    }

    fn server(&mut self, event: &ServerEvent) -> Option<Said> {
        let op = event.op();
        let Some(key) = self.ledger.copy_of_op(op) else { return self.read(event).map(Said::other) };
        let next = self.copies.len() as u64 + 1;
        if let ServerEvent::Arrived { .. } = event {
            let is_resend = self.ledger.is_resend(op);
            self.copies.entry(key).or_insert(next);
            self.resends.insert(op, is_resend);
            return None;
        }
        match event {
            ServerEvent::Waiting { wait, .. } => drop(self.waits.insert(op, *wait)),
            ServerEvent::Resumed { .. } | ServerEvent::Ended { .. } => drop(self.waits.remove(&op)),
            _ => {}
        }
        let copy = self.copies.get(&key).copied().unwrap_or(next);
        let who = if self.resends.get(&op) == Some(&true) { Who::ResendOf(copy) } else { Who::Copy(copy) };
        let deed = match event {
            ServerEvent::Waiting { wait: Wait::Ticket, .. } => Deed::Waits(Wait::Ticket, self.copies_with_ticket()),
            ServerEvent::Waiting { wait, .. } => Deed::Waits(*wait, self.ledger.running_copies()),
            ServerEvent::Committed { documents, .. } => Deed::Commits { documents: u64::from(*documents) },
            ServerEvent::Replayed { .. } => Deed::AnsweredFromHistory,
            ServerEvent::Ended { outcome: Outcome::Error { code, code_name }, .. } => {
                Deed::EndsWith { code: *code, code_name: code_name.clone() }
            }
            ServerEvent::Ended { outcome: Outcome::ConnectionClosed, .. } => Deed::ConnectionClosed,
            ServerEvent::Ended { outcome: Outcome::Ok, client_there: false, .. } => Deed::Unheard,
            ServerEvent::Resumed { wait: Wait::EngineStall, .. } => return Some(Said::other("the stall ends")),
            ServerEvent::Ended { .. }
            | ServerEvent::Arrived { .. }
            | ServerEvent::Resumed { .. }
            | ServerEvent::Executing { .. } => return None,
        };
        Some(Said::Of(who, deed))
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

#[cfg(test)]
mod tests {
    use super::*;
    use backfire_model::counts::{Counts, Extras};
    use backfire_model::{ConnectionId, Execution, RequestId};

    fn run(events: impl IntoIterator<Item = What>) -> Run {
        let events = events.into_iter().map(|what| Event { at_ms: 0, record: None, consumer: None, what }).collect();
        let nothing = (Counts::default(), Extras::default());
        Run { scenario: "x".into(), scale: 1.0, namespace: None, predicted: nothing, measured: nothing, events }
    }

    fn client(run: &Run) -> Vec<String> {
        rows(run).into_iter().flat_map(|row| row.client).collect()
    }

    #[test]
    fn an_error_is_told_once_and_so_is_a_back_off_that_starts_over() {
        let (execution, write, request_id) = (Execution(1), WriteId::default(), RequestId(1));
        let failed = || What::Client(ClientEvent::ExecutionFailed { execution, error: "Bad: no".into() });
        let timeout = SendError::SocketTimeout;
        let execution_of = Some(execution);
        let events = [
            What::Client(ClientEvent::Reply { execution: execution_of, write, request_id }),
            failed(),
            What::Client(ClientEvent::SendFailed { execution: execution_of, write, request_id, error: timeout }),
            failed(),
            What::Client(ClientEvent::BackOffRestarted { execution }),
        ];
        assert_eq!(
            client(&run(events)),
            [
                "execution 1 fails: Bad: no",
                "socket timeout",
                "execution 1 fails",
                "another error than before: the back-off starts over"
            ]
        );
        assert_eq!(shortened(&"ä".repeat(200)).chars().count(), 163);
    }

    #[test]
    fn where_no_client_tells_the_server_does() {
        let write = WriteId { lsid: Some(Lsid(Default::default())), txn_number: Some(backfire_model::TxnNumber(1)) };
        let arrived = |op: i32| {
            What::Server(ServerEvent::Arrived {
                op: OpId(op),
                write,
                connection: ConnectionId(1),
                request_id: RequestId(op),
                app_name: None,
                command: "insert".into(),
                namespace: "db.c".into(),
                in_transaction: false,
            })
        };
        let run = run([arrived(1), arrived(2)]);
        assert_eq!(client(&run), ["sends insert (A, 1)", "resends insert (A, 1)"]);
        assert!(render(&run, None).contains("client, as the server sees it"));
    }
}
