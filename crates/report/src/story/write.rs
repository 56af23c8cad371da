//! The story of one logical write: its executions, their sends, and what became of each at the server.

use std::collections::{BTreeMap, BTreeSet};

use backfire_model::event::{ClientEvent, Event, Outcome, SendError, ServerEvent, Wait, What, WriteId};
use backfire_model::ledger::{CopyKey, Ledger};
use backfire_model::{ConsumerId, Execution, OpId, RequestId};

use super::measured::{Measured, More};
use super::state::{Segment, State, Track};
use super::steps::Steps;
use super::told::{self, Told, Who};
use crate::group::Group;
use crate::input::Recording;
use crate::text::{clean, letter};

/// One logical write.
#[derive(Debug, Clone, Default)]
pub struct WriteStory {
    /// What it is called.
    pub label: String,
    /// The time of its first event.
    pub began_ms: u64,
    /// The time of its last event.
    pub ended_ms: u64,
    /// What was counted.
    pub measured: Measured,
    /// What else was counted.
    pub more: More,
    /// What became of it, as its application saw it.
    pub fate: Fate,
    /// Its executions, in order. Empty where nobody saw them, and where the write is not drawn.
    pub executions: Vec<ExecutionStory>,
    /// Its sends, in the order of the stream. Empty where the write is not drawn.
    pub sends: Vec<SendStory>,
    /// How many copies ran. Empty where the write is not drawn.
    pub running: Steps<1>,
}

/// What became of a write, as its application saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fate {
    /// Nobody saw its executions.
    #[default]
    Unseen,
    /// The last execution is under way.
    UnderWay,
    /// An execution succeeded.
    Succeeded,
    /// The last execution failed, and nothing more was heard.
    Failed,
    /// It went to the dead-letter topic.
    DeadLetter,
    /// The client closed its connections.
    HungUp,
}

impl Fate {
    /// All of them; a fate's place in here is its number in the page's data.
    pub const ALL: [Fate; 6] =
        [Fate::Unseen, Fate::UnderWay, Fate::Succeeded, Fate::Failed, Fate::DeadLetter, Fate::HungUp];

    /// Its place in [`Fate::ALL`].
    pub fn number(self) -> usize {
        Self::ALL.iter().position(|fate| *fate == self).unwrap_or_default()
    }

    /// One or two words.
    pub fn label(self) -> &'static str {
        match self {
            Fate::Unseen => "not seen",
            Fate::UnderWay => "under way",
            Fate::Succeeded => "succeeded",
            Fate::Failed => "failed",
            Fate::DeadLetter => "dead letter",
            Fate::HungUp => "client hung up",
        }
    }
}

/// One execution.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExecutionStory {
    /// Its number, from 1.
    pub number: u32,
    /// The consumer that ran it, where the stream names it.
    pub consumer: Option<ConsumerId>,
    /// When it began.
    pub began_ms: u64,
    /// When it ended; `None`: it had not when the recording ended, or the client hung up.
    pub ended_ms: Option<u64>,
    /// The error that it ended with.
    pub error: Option<String>,
    /// When the error handler began to wait after it, and how long it meant to.
    pub back_off: Option<(u64, u64)>,
    /// When the record went to the dead-letter topic.
    pub dead_letter_ms: Option<u64>,
    /// When the client hung up during it.
    pub hung_up_ms: Option<u64>,
}

/// What kind of send it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendKind {
    /// The first of its copy.
    First,
    /// A resend.
    Resend,
    /// A read of the same collection.
    Read,
}

/// One send, as client and server saw it. One of the two may not have seen it.
#[derive(Debug, Clone, PartialEq)]
pub struct SendStory {
    /// Its execution, as an index into the write's.
    pub execution: Option<usize>,
    /// The number of its copy, from 1 in the order of arrival; `None`: it never arrived, or is a read.
    pub copy: Option<u32>,
    /// Whether what it belongs to was executed, or is held by a fail point and will be.
    pub is_copy: bool,
    /// What kind of send it is.
    pub kind: SendKind,
    /// `A, 1`: the session's letter within the write, and the number.
    pub identity: String,
    /// The session and the number.
    pub write: WriteId,
    /// The command's name.
    pub command: String,
    /// What the client saw.
    pub client: Option<ClientSide>,
    /// What the server saw.
    pub server: Option<ServerSide>,
}

