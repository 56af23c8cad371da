//! Our own poll loop: it polls while it executes, waits or publishes, so that its poll interval never passes, and a
//! record that waits holds up its own partition only.
//!
//! Each assignment of a partition is a *lane* with a number of its own, the epoch. A rebalance is held up until the
//! execution that runs is over and committed, for as long as the settings say; then the lane is gone, and what comes of
//! the execution later is not committed. Retry states belong to partitions and outlive their lanes, so that a record
//! which comes back is not given its retries anew.
//!
//! Several lanes may be executed at once, each partition once at most. Then records are taken meanwhile too, so that no
//! lane waits for another's execution; how many are kept is bounded.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use crate::bounds::{SplitMix64, Terminal};
use crate::container::core::{Acknowledged, Core, poll_once};
use crate::container::{ATTEMPT_BUDGET_SPENT, BoundedMode, ContainerError, OverBudget, Records, STOPPED, WholeBatch};
use crate::dead_letters::{RecoverError, Recovered, Recoverer};
use crate::failure::{ErrorClass, Failure};
use crate::observer::{ConsumerEvent, Observer};
use crate::record::{Record, TopicPartition};
use crate::retry_state::{RetryState, Turn};
use crate::source::{PartitionRecords, Polled, Source};
use crate::work::{Work, WorkError, WorkKind};

/// How long a commit that is under way keeps the next one waiting, where no record comes.
const COMMIT_WAIT: Duration = Duration::from_millis(50);

/// While lanes are executed, records are taken until so many polls of them are kept. A broker gives a partition's records
/// in blocks of a MiB; with less than one of them the lanes would take turns instead of going on at once.
const KEPT_POLLS: usize = 8;

/// The same in bytes, where records are large.
const KEPT_BYTES: usize = 4 * 1024 * 1024;

/// An assignment of a partition.
struct Lane {
    partition: TopicPartition,
    queue: VecDeque<Arc<Record>>,
    /// Of the keys and values in the queue.
    queued_bytes: usize,
    paused: bool,
}

impl Lane {
    fn add(&mut self, records: Vec<Arc<Record>>) {
        self.queued_bytes += records.iter().map(|record| size_bytes(record)).sum::<usize>();
        self.queue.extend(records);
    }

    /// The first ones are done.
    fn remove(&mut self, count: usize) {
        let done: usize = self.queue.drain(..count.min(self.queue.len())).map(|record| size_bytes(&record)).sum();
        self.queued_bytes = self.queued_bytes.saturating_sub(done);
    }
}

fn size_bytes(record: &Record) -> usize {
    [&record.key, &record.value].into_iter().flatten().map(Vec::len).sum()
}

/// A lane's records that are executed.
struct Execution<'w> {
    epoch: u64,
    partition: TopicPartition,
    records: SmallVec<[Arc<Record>; 1]>,
    attempt: u64,
    began: Instant,
    acknowledged: Acknowledged,
    /// When its budget is spent.
    budget_ends: Option<Instant>,
    future: Pin<Box<dyn Future<Output = Result<(), WorkError>> + Send + 'w>>,
}

/// An execution that ended, and how.
type Ended<'w> = (Execution<'w>, Result<(), WorkError>);

/// The first of them that ends.
async fn next_ended<'w>(executions: &mut Vec<Execution<'w>>) -> Ended<'w> {
    poll_fn(|context| {
        for at in 0..executions.len() {
            if let Poll::Ready(result) = executions[at].future.as_mut().poll(context) {
                return Poll::Ready((executions.remove(at), result));
            }
        }
        Poll::Pending
    })
    .await
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
    /// Lanes with records that can be executed now. A lane that is executed is not among them.
    ready: VecDeque<u64>,
    executions: Vec<Execution<'a>>,
    /// The lane whose first records are being given up, and those records.
    giving_up: Option<(u64, Vec<Arc<Record>>)>,
    /// Lanes that wait, and until when.
    waiting: BinaryHeap<Reverse<(Duration, u64)>>,
    tracked: HashMap<TopicPartition, Tracked>,
    /// Up to this offset a partition's records are executed one by one, because a batch of them failed.
    one_by_one: HashMap<TopicPartition, i64>,
    revoking: Option<Revoking>,
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
        executions: Vec::new(),
        giving_up: None,
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

