//! Change streams, as far as an aggregation with `$changeStream` goes: the stream is not resumed after an error.

use bson::{Document, doc};

use crate::cursor::{Cursor, CursorType};
use crate::error::Result;
use crate::execute::Plan;
use crate::retry::Operation;
use crate::topology::Criteria;

use super::aggregate::{Aggregate, cursor_field};
use super::options::{Options, options};
use super::{Execute, Request};

/// Watches changes. See [`crate::Collection::watch`], [`crate::Database::watch`] and [`crate::Client::watch`].
///
/// The cursor waits on the server. After an error that ends it, start another one from the last `_id` that it gave.
pub struct Watch {
    database: String,
    collection: Option<String>,
    cluster: bool,
    pipeline: Vec<Document>,
}

options!(Watch: batch_size, collation, comment, full_document, full_document_before_change, max_await_time, read_concern,
    read_preference, resume_after, show_expanded_events, start_after, start_at_operation_time);

impl Watch {
    pub(crate) fn cluster(pipeline: Vec<Document>) -> Self {
        Self { database: "admin".into(), collection: None, cluster: true, pipeline }
    }

    pub(crate) fn new(database: String, collection: Option<String>, pipeline: Vec<Document>) -> Self {
        Self { database, collection, cluster: false, pipeline }
    }

    fn into_aggregate(self, options: &Options) -> Aggregate {
        let mut stage = Document::new();
        if self.cluster {
            stage.insert("allChangesForCluster", true);
        }
        let names = [
            "fullDocument",
            "fullDocumentBeforeChange",
            "resumeAfter",
            "startAfter",
            "startAtOperationTime",
            "showExpandedEvents",
        ];
        options.copy_into(&mut stage, &names);
        let pipeline = std::iter::once(doc! {"$changeStream": stage}).chain(self.pipeline).collect();
        Aggregate { database: self.database, collection: self.collection, pipeline }
    }
}

impl Execute for Watch {
    type Output = Cursor;

    async fn execute(self, mut request: Request) -> Result<Self::Output> {
        request.options.set("cursorType", CursorType::TailableAwait.name().into());
        let (mut call, rules) = request.start_cursor(None)?;
        let (read_concern, preference) = (request.scope.read_concern.clone(), request.read_preference());
        let Request { options, .. } = request;
        let aggregate = self.into_aggregate(&options);
        let database = aggregate.database.clone();
        let plan = Plan::new(Operation::Read, database, Criteria::Read(preference), move |_| {
            Ok(aggregate.body(&options, cursor_field(&options)))
        });
        let reply = plan.with_read_concern(read_concern).run(&mut call).await?;
        Cursor::new(call, reply, rules)
    }
}
