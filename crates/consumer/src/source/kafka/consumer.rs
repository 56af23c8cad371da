//! A consumer of a Kafka broker's topics.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::Stream;
use rdkafka::consumer::{CommitMode, Consumer, RebalanceProtocol, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::util::Timeout;
use tokio::time::{Instant, timeout, timeout_at};

use crate::record::TopicPartition;
use crate::source::kafka::context::{Context, Rebalanced};
use crate::source::kafka::convert::{list, offsets, partitions, record};
use crate::source::kafka::errors::{Meaning, of_call, of_commit, of_poll};
use crate::source::kafka::settings::{ANSWER_TIMEOUT, KafkaSettings};
use crate::source::{CommitError, Committing, PartitionRecords, Polled, Source, SourceError};

/// How long a broker that could not be reached is asked whether it is there again.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// A member of a group that reads a Kafka broker's topics.
///
/// Dropped or closed, it leaves its group. A process that is killed is to its group a consumer that crashed.
pub struct KafkaConsumer {
    // `None` only while it is dropped.
    client: Option<Arc<StreamConsumer<Context>>>,
    topics: Vec<String>,
    names: Vec<Arc<str>>,
    max_poll_interval: Duration,
    assigned: Vec<Assigned>,
    /// Wanted back by the group; given up by the next poll.
    revoking: Option<TopicPartitionList>,
    /// A broker cannot be reached; perhaps none can.
    suspicion: Option<String>,
    /// Why no broker can be reached.
    down: Option<String>,
}

struct Assigned {
    partition: TopicPartition,
    /// The offset behind the last record that was given out; `None`: none was.
    next: Option<i64>,
}

/// What came of waiting.
enum Next<'c> {
    Rebalance,
    Message(Result<BorrowedMessage<'c>, KafkaError>),
}

impl KafkaConsumer {
    /// A consumer. It connects, and joins its group, when it is polled.
    ///
    /// # Errors
    /// Settings that librdkafka does not take, or no topic.
    pub fn new(settings: &KafkaSettings) -> Result<Self, SourceError> {
        if settings.topics.is_empty() {
            return Err(SourceError::UnknownTopic { topic: String::new() });
        }
        let created = settings.consumer().create_with_context(Context::default());
        let client: StreamConsumer<Context> = created.map_err(|error| of_call(&error))?;
        let topics: Vec<&str> = settings.topics.iter().map(String::as_str).collect();
        client.subscribe(&topics).map_err(|error| of_call(&error))?;
        let interval = settings.properties.get("max.poll.interval.ms").and_then(|text| text.parse().ok());
        Ok(Self {
            client: Some(Arc::new(client)),
            names: settings.topics.iter().map(|name| Arc::from(name.as_str())).collect(),
            topics: settings.topics.clone(),
            max_poll_interval: interval.map_or(settings.max_poll_interval, Duration::from_millis),
            assigned: Vec::new(),
            revoking: None,
            suspicion: None,
            down: None,
        })
    }

    fn client(&self) -> Result<&Arc<StreamConsumer<Context>>, SourceError> {
        self.client.as_ref().ok_or_else(|| SourceError::Broker { message: "closed".to_owned(), transient: false })
    }

    /// Answers the oldest rebalance.
    fn rebalance(&mut self) -> Result<Option<Polled>, SourceError> {
        let client = self.client()?;
        let Some(rebalanced) = client.context().next_rebalance() else { return Ok(None) };
        let is_cooperative = matches!(client.rebalance_protocol(), RebalanceProtocol::Cooperative);
        match rebalanced {
            Rebalanced::Assign(list) => {
                let assigned = if is_cooperative { client.incremental_assign(&list) } else { client.assign(&list) };
                assigned.map_err(|error| of_call(&error))?;
                let partitions = partitions(&list, &self.names);
                self.is_up();
                let entry = |partition: &TopicPartition| Assigned { partition: partition.clone(), next: None };
                self.assigned.extend(partitions.iter().map(entry));
                Ok(Some(Polled::Assigned(partitions)))
            }
            Rebalanced::Revoke { partitions: list, lost } => {
                let revoked = partitions(&list, &self.names);
                self.assigned.retain(|assigned| !revoked.contains(&assigned.partition));
                self.revoking = Some(list);
                if !lost {
                    return Ok(Some(Polled::Revoking(revoked)));
                }
                self.give_up()?;
                Ok(Some(Polled::Lost(revoked)))
            }
        }
    }

    /// Gives up what the group wanted back.
    fn give_up(&mut self) -> Result<(), SourceError> {
        let Some(list) = self.revoking.take() else { return Ok(()) };
        let client = self.client()?;
        // librdkafka keeps a pause over the next assignment; a partition that is assigned anew is not paused.
        client.resume(&list).map_err(|error| of_call(&error))?;
        let result = match client.rebalance_protocol() {
            RebalanceProtocol::Cooperative => client.incremental_unassign(&list),
            _ => client.unassign(),
        };
        result.map_err(|error| of_call(&error))
    }

    /// The records that are there, beginning with this message, up to `max_records`.
    fn drain(
        client: &StreamConsumer<Context>,
        assigned: &mut [Assigned],
        first: &BorrowedMessage<'_>,
        max_records: usize,
    ) -> Polled {
        let mut batches: Vec<PartitionRecords> = Vec::new();
        let mut left = max_records;
        push(&mut batches, assigned, first);
        left = left.saturating_sub(1);
        let mut stream = client.stream();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while left > 0 && !client.context().has_rebalance() {
            // An error is told again by the next poll, or was one of a moment.
            let Poll::Ready(Some(Ok(message))) = Pin::new(&mut stream).poll_next(&mut context) else { break };
            push(&mut batches, assigned, &message);
            left -= 1;
        }
        batches.retain(|batch| !batch.records.is_empty());
        match batches.is_empty() {
            true => Polled::Nothing,
            false => Polled::Records(batches),
        }
    }

    fn is_up(&mut self) {
        (self.suspicion, self.down) = (None, None);
    }

    /// Whether some broker can be reached.
    async fn probe(&self) -> bool {
        let Some(client) = self.client.clone() else { return false };
        let topic = self.topics.first().cloned();
        let ask = move || client.fetch_metadata(topic.as_deref(), PROBE_TIMEOUT).is_ok();
        tokio::task::spawn_blocking(ask).await.unwrap_or(false)
    }

    /// A commit, on a thread of its own from now on.
    fn committing(
        &self,
        committed: &[(TopicPartition, i64)],
    ) -> Result<impl Future<Output = Result<(), CommitError>> + Send + use<>, CommitError> {
        let list = offsets(committed).map_err(|error| of_commit(&error))?;
        let Some(client) = self.client.clone() else { return Err(CommitError::CommitFailed) };
        let commit = tokio::task::spawn_blocking(move || client.commit(&list, CommitMode::Sync));
        let other = |message: String| Err(CommitError::Other { message });
        Ok(async move {
            match timeout(ANSWER_TIMEOUT, commit).await {
                Ok(Ok(Ok(()))) => Ok(()),
                Ok(Ok(Err(error))) => Err(of_commit(&error)),
                Ok(Err(error)) => other(error.to_string()),
                Err(_) => other(format!("no answer within {} ms", ANSWER_TIMEOUT.as_millis())),
            }
        })
    }

    fn find(&mut self, partition: &TopicPartition) -> Result<&mut Assigned, SourceError> {
        let found = self.assigned.iter_mut().find(|assigned| assigned.partition == *partition);
        found.ok_or_else(|| SourceError::NotAssigned(partition.clone()))
    }

    fn set_paused(&mut self, partitions: &[TopicPartition], paused: bool) -> Result<(), SourceError> {
        for partition in partitions {
            self.find(partition)?;
        }
        let list = list(partitions);
        let client = self.client()?;
        let result = if paused { client.pause(&list) } else { client.resume(&list) };
        result.map_err(|error| of_call(&error))
    }

    /// Ends the client; it leaves its group. It may wait for the broker.
    fn shut_down(client: Option<Arc<StreamConsumer<Context>>>) {
        let Some(client) = client else { return };
        client.context().close();
        // A rebalance may wait for an answer that nobody gives any more.
        if let Err(error) = client.unassign() {
            tracing::debug!("not given up: {error}");
        }
        drop(client);
    }
}

/// Adds a message to the batch of its partition, unless that is not this consumer's any more.
fn push(batches: &mut Vec<PartitionRecords>, assigned: &mut [Assigned], message: &BorrowedMessage<'_>) {
    let is_of =
        |partition: &TopicPartition| partition.partition == message.partition() && *partition.topic == *message.topic();
    let Some(owned) = assigned.iter_mut().find(|assigned| is_of(&assigned.partition)) else { return };
    owned.next = Some(message.offset() + 1);
    let record = Arc::new(record(message, Arc::clone(&owned.partition.topic)));
    match batches.iter_mut().rev().find(|batch| is_of(&batch.partition)) {
        Some(batch) => batch.records.push(record),
        None => batches.push(PartitionRecords { partition: owned.partition.clone(), records: vec![record] }),
    }
}

/// Waits for a message or a rebalance. Each look counts as a poll of the consumer; librdkafka wakes it in time.
async fn next(client: &StreamConsumer<Context>) -> Next<'_> {
    let mut stream = client.stream();
    poll_fn(|context| {
        if client.context().has_rebalance() {
            return Poll::Ready(Next::Rebalance);
        }
        match Pin::new(&mut stream).poll_next(context) {
            Poll::Ready(Some(message)) => Poll::Ready(Next::Message(message)),
            // The stream of a consumer has no end.
            Poll::Ready(None) => Poll::Pending,
            Poll::Pending if client.context().has_rebalance() => Poll::Ready(Next::Rebalance),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

impl Source for KafkaConsumer {
    async fn poll(&mut self, wait: Duration, max_records: usize) -> Result<Polled, SourceError> {
        self.give_up()?;
        let until = Instant::now() + wait;
        loop {
            if let Some(polled) = self.rebalance()? {
                return Ok(polled);
            }
            let client = Arc::clone(self.client()?);
            match timeout_at(until, next(&client)).await {
                Ok(Next::Rebalance) => {}
                Ok(Next::Message(Ok(message))) => {
                    self.is_up();
                    return Ok(Self::drain(&client, &mut self.assigned, &message, max_records));
                }
                Ok(Next::Message(Err(error))) => match of_poll(&error, &self.topics) {
                    Meaning::Nothing => tracing::debug!("{error}"),
                    Meaning::Unreachable(message) => self.suspicion = Some(message),
                    Meaning::Fails(error) => return Err(error),
                },
                Err(_) => {
                    if !wait.is_zero() && self.suspicion.is_some() {
                        match self.probe().await {
                            true => self.is_up(),
                            false => self.down.clone_from(&self.suspicion),
                        }
                    }
                    return match &self.down {
                        None => Ok(Polled::Nothing),
                        Some(message) => Err(SourceError::Broker { message: message.clone(), transient: true }),
                    };
                }
            }
        }
    }

    async fn commit(&mut self, committed: &[(TopicPartition, i64)]) -> Result<(), CommitError> {
        self.committing(committed)?.await
    }

    fn begin_commit(&mut self, committed: &[(TopicPartition, i64)]) -> Option<Committing> {
        Some(match self.committing(committed) {
            Ok(committing) => Box::pin(committing),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        })
    }

    async fn seek(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), SourceError> {
        self.find(partition)?;
        let client = Arc::clone(self.client()?);
        let place = partition.clone();
        let seek = tokio::task::spawn_blocking(move || {
            client.seek(&place.topic, place.partition, Offset::Offset(offset), Timeout::After(ANSWER_TIMEOUT))
        });
        let failed = |message| SourceError::Broker { message, transient: true };
        let sought = seek.await.map_err(|error| failed(error.to_string()))?;
        sought.map_err(|error| failed(error.to_string()))?;
        self.find(partition)?.next = Some(offset);
        Ok(())
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), SourceError> {
        self.set_paused(partitions, true)
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), SourceError> {
        self.set_paused(partitions, false)
    }

    fn assignment(&self) -> Vec<TopicPartition> {
        self.assigned.iter().map(|assigned| assigned.partition.clone()).collect()
    }

    fn lag(&self, partition: &TopicPartition) -> Option<u64> {
        let next = self.assigned.iter().find(|assigned| assigned.partition == *partition)?.next?;
        let end = self.client.as_ref()?.context().end(&partition.topic, partition.partition)?;
        Some(end.saturating_sub(next).max(0).unsigned_abs())
    }

    fn max_poll_interval(&self) -> Duration {
        self.max_poll_interval
    }

    async fn close(mut self) -> Result<(), SourceError> {
        let client = self.client.take();
        let closing = tokio::task::spawn_blocking(move || Self::shut_down(client));
        let failed = |message| SourceError::Broker { message, transient: false };
        match timeout(ANSWER_TIMEOUT, closing).await {
            Ok(closed) => closed.map_err(|error| failed(error.to_string())),
            Err(_) => Err(failed(format!("the group was not left within {} ms", ANSWER_TIMEOUT.as_millis()))),
        }
    }
}

impl Drop for KafkaConsumer {
    fn drop(&mut self) {
        Self::shut_down(self.client.take());
    }
}

impl std::fmt::Debug for KafkaConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaConsumer").field("topics", &self.topics).finish_non_exhaustive()
    }
}
