//! The client's side, and the walk through time.

use std::collections::BTreeSet;

use super::server::{Copy, Ended, Server};
use super::{Effect, MIN_HEARTBEAT_MS, Plan, Prediction, Unpredictable};
use crate::budget::Purse;
use crate::counts::{Counts, Extras};

/// More executions than this are as good as endless.
const EXECUTIONS_MAX: u64 = 100_000;

/// What the application sees of an execution that failed: errors of the same class are equal (A9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    SocketTimeout,
    /// `timeoutMS` ran out, at the client or at the server.
    OperationTimeout,
    MaxTimeExpired,
    ConnectionBroken,
    Overloaded,
    TooOld,
    Cancelled,
}

/// What the client is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    /// Waits for the reply to a request, at most until then.
    Waits { request: usize, attempt: u32, until_ms: Option<u64> },
    /// Waits until it knows the server again, to send for the `attempt`-th time; at most until `until_ms`.
    Selects { attempt: u32, at_ms: u64, until_ms: Option<u64> },
    /// Waits before it executes again.
    BacksOff { until_ms: u64 },
    /// Has finished.
    Over,
}

/// One logical write on its way.
#[derive(Debug)]
pub(super) struct Walk<'p> {
    plan: &'p Plan,
    server: Server<'p>,
    client: Client,
    executions: u64,
    purse: Option<Purse>,
    /// When the application gives up the execution that is under way.
    cancelled_ms: Option<u64>,
    /// The command of the execution that is under way.
    command: usize,
    /// The copy that it makes.
    copy: usize,
    /// How many waits of the series are used up.
    waits_used: usize,
    /// The same of the retries within a call, from the innermost layer outwards.
    inner_used: Vec<usize>,
    last_failure: Option<Failure>,
    /// When the client knows the server again after its connection broke.
    server_known_ms: u64,
    /// What the driver sent.
    sends: u64,
    waiting_resends: u64,
    application_ends_ms: u64,
    /// Copies that were let go together.
    released: u64,
    /// Runs that the budget had nothing for; a layer that starts over asks again and again.
    refusals: u64,
    /// Whether a stall that begins later has begun.
    turned: bool,
    first: First,
    /// When first two things were due at the same instant, and what met the client's step.
    tie: Option<(u64, &'static str)>,
}

/// Which of two things happens first that are due at the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// The stall begins or ends, then the server goes on, then the client.
    Server,
    /// The other way round.
    Client,
}

impl<'p> Walk<'p> {
    pub(super) fn new(plan: &'p Plan, first: First) -> Self {
        Self {
            plan,
            first,
            tie: None,
            server: Server::new(plan),
            client: Client::Over,
            executions: 0,
            purse: plan.retry_budget.map(|budget| Purse::new(budget, 0)),
            cancelled_ms: None,
            command: 0,
            copy: 0,
            waits_used: 0,
            inner_used: vec![0; plan.inner_waits_ms.len()],
            last_failure: None,
            server_known_ms: 0,
            sends: 0,
            waiting_resends: 0,
            application_ends_ms: 0,
            released: 0,
            refusals: 0,
            turned: false,
        }
    }

    /// # Errors
    /// When nothing ends the wait of the client, or two things that decide the numbers are due at the same instant.
    pub(super) fn go(&mut self) -> Result<(), Unpredictable> {
        if self.plan.stall_from_ms == 0 {
            self.server.stall();
        }
        self.execute();
        while self.client != Client::Over {
            self.next_moment()?;
            if self.executions.max(self.sends).max(self.refusals) > EXECUTIONS_MAX {
                return Err(Unpredictable::NeverGivesUp(EXECUTIONS_MAX));
            }
        }
        self.application_ends_ms = self.server.now_ms;
        self.waiting_resends = self.server.waiting_resends();
        self.lift();
        // A gateway may go on for long.
        while self.server.next_ms().is_some() {
            self.server.step();
        }
        Ok(())
    }

    /// Whether two slow writes met at one document.
    pub(super) fn met_by_chance(&self) -> bool {
        self.server.met_by_chance
    }

