//! A topic's partitions: records in memory, and who waits for more of them.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::record::Record;
use crate::source::memory::settings::OffsetReset;

/// A topic.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: Arc<str>,
    /// One lock for each partition, so that partitions do not wait for each other.
    pub(super) partitions: Vec<Mutex<Log>>,
}

/// A partition's records.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The offset of the first record that is kept.
    base: i64,
    records: VecDeque<Arc<Record>>,
    /// Consumers that found nothing new; at most one entry for each that has the partition.
    waiters: Vec<Arc<Notify>>,
}

impl Topic {
    pub(super) fn new(name: &str, partitions: i32) -> Self {
        Self { name: Arc::from(name), partitions: (0..partitions).map(|_| Mutex::default()).collect() }
    }

    pub(super) fn partition(&self, partition: i32) -> Option<&Mutex<Log>> {
        self.partitions.get(usize::try_from(partition).ok()?)
    }

    /// The number of partitions.
    pub(super) fn count(&self) -> i32 {
        // Created from an `i32`.
        self.partitions.len() as i32
    }
}

impl Log {
    /// The offset that the next record gets.
    pub(super) fn end(&self) -> i64 {
        self.base + self.records.len() as i64
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Stores a record under the next offset and wakes who waits for it. Gives the offset.
    pub(super) fn append(&mut self, mut record: Record) -> i64 {
        let offset = self.end();
        record.offset = offset;
        self.records.push_back(Arc::new(record));
        for waiter in self.waiters.drain(..) {
            waiter.notify_one();
        }
        offset
    }

    /// Up to `limit` records from `offset` on.
    pub(super) fn read(&self, offset: i64, limit: usize) -> Vec<Arc<Record>> {
        let skip = usize::try_from(offset - self.base).unwrap_or(0).min(self.records.len());
        self.records.range(skip..).take(limit).cloned().collect()
    }

    /// Whether there is a record at this offset or behind it.
    pub(super) fn has(&self, offset: i64) -> bool {
        offset < self.end()
    }

    /// Wakes this consumer at the next record.
    pub(super) fn wait(&mut self, waiter: &Arc<Notify>) {
        if !self.waiters.iter().any(|known| Arc::ptr_eq(known, waiter)) {
            self.waiters.push(Arc::clone(waiter));
        }
    }

    /// Where to begin; `None`: nowhere by the settings.
    pub(super) fn position(&self, committed: Option<i64>, reset: OffsetReset) -> Option<i64> {
        match (committed, reset) {
            (Some(offset), _) if (self.base..=self.end()).contains(&offset) => Some(offset),
            (_, OffsetReset::Earliest) => Some(self.base),
            (_, OffsetReset::Latest) => Some(self.end()),
            (_, OffsetReset::None) => None,
        }
    }

    /// Drops the records before `offset`.
    pub(super) fn delete_before(&mut self, offset: i64) {
        let count = usize::try_from(offset - self.base).unwrap_or(0).min(self.records.len());
        self.records.drain(..count);
        self.base += count as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_stay_when_old_records_go() {
        let mut log = Log::default();
        for expected in 0..5 {
            assert_eq!(log.append(Record::default()), expected);
        }
        log.delete_before(2);
        assert_eq!((log.end(), log.len()), (5, 3));
        let offsets = |from, limit| log.read(from, limit).iter().map(|record| record.offset).collect::<Vec<_>>();
        assert_eq!(offsets(3, 10), [3, 4]);
        assert_eq!(offsets(0, 2), [2, 3]);
        assert_eq!(offsets(9, 2), [0_i64; 0]);
        assert_eq!(log.position(Some(1), OffsetReset::Latest), Some(5));
        assert_eq!(log.position(Some(2), OffsetReset::None), Some(2));
        assert_eq!(log.position(None, OffsetReset::None), None);
        assert_eq!(log.position(None, OffsetReset::Earliest), Some(2));
    }
}
