//! The numbers of a recording, and of one logical write in it.

use backfire_model::counts::{Counts, Difference, Extras, differences};
use serde::Serialize;

/// What was counted: [`Counts`] with one number that events may not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Measured {
    /// Runs of the application's write.
    pub executions: u64,
    /// Write commands that reached the server.
    pub sends: u64,
    /// Sends that repeat an earlier one.
    pub resends: u64,
    /// Writes that the server works on separately.
    pub copies: u64,
    /// The most copies at the same instant; of a recording of many writes, those of all writes.
    pub overlapping_copies_max: u64,
    /// Resends that waited for the session of their original after the client's last event; in a stream without a client, the
    /// most that ever did.
    pub waiting_resends: u64,
    /// Documents in the collection in the end, where somebody counted them.
    pub documents: Option<u64>,
    /// The other numbers.
    #[serde(skip)]
    pub extras: Extras,
}

impl Measured {
    /// From a ledger's numbers. `documents`: those in the collection, if somebody counted them.
    pub fn of(counts: Counts, extras: Extras, documents: Option<u64>) -> Self {
        Self {
            executions: counts.executions,
            sends: counts.sends,
            resends: counts.resends,
            copies: counts.copies,
            overlapping_copies_max: counts.overlapping_copies_max,
            waiting_resends: counts.waiting_resends,
            documents,
            extras,
        }
    }

    /// As [`Counts`]; documents that nobody counted are `documents`.
    pub fn counts(&self, documents: u64) -> Counts {
        Counts {
            executions: self.executions,
            sends: self.sends,
            resends: self.resends,
            copies: self.copies,
            overlapping_copies_max: self.overlapping_copies_max,
            waiting_resends: self.waiting_resends,
            documents: self.documents.unwrap_or(documents),
        }
    }

    /// Everything in which it differs from a prediction; documents that nobody counted do not.
    pub fn differences(&self, predicted: (&Counts, &Extras)) -> Vec<Difference> {
        differences(predicted, (&self.counts(predicted.0.documents), &self.extras))
    }
}

/// What else the events tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct More {
    /// Documents that writes committed, each as often as it was written.
    pub documents_committed: u64,
    /// Sends that the client left, by a timeout or a broken connection, while the server went on with them.
    pub deserted: u64,
    /// Writes that ended with no client there to hear of it.
    pub unheard: u64,
}

impl std::ops::AddAssign for More {
    fn add_assign(&mut self, other: Self) {
        self.documents_committed += other.documents_committed;
        self.deserted += other.deserted;
        self.unheard += other.unheard;
    }
}