    /// When first two things were due at the same instant, and what met the client's step.
    pub(super) fn tie(&self) -> Option<(u64, &'static str)> {
        self.tie
    }

    /// The stall ends.
    fn lift(&mut self) {
        if self.server.is_stalled() {
            let mut standing: Vec<_> = self.server.ops.iter().filter(|op| !op.is_over()).map(|op| op.copy).collect();
            standing.dedup();
            self.released = self.released.max(standing.len() as u64);
        }
        self.server.release();
    }

    fn refuse(&self, one: &'static str, other: &'static str) -> Unpredictable {
        Unpredictable::Tie { at_ms: self.server.now_ms, one, other }
    }

    /// Whether the answer and the end of the client's patience come at the same instant. Under `timeoutMS` the server's
    /// deadline is the client's, and both mean the same to the application.
    fn answer_ties(&self, how: Ended, until_ms: Option<u64>) -> bool {
        let is_same = how == Ended::Expired && self.plan.operation_timeout_ms().is_some();
        until_ms == Some(self.server.now_ms) && !is_same
    }

    /// When the stall begins or ends next.
    fn turn_ms(&self) -> Option<u64> {
        let from_ms = self.plan.stall_from_ms;
        if self.server.now_ms < from_ms && !self.turned {
            return Some(from_ms);
        }
        self.plan.stall_for_ms.filter(|_| self.server.is_stalled()).map(|for_ms| from_ms + for_ms)
    }

    /// Goes to the next point of time at which something happens, at the server or at the client.
    fn next_moment(&mut self) -> Result<(), Unpredictable> {
        if let Some((request, how)) = self.server.ended.pop_front() {
            if let Client::Waits { request: awaited, attempt, until_ms } = self.client
                && awaited == request
            {
                if self.answer_ties(how, until_ms) {
                    let patience = match self.plan.operation_timeout_ms() {
                        Some(_) => "the client's timeoutMS runs out",
                        None => "the client's socketTimeoutMS runs out",
                    };
                    let answer = match how {
                        Ended::Expired => "the write it waits for reaches its maxTimeMS",
                        _ => "the write it waits for ends",
                    };
                    return Err(self.refuse(patience, answer));
                }
                return self.answered(how, attempt, until_ms);
            }
            return Ok(());
        }
        let own_ms = match self.client {
            Client::Waits { until_ms, .. } => self.earliest(until_ms),
            Client::BacksOff { until_ms } => self.earliest(Some(until_ms)),
            Client::Selects { at_ms, until_ms, .. } => self.earliest(Some(until_ms.map_or(at_ms, |ms| ms.min(at_ms)))),
            Client::Over => return Ok(()),
        };
        let (server_ms, turn_ms) = (self.server.next_ms(), self.turn_ms());
        let next_ms = [server_ms, own_ms, turn_ms].into_iter().flatten().min();
        if let Some(now_ms) = next_ms
            && [server_ms, own_ms, turn_ms].iter().filter(|due_ms| **due_ms == Some(now_ms)).count() > 1
        {
            let other =
                if turn_ms == Some(now_ms) { "the stall begins or ends" } else { "the server goes on with a write" };
            self.tie = self.tie.or(Some((now_ms, other)));
        }
        let others_ms = [server_ms, own_ms].into_iter().flatten().min();
        let turns = |turn_ms: &u64| match (others_ms, self.first) {
            (None, _) => true,
            (Some(others_ms), First::Server) => *turn_ms <= others_ms,
            (Some(others_ms), First::Client) => *turn_ms < others_ms,
        };
        if let Some(turn_ms) = turn_ms.filter(turns) {
            self.server.now_ms = turn_ms;
            if self.server.is_stalled() {
                // Lifted by the clock. Who lifts it because the application has ended comes after the deadline.
                if self.server.has_deadline_now() {
                    return Err(self.refuse("the stall ends", "a write reaches its maxTimeMS"));
                }
                self.lift();
            } else {
                self.turned = true;
                self.server.stall();
            }
            return Ok(());
        }
        match (server_ms, own_ms) {
            (Some(server_ms), Some(own_ms)) if server_ms < own_ms => self.server.step(),
            (Some(server_ms), Some(own_ms)) if server_ms == own_ms && self.first == First::Server => self.server.step(),
            (Some(_), None) => self.server.step(),
            (_, Some(own_ms)) => {
                self.server.now_ms = own_ms;
                self.time_is_over();
            }
            (None, None) => return Err(Unpredictable::WaitsForEver),
        }
        Ok(())
    }