impl SendStory {
    /// `copy 2`, `resend of copy 2`, `find`: what a row of it is called.
    pub fn name(&self) -> String {
        match (self.kind, self.copy) {
            (SendKind::Read, _) => self.command.clone(),
            (SendKind::Resend, Some(copy)) => format!("resend of copy {copy}"),
            (SendKind::First, Some(copy)) if self.is_copy => format!("copy {copy}"),
            (SendKind::First, Some(copy)) => format!("copy {copy}, refused"),
            (SendKind::Resend, None) => "resend, never arrived".to_owned(),
            (SendKind::First, None) => "send, never arrived".to_owned(),
        }
    }

    /// When it began, on the side that saw it first.
    pub fn began_ms(&self) -> u64 {
        let client = self.client.as_ref().map(|client| client.sent_ms);
        let server = self.server.as_ref().map(|server| server.arrived_ms);
        client.into_iter().chain(server).min().unwrap_or(0)
    }

    /// Whether the client stopped waiting, by a timeout or a broken connection, before the server was done.
    pub fn was_deserted(&self) -> bool {
        let Some((ended_ms, end)) = self.client.as_ref().and_then(|client| client.end.as_ref()) else { return false };
        let left = matches!(
            end,
            ClientEnd::HungUp
                | ClientEnd::Failed(SendError::SocketTimeout | SendError::OperationTimeout | SendError::Network { .. })
        );
        left && self.server.as_ref().is_some_and(|server| server.end.as_ref().is_none_or(|end| end.at_ms > *ended_ms))
    }
}

/// A send as its client saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientSide {
    /// Which attempt of the driver it is, from 1.
    pub attempt: u32,
    /// When it was sent.
    pub sent_ms: u64,
    /// When the client stopped waiting, and why.
    pub end: Option<(u64, ClientEnd)>,
}

/// Why a client stopped waiting for a send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEnd {
    /// It got its reply.
    Reply,
    /// It got none, or an error.
    Failed(SendError),
    /// It closed its connections.
    HungUp,
}

impl ClientEnd {
    /// In a few words.
    pub fn label(&self) -> String {
        match self {
            ClientEnd::Reply => "reply".to_owned(),
            ClientEnd::HungUp => "closed its connections".to_owned(),
            ClientEnd::Failed(SendError::SocketTimeout) => "socket timeout".to_owned(),
            ClientEnd::Failed(SendError::OperationTimeout) => "timeoutMS ran out".to_owned(),
            ClientEnd::Failed(SendError::Network { message }) => format!("the connection broke: {message}"),
            ClientEnd::Failed(SendError::Server { code, code_name, .. }) => format!("{code_name} ({code})"),
        }
    }
}

/// A send as the server saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSide {
    /// The operation.
    pub op: OpId,
    /// The connection.
    pub connection: i64,
    /// The client's application name.
    pub app_name: Option<String>,
    /// When it arrived.
    pub arrived_ms: u64,
    /// How it ended; `None`: it had not when the recording ended.
    pub end: Option<ServerEnd>,
    /// What it did, from its arrival to its end.
    pub segments: Vec<Segment>,
    /// What it left behind, in order.
    pub marks: Vec<Mark>,
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEnd {
    /// When.
    pub at_ms: u64,
    /// How.
    pub outcome: Outcome,
    /// Whether the client was still there.
    pub client_there: bool,
}

impl ServerEnd {
    /// In a few words.
    pub fn label(&self) -> String {
        match &self.outcome {
            Outcome::Ok => "ok".to_owned(),
            Outcome::Error { code, code_name } => format!("{code_name} ({code})"),
            Outcome::ConnectionClosed => "connection closed without a reply".to_owned(),
        }
    }
}

/// Something that an operation left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at_ms: u64,
    /// Whether statements were answered from the history; otherwise documents were committed.
    pub is_replay: bool,
    /// How many.
    pub count: u64,
}

/// More marks of one send are drawn as this many.
pub const MARKS_MAX: usize = 64;

/// A copy, on the way.
#[derive(Debug, Clone, Copy)]
struct CopyStory {
    /// Its number, from 1 in the order of arrival.
    number: u32,
    executed: bool,
    /// The execution that sent it, as an index into the write's.
    execution: Option<usize>,
}

