//! Our own poll loop: it polls while it executes, waits or publishes, so that its poll interval never passes, and a
//! record that waits holds up its own partition only.
//!
//! Each assignment of a partition is a *lane* with a number of its own, the epoch. A rebalance is held up until the
//! execution that runs is over and committed, for as long as the settings say; then the lane is gone, and what comes of
//! the execution later is not committed. Retry states belong to partitions and outlive their lanes, so that a record
//! which comes back is not given its retries anew.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use crate::bounds::{SplitMix64, Terminal};
use crate::container::core::{Core, poll_once};
use crate::container::{ATTEMPT_BUDGET_SPENT, BoundedMode, ContainerError, OverBudget, Records, STOPPED, WholeBatch};
use crate::dead_letters::{RecoverError, Recovered, Recoverer};
use crate::failure::{ErrorClass, Failure};
use crate::observer::{ConsumerEvent, Observer};
use crate::record::{Record, TopicPartition};
use crate::retry_state::{RetryState, Turn};
use crate::source::{PartitionRecords, Polled, Source};
use crate::work::{Work, WorkError, WorkKind};

/// An assignment of a partition.
struct Lane {
    partition: TopicPartition,
    queue: VecDeque<Arc<Record>>,
    paused: bool,
}

/// Where a failed record stands.
struct Tracked {
    offset: i64,
    state: RetryState<SplitMix64>,
    /// What it failed with last.
    failure: Failure,
    /// How many records the batch had, where nobody knows which of them failed; else 1.
    records: usize,
}

/// Partitions that the group wants back.
struct Revoking {
    partitions: Vec<TopicPartition>,
    until: Instant,
}

struct Engine<'a, S, W, D, P, O> {
    core: Core<S, O>,
    work: &'a W,
    recoverer: &'a D,
    parking: Option<&'a P>,
    mode: BoundedMode,
    next_epoch: u64,
    lanes: HashMap<u64, Lane>,
    epochs: HashMap<TopicPartition, u64>,
    /// Lanes with records that can be executed now.
    ready: VecDeque<u64>,
    /// Lanes that wait, and until when.
    waiting: BinaryHeap<Reverse<(Duration, u64)>>,
    tracked: HashMap<TopicPartition, Tracked>,
    /// Up to this offset a partition's records are executed one by one, because a batch of them failed.
    one_by_one: HashMap<TopicPartition, i64>,
    revoking: Option<Revoking>,
}

/// The lane whose records are being executed or given up, and those records.
type Running<'r> = Option<(u64, &'r Records)>;

/// What became of something that was driven.
enum Driven<T> {
    Done(T),
    /// Its budget was spent, and it was dropped.
    Cancelled,
    /// The container is to stop and has waited for it long enough: it was dropped.
    Stopped,
}

/// Runs until it is asked to stop.
pub(super) async fn run<S: Source, W: Work, D: Recoverer, P: Recoverer, O: Observer>(
    core: Core<S, O>,
    work: &W,
    recoverer: &D,
    parking: Option<&P>,
    mode: BoundedMode,
) -> Result<(), ContainerError> {
    let mut engine = Engine {
        core,
        work,
        recoverer,
        parking,
        mode,
        next_epoch: 0,
        lanes: HashMap::new(),
        epochs: HashMap::new(),
        ready: VecDeque::new(),
        waiting: BinaryHeap::new(),
        tracked: HashMap::new(),
        one_by_one: HashMap::new(),
        revoking: None,
    };
    let result = engine.run().await;
    // What is done is committed also when the container ends with an error.
    let _ = engine.core.commit_acks().await;
    let closed = engine.core.source.close().await;
    result?;
    closed?;
    Ok(())
}

