//! The timeline: what client and server did, side by side.

mod said;

use std::collections::BTreeMap;

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
    table.set_header(["time", "client", "server"]);
    for row in rows(run) {
        table.add_row([time(row.at_ms, run.scale), row.client.join("; "), row.server.join("; ")]);
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
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
    ledger: Ledger,
    letters: BTreeMap<Lsid, String>,
    copies: BTreeMap<CopyKey, u64>,
    resends: BTreeMap<OpId, bool>,
    reads: BTreeMap<OpId, String>,
}

impl Teller {
    fn new(run: &Run) -> Self {
        Self {
            scale: run.scale,
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
            let is_resend = self.copies.contains_key(&key);
            self.copies.entry(key).or_insert(next);
            self.resends.insert(op, is_resend);
            return None;
        }
        let copy = self.copies.get(&key).copied().unwrap_or(next);
        let who = if self.resends.get(&op) == Some(&true) { Who::ResendOf(copy) } else { Who::Copy(copy) };
        let deed = match event {
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