/// A group's story is told by feeding its events in.
pub(super) struct Teller<'a> {
    story: WriteStory,
    ledger: Ledger,
    letters: BTreeMap<backfire_model::Lsid, String>,
    copies: BTreeMap<CopyKey, CopyStory>,
    /// The newest run of each execution number of each consumer.
    newest: BTreeMap<(Option<ConsumerId>, Execution), usize>,
    /// The consumer of the event that is told now.
    consumer: Option<ConsumerId>,
    by_request: BTreeMap<(WriteId, RequestId), usize>,
    ops: BTreeMap<OpId, usize>,
    tracks: Vec<Track>,
    /// Reads of which nothing is to be told so far.
    quiet_reads: BTreeMap<OpId, (u64, &'a ServerEvent)>,
    waiting_for_session: u64,
    waiting_for_session_max: u64,
    has_begun: bool,
}

impl<'a> Teller<'a> {
    /// The story of a group, and what is to be told of each of its events before `told_before` (an index into the stream).
    pub(super) fn tell(
        group: &Group,
        recording: &'a Recording,
        times_ms: &[u64],
        told_before: u32,
    ) -> (WriteStory, Vec<(u32, Told)>) {
        let of = |at: &u32| recording.events.get(*at as usize).zip(times_ms.get(*at as usize));
        let last_client =
            group.events.iter().rposition(|at| of(at).is_some_and(|(event, _)| matches!(event.what, What::Client(_))));
        let mut teller = Self {
            story: WriteStory { label: group.label.clone(), ..WriteStory::default() },
            ledger: Ledger::new(group.namespace.clone().or(recording.context.namespace.clone())),
            letters: BTreeMap::new(),
            copies: BTreeMap::new(),
            newest: BTreeMap::new(),
            consumer: None,
            by_request: BTreeMap::new(),
            ops: BTreeMap::new(),
            tracks: Vec::new(),
            quiet_reads: BTreeMap::new(),
            waiting_for_session: 0,
            waiting_for_session_max: 0,
            has_begun: false,
        };
        let mut told = Vec::new();
        let mut waiting_resends = None;
        for (number, at) in group.events.iter().enumerate() {
            let Some((event, at_ms)) = of(at) else { continue };
            let is_told = *at < told_before;
            if let Some(line) = teller.event(event, *at_ms, is_told).filter(|_| is_told) {
                told.push((*at, line));
            }
            if Some(number) == last_client {
                waiting_resends = Some(teller.ledger.waiting_resends());
            }
        }
        (teller.finish(waiting_resends, times_ms.last().copied().unwrap_or(0)), told)
    }

