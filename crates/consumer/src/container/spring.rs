//! The poll loop as Spring Kafka runs it: one thing after the other, on one consumer thread.
//!
//! Sources: `KafkaMessageListenerContainer.pollAndInvoke`, `SeekUtils`, `FailedRecordTracker`, `DefaultErrorHandler` of
//! the versions in [`SPRING_KAFKA_VERSIONS`](crate::SPRING_KAFKA_VERSIONS) (facts/client.md D1, D4, Y2).

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use crate::bounds::SplitMix64;
use crate::container::core::{Acknowledged, Core, poll_once};
use crate::container::{AckMode, ContainerError, Records, SpringMode, SpringWaits, spring_batch};
use crate::dead_letters::Recoverer;
use crate::failure::{ErrorClass, Failure};
use crate::observer::{ConsumerEvent, Observer};
use crate::record::{Record, TopicPartition};
use crate::retry_state::{RetryState, Turn};
use crate::source::{CommitError, PartitionRecords, Polled, Source};
use crate::work::{Work, WorkError, WorkKind};

/// What the container throws when a commit is refused.
const COMMIT_FAILED: &str = "org.apache.kafka.clients.consumer.CommitFailedException";

/// A record and where it is from.
pub(super) type Item = (TopicPartition, Arc<Record>);

/// A consumer thread.
pub(super) struct Thread<'a, S, W, D, O> {
    pub(super) core: Core<S, O>,
    pub(super) work: &'a W,
    pub(super) recoverer: &'a D,
    pub(super) mode: SpringMode,
    /// Failed records, one for each partition: they stay when the partition goes, and count on when it comes back.
    trackers: HashMap<TopicPartition, Tracker>,
    /// Records kept in memory after a failure.
    pub(super) remaining: VecDeque<Item>,
    pub(super) pause_for_pending: bool,
    /// A batch is tried again: partitions that come are paused.
    pub(super) retrying: bool,
    /// The container is paused until then.
    paused_until: Option<Instant>,
    consumer_paused: bool,
}

struct Tracker {
    offset: i64,
    state: RetryState<SplitMix64>,
}

/// Runs until it is asked to stop.
pub(super) async fn run<S: Source, W: Work, D: Recoverer, O: Observer>(
    core: Core<S, O>,
    work: &W,
    recoverer: &D,
    mode: SpringMode,
) -> Result<(), ContainerError> {
    let mut thread = Thread {
        core,
        work,
        recoverer,
        mode,
        trackers: HashMap::new(),
        remaining: VecDeque::new(),
        pause_for_pending: false,
        retrying: false,
        paused_until: None,
        consumer_paused: false,
    };
    while !thread.core.stop.is_requested() {
        thread.poll_and_invoke().await?;
    }
    // A commit that fails is told; its records are delivered again.
    let _ = thread.core.commit_acks().await;
    thread.core.source.close().await?;
    Ok(())
}

