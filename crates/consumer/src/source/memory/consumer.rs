//! A consumer of in-memory topics.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::record::TopicPartition;
use crate::source::memory::group::{Group, Joining, Membership, Step};
use crate::source::memory::settings::OffsetReset;
use crate::source::memory::topic::Topic;
use crate::source::{CommitError, PartitionRecords, Polled, Source, SourceError};

/// A member of a group that reads in-memory topics. Made by [`Broker::consumer`](super::Broker::consumer).
///
/// Dropped, it is to its group a consumer that crashed: its partitions move when its session has run out. Use
/// [`Source::close`] to leave at once.
#[derive(Debug)]
pub struct MemoryConsumer {
    group: Arc<Group>,
    topics: Vec<Arc<Topic>>,
    joining: Joining,
    offset_reset: OffsetReset,
    membership: Option<Membership>,
    generation: i32,
    partitions: Vec<Assigned>,
    /// Where the next poll begins to look for records, so that no partition is forgotten.
    next: usize,
}

#[derive(Debug)]
struct Assigned {
    partition: TopicPartition,
    topic: Arc<Topic>,
    position: i64,
    paused: bool,
}

/// Keeps the member polling, and ends that also when the poll is dropped.
struct Polling<'a> {
    group: &'a Group,
    membership: Membership,
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.group.set_polling(self.membership, false);
    }
}

/// No generation: never equal to one of a group.
const NO_GENERATION: i32 = -1;

impl MemoryConsumer {
    pub(super) fn new(group: Arc<Group>, topics: Vec<Arc<Topic>>, joining: Joining, offset_reset: OffsetReset) -> Self {
        Self {
            group,
            topics,
            joining,
            offset_reset,
            membership: None,
            generation: NO_GENERATION,
            partitions: Vec::new(),
            next: 0,
        }
    }

    fn give_up(&mut self) -> Vec<TopicPartition> {
        self.generation = NO_GENERATION;
        self.partitions.drain(..).map(|assigned| assigned.partition).collect()
    }

    /// What there is to say without waiting.
    fn look(&mut self, max_records: usize) -> Result<Option<Polled>, SourceError> {
        let Some(membership) = self.membership else {
            self.membership = Some(self.group.join(&self.joining)?);
            return self.look_as_member(max_records);
        };
        match self.group.step(membership, !self.partitions.is_empty()) {
            Step::NotAMember => {
                self.membership = None;
                if self.partitions.is_empty() {
                    self.membership = Some(self.group.join(&self.joining)?);
                    return self.look_as_member(max_records);
                }
                Ok(Some(Polled::Lost(self.give_up())))
            }
            step => self.follow(step, max_records),
        }
    }

    fn look_as_member(&mut self, max_records: usize) -> Result<Option<Polled>, SourceError> {
        let Some(membership) = self.membership else { return Ok(None) };
        let step = self.group.step(membership, false);
        self.follow(step, max_records)
    }

    fn follow(&mut self, step: Step, max_records: usize) -> Result<Option<Polled>, SourceError> {
        match step {
            Step::NotAMember | Step::WaitForOthers => Ok(None),
            Step::Fenced => {
                let instance = self.joining.instance.as_deref().unwrap_or_default().to_owned();
                Err(SourceError::Fenced { instance })
            }
            Step::GiveUp => {
                let partitions = self.partitions.iter().map(|assigned| assigned.partition.clone()).collect();
                // What the next poll gives up is no longer held; a commit until then is of the old generation.
                self.partitions.clear();
                Ok(Some(Polled::Revoking(partitions)))
            }
            Step::Stable(generation) if generation != self.generation => self.take(generation).map(Some),
            Step::Stable(_) => Ok(self.fetch(max_records).map(Polled::Records)),
        }
    }

    /// Takes over what the generation gave it.
    fn take(&mut self, generation: i32) -> Result<Polled, SourceError> {
        let assigned = self.membership.map(|membership| self.group.assigned(membership)).unwrap_or_default();
        let mut partitions = Vec::with_capacity(assigned.len());
        for partition in &assigned {
            let Some(topic) = self.topics.iter().find(|topic| topic.name == partition.topic) else { continue };
            let Some(log) = topic.partition(partition.partition) else { continue };
            let position = log.lock().position(self.group.committed(partition), self.offset_reset);
            let position = position.ok_or_else(|| SourceError::NoOffset(partition.clone()))?;
            let topic = Arc::clone(topic);
            partitions.push(Assigned { partition: partition.clone(), topic, position, paused: false });
        }
        self.partitions = partitions;
        self.generation = generation;
        self.next = 0;
        Ok(Polled::Assigned(assigned))
    }

