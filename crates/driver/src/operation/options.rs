//! The options of operations: one row each with name and type, setters with a type, and a setter by name.
//!
//! An operation lists the options it takes; the list makes its typed setters and is what [`Action::option`] accepts.
//!
//! [`Action::option`]: super::Action::option

use std::time::Duration;

use bson::{Bson, Document};

use crate::error::reply::as_i64;
use crate::error::{DriverError, Result};
use crate::settings::{ReadConcern, ReadPreference, WriteConcern};

/// The type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionKind {
    Any,
    Bool,
    Document,
    Documents,
    Text,
    TextOrDocument,
    /// A whole number from 0.
    Count,
    /// Any whole number.
    Integer,
    OneOf(&'static [&'static str]),
}

/// An option: the name that commands, connection strings and the unified test format give it, and its type.
#[derive(Debug)]
pub struct OptionRow {
    pub(crate) name: &'static str,
    pub(crate) kind: OptionKind,
}

impl OptionRow {
    fn check(&self, value: &Bson) -> Result<()> {
        let fits = match (self.kind, value) {
            (OptionKind::Any, _)
            | (OptionKind::Bool, Bson::Boolean(_))
            | (OptionKind::Document | OptionKind::TextOrDocument, Bson::Document(_))
            | (OptionKind::Text | OptionKind::TextOrDocument, Bson::String(_)) => true,
            (OptionKind::Documents, Bson::Array(values)) => values.iter().all(|value| value.as_document().is_some()),
            (OptionKind::Count, Bson::Int32(_) | Bson::Int64(_)) => as_i64(value).is_some_and(|number| number >= 0),
            (OptionKind::Integer, Bson::Int32(_) | Bson::Int64(_)) => true,
            (OptionKind::OneOf(names), Bson::String(text)) => names.contains(&text.as_str()),
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(DriverError::invalid_argument(format!("option '{}' does not take the value {value}", self.name)))
    }
}

/// All options there are.
pub(crate) mod rows {
    #![allow(non_upper_case_globals)]

    use super::{OptionKind, OptionRow};
    use OptionKind::*;

    const fn row(name: &'static str, kind: OptionKind) -> OptionRow {
        OptionRow { name, kind }
    }