impl<S: Source, W: Work, D: Recoverer, O: Observer> Thread<'_, S, W, D, O> {
    async fn poll_and_invoke(&mut self) -> Result<(), ContainerError> {
        self.process_commits().await?;
        if self.paused_until.is_some_and(|until| Instant::now() >= until) {
            self.paused_until = None;
        }
        if (self.paused_until.is_some() && !self.consumer_paused) || self.pause_for_pending {
            let assigned = self.core.source.assignment();
            if !assigned.is_empty() {
                self.core.source.pause(&assigned)?;
                self.consumer_paused = true;
                self.pause_for_pending = false;
            }
        }
        let timeout =
            if self.consumer_paused { self.mode.poll_timeout_while_paused } else { self.core.settings.poll_timeout };
        let polled = self.poll(timeout).await?;
        let items: VecDeque<Item> = match self.remaining.is_empty() || self.paused_until.is_some() {
            true => polled
                .into_iter()
                .flat_map(|batch| batch.records.into_iter().map(move |record| (batch.partition.clone(), record)))
                .collect(),
            false => std::mem::take(&mut self.remaining),
        };
        if !items.is_empty() {
            match self.work.kind() {
                WorkKind::Record => self.invoke_records(items).await?,
                WorkKind::Batch => spring_batch::invoke(self, items.into()).await?,
            }
        }
        if self.remaining.is_empty() && self.consumer_paused && self.paused_until.is_none() {
            let assigned = self.core.source.assignment();
            self.core.source.resume(&assigned)?;
            self.consumer_paused = false;
        }
        Ok(())
    }

    /// Commits before a poll. Where that is refused and records were kept in memory, they count as failed by it.
    async fn process_commits(&mut self) -> Result<(), ContainerError> {
        let result = self.core.commit_acks().await;
        let refused = matches!(result, Err(CommitError::CommitFailed));
        if refused
            && self.work.kind() == WorkKind::Record
            && let Some((partition, record)) = self.remaining.pop_front()
        {
            let rest = std::mem::take(&mut self.remaining);
            self.seek_or_recover(&partition, &record, rest, &commit_failed()).await?;
        }
        Ok(())
    }

    /// Polls until there are records or the time is over, and follows rebalances.
    pub(super) async fn poll(&mut self, timeout: Duration) -> Result<Vec<PartitionRecords>, ContainerError> {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.core.poll(left, self.core.settings.max_poll_records).await? {
                Polled::Records(records) => return Ok(records),
                Polled::Nothing => {
                    if self.core.stop.is_requested() || Instant::now() >= until {
                        return Ok(Vec::new());
                    }
                }
                Polled::Assigned(partitions) => {
                    self.core.meters.rebalances.increment(1);
                    if self.retrying || self.paused_until.is_some() || !self.remaining.is_empty() {
                        self.core.source.pause(&partitions)?;
                        self.consumer_paused = !self.retrying;
                    }
                    self.core.emit(&ConsumerEvent::Assigned { partitions: &partitions });
                }
                Polled::Revoking(partitions) => {
                    self.remaining.retain(|(partition, _)| !partitions.contains(partition));
                    // A commit that fails is told, and logged there too.
                    let _ = self.core.commit_acks().await;
                    self.core.forget_acks(&partitions);
                    self.core.emit(&ConsumerEvent::Revoked { partitions: &partitions });
                }
                Polled::Lost(partitions) => {
                    self.remaining.retain(|(partition, _)| !partitions.contains(partition));
                    let _ = self.core.commit_acks().await;
                    self.core.forget_acks(&partitions);
                    self.core.emit(&ConsumerEvent::Lost { partitions: &partitions });
                }
            }
        }
    }

    /// Runs the work once.
    pub(super) async fn execute(&mut self, records: &Records, attempt: u64) -> (Result<(), WorkError>, Acknowledged) {
        let (delivery, acknowledged) = self.core.delivery(records, attempt);
        let (began, span) = self.core.execution_started(records, attempt);
        let result = self.watched(records, began, self.work.execute(delivery).instrument(span)).await;
        // Nobody here knows whether the partition is another's by now: the next poll tells.
        self.core.execution_ended(records, attempt, began, &result, false);
        (result, acknowledged)
    }

    /// Runs an execution, and tells when it outlives the poll interval: from then on the group may give its records away.
    async fn watched<T>(&mut self, records: &Records, began: Instant, execution: impl Future<Output = T>) -> T {
        let mut execution = pin!(execution);
        if let Poll::Ready(output) = poll_once(execution.as_mut()).await {
            return output;
        }
        let interval = self.core.source.max_poll_interval();
        tokio::select! {
            biased;
            output = &mut execution => output,
            () = sleep_until(self.core.poll_due(interval)) => {
                self.core.over_budget(records, began, interval);
                execution.await
            }
        }
    }

    async fn invoke_records(&mut self, mut items: VecDeque<Item>) -> Result<(), ContainerError> {
        while let Some((partition, record)) = items.pop_front() {
            let attempt = self.attempt(&partition, record.offset);
            let (result, acknowledged) = self.execute(std::slice::from_ref(&record), attempt).await;
            let commit_now = self.core.acknowledge(
                &acknowledged,
                match &result {
                    Ok(()) => Some((partition.clone(), record.offset + 1)),
                    Err(_) if self.is_manual() => Some((partition.clone(), record.offset + 1)),
                    Err(_) => None,
                },
            );
            let committed = if commit_now { self.core.commit_acks().await } else { Ok(()) };
            let failure = match (result, committed) {
                (Ok(()), Ok(())) => continue,
                (Err(error), _) => error.failure,
                // A commit that is refused right after its record counts as a failure of that record.
                (Ok(()), Err(_)) => commit_failed(),
            };
            self.record_failed(&partition, &record, items, failure).await?;
            return Ok(());
        }
        Ok(())
    }

    fn is_manual(&self) -> bool {
        matches!(self.core.settings.ack_mode, AckMode::Manual | AckMode::ManualImmediate)
    }

    async fn record_failed(
        &mut self,
        partition: &TopicPartition,
        record: &Arc<Record>,
        rest: VecDeque<Item>,
        failure: Failure,
    ) -> Result<(), ContainerError> {
        if !self.mode.keep_records || failure.outer().class.is_a(COMMIT_FAILED) {
            let _ = self.core.commit_acks().await;
            return self.seek_or_recover(partition, record, rest, &failure).await;
        }
        let handled = self.track(partition, record, &failure).await?;
        self.remaining = rest;
        if handled {
            self.ack_handled(partition, record).await;
        } else {
            self.remaining.push_front((partition.clone(), Arc::clone(record)));
        }
        self.pause_for_pending = !self.remaining.is_empty();
        Ok(())
    }

    /// `SeekUtils.seekOrRecover`: what is not recovered is fetched again.
    async fn seek_or_recover(
        &mut self,
        partition: &TopicPartition,
        record: &Arc<Record>,
        rest: VecDeque<Item>,
        failure: &Failure,
    ) -> Result<(), ContainerError> {
        let recovered = self.track(partition, record, failure).await?;
        let failed = (!recovered).then(|| (partition.clone(), Arc::clone(record)));
        self.seek_to_first(failed.iter().chain(&rest)).await;
        if recovered {
            self.ack_handled(partition, record).await;
        }
        Ok(())
    }

    /// The recovered record is committed with the next commit, or at once where each record is.
    async fn ack_handled(&mut self, partition: &TopicPartition, record: &Arc<Record>) {
        self.core.acks.insert(partition.clone(), record.offset + 1);
        if self.core.settings.ack_mode == AckMode::Record {
            let _ = self.core.commit_acks().await;
        }
    }

    /// Each partition goes back to its first of these records.
    pub(super) async fn seek_to_first(&mut self, items: impl Iterator<Item = &Item>) {
        let mut first: Vec<(TopicPartition, i64)> = Vec::new();
        for (partition, record) in items {
            if !first.iter().any(|(known, _)| known == partition) {
                first.push((partition.clone(), record.offset));
            }
        }
        for (partition, offset) in first {
            // A partition that was lost meanwhile has another owner, which begins at the committed offset.
            if let Err(error) = self.core.source.seek(&partition, offset).await {
                tracing::debug!("not sought: {error}");
            }
        }
    }

    /// The delivery attempt of a record (`FailedRecordTracker.deliveryAttempt`).
    pub(super) fn attempt(&self, partition: &TopicPartition, offset: i64) -> u64 {
        let tracker = self.trackers.get(partition).filter(|tracker| tracker.offset == offset);
        tracker.map_or(1, |tracker| tracker.state.attempt())
    }

    /// `FailedRecordTracker.recovered`: waits, or gives the record up. Gives whether it is given up.
    pub(super) async fn track(
        &mut self,
        partition: &TopicPartition,
        record: &Arc<Record>,
        failure: &Failure,
    ) -> Result<bool, ContainerError> {
        let known = self.trackers.remove(partition).filter(|tracker| tracker.offset == record.offset);
        let mut state = match known {
            Some(tracker) => tracker.state,
            None => self.core.retry_state(None, Instant::now())?,
        };
        let now = self.core.now();
        let recovered = loop {
            match state.turn() {
                Some(Turn::Execute(turn)) => {
                    let after = turn.failed(failure, now);
                    self.core.decided(record, after);
                }
                Some(Turn::Wait(turn)) => {
                    let until = turn.until();
                    turn.time(until);
                    self.wait(until).await;
                    break false;
                }
                Some(Turn::Recover(turn)) => {
                    let spent = turn.spent();
                    match self.recoverer.recover(record, failure, spent).await {
                        Ok(place) => {
                            turn.recovered();
                            self.core.recovered(record, &place, failure);
                            break true;
                        }
                        Err(error) => {
                            let after = turn.failed(self.core.now());
                            self.core.recovery_failed(record, &error, after);
                            break false;
                        }
                    }
                }
                // By Spring's rules there is no terminal state, and a record that is done is not tracked.
                Some(Turn::Terminal(_)) | None => break true,
            }
        };
        if !recovered {
            self.trackers.insert(partition.clone(), Tracker { offset: record.offset, state });
        }
        Ok(recovered)
    }

    /// Waits on the thread, or has the container paused.
    async fn wait(&mut self, until: Duration) {
        let until = self.core.instant(until);
        match self.mode.waits {
            SpringWaits::Sleep => self.sleep(until).await,
            SpringWaits::PauseContainer if self.paused_until.is_none() => self.paused_until = Some(until),
            SpringWaits::PauseContainer => {}
        }
    }

    pub(super) async fn sleep(&mut self, until: Instant) {
        tokio::select! {
            biased;
            () = self.core.stop.requested() => {}
            () = sleep_until(until) => {}
        }
    }
}

fn commit_failed() -> Failure {
    let class = ErrorClass::new(COMMIT_FAILED).extends("org.apache.kafka.common.KafkaException");
    Failure::new(class, "Offset commit cannot be completed since the consumer is not part of an active group")
}
