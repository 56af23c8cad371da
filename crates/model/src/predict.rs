//! The prediction: from what decides to what will be counted, in closed form.
//!
//! Source of the rules: facts/client.md A2, A6, A7, D1, F1 to F6; facts/server.md 1.2, 2.4, 3.2, 4.2, 7.1. The prediction
//! walks over the executions and adds up intervals; it runs no server and no driver, and a simulation is its test.

use serde::{Deserialize, Serialize};

use crate::counts::{Counts, Extras};

/// What decides how often a logical write is sent and copied.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// `socketTimeoutMS`; `None` waits for ever.
    pub socket_timeout_ms: Option<u64>,
    /// `timeoutMS`; `None`: not set.
    pub timeout_ms: Option<u64>,
    /// Whether the driver resends the command after a network error: `retryWrites` is on and the command is one that can
    /// be resent.
    pub resends: bool,
    /// `maxTimeMS` of each write.
    pub max_time_ms: Option<u64>,
    /// The waits between executions; their number plus one is the number of executions.
    pub waits_ms: Vec<u64>,
    /// What keeps the server from finishing.
    pub stall: Stall,
    /// How many writes may be in the engine at once.
    pub write_tickets: u64,
    /// A wait for a ticket looks for its deadline once per this time.
    pub ticket_slice_ms: u64,
    /// Whether time in a fail point counts against `maxTimeMS` (servers newer than 4.4).
    pub deadline_counts_fail_point: bool,
    /// The client closes its connections this long after the first send, and does nothing more.
    pub hang_up_after_ms: Option<u64>,
    /// How many reads are held at the server when the client hangs up.
    pub held_reads: u64,
    /// What one execution of the write leaves behind.
    pub effect: Effect,
    /// How many documents are there before.
    pub seeded: u64,
}

/// What one execution of the write leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// New documents, with `_id`s of their own each time.
    NewDocuments(u64),
    /// The same document, however often: an upsert by `_id`.
    SameDocument,
    /// No document more: an update or a delete that leaves the number as it is.
    NoDocument,
}

/// What keeps the server from finishing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Stall {
    /// Nothing.
    None,
    /// `failCommand` with `blockConnection`: a command is held before its session is checked out, then executed.
    FailCommand {
        /// How long each is held.
        hold_ms: u64,
        /// How many are held.
        times: u64,
    },
    /// The engine stands still and is deaf to interrupts, until the application has finished.
    Engine,
    /// A place that checks for interrupts stands still, until the application has finished.
    Interruptible,
    /// The write commits and the connection is closed instead of a reply.
    LostReply {
        /// How many replies are lost.
        times: u64,
    },
}

/// Why there is no prediction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpredictable {
    /// Nothing ends the wait of the client.
    #[error(
        "the client would wait for ever: neither socketTimeoutMS nor timeoutMS is set, and the stall ends only after the client"
    )]
    WaitsForEver,
}

/// What the settings promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// The seven counts.
    pub counts: Counts,
    /// The other numbers, where they can be said.
    pub extras: Extras,
    /// When the last execution ends, in milliseconds after the first began.
    pub application_ends_ms: u64,
}

/// A copy's time at the server, both ends in milliseconds; `None`: until the stall ends.
#[derive(Debug, Clone, Copy)]
struct Running {
    from_ms: u64,
    until_ms: Option<u64>,
    /// When it writes, if that can be said.
    writes_ms: Option<u64>,
}

#[derive(Debug, Default)]
struct Walk {
    now_ms: u64,
    executions: u64,
    sends: u64,
    resends: u64,
    waiting_resends: u64,
    running: Vec<Running>,
    /// Copies that write, now or when the stall ends.
    writing_copies: u64,
    answered_from_history: u64,
    ended_at_deadline: u64,
    /// Copies that have a ticket until the stall ends.
    stalled_in_engine: u64,
    /// Commands that `failCommand` has held.
    held: u64,
    /// Replies that were lost.
    lost: u64,
    succeeded: bool,
}

