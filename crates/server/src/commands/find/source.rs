//! The documents of a find: matched, sorted, skipped, limited, projected.

use std::sync::Arc;

use bson::RawDocument;
use bson::raw::{RawDocumentBuf, cstr};

use super::super::batch;
use super::Find;
use crate::cursors::{DocumentSource, Step, Tails};
use crate::error::{CommandError, Result};
use crate::net::request::raw;
use crate::ops::Op;
use crate::plan::Scan;
use crate::query::{Match, Sort};
use crate::stages::reply::append_all;
use crate::storage::Value;
use crate::storage::collection::Index;
use crate::storage::record::RecordId;
use crate::tail::Tail;

/// How many bytes a sort may hold.
const SORT_MAX_BYTES: usize = 100 * 1024 * 1024;

/// Where the documents come from.
pub(super) enum Records {
    /// A collection or an index.
    Scan(Box<Scan>),
    /// All in order, with the index they were read from.
    Sorted(std::vec::IntoIter<(RecordId, Value)>, Option<Arc<Index>>),
    /// A capped collection that is followed.
    Tail(Box<Tail>, Tails),
}

impl Records {
    fn step(&mut self) -> Result<Step<(RecordId, Value)>> {
        match self {
            Records::Scan(scan) => scan.step(),
            Records::Sorted(sorted, _) => Ok(sorted.next().map_or(Step::End, Step::Found)),
            Records::Tail(tail, _) => tail.step(),
        }
    }

    fn is_at_end(&self) -> bool {
        match self {
            Records::Scan(scan) => scan.is_at_end(),
            Records::Sorted(sorted, _) => sorted.len() == 0,
            Records::Tail(..) => false,
        }
    }

    fn index(&self) -> Option<&Arc<Index>> {
        match self {
            Records::Scan(scan) => scan.index(),
            Records::Sorted(_, index) => index.as_ref(),
            Records::Tail(..) => None,
        }
    }

    /// Reads everything, and keeps the first `keep` in the order of `sort`.
    ///
    /// # Errors
    /// 292 when that is too much, those of an interrupt, and of the filter.
    pub(super) async fn sort(&mut self, op: &Op, sort: &Sort, keep: usize) -> Result<()> {
        let Records::Scan(scan) = self else { return Ok(()) };
        let mut found: Vec<(Vec<u8>, usize, RecordId, Value)> = Vec::new();
        let mut bytes = 0;
        while let Some((record, value)) = scan.next(op).await? {
            let key = sort.key(raw(&value))?;
            bytes += key.len() + value.len();
            let at = found.len();
            found.push((key, at, record, value));
            if keep < usize::MAX && found.len() > 2 * keep.max(64) {
                found.sort_unstable_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
                found.truncate(keep);
                bytes = found.iter().map(|(key, _, _, value)| key.len() + value.len()).sum();
            }
            if bytes > SORT_MAX_BYTES {
                let text = "but did not opt in to external sorting.";
                return Err(CommandError::new(
                    292,
                    format!("Sort exceeded memory limit of {SORT_MAX_BYTES} bytes, {text}"),
                ));
            }
        }
        found.sort_unstable_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        found.truncate(keep);
        let sorted: Vec<_> = found.into_iter().map(|(_, _, record, value)| (record, value)).collect();
        *self = Records::Sorted(sorted.into_iter(), scan.index().cloned());
        Ok(())
    }
}

/// The documents that a find's cursor gives.
pub(super) struct FindSource {
    find: Find,
    records: Records,
    skipped: u64,
    left: u64,
}

impl FindSource {
    pub(super) fn new(find: Find, records: Records) -> Self {
        let left = find.limit.unwrap_or(u64::MAX);
        Self { find, records, skipped: 0, left }
    }

    /// What the client gets of a document.
    fn shown(&self, record: RecordId, document: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        if self.find.return_key {
            return self.key_of(document).map(Some);
        }
        let projected = match &self.find.projection {
            Some(projection) if projection.needs_match() => {
                Some(projection.apply(document, self.find.matcher.find_match(document)?.unwrap_or_default())?)
            }
            Some(projection) => Some(projection.apply(document, Match::default())?),
            None => None,
        };
        if !self.find.show_record_id {
            return Ok(projected);
        }
        let mut shown = projected.unwrap_or_else(|| document.to_owned());
        shown.append(cstr!("$recordId"), record.0 as i64);
        Ok(Some(shown))
    }

    /// The key under which it stands in the index that is read: nothing when there is none.
    fn key_of(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        let mut shown = RawDocumentBuf::new();
        if let Some(index) = self.records.index()
            && let Some(key) = index.keys_of(document)?.keys.first()
        {
            append_all(&mut shown, &index.pattern.key_value(&key.values));
        }
        Ok(shown)
    }
}

impl DocumentSource for FindSource {
    fn step(&mut self) -> Result<Step<Value>> {
        if self.left == 0 {
            return Ok(Step::End);
        }
        let (record, value) = match self.records.step()? {
            Step::Found(found) => found,
            Step::Nothing => return Ok(Step::Nothing),
            Step::End => return Ok(Step::End),
        };
        if self.skipped < self.find.skip {
            self.skipped += 1;
            return Ok(Step::Nothing);
        }
        self.left -= 1;
        Ok(Step::Found(match self.shown(record, raw(&value))? {
            Some(shown) => batch::value(&shown),
            None => value,
        }))
    }

    fn begin(&mut self, op: &Arc<Op>) {
        if let Records::Tail(tail, _) = &mut self.records {
            tail.refresh(op);
        }
    }

    fn is_at_end(&self) -> bool {
        self.left == 0 || self.records.is_at_end()
    }

    fn tails(&self) -> Tails {
        match &self.records {
            Records::Tail(_, tails) if self.left > 0 => *tails,
            _ => Tails::No,
        }
    }
}