    fn event(&mut self, event: &'a Event, at_ms: u64, is_told: bool) -> Option<Told> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.story.began_ms = at_ms;
        }
        self.story.ended_ms = at_ms;
        self.consumer = event.consumer;
        self.ledger.record(event);
        let told = match &event.what {
            What::Client(client) => self.client(client, at_ms, is_told),
            What::Server(server) => self.server(server, at_ms, is_told),
        };
        self.story.running.push(at_ms, [self.ledger.running_copies()]);
        self.waiting_for_session_max = self.waiting_for_session_max.max(self.waiting_for_session);
        told
    }

    fn identity(&mut self, write: &WriteId) -> String {
        let Some(lsid) = write.lsid else { return "no session".to_owned() };
        let next = self.letters.len();
        let letter = self.letters.entry(lsid).or_insert_with(|| letter(next));
        match write.txn_number {
            Some(number) => format!("{letter}, {number}"),
            None => format!("{letter}, no number"),
        }
    }

    fn execution(&mut self, execution: &Execution) -> Option<&mut ExecutionStory> {
        let at = *self.newest.get(&(self.consumer, *execution))?;
        self.story.executions.get_mut(at)
    }

    fn client(&mut self, event: &ClientEvent, at_ms: u64, is_told: bool) -> Option<Told> {
        let line = |text: String, execution: Execution| Some(Told { who: Who::Execution(execution.0), text });
        match event {
            ClientEvent::ExecutionStarted { execution } => {
                let at = self.story.executions.len();
                self.newest.insert((self.consumer, *execution), at);
                let consumer = self.consumer;
                let story =
                    ExecutionStory { number: execution.0, consumer, began_ms: at_ms, ..ExecutionStory::default() };
                self.story.executions.push(story);
                self.story.fate = Fate::UnderWay;
                line("starts".to_owned(), *execution)
            }
            ClientEvent::Send { execution, write, request_id, command, attempt, .. } => {
                let identity = self.identity(write);
                let text = told::of_send(command, &identity, *attempt);
                let execution_at =
                    execution.and_then(|execution| self.newest.get(&(self.consumer, execution)).copied());
                let at = self.story.sends.len();
                self.by_request.insert((*write, *request_id), at);
                self.tracks.push(Track::default());
                self.story.sends.push(SendStory {
                    execution: execution_at,
                    copy: None,
                    is_copy: false,
                    kind: if *attempt > 1 { SendKind::Resend } else { SendKind::First },
                    identity,
                    write: *write,
                    command: command.clone(),
                    client: Some(ClientSide { attempt: *attempt, sent_ms: at_ms, end: None }),
                    server: None,
                });
                let who = execution.map_or(Who::Client, |execution| Who::Execution(execution.0));
                Some(Told { who, text })
            }
            ClientEvent::Reply { execution, write, request_id } => {
                self.send_ended(execution, write, request_id, at_ms, ClientEnd::Reply)
            }
            ClientEvent::SendFailed { execution, write, request_id, error } => {
                self.send_ended(execution, write, request_id, at_ms, ClientEnd::Failed(error.clone()))
            }
            ClientEvent::ExecutionSucceeded { execution } => {
                if let Some(story) = self.execution(execution) {
                    story.ended_ms = Some(at_ms);
                }
                self.story.fate = Fate::Succeeded;
                line("succeeds".to_owned(), *execution)
            }
            ClientEvent::ExecutionFailed { execution, error } => {
                if let Some(story) = self.execution(execution) {
                    story.ended_ms = Some(at_ms);
                    story.error = Some(error.clone());
                }
                self.story.fate = Fate::Failed;
                line(if is_told { format!("fails: {}", clean(error)) } else { String::new() }, *execution)
            }
            ClientEvent::BackOffRestarted { execution } => {
                line("met another error than before: the back-off starts over".to_owned(), *execution)
            }
            ClientEvent::BackOff { execution, wait_ms } => {
                if let Some(story) = self.execution(execution) {
                    story.back_off = Some((at_ms, *wait_ms));
                }
                line(told::of_back_off(*wait_ms), *execution)
            }
            ClientEvent::DeadLetter { execution } => {
                if let Some(story) = self.execution(execution) {
                    story.dead_letter_ms = Some(at_ms);
                }
                self.story.fate = Fate::DeadLetter;
                line(told::of_dead_letter(execution.0), *execution)
            }
            ClientEvent::RecoveryFailed { execution, error } => {
                self.story.fate = Fate::Failed;
                line(format!("cannot be made a dead letter: {}", clean(error)), *execution)
            }
            ClientEvent::HungUp => {
                if let Some(last) = self.story.executions.last_mut() {
                    last.hung_up_ms = Some(at_ms);
                }
                for client in self.story.sends.iter_mut().filter_map(|send| send.client.as_mut()) {
                    client.end.get_or_insert((at_ms, ClientEnd::HungUp));
                }
                self.story.fate = Fate::HungUp;
                Some(Told { who: Who::Client, text: "closes its connections".to_owned() })
            }
            // They are about a consumer and no record.
            ClientEvent::Assigned { .. }
            | ClientEvent::Revoked { .. }
            | ClientEvent::Lost { .. }
            | ClientEvent::CommitFailed { .. } => None,
        }
    }

    fn send_ended(
        &mut self,
        execution: &Option<Execution>,
        write: &WriteId,
        request_id: &RequestId,
        at_ms: u64,
        end: ClientEnd,
    ) -> Option<Told> {
        let at = self.by_request.get(&(*write, *request_id)).copied();
        let text = told::of_client_end(&end);
        if let Some(client) = at.and_then(|at| self.story.sends.get_mut(at)).and_then(|send| send.client.as_mut()) {
            client.end.get_or_insert((at_ms, end));
        }
        let who = execution.map_or(Who::Client, |execution| Who::Execution(execution.0));
        Some(Told { who, text })
    }

    fn server(&mut self, event: &'a ServerEvent, at_ms: u64, is_told: bool) -> Option<Told> {
        let op = event.op();
        let key = self.ledger.copy_of_op(op);
        if let ServerEvent::Arrived { .. } = event {
            let Some(key) = key else {
                self.ops.remove(&op);
                self.quiet_reads.insert(op, (at_ms, event));
                return None;
            };
            self.arrived(event, key, at_ms);
        }
        if let (ServerEvent::Executing { .. }, Some(copy)) = (event, key.and_then(|key| self.copies.get_mut(&key))) {
            copy.executed = true;
        }
        self.wake_read(event);
        let at = *self.ops.get(&op)?;
        self.change(event, at, at_ms);
        let send = self.story.sends.get(at)?;
        let who = match (send.kind, send.copy) {
            (SendKind::Read, _) => Who::Read,
            (SendKind::Resend, Some(copy)) => Who::Resend(copy),
            (_, copy) => Who::Copy(copy.unwrap_or(0)),
        };
        let text = if is_told { told::of_server(event, &send.command) } else { String::new() };
        Some(Told { who, text })
    }

    /// A read becomes a row of its own when it is held, or ended with an error.
    fn wake_read(&mut self, event: &ServerEvent) {
        let is_worth_telling =
            matches!(event, ServerEvent::Waiting { .. } | ServerEvent::Ended { outcome: Outcome::Error { .. }, .. });
        let op = event.op();
        if !is_worth_telling {
            return;
        }
        let Some((arrived_ms, ServerEvent::Arrived { write, connection, app_name, command, .. })) =
            self.quiet_reads.remove(&op)
        else {
            return;
        };
        let identity = self.identity(write);
        self.ops.insert(op, self.story.sends.len());
        self.tracks.push(Track::arrived(arrived_ms));
        self.story.sends.push(SendStory {
            execution: None,
            copy: None,
            is_copy: false,
            kind: SendKind::Read,
            identity,
            write: *write,
            command: command.clone(),
            client: None,
            server: Some(ServerSide {
                op,
                connection: connection.0,
                app_name: app_name.clone(),
                arrived_ms,
                end: None,
                segments: Vec::new(),
                marks: Vec::new(),
            }),
        });
    }

    /// A write arrived, as part of the copy `key`.
    fn arrived(&mut self, event: &ServerEvent, key: CopyKey, at_ms: u64) {
        let ServerEvent::Arrived { op, write, connection, request_id, app_name, command, .. } = event else { return };
        let is_resend = self.ledger.is_resend(*op);
        let next = CopyStory { number: self.copies.len() as u32 + 1, executed: false, execution: None };
        let copy = *self.copies.entry(key).or_insert(next);
        // The client's send, unless another operation has taken it already.
        let sent = self.by_request.get(&(*write, *request_id)).copied();
        let at = match sent.filter(|at| self.story.sends.get(*at).is_some_and(|send| send.server.is_none())) {
            Some(at) => at,
            None => {
                let identity = self.identity(write);
                self.tracks.push(Track::default());
                self.story.sends.push(SendStory {
                    execution: copy.execution,
                    copy: None,
                    is_copy: false,
                    kind: SendKind::First,
                    identity,
                    write: *write,
                    command: command.clone(),
                    client: None,
                    server: None,
                });
                self.story.sends.len() - 1
            }
        };
        self.ops.insert(*op, at);
        self.quiet_reads.remove(op);
        if let Some(track) = self.tracks.get_mut(at) {
            *track = Track::arrived(at_ms);
        }
        if let Some(send) = self.story.sends.get_mut(at) {
            send.copy = Some(copy.number);
            if let Some(copy) = self.copies.get_mut(&key) {
                copy.execution = copy.execution.or(send.execution);
            }
            send.kind = if is_resend { SendKind::Resend } else { SendKind::First };
            send.server = Some(ServerSide {
                op: *op,
                connection: connection.0,
                app_name: app_name.clone(),
                arrived_ms: at_ms,
                end: None,
                segments: Vec::new(),
                marks: Vec::new(),
            });
        }
    }

    /// What an event changes in the send that it is about.
    fn change(&mut self, event: &ServerEvent, at: usize, at_ms: u64) {
        let (Some(send), Some(track)) = (self.story.sends.get_mut(at), self.tracks.get_mut(at)) else { return };
        let Some(server) = send.server.as_mut() else { return };
        if server.end.is_some() {
            return;
        }
        let is_write = send.kind != SendKind::Read;
        let waited = is_write && track.state() == State::Waits(Wait::Session);
        match event {
            ServerEvent::Arrived { .. } => {}
            ServerEvent::Waiting { wait, .. } => track.waiting(at_ms, *wait),
            ServerEvent::Resumed { wait, .. } => track.resumed(at_ms, *wait),
            ServerEvent::Executing { .. } => track.executing(at_ms),
            ServerEvent::Committed { documents, .. } => {
                server.marks.push(Mark { at_ms, is_replay: false, count: u64::from(*documents) });
                self.story.more.documents_committed += u64::from(*documents) * u64::from(is_write);
            }
            ServerEvent::Replayed { statements, .. } => {
                server.marks.push(Mark { at_ms, is_replay: true, count: u64::from(*statements) });
            }
            ServerEvent::Ended { outcome, client_there, .. } => {
                server.end = Some(ServerEnd { at_ms, outcome: outcome.clone(), client_there: *client_there });
                self.story.more.unheard += u64::from(!client_there && is_write);
            }
        }
        let waits = is_write && server.end.is_none() && track.state() == State::Waits(Wait::Session);
        self.waiting_for_session = self.waiting_for_session + u64::from(waits) - u64::from(waited);
    }

    fn finish(mut self, waiting_resends: Option<u64>, stream_ended_ms: u64) -> WriteStory {
        let waiting_resends = waiting_resends.unwrap_or(self.waiting_for_session_max);
        self.story.measured = Measured::of(self.ledger.counts(waiting_resends, 0), self.ledger.extras(), None);
        let mut are_copies: BTreeSet<u32> =
            self.copies.values().filter(|copy| copy.executed).map(|copy| copy.number).collect();
        for (send, track) in self.story.sends.iter_mut().zip(&self.tracks) {
            let Some(server) = &mut send.server else { continue };
            if server.end.is_none() && track.waits_for(Wait::FailPoint) {
                are_copies.extend(send.copy);
            }
            server.segments = track.segments(server.end.as_ref().map_or(stream_ended_ms, |end| end.at_ms));
            server.marks = few(std::mem::take(&mut server.marks));
        }
        for send in &mut self.story.sends {
            send.is_copy = send.copy.is_some_and(|copy| are_copies.contains(&copy));
        }
        self.story.more.deserted = self.story.sends.iter().filter(|send| send.was_deserted()).count() as u64;
        self.story
    }
}