/// Predicts one logical write.
///
/// # Errors
/// When the client would wait for ever.
pub fn predict(plan: &Plan) -> Result<Prediction, Unpredictable> {
    let mut walk = Walk::default();
    let mut waits = plan.waits_ms.iter();
    loop {
        walk.executions += 1;
        if plan.hang_up_after_ms.is_some() {
            walk.hung_up(plan);
            break;
        }
        walk.execution(plan)?;
        if walk.succeeded {
            break;
        }
        match waits.next() {
            Some(wait_ms) => walk.now_ms += wait_ms,
            None => break,
        }
    }
    Ok(walk.finish(plan))
}

impl Walk {
    /// How long the client waits for one reply, and whether it sends again after that.
    fn patience(plan: &Plan) -> (Option<u64>, bool) {
        match plan.timeout_ms.filter(|timeout_ms| *timeout_ms > 0) {
            // A timeout of the whole operation ends it at once: no resend (A2, third row).
            Some(timeout_ms) => (Some(timeout_ms), false),
            None if plan.timeout_ms.is_some() => (None, false),
            None => (plan.socket_timeout_ms.filter(|timeout_ms| *timeout_ms > 0), plan.resends),
        }
    }

    /// The `maxTimeMS` that reaches the server: `timeoutMS` replaces the user's own (A7).
    fn deadline(plan: &Plan) -> Option<u64> {
        plan.timeout_ms.filter(|timeout_ms| *timeout_ms > 0).or(plan.max_time_ms)
    }

    fn execution(&mut self, plan: &Plan) -> Result<(), Unpredictable> {
        match plan.stall {
            Stall::None => self.answered_at_once(),
            Stall::LostReply { times } => self.lost_reply(plan, times),
            Stall::FailCommand { hold_ms, times } => self.held_before_session(plan, hold_ms, times)?,
            Stall::Engine => self.stalled(plan, false)?,
            Stall::Interruptible => self.stalled(plan, true)?,
        }
        Ok(())
    }

    fn answered_at_once(&mut self) {
        self.sends += 1;
        self.running.push(Running { from_ms: self.now_ms, until_ms: Some(self.now_ms), writes_ms: Some(self.now_ms) });
        self.writing_copies += 1;
        self.succeeded = true;
    }

    /// The write commits and the connection breaks; a resend finds it in the history.
    fn lost_reply(&mut self, plan: &Plan, times: u64) {
        self.answered_at_once();
        if self.lost >= times {
            return;
        }
        self.lost += 1;
        if plan.resends {
            self.sends += 1;
            self.resends += 1;
            self.answered_from_history += 1;
        } else {
            self.succeeded = false;
        }
    }

    /// The fail point holds sends one by one, originals and resends alike; each is executed when its time is over, and the
    /// second of a pair is answered from the history of the first.
    fn held_before_session(&mut self, plan: &Plan, hold_ms: u64, times: u64) -> Result<(), Unpredictable> {
        let (patience_ms, resends) = Self::patience(plan);
        let deadline_ms = Self::deadline(plan);
        let from_ms = self.now_ms;
        let mut ends_ms = Vec::new();
        let attempts = if resends { 2 } else { 1 };
        for attempt in 0..attempts {
            self.sends += 1;
            self.resends += u64::from(attempt > 0);
            // A mode of zero times still catches one.
            let is_held = self.held < times.max(1);
            self.held += u64::from(is_held);
            let takes_ms = if is_held { hold_ms } else { 0 };
            let expires =
                is_held && plan.deadline_counts_fail_point && deadline_ms.is_some_and(|limit| hold_ms >= limit);
            let end_ms = self.now_ms + takes_ms;
            ends_ms.push((end_ms, expires));
            self.ended_at_deadline += u64::from(expires);
            match patience_ms {
                Some(patience_ms) if patience_ms <= takes_ms => self.now_ms += patience_ms,
                None | Some(_) => {
                    self.now_ms = end_ms;
                    // An expired operation is an error that is not resent, and the execution fails.
                    self.succeeded = !expires;
                    break;
                }
            }
        }
        let executed = ends_ms.iter().filter(|(_, expired)| !expired).count() as u64;
        self.writing_copies += u64::from(executed > 0);
        self.answered_from_history += executed.saturating_sub(1);
        let until_ms = ends_ms.iter().map(|(end_ms, _)| *end_ms).max();
        let writes_ms = ends_ms.iter().filter(|(_, expired)| !expired).map(|(end_ms, _)| *end_ms).min();
        self.running.push(Running { from_ms, until_ms, writes_ms });
        Ok(())
    }