impl<'a, S: Source, W: Work, D: Recoverer, P: Recoverer, O: Observer> Engine<'a, S, W, D, P, O> {
    async fn run(&mut self) -> Result<(), ContainerError> {
        while !self.core.stop.is_requested() {
            if self.revoking.as_ref().is_some_and(|revoking| !self.is_awaited(revoking)) {
                self.finish_revoke().await;
            }
            self.wake_lanes();
            if self.revoking.is_none() && Instant::now() >= self.core.poll_due(self.mode.keep_alive) {
                self.keep_alive().await?;
            } else if let Some(epoch) = self.next_ready() {
                self.step(epoch).await?;
            } else if self.executions.is_empty() {
                self.poll_for_records().await?;
            } else {
                self.wait().await?;
            }
        }
        self.drain().await
    }

    /// Whether partitions that the group wants back are being executed or given up.
    fn is_awaited(&self, revoking: &Revoking) -> bool {
        let given_up = self.giving_up.iter().map(|(epoch, _)| epoch);
        let mut epochs = self.executions.iter().map(|execution| &execution.epoch).chain(given_up);
        epochs.any(|epoch| self.lanes.get(epoch).is_some_and(|lane| revoking.partitions.contains(&lane.partition)))
    }

    /// A lane that can be executed now, if there may be one more.
    fn next_ready(&mut self) -> Option<u64> {
        if self.executions.len() >= self.mode.partitions_at_once || self.revoking.is_some() {
            return None;
        }
        // What was begun before a partition was lost and came back may still run.
        let is_executed = |epoch: &u64| {
            let lane = self.lanes.get(epoch);
            lane.is_some_and(|lane| self.executions.iter().any(|running| running.partition == lane.partition))
        };
        let at = self.ready.iter().position(|epoch| !is_executed(epoch))?;
        self.ready.remove(at)
    }

    /// Whether records are to be taken while lanes are executed.
    fn has_room(&self) -> bool {
        if self.mode.partitions_at_once < 2 || self.revoking.is_some() {
            return false;
        }
        let (records, bytes) = self
            .lanes
            .values()
            .fold((0, 0), |(records, bytes), lane| (records + lane.queue.len(), bytes + lane.queued_bytes));
        records < self.core.settings.max_poll_records.saturating_mul(KEPT_POLLS) && bytes < KEPT_BYTES
    }

    /// Lanes are executed: waits until one of them ends or something else is to be done, and takes records if there is room.
    async fn wait(&mut self) -> Result<(), ContainerError> {
        let has_room = self.has_room();
        if has_room {
            self.resume_lanes();
        }
        let takes = has_room || self.only_idle_lanes_are_open();
        if takes {
            self.core.begin_commit_acks().await;
        }
        let until = self.event_at();
        let wakes = self.waiting.peek().filter(|_| self.executions.len() < self.mode.partitions_at_once);
        let wakes = wakes.map(|Reverse((until, _))| self.core.instant(*until));
        let budget_ends = self.budget_ends();
        let (poll_timeout, max_records) = (until.duration_since(Instant::now()), self.core.settings.max_poll_records);
        tokio::select! {
            biased;
            ended = next_ended(&mut self.executions) => self.ended(ended).await,
            () = self.core.stop.requested() => Ok(()),
            () = sleep_until(budget_ends.unwrap_or(until)), if budget_ends.is_some() => self.over_budget().await,
            () = sleep_until(wakes.unwrap_or(until)), if wakes.is_some() => Ok(()),
            // A poll that is dropped has taken nothing.
            polled = self.core.source.poll(poll_timeout, max_records), if takes => {
                let polled = self.core.polled(polled, poll_timeout).await?;
                self.take(polled).await;
                Ok(())
            }
            () = sleep_until(until) => self.event().await,
        }
    }

