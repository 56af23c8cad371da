//! Results of writes, and failures that keep the result so far.

use std::collections::BTreeMap;
use std::fmt;

use bson::{Bson, Document};

use crate::error::reply::{labels, number, write_concern_error, write_errors};
use crate::error::{DriverError, ErrorKind, WriteConcernFailure, WriteFailure};

use super::batch::Statement;
use super::model::WriteKind;

/// What a bulk did. Positions are those of the caller's list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BulkWriteResult {
    /// False for `w: 0`: then nothing else is known.
    pub acknowledged: bool,
    /// Documents inserted.
    pub inserted_count: u64,
    /// Documents that updates and replacements matched.
    pub matched_count: u64,
    /// Documents that were changed.
    pub modified_count: u64,
    /// Documents deleted.
    pub deleted_count: u64,
    /// The `_id`s of inserted documents.
    pub inserted_ids: BTreeMap<usize, Bson>,
    /// The `_id`s of upserted documents.
    pub upserted_ids: BTreeMap<usize, Bson>,
}

/// A bulk that failed in part.
#[derive(Debug, Clone)]
pub struct BulkWriteFailure {
    /// What was done all the same.
    pub result: BulkWriteResult,
    /// The writes that failed.
    pub write_errors: Vec<WriteFailure>,
    /// Commands whose write concern was not met.
    pub write_concern_errors: Vec<WriteConcernFailure>,
}

impl BulkWriteFailure {
    /// The code of the first failure.
    pub fn code(&self) -> Option<i32> {
        let write = self.write_errors.first().map(|error| error.code);
        write.or_else(|| self.write_concern_errors.first().map(|error| error.code))
    }
}

impl fmt::Display for BulkWriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bulk write failed")?;
        for error in &self.write_errors {
            write!(f, "; write {}: {} ({})", error.index, error.message, error.code)?;
        }
        for error in &self.write_concern_errors {
            write!(f, "; write concern: {} ({})", error.message, error.code)?;
        }
        Ok(())
    }
}

/// What one update of a verbose client bulk did.
#[derive(Debug, Clone, PartialEq)]
pub struct VerboseUpdate {
    /// Documents matched.
    pub matched_count: u64,
    /// Documents changed.
    pub modified_count: u64,
    /// The `_id` of an upserted document.
    pub upserted_id: Option<Bson>,
}

/// What one delete of a verbose client bulk did.
#[derive(Debug, Clone, PartialEq)]
pub struct VerboseDelete {
    /// Documents deleted.
    pub deleted_count: u64,
}

/// What a bulk over several collections did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClientBulkWriteResult {
    /// False for `w: 0`: then nothing else is known.
    pub acknowledged: bool,
    /// Whether the lists below are filled.
    pub verbose: bool,
    /// Documents inserted.
    pub inserted_count: u64,
    /// Documents upserted.
    pub upserted_count: u64,
    /// Documents matched.
    pub matched_count: u64,
    /// Documents changed.
    pub modified_count: u64,
    /// Documents deleted.
    pub deleted_count: u64,
    /// The `_id` of each insert.
    pub insert_results: BTreeMap<usize, Bson>,
    /// What each update did.
    pub update_results: BTreeMap<usize, VerboseUpdate>,
    /// What each delete did.
    pub delete_results: BTreeMap<usize, VerboseDelete>,
}

/// A bulk over several collections that failed in part.
#[derive(Debug, Clone)]
pub struct ClientBulkWriteFailure {
    /// The error that ended it, if it was not only single writes that failed.
    pub error: Option<DriverError>,
    /// The writes that failed, by their position.
    pub write_errors: BTreeMap<usize, WriteFailure>,
    /// Commands whose write concern was not met.
    pub write_concern_errors: Vec<WriteConcernFailure>,
    /// What was done all the same, if anything was.
    pub partial_result: Option<ClientBulkWriteResult>,
}

impl fmt::Display for ClientBulkWriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client bulk write failed; {} write errors", self.write_errors.len())?;
        if let Some(error) = &self.error {
            write!(f, "; {error}")?;
        }
        for error in &self.write_concern_errors {
            write!(f, "; write concern: {} ({})", error.message, error.code)?;
        }
        Ok(())
    }
}

/// Puts the replies of a bulk's commands together.
#[derive(Debug)]
pub(crate) struct Combiner {
    ordered: bool,
    result: BulkWriteResult,
    write_errors: Vec<WriteFailure>,
    write_concern_errors: Vec<WriteConcernFailure>,
    labels: Vec<String>,
}

