//! `aggregate`, with and without a stage that writes.

use bson::{Bson, Document, doc};

use crate::cursor::{Cursor, TimeoutMode};
use crate::error::{DriverError, Result};
use crate::execute::Plan;
use crate::retry::Operation;
use crate::topology::Criteria;

use super::options::{Options, options};
use super::{Execute, Request, add_raw_data};

/// `$out` and `$merge` run on a secondary from this wire version (5.0) on.
const WIRE_VERSION_WRITES_ON_SECONDARY: i32 = 13;

/// Runs a pipeline. See [`crate::Collection::aggregate`] and [`crate::Database::aggregate`].
pub struct Aggregate {
    pub(crate) database: String,
    /// `None`: on the database itself.
    pub(crate) collection: Option<String>,
    pub(crate) pipeline: Vec<Document>,
}

options!(Aggregate: allow_disk_use, batch_size, bypass_document_validation, collation, comment, hint, let_vars,
    max_await_time, max_time, raw_data, read_concern, read_preference, timeout_mode, write_concern);

impl Aggregate {
    fn writes(&self) -> bool {
        self.pipeline
            .last()
            .and_then(|stage| stage.keys().next())
            .is_some_and(|name| name == "$out" || name == "$merge")
    }

    /// The command's own fields, without concerns.
    pub(super) fn body(&self, options: &Options, cursor: Document) -> Document {
        let target = self.collection.as_ref().map_or(Bson::Int32(1), |name| Bson::String(name.clone()));
        let mut body = doc! {"aggregate": target, "pipeline": self.pipeline.clone(), "cursor": cursor};
        let names = ["allowDiskUse", "bypassDocumentValidation", "collation", "comment", "hint", "let"];
        options.copy_into(&mut body, &names);
        body
    }
}

impl Execute for Aggregate {
    type Output = Cursor;

    async fn execute(self, request: Request) -> Result<Self::Output> {
        if self.writes() { run_writing(self, request).await } else { run_reading(self, request).await }
    }
}

/// Batch size of the first batch.
pub(super) fn cursor_field(options: &Options) -> Document {
    let mut cursor = Document::new();
    if let Some(size) = options.number("batchSize") {
        cursor.insert("batchSize", i32::try_from(size).map_or(Bson::Int64(size), Bson::Int32));
    }
    cursor
}

async fn run_reading(aggregate: Aggregate, mut request: Request) -> Result<Cursor> {
    let (mut call, rules) = request.start_cursor(request.max_time())?;
    let (read_concern, preference) = (request.scope.read_concern.clone(), request.read_preference());
    let Request { options, .. } = request;
    let database = aggregate.database.clone();
    let plan = Plan::new(Operation::Read, database, Criteria::Read(preference), move |wire_version| {
        let mut body = aggregate.body(&options, cursor_field(&options));
        add_raw_data(&options, wire_version, &mut body);
        Ok(body)
    });
    let reply = plan.with_read_concern(read_concern).run(&mut call).await?;
    Cursor::new(call, reply, rules)
}

/// `$out` and `$merge`: a write in the shape of a read. It is not retried (facts/client.md A6) and gives no documents.
async fn run_writing(aggregate: Aggregate, mut request: Request) -> Result<Cursor> {
    let (mut call, rules) = request.start_cursor(request.max_time())?;
    if rules.mode() == TimeoutMode::Iteration {
        return Err(DriverError::invalid_argument("an aggregation that writes has no timeoutMode iteration"));
    }
    let (read_concern, preference) = (request.scope.read_concern.clone(), request.read_preference());
    let write_concern = request.write_concern();
    call.check_write_concern(&write_concern)?;
    let Request { options, .. } = request;
    let database = aggregate.database.clone();
    let criteria = Criteria::ReadOrPrimaryBelow(preference, WIRE_VERSION_WRITES_ON_SECONDARY);
    let plan = Plan::new(Operation::PlainWrite, database, criteria, move |wire_version| {
        let mut body = aggregate.body(&options, Document::new());
        add_raw_data(&options, wire_version, &mut body);
        Ok(body)
    });
    let plan = plan.with_read_concern(read_concern).with_write_concern(write_concern);
    let reply = plan.run(&mut call).await?;
    if reply.acknowledged { Cursor::new(call, reply, rules) } else { Ok(Cursor::empty(reply.server, rules)) }
}