    pub(crate) static timeout: OptionRow = row("timeoutMS", Count);
    pub(crate) static comment: OptionRow = row("comment", Any);
    pub(crate) static raw_data: OptionRow = row("rawData", Bool);
    pub(crate) static max_time: OptionRow = row("maxTimeMS", Count);
    pub(crate) static max_await_time: OptionRow = row("maxAwaitTimeMS", Count);
    pub(crate) static collation: OptionRow = row("collation", Document);
    pub(crate) static hint: OptionRow = row("hint", TextOrDocument);
    pub(crate) static let_vars: OptionRow = row("let", Document);
    pub(crate) static array_filters: OptionRow = row("arrayFilters", Documents);
    pub(crate) static bypass_document_validation: OptionRow = row("bypassDocumentValidation", Bool);
    pub(crate) static ordered: OptionRow = row("ordered", Bool);
    pub(crate) static upsert: OptionRow = row("upsert", Bool);
    pub(crate) static sort: OptionRow = row("sort", Document);
    pub(crate) static projection: OptionRow = row("projection", Document);
    pub(crate) static return_document: OptionRow = row("returnDocument", OneOf(&["Before", "After"]));
    pub(crate) static skip: OptionRow = row("skip", Count);
    pub(crate) static limit: OptionRow = row("limit", Integer);
    pub(crate) static batch_size: OptionRow = row("batchSize", Count);
    pub(crate) static cursor_type: OptionRow = row("cursorType", OneOf(&["nonTailable", "tailable", "tailableAwait"]));
    pub(crate) static timeout_mode: OptionRow = row("timeoutMode", OneOf(&["cursorLifetime", "iteration"]));
    pub(crate) static allow_disk_use: OptionRow = row("allowDiskUse", Bool);
    pub(crate) static min: OptionRow = row("min", Document);
    pub(crate) static max: OptionRow = row("max", Document);
    pub(crate) static return_key: OptionRow = row("returnKey", Bool);
    pub(crate) static show_record_id: OptionRow = row("showRecordId", Bool);
    pub(crate) static no_cursor_timeout: OptionRow = row("noCursorTimeout", Bool);
    pub(crate) static allow_partial_results: OptionRow = row("allowPartialResults", Bool);
    pub(crate) static filter: OptionRow = row("filter", Document);
    pub(crate) static authorized: OptionRow = row("authorizedDatabases", Bool);
    pub(crate) static authorized_collections: OptionRow = row("authorizedCollections", Bool);
    pub(crate) static read_concern: OptionRow = row("readConcern", Document);
    pub(crate) static write_concern: OptionRow = row("writeConcern", Document);
    pub(crate) static read_preference: OptionRow = row("readPreference", Document);
    pub(crate) static verbose_results: OptionRow = row("verboseResults", Bool);
    pub(crate) static commit_quorum: OptionRow = row("commitQuorum", Any);
    pub(crate) static drop_target: OptionRow = row("dropTarget", Bool);
    pub(crate) static capped: OptionRow = row("capped", Bool);
    pub(crate) static size: OptionRow = row("size", Count);
    pub(crate) static max_documents: OptionRow = row("max", Count);
    pub(crate) static validator: OptionRow = row("validator", Document);
    pub(crate) static validation_level: OptionRow = row("validationLevel", Text);
    pub(crate) static validation_action: OptionRow = row("validationAction", Text);
    pub(crate) static storage_engine: OptionRow = row("storageEngine", Document);
    pub(crate) static index_option_defaults: OptionRow = row("indexOptionDefaults", Document);
    pub(crate) static view_on: OptionRow = row("viewOn", Text);
    pub(crate) static view_pipeline: OptionRow = row("pipeline", Documents);
    pub(crate) static clustered_index: OptionRow = row("clusteredIndex", Document);
    pub(crate) static time_series: OptionRow = row("timeseries", Document);
    pub(crate) static expire_after_seconds: OptionRow = row("expireAfterSeconds", Integer);
    pub(crate) static change_stream_pre_and_post_images: OptionRow = row("changeStreamPreAndPostImages", Document);
    pub(crate) static index: OptionRow = row("index", Document);
    pub(crate) static full_document: OptionRow = row("fullDocument", Text);
    pub(crate) static full_document_before_change: OptionRow = row("fullDocumentBeforeChange", Text);
    pub(crate) static resume_after: OptionRow = row("resumeAfter", Document);
    pub(crate) static start_after: OptionRow = row("startAfter", Document);
    pub(crate) static start_at_operation_time: OptionRow = row("startAtOperationTime", Any);
    pub(crate) static show_expanded_events: OptionRow = row("showExpandedEvents", Bool);
}

/// Makes the typed setters of an operation and its list of options.
macro_rules! options {
    ($operation:ty: $($option:ident),* $(,)?) => {
        impl $crate::operation::Action<$operation> {
            $($crate::operation::options::options!(@setter $option);)*
        }

        impl $crate::operation::HasOptions for $operation {
            const OPTIONS: &'static [&'static $crate::operation::options::OptionRow] =
                &[$(&$crate::operation::options::rows::$option),*];
        }
    };
    (@setter comment) => {
        /// `comment`: any value; shows in logs and `$currentOp`.
        pub fn comment(self, comment: impl Into<bson::Bson>) -> Self { self.set("comment", comment) }
    };
    (@setter raw_data) => {
        /// `rawData`: the stored form of time series (sent to servers from 8.2 on only).
        pub fn raw_data(self, raw_data: bool) -> Self { self.set("rawData", raw_data) }
    };
    (@setter max_time) => {
        /// `maxTimeMS`: the server's own limit for the command. While `timeoutMS` is set, what is left of that is sent
        /// instead. On writes this is an addition: Java has no such option (facts/client.md A8).
        pub fn max_time(self, max_time: std::time::Duration) -> Self { self.set_millis("maxTimeMS", max_time) }
    };
    (@setter max_await_time) => {
        /// `maxAwaitTimeMS`: how long a tailable cursor's `getMore` waits for documents.
        pub fn max_await_time(self, time: std::time::Duration) -> Self { self.set_millis("maxAwaitTimeMS", time) }
    };
    (@setter collation) => {
        /// `collation`.
        pub fn collation(self, collation: bson::Document) -> Self { self.set("collation", collation) }
    };
    (@setter hint) => {
        /// `hint`: an index by name or by key.
        pub fn hint(self, hint: impl Into<bson::Bson>) -> Self { self.set("hint", hint) }
    };
    (@setter let_vars) => {
        /// `let`: variables for expressions.
        pub fn let_vars(self, variables: bson::Document) -> Self { self.set("let", variables) }
    };
    (@setter array_filters) => {
        /// `arrayFilters`.
        pub fn array_filters(self, filters: impl IntoIterator<Item = bson::Document>) -> Self {
            self.set("arrayFilters", filters.into_iter().collect::<Vec<_>>())
        }
    };
    (@setter bypass_document_validation) => {
        /// `bypassDocumentValidation`.
        pub fn bypass_document_validation(self, bypass: bool) -> Self { self.set("bypassDocumentValidation", bypass) }
    };
    (@setter ordered) => {
        /// `ordered`: stop at the first failure. Default: true.
        pub fn ordered(self, ordered: bool) -> Self { self.set("ordered", ordered) }
    };
    (@setter upsert) => {
        /// `upsert`: insert when nothing matches.
        pub fn upsert(self, upsert: bool) -> Self { self.set("upsert", upsert) }
    };
    (@setter sort) => {
        /// `sort`.
        pub fn sort(self, sort: bson::Document) -> Self { self.set("sort", sort) }
    };
    (@setter projection) => {
        /// `projection`.
        pub fn projection(self, projection: bson::Document) -> Self { self.set("projection", projection) }
    };
    (@setter return_document) => {
        /// Which version of the document comes back.
        pub fn return_document(self, which: $crate::operation::ReturnDocument) -> Self {
            self.set("returnDocument", which.name())
        }
    };
    (@setter skip) => {
        /// `skip`.
        pub fn skip(self, skip: u32) -> Self { self.set("skip", i64::from(skip)) }
    };
    (@setter limit) => {
        /// `limit`: 0 is none; negative takes a single batch of that size.
        pub fn limit(self, limit: i64) -> Self { self.set("limit", limit) }
    };
    (@setter batch_size) => {
        /// `batchSize`.
        pub fn batch_size(self, size: u32) -> Self { self.set("batchSize", i64::from(size)) }
    };
    (@setter cursor_type) => {
        /// Whether the cursor stays open at the end, and whether its `getMore` waits there.
        pub fn cursor_type(self, cursor_type: $crate::cursor::CursorType) -> Self {
            self.set("cursorType", cursor_type.name())
        }
    };
    (@setter timeout_mode) => {
        /// Whether `timeoutMS` is for the cursor's life or for each call.
        pub fn timeout_mode(self, mode: $crate::cursor::TimeoutMode) -> Self { self.set("timeoutMode", mode.name()) }
    };
    (@setter allow_disk_use) => {
        /// `allowDiskUse`.
        pub fn allow_disk_use(self, allow: bool) -> Self { self.set("allowDiskUse", allow) }
    };
    (@setter min) => {
        /// `min`: the lower bound of an index scan.
        pub fn min(self, min: bson::Document) -> Self { self.set("min", min) }
    };
    (@setter max) => {
        /// `max`: the upper bound of an index scan.
        pub fn max(self, max: bson::Document) -> Self { self.set("max", max) }
    };
    (@setter return_key) => {
        /// `returnKey`.
        pub fn return_key(self, return_key: bool) -> Self { self.set("returnKey", return_key) }
    };
    (@setter show_record_id) => {
        /// `showRecordId`.
        pub fn show_record_id(self, show: bool) -> Self { self.set("showRecordId", show) }
    };
    (@setter no_cursor_timeout) => {
        /// `noCursorTimeout`.
        pub fn no_cursor_timeout(self, no_timeout: bool) -> Self { self.set("noCursorTimeout", no_timeout) }
    };
    (@setter allow_partial_results) => {
        /// `allowPartialResults`.
        pub fn allow_partial_results(self, allow: bool) -> Self { self.set("allowPartialResults", allow) }
    };
    (@setter filter) => {
        /// `filter`.
        pub fn filter(self, filter: bson::Document) -> Self { self.set("filter", filter) }
    };
    (@setter authorized) => {
        /// `authorizedDatabases`.
        pub fn authorized(self, authorized: bool) -> Self { self.set("authorizedDatabases", authorized) }
    };
    (@setter authorized_collections) => {
        /// `authorizedCollections`.
        pub fn authorized_collections(self, authorized: bool) -> Self { self.set("authorizedCollections", authorized) }
    };
    (@setter read_concern) => {
        /// The read concern of this operation.
        pub fn read_concern(self, concern: &$crate::settings::ReadConcern) -> Self {
            self.set("readConcern", concern.to_document())
        }
    };
    (@setter write_concern) => {
        /// The write concern of this operation.
        pub fn write_concern(self, concern: &$crate::settings::WriteConcern) -> Self {
            self.set("writeConcern", concern.to_document())
        }
    };
    (@setter read_preference) => {
        /// The read preference of this operation.
        pub fn read_preference(self, preference: &$crate::settings::ReadPreference) -> Self {
            self.set("readPreference", preference.to_document())
        }
    };
    (@setter verbose_results) => {
        /// Whether the result lists what happened to each write.
        pub fn verbose_results(self, verbose: bool) -> Self { self.set("verboseResults", verbose) }
    };
    (@setter commit_quorum) => {
        /// `commitQuorum`.
        pub fn commit_quorum(self, quorum: impl Into<bson::Bson>) -> Self { self.set("commitQuorum", quorum) }
    };
    (@setter drop_target) => {
        /// `dropTarget`: replace a collection of the new name.
        pub fn drop_target(self, drop: bool) -> Self { self.set("dropTarget", drop) }
    };
    (@setter capped) => {
        /// `capped`.
        pub fn capped(self, capped: bool) -> Self { self.set("capped", capped) }
    };
    (@setter size) => {
        /// `size`: a capped collection's bytes.
        pub fn size(self, size_bytes: i64) -> Self { self.set("size", size_bytes) }
    };
    (@setter max_documents) => {
        /// `max`: a capped collection's documents.
        pub fn max_documents(self, max: i64) -> Self { self.set("max", max) }
    };
    (@setter validator) => {
        /// `validator`.
        pub fn validator(self, validator: bson::Document) -> Self { self.set("validator", validator) }
    };
    (@setter validation_level) => {
        /// `validationLevel`.
        pub fn validation_level(self, level: &str) -> Self { self.set("validationLevel", level) }
    };
    (@setter validation_action) => {
        /// `validationAction`.
        pub fn validation_action(self, action: &str) -> Self { self.set("validationAction", action) }
    };
    (@setter storage_engine) => {
        /// `storageEngine`.
        pub fn storage_engine(self, options: bson::Document) -> Self { self.set("storageEngine", options) }
    };
    (@setter index_option_defaults) => {
        /// `indexOptionDefaults`.
        pub fn index_option_defaults(self, options: bson::Document) -> Self { self.set("indexOptionDefaults", options) }
    };
    (@setter view_on) => {
        /// `viewOn`: the collection of a view.
        pub fn view_on(self, collection: &str) -> Self { self.set("viewOn", collection) }
    };
    (@setter view_pipeline) => {
        /// `pipeline`: a view's definition.
        pub fn view_pipeline(self, pipeline: impl IntoIterator<Item = bson::Document>) -> Self {
            self.set("pipeline", pipeline.into_iter().collect::<Vec<_>>())
        }
    };
    (@setter clustered_index) => {
        /// `clusteredIndex`.
        pub fn clustered_index(self, index: bson::Document) -> Self { self.set("clusteredIndex", index) }
    };
    (@setter time_series) => {
        /// `timeseries`.
        pub fn time_series(self, options: bson::Document) -> Self { self.set("timeseries", options) }
    };
    (@setter expire_after_seconds) => {
        /// `expireAfterSeconds`.
        pub fn expire_after_seconds(self, seconds: i64) -> Self { self.set("expireAfterSeconds", seconds) }
    };
    (@setter change_stream_pre_and_post_images) => {
        /// `changeStreamPreAndPostImages`.
        pub fn change_stream_pre_and_post_images(self, options: bson::Document) -> Self {
            self.set("changeStreamPreAndPostImages", options)
        }
    };
    (@setter index) => {
        /// `index`: changes of one index.
        pub fn index(self, index: bson::Document) -> Self { self.set("index", index) }
    };
    (@setter full_document) => {
        /// `fullDocument`.
        pub fn full_document(self, mode: &str) -> Self { self.set("fullDocument", mode) }
    };
    (@setter full_document_before_change) => {
        /// `fullDocumentBeforeChange`.
        pub fn full_document_before_change(self, mode: &str) -> Self { self.set("fullDocumentBeforeChange", mode) }
    };
    (@setter resume_after) => {
        /// `resumeAfter`.
        pub fn resume_after(self, token: bson::Document) -> Self { self.set("resumeAfter", token) }
    };
    (@setter start_after) => {
        /// `startAfter`.
        pub fn start_after(self, token: bson::Document) -> Self { self.set("startAfter", token) }
    };
    (@setter start_at_operation_time) => {
        /// `startAtOperationTime`.
        pub fn start_at_operation_time(self, time: bson::Timestamp) -> Self { self.set("startAtOperationTime", time) }
    };
    (@setter show_expanded_events) => {
        /// `showExpandedEvents`.
        pub fn show_expanded_events(self, show: bool) -> Self { self.set("showExpandedEvents", show) }
    };
}
pub(crate) use options;