    /// Copies that write after a copy of a newer execution has.
    fn late_copies(&self) -> u64 {
        let later_newer = |at: usize, writes_ms: u64| {
            self.running[at + 1..].iter().any(|newer| newer.writes_ms.is_some_and(|newer_ms| newer_ms < writes_ms))
        };
        let late =
            self.running.iter().enumerate().filter(|(at, copy)| copy.writes_ms.is_some_and(|ms| later_newer(*at, ms)));
        late.count() as u64
    }

    /// The statement stands still until the application has finished. Where the place checks for interrupts, the deadline
    /// ends it there; a wait for a ticket or for the session checks always.
    fn stalled(&mut self, plan: &Plan, checks_interrupts: bool) -> Result<(), Unpredictable> {
        let (patience_ms, resends) = Self::patience(plan);
        let deadline_ms = Self::deadline(plan);
        let has_ticket = self.stalled_in_engine < plan.write_tickets;
        let from_ms = self.now_ms;
        self.sends += 1;
        // When the server itself ends the original.
        let original_ends_ms = match deadline_ms {
            Some(deadline_ms) if !has_ticket => Some(deadline_ms.div_ceil(plan.ticket_slice_ms) * plan.ticket_slice_ms),
            Some(deadline_ms) if checks_interrupts => Some(deadline_ms),
            _ => None,
        };
        self.stalled_in_engine += u64::from(has_ticket && original_ends_ms.is_none());
        let client_is_there = match (original_ends_ms, patience_ms) {
            (Some(ends_ms), Some(patience_ms)) => ends_ms < patience_ms,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return Err(Unpredictable::WaitsForEver),
        };
        if let Some(ends_ms) = original_ends_ms {
            self.ended_at_deadline += 1;
            if client_is_there {
                // MaxTimeMSExpired is not resent.
                self.now_ms += ends_ms;
                self.running.push(Running { from_ms, until_ms: Some(self.now_ms), writes_ms: None });
                return Ok(());
            }
        }
        let patience_ms = patience_ms.unwrap_or_default();
        self.now_ms += patience_ms;
        if !resends {
            let until_ms = original_ends_ms.map(|ends_ms| from_ms + ends_ms);
            self.running.push(Running { from_ms, until_ms, writes_ms: None });
            self.writing_copies += u64::from(original_ends_ms.is_none());
            return Ok(());
        }
        self.sends += 1;
        self.resends += 1;
        let resend_at_ms = self.now_ms;
        let resend_ends_ms = match (original_ends_ms, deadline_ms) {
            // It waits for the session, and later for whatever its original waited for, until its own deadline.
            (_, Some(deadline_ms)) => Some(resend_at_ms + deadline_ms),
            (_, None) => None,
        };
        match resend_ends_ms.filter(|ends_ms| ends_ms - resend_at_ms < patience_ms) {
            Some(ends_ms) => {
                self.ended_at_deadline += 1;
                self.now_ms = ends_ms;
            }
            None => {
                self.now_ms += patience_ms;
                match resend_ends_ms {
                    Some(_) => self.ended_at_deadline += 1,
                    None => {
                        self.waiting_resends += 1;
                        self.answered_from_history += 1;
                    }
                }
            }
        }
        let until_ms = original_ends_ms.and(resend_ends_ms);
        self.running.push(Running { from_ms, until_ms, writes_ms: None });
        self.writing_copies += u64::from(original_ends_ms.is_none());
        Ok(())
    }