    /// When the client next does something by itself: it hangs up at a fixed time, whatever it waits for, and gives an
    /// execution up at one.
    fn earliest(&self, until_ms: Option<u64>) -> Option<u64> {
        let cancelled_ms = self.cancelled_ms.filter(|_| !matches!(self.client, Client::BacksOff { .. }));
        [until_ms, self.plan.hang_up_after_ms, cancelled_ms].into_iter().flatten().min()
    }

    /// The next run of the write: its commands, from the first on.
    fn execute(&mut self) {
        if self.executions == 0 {
            if let Some(purse) = &mut self.purse {
                purse.first_try();
            }
        } else if !self.pays() {
            return self.refused();
        }
        self.executions += 1;
        self.command = 0;
        self.cancelled_ms = self.plan.cancel_after_ms.map(|cancel_ms| self.server.now_ms + cancel_ms);
        let until_ms = self.plan.operation_timeout_ms().map(|timeout_ms| self.server.now_ms + timeout_ms);
        self.send(1, until_ms);
    }

    /// Sends as soon as the server is known. `until_ms`: when `timeoutMS` runs out.
    fn send(&mut self, attempt: u32, until_ms: Option<u64>) {
        if self.server.now_ms < self.server_known_ms {
            self.client = Client::Selects { attempt, at_ms: self.server_known_ms, until_ms };
            return;
        }
        // Without a number the server takes what is sent again for another write.
        if attempt == 1 || !self.plan.commands[self.command].resends {
            self.copy = self.server.begin_copy(self.command, self.executions);
        }
        // `timeoutMS` replaces the user's own, and is for the whole bulk: the server is told what is left of it (A5, A7).
        let left_ms = until_ms.map(|until_ms| until_ms - self.server.now_ms);
        let max_time_ms = left_ms.filter(|_| self.plan.operation_timeout_ms().is_some()).or(self.plan.max_time_ms);
        let until_ms = until_ms.or_else(|| self.plan.patience_ms().map(|patience_ms| self.server.now_ms + patience_ms));
        self.sends += 1;
        let request = self.server.request(self.copy, max_time_ms);
        self.client = Client::Waits { request, attempt, until_ms };
    }

    fn time_is_over(&mut self) {
        if self.plan.hang_up_after_ms.is_some_and(|hang_up_ms| hang_up_ms <= self.server.now_ms) {
            self.client = Client::Over;
            return;
        }
        let client = self.client;
        match client {
            Client::BacksOff { .. } => self.execute(),
            _ if self.cancelled_ms.is_some_and(|cancelled_ms| cancelled_ms <= self.server.now_ms) => {
                self.failed(Failure::Cancelled);
            }
            // A read timeout breaks the connection: the driver sends once more. A timeout of the whole operation ends it.
            Client::Waits { attempt, .. } if self.plan.operation_timeout_ms().is_none() && self.may_resend(attempt) => {
                self.send(attempt + 1, None);
            }
            Client::Selects { attempt, at_ms, until_ms } if at_ms <= self.server.now_ms => self.send(attempt, until_ms),
            Client::Selects { .. } => self.failed(Failure::OperationTimeout),
            Client::Waits { .. } if self.plan.operation_timeout_ms().is_some() => {
                self.failed(Failure::OperationTimeout)
            }
            Client::Waits { .. } => self.failed(Failure::SocketTimeout),
            Client::Over => {}
        }
    }