    fn fetch(&mut self, max_records: usize) -> Option<Vec<PartitionRecords>> {
        let count = self.partitions.len();
        let mut batches = Vec::new();
        let mut left = max_records;
        for step in 0..count {
            if left == 0 {
                break;
            }
            let index = (self.next + step) % count;
            let Some(assigned) = self.partitions.get_mut(index).filter(|assigned| !assigned.paused) else { continue };
            let Some(log) = assigned.topic.partition(assigned.partition.partition) else { continue };
            let records = log.lock().read(assigned.position, left);
            if let Some(last) = records.last() {
                assigned.position = last.offset + 1;
                left -= records.len();
                batches.push((index, PartitionRecords { partition: assigned.partition.clone(), records }));
            }
        }
        // A partition that filled the poll may have more: the next one has its turn first.
        self.next = batches.last().map(|(index, _)| (index + 1) % count)?;
        Some(batches.into_iter().map(|(_, batch)| batch).collect())
    }

    /// Asks to be woken at the next record; false: there is one already.
    fn wait_for_records(&self) -> bool {
        self.partitions.iter().filter(|assigned| !assigned.paused).all(|assigned| {
            let Some(log) = assigned.topic.partition(assigned.partition.partition) else { return true };
            let mut log = log.lock();
            log.wait(&self.joining.wake);
            !log.has(assigned.position)
        })
    }

    fn find(&mut self, partition: &TopicPartition) -> Result<&mut Assigned, SourceError> {
        self.partitions
            .iter_mut()
            .find(|assigned| assigned.partition == *partition)
            .ok_or_else(|| SourceError::NotAssigned(partition.clone()))
    }

    fn set_paused(&mut self, partitions: &[TopicPartition], paused: bool) -> Result<(), SourceError> {
        partitions.iter().try_for_each(|partition| self.find(partition).map(|assigned| assigned.paused = paused))
    }
}

impl Source for MemoryConsumer {
    async fn poll(&mut self, timeout: Duration, max_records: usize) -> Result<Polled, SourceError> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(polled) = self.look(max_records)? {
                return Ok(polled);
            }
            if Instant::now() >= until {
                return Ok(Polled::Nothing);
            }
            if !self.wait_for_records() {
                continue;
            }
            let Some(membership) = self.membership else { continue };
            self.group.set_polling(membership, true);
            let polling = Polling { group: &self.group, membership };
            tokio::select! {
                biased;
                () = self.joining.wake.notified() => {}
                () = sleep_until(until) => {}
            }
            drop(polling);
        }
    }

    async fn commit(&mut self, offsets: &[(TopicPartition, i64)]) -> Result<(), CommitError> {
        self.group.commit(self.membership, self.generation, offsets)
    }

    async fn seek(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), SourceError> {
        self.find(partition)?.position = offset;
        Ok(())
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), SourceError> {
        self.set_paused(partitions, true)
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), SourceError> {
        self.set_paused(partitions, false)
    }

    fn assignment(&self) -> Vec<TopicPartition> {
        self.partitions.iter().map(|assigned| assigned.partition.clone()).collect()
    }

    fn lag(&self, partition: &TopicPartition) -> Option<u64> {
        let assigned = self.partitions.iter().find(|assigned| assigned.partition == *partition)?;
        let end = assigned.topic.partition(partition.partition)?.lock().end();
        Some(end.saturating_sub(assigned.position).max(0).unsigned_abs())
    }

    fn max_poll_interval(&self) -> Duration {
        self.joining.max_poll_interval
    }

    async fn close(mut self) -> Result<(), SourceError> {
        if let Some(membership) = self.membership.take() {
            self.group.leave(membership);
        }
        Ok(())
    }
}

impl Drop for MemoryConsumer {
    fn drop(&mut self) {
        if let Some(membership) = self.membership {
            self.group.crash(membership);
        }
    }
}

/// The wake-up of one consumer.
pub(super) fn wake() -> Arc<Notify> {
    Arc::new(Notify::new())
}