    /// The container is to stop: what is executed has as long as a rebalance gives it.
    async fn drain(&mut self) -> Result<(), ContainerError> {
        let until = Instant::now() + self.mode.drain_timeout;
        while !self.executions.is_empty() {
            let budget_ends = self.budget_ends();
            tokio::select! {
                biased;
                ended = next_ended(&mut self.executions) => self.ended(ended).await?,
                () = sleep_until(budget_ends.unwrap_or(until)), if budget_ends.is_some() => self.over_budget().await?,
                () = sleep_until(until) => {
                    for Execution { epoch, records, attempt, began, .. } in std::mem::take(&mut self.executions) {
                        let stale = !self.lanes.contains_key(&epoch);
                        let result = Err(WorkError::from(stopped(self.mode.drain_timeout)));
                        self.core.execution_ended(&records, attempt, began, &result, stale);
                    }
                }
            }
        }
        Ok(())
    }

    /// When a rebalance has waited long enough, or the next poll is due.
    fn event_at(&self) -> Instant {
        match &self.revoking {
            Some(revoking) => revoking.until,
            None => self.core.poll_due(self.mode.keep_alive),
        }
    }

    /// That time has come.
    async fn event(&mut self) -> Result<(), ContainerError> {
        if self.revoking.is_some() {
            self.finish_revoke().await;
            return Ok(());
        }
        self.keep_alive().await?;
        // Only lanes that are executed are waited for.
        if self.revoking.as_ref().is_some_and(|revoking| !self.is_awaited(revoking)) {
            self.finish_revoke().await;
        }
        Ok(())
    }

    fn budget_ends(&self) -> Option<Instant> {
        self.executions.iter().filter_map(|execution| execution.budget_ends).min()
    }

    /// The budget of an execution is spent.
    async fn over_budget(&mut self) -> Result<(), ContainerError> {
        let (Some(budget), now) = (self.mode.attempt_budget, Instant::now()) else { return Ok(()) };
        let is_spent = |running: &Execution<'_>| running.budget_ends.is_some_and(|ends| ends <= now);
        let Some(at) = self.executions.iter().position(is_spent) else { return Ok(()) };
        let execution = &mut self.executions[at];
        self.core.over_budget(&execution.records, execution.began, budget);
        execution.budget_ends = execution.budget_ends.and_then(|ends| ends.checked_add(budget));
        if self.mode.over_budget == OverBudget::Report {
            return Ok(());
        }
        let execution = self.executions.remove(at);
        self.ended((execution, Err(WorkError::from(over_budget(budget))))).await
    }

    /// Nothing can be executed: commits what is done, and polls until there is something.
    async fn poll_for_records(&mut self) -> Result<(), ContainerError> {
        self.core.begin_commit_acks().await;
        self.resume_lanes();
        let wake = self.waiting.peek().map(|Reverse((until, _))| until.saturating_sub(self.core.now()));
        let timeout = wake.map_or(self.core.settings.poll_timeout, |wake| wake.min(self.core.settings.poll_timeout));
        // What is done waits for a commit that is under way, and not for the next record.
        let timeout = if self.core.acks.is_empty() { timeout } else { timeout.min(COMMIT_WAIT) };
        let polled = self.core.poll(timeout, self.core.settings.max_poll_records).await?;
        self.take(polled).await;
        Ok(())
    }

    /// Polls to stay in the group and to learn of a rebalance, without taking records unless there is room for them.
    /// Commits before.
    async fn keep_alive(&mut self) -> Result<(), ContainerError> {
        self.core.begin_commit_acks().await;
        if !self.has_room() {
            // Where several lanes are executed, those that have nothing to do go on.
            self.pause_lanes(self.mode.partitions_at_once > 1)?;
        }
        let polled = self.core.poll(Duration::ZERO, self.core.settings.max_poll_records).await?;
        self.take(polled).await;
        Ok(())
    }

