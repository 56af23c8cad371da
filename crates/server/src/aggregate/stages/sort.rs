//! `$sort`.

use std::collections::BinaryHeap;
use std::sync::Arc;

use bson::raw::RawDocumentBuf;

use super::{Documents, Parsing, Run, Stage, check_memory, deferred, listed};
use crate::error::{CommandError, Result, fail};
use crate::query::Sort;
use crate::value::View;

/// A stage that sorts; with a limit it keeps only the first documents.
#[derive(Debug, Clone)]
pub(super) struct SortStage {
    sort: Sort,
    limit: Option<u64>,
}

impl SortStage {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let View::Document(pattern) = operand else {
            return fail(15973, "the $sort key specification must be an object");
        };
        let sort = Sort::parse_view(pattern, parsing.query().collation().cloned())?;
        if sort.is_empty() {
            return fail(15976, "$sort stage must have at least one sort key");
        }
        Ok(Self { sort, limit: None })
    }

    /// A stage for a pattern that is known to be good.
    pub(super) fn by(sort: Sort) -> Self {
        Self { sort, limit: None }
    }
}

fn too_large(limit: usize) -> CommandError {
    let text = format!("Sort exceeded memory limit of {limit} bytes, but did not opt in to external sorting.");
    CommandError::new(292, text)
}

impl Stage for SortStage {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let run = run.clone();
        deferred(move || match self.limit.and_then(|limit| usize::try_from(limit).ok()) {
            Some(limit) => first(&self.sort, input, limit, &run),
            None => all(&self.sort, input, &run),
        })
    }

    fn limited_to(&self, limit: u64) -> Option<Arc<dyn Stage>> {
        Some(Arc::new(Self { sort: self.sort.clone(), limit: Some(limit.min(self.limit.unwrap_or(limit))) }))
    }
}

fn all(sort: &Sort, input: Documents, run: &Run) -> Result<Documents> {
    let mut bytes = 0;
    let mut keyed = Vec::new();
    for document in input {
        let document = document?;
        let key = sort.key(&document)?;
        bytes += key.len() + document.as_bytes().len();
        check_memory(run, bytes, too_large)?;
        keyed.push((key, document));
    }
    keyed.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(listed(keyed.into_iter().map(|(_, document)| document).collect()))
}

/// A document in the heap: ordered by its key, then by when it came.
struct Ranked {
    key: (Vec<u8>, usize),
    document: RawDocumentBuf,
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

fn first(sort: &Sort, input: Documents, limit: usize, run: &Run) -> Result<Documents> {
    let mut heap: BinaryHeap<Ranked> = BinaryHeap::new();
    let mut bytes = 0;
    for (at, document) in input.enumerate() {
        let document = document?;
        let key = (sort.key(&document)?, at);
        if heap.len() >= limit {
            match heap.peek() {
                Some(largest) if key < largest.key => {}
                _ => continue,
            }
            if let Some(dropped) = heap.pop() {
                bytes -= dropped.key.0.len() + dropped.document.as_bytes().len();
            }
        }
        bytes += key.0.len() + document.as_bytes().len();
        check_memory(run, bytes, too_large)?;
        heap.push(Ranked { key, document });
    }
    Ok(listed(heap.into_sorted_vec().into_iter().map(|ranked| ranked.document).collect()))
}