/// The options of one call, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options(Document);

impl Options {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn set(&mut self, name: &str, value: Bson) {
        self.0.insert(name, value);
    }

    /// Sets an option that `known` lists, after checking its value.
    pub(crate) fn set_by_name(&mut self, known: &[&OptionRow], name: &str, value: Bson) -> Result<()> {
        let row = known.iter().copied().chain([&rows::timeout]).find(|row| row.name == name);
        let row = row.ok_or_else(|| {
            let names: Vec<_> = known.iter().map(|row| row.name).collect();
            DriverError::invalid_argument(format!("unknown option '{name}'; known are: {}", names.join(", ")))
        })?;
        row.check(&value)?;
        self.set(name, value);
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Bson> {
        self.0.get(name)
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(Bson::as_bool)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Bson::as_str)
    }

    pub(crate) fn document(&self, name: &str) -> Option<&Document> {
        self.get(name).and_then(Bson::as_document)
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(as_i64)
    }

    /// A number of milliseconds.
    pub(crate) fn millis(&self, name: &str) -> Option<Duration> {
        self.number(name).and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis)
    }

    pub(crate) fn read_concern(&self) -> Result<Option<ReadConcern>> {
        self.document("readConcern").map(ReadConcern::from_document).transpose()
    }

    pub(crate) fn write_concern(&self) -> Result<Option<WriteConcern>> {
        self.document("writeConcern").map(WriteConcern::from_document).transpose()
    }

    pub(crate) fn read_preference(&self) -> Result<Option<ReadPreference>> {
        self.document("readPreference").map(ReadPreference::from_document).transpose()
    }

    /// Copies these options into a command, under their own names and in this order.
    pub(crate) fn copy_into(&self, body: &mut Document, names: &[&str]) {
        for name in names {
            if let Some(value) = self.get(name) {
                body.insert(*name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::bson;

    #[test]
    fn options_by_name_are_checked() {
        let known = [&rows::hint, &rows::ordered, &rows::limit, &rows::skip, &rows::cursor_type, &rows::array_filters];
        for (name, value, good) in [
            ("hint", bson!("_id_"), true),
            ("hint", bson!({"_id": 1}), true),
            ("hint", bson!(1), false),
            ("ordered", bson!(true), true),
            ("ordered", bson!(1), false),
            ("limit", bson!(-1), true),
            ("skip", bson!(-1), false),
            ("cursorType", bson!("tailable"), true),
            ("cursorType", bson!("x"), false),
            ("arrayFilters", bson!([{"a": 1}]), true),
            ("arrayFilters", bson!([1]), false),
            ("timeoutMS", bson!(5), true),
            ("timeoutMS", bson!(-5), false),
            ("upsert", bson!(true), false),
        ] {
            let result = Options::default().set_by_name(&known, name, value.clone());
            assert_eq!(result.is_ok(), good, "{name} {value}");
        }
    }
}
