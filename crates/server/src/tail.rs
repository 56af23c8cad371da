//! Reading a capped collection on and on, in the order in which its documents came.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use crate::cursors::Step;
use crate::error::{CommandError, Result};
use crate::net::request::raw;
use crate::ops::Op;
use crate::query::Matcher;
use crate::storage::collection::Collection;
use crate::storage::record::RecordId;
use crate::storage::{Direction, Key, Snapshot, Value};

/// How many documents are read from storage at a time.
const READ_AHEAD: usize = 64;

/// The documents of a capped collection that match, one step at a time. At its end it can be asked again.
#[derive(Debug)]
pub struct Tail {
    collection: Arc<Collection>,
    matcher: Arc<Matcher>,
    snapshot: Box<dyn Snapshot>,
    /// The last record that was looked at.
    position: Option<Key>,
    ahead: VecDeque<(Key, Value)>,
}

impl Tail {
    /// From the first document on.
    ///
    /// # Errors
    /// 2 when the collection is not capped.
    pub fn new(op: &Op, collection: Arc<Collection>, matcher: Arc<Matcher>) -> Result<Self> {
        if collection.capped.is_none() {
            let text = "tailable cursor requested on non capped collection";
            return Err(CommandError::bad_value(format!("error processing query: ns={} {text}", collection.ns)));
        }
        op.view().plan_summary = Some("COLLSCAN");
        let snapshot = op.snapshot();
        Ok(Self { collection, matcher, snapshot, position: None, ahead: VecDeque::new() })
    }

    /// Whether there is anything to begin with. A cursor on nothing ends at once.
    pub fn has_documents(&self) -> bool {
        self.snapshot.len(self.collection.records) > 0
    }

    /// From now on, it sees what has come meanwhile.
    pub fn refresh(&mut self, op: &Op) {
        self.snapshot = op.shared.engine.snapshot();
        self.ahead.clear();
    }

    /// Does a bounded amount of work.
    ///
    /// # Errors
    /// 136 when the last document that was looked at has made room for others: then documents may have been missed.
    pub fn step(&mut self) -> Result<Step<(RecordId, Value)>> {
        if self.ahead.is_empty() && !self.read_ahead()? {
            return Ok(Step::End);
        }
        let Some((key, value)) = self.ahead.pop_front() else { return Ok(Step::End) };
        let record = RecordId::from_bytes(&key);
        self.position = Some(key);
        match record {
            Some(record) if self.matcher.matches(raw(&value))? => Ok(Step::Found((record, value))),
            _ => Ok(Step::Nothing),
        }
    }

    fn read_ahead(&mut self) -> Result<bool> {
        let records = self.collection.records;
        if let Some(position) = self.position.as_ref().filter(|position| self.snapshot.get(records, position).is_none())
        {
            let record = RecordId::from_bytes(position).map_or(0, |record| record.0);
            let text = "CollectionScan died due to position in capped collection being deleted.";
            return Err(CommandError::new(136, format!("{text} Last seen record id: RecordId({record})")));
        }
        let lower = self.position.as_ref().map_or(Bound::Unbounded, |position| Bound::Excluded(position.as_slice()));
        let mut batch = Vec::new();
        self.snapshot.scan(records, lower, Bound::Unbounded, Direction::Forward, READ_AHEAD, &mut batch);
        self.ahead.extend(batch);
        Ok(!self.ahead.is_empty())
    }
}
