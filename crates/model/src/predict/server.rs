//! What becomes of operations at a server that stands still: sessions, tickets, conflicts, deadlines, and the one moment
//! at which the stall ends.
//!
//! Everything here takes place at points of time that follow from the settings. Two things at the same instant happen in
//! the order in which they were set in motion.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::{Command, Effect, Plan, Stall};

/// The session of a copy is held by nobody of its own operations: sessions are not given out.
const NOBODY: usize = usize::MAX;

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// It wrote, was answered from the retry history, or changed nothing, and answered.
    Done,
    /// `MaxTimeMSExpired`.
    Expired,
    /// The connection was closed instead of a reply, whether it wrote or not.
    ConnectionClosed,
    /// It was refused as too much, and not begun.
    Overloaded,
    /// `TransactionTooOld`: its session has begun a newer number.
    TooOld,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A fail point holds it, before its session.
    Held,
    /// Another operation of the same copy has the session.
    Session,
    Ticket,
    /// At a place that checks for interrupts, with a ticket.
    Stalled,
    /// In the engine, deaf, with a ticket.
    Deaf,
    /// Another operation has written the same document and has not committed; without a ticket between two tries.
    Conflict,
    /// The same for the insert of an upsert, which keeps its ticket and is deaf.
    DeafConflict,
    /// The document of an upsert turned out to be there: it begins anew.
    Again,
    Over,
}

#[derive(Debug)]
pub(super) struct Op {
    pub(super) copy: usize,
    /// What the driver sent; a gateway may make several operations of it.
    request: usize,
    arrived_ms: u64,
    max_time_ms: Option<u64>,
    deadline_ms: Option<u64>,
    phase: Phase,
    /// When the present phase began.
    since_ms: u64,
    has_ticket: bool,
    has_session: bool,
    /// It was turned away before it was looked at.
    refused: bool,
    /// The statement that it is at.
    statement: usize,
    /// A statement of it was answered from the retry history.
    replayed: bool,
    /// Its connection is closed instead of a reply.
    unanswered: bool,
    /// Its place among all that begins, and that of the present phase.
    arrived_place: u64,
    since_place: u64,
    /// Times at which it was at work or waited for anything but its session: from, to, and the place of the beginning.
    active_ms: Vec<(u64, u64, u64)>,
}

impl Op {
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }
}

/// A copy: what the server knows of one (`lsid`, `txnNumber`).
#[derive(Debug)]
pub(super) struct Copy {
    /// The command that it is a copy of.
    pub(super) command: usize,
    /// The execution that sent it.
    pub(super) execution: u64,
    /// The operation that has the session.
    holder: Option<usize>,
    waiting: VecDeque<usize>,
    /// Whether an operation of it ever began its statements.
    pub(super) executed: bool,
    /// When each statement first wrote.
    pub(super) wrote_ms: Vec<Option<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The gateway sends it again.
    Again,
    HoldOver,
    /// Slow work in the engine is done.
    WorkDone,
    /// A place that is interrupted at the deadline itself.
    Deadline,
    /// A place that looks for its deadline now.
    Look,
}

/// The server.
#[derive(Debug)]
pub(super) struct Server<'p> {
    plan: &'p Plan,
    pub(super) now_ms: u64,
    pub(super) ops: Vec<Op>,
    pub(super) copies: Vec<Copy>,
    due: BinaryHeap<Reverse<(u64, u64, usize, Due)>>,
    next_due: u64,
    places: u64,
    free_tickets: u64,
    ticket_queue: VecDeque<usize>,
    /// For each document, who has written it and has not committed.
    writers: Vec<Option<usize>>,
    /// Which documents a delete has taken away.
    removed: Vec<bool>,
    /// Two slow writes met at one document: when which of them goes on is a matter of chance.
    pub(super) met_by_chance: bool,
    stalls: bool,
    /// Commands that `failCommand` has caught.
    caught: u64,
    /// Replies that were lost, or connections closed before.
    lost: u64,
    /// For each request of the driver: when it arrived at the gateway, and how often that sent it again.
    requests: Vec<(u64, u64)>,
    /// Requests that ended, in order, and have not been looked at by the client.
    pub(super) ended: VecDeque<(usize, Ended)>,
    pub(super) answered_from_history: u64,
    pub(super) ended_at_deadline: u64,
}