impl<S: Source, W: Work, D: Recoverer, P: Recoverer, O: Observer> Engine<'_, S, W, D, P, O> {
    async fn run(&mut self) -> Result<(), ContainerError> {
        while !self.core.stop.is_requested() {
            if self.revoking.is_some() {
                self.finish_revoke(None).await;
            }
            self.wake_lanes();
            if Instant::now() >= self.core.poll_due(self.mode.keep_alive) {
                self.keep_alive().await?;
            } else if let Some(epoch) = self.ready.pop_front() {
                self.step(epoch).await?;
            } else {
                self.poll_for_records().await?;
            }
        }
        Ok(())
    }

    /// Nothing can be executed: commits what is done, and polls until there is something.
    async fn poll_for_records(&mut self) -> Result<(), ContainerError> {
        let _ = self.core.commit_acks().await;
        self.resume_lanes();
        let wake = self.waiting.peek().map(|Reverse((until, _))| until.saturating_sub(self.core.now()));
        let timeout = wake.map_or(self.core.settings.poll_timeout, |wake| wake.min(self.core.settings.poll_timeout));
        let polled = self.core.poll(timeout, self.core.settings.max_poll_records).await?;
        self.take(polled, None).await;
        Ok(())
    }

    /// Polls without taking records, to stay in the group and to learn of a rebalance. Commits before.
    async fn keep_alive(&mut self) -> Result<(), ContainerError> {
        let _ = self.core.commit_acks().await;
        self.pause_lanes()?;
        let polled = self.core.poll(Duration::ZERO, self.core.settings.max_poll_records).await?;
        self.take(polled, None).await;
        Ok(())
    }

    /// Pauses the lanes that are not paused. They stay so until records are asked for.
    fn pause_lanes(&mut self) -> Result<(), ContainerError> {
        let open: Vec<_> = self.lanes.values().filter(|lane| !lane.paused).map(|lane| lane.partition.clone()).collect();
        if !open.is_empty() {
            self.core.source.pause(&open)?;
            self.lanes.values_mut().for_each(|lane| lane.paused = true);
        }
        Ok(())
    }

    /// Resumes the lanes that do not wait.
    fn resume_lanes(&mut self) {
        for lane in self.lanes.values_mut().filter(|lane| lane.paused) {
            let first = lane.queue.front().map(|record| record.offset);
            let waits = self
                .tracked
                .get(&lane.partition)
                .is_some_and(|tracked| Some(tracked.offset) == first && tracked.state.waits_until().is_some());
            if !waits {
                // A partition that is gone meanwhile is told by the next poll.
                lane.paused = self.core.source.resume(std::slice::from_ref(&lane.partition)).is_err();
            }
        }
    }

    /// Takes over what a poll gave.
    async fn take(&mut self, polled: Polled, running: Running<'_>) {
        match polled {
            Polled::Nothing => {}
            Polled::Records(batches) => batches.into_iter().for_each(|batch| self.enqueue(batch)),
            Polled::Assigned(partitions) => {
                self.core.meters.rebalances.increment(1);
                for partition in &partitions {
                    self.open_lane(partition);
                }
                self.core.emit(&ConsumerEvent::Assigned { partitions: &partitions });
            }
            Polled::Revoking(partitions) => {
                let _ = self.core.commit_acks().await;
                let until = Instant::now() + self.mode.drain_timeout;
                self.revoking = Some(Revoking { partitions, until });
            }
            Polled::Lost(partitions) => {
                self.core.forget_acks(&partitions);
                self.close_lanes(&partitions, running);
                self.core.emit(&ConsumerEvent::Lost { partitions: &partitions });
            }
        }
    }

    fn open_lane(&mut self, partition: &TopicPartition) {
        let epoch = self.next_epoch;
        self.next_epoch += 1;
        self.lanes.insert(epoch, Lane { partition: partition.clone(), queue: VecDeque::new(), paused: false });
        self.epochs.insert(partition.clone(), epoch);
    }

    fn close_lanes(&mut self, partitions: &[TopicPartition], running: Running<'_>) {
        for partition in partitions {
            let Some(epoch) = self.epochs.remove(partition) else { continue };
            self.lanes.remove(&epoch);
            if let Some((_, records)) = running.filter(|(running, _)| *running == epoch) {
                self.core.meters.handed_over.increment(1);
                self.core.emit(&ConsumerEvent::HandedOverWhileRunning { partition, records });
            }
        }
    }

    fn enqueue(&mut self, batch: PartitionRecords) {
        let Some(epoch) = self.epochs.get(&batch.partition).copied() else { return };
        let Some(lane) = self.lanes.get_mut(&epoch) else { return };
        let was_empty = lane.queue.is_empty();
        lane.queue.extend(batch.records);
        if was_empty && !lane.queue.is_empty() {
            self.schedule(epoch);
        }
    }

    /// The lane's next record is to be executed: now, or when its wait is over.
    fn schedule(&mut self, epoch: u64) {
        let Some(lane) = self.lanes.get_mut(&epoch) else { return };
        let Some(record) = lane.queue.front() else { return };
        let tracked = self.tracked.get(&lane.partition).filter(|tracked| tracked.offset == record.offset);
        match tracked.and_then(|tracked| tracked.state.waits_until()) {
            None => self.ready.push_back(epoch),
            Some(until) => {
                if !lane.paused {
                    lane.paused = self.core.source.pause(std::slice::from_ref(&lane.partition)).is_ok();
                }
                self.waiting.push(Reverse((until, epoch)));
            }
        }
    }

    /// Makes lanes ready whose wait is over.
    fn wake_lanes(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let now = self.core.now();
        while let Some(Reverse((until, epoch))) = self.waiting.peek().copied()
            && until <= now
        {
            self.waiting.pop();
            let Some(lane) = self.lanes.get(&epoch) else { continue };
            if let Some(tracked) = self.tracked.get_mut(&lane.partition)
                && let Some(Turn::Wait(turn)) = tracked.state.turn()
            {
                turn.time(now);
                self.ready.push_back(epoch);
            }
        }
    }

    /// The group gets its partitions back: what is done is committed, and their lanes are gone.
    async fn finish_revoke(&mut self, running: Running<'_>) {
        let Some(Revoking { partitions, .. }) = self.revoking.take() else { return };
        let _ = self.core.commit_acks().await;
        self.core.forget_acks(&partitions);
        self.close_lanes(&partitions, running);
        self.core.emit(&ConsumerEvent::Revoked { partitions: &partitions });
    }

    /// The lane's next step: an execution, or what follows for a record that is given up.
    async fn step(&mut self, epoch: u64) -> Result<(), ContainerError> {
        let Some(lane) = self.lanes.get(&epoch) else { return Ok(()) };
        let Some(first) = lane.queue.front() else { return Ok(()) };
        let partition = lane.partition.clone();
        // What is remembered of a later record stays: after a loss, records before it come again first.
        let is_first = |tracked: &Tracked| tracked.offset <= first.offset;
        let tracked = match self.tracked.get(&partition).is_some_and(is_first) {
            true => self.tracked.remove(&partition).filter(|tracked| tracked.offset == first.offset),
            false => None,
        };
        match tracked {
            Some(mut tracked) => match tracked.state.turn() {
                Some(Turn::Execute(_)) | None => self.execute(epoch, partition, Some(tracked)).await,
                Some(Turn::Wait(_)) => {
                    self.tracked.insert(partition, tracked);
                    self.schedule(epoch);
                    Ok(())
                }
                Some(Turn::Recover(_) | Turn::Terminal(_)) => self.give_up(epoch, partition, tracked).await,
            },
            None => self.execute(epoch, partition, None).await,
        }
    }

    /// How many of the lane's records the next execution gets.
    fn batch_len(&self, lane: &Lane, tracked: Option<&Tracked>) -> usize {
        if self.work.kind() == WorkKind::Record {
            return 1;
        }
        let alone = lane.queue.front().zip(self.one_by_one.get(&lane.partition));
        if alone.is_some_and(|(first, last)| first.offset <= *last) {
            return 1;
        }
        // A batch that failed as a whole comes again as it was.
        let most = tracked.map_or(self.core.settings.max_poll_records, |tracked| tracked.records.max(1));
        lane.queue.len().min(most)
    }

    async fn execute(
        &mut self,
        epoch: u64,
        partition: TopicPartition,
        tracked: Option<Tracked>,
    ) -> Result<(), ContainerError> {
        let Some(lane) = self.lanes.get(&epoch) else { return Ok(()) };
        // A batch that failed at a record begins with it, and takes what has come since.
        let whole = tracked.as_ref().filter(|tracked| tracked.records > 1);
        let count = self.batch_len(lane, whole);
        let records: smallvec::SmallVec<[Arc<Record>; 1]> = lane.queue.iter().take(count).cloned().collect();
        let attempt = tracked.as_ref().map_or(1, |tracked| tracked.state.attempt());
        if let Some(tracked) = tracked {
            self.tracked.insert(partition.clone(), tracked);
        }
        let (delivery, acknowledged) = self.core.delivery(&records, attempt);
        let (began, span) = self.core.execution_started(&records, attempt);
        let execution = self.work.execute(delivery).instrument(span);
        let driven = self.drive(epoch, &records, execution, self.mode.attempt_budget).await?;
        let is_stopped = matches!(driven, Driven::Stopped);
        let result = match driven {
            Driven::Done(result) => result,
            Driven::Cancelled => Err(WorkError::from(over_budget(self.mode.attempt_budget))),
            Driven::Stopped => Err(WorkError::from(stopped(self.mode.drain_timeout))),
        };
        let stale = !self.lanes.contains_key(&epoch);
        self.core.execution_ended(&records, attempt, began, &result, stale);
        if stale || is_stopped {
            return Ok(());
        }
        let (done, failed) = match result {
            Ok(()) => (records.len(), None),
            Err(WorkError { failure, index }) => match index.filter(|index| *index < records.len()) {
                Some(index) => (index, Some((failure, 1))),
                None => (0, Some((failure, records.len()))),
            },
        };
        self.done(epoch, &partition, &records[..done], &acknowledged).await;
        match failed {
            None => self.schedule(epoch),
            Some((failure, count)) => self.failed(epoch, partition, &records[done], failure, count, began)?,
        }
        Ok(())
    }

    /// These records, the lane's first, are done.
    async fn done(
        &mut self,
        epoch: u64,
        partition: &TopicPartition,
        records: &Records,
        acknowledged: &crate::container::core::Acknowledged,
    ) {
        let Some(last) = records.last() else { return };
        if let Some(lane) = self.lanes.get_mut(&epoch) {
            lane.queue.drain(..records.len().min(lane.queue.len()));
        }
        self.forget_up_to(partition, last.offset);
        if self.core.acknowledge(acknowledged, [(partition.clone(), last.offset + 1)]) {
            let _ = self.core.commit_acks().await;
        }
    }

    /// What is remembered about records up to this offset is no longer needed.
    fn forget_up_to(&mut self, partition: &TopicPartition, offset: i64) {
        if !self.tracked.is_empty() && self.tracked.get(partition).is_some_and(|tracked| tracked.offset <= offset) {
            self.tracked.remove(partition);
        }
        if !self.one_by_one.is_empty() && self.one_by_one.get(partition).is_some_and(|last| *last <= offset) {
            self.one_by_one.remove(partition);
        }
    }

    fn failed(
        &mut self,
        epoch: u64,
        partition: TopicPartition,
        record: &Arc<Record>,
        failure: Failure,
        records: usize,
        began: Instant,
    ) -> Result<(), ContainerError> {
        let known = self.tracked.remove(&partition).filter(|tracked| tracked.offset == record.offset);
        let mut tracked = match known {
            Some(tracked) => Tracked { failure, records, ..tracked },
            None => Tracked { offset: record.offset, state: self.core.retry_state(None, began)?, failure, records },
        };
        if let Some(Turn::Execute(turn)) = tracked.state.turn() {
            let after = turn.failed(&tracked.failure, self.core.now());
            self.core.decided(record, after);
        }
        self.tracked.insert(partition, tracked);
        self.schedule(epoch);
        Ok(())
    }

    /// A record whose retries are spent becomes a dead letter, or what its terminal state says.
    async fn give_up(
        &mut self,
        epoch: u64,
        partition: TopicPartition,
        mut tracked: Tracked,
    ) -> Result<(), ContainerError> {
        let Some(lane) = self.lanes.get(&epoch) else { return Ok(()) };
        let records: Vec<Arc<Record>> = lane.queue.iter().take(tracked.records).cloned().collect();
        let Some(last) = records.last() else { return Ok(()) };
        if records.len() > 1 && self.mode.whole_batch == WholeBatch::OneByOne {
            // Nobody knows which of them fails: each gets its own turn.
            self.one_by_one.insert(partition, last.offset);
            self.ready.push_front(epoch);
            return Ok(());
        }
        let is_done = self.give_up_records(epoch, &records, &mut tracked).await?;
        if !is_done {
            // Kept also when the partition went meanwhile: it may come back.
            self.tracked.insert(partition, tracked);
        } else if let Some(lane) = self.lanes.get_mut(&epoch) {
            lane.queue.drain(..records.len().min(lane.queue.len()));
            self.forget_up_to(&partition, last.offset);
            self.core.acks.insert(partition, last.offset + 1);
            // At once: a dead letter that is published and not committed would be published again.
            let _ = self.core.commit_acks().await;
        }
        self.schedule(epoch);
        Ok(())
    }

    /// Gives them up, or does what their terminal state says. Gives whether they are done; if not, they wait.
    async fn give_up_records(
        &mut self,
        epoch: u64,
        records: &Records,
        tracked: &mut Tracked,
    ) -> Result<bool, ContainerError> {
        let failure = tracked.failure.clone();
        match tracked.state.turn() {
            Some(Turn::Recover(turn)) => {
                let spent = turn.spent();
                let recoverer = self.recoverer;
                for record in records {
                    let recovery = recoverer.recover(record, &failure, spent);
                    match self.recover(epoch, records, recovery).await? {
                        Ok(place) => self.core.recovered(record, &place, &failure),
                        Err(error) => {
                            let after = turn.failed(self.core.now());
                            self.core.recovery_failed(record, &error, after);
                            return Ok(false);
                        }
                    }
                }
                turn.recovered();
                Ok(true)
            }
            Some(Turn::Terminal(turn)) => {
                let terminal = turn.terminal();
                for record in records {
                    self.core.emit(&ConsumerEvent::Terminal { record, terminal, failure: &failure });
                }
                match (terminal, self.parking) {
                    (Terminal::Stop | Terminal::Block, _) => {
                        let record = records.first().cloned().unwrap_or_default();
                        return Err(ContainerError::Stopped { record, failure });
                    }
                    (Terminal::Skip, _) | (Terminal::Park, None) => {}
                    (Terminal::Park, Some(parking)) => {
                        for record in records {
                            let parked = parking.recover(record, &failure, crate::bounds::Spent::BackOff);
                            if let Err(error) = self.recover(epoch, records, parked).await? {
                                tracing::error!("a record could not be parked: {error}");
                                turn.failed(self.core.now());
                                return Ok(false);
                            }
                        }
                    }
                }
                turn.done();
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    async fn recover(
        &mut self,
        epoch: u64,
        records: &Records,
        recovery: impl Future<Output = Result<Recovered, RecoverError>>,
    ) -> Result<Result<Recovered, RecoverError>, ContainerError> {
        match self.drive(epoch, records, recovery, None).await? {
            Driven::Done(result) => Ok(result),
            // Without a budget only a stop cuts it off.
            Driven::Cancelled | Driven::Stopped => {
                let after_ms = u64::try_from(self.mode.drain_timeout.as_millis()).unwrap_or(u64::MAX);
                Ok(Err(RecoverError::TimedOut { after_ms }))
            }
        }
    }

    /// Drives a future, and polls meanwhile. A stop waits for it as long as a rebalance does.
    /// A rebalance that wants the partitions back is held up until the future is
    /// done or the drain timeout is over; in the latter case the lane is gone when this returns.
    async fn drive<T>(
        &mut self,
        epoch: u64,
        records: &Records,
        future: impl Future<Output = T>,
        budget: Option<Duration>,
    ) -> Result<Driven<T>, ContainerError> {
        let mut future = pin!(future);
        if let Poll::Ready(output) = poll_once(future.as_mut()).await {
            return Ok(Driven::Done(output));
        }
        let running = Some((epoch, records));
        let began = Instant::now();
        let mut budget_ends = budget.and_then(|budget| Some((budget, began.checked_add(budget)?)));
        let mut stop_ends: Option<Instant> = None;
        loop {
            let event_at = match (&stop_ends, &self.revoking) {
                (Some(ends), _) => *ends,
                (None, Some(revoking)) => revoking.until,
                (None, None) => self.core.poll_due(self.mode.keep_alive),
            };
            tokio::select! {
                biased;
                output = &mut future => return Ok(Driven::Done(output)),
                () = self.core.stop.requested(), if stop_ends.is_none() => {
                    stop_ends = Some(Instant::now() + self.mode.drain_timeout);
                }
                () = sleep_until(budget_ends.map_or(event_at, |(_, ends)| ends)), if budget_ends.is_some() => {
                    self.core.over_budget(records, began, budget.unwrap_or_default());
                    if self.mode.over_budget == OverBudget::Cancel {
                        return Ok(Driven::Cancelled);
                    }
                    budget_ends = budget_ends.and_then(|(budget, ends)| Some((budget, ends.checked_add(budget)?)));
                }
                () = sleep_until(event_at) => {
                    if stop_ends.is_some() {
                        return Ok(Driven::Stopped);
                    }
                    if self.revoking.is_some() {
                        self.finish_revoke(running).await;
                        continue;
                    }
                    self.pause_lanes()?;
                    let polled = self.core.poll(Duration::ZERO, self.core.settings.max_poll_records).await?;
                    self.take(polled, running).await;
                    let lane = self.lanes.get(&epoch);
                    let is_wanted_back = |revoking: &Revoking| {
                        lane.is_some_and(|lane| revoking.partitions.contains(&lane.partition))
                    };
                    // Only the lane that runs is waited for.
                    if self.revoking.as_ref().is_some_and(|revoking| !is_wanted_back(revoking)) {
                        self.finish_revoke(running).await;
                    }
                }
            }
        }
    }
}

fn stopped(after: Duration) -> Failure {
    let class = ErrorClass::new(STOPPED);
    Failure::new(class, format!("dropped {} ms after the consumer was asked to stop", after.as_millis()))
}

fn over_budget(budget: Option<Duration>) -> Failure {
    let class = ErrorClass::new(ATTEMPT_BUDGET_SPENT);
    Failure::new(class, format!("attempt budget of {} ms spent", budget.unwrap_or_default().as_millis()))
}
