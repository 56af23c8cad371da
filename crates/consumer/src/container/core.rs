//! What both kinds of container do alike: polling, executing, committing, telling.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::{Instant, sleep};
use tracing::Span;

use crate::bounds::SplitMix64;
use crate::container::{AckMode, ContainerError, ContainerSettings, Records, StopHandle};
use crate::dead_letters::{RecoverError, Recovered};
use crate::failure::Failure;
use crate::headers;
use crate::meters::Meters;
use crate::observer::{ConsumerEvent, Observer};
use crate::record::{Record, TopicPartition};
use crate::retry_state::{AfterFailure, AfterRecoveryFailure, RetrySettings, RetryState};
use crate::source::{CommitError, Committing, Polled, Source, SourceError};
use crate::work::{Delivery, WorkError};

/// How often the lag of the partitions is measured.
const LAG_EVERY: Duration = Duration::from_secs(10);

/// The longest wait after a source failed, before it is asked again.
const SOURCE_WAIT: Duration = Duration::from_millis(500);

/// The parts of a container.
pub(super) struct Core<S, O> {
    pub(super) source: S,
    pub(super) settings: ContainerSettings,
    pub(super) stop: StopHandle,
    pub(super) meters: Meters,
    /// What is done and not committed: for each partition the offset to begin with next time.
    pub(super) acks: BTreeMap<TopicPartition, i64>,
    /// A commit that goes on while the source is polled, and what it commits.
    under_way: Option<(Vec<(TopicPartition, i64)>, Committing)>,
    observer: O,
    retry: Arc<RetrySettings>,
    random: SplitMix64,
    began: Instant,
    last_polled: Instant,
    failing_since: Option<Instant>,
    lag_due: Instant,
}

/// Whether a delivery was acknowledged; `None`: by the ack mode it need not be.
pub(super) type Acknowledged = Option<Arc<AtomicBool>>;

impl<S: Source, O: Observer> Core<S, O> {
    pub(super) fn new(source: S, settings: ContainerSettings, seed: u64, observer: O, stop: StopHandle) -> Self {
        let now = Instant::now();
        Self {
            source,
            stop,
            meters: Meters::new(),
            acks: BTreeMap::new(),
            under_way: None,
            observer,
            retry: Arc::new(settings.retry.clone()),
            settings,
            random: SplitMix64::new(seed),
            began: now,
            last_polled: now,
            failing_since: None,
            lag_due: now,
        }
    }

    /// The time since the container began: the clock of its retry states.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// A time of that clock.
    pub(super) fn instant(&self, at: Duration) -> Instant {
        self.began + at
    }

    pub(super) fn emit(&mut self, event: &ConsumerEvent<'_>) {
        self.observer.on_event(event);
    }

    /// A retry state for a record whose first execution began then, by the container's settings or by others.
    pub(super) fn retry_state(
        &mut self,
        settings: Option<RetrySettings>,
        began: Instant,
    ) -> Result<RetryState<SplitMix64>, ContainerError> {
        let settings = settings.map_or_else(|| Arc::clone(&self.retry), Arc::new);
        let mut state = RetryState::new(settings, SplitMix64::new(self.random.next_u64()))?;
        state.begin_at(began.duration_since(self.began));
        Ok(state)
    }

    /// When the next poll is due, if there has to be one every `every`.
    pub(super) fn poll_due(&self, every: Duration) -> Instant {
        self.last_polled + every
    }

    /// Polls, also while the source fails. A request to stop ends it.
    pub(super) async fn poll(&mut self, timeout: Duration, max_records: usize) -> Result<Polled, ContainerError> {
        let interval_s = self.source.max_poll_interval().as_secs_f64();
        self.meters.poll_interval_used.record(self.last_polled.elapsed().as_secs_f64() / interval_s);
        let polled = tokio::select! {
            biased;
            polled = self.source.poll(timeout, max_records) => polled,
            () = self.stop.requested() => Ok(Polled::Nothing),
        };
        self.polled(polled, timeout).await
    }