/// How long the `attempt`-th conflict in a row is slept off (facts/server.md 7.2).
fn conflict_sleep_ms(attempt: u64) -> u64 {
    match attempt {
        0..4 => 0,
        4..10 => 1,
        10..100 => 5,
        100..200 => 10,
        _ => 100,
    }
}

/// The first time at or after `from_ms` at which a conflict loop that began at `since_ms` tries again, and how many
/// conflicts it has met by then.
fn next_try(since_ms: u64, from_ms: u64) -> (u64, u64) {
    let (mut at_ms, mut attempt) = (since_ms, 0);
    while at_ms < from_ms {
        // Far out all steps are alike.
        let steps = if attempt >= 200 { ((from_ms - at_ms) / 100).max(1) } else { 1 };
        at_ms += steps * conflict_sleep_ms(attempt);
        attempt += steps;
    }
    (at_ms, attempt)
}

impl<'p> Server<'p> {
    pub(super) fn new(plan: &'p Plan) -> Self {
        let documents = plan.commands.iter().flat_map(|command| &command.statements);
        let documents = documents.map(|statement| statement.document + 1).max().unwrap_or(0);
        Self {
            plan,
            now_ms: 0,
            ops: Vec::new(),
            copies: Vec::new(),
            due: BinaryHeap::new(),
            next_due: 0,
            places: 0,
            free_tickets: plan.write_tickets,
            ticket_queue: VecDeque::new(),
            writers: vec![None; documents],
            removed: vec![false; documents],
            met_by_chance: false,
            stalls: false,
            caught: 0,
            lost: 0,
            requests: Vec::new(),
            ended: VecDeque::new(),
            answered_from_history: 0,
            ended_at_deadline: 0,
        }
    }

    fn schedule(&mut self, at_ms: u64, op: usize, due: Due) {
        self.due.push(Reverse((at_ms, self.next_due, op, due)));
        self.next_due += 1;
    }