    /// Whether the driver sends the command again after its connection failed in the `attempt`-th try: once, or as often as
    /// there is time for under `timeoutMS` (A2).
    fn may_resend(&mut self, attempt: u32) -> bool {
        let is_unlimited = self.plan.resends_without_limit || self.plan.operation_timeout_ms().is_some();
        self.plan.commands[self.command].resends && (attempt == 1 || is_unlimited) && self.pays()
    }

    /// Whether the budget has a retry left, which is spent then.
    fn pays(&mut self) -> bool {
        let now_ms = self.server.now_ms;
        self.purse.as_mut().is_none_or(|purse| purse.may_retry(now_ms))
    }

    fn answered(&mut self, how: Ended, attempt: u32, until_ms: Option<u64>) -> Result<(), Unpredictable> {
        let csot = self.plan.operation_timeout_ms().is_some();
        match how {
            Ended::Done if self.command + 1 < self.plan.commands.len() => {
                self.command += 1;
                if until_ms.is_some_and(|until_ms| csot && until_ms <= self.server.now_ms) {
                    // There is no time left to send the next command in.
                    self.failed(Failure::OperationTimeout);
                } else {
                    self.send(1, until_ms.filter(|_| csot));
                }
            }
            Ended::Done => self.client = Client::Over,
            // `MaxTimeMSExpired` is not resent.
            Ended::Expired if csot => self.failed(Failure::OperationTimeout),
            Ended::Expired => self.failed(Failure::MaxTimeExpired),
            // What an overloaded server refuses is sent again whatever it is (C2); when exactly does not matter, because nothing
            // of it runs.
            Ended::Overloaded if u64::from(attempt) <= self.plan.overload_retries && self.pays() => {
                self.send(attempt + 1, until_ms.filter(|_| csot));
            }
            Ended::Overloaded => self.failed(Failure::Overloaded),
            Ended::TooOld => self.failed(Failure::TooOld),
            // A broken connection is; under `timeoutMS` as often as there is time for.
            Ended::ConnectionClosed => {
                let left_ms = until_ms.filter(|_| csot).map(|until_ms| until_ms.saturating_sub(self.server.now_ms));
                if let Some(left_ms) = left_ms.filter(|left_ms| *left_ms <= MIN_HEARTBEAT_MS) {
                    return Err(Unpredictable::TooTight(left_ms));
                }
                // It looks at the server again, at the latest after this.
                self.server_known_ms = self.server.now_ms + MIN_HEARTBEAT_MS;
                if self.may_resend(attempt) {
                    self.send(attempt + 1, until_ms.filter(|_| csot));
                } else {
                    self.failed(Failure::ConnectionBroken);
                }
            }
        }
        Ok(())
    }

    /// The layers within the call repeat it first, the innermost before the others; then the listener fails (D2).
    fn inner_wait_ms(&mut self) -> Option<u64> {
        for (layer, waits_ms) in self.plan.inner_waits_ms.iter().enumerate() {
            if let Some(wait_ms) = waits_ms.get(self.inner_used[layer]) {
                self.inner_used[layer] += 1;
                return Some(*wait_ms);
            }
            self.inner_used[layer] = 0;
        }
        None
    }

    /// The budget has nothing for another run: the layers within the call try in vain, and then it is a dead letter at once.
    fn refused(&mut self) {
        self.refusals += 1;
        self.client = match self.inner_wait_ms() {
            Some(wait_ms) => Client::BacksOff { until_ms: self.server.now_ms + wait_ms },
            None => self.exhausted(),
        };
    }

    /// What follows the last retry.
    fn exhausted(&mut self) -> Client {
        match self.plan.starts_over {
            Some((wait_ms, _)) => {
                (self.waits_used, self.last_failure) = (0, None);
                Client::BacksOff { until_ms: self.server.now_ms + wait_ms }
            }
            None => Client::Over,
        }
    }

