//! The prediction: from what decides to what will be counted, in closed form.
//!
//! Source of the rules: facts/client.md A2, A5 to A7, D1, D2, D4, C2, F1 to F9, F11, F14; facts/server.md 1.2, 2.4, 3.2, 3.3, 4.2, 7.1, 7.2. The
//! prediction walks from one point of time to the next at which something must happen; it runs no server and no driver, and a run of the
//! real parts is its test (`tests/prediction.rs`).

mod gateway;
mod server;
mod walk;

use serde::{Deserialize, Serialize};

use crate::budget::RetryBudget;
use crate::counts::{Counts, Extras};
use walk::{First, Walk};

pub use gateway::Gateway;

/// What decides how often a logical write is sent and copied.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// `socketTimeoutMS`; `None` waits for ever.
    pub socket_timeout_ms: Option<u64>,
    /// `timeoutMS`; `None`: not set.
    pub timeout_ms: Option<u64>,
    /// The commands of one execution, in their order: one, or those of a bulk (A5).
    pub commands: Vec<Command>,
    /// `maxTimeMS` of each write.
    pub max_time_ms: Option<u64>,
    /// The waits between executions; their number plus one is the number of executions.
    pub waits_ms: Vec<u64>,
    /// Whether they are random, and these are the shortest.
    pub has_jitter: bool,
    /// The waits of the retries within one call of the listener, from the innermost layer outwards (D2, F: "inner retries").
    pub inner_waits_ms: Vec<Vec<u64>>,
    /// Whether the waits start over when the error is of another class than the one before (Spring Kafka from 2.9 on; D1).
    pub resets_on_exception_change: bool,
    /// What may be spent on retries.
    pub retry_budget: Option<RetryBudget>,
    /// What happens when the retries are used up and it is no dead letter: the wait before everything begins anew, and why.
    pub starts_over: Option<(u64, &'static str)>,
    /// Whether the driver resends as often as its connection breaks or times out (report R86); the official ones do it once.
    pub resends_without_limit: bool,
    /// How often the driver sends again what an overloaded server refuses (C2).
    pub overload_retries: u64,
    /// The application gives up an execution after this long, as with a context's deadline, and the driver does not resend
    /// (report R38).
    pub cancel_after_ms: Option<u64>,
    /// What stands between the driver and the server and sends again by itself.
    pub gateway: Option<Gateway>,
    /// What keeps the server from finishing.
    pub stall: Stall,
    /// When it begins.
    pub stall_from_ms: u64,
    /// How long it lasts; `None`: until the application has finished. Not of a fail point that counts.
    pub stall_for_ms: Option<u64>,
    /// The one command that meets it; `None`: every one.
    pub stall_command: Option<CommandName>,
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
    /// How many documents are there before.
    pub seeded: u64,
    /// Which of the documents that statements are about are among them.
    pub seeded_documents: Vec<usize>,
}

impl Plan {
    /// `timeoutMS`, if it is set and limits anything.
    fn operation_timeout_ms(&self) -> Option<u64> {
        self.timeout_ms.filter(|timeout_ms| *timeout_ms > 0)
    }

    /// How long the client waits for one reply. `timeoutMS` overrides `socketTimeoutMS`, also when it is 0 (A7).
    fn patience_ms(&self) -> Option<u64> {
        match self.timeout_ms {
            Some(_) => self.operation_timeout_ms(),
            None => self.socket_timeout_ms.filter(|timeout_ms| *timeout_ms > 0),
        }
    }

    fn is_seeded(&self, document: usize) -> bool {
        self.seeded_documents.contains(&document)
    }

    /// Runs of the write in one call of the listener, at most.
    pub fn runs_per_call(&self) -> u64 {
        self.inner_waits_ms.iter().fold(1, |runs, waits_ms| runs.saturating_mul(waits_ms.len() as u64 + 1))
    }

    /// The waits between the runs of one call, in all.
    pub fn waits_per_call_ms(&self) -> u64 {
        self.inner_waits_ms.iter().fold(0, |inner_ms, waits_ms| {
            let runs = waits_ms.len() as u64 + 1;
            waits_ms.iter().fold(runs.saturating_mul(inner_ms), |all_ms, wait_ms| all_ms.saturating_add(*wait_ms))
        })
    }
}

/// One command of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Which.
    pub name: CommandName,
    /// Whether the driver resends it after a network error: `retryWrites` is on, and the command is one that can be resent.
    pub resends: bool,
    /// Its statements, which the server executes one after the other; the inserts of one command are one.
    pub statements: Vec<Statement>,
}