impl Combiner {
    pub(crate) fn new(ordered: bool, acknowledged: bool) -> Self {
        Self {
            ordered,
            result: BulkWriteResult { acknowledged, ..BulkWriteResult::default() },
            write_errors: Vec::new(),
            write_concern_errors: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Whether the rest is not to be sent.
    pub(crate) fn should_stop(&self) -> bool {
        self.ordered && !self.write_errors.is_empty()
    }

    /// Adds a command's reply. `inserted_id` gives the `_id` of an insert by its position in the caller's list.
    pub(crate) fn add(
        &mut self,
        kind: WriteKind,
        statements: &[Statement],
        reply: &Document,
        inserted_id: impl Fn(usize) -> Option<Bson>,
    ) {
        if !self.result.acknowledged {
            return;
        }
        let original = |position: usize| statements.get(position).map_or(position, |statement| statement.index);
        let count = |name: &str| number(reply, name).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let errors = write_errors(reply);
        match kind {
            WriteKind::Insert => {
                self.result.inserted_count += count("n");
                let first_failed = errors.iter().map(|error| error.index).min().unwrap_or(usize::MAX);
                for (position, statement) in statements.iter().enumerate() {
                    let was_tried = !self.ordered || position < first_failed;
                    let failed = errors.iter().any(|error| error.index == position);
                    if was_tried
                        && !failed
                        && let Some(id) = inserted_id(statement.index)
                    {
                        self.result.inserted_ids.insert(statement.index, id);
                    }
                }
            }
            WriteKind::Update | WriteKind::Replace => {
                let upserted: Vec<_> = reply.get_array("upserted").into_iter().flatten().collect();
                for entry in upserted.iter().filter_map(|entry| entry.as_document()) {
                    let position = number(entry, "index").and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                    let id = entry.get("_id").cloned().unwrap_or(Bson::Null);
                    self.result.upserted_ids.insert(original(position), id);
                }
                self.result.matched_count += count("n").saturating_sub(upserted.len() as u64);
                self.result.modified_count += count("nModified");
            }
            WriteKind::Delete => self.result.deleted_count += count("n"),
        }
        for mut error in errors {
            error.index = original(error.index);
            self.write_errors.push(error);
        }
        if let Some(error) = write_concern_error(reply) {
            self.write_concern_errors.push(error);
        }
        for label in labels(reply) {
            self.add_label(label);
        }
    }

    /// What was done so far.
    pub(crate) fn result(&self) -> &BulkWriteResult {
        &self.result
    }

    pub(crate) fn add_label(&mut self, label: &str) {
        if !self.labels.iter().any(|own| own == label) {
            self.labels.push(label.to_owned());
        }
    }

    /// The result, or the failure that holds it.
    pub(crate) fn finish(self) -> Result<BulkWriteResult, DriverError> {
        if self.write_errors.is_empty() && self.write_concern_errors.is_empty() {
            return Ok(self.result);
        }
        let mut error = DriverError::new(ErrorKind::BulkWrite(Box::new(BulkWriteFailure {
            result: self.result,
            write_errors: self.write_errors,
            write_concern_errors: self.write_concern_errors,
        })));
        for label in &self.labels {
            error.add_label(label);
        }
        Err(error)
    }
}

/// The failure of a bulk that was a single write: the write's own error.
pub(crate) fn as_single_write(error: DriverError) -> DriverError {
    let ErrorKind::BulkWrite(failure) = error.kind() else { return error };
    let kind = match (failure.write_errors.first(), failure.write_concern_errors.first()) {
        (Some(write), _) => ErrorKind::Write(write.clone()),
        (None, Some(concern)) => ErrorKind::WriteConcern(concern.clone()),
        (None, None) => return error,
    };
    DriverError::new(kind).with_labels_of(&error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;
    use bytes::Bytes;

    fn statements(kind: WriteKind, indexes: &[usize]) -> Vec<Statement> {
        indexes.iter().map(|&index| Statement { index, kind, multi: false, document: Bytes::new() }).collect()
    }

    #[test]
    fn replies_are_added_up_under_the_callers_positions() {
        let mut combiner = Combiner::new(false, true);
        let id = |index| Some(Bson::Int64(index as i64));
        combiner.add(WriteKind::Insert, &statements(WriteKind::Insert, &[0, 4]), &doc! {"ok": 1, "n": 2}, id);
        let upserted = doc! {"ok": 1, "n": 3, "nModified": 1, "upserted": [{"index": 1, "_id": 9}]};
        combiner.add(WriteKind::Update, &statements(WriteKind::Update, &[1, 3]), &upserted, id);
        combiner.add(WriteKind::Delete, &statements(WriteKind::Delete, &[2]), &doc! {"ok": 1, "n": 5}, id);
        let result = combiner.finish().unwrap();
        assert_eq!(
            (result.inserted_count, result.matched_count, result.modified_count, result.deleted_count),
            (2, 2, 1, 5)
        );
        assert_eq!(result.inserted_ids.keys().copied().collect::<Vec<_>>(), [0, 4]);
        assert_eq!(result.upserted_ids, BTreeMap::from([(3, Bson::Int32(9))]));
    }

    #[test]
    fn a_failure_keeps_the_result_and_stops_an_ordered_bulk() {
        let reply = doc! {"ok": 1, "n": 1, "writeErrors": [{"index": 1, "code": 11000, "errmsg": "E11000"}]};
        for (ordered, ids) in [(true, vec![5]), (false, vec![5, 7])] {
            let mut combiner = Combiner::new(ordered, true);
            let sent = statements(WriteKind::Insert, &[5, 6, 7]);
            combiner.add(WriteKind::Insert, &sent, &reply, |index| Some(Bson::Int64(index as i64)));
            assert_eq!(combiner.should_stop(), ordered);
            let error = combiner.finish().unwrap_err();
            let ErrorKind::BulkWrite(failure) = error.kind() else { panic!("{error}") };
            assert_eq!(failure.write_errors[0].index, 6);
            assert_eq!(failure.result.inserted_ids.keys().copied().collect::<Vec<_>>(), ids);
            assert_eq!(as_single_write(error).java_class(), "MongoWriteException");
        }
    }

    #[test]
    fn an_unmet_write_concern_does_not_stop_but_is_an_error() {
        let mut combiner = Combiner::new(true, true);
        let reply =
            doc! {"ok": 1, "n": 1, "writeConcernError": {"code": 64, "errmsg": "timeout"}, "errorLabels": ["x"]};
        combiner.add(WriteKind::Insert, &statements(WriteKind::Insert, &[0]), &reply, |_| None);
        assert!(!combiner.should_stop());
        let error = as_single_write(combiner.finish().unwrap_err());
        assert_eq!(
            (error.java_class(), error.code(), error.has_label("x")),
            ("MongoWriteConcernException", Some(64), true)
        );
    }
}
