//! Batches of documents: how `find`, `aggregate`, `getMore` and the listings answer.

use bson::raw::{RawArrayBuf, RawBsonRef, cstr};
use bson::{RawDocument, Timestamp};
use bytes::Bytes;

use super::{Reply, Run};
use crate::cursors::{Cursor, DocumentSource, Step, Tails};
use crate::error::{CommandError, Result};
use crate::net::request::raw;
use crate::pipeline::Failed;
use crate::storage::Value;
use crate::value::view::document_with_room;

/// How many documents the first batch has when the client does not say.
pub const FIRST_BATCH_DEFAULT: usize = 101;
/// How large a batch may grow, in bytes.
const BATCH_MAX_BYTES: usize = 16 * 1024 * 1024;
/// How many documents are read between two interrupt checks.
const CHECK_EVERY: usize = 128;

/// Where the fields of the cursor stand; commands differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `{firstBatch, id, ns}`.
    BatchFirst,
    /// `{id, ns, firstBatch}`.
    BatchLast,
    /// `{nextBatch, id, ns}`.
    Next,
}

/// Documents that were read, and whether there may be more.
#[derive(Debug)]
pub struct Batch {
    /// The documents.
    pub documents: RawArrayBuf,
    /// How many.
    pub count: usize,
    /// Whether the source came to its end.
    pub at_end: bool,
}

/// Documents that are read one after another.
#[derive(Debug)]
struct Filling {
    batch: Batch,
    limit: usize,
    size_bytes: usize,
}

impl Filling {
    fn new(limit: usize) -> Self {
        let batch = Batch { documents: RawArrayBuf::new(), count: 0, at_end: false };
        Self { batch, limit, size_bytes: 0 }
    }

    /// Takes the result of one step in. False when the batch is complete; a document that does not fit goes into
    /// `pushed_back`.
    fn take(&mut self, step: Step<Value>, pushed_back: &mut Option<Value>) -> bool {
        match step {
            Step::Nothing => {}
            Step::End => {
                self.batch.at_end = true;
                return false;
            }
            Step::Found(value) => {
                self.size_bytes += value.len();
                if self.size_bytes > BATCH_MAX_BYTES && self.batch.count > 0 {
                    *pushed_back = Some(value);
                    return false;
                }
                self.batch.documents.push(RawBsonRef::Document(raw(&value)));
                self.batch.count += 1;
            }
        }
        self.batch.count < self.limit
    }
}

/// Reads up to `limit` documents, as many as fit into one reply.
///
/// # Errors
/// Those of the source, and of an interrupt.
pub async fn read(
    run: &Run<'_>,
    source: &mut Box<dyn DocumentSource>,
    pushed_back: &mut Option<Value>,
    limit: usize,
) -> Result<Batch> {
    source.begin(run.op);
    let mut filling = Filling::new(limit);
    if limit == 0 {
        return Ok(filling.batch);
    }
    if let Some(value) = pushed_back.take()
        && !filling.take(Step::Found(value), pushed_back)
    {
        return Ok(filling.batch);
    }
    if source.is_long() {
        return read_on_a_thread(source, pushed_back, filling).await;
    }
    let mut steps = 0;
    while filling.take(source.step()?, pushed_back) {
        steps += 1;
        if steps % CHECK_EVERY == 0 {
            run.op.check_interrupt()?;
            run.op.view().yields += 1;
            tokio::task::yield_now().await;
        }
    }
    Ok(filling.batch)
}

/// Reads where it does not keep other operations waiting. The source looks for interrupts by itself.
async fn read_on_a_thread(
    source: &mut Box<dyn DocumentSource>,
    pushed_back: &mut Option<Value>,
    mut filling: Filling,
) -> Result<Batch> {
    let mut moved = std::mem::replace(source, crate::cursors::from_list(Vec::new()));
    let reading = tokio::task::spawn_blocking(move || {
        let mut left_over = None;
        let result = loop {
            match moved.step().map(|step| filling.take(step, &mut left_over)) {
                Ok(true) => {}
                Ok(false) => break Ok(filling.batch),
                Err(error) => break Err(error),
            }
        };
        (moved, left_over, result)
    });
    let (moved, left_over, result) =
        reading.await.map_err(|error| CommandError::new(8, format!("the pipeline ended unexpectedly: {error}")))?;
    *source = moved;
    *pushed_back = left_over;
    result
}

/// Answers with the first batch of `source`, and keeps a cursor for the rest.
///
/// # Errors
/// As [`read`].
pub async fn first(
    run: &Run<'_>,
    ns: String,
    mut source: Box<dyn DocumentSource>,
    batch_size: Option<usize>,
    single_batch: bool,
    shape: Shape,
    no_timeout: bool,
) -> Result<Reply, Failed> {
    let mut pushed_back = None;
    let limit = batch_size.unwrap_or(FIRST_BATCH_DEFAULT);
    let batch = read(run, &mut source, &mut pushed_back, limit).await?;
    let id = if is_over(&batch, &*source, pushed_back.as_ref()) || single_batch {
        0
    } else {
        let lsid = run.op.view().lsid;
        let originating_command = Bytes::clone(&run.op.command);
        let (owner, transaction) = (run.request.session_owner, run.op.transaction_number());
        let cursor = Cursor {
            id: 0,
            ns: ns.clone(),
            lsid,
            owner,
            transaction,
            originating_command,
            source,
            pushed_back,
            no_timeout,
        };
        run.shared().cursors.add(cursor, run.shared().rng())?
    };
    Ok(reply(batch.documents, id, &ns, shape, run.op.read_time()))
}

/// Whether a cursor has nothing more to give after this batch. One that has given the last document without having looked
/// behind it does not know that yet, and stays open.
pub fn is_over(batch: &Batch, source: &dyn DocumentSource, pushed_back: Option<&Value>) -> bool {
    source.tails() == Tails::No && (batch.at_end || (pushed_back.is_none() && source.is_at_end()))
}

/// `{cursor: {…}}`. `at` is the time of the snapshot that was read, if the command asked for one.
pub fn reply(documents: RawArrayBuf, id: i64, ns: &str, shape: Shape, at: Option<Timestamp>) -> Reply {
    // With the names, numbers and lengths, and the fields that every reply has.
    let size_bytes = documents.as_bytes().len() + ns.len();
    let mut cursor = document_with_room(size_bytes + 64);
    match shape {
        Shape::BatchFirst => cursor.append(cstr!("firstBatch"), &*documents),
        Shape::Next => cursor.append(cstr!("nextBatch"), &*documents),
        Shape::BatchLast => {}
    }
    if let Some(time) = at {
        cursor.append(cstr!("atClusterTime"), time);
    }
    cursor.append(cstr!("id"), id);
    cursor.append(cstr!("ns"), ns);
    if shape == Shape::BatchLast {
        cursor.append(cstr!("firstBatch"), documents);
    }
    let mut fields = document_with_room(size_bytes + 320);
    fields.append(cstr!("cursor"), cursor);
    Reply::new(fields)
}

/// A document's bytes as a source hands them out.
pub fn value(document: &RawDocument) -> Value {
    document.as_bytes().into()
}