    /// What follows from a poll that waited so long at most.
    pub(super) async fn polled(
        &mut self,
        polled: Result<Polled, SourceError>,
        timeout: Duration,
    ) -> Result<Polled, ContainerError> {
        let now = Instant::now();
        self.last_polled = now;
        if now >= self.lag_due {
            self.lag_due = now + LAG_EVERY;
            for partition in self.source.assignment() {
                if let Some(lag) = self.source.lag(&partition) {
                    Meters::lag(&partition).set(lag as f64);
                }
            }
        }
        match polled {
            Ok(polled) => {
                self.failing_since = None;
                if matches!(polled, Polled::Records(_)) {
                    // Sources and work that never wait must not keep others from running.
                    tokio::task::yield_now().await;
                }
                Ok(polled)
            }
            Err(error) if error.is_transient() => {
                tracing::warn!("the source failed, it is asked again: {error}");
                self.emit(&ConsumerEvent::SourceFailed { error: &error });
                let since = *self.failing_since.get_or_insert(now);
                if since.elapsed() >= self.settings.source_patience {
                    return Err(error.into());
                }
                sleep(timeout.min(SOURCE_WAIT)).await;
                Ok(Polled::Nothing)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Commits what is done. What is refused because the partitions are another's is forgotten: it is delivered again.
    pub(super) async fn commit_acks(&mut self) -> Result<(), CommitError> {
        // First what is under way: of two commits at once nobody knows which the broker takes first.
        if let Some((offsets, committing)) = self.under_way.take() {
            let result = committing.await;
            self.commit_ended(&offsets, &result);
            self.keep_for_later(offsets, &result);
        }
        if self.acks.is_empty() {
            return Ok(());
        }
        let offsets: Vec<_> = std::mem::take(&mut self.acks).into_iter().collect();
        let result = self.commit(&offsets).await;
        self.keep_for_later(offsets, &result);
        result
    }

    /// As [`Core::commit_acks`], but does not wait for the broker where the source can commit meanwhile. While one such
    /// commit is under way, what is done since waits for the next.
    pub(super) async fn begin_commit_acks(&mut self) {
        if let Some((offsets, mut committing)) = self.under_way.take() {
            match poll_once(std::pin::pin!(&mut committing)).await {
                Poll::Ready(result) => {
                    self.commit_ended(&offsets, &result);
                    self.keep_for_later(offsets, &result);
                }
                Poll::Pending => {
                    self.under_way = Some((offsets, committing));
                    return;
                }
            }
        }
        if self.acks.is_empty() {
            return;
        }
        let offsets: Vec<_> = self.acks.iter().map(|(partition, offset)| (partition.clone(), *offset)).collect();
        match self.source.begin_commit(&offsets) {
            Some(committing) => {
                self.acks.clear();
                self.under_way = Some((offsets, committing));
            }
            None => drop(self.commit_acks().await),
        }
    }

    /// The partitions of a commit that failed for a moment are still this consumer's: the next one tries again.
    fn keep_for_later(&mut self, offsets: Vec<(TopicPartition, i64)>, result: &Result<(), CommitError>) {
        if matches!(result, Err(CommitError::Other { .. })) {
            for (partition, offset) in offsets {
                self.acks.entry(partition).or_insert(offset);
            }
        }
    }

    /// These partitions are another's: what was not committed of them is delivered again.
    pub(super) fn forget_acks(&mut self, partitions: &[TopicPartition]) {
        for partition in partitions {
            self.acks.remove(partition);
        }
        if let Some((offsets, _)) = &mut self.under_way {
            offsets.retain(|(partition, _)| !partitions.contains(partition));
        }
    }

    pub(super) async fn commit(&mut self, offsets: &[(TopicPartition, i64)]) -> Result<(), CommitError> {
        let result = self.source.commit(offsets).await;
        self.commit_ended(offsets, &result);
        result
    }

    fn commit_ended(&mut self, offsets: &[(TopicPartition, i64)], result: &Result<(), CommitError>) {
        match result {
            Ok(()) => self.emit(&ConsumerEvent::Committed { offsets }),
            Err(error) => {
                tracing::warn!("{error}");
                self.meters.commit_failures.increment(1);
                self.emit(&ConsumerEvent::CommitFailed { offsets, error });
            }
        }
    }

    /// A delivery of these records.
    pub(super) fn delivery(&self, records: &Records, attempt: u64) -> (Delivery, Acknowledged) {
        let is_manual = matches!(self.settings.ack_mode, AckMode::Manual | AckMode::ManualImmediate);
        let acknowledged = is_manual.then(Arc::default);
        let records: SmallVec<[Arc<Record>; 1]> = match self.settings.delivery_attempt_header {
            false => records.iter().cloned().collect(),
            true => records.iter().map(|record| Arc::new(with_attempt(record, attempt))).collect(),
        };
        (Delivery { records, attempt, acknowledged: acknowledged.clone() }, acknowledged)
    }

    /// An execution begins. Gives when, and the span that it is to run in.
    pub(super) fn execution_started(&mut self, records: &Records, attempt: u64) -> (Instant, Span) {
        self.emit(&ConsumerEvent::ExecutionStarted { records, attempt });
        let span = match records.first() {
            Some(first) => tracing::debug_span!(
                "execution",
                topic = &*first.topic,
                partition = first.partition,
                offset = first.offset,
                records = records.len(),
                attempt
            ),
            None => Span::none(),
        };
        (Instant::now(), span)
    }

    /// It ended.
    pub(super) fn execution_ended(
        &mut self,
        records: &Records,
        attempt: u64,
        began: Instant,
        result: &Result<(), WorkError>,
        stale: bool,
    ) {
        self.meters.execution_time.record(began.elapsed().as_secs_f64());
        match result {
            Ok(()) => {
                self.meters.succeeded.increment(1);
                self.emit(&ConsumerEvent::Succeeded { records, attempt, stale });
            }
            Err(WorkError { failure, index }) => {
                self.meters.failed.increment(1);
                self.emit(&ConsumerEvent::Failed { records, attempt, failure, index: *index, stale });
            }
        }
    }

    /// An execution has run longer than it should.
    pub(super) fn over_budget(&mut self, records: &Records, began: Instant, budget: Duration) {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (ran_ms, budget_ms) = (ms(began.elapsed()), ms(budget));
        if let Some(record) = records.first() {
            let (topic, partition, offset) = (&*record.topic, record.partition, record.offset);
            tracing::warn!(topic, partition, offset, ran_ms, "an execution outlives its budget of {budget_ms} ms");
        }
        self.meters.over_budget.increment(1);
        self.emit(&ConsumerEvent::OverBudget { records, ran_ms, budget_ms });
    }

    /// What followed from a failure is known.
    pub(super) fn decided(&mut self, record: &Arc<Record>, after: AfterFailure) {
        let AfterFailure { retryable, back_off_restarted, wait_ms, spent } = after;
        if let Some(wait_ms) = wait_ms {
            self.meters.waits.record(Duration::from_millis(wait_ms).as_secs_f64());
        }
        self.emit(&ConsumerEvent::Decided { record, retryable, back_off_restarted, wait_ms, spent });
    }

    /// A record is given up.
    pub(super) fn recovered(&mut self, record: &Arc<Record>, recovered: &Recovered, failure: &Failure) {
        self.meters.dead_letters.increment(1);
        self.emit(&ConsumerEvent::Recovered { record, recovered, failure });
    }

    /// A record could not be given up.
    pub(super) fn recovery_failed(&mut self, record: &Arc<Record>, error: &RecoverError, after: AfterRecoveryFailure) {
        let AfterRecoveryFailure { tries, alarm, .. } = after;
        let (topic, partition, offset) = (&*record.topic, record.partition, record.offset);
        if alarm {
            tracing::error!(topic, partition, offset, tries, "a record cannot be given up: {error}");
        } else {
            tracing::warn!(topic, partition, offset, tries, "a record could not be given up: {error}");
        }
        self.meters.recovery_failures.increment(1);
        self.emit(&ConsumerEvent::RecoveryFailed { record, error, tries, alarm });
    }

    /// Takes over what the execution acknowledged, by the ack mode, in `offsets`. Gives whether to commit at once.
    pub(super) fn acknowledge(
        &mut self,
        acknowledged: &Acknowledged,
        offsets: impl IntoIterator<Item = (TopicPartition, i64)>,
    ) -> bool {
        if acknowledged.as_ref().is_some_and(|acknowledged| !acknowledged.load(Ordering::Acquire)) {
            return false;
        }
        self.acks.extend(offsets);
        matches!(self.settings.ack_mode, AckMode::Record | AckMode::ManualImmediate)
    }
}

/// Polls a future once: most are over before anything else is due, and nothing has to be set up for them.
pub(super) async fn poll_once<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

fn with_attempt(record: &Record, attempt: u64) -> Record {
    let mut copy = record.clone();
    copy.headers.retain(|(name, _)| name != headers::DELIVERY_ATTEMPT);
    let attempt = i32::try_from(attempt).unwrap_or(i32::MAX);
    copy.headers.push((headers::DELIVERY_ATTEMPT.to_owned(), attempt.to_be_bytes().to_vec()));
    copy
}
