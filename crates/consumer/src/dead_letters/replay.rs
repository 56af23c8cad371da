//! Dead letters back to where they came from, once the cause is gone.

use std::collections::HashSet;

use crate::dead_letters::letter::hops;
use crate::dead_letters::{PublishError, Publisher};
use crate::headers;
use crate::logical_write::LogicalWriteId;
use crate::record::{Position, ProducerRecord, Record};

/// What a replay did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    /// The record is back in its topic.
    Sent {
        /// Where.
        position: Position,
        /// Its idempotency key, which is in a header too.
        id: LogicalWriteId,
    },
    /// It was sent before by this [`Replay`]; nothing was done.
    AlreadySent {
        /// Its idempotency key.
        id: LogicalWriteId,
    },
}

/// A dead letter that could not be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It has no headers that say where it came from.
    #[error(
        "the record has no usable headers {}, {} and {}",
        headers::ORIGINAL_TOPIC,
        headers::ORIGINAL_PARTITION,
        headers::ORIGINAL_OFFSET
    )]
    NotADeadLetter,
    /// It could not be written.
    #[error("the record was not replayed: {0}")]
    Publish(#[from] PublishError),
    /// So many were replayed that a further one could not be told from those before.
    #[error("{limit} records were replayed, which is the limit")]
    Limit {
        /// The limit.
        limit: usize,
    },
}

/// Replays dead letters, each once.
///
/// The key of a record is where it stood when it failed first: `orders-3-258`. It is remembered here, and it goes with
/// the record in the header `backfire_idempotency-key`; [`LogicalWriteId::of`] reads it, so that a write whose `_id` it
/// is has the same effect however often it is replayed, also by another program.
#[derive(Debug)]
pub struct Replay<P> {
    publisher: P,
    sent: HashSet<LogicalWriteId>,
    limit: usize,
}

impl<P: Publisher> Replay<P> {
    /// Nothing is replayed yet; at most `limit` records will be.
    pub fn new(publisher: P, limit: usize) -> Self {
        Self { publisher, sent: HashSet::new(), limit }
    }

    /// Marks a key as sent, for example one that an earlier run of the program wrote down.
    ///
    /// # Errors
    /// The limit is reached.
    pub fn remember(&mut self, id: LogicalWriteId) -> Result<(), ReplayError> {
        if self.sent.len() >= self.limit && !self.sent.contains(&id) {
            return Err(ReplayError::Limit { limit: self.limit });
        }
        self.sent.insert(id);
        Ok(())
    }

    /// Sends a dead letter back to the topic and partition where it failed first, without the headers about its
    /// failure. The second time it does nothing.
    ///
    /// # Errors
    /// No dead letter, not written, or too many.
    pub async fn replay(&mut self, letter: &Record) -> Result<Replayed, ReplayError> {
        let id = LogicalWriteId::of_dead_letter(letter).ok_or(ReplayError::NotADeadLetter)?;
        if self.sent.contains(&id) {
            return Ok(Replayed::AlreadySent { id });
        }
        if self.sent.len() >= self.limit {
            return Err(ReplayError::Limit { limit: self.limit });
        }
        // The idempotency key is of the logical write; the place to go back to is where it failed first.
        let origin = LogicalWriteId::origin_of(letter).ok_or(ReplayError::NotADeadLetter)?;
        let mut kept: Vec<(String, Vec<u8>)> =
            letter.headers.iter().filter(|(name, _)| !headers::is_of_dead_letter(name)).cloned().collect();
        kept.push((headers::IDEMPOTENCY_KEY.to_owned(), id.to_string().into_bytes()));
        kept.push((headers::HOPS.to_owned(), hops(letter).to_string().into_bytes()));
        let partitions = self.publisher.partitions(&origin.topic).await;
        let record = ProducerRecord {
            partition: Some(origin.partition).filter(|number| partitions.is_none_or(|count| *number < count)),
            topic: origin.topic.into(),
            timestamp_ms: None,
            key: letter.key.clone(),
            value: letter.value.clone(),
            headers: kept,
        };
        let position = self.publisher.publish(record).await?;
        self.sent.insert(id.clone());
        Ok(Replayed::Sent { position, id })
    }
}

#[cfg(test)]
mod tests {
    use backfire_model::back_off::no_random;

    use super::*;
    use crate::dead_letters::{Destination, dead_letter};
    use crate::failure::{ErrorClass, Failure};
    use crate::record::TopicPartition;
    use crate::source::memory::{Broker, BrokerSettings};

    fn letter(offset: i64) -> Record {
        let headers = vec![("own".to_owned(), b"1".to_vec())];
        let record = Record { topic: "orders".into(), partition: 1, offset, headers, ..Record::default() };
        let failure = Failure::new(ErrorClass::new("a.B"), "failed");
        // A dead letter of the dead-letter topic: it failed there too.
        let once = dead_letter(&record, &failure, &Destination::default());
        dead_letter(&once, &failure, &Destination::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_replay_does_nothing() {
        // Report R80.
        let broker = Broker::new(BrokerSettings::default(), no_random);
        broker.create_topic("orders", 2).unwrap();
        let mut replay = Replay::new(broker.clone(), 2);
        let Replayed::Sent { position, id } = replay.replay(&letter(258)).await.unwrap() else { panic!("not sent") };
        assert_eq!((position.to_string().as_str(), id.to_string().as_str()), ("orders-1@0", "orders-1-258"));
        assert_eq!(replay.replay(&letter(258)).await, Ok(Replayed::AlreadySent { id: id.clone() }));
        let sent = broker.read(&TopicPartition::new("orders", 1), 0, 10).unwrap();
        assert_eq!(sent.len(), 1);
        let names: Vec<&str> = sent[0].headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["own", headers::IDEMPOTENCY_KEY, headers::HOPS]);
        assert_eq!(LogicalWriteId::of(&sent[0]), id);

        // It fails again: its key stays, and its way is known.
        let failure = Failure::new(ErrorClass::new("a.B"), "failed again");
        let again = dead_letter(&sent[0], &failure, &Destination::default());
        assert_eq!((LogicalWriteId::of(&again), hops(&again)), (id, 3));
        assert!(matches!(replay.replay(&again).await, Ok(Replayed::AlreadySent { .. })));

        assert!(replay.replay(&letter(259)).await.is_ok());
        assert_eq!(replay.replay(&letter(260)).await, Err(ReplayError::Limit { limit: 2 }));
        assert_eq!(replay.replay(&Record::default()).await, Err(ReplayError::NotADeadLetter));
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_that_was_not_sent_can_be_replayed_again() {
        let broker = Broker::new(BrokerSettings::default(), no_random);
        let mut replay = Replay::new(broker.clone(), 10);
        assert!(matches!(replay.replay(&letter(1)).await, Err(ReplayError::Publish(_))));
        broker.create_topic("orders", 1).unwrap();
        // The partition is gone there: any other will do.
        assert!(matches!(replay.replay(&letter(1)).await, Ok(Replayed::Sent { .. })));
        replay.remember(LogicalWriteId::new("orders", 1, 7)).unwrap();
        assert!(matches!(replay.replay(&letter(7)).await, Ok(Replayed::AlreadySent { .. })));
    }
}
