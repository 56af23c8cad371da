//! The records of a poll, of one partition, as one bulk.

use std::sync::Arc;
use std::time::Duration;

use backfire_consumer::{
    Classifier, Delivery, ErrorClass, Failure, LogicalWriteId, Record, Rule, Work, WorkError, WorkKind,
};
use backfire_driver::error::WriteFailure;
use backfire_driver::{BulkWriteModel, Collection, DriverError, ErrorKind};

use crate::record::{self, BAD_RECORD};
use crate::settings::{Id, Mode, Settings};
use crate::stats::Stats;

/// The class of the failure of a write that the server refuses for what is in it. It is not tried again.
pub const WRITE_REFUSED: &str = "backfire.WriteRefusedException";

/// The class of the failure of a write that this client may not do at all. It is not tried again, and is no record's
/// fault.
pub const NOT_ALLOWED: &str = "backfire.NotAllowedException";

/// Codes that a write gets for what is in it (facts/server.md, error codes): it fails again for sure.
const FAULTS: &[i32] = &[
    2,      // BadValue
    9,      // FailedToParse
    14,     // TypeMismatch
    28,     // PathNotViable
    40,     // ConflictingUpdateOperators
    52,     // DollarPrefixedFieldName
    53,     // InvalidIdField
    55,     // InvalidDBRef
    56,     // EmptyFieldName
    57,     // DottedFieldName
    66,     // ImmutableField
    121,    // DocumentValidationFailure
    10_334, // BSONObjectTooLarge
    11_000, // DuplicateKey
    17_280, // KeyTooLong
    17_419, // the updated document is too large
];

/// Codes that say that this client may not write there.
const DENIALS: &[i32] = &[
    13,    // Unauthorized
    18,    // AuthenticationFailed
    20,    // IllegalOperation
    73,    // InvalidNamespace
    166,   // CommandNotSupportedOnView
    8_000, // AtlasError
];

const DUPLICATE_KEY: i32 = 11_000;

/// What is not tried again.
pub(crate) fn classifier() -> Classifier {
    [BAD_RECORD, WRITE_REFUSED, NOT_ALLOWED]
        .into_iter()
        .fold(Classifier::default(), |classifier, class| classifier.with(Rule::class(class, false)))
}

/// Writes the records of a delivery as one ordered bulk.
pub struct Writer {
    collection: Collection,
    settings: Arc<Settings>,
    stats: Arc<Stats>,
}

impl Writer {
    /// Writes to this collection.
    pub(crate) fn new(collection: Collection, settings: Arc<Settings>, stats: Arc<Stats>) -> Self {
        Self { collection, settings, stats }
    }

    /// Executes the writes. A failure has the position among them, where it is known.
    async fn bulk(&self, mut models: Vec<BulkWriteModel>, comment: String) -> Result<(), (Option<usize>, Failure)> {
        let is_resumable = self.settings.mode == Mode::Insert && self.settings.id == Id::Record;
        let mut done = 0;
        while !models.is_empty() {
            let rest = if is_resumable { models.clone() } else { Vec::new() };
            let mut bulk = self.collection.bulk_write(models).ordered(true);
            if self.settings.comment {
                bulk = bulk.comment(comment.clone());
            }
            if self.settings.max_time_ms > 0 {
                bulk = bulk.max_time(Duration::from_millis(self.settings.max_time_ms));
            }
            let Err(error) = bulk.await else { break };
            let ErrorKind::BulkWrite(partly) = error.kind() else { return Err((None, failure(&error))) };
            let Some(refused) = partly.write_errors.first() else { return Err((None, failure(&error))) };
            if is_resumable && refused.code == DUPLICATE_KEY && is_about_id(refused) {
                // An earlier execution's own document: the identity is the record's place, so nobody else made it.
                self.stats.already_there();
                models = rest.into_iter().skip(refused.index + 1).collect();
                done += refused.index + 1;
                continue;
            }
            return Err((Some(done + refused.index), self.refusal(&error, refused)));
        }
        Ok(())
    }

    fn refusal(&self, error: &DriverError, refused: &WriteFailure) -> Failure {
        // Two upserts of one identity at once: the later one finds the document when it is tried again.
        let is_race = self.settings.mode == Mode::Upsert
            && refused.code == DUPLICATE_KEY
            && (is_about_id(refused) || self.settings.id == Id::Fields);
        let class = match refused.code {
            _ if is_race => error.java_class(),
            code if FAULTS.contains(&code) => WRITE_REFUSED,
            code if DENIALS.contains(&code) => NOT_ALLOWED,
            _ => error.java_class(),
        };
        Failure::new(ErrorClass::new(class), format!("{} ({})", refused.message, refused.code))
    }
}

/// Whether a duplicate key is that of `_id`.
fn is_about_id(refused: &WriteFailure) -> bool {
    match refused.response.get_document("keyPattern") {
        Ok(pattern) => pattern.keys().eq(["_id"]),
        Err(_) => refused.message.contains("index: _id_"),
    }
}

/// The driver's error, by the class that the Java driver would throw.
fn failure(error: &DriverError) -> Failure {
    let class = match error.code() {
        Some(code) if DENIALS.contains(&code) => NOT_ALLOWED,
        _ if matches!(error.kind(), ErrorKind::InvalidArgument(_)) => WRITE_REFUSED,
        _ => error.java_class(),
    };
    let outer = Failure::new(ErrorClass::new(class), error.to_string());
    match error.cause() {
        Some(cause) => outer.caused_by(Failure::new(ErrorClass::new(cause.java_class()), cause.to_string())),
        None => outer,
    }
}

/// The identity of the records of a bulk: `orders-3-258`, or `orders-3-258..757`.
fn comment(records: &[Arc<Record>]) -> String {
    match records {
        [] => String::new(),
        [one] => LogicalWriteId::of(one).to_string(),
        [first, .., last] => format!("{}..{}", LogicalWriteId::of(first), last.offset),
    }
}

impl Work for Writer {
    fn kind(&self) -> WorkKind {
        WorkKind::Batch
    }

    async fn execute(&self, delivery: Delivery) -> Result<(), WorkError> {
        let records = delivery.records();
        let mut models = Vec::with_capacity(records.len());
        let mut positions = Vec::with_capacity(records.len());
        let mut bad = None;
        for (position, record) in records.iter().enumerate() {
            match record::write(record, &self.settings) {
                Ok(Some(model)) => {
                    models.push(model);
                    positions.push(position);
                }
                Ok(None) => {}
                Err(failure) => {
                    // Those before it are written first: then it is the first that is not done.
                    bad = Some(WorkError::at(position, failure));
                    break;
                }
            }
        }
        self.stats.bulk(models.len());
        let written = self.bulk(models, comment(records)).await;
        written.map_err(|(position, failure)| WorkError {
            failure,
            index: position.and_then(|position| positions.get(position)).copied(),
        })?;
        bad.map_or(Ok(()), Err)
    }
}