    /// When something happens next by itself.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at_ms, ..))| *at_ms)
    }

    /// Lets the one thing happen that is due next.
    pub(super) fn step(&mut self) {
        let Some(Reverse((at_ms, _, op, due))) = self.due.pop() else { return };
        self.now_ms = self.now_ms.max(at_ms);
        match (due, self.ops[op].phase) {
            (Due::Again, _) => self.again(op),
            (Due::HoldOver, Phase::Held) => self.after_fail_point(op),
            (Due::WorkDone, Phase::Deaf) => self.commit(op),
            (Due::Deadline, Phase::Session | Phase::Stalled) if self.is_expired(op) => self.expire(op),
            (Due::Look, Phase::Ticket) if self.is_expired(op) => self.expire(op),
            (Due::Look, Phase::Conflict) if self.is_expired(op) => self.expire(op),
            (Due::Look, Phase::Conflict) if self.writer(op).is_none() => self.commit(op),
            (Due::Look, Phase::DeafConflict) if self.writer(op).is_none() => self.begin_anew(op),
            (Due::Look, Phase::Again) if self.is_expired(op) => self.expire(op),
            (Due::Look, Phase::Again) => self.commit(op),
            // What it was due for is over.
            _ => {}
        }
    }

    fn is_expired(&self, op: usize) -> bool {
        self.ops[op].deadline_ms.is_some_and(|deadline_ms| deadline_ms <= self.now_ms)
    }

    fn enter(&mut self, op: usize, phase: Phase) {
        let was_active = !matches!(self.ops[op].phase, Phase::Session | Phase::Over);
        let since_ms = self.ops[op].since_ms;
        if was_active && self.now_ms > since_ms {
            let place = self.ops[op].since_place;
            self.ops[op].active_ms.push((since_ms, self.now_ms, place));
        }
        self.ops[op].phase = phase;
        self.ops[op].since_ms = self.now_ms;
        self.ops[op].since_place = self.next_place();
    }

    /// The place of what begins now among all that begins: two things at one instant come one after the other.
    fn next_place(&mut self) -> u64 {
        self.places += 1;
        self.places
    }

    fn command(&self, op: usize) -> &'p Command {
        &self.plan.commands[self.copies[self.ops[op].copy].command]
    }

    /// The document of the statement that `op` is at.
    fn document(&self, op: usize) -> usize {
        self.command(op).statements[self.ops[op].statement].document
    }

    /// Who has written that document and has not committed.
    fn writer(&self, op: usize) -> Option<usize> {
        self.writers[self.document(op)]
    }

    /// A new copy of `command`, of an execution.
    pub(super) fn begin_copy(&mut self, command: usize, execution: u64) -> usize {
        let wrote_ms = vec![None; self.plan.commands[command].statements.len()];
        let (holder, waiting, executed) = (None, VecDeque::new(), false);
        self.copies.push(Copy { command, execution, holder, waiting, executed, wrote_ms });
        self.copies.len() - 1
    }

    /// The driver sends `copy`, with this `maxTimeMS`.
    pub(super) fn request(&mut self, copy: usize, max_time_ms: Option<u64>) -> usize {
        self.requests.push((self.now_ms, 0));
        let request = self.requests.len() - 1;
        self.arrive(request, copy, max_time_ms);
        request
    }

    /// The gateway sends again what `op` was. Without a number the server takes it for another write.
    fn again(&mut self, op: usize) {
        let Op { request, copy, max_time_ms, .. } = self.ops[op];
        let Copy { command, execution, .. } = self.copies[copy];
        let copy = if self.command(op).resends { copy } else { self.begin_copy(command, execution) };
        self.arrive(request, copy, max_time_ms);
    }

    /// The connection breaks: a gateway may send again, or the driver hears of it.
    fn broke(&mut self, op: usize) {
        let (request, is_numbered) = (self.ops[op].request, self.command(op).resends);
        let (arrived_ms, retries) = self.requests[request];
        let gateway = self.plan.gateway.filter(|gateway| is_numbered || !gateway.numbered_only);
        match gateway.and_then(|gateway| gateway.wait_ms(retries + 1, self.now_ms - arrived_ms)) {
            Some(wait_ms) => {
                self.requests[request].1 += 1;
                self.schedule(self.now_ms + wait_ms, op, Due::Again);
            }
            None => self.ended.push_back((request, Ended::ConnectionClosed)),
        }
    }

    /// Sends that arrived, and those of them that repeat an earlier one.
    pub(super) fn sends(&self) -> (u64, u64) {
        let repeats = |copy: usize| self.ops.iter().filter(|op| op.copy == copy).count().saturating_sub(1) as u64;
        (self.ops.len() as u64, (0..self.copies.len()).map(repeats).sum())
    }

    fn arrive(&mut self, request: usize, copy: usize, max_time_ms: Option<u64>) {
        let op = self.ops.len();
        let place = self.next_place();
        self.ops.push(Op {
            arrived_place: place,
            since_place: place,
            request,
            copy,
            arrived_ms: self.now_ms,
            max_time_ms,
            deadline_ms: None,
            phase: Phase::Held,
            since_ms: self.now_ms,
            has_ticket: false,
            has_session: false,
            refused: false,
            statement: 0,
            replayed: false,
            unanswered: false,
            active_ms: Vec::new(),
        });
        let meets = self.plan.stall_command.is_none_or(|name| name == self.command(op).name);
        match self.plan.stall {
            // A mode of zero times still catches one.
            Stall::FailCommand { hold_ms, times } if meets && self.caught < times.max(1) => {
                self.caught += 1;
                self.schedule(self.now_ms + hold_ms, op, Due::HoldOver);
            }
            Stall::Reset { times } if self.lost < times.max(1) => {
                self.lost += 1;
                self.ops[op].phase = Phase::Over;
                self.ops[op].refused = true;
                self.broke(op);
            }
            Stall::Overload { times } if self.lost < times.max(1) => {
                self.lost += 1;
                self.ops[op].phase = Phase::Over;
                self.ops[op].refused = true;
                self.ended.push_back((request, Ended::Overloaded));
            }
            _ => self.after_fail_point(op),
        }
    }

    fn after_fail_point(&mut self, op: usize) {
        let from_ms = if self.plan.deadline_counts_fail_point { self.ops[op].arrived_ms } else { self.now_ms };
        self.ops[op].deadline_ms = self.ops[op].max_time_ms.map(|max_time_ms| from_ms + max_time_ms);
        if self.is_expired(op) {
            return self.expire(op);
        }
        let copy = self.ops[op].copy;
        if !self.command(op).resends {
            // Without a number there is no session to wait for and no history.
            self.copies[copy].executed = true;
            return self.go_on(op);
        }
        // The commands of an execution are numbers of one session.
        let Copy { command, execution, .. } = self.copies[copy];
        let is_newer = |other: &Copy| other.execution == execution && other.command > command && other.executed;
        if self.copies.iter().any(is_newer) {
            return self.over(op, Ended::TooOld);
        }
        if self.stalls && self.plan.stall == Stall::Sessions {
            self.copies[copy].holder.get_or_insert(NOBODY);
        }
        if self.copies[copy].holder.is_some() {
            self.enter(op, Phase::Session);
            self.copies[copy].waiting.push_back(op);
            self.schedule_deadline(op, Due::Deadline);
        } else {
            self.begin(op);
        }
    }

    fn schedule_deadline(&mut self, op: usize, due: Due) {
        if let Some(deadline_ms) = self.ops[op].deadline_ms {
            self.schedule(deadline_ms, op, due);
        }
    }

    /// It has its session.
    fn begin(&mut self, op: usize) {
        let copy = self.ops[op].copy;
        self.copies[copy].holder = Some(op);
        self.copies[copy].executed = true;
        self.ops[op].has_session = true;
        self.go_on(op);
    }

    /// Goes to the first statement from here on that is not in the history, or ends.
    fn go_on(&mut self, op: usize) {
        let copy = self.ops[op].copy;
        let is_numbered = self.command(op).resends;
        while let Some(wrote_ms) = self.copies[copy].wrote_ms.get(self.ops[op].statement) {
            if !is_numbered || wrote_ms.is_none() {
                return if self.is_expired(op) { self.expire(op) } else { self.take_ticket(op) };
            }
            self.ops[op].replayed = true;
            self.ops[op].statement += 1;
        }
        self.over(op, if self.ops[op].unanswered { Ended::ConnectionClosed } else { Ended::Done });
    }

    fn take_ticket(&mut self, op: usize) {
        if self.free_tickets > 0 && !(self.stalls && self.plan.stall == Stall::Tickets) {
            self.free_tickets -= 1;
            self.ops[op].has_ticket = true;
            return self.work(op);
        }
        self.enter(op, Phase::Ticket);
        self.ticket_queue.push_back(op);
        if let Some(deadline_ms) = self.ops[op].deadline_ms {
            // It sleeps in slices and looks for its deadline in between.
            let slices = (deadline_ms - self.now_ms).div_ceil(self.plan.ticket_slice_ms).max(1);
            self.schedule(self.now_ms + slices * self.plan.ticket_slice_ms, op, Due::Look);
        }
    }

    /// It has its ticket.
    fn work(&mut self, op: usize) {
        if self.is_expired(op) {
            return self.expire(op);
        }
        match self.plan.stall {
            Stall::Interruptible | Stall::Lock if self.stalls => {
                self.enter(op, Phase::Stalled);
                self.schedule_deadline(op, Due::Deadline);
            }
            // There is nothing left to delete.
            _ if self.effect(op) == Effect::Removal && self.removed[self.document(op)] => self.commit(op),
            Stall::Slow { takes_ms, .. } if self.stalls && takes_ms > 0 => {
                self.met_by_chance |= !self.effect(op).is_new() && self.writer(op).is_some();
                self.write(op);
                self.enter(op, Phase::Deaf);
                self.schedule(self.now_ms + takes_ms, op, Due::WorkDone);
            }
            Stall::Engine if self.stalls => match (self.effect(op), self.writer(op)) {
                (Effect::NewDocuments(_), _) | (_, None) => {
                    self.write(op);
                    self.enter(op, Phase::Deaf);
                }
                (Effect::SameDocument, Some(_)) => self.enter(op, Phase::DeafConflict),
                (Effect::NoDocument | Effect::Removal, Some(_)) => {
                    self.enter(op, Phase::Conflict);
                    self.give_ticket_back(op);
                    if let Some(deadline_ms) = self.ops[op].deadline_ms {
                        let (look_ms, _) = next_try(self.now_ms, deadline_ms);
                        self.schedule(look_ms, op, Due::Look);
                    }
                }
            },
            _ => {
                // Slow work that had begun before the stall was over may still be at the document.
                let is_slow = matches!(self.plan.stall, Stall::Slow { .. });
                self.met_by_chance |= is_slow && !self.effect(op).is_new() && self.writer(op).is_some();
                self.commit(op);
            }
        }
    }

    fn effect(&self, op: usize) -> Effect {
        self.command(op).statements[self.ops[op].statement].effect
    }

    /// It has written and not committed.
    fn write(&mut self, op: usize) {
        let document = self.document(op);
        self.writers[document] = Some(op);
    }

    /// The insert of an upsert met the document of another: it tries again from the beginning, after one more sleep.
    fn begin_anew(&mut self, op: usize) {
        let (_, attempt) = next_try(self.ops[op].since_ms, self.now_ms);
        self.give_ticket_back(op);
        self.enter(op, Phase::Again);
        self.schedule(self.now_ms + conflict_sleep_ms(attempt), op, Due::Look);
    }

    /// The statement is done; the next follows.
    fn commit(&mut self, op: usize) {
        let (copy, document) = (self.ops[op].copy, self.document(op));
        let found = !(self.effect(op) == Effect::Removal && self.removed[document]);
        if self.writers[document] == Some(op) {
            self.writers[document] = None;
        }
        if found {
            self.removed[document] |= self.effect(op) == Effect::Removal;
            let wrote_ms = &mut self.copies[copy].wrote_ms[self.ops[op].statement];
            *wrote_ms = wrote_ms.or(Some(self.now_ms));
            let loses = matches!(self.plan.stall, Stall::LostReply { times } if self.lost < times);
            if loses && self.command(op).resends {
                self.lost += 1;
                self.ops[op].unanswered = true;
            }
        }
        self.ops[op].statement += 1;
        if self.ops[op].statement < self.command(op).statements.len() {
            self.give_ticket_back(op);
            self.enter(op, Phase::Ticket);
        }
        self.go_on(op);
    }

    fn expire(&mut self, op: usize) {
        self.ended_at_deadline += 1;
        self.over(op, Ended::Expired);
    }

    fn over(&mut self, op: usize, how: Ended) {
        self.enter(op, Phase::Over);
        match how {
            Ended::ConnectionClosed => self.broke(op),
            _ => self.ended.push_back((self.ops[op].request, how)),
        }
        self.ticket_queue.retain(|waiting| *waiting != op);
        self.answered_from_history += u64::from(self.ops[op].replayed);
        self.give_ticket_back(op);
        let copy = self.ops[op].copy;
        if self.ops[op].has_session {
            self.copies[copy].holder = None;
            if let Some(next) = self.copies[copy].waiting.pop_front() {
                self.enter(next, Phase::Ticket);
                self.begin(next);
            }
        } else {
            self.copies[copy].waiting.retain(|waiting| *waiting != op);
        }
    }

    fn give_ticket_back(&mut self, op: usize) {
        if !std::mem::take(&mut self.ops[op].has_ticket) {
            return;
        }
        match self.ticket_queue.pop_front() {
            Some(next) => {
                self.ops[next].has_ticket = true;
                self.work(next);
            }
            None => self.free_tickets += 1,
        }
    }

    /// Resends that wait for the session that their original holds.
    pub(super) fn waiting_resends(&self) -> u64 {
        self.copies
            .iter()
            .filter(|copy| copy.holder.is_some_and(|holder| holder != NOBODY))
            .map(|copy| copy.waiting.len() as u64)
            .sum()
    }

    /// The stall begins.
    pub(super) fn stall(&mut self) {
        self.stalls = self.plan.stall.is_lifted();
    }

    /// Whether an operation that can be interrupted reaches its deadline at this very instant.
    pub(super) fn has_deadline_now(&self) -> bool {
        let can_end = |op: &&Op| matches!(op.phase, Phase::Session | Phase::Stalled | Phase::Ticket);
        self.ops.iter().filter(can_end).any(|op| op.deadline_ms == Some(self.now_ms))
    }

    /// Whether writes meet the stall now.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalls
    }

    /// The stall ends: what stands still goes on.
    pub(super) fn release(&mut self) {
        self.stalls = false;
        match self.plan.stall {
            Stall::Tickets => return self.give_tickets_out(),
            Stall::Sessions => return self.give_sessions_out(),
            // Work that has begun takes its time.
            Stall::Slow { .. } => return,
            _ => {}
        }
        let standing: Vec<_> =
            (0..self.ops.len()).filter(|op| matches!(self.ops[*op].phase, Phase::Stalled | Phase::Deaf)).collect();
        for op in standing {
            match self.ops[op].phase {
                // The deadline of a write that was deaf is not asked for again.
                Phase::Stalled if self.is_expired(op) => self.expire(op),
                _ => self.commit(op),
            }
        }
        let trying: Vec<_> = (0..self.ops.len())
            .filter(|op| matches!(self.ops[*op].phase, Phase::Conflict | Phase::DeafConflict))
            .collect();
        for op in trying {
            let (look_ms, _) = next_try(self.ops[op].since_ms, self.now_ms);
            self.schedule(look_ms, op, Due::Look);
        }
    }

    fn give_tickets_out(&mut self) {
        while self.free_tickets > 0
            && let Some(next) = self.ticket_queue.pop_front()
        {
            self.free_tickets -= 1;
            self.ops[next].has_ticket = true;
            self.work(next);
        }
    }

    fn give_sessions_out(&mut self) {
        let expired: Vec<_> =
            (0..self.ops.len()).filter(|op| self.ops[*op].phase == Phase::Session && self.is_expired(*op)).collect();
        expired.into_iter().for_each(|op| self.expire(op));
        for copy in 0..self.copies.len() {
            if self.copies[copy].holder == Some(NOBODY) {
                self.copies[copy].holder = None;
                if let Some(next) = self.copies[copy].waiting.pop_front() {
                    self.enter(next, Phase::Ticket);
                    self.begin(next);
                }
            }
        }
    }

    /// The most copies that were active at one instant. It is reached when an operation becomes active.
    pub(super) fn most_copies_at_once(&self) -> u64 {
        let (mut spans, mut instants) = (Vec::new(), Vec::new());
        for op in self.ops.iter().filter(|op| !op.refused) {
            spans.extend(op.active_ms.iter().map(|span| (*span, op.copy)));
            // An operation that took no time was there for an instant.
            if op.active_ms.is_empty() && self.copies[op.copy].executed {
                instants.push((op.arrived_ms, op.arrived_place, op.copy));
            }
        }
        // What begins later at the same instant is not there yet.
        let at = |instant_ms: u64, place: u64, copy: usize| {
            let is_there = |(from_ms, to_ms, began): &(u64, u64, u64)| {
                (*from_ms < instant_ms || *from_ms == instant_ms && *began <= place) && instant_ms < *to_ms
            };
            let mut there: Vec<_> =
                spans.iter().filter(|(span, _)| is_there(span)).map(|(_, copy)| *copy).chain([copy]).collect();
            there.sort_unstable();
            there.dedup();
            there.len() as u64
        };
        let begins = spans.iter().map(|((from_ms, _, place), copy)| (*from_ms, *place, *copy)).chain(instants.clone());
        begins.map(|(instant_ms, place, copy)| at(instant_ms, place, copy)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_loop_tries_less_and_less_often() {
        for (from_ms, expected) in [
            (0, (0, 0)),
            (1, (1, 5)),
            (6, (6, 10)),
            (7, (11, 11)),
            (456, (456, 100)),
            (460, (466, 101)),
            (1456, (1456, 200)),
            (1457, (1556, 201)),
            (20_004, (20_056, 386)),
        ] {
            assert_eq!(next_try(0, from_ms), expected, "from {from_ms}");
        }
    }
}
