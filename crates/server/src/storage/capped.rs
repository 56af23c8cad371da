//! Capped collections: the oldest documents make room for new ones.

use std::sync::Arc;

use bson::Document;

use super::{Key, TableId, Value, WriteConflict, Writer};
use crate::value::View;

/// What limits a capped collection, and the table that holds its present size.
///
/// The size is written by each insert, in the same transaction: two inserts conflict, and one after the other they get
/// record ids in the order of their commits, which is the order that tailable cursors follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capped {
    /// How many bytes its documents may have together.
    pub max_bytes: u64,
    /// How many documents it may have.
    pub max_documents: Option<u64>,
    /// The table with the one key `size`.
    pub table: TableId,
}

/// The smallest size of a capped collection.
const MIN_BYTES: u64 = 4096;
/// The sizes are multiples of this.
const STEP_BYTES: u64 = 256;
/// The key of the present size: bytes and documents, eight bytes each.
const SIZE: &[u8] = b"size";

/// What a capped collection holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Bytes of its documents.
    pub bytes: u64,
    /// Documents.
    pub documents: u64,
}

impl Capped {
    /// The limits in a collection's options; `None` when it is not capped.
    pub fn from_options(options: &Document, table: TableId) -> Option<Self> {
        let number = |name: &str| {
            let number = options.get(name).and_then(|value| View::from(value).number())?.to_i64_saturating();
            u64::try_from(number).ok().filter(|number| *number > 0)
        };
        if !options.get("capped").is_some_and(|capped| View::from(capped).is_true()) {
            return None;
        }
        let max_bytes = number("size")?.next_multiple_of(STEP_BYTES).max(MIN_BYTES);
        Some(Self { max_bytes, max_documents: number("max"), table })
    }

    /// What it holds, as a transaction sees it.
    pub fn size(&self, transaction: &dyn Writer) -> Size {
        let Some(value) = transaction.get(self.table, SIZE) else { return Size::default() };
        let number = |at: usize| value.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        Size { bytes: number(0).unwrap_or(0), documents: number(8).unwrap_or(0) }
    }

    /// Sets what it holds.
    ///
    /// # Errors
    /// When another insert is under way.
    pub fn set_size(&self, transaction: &mut dyn Writer, size: Size) -> Result<(), WriteConflict> {
        let bytes: Vec<u8> = [size.bytes.to_be_bytes(), size.documents.to_be_bytes()].concat();
        transaction.write(self.table, Key::from_slice(SIZE), Some(Value::from(bytes)))
    }

    /// Whether it holds too much.
    pub fn is_exceeded_by(&self, size: Size) -> bool {
        size.bytes > self.max_bytes || self.max_documents.is_some_and(|most| size.documents > most)
    }
}

/// Wakes those who wait for documents at the end of a capped collection.
#[derive(Debug, Default)]
pub struct Arrivals {
    waiting: std::sync::atomic::AtomicUsize,
    arrived: Arc<tokio::sync::Notify>,
}

impl Arrivals {
    /// Something was committed.
    pub fn announce(&self) {
        if self.waiting.load(std::sync::atomic::Ordering::Acquire) > 0 {
            self.arrived.notify_waiters();
        }
    }

    /// Resolves at the first commit after this call, in whatever collection.
    pub fn next(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let arrivals = Arc::clone(self);
        arrivals.waiting.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        // Made before the caller looks whether there is something already, so that nothing gets lost in between.
        let arrived = Arc::clone(&arrivals.arrived).notified_owned();
        let waiter = Waiter(arrivals);
        async move {
            arrived.await;
            drop(waiter);
        }
    }
}

struct Waiter(Arc<Arrivals>);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, std::sync::atomic::Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn limits_are_read_from_the_options() {
        for (options, expected) in [
            (doc! {}, None),
            (doc! {"capped": false, "size": 5000}, None),
            (doc! {"capped": true, "size": 1}, Some((4096, None))),
            (doc! {"capped": true, "size": 5000, "max": 3}, Some((5120, Some(3)))),
            (doc! {"capped": true, "size": 8192.0, "max": 0}, Some((8192, None))),
        ] {
            let capped = Capped::from_options(&options, TableId(9));
            assert_eq!(capped.map(|capped| (capped.max_bytes, capped.max_documents)), expected, "{options}");
        }
    }
}