/// The marks, at most [`MARKS_MAX`]: where there are more, neighbours of a kind are one, at the time of the last of them.
fn few(marks: Vec<Mark>) -> Vec<Mark> {
    if marks.len() <= MARKS_MAX {
        return marks;
    }
    let size = marks.len().div_ceil(MARKS_MAX / 2);
    let mut few = Vec::new();
    for part in marks.chunks(size) {
        for is_replay in [false, true] {
            let mut of_kind = part.iter().filter(|mark| mark.is_replay == is_replay).peekable();
            if of_kind.peek().is_some() {
                let (at_ms, count) = of_kind.fold((0, 0), |(_, sum), mark| (mark.at_ms, sum + mark.count));
                few.push(Mark { at_ms, is_replay, count });
            }
        }
    }
    few
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_marks_become_few_and_lose_nothing() {
        let marks = (0..1_001).map(|at_ms| Mark { at_ms, is_replay: at_ms % 2 == 1, count: 1 }).collect();
        let few = few(marks);
        assert!(few.len() <= MARKS_MAX, "{}", few.len());
        let sum = |is_replay| few.iter().filter(|mark| mark.is_replay == is_replay).map(|mark| mark.count).sum::<u64>();
        assert_eq!((sum(false), sum(true)), (501, 500));
        assert_eq!(few.iter().map(|mark| mark.at_ms).max(), Some(1_000));
    }
}
