//! What is left of a run of many records: numbers per record, and over all of them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Fate;
use crate::counts::{Counts, Extras};
use crate::ledger::Ledger;

/// What is left of one record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordLine {
    /// How it ended.
    pub fate: Fate,
    /// How often its write was executed, over all consumers.
    pub executions: u32,
    /// Dead letters that were published for it; more than one where its offset was never committed.
    pub dead_letters: u32,
    /// Whether two consumers executed it at the same time.
    pub had_two_owners: bool,
    /// When its first execution began.
    pub first_ms: Option<u64>,
    /// When it first ended.
    pub ended_ms: Option<u64>,
    sends: u32,
    sends_by_driver: u32,
    resends: u32,
    copies: u32,
    overlapping: u32,
    waiting: u32,
    late: u32,
    answered_from_history: u32,
    ended_at_deadline: u32,
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl RecordLine {
    pub(super) fn end(&mut self, fate: Fate, at_ms: u64, ledger: &Ledger) {
        self.fate = fate;
        self.ended_ms.get_or_insert(at_ms);
        self.waiting = self.waiting.max(small(ledger.waiting_resends()));
    }

    /// Takes the numbers of a ledger in. A record that is executed again after it ended has another ledger by then.
    pub(super) fn close(&mut self, counts: &Counts, extras: &Extras) {
        self.sends = self.sends.saturating_add(small(counts.sends));
        let by_driver = small(extras.sends_by_driver.unwrap_or(counts.sends));
        self.sends_by_driver = self.sends_by_driver.saturating_add(by_driver);
        self.resends = self.resends.saturating_add(small(counts.resends));
        self.copies = self.copies.saturating_add(small(counts.copies));
        self.overlapping = self.overlapping.max(small(counts.overlapping_copies_max));
        self.late = self.late.saturating_add(small(extras.late_copies.unwrap_or(0)));
        let answered = small(extras.answered_from_history.unwrap_or(0));
        self.answered_from_history = self.answered_from_history.saturating_add(answered);
        let expired = small(extras.ended_at_deadline.unwrap_or(0));
        self.ended_at_deadline = self.ended_at_deadline.saturating_add(expired);
    }

    /// Its counts; documents are not known per record.
    pub fn counts(&self) -> Counts {
        Counts {
            executions: u64::from(self.executions),
            sends: u64::from(self.sends),
            resends: u64::from(self.resends),
            copies: u64::from(self.copies),
            overlapping_copies_max: u64::from(self.overlapping),
            waiting_resends: u64::from(self.waiting),
            documents: 0,
        }
    }

    /// Its other numbers.
    pub fn extras(&self) -> Extras {
        Extras {
            answered_from_history: Some(u64::from(self.answered_from_history)),
            ended_at_deadline: Some(u64::from(self.ended_at_deadline)),
            reads_ended_with_client: Some(0),
            late_copies: Some(u64::from(self.late)),
            sends_by_driver: Some(u64::from(self.sends_by_driver)).filter(|_| self.sends_by_driver != self.sends),
        }
    }
}

/// How a number is spread over the records: from each value to how many records have it.
pub type Spread = BTreeMap<u64, u64>;

/// The numbers of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Records that were executed at least once.
    pub records: u64,
    /// Records whose write succeeded in the end.
    pub written: u64,
    /// Records that went to the dead-letter topic.
    pub dead_lettered: u64,
    /// Records that had not ended.
    pub unfinished: u64,
    /// Dead letters, where a record has several: its offset was never committed.
    pub dead_letters: u64,
    /// Attempts to publish a dead letter that failed.
    pub dead_letters_failed: u64,
    /// Executions of all records.
    pub executions: u64,
    /// Sends of all records.
    pub sends: u64,
    /// Resends of all records.
    pub resends: u64,
    /// Copies of all records.
    pub copies: u64,
    /// The most copies of one record at the same time.
    pub overlapping_copies_max: u64,
    /// The most copies at the same time, of all records.
    pub running_copies_max: u64,
    /// The most operations at the server at the same time, waiting ones included.
    pub operations_max: u64,
    /// The most operations that waited for a ticket at the same time.
    pub ticket_queue_max: u64,
    /// Resends that waited for their original's session when their record ended.
    pub waiting_resends: u64,
    /// Copies that wrote a document after a copy of a newer execution of the same record had.
    pub late_copies: u64,
    /// Sends that were answered from the retry history.
    pub answered_from_history: u64,
    /// Operations that the server ended at their `maxTimeMS`.
    pub ended_at_deadline: u64,
    /// Records that two consumers executed at the same time.
    pub records_with_two_owners: u64,
    /// How often a consumer was out of its group because it had not polled for too long.
    pub poll_interval_exceeded: u64,
    /// Commits that failed for that reason.
    pub commits_failed: u64,
    /// How often a consumer was given partitions.
    pub assignments: u64,
    /// Documents in the collection in the end.
    pub documents: u64,
    /// When the run ended.
    pub ended_ms: u64,
    /// How long after the stall no record had more than one operation at the server any more; `None`: there was no stall,
    /// or it had not come to that.
    pub recovered_after_ms: Option<u64>,
    /// Records that had more than one operation at the server when the run ended.
    pub left_multiplied: u64,
    /// How long records took, from the first execution to the end, at most.
    pub slowest_record_ms: u64,
    /// Executions per record.
    pub executions_per_record: Spread,
    /// Sends per record.
    pub sends_per_record: Spread,
    /// Most copies at the same time, per record.
    pub overlap_per_record: Spread,
}

impl Outcome {
    pub(super) fn add(&mut self, line: &RecordLine) {
        let counts = line.counts();
        self.records += 1;
        match line.fate {
            Fate::Written => self.written += 1,
            Fate::DeadLetter => self.dead_lettered += 1,
            Fate::Open => self.unfinished += 1,
        }
        self.dead_letters += u64::from(line.dead_letters);
        self.executions += counts.executions;
        self.sends += counts.sends;
        self.resends += counts.resends;
        self.copies += counts.copies;
        self.overlapping_copies_max = self.overlapping_copies_max.max(counts.overlapping_copies_max);
        self.waiting_resends += counts.waiting_resends;
        self.late_copies += u64::from(line.late);
        self.answered_from_history += u64::from(line.answered_from_history);
        self.ended_at_deadline += u64::from(line.ended_at_deadline);
        self.records_with_two_owners += u64::from(line.had_two_owners);
        if let (Some(first_ms), Some(ended_ms)) = (line.first_ms, line.ended_ms) {
            self.slowest_record_ms = self.slowest_record_ms.max(ended_ms - first_ms);
        }
        *self.executions_per_record.entry(counts.executions).or_default() += 1;
        *self.sends_per_record.entry(counts.sends).or_default() += 1;
        *self.overlap_per_record.entry(counts.overlapping_copies_max).or_default() += 1;
    }
}
