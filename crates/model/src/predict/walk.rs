//! The client's side, and the walk through time.

use super::server::{Ended, Server};
use super::{Effect, MIN_HEARTBEAT_MS, Plan, Prediction, Unpredictable};
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
}

/// What the client is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    /// Waits for the reply to an operation, at most until then.
    Waits { op: usize, attempt: u32, until_ms: Option<u64> },
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
    /// How many waits of the series are used up.
    waits_used: usize,
    last_failure: Option<Failure>,
    /// When the client knows the server again after its connection broke.
    server_known_ms: u64,
    sends: u64,
    resends: u64,
    waiting_resends: u64,
    application_ends_ms: u64,
    /// Copies that were let go together.
    released: u64,
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
            waits_used: 0,
            last_failure: None,
            server_known_ms: 0,
            sends: 0,
            resends: 0,
            waiting_resends: 0,
            application_ends_ms: 0,
            released: 0,
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
            if self.executions > EXECUTIONS_MAX {
                return Err(Unpredictable::NeverGivesUp(EXECUTIONS_MAX));
            }
        }
        self.application_ends_ms = self.server.now_ms;
        self.waiting_resends = self.server.waiting_resends();
        self.lift();
        while !self.server.is_idle() && self.server.next_ms().is_some() {
            self.server.step();
        }
        Ok(())
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

    fn writing_copies(&self) -> u64 {
        self.server.copies.iter().filter(|copy| copy.wrote_ms.is_some()).count() as u64
    }

    /// Goes to the next point of time at which something happens, at the server or at the client.
    fn next_moment(&mut self) -> Result<(), Unpredictable> {
        if let Some((op, how)) = self.server.ended.pop_front() {
            if let Client::Waits { op: awaited, attempt, until_ms } = self.client
                && awaited == op
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

    /// When the client next does something by itself: it hangs up at a fixed time, whatever it waits for.
    fn earliest(&self, until_ms: Option<u64>) -> Option<u64> {
        match (until_ms, self.plan.hang_up_after_ms) {
            (Some(until_ms), Some(hang_up_ms)) => Some(until_ms.min(hang_up_ms)),
            (until_ms, hang_up_ms) => until_ms.or(hang_up_ms),
        }
    }

    fn execute(&mut self) {
        self.executions += 1;
        let until_ms = self.plan.operation_timeout_ms().map(|timeout_ms| self.server.now_ms + timeout_ms);
        self.send(1, until_ms);
    }

    /// Sends as soon as the server is known. `until_ms`: when `timeoutMS` runs out.
    fn send(&mut self, attempt: u32, until_ms: Option<u64>) {
        if self.server.now_ms < self.server_known_ms {
            self.client = Client::Selects { attempt, at_ms: self.server_known_ms, until_ms };
            return;
        }
        if attempt == 1 {
            self.server.copies.push(Default::default());
        }
        let until_ms = until_ms.or_else(|| self.plan.patience_ms().map(|patience_ms| self.server.now_ms + patience_ms));
        self.sends += 1;
        self.resends += u64::from(attempt > 1);
        let copy = self.server.copies.len() - 1;
        let op = self.server.arrive(copy);
        self.client = Client::Waits { op, attempt, until_ms };
    }

    fn time_is_over(&mut self) {
        if self.plan.hang_up_after_ms.is_some_and(|hang_up_ms| hang_up_ms <= self.server.now_ms) {
            self.client = Client::Over;
            return;
        }
        match self.client {
            Client::BacksOff { .. } => self.execute(),
            // A read timeout breaks the connection: the driver sends once more. A timeout of the whole operation ends it.
            Client::Waits { attempt: 1, .. } if self.plan.resends && self.plan.operation_timeout_ms().is_none() => {
                self.send(2, None);
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

    fn answered(&mut self, how: Ended, attempt: u32, until_ms: Option<u64>) -> Result<(), Unpredictable> {
        let csot = self.plan.operation_timeout_ms().is_some();
        match how {
            Ended::Done | Ended::Replayed => self.client = Client::Over,
            // `MaxTimeMSExpired` is not resent.
            Ended::Expired if csot => self.failed(Failure::OperationTimeout),
            Ended::Expired => self.failed(Failure::MaxTimeExpired),
            // A broken connection is; under `timeoutMS` as often as there is time for.
            Ended::ConnectionClosed => {
                let left_ms = until_ms.filter(|_| csot).map(|until_ms| until_ms.saturating_sub(self.server.now_ms));
                if let Some(left_ms) = left_ms.filter(|left_ms| *left_ms <= MIN_HEARTBEAT_MS) {
                    return Err(Unpredictable::TooTight(left_ms));
                }
                // It looks at the server again, at the latest after this.
                self.server_known_ms = self.server.now_ms + MIN_HEARTBEAT_MS;
                if self.plan.resends && (attempt == 1 || csot) {
                    self.send(attempt + 1, until_ms.filter(|_| csot));
                } else {
                    self.failed(Failure::ConnectionBroken);
                }
            }
        }
        Ok(())
    }

    fn failed(&mut self, failure: Failure) {
        let changed = self.last_failure.replace(failure).is_some_and(|last| last != failure);
        if changed && self.plan.resets_on_exception_change {
            self.waits_used = 0;
        }
        let wait_ms = self.plan.waits_ms.get(self.waits_used);
        self.waits_used += 1;
        self.client = match wait_ms {
            Some(wait_ms) => Client::BacksOff { until_ms: self.server.now_ms + wait_ms },
            None => Client::Over,
        };
    }

    /// Copies that wrote after a copy of a newer execution had; `None` when nobody can say.
    fn late_copies(&self) -> Option<u64> {
        if matches!(self.plan.effect, Effect::NewDocuments(_)) {
            return Some(0);
        }
        // When copies of one document are let go together, any of them may write last.
        if self.released > 1 {
            return None;
        }
        let wrote: Vec<_> = self.server.copies.iter().map(|copy| copy.wrote_ms).collect();
        let late = wrote.iter().enumerate().filter(|(at, own)| {
            own.is_some_and(|own_ms| wrote[at + 1..].iter().flatten().any(|newer_ms| *newer_ms < own_ms))
        });
        Some(late.count() as u64)
    }

    pub(super) fn prediction(&self) -> Prediction {
        let plan = self.plan;
        let writing_copies = self.writing_copies();
        let documents = match plan.effect {
            Effect::NewDocuments(each) => plan.seeded + each * writing_copies,
            Effect::SameDocument => plan.seeded.max(u64::from(writing_copies > 0)),
            Effect::NoDocument => plan.seeded,
        };
        Prediction {
            counts: Counts {
                executions: self.executions,
                sends: self.sends,
                resends: self.resends,
                copies: self.server.copies.iter().filter(|copy| copy.executed).count() as u64,
                overlapping_copies_max: self.server.most_copies_at_once(),
                waiting_resends: self.waiting_resends,
                documents,
            },
            extras: Extras {
                answered_from_history: Some(self.server.answered_from_history),
                ended_at_deadline: Some(self.server.ended_at_deadline),
                reads_ended_with_client: Some(plan.held_reads),
                late_copies: self.late_copies(),
            },
            application_ends_ms: self.application_ends_ms,
        }
    }
}