/// A command that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CommandName {
    /// `insert`.
    Insert,
    /// `update`.
    Update,
    /// `delete`.
    Delete,
    /// `findAndModify`.
    FindAndModify,
}

impl CommandName {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            CommandName::Insert => "insert",
            CommandName::Update => "update",
            CommandName::Delete => "delete",
            CommandName::FindAndModify => "findAndModify",
        }
    }
}

/// A statement of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement {
    /// What it leaves behind.
    pub effect: Effect,
    /// Which of the execution's documents it is about; two statements about one document are not allowed.
    pub document: usize,
}

/// What one execution of a statement leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// New documents, with `_id`s of their own each time.
    NewDocuments(u64),
    /// The same document, however often: an upsert by `_id`.
    SameDocument,
    /// No document more: an update that leaves the number as it is.
    NoDocument,
    /// One document less, once: a delete by `_id` of a document that is there.
    Removal,
}

impl Effect {
    /// Whether two copies of it never meet the same document.
    pub fn is_new(self) -> bool {
        matches!(self, Effect::NewDocuments(_))
    }
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
    /// Others hold every ticket.
    Tickets,
    /// Another holds the collection's lock.
    Lock,
    /// Sessions are not given out.
    Sessions,
    /// Every write takes time in the engine, with its ticket and locks, deaf to interrupts.
    Slow {
        /// How long, on average.
        takes_ms: u64,
        /// How the times are spread.
        #[serde(default)]
        distribution: Distribution,
    },
    /// The connection is closed when a write arrives, and the write is not executed.
    Reset {
        /// How many.
        times: u64,
    },
    /// The primary steps down; nobody is primary until the stall is over.
    StepDown,
    /// The whole server stands still: it reads nothing and answers nothing, handshakes and heartbeats included.
    Freeze,
    /// The server refuses writes at its door: 462 with the labels `SystemOverloadedError` and `RetryableError`.
    Overload {
        /// How many.
        times: u64,
    },
}

/// How times are spread around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// All are alike.
    #[default]
    Fixed,
    /// Exponentially: many short ones, a few long ones.
    Exponential,
}

impl Stall {
    /// Whether it lasts until somebody lifts it; the others are over by themselves.
    pub fn is_lifted(self) -> bool {
        !matches!(
            self,
            Stall::None
                | Stall::FailCommand { .. }
                | Stall::LostReply { .. }
                | Stall::Reset { .. }
                | Stall::Overload { .. }
        )
    }
}

/// A driver looks at a server at most this often (`minHeartbeatFrequencyMS` of the SDAM specification).
pub const MIN_HEARTBEAT_MS: u64 = 500;

/// Why there is no prediction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpredictable {
    /// Nothing ends the wait of the client.
    #[error(
        "the client would wait for ever: neither socketTimeoutMS nor timeoutMS is set, and the stall ends only after the client"
    )]
    WaitsForEver,
    /// The connection broke shortly before `timeoutMS` ran out.
    #[error(
        "a connection breaks {0} ms before timeoutMS runs out: whether the driver sends once more depends on when it last \
         looked at the server, which it does at most every {MIN_HEARTBEAT_MS} ms"
    )]
    TooTight(u64),
    /// Chance decides.
    #[error("{0}: only a simulation can say what comes of it")]
    Chance(&'static str),
    /// Two things are due at the same instant, and which is first decides the numbers.
    #[error(
        "{at_ms} ms after the first send {one} and {other}, at the same instant, and which of the two is first decides the \
         numbers: set the times further apart"
    )]
    Tie {
        /// When, in milliseconds after the first send.
        at_ms: u64,
        /// The one.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// There is no bound on executions or sends.
    #[error("there is no bound on the sends: {0}")]
    Unbounded(&'static str),
    /// The error handler never gives up.
    #[error(
        "the retries do not end: after {0} executions the class of the error still changes, and each change starts the \
         back-off over"
    )]
    NeverGivesUp(u64),
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