    /// The client goes away in the middle of its first send: the write goes on, reads are ended.
    fn hung_up(&mut self, plan: &Plan) {
        self.sends += 1;
        self.running.push(Running { from_ms: 0, until_ms: None, writes_ms: None });
        self.writing_copies += 1;
        self.now_ms = plan.hang_up_after_ms.unwrap_or_default();
    }

    /// The most copies at one instant; it is reached when one of them starts.
    fn overlapping_max(&self) -> u64 {
        let at_start_of = |(index, starting): (usize, &Running)| {
            let at_ms = starting.from_ms;
            let earlier = self.running[..index].iter();
            1 + earlier.filter(|copy| copy.until_ms.is_none_or(|until_ms| until_ms > at_ms)).count() as u64
        };
        self.running.iter().enumerate().map(at_start_of).max().unwrap_or(0)
    }

    fn finish(self, plan: &Plan) -> Prediction {
        let documents = match plan.effect {
            Effect::NewDocuments(each) => plan.seeded + each * self.writing_copies,
            Effect::SameDocument => plan.seeded.max(u64::from(self.writing_copies > 0)),
            Effect::NoDocument => plan.seeded,
        };
        // When copies of one document are released together, nobody can say which writes last.
        let released_together = matches!(plan.stall, Stall::Engine | Stall::Interruptible) && self.writing_copies > 1;
        let late_copies = match plan.effect {
            Effect::NewDocuments(_) => Some(0),
            Effect::SameDocument | Effect::NoDocument if released_together => None,
            Effect::SameDocument | Effect::NoDocument => Some(self.late_copies()),
        };
        Prediction {
            counts: Counts {
                executions: self.executions,
                sends: self.sends,
                resends: self.resends,
                copies: self.executions,
                overlapping_copies_max: self.overlapping_max(),
                waiting_resends: self.waiting_resends,
                documents,
            },
            extras: Extras {
                answered_from_history: Some(self.answered_from_history),
                ended_at_deadline: Some(self.ended_at_deadline),
                reads_ended_with_client: Some(plan.held_reads),
                late_copies,
            },
            application_ends_ms: self.now_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `socketTimeoutMS` 30 s, `retryWrites`, `FixedBackOff(0, 3)`, an insert, the engine stalled.
    fn plan() -> Plan {
        Plan {
            socket_timeout_ms: Some(30_000),
            timeout_ms: None,
            resends: true,
            max_time_ms: None,
            waits_ms: vec![0; 3],
            stall: Stall::Engine,
            write_tickets: 128,
            ticket_slice_ms: 500,
            deadline_counts_fail_point: false,
            hang_up_after_ms: None,
            held_reads: 0,
            effect: Effect::NewDocuments(1),
            seeded: 0,
        }
    }

    /// (executions, sends, resends, copies, most copies at once, waiting resends, documents).
    fn check(plan: &Plan, expected: [u64; 7]) -> Prediction {
        let prediction = predict(plan).unwrap();
        assert_eq!(prediction.counts.rows().map(|row| row.2), expected, "{plan:?}");
        prediction
    }

    #[test]
    fn the_published_numbers_come_out() {
        let inventory = check(&Plan { effect: Effect::NewDocuments(2), ..plan() }, [4, 8, 4, 4, 4, 4, 8]);
        assert_eq!(inventory.application_ends_ms, 240_000);
        let held = Stall::FailCommand { hold_ms: 60_000, times: 8 };
        let lab = check(&Plan { socket_timeout_ms: Some(5_000), stall: held, ..plan() }, [4, 8, 4, 4, 4, 0, 4]);
        assert_eq!(lab.application_ends_ms, 40_000);
        check(&Plan { waits_ms: vec![0; 9], ..plan() }, [10, 20, 10, 10, 10, 10, 10]);
    }

    #[test]
    fn retry_writes_off_halves_the_sends_and_leaves_the_copies() {
        check(&Plan { resends: false, ..plan() }, [4, 4, 0, 4, 4, 0, 4]);
    }

    #[test]
    fn a_deadline_below_the_socket_timeout_helps_only_where_interrupts_are_checked() {
        let max_time_ms = Some(20_000);
        let helped = check(&Plan { max_time_ms, stall: Stall::Interruptible, ..plan() }, [4, 4, 0, 4, 1, 0, 0]);
        assert_eq!((helped.application_ends_ms, helped.extras.ended_at_deadline), (80_000, Some(4)));
        let deaf = check(&Plan { max_time_ms, ..plan() }, [4, 8, 4, 4, 4, 0, 4]);
        assert_eq!((deaf.application_ends_ms, deaf.extras.ended_at_deadline), (200_000, Some(4)));
    }

    #[test]
    fn copies_beyond_the_tickets_leave_at_their_deadline() {
        let plan = Plan { max_time_ms: Some(20_000), write_tickets: 5, waits_ms: vec![0; 7], ..plan() };
        let prediction = check(&plan, [8, 13, 5, 8, 6, 0, 5]);
        assert_eq!(prediction.extras.ended_at_deadline, Some(5 + 3));
    }

    #[test]
    fn a_resend_that_is_not_held_makes_the_original_the_replay() {
        let stall = Stall::FailCommand { hold_ms: 60_000, times: 1 };
        let prediction = check(&Plan { stall, ..plan() }, [1, 2, 1, 1, 1, 0, 1]);
        assert_eq!(prediction.extras.answered_from_history, Some(1));
    }

    #[test]
    fn an_upsert_leaves_one_document_and_an_older_copy_may_write_last() {
        let effect = Effect::SameDocument;
        let together = check(&Plan { effect, ..plan() }, [4, 8, 4, 4, 4, 4, 1]);
        assert_eq!(together.extras.late_copies, None);
        let stall = Stall::FailCommand { hold_ms: 90_000, times: 2 };
        let late = check(&Plan { effect, stall, ..plan() }, [2, 3, 1, 2, 2, 0, 1]);
        assert_eq!(late.extras.late_copies, Some(1));
    }

    #[test]
    fn a_lost_reply_is_answered_from_history() {
        let plan = Plan { stall: Stall::LostReply { times: 1 }, ..plan() };
        assert_eq!(check(&plan, [1, 2, 1, 1, 1, 0, 1]).extras.answered_from_history, Some(1));
        check(&Plan { resends: false, ..plan }, [2, 2, 0, 2, 1, 0, 2]);
    }

    #[test]
    fn timeout_ms_sends_once_per_execution() {
        let plan = Plan { timeout_ms: Some(3_000), ..plan() };
        check(&plan, [4, 4, 0, 4, 4, 0, 4]);
        check(&Plan { stall: Stall::Interruptible, ..plan }, [4, 4, 0, 4, 1, 0, 0]);
    }

    #[test]
    fn a_client_that_hangs_up_ends_reads_and_not_the_write() {
        let prediction = check(&Plan { hang_up_after_ms: Some(2_000), held_reads: 1, ..plan() }, [1, 1, 0, 1, 1, 0, 1]);
        assert_eq!(prediction.extras.reads_ended_with_client, Some(1));
    }

    #[test]
    fn waits_spread_copies_that_end_by_themselves() {
        let stall = Stall::FailCommand { hold_ms: 12_000, times: u64::MAX };
        let spread = Plan { socket_timeout_ms: Some(5_000), waits_ms: vec![10_000; 3], stall, ..plan() };
        check(&spread, [4, 8, 4, 4, 1, 0, 4]);
    }

    #[test]
    fn a_client_without_any_timeout_waits_for_ever() {
        assert_eq!(predict(&Plan { socket_timeout_ms: None, ..plan() }), Err(Unpredictable::WaitsForEver));
    }
}
