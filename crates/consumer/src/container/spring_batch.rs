//! Batches by Spring Kafka's rules: a failed record that the work names, or the whole batch again.
//!
//! Sources: `FailedBatchProcessor`, `FallbackBatchErrorHandler`, `ErrorHandlingUtils.retryBatch` (facts/client.md D4).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::container::ContainerError;
use crate::container::spring::{Item, Thread};
use crate::dead_letters::Recoverer;
use crate::failure::Failure;
use crate::observer::Observer;
use crate::record::{Record, TopicPartition};
use crate::retry_state::{RetrySettings, Turn};
use crate::source::Source;
use crate::spring_kafka::BatchRetryPolls;
use crate::work::{Work, WorkError};

/// Between two polls of a wait.
const SLICE: Duration = Duration::from_millis(100);

/// The offsets behind these records.
fn behind(items: &[Item]) -> BTreeMap<TopicPartition, i64> {
    items.iter().map(|(partition, record)| (partition.clone(), record.offset + 1)).collect()
}

/// Runs the work on a batch and handles its failure.
pub(super) async fn invoke<S: Source, W: Work, D: Recoverer, O: Observer>(
    thread: &mut Thread<'_, S, W, D, O>,
    items: Vec<Item>,
) -> Result<(), ContainerError> {
    let records: Vec<Arc<Record>> = items.iter().map(|(_, record)| Arc::clone(record)).collect();
    let attempt = items.first().map_or(1, |(partition, record)| thread.attempt(partition, record.offset));
    let (result, acknowledged) = thread.execute(&records, attempt).await;
    match result {
        Ok(()) => {
            thread.core.acknowledge(&acknowledged, behind(&items));
            // A batch commits at once (`doInvokeBatchListener`); a refusal is told and the next poll rejoins.
            let _ = thread.core.commit_acks().await;
            Ok(())
        }
        Err(WorkError { failure, index: Some(index) }) if index < items.len() => {
            failed_at(thread, &items, index, &failure).await
        }
        Err(WorkError { failure, .. }) => again(thread, &items, &records, failure).await,
    }
}

/// The record at `index` failed: those before it are committed, the others come again.
async fn failed_at<S: Source, W: Work, D: Recoverer, O: Observer>(
    thread: &mut Thread<'_, S, W, D, O>,
    items: &[Item],
    index: usize,
    failure: &Failure,
) -> Result<(), ContainerError> {
    let (done, rest) = items.split_at(index);
    let Some(((partition, record), behind_failed)) = rest.split_first() else { return Ok(()) };
    if !done.is_empty() {
        let offsets: Vec<_> = behind(done).into_iter().collect();
        let _ = thread.core.commit(&offsets).await;
    }
    let recovered = thread.track(partition, record, failure).await?;
    let left = if recovered { behind_failed } else { rest };
    if !thread.mode.keep_records {
        thread.seek_to_first(left.iter()).await;
        if recovered {
            let _ = thread.core.commit(&[(partition.clone(), record.offset + 1)]).await;
        }
        return Ok(());
    }
    if recovered {
        thread.core.acks.insert(partition.clone(), record.offset + 1);
    }
    thread.remaining = left.iter().cloned().collect();
    thread.pause_for_pending = !left.is_empty();
    Ok(())
}

/// The whole batch again, with all partitions paused, until it succeeds or its retries are spent.
async fn again<S: Source, W: Work, D: Recoverer, O: Observer>(
    thread: &mut Thread<'_, S, W, D, O>,
    items: &[Item],
    records: &[Arc<Record>],
    failure: Failure,
) -> Result<(), ContainerError> {
    let assigned = thread.core.source.assignment();
    thread.core.source.pause(&assigned)?;
    thread.retrying = true;
    let done = retry(thread, records, failure).await;
    thread.retrying = false;
    let assigned = thread.core.source.assignment();
    thread.core.source.resume(&assigned)?;
    match done? {
        Retried::Done => thread.core.acks.extend(behind(items)),
        Retried::NotRecovered => thread.seek_to_first(items.iter()).await,
        Retried::Stopped => {}
    }
    Ok(())
}

enum Retried {
    /// It succeeded, or all its records are given up.
    Done,
    /// Some record could not be given up: all of them come again, also those that were.
    NotRecovered,
    /// The container is to stop.
    Stopped,
}

async fn retry<S: Source, W: Work, D: Recoverer, O: Observer>(
    thread: &mut Thread<'_, S, W, D, O>,
    records: &[Arc<Record>],
    mut failure: Failure,
) -> Result<Retried, ContainerError> {
    let Some(first) = records.first() else { return Ok(Retried::Done) };
    let version = thread.mode.version;
    let settings = RetrySettings {
        reset_on_exception_change: thread.mode.batch_reset_on_exception_change,
        reclassify: version.batch_reclassifies,
        ..thread.core.settings.retry.clone()
    };
    let mut state = thread.core.retry_state(Some(settings), Instant::now())?;
    let mut is_first = true;
    loop {
        match state.turn() {
            Some(Turn::Execute(turn)) => {
                if !is_first {
                    let attempt = turn.attempt();
                    match thread.execute(records, attempt).await.0 {
                        Ok(()) => return Ok(Retried::Done),
                        Err(error) => failure = error.failure,
                    }
                }
                is_first = false;
                let after = turn.failed(&failure, thread.core.now());
                thread.core.decided(first, after);
            }
            Some(Turn::Wait(turn)) => {
                let wait = turn.until().saturating_sub(thread.core.now());
                turn.time(turn_over());
                thread.poll(Duration::ZERO).await?;
                let until = Instant::now() + wait;
                sleep(thread, until, version.batch_retry_polls == BatchRetryPolls::WhileWaiting).await?;
                if thread.core.stop.is_requested() {
                    return Ok(Retried::Stopped);
                }
                if version.batch_retry_polls != BatchRetryPolls::BeforeWait {
                    thread.poll(Duration::ZERO).await?;
                }
            }
            Some(Turn::Recover(turn)) => {
                let spent = turn.spent();
                for record in records {
                    match thread.recoverer.recover(record, &failure, spent).await {
                        Ok(place) => thread.core.recovered(record, &place, &failure),
                        Err(error) => {
                            let after = turn.failed(thread.core.now());
                            thread.core.recovery_failed(record, &error, after);
                            return Ok(Retried::NotRecovered);
                        }
                    }
                }
                return Ok(Retried::Done);
            }
            // By Spring's rules there is no terminal state, and a batch that is done has returned.
            Some(Turn::Terminal(_)) | None => return Ok(Retried::Done),
        }
    }
}

/// A time by which any wait is over: the thread waits by itself.
fn turn_over() -> Duration {
    Duration::MAX
}

/// Sleeps, with polls from the second slice on where the version has them.
async fn sleep<S: Source, W: Work, D: Recoverer, O: Observer>(
    thread: &mut Thread<'_, S, W, D, O>,
    until: Instant,
    polls: bool,
) -> Result<(), ContainerError> {
    if polls {
        let mut is_first = true;
        while Instant::now() + SLICE < until && !thread.core.stop.is_requested() {
            thread.sleep(Instant::now() + SLICE).await;
            if !is_first {
                thread.poll(Duration::ZERO).await?;
            }
            is_first = false;
        }
    }
    thread.sleep(until).await;
    Ok(())
}