    /// Pauses the lanes that are not paused, or those of them that have records. They stay so until there is room.
    fn pause_lanes(&mut self, only_busy: bool) -> Result<(), ContainerError> {
        let mut open: Vec<&mut Lane> =
            self.lanes.values_mut().filter(|lane| !(lane.paused || only_busy && lane.queue.is_empty())).collect();
        if !open.is_empty() {
            let partitions: Vec<_> = open.iter().map(|lane| lane.partition.clone()).collect();
            self.core.source.pause(&partitions)?;
            open.iter_mut().for_each(|lane| lane.paused = true);
        }
        Ok(())
    }

    /// Whether lanes have nothing to do, and all that have are paused: then records are taken although there is no room,
    /// a poll for each lane at most. So a lane that is stalled with much to do stalls no other.
    fn only_idle_lanes_are_open(&self) -> bool {
        let is_open = |lane: &&Lane| !lane.paused;
        self.mode.partitions_at_once > 1
            && self.revoking.is_none()
            && self.lanes.values().any(|lane| !lane.paused)
            && self.lanes.values().filter(is_open).all(|lane| lane.queue.is_empty())
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
    async fn take(&mut self, polled: Polled) {
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
                self.close_lanes(&partitions);
                self.core.emit(&ConsumerEvent::Lost { partitions: &partitions });
            }
        }
    }

    fn open_lane(&mut self, partition: &TopicPartition) {
        let epoch = self.next_epoch;
        self.next_epoch += 1;
        let lane = Lane { partition: partition.clone(), queue: VecDeque::new(), queued_bytes: 0, paused: false };
        self.lanes.insert(epoch, lane);
        self.epochs.insert(partition.clone(), epoch);
    }

    fn close_lanes(&mut self, partitions: &[TopicPartition]) {
        for partition in partitions {
            let Some(epoch) = self.epochs.remove(partition) else { continue };
            self.lanes.remove(&epoch);
            let executed =
                self.executions.iter().find(|running| running.epoch == epoch).map(|running| &running.records[..]);
            let given_up = self.giving_up.as_ref().filter(|(lane, _)| *lane == epoch).map(|(_, records)| &records[..]);
            if let Some(records) = executed.or(given_up) {
                self.core.meters.handed_over.increment(1);
                self.core.emit(&ConsumerEvent::HandedOverWhileRunning { partition, records });
            }
        }
    }

    fn enqueue(&mut self, batch: PartitionRecords) {
        let Some(epoch) = self.epochs.get(&batch.partition).copied() else { return };
        let Some(lane) = self.lanes.get_mut(&epoch) else { return };
        let was_empty = lane.queue.is_empty();
        lane.add(batch.records);
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
    async fn finish_revoke(&mut self) {
        let Some(Revoking { partitions, .. }) = self.revoking.take() else { return };
        let _ = self.core.commit_acks().await;
        self.core.forget_acks(&partitions);
        self.close_lanes(&partitions);
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
        let records: SmallVec<[Arc<Record>; 1]> = lane.queue.iter().take(count).cloned().collect();
        let attempt = tracked.as_ref().map_or(1, |tracked| tracked.state.attempt());
        if let Some(tracked) = tracked {
            self.tracked.insert(partition.clone(), tracked);
        }
        let (delivery, acknowledged) = self.core.delivery(&records, attempt);
        let (began, span) = self.core.execution_started(&records, attempt);
        let work = self.work;
        let mut future: Pin<Box<dyn Future<Output = _> + Send + 'a>> =
            Box::pin(work.execute(delivery).instrument(span));
        let first = poll_once(pin!(&mut future)).await;
        let budget_ends = self.mode.attempt_budget.and_then(|budget| began.checked_add(budget));
        let execution = Execution { epoch, partition, records, attempt, began, acknowledged, budget_ends, future };
        match first {
            Poll::Ready(result) => self.ended((execution, result)).await,
            Poll::Pending => {
                self.executions.push(execution);
                Ok(())
            }
        }
    }

    /// An execution ended.
    async fn ended(&mut self, (execution, result): Ended<'a>) -> Result<(), ContainerError> {
        let Execution { epoch, partition, records, attempt, began, acknowledged, .. } = execution;
        let stale = !self.lanes.contains_key(&epoch);
        self.core.execution_ended(&records, attempt, began, &result, stale);
        if stale {
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
    async fn done(&mut self, epoch: u64, partition: &TopicPartition, records: &Records, acknowledged: &Acknowledged) {
        let Some(last) = records.last() else { return };
        if let Some(lane) = self.lanes.get_mut(&epoch) {
            lane.remove(records.len());
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
        self.giving_up = Some((epoch, records.clone()));
        let is_done = self.give_up_records(&records, &mut tracked).await;
        self.giving_up = None;
        let is_done = is_done?;
        if !is_done {
            // Kept also when the partition went meanwhile: it may come back.
            self.tracked.insert(partition, tracked);
        } else if let Some(lane) = self.lanes.get_mut(&epoch) {
            lane.remove(records.len());
            self.forget_up_to(&partition, last.offset);
            self.core.acks.insert(partition, last.offset + 1);
            // At once: a dead letter that is published and not committed would be published again.
            let _ = self.core.commit_acks().await;
        }
        self.schedule(epoch);
        Ok(())
    }

    /// Gives them up, or does what their terminal state says. Gives whether they are done; if not, they wait.
    async fn give_up_records(&mut self, records: &Records, tracked: &mut Tracked) -> Result<bool, ContainerError> {
        let failure = tracked.failure.clone();
        match tracked.state.turn() {
            Some(Turn::Recover(turn)) => {
                let spent = turn.spent();
                let recoverer = self.recoverer;
                for record in records {
                    let recovery = recoverer.recover(record, &failure, spent);
                    match self.recover(recovery).await? {
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
                            if let Err(error) = self.recover(parked).await? {
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

    /// Gives a record up, and executes and polls meanwhile. A stop waits for it as long as a rebalance does. A rebalance
    /// that wants the partition back is held up until it is done or the drain timeout is over; in the latter case the lane
    /// is gone when this returns.
    async fn recover(
        &mut self,
        recovery: impl Future<Output = Result<Recovered, RecoverError>>,
    ) -> Result<Result<Recovered, RecoverError>, ContainerError> {
        let mut recovery = pin!(recovery);
        if let Poll::Ready(result) = poll_once(recovery.as_mut()).await {
            return Ok(result);
        }
        let mut stop_ends: Option<Instant> = None;
        loop {
            let event_at = stop_ends.unwrap_or_else(|| self.event_at());
            let budget_ends = self.budget_ends();
            tokio::select! {
                biased;
                result = &mut recovery => return Ok(result),
                ended = next_ended(&mut self.executions) => self.ended(ended).await?,
                () = self.core.stop.requested(), if stop_ends.is_none() => {
                    stop_ends = Some(Instant::now() + self.mode.drain_timeout);
                }
                () = sleep_until(budget_ends.unwrap_or(event_at)), if budget_ends.is_some() => self.over_budget().await?,
                () = sleep_until(event_at) => match stop_ends {
                    Some(_) => {
                        let after_ms = u64::try_from(self.mode.drain_timeout.as_millis()).unwrap_or(u64::MAX);
                        return Ok(Err(RecoverError::TimedOut { after_ms }));
                    }
                    None => self.event().await?,
                },
            }
        }
    }
}

fn stopped(after: Duration) -> Failure {
    let class = ErrorClass::new(STOPPED);
    Failure::new(class, format!("dropped {} ms after the consumer was asked to stop", after.as_millis()))
}

fn over_budget(budget: Duration) -> Failure {
    let class = ErrorClass::new(ATTEMPT_BUDGET_SPENT);
    Failure::new(class, format!("attempt budget of {} ms spent", budget.as_millis()))
}
