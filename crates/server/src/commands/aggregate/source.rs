//! A running pipeline as the source of a cursor.

use std::sync::Arc;

use super::environment::Reader;
use crate::aggregate::Documents;
use crate::commands::batch;
use crate::cursors::{DocumentSource, Step};
use crate::error::Result;
use crate::ops::Op;
use crate::storage::Value;

/// A pipeline over a collection of more documents than this runs on a thread of its own: a stage such as `$group` takes
/// in everything before it gives out anything, and meanwhile nothing else would run on this one.
const MANY_DOCUMENTS: usize = 1000;

/// The documents that come out of a pipeline.
pub(super) struct AggregateSource {
    documents: Documents,
    reader: Reader,
    many: bool,
    over: bool,
}

impl AggregateSource {
    /// A pipeline's output; `size` is the number of documents in the collection it reads.
    pub(super) fn new(documents: Documents, reader: Reader, size: usize) -> Self {
        Self { documents, reader, many: size > MANY_DOCUMENTS, over: false }
    }
}

impl DocumentSource for AggregateSource {
    fn step(&mut self) -> Result<Step<Value>> {
        if self.over {
            return Ok(Step::End);
        }
        match self.documents.next() {
            Some(document) => Ok(Step::Found(batch::value(&document?))),
            None => {
                self.over = true;
                Ok(Step::End)
            }
        }
    }

    fn begin(&mut self, op: &Arc<Op>) {
        self.reader.set_op(op);
    }

    fn is_long(&self) -> bool {
        self.many
    }
}