    fn failed(&mut self, failure: Failure) {
        if let Some(wait_ms) = self.inner_wait_ms() {
            self.client = Client::BacksOff { until_ms: self.server.now_ms + wait_ms };
            return;
        }
        let changed = self.last_failure.replace(failure).is_some_and(|last| last != failure);
        if changed && self.plan.resets_on_exception_change {
            self.waits_used = 0;
        }
        let wait_ms = self.plan.waits_ms.get(self.waits_used);
        self.waits_used += 1;
        self.client = match wait_ms {
            Some(wait_ms) => Client::BacksOff { until_ms: self.server.now_ms + wait_ms },
            None => self.exhausted(),
        };
    }

    /// Each statement of each copy that wrote: its effect, its document, the execution and when.
    fn written(&self) -> impl Iterator<Item = (Effect, usize, &Copy, u64)> {
        self.server.copies.iter().flat_map(|copy| {
            let statements = &self.plan.commands[copy.command].statements;
            statements.iter().zip(&copy.wrote_ms).filter_map(move |(statement, wrote_ms)| {
                wrote_ms.map(|wrote_ms| (statement.effect, statement.document, copy, wrote_ms))
            })
        })
    }

    /// Copies that wrote after a copy of a newer execution had; `None` when nobody can say.
    fn late_copies(&self) -> Option<u64> {
        let mut statements = self.plan.commands.iter().flat_map(|command| &command.statements);
        if statements.all(|statement| statement.effect.is_new()) {
            return Some(0);
        }
        // When copies of one document are let go together, any of them may write last.
        if self.released > 1 {
            return None;
        }
        let wrote: Vec<_> = self.written().filter(|(effect, ..)| !effect.is_new()).collect();
        let is_late = |(_, document, copy, own_ms): &&(Effect, usize, &Copy, u64)| {
            wrote.iter().any(|(_, other, newer, newer_ms)| {
                other == document && newer.execution > copy.execution && newer_ms < own_ms
            })
        };
        let mut late: Vec<_> =
            wrote.iter().filter(is_late).map(|(_, _, copy, _)| (copy.execution, copy.command)).collect();
        late.sort_unstable();
        late.dedup();
        Some(late.len() as u64)
    }

    /// Sends that the history answers; `None` when nobody can say: copies that are let go together take turns at the
    /// statements of a command, and one that finds nothing left to delete is not in the history.
    fn answered_from_history(&self) -> Option<u64> {
        let takes_turns = self.plan.commands.iter().any(|command| {
            command.statements.len() > 1
                && command.statements.iter().any(|statement| matches!(statement.effect, Effect::Removal))
        });
        (self.released <= 1 || !takes_turns).then_some(self.server.answered_from_history)
    }

    /// The documents that are there in the end.
    fn documents(&self) -> u64 {
        let (mut added, mut removed, mut touched) = (0, 0, BTreeSet::new());
        for (effect, document, ..) in self.written() {
            let is_first = touched.insert(document);
            match effect {
                Effect::NewDocuments(each) => added += each,
                Effect::SameDocument => added += u64::from(is_first && !self.plan.is_seeded(document)),
                Effect::Removal => removed += u64::from(is_first),
                Effect::NoDocument => {}
            }
        }
        self.plan.seeded + added - removed
    }

    pub(super) fn prediction(&self) -> Prediction {
        let plan = self.plan;
        let (sends, resends) = self.server.sends();
        Prediction {
            counts: Counts {
                executions: self.executions,
                sends,
                resends,
                copies: self.server.copies.iter().filter(|copy| copy.executed).count() as u64,
                overlapping_copies_max: self.server.most_copies_at_once(),
                waiting_resends: self.waiting_resends,
                documents: self.documents(),
            },
            extras: Extras {
                answered_from_history: self.answered_from_history(),
                ended_at_deadline: Some(self.server.ended_at_deadline),
                reads_ended_with_client: Some(plan.held_reads),
                late_copies: self.late_copies(),
                sends_by_driver: Some(self.sends).filter(|by_driver| *by_driver != sends),
            },
            application_ends_ms: self.application_ends_ms,
        }
    }
}