/// Predicts one logical write.
///
/// # Errors
/// When the client would wait for ever, when chance decides, or when two things that decide are due at the same instant.
pub fn predict(plan: &Plan) -> Result<Prediction, Unpredictable> {
    if plan.has_jitter {
        return Err(Unpredictable::Chance("with jitter the waits between executions are random"));
    }
    match plan.stall {
        Stall::Freeze => {
            return Err(Unpredictable::Chance(
                "when a driver finds out that a server stands still depends on its heartbeats (F15)",
            ));
        }
        Stall::StepDown => {
            return Err(Unpredictable::Chance("after a step-down a client looks for a primary in its own time"));
        }
        Stall::Slow { distribution: Distribution::Exponential, .. } => {
            return Err(Unpredictable::Chance("the times in the engine are random"));
        }
        Stall::Overload { .. }
            if plan.overload_retries > 0
                && (plan.operation_timeout_ms().is_some() || plan.cancel_after_ms.is_some()) =>
        {
            return Err(Unpredictable::Chance(
                "the driver waits a random time before it sends again to an overloaded server, and the time for the \
                 operation may run out meanwhile",
            ));
        }
        Stall::Overload { .. }
            if plan.overload_retries > 0 && plan.retry_budget.is_some_and(|budget| budget.per_second > 0) =>
        {
            return Err(Unpredictable::Chance(
                "the driver waits a random time before it sends again to an overloaded server, and the retry budget \
                 grows meanwhile",
            ));
        }
        _ => {}
    }
    if plan.stall.is_lifted() && plan.stall_for_ms.is_none() {
        if let Some((_, why)) = plan.starts_over {
            return Err(Unpredictable::Unbounded(why));
        }
        if plan.resends_without_limit
            && plan.commands.iter().any(|command| command.resends)
            && plan.timeout_ms.is_none()
        {
            return Err(Unpredictable::Unbounded("the driver resends without a limit"));
        }
    }
    let mut walk = Walk::new(plan, First::Server);
    walk.go()?;
    if walk.met_by_chance() {
        return Err(Unpredictable::Chance("slow writes to one document conflict at random instants"));
    }
    let prediction = walk.prediction();
    if let Some((at_ms, other)) = walk.tie() {
        // Where it does not matter what is first, there is a prediction all the same.
        let mut reversed = Walk::new(plan, First::Client);
        reversed.go()?;
        if reversed.prediction() != prediction {
            return Err(Unpredictable::Tie { at_ms, one: "the client acts", other });
        }
    }
    Ok(prediction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(documents: u64) -> Vec<Command> {
        command(CommandName::Insert, &[Effect::NewDocuments(documents)])
    }

    fn command(name: CommandName, effects: &[Effect]) -> Vec<Command> {
        let statements =
            effects.iter().enumerate().map(|(document, effect)| Statement { effect: *effect, document }).collect();
        vec![Command { name, resends: true, statements }]
    }

    /// These commands one after the other, each about documents of its own.
    fn bulk(commands: &[Vec<Command>]) -> Vec<Command> {
        let mut all: Vec<Command> = commands.concat();
        let statements = all.iter_mut().flat_map(|command| &mut command.statements);
        statements.enumerate().for_each(|(document, statement)| statement.document = document);
        all
    }

    fn not_resent(mut plan: Plan) -> Plan {
        plan.commands.iter_mut().for_each(|command| command.resends = false);
        plan
    }

    /// `socketTimeoutMS` 30 s, `retryWrites`, `FixedBackOff(0, 3)`, an insert, the engine stalled.
    fn plan() -> Plan {
        Plan {
            socket_timeout_ms: Some(30_000),
            timeout_ms: None,
            commands: insert(1),
            max_time_ms: None,
            waits_ms: vec![0; 3],
            has_jitter: false,
            inner_waits_ms: Vec::new(),
            resets_on_exception_change: true,
            retry_budget: None,
            starts_over: None,
            resends_without_limit: false,
            overload_retries: 0,
            cancel_after_ms: None,
            gateway: None,
            stall: Stall::Engine,
            stall_from_ms: 0,
            stall_for_ms: None,
            stall_command: None,
            write_tickets: 128,
            ticket_slice_ms: 500,
            deadline_counts_fail_point: false,
            hang_up_after_ms: None,
            held_reads: 0,
            seeded: 0,
            seeded_documents: Vec::new(),
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
        let inventory = check(&Plan { commands: insert(2), ..plan() }, [4, 8, 4, 4, 4, 4, 8]);
        assert_eq!(inventory.application_ends_ms, 240_000);
        let held = Stall::FailCommand { hold_ms: 60_000, times: 8 };
        let lab = check(&Plan { socket_timeout_ms: Some(5_000), stall: held, ..plan() }, [4, 8, 4, 4, 4, 0, 4]);
        assert_eq!(lab.application_ends_ms, 40_000);
        check(&Plan { waits_ms: vec![0; 9], ..plan() }, [10, 20, 10, 10, 10, 10, 10]);
    }

    #[test]
    fn retry_writes_off_halves_the_sends_and_leaves_the_copies() {
        check(&not_resent(plan()), [4, 4, 0, 4, 4, 0, 4]);
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
        let commands = command(CommandName::Update, &[Effect::SameDocument]);
        let together = check(&Plan { commands: commands.clone(), ..plan() }, [4, 8, 4, 4, 4, 4, 1]);
        assert_eq!(together.extras.late_copies, None);
        let stall = Stall::FailCommand { hold_ms: 90_000, times: 2 };
        let late = check(&Plan { commands, stall, ..plan() }, [2, 3, 1, 2, 2, 0, 1]);
        assert_eq!(late.extras.late_copies, Some(1));
    }

    #[test]
    fn a_lost_reply_is_answered_from_history() {
        let plan = Plan { stall: Stall::LostReply { times: 1 }, ..plan() };
        assert_eq!(check(&plan, [1, 2, 1, 1, 1, 0, 1]).extras.answered_from_history, Some(1));
        // The fail point is about numbered writes only.
        check(&not_resent(plan), [1, 1, 0, 1, 1, 0, 1]);
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
    fn a_tie_that_decides_is_refused_and_another_is_not() {
        let check = |plan: Plan, expected: Option<u64>| match (predict(&plan), expected) {
            (Err(Unpredictable::Tie { at_ms, .. }), Some(expected_ms)) => assert_eq!(at_ms, expected_ms, "{plan:?}"),
            (Ok(_), None) => {}
            (found, _) => panic!("{plan:?}: {found:?}"),
        };
        let interruptible = Plan { stall: Stall::Interruptible, ..plan() };
        let held = |hold_ms| Plan { stall: Stall::FailCommand { hold_ms, times: 1 }, ..plan() };
        // The deadline of a write, or of a resend that waits for its session, and the client's patience.
        check(Plan { max_time_ms: Some(30_000), ..plan() }, Some(60_000));
        check(Plan { max_time_ms: Some(30_000), ..interruptible.clone() }, Some(30_000));
        check(Plan { max_time_ms: Some(29_999), ..interruptible.clone() }, None);
        // The end of a hold or of the stall, and the client's patience.
        check(held(30_000), Some(30_000));
        check(held(29_000), None);
        check(Plan { stall_for_ms: Some(60_000), ..plan() }, Some(60_000));
        check(Plan { stall_for_ms: Some(59_000), ..plan() }, None);
        // The end of the stall and a deadline.
        let tied = Plan { max_time_ms: Some(20_000), stall_for_ms: Some(60_000), ..interruptible.clone() };
        check(tied, Some(60_000));
        // Under timeoutMS both sides have the same deadline, and mean the same by it.
        check(Plan { timeout_ms: Some(3_000), ..interruptible }, None);
        // A hold that ends as the client does something else.
        let apart =
            Plan { socket_timeout_ms: Some(5_000), stall: Stall::FailCommand { hold_ms: 20_000, times: 8 }, ..plan() };
        check(apart, None);
    }

    #[test]
    fn a_bulk_sends_each_command_twice_and_stops_at_the_one_that_fails() {
        use CommandName::{Delete, Insert, Update};
        let (insert, update) = (insert(2), command(Update, &[Effect::SameDocument, Effect::NoDocument]));
        let commands = bulk(&[insert.clone(), update.clone(), insert]);
        // Stalled for good at the first command: as a single write (F7, k = 1).
        let all = Plan { commands: commands.clone(), seeded: 1, seeded_documents: vec![2], ..plan() };
        check(&all, [4, 8, 4, 4, 4, 4, 1 + 4 * 2]);
        // At the second: each execution sends the first again (F7: (k-1) + 2).
        let held = Stall::FailCommand { hold_ms: 1_000_000, times: 1000 };
        let second = Plan { stall: held, stall_command: Some(Update), ..all.clone() };
        check(&second, [4, 12, 4, 8, 4, 0, 1 + 4 * 2 + 1]);
        // Every command stalls once and recovers: two sends each (F7: 2B).
        let lost = Plan { stall: Stall::LostReply { times: 4 }, ..all };
        check(&lost, [1, 6, 3, 3, 1, 0, 1 + 2 + 1 + 2]);
        // The original of a command that was resent is let go when its session has a newer number: 225.
        let late = Stall::FailCommand { hold_ms: 31_000, times: 1 };
        let too_old = check(&Plan { stall: late, ..second.clone() }, [1, 4, 1, 3, 2, 0, 1 + 2 + 1 + 2]);
        assert_eq!(too_old.extras.answered_from_history, Some(0));
        // One multi write, and nothing is resent (F8).
        check(&not_resent(second), [4, 8, 0, 8, 4, 0, 1 + 4 * 2 + 1]);
        // What the first copy has deleted is not there for the others.
        let remove = bulk(&[command(Delete, &[Effect::Removal]), command(Insert, &[Effect::NewDocuments(1)])]);
        let removes = Plan { commands: remove, seeded: 1, seeded_documents: vec![0], ..plan() };
        check(&removes, [4, 8, 4, 4, 4, 4, 0]);
    }

    #[test]
    fn retries_within_a_call_multiply_the_executions() {
        let twice = Plan { waits_ms: vec![0], inner_waits_ms: vec![vec![1_000; 2], vec![500]], ..plan() };
        assert_eq!((twice.runs_per_call(), twice.waits_per_call_ms()), (6, 4_500));
        let prediction = check(&twice, [12, 24, 12, 12, 12, 12, 12]);
        assert_eq!(prediction.application_ends_ms, 12 * 60_000 + 2 * 4_500);
    }

    #[test]
    fn a_budget_ends_retries_of_all_layers() {
        let budget = |percent, per_second| Some(RetryBudget { percent, per_second });
        check(&Plan { retry_budget: budget(0, 0), ..plan() }, [1, 1, 0, 1, 1, 0, 1]);
        check(&Plan { retry_budget: budget(100, 0), ..plan() }, [1, 2, 1, 1, 1, 1, 1]);
        check(&Plan { retry_budget: budget(200, 0), ..plan() }, [2, 3, 1, 2, 2, 1, 2]);
        check(&Plan { retry_budget: budget(20, 10), ..plan() }, [4, 8, 4, 4, 4, 4, 4]);
    }

    #[test]
    fn what_has_no_bound_is_said() {
        let unbounded = |plan: &Plan| matches!(predict(plan), Err(Unpredictable::Unbounded(_)));
        assert!(unbounded(&Plan { starts_over: Some((5_000, "restarts")), ..plan() }));
        assert!(unbounded(&Plan { resends_without_limit: true, ..plan() }));
        // With an end of the stall there is one.
        let ends = Plan { stall_for_ms: Some(299_000), ..plan() };
        check(
            &Plan { starts_over: Some((5_000, "restarts")), waits_ms: vec![0], ..ends.clone() },
            [5, 10, 5, 5, 5, 0, 5],
        );
        check(&Plan { resends_without_limit: true, ..ends }, [1, 10, 9, 1, 1, 0, 1]);
    }

    #[test]
    fn a_gateway_sends_more_than_the_driver() {
        let gateway = Gateway {
            hold_ms: 120_000,
            first_wait_ms: 50,
            longest_wait_ms: 5_000,
            retries: None,
            numbered_only: false,
        };
        let breaks = Plan { gateway: Some(gateway), stall: Stall::Reset { times: 4 }, ..plan() };
        let prediction = check(&breaks, [1, 5, 4, 1, 1, 0, 1]);
        assert_eq!(prediction.extras.sends_by_driver, Some(1));
        // Without a number each is a copy of its own.
        check(&not_resent(breaks), [1, 5, 0, 1, 1, 0, 1]);
        let mongos = Gateway { retries: Some(3), first_wait_ms: 0, longest_wait_ms: 0, numbered_only: true, ..gateway };
        let fails = Plan { gateway: Some(mongos), stall: Stall::Reset { times: 1000 }, ..plan() };
        // 2 x 4 sends for each of four executions (facts/server.md 10).
        let prediction = check(&fails, [4, 32, 28, 0, 0, 0, 0]);
        assert_eq!(prediction.extras.sends_by_driver, Some(8));
        check(&not_resent(fails), [4, 4, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn an_overloaded_server_is_asked_three_times_and_runs_nothing() {
        let overload = Plan { stall: Stall::Overload { times: 1000 }, overload_retries: 2, ..plan() };
        check(&overload, [4, 12, 8, 0, 0, 0, 0]);
        check(&Plan { overload_retries: 0, ..overload.clone() }, [4, 4, 0, 0, 0, 0, 0]);
        check(&Plan { stall: Stall::Overload { times: 4 }, ..overload }, [2, 5, 3, 1, 1, 0, 1]);
    }

    #[test]
    fn an_execution_that_is_cancelled_is_not_resent() {
        check(&Plan { cancel_after_ms: Some(10_000), ..plan() }, [4, 4, 0, 4, 4, 0, 4]);
        check(&Plan { cancel_after_ms: Some(45_000), ..plan() }, [4, 8, 4, 4, 4, 4, 4]);
    }

    #[test]
    fn a_client_without_any_timeout_waits_for_ever() {
        assert_eq!(predict(&Plan { socket_timeout_ms: None, ..plan() }), Err(Unpredictable::WaitsForEver));
    }
}
