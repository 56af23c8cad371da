//! The numbers that everything is about.

use serde::{Deserialize, Serialize};

/// How often one logical write was executed, sent and copied. The terms are those of the README's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Runs of the application's write: the first and the retries by its error handler.
    pub executions: u64,
    /// Write commands that reached the server.
    pub sends: u64,
    /// Sends that repeat an earlier one with the same `lsid` and `txnNumber`.
    pub resends: u64,
    /// Writes that the server works on separately: one per distinct (`lsid`, `txnNumber`), one per send without.
    pub copies: u64,
    /// The most copies of one logical write at the same instant.
    pub overlapping_copies_max: u64,
    /// Resends that wait for the session their original holds, when the application has finished or given up.
    pub waiting_resends: u64,
    /// Documents in the collection, when everything has ended.
    pub documents: u64,
}

impl Counts {
    /// Name, label and value of each count, in the order in which they are shown.
    pub fn rows(&self) -> [(&'static str, &'static str, u64); 7] {
        [
            ("executions", "executions", self.executions),
            ("sends", "sends", self.sends),
            ("resends", "resends", self.resends),
            ("copies", "copies", self.copies),
            ("overlapping_copies_max", "most copies at the same time", self.overlapping_copies_max),
            ("waiting_resends", "waiting resends at the end", self.waiting_resends),
            ("documents", "documents", self.documents),
        ]
    }
}

/// What else is worth knowing of a run. In a prediction `None` means: depends on the order in which things happen to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extras {
    /// Sends that were answered from the retry history instead of being executed.
    pub answered_from_history: Option<u64>,
    /// Operations that the server ended because of their `maxTimeMS`.
    pub ended_at_deadline: Option<u64>,
    /// Reads that the server ended because their client had gone away.
    pub reads_ended_with_client: Option<u64>,
    /// Copies that wrote a document after a copy of a newer execution had: they undo newer data.
    pub late_copies: Option<u64>,
    /// Sends that the driver made, where something between it and the server made more of them; `None`: as many as arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sends_by_driver: Option<u64>,
}

impl Extras {
    /// Name, label and value of each, in the order in which they are shown.
    pub fn rows(&self) -> [(&'static str, &'static str, Option<u64>); 5] {
        [
            ("answered_from_history", "answered from history", self.answered_from_history),
            ("ended_at_deadline", "ended at their deadline", self.ended_at_deadline),
            ("reads_ended_with_client", "reads ended with their client", self.reads_ended_with_client),
            ("late_copies", "older copies that wrote last", self.late_copies),
            ("sends_by_driver", "sends by the driver itself", self.sends_by_driver),
        ]
    }
}

/// A number that did not come out as predicted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Its name in [`Counts`] or [`Extras`].
    pub name: String,
    /// What the settings promise.
    pub predicted: u64,
    /// What happened.
    pub measured: u64,
}

/// Everything in which a run differs from its prediction.
pub fn differences(predicted: (&Counts, &Extras), measured: (&Counts, &Extras)) -> Vec<Difference> {
    let counts =
        predicted.0.rows().into_iter().zip(measured.0.rows()).map(|(one, other)| (one.0, Some(one.2), other.2));
    let extras =
        predicted.1.rows().into_iter().zip(measured.1.rows()).map(|(one, other)| (one.0, one.2, other.2.unwrap_or(0)));
    counts
        .chain(extras)
        .filter_map(|(name, predicted, measured)| {
            let predicted = predicted.filter(|predicted| *predicted != measured)?;
            Some(Difference { name: name.to_owned(), predicted, measured })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_predicted_can_differ() {
        let counts = Counts { sends: 8, ..Counts::default() };
        let extras = Extras { ended_at_deadline: Some(2), late_copies: None, ..Extras::default() };
        let measured =
            (Counts { sends: 7, ..counts }, Extras { late_copies: Some(3), ended_at_deadline: Some(2), ..extras });
        assert_eq!(differences((&counts, &extras), (&counts, &extras)), []);
        assert_eq!(
            differences((&counts, &extras), (&measured.0, &measured.1)),
            [Difference { name: "sends".into(), predicted: 8, measured: 7 }]
        );
    }
}
