//! A consumer group: who is in it, who has which partition, and what was committed.
//!
//! The classic protocol with eager rebalances (facts/client.md D6, Y2): when a member comes, goes, or lets its poll
//! interval pass, the others give up their partitions at their next poll and join again; when all have, or after the
//! longest poll interval among them, those who joined get the partitions. A member that does not poll is not
//! interrupted: it learns at its next poll that its partitions are another's.
//!
//! Nothing here waits. Whatever looks at the group first lets happen what was due by then, and one task for each group
//! looks when something is due and nobody else does.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::record::TopicPartition;
use crate::source::memory::assignor::range;
use crate::source::memory::settings::{GroupCounters, limit};
use crate::source::{CommitError, SourceError};

/// How many partitions a topic has.
type Partitions = dyn Fn(&str) -> i32 + Send + Sync;

/// A group.
pub(super) struct Group {
    /// Wakes the task that looks when something is due.
    alarm: Arc<Notify>,
    state: Mutex<State>,
}

/// What to know of a consumer that joins.
#[derive(Debug, Clone)]
pub(super) struct Joining {
    pub(super) instance: Option<Arc<str>>,
    pub(super) topics: Arc<[Arc<str>]>,
    pub(super) max_poll_interval: Duration,
    pub(super) session_timeout: Duration,
    pub(super) wake: Arc<Notify>,
}

/// A consumer's place in the group. A static member that comes back gets the same id with another incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Membership {
    id: u64,
    incarnation: u64,
}

/// What a poll is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is not a member (any more).
    NotAMember,
    /// Another consumer has its instance id.
    Fenced,
    /// The group rebalances; the partitions are to be given up before the member joins again.
    GiveUp,
    /// It has joined and waits for the others.
    WaitForOthers,
    /// It has what this generation gave it.
    Stable(i32),
}

struct State {
    phase: Phase,
    members: BTreeMap<u64, Member>,
    next_member: u64,
    /// When a member may have to be looked at; it may be too early, never too late. One entry for each member.
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    committed: HashMap<TopicPartition, i64>,
    counters: GroupCounters,
    partitions: Arc<Partitions>,
    initial_delay: Duration,
    max_members: usize,
    has_task: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nobody is in it.
    Empty,
    /// Members join. Not over before `earliest`; at `latest` those who have not joined are out.
    Rebalancing { earliest: Instant, latest: Instant },
    /// Everybody has partitions.
    Stable,
}

struct Member {
    joining: Joining,
    incarnation: u64,
    /// Has joined the rebalance that goes on.
    joined: bool,
    /// Waits in a poll, which keeps it in the group.
    polling: bool,
    last_poll: Instant,
    /// A static member that let its poll interval pass: it is in the group, but has to join again.
    overdue: bool,
    /// Its heartbeats have ended; it is out at this time.
    session_ends: Option<Instant>,
    assigned: Vec<TopicPartition>,
}

impl Group {
    pub(super) fn new(partitions: Arc<Partitions>, initial_delay: Duration, max_members: usize) -> Self {
        let state = State {
            phase: Phase::Empty,
            members: BTreeMap::new(),
            next_member: 0,
            due: BinaryHeap::new(),
            committed: HashMap::new(),
            counters: GroupCounters::default(),
            partitions,
            initial_delay,
            max_members,
            has_task: false,
        };
        Self { alarm: Arc::default(), state: Mutex::new(state) }
    }

    /// The state as it is now, with everything done that was due.
    fn lock(&self) -> (MutexGuard<'_, State>, Instant) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.catch_up(now);
        (state, now)
    }

    /// Makes a consumer a member, or gives a static member its place back. The group rebalances, unless it is a place
    /// that was kept.
    pub(super) fn join(self: &Arc<Self>, joining: &Joining) -> Result<Membership, SourceError> {
        let (mut state, now) = self.lock();
        if !state.has_task {
            state.has_task = true;
            tokio::spawn(look_when_due(Arc::downgrade(self), Arc::clone(&self.alarm)));
        }
        let membership = state.join(joining, now)?;
        state.catch_up(now);
        drop(state);
        self.alarm.notify_one();
        Ok(membership)
    }

    /// What a poll of this member is to do; its poll interval begins anew. `holds` says whether it has partitions to
    /// give up.
    pub(super) fn step(&self, membership: Membership, holds: bool) -> Step {
        let (mut state, now) = self.lock();
        let rebalancing = matches!(state.phase, Phase::Rebalancing { .. });
        let Some(member) = state.members.get_mut(&membership.id) else { return Step::NotAMember };
        if member.incarnation != membership.incarnation {
            return Step::Fenced;
        }
        member.last_poll = now;
        if member.overdue {
            if holds {
                return Step::NotAMember;
            }
            member.overdue = false;
            member.session_ends = None;
        }
        if !rebalancing {
            return Step::Stable(state.counters.generation);
        }
        if !member.joined {
            if holds {
                return Step::GiveUp;
            }
            member.joined = true;
            state.catch_up(now);
            if state.phase == Phase::Stable {
                return Step::Stable(state.counters.generation);
            }
        }
        Step::WaitForOthers
    }

    /// The member waits in a poll, or does so no more: its poll interval begins when it stops.
    pub(super) fn set_polling(&self, membership: Membership, polling: bool) {
        let (mut state, now) = self.lock();
        if let Some(member) = state.member(membership) {
            member.polling = polling;
            member.last_poll = now;
        }
    }

    /// The partitions that the present generation gave the member.
    pub(super) fn assigned(&self, membership: Membership) -> Vec<TopicPartition> {
        let (mut state, _) = self.lock();
        state.member(membership).map(|member| member.assigned.clone()).unwrap_or_default()
    }

    /// The member leaves at once.
    pub(super) fn leave(&self, membership: Membership) {
        let (mut state, now) = self.lock();
        if state.member(membership).is_some() {
            state.remove(membership.id, now);
            state.catch_up(now);
        }
        drop(state);
        self.alarm.notify_one();
    }

    /// The member is gone without a word: it is out when its session is over.
    pub(super) fn crash(&self, membership: Membership) {
        let (mut state, now) = self.lock();
        if let Some(member) = state.member(membership) {
            member.polling = false;
            let ends = now + member.joining.session_timeout;
            member.session_ends = Some(member.session_ends.map_or(ends, |before| before.min(ends)));
            let due = Reverse((ends, membership.id));
            state.due.push(due);
        }
        drop(state);
        self.alarm.notify_one();
    }

    /// Stores offsets for a member of this generation.
    pub(super) fn commit(
        &self,
        membership: Option<Membership>,
        generation: i32,
        offsets: &[(TopicPartition, i64)],
    ) -> Result<(), CommitError> {
        let (mut state, _) = self.lock();
        let is_current = state.counters.generation == generation;
        let member = membership.and_then(|membership| state.member(membership));
        if !is_current || member.is_none_or(|member| member.overdue) {
            state.counters.commits_failed += 1;
            return Err(CommitError::CommitFailed);
        }
        state.committed.extend(offsets.iter().cloned());
        Ok(())
    }

    pub(super) fn committed(&self, partition: &TopicPartition) -> Option<i64> {
        self.lock().0.committed.get(partition).copied()
    }

    pub(super) fn counters(&self) -> GroupCounters {
        let state = self.lock().0;
        GroupCounters { members: state.members.len(), ..state.counters }
    }
}

impl State {
    fn member(&mut self, membership: Membership) -> Option<&mut Member> {
        self.members.get_mut(&membership.id).filter(|member| member.incarnation == membership.incarnation)
    }

    fn join(&mut self, joining: &Joining, now: Instant) -> Result<Membership, SourceError> {
        if let Some(instance) = &joining.instance {
            let kept = self.members.iter_mut().find(|(_, member)| member.joining.instance.as_ref() == Some(instance));
            if let Some((id, member)) = kept {
                member.joining.wake.notify_one();
                member.joining = joining.clone();
                member.incarnation += 1;
                member.overdue = false;
                member.session_ends = None;
                member.polling = false;
                member.last_poll = now;
                member.joined = true;
                return Ok(Membership { id: *id, incarnation: member.incarnation });
            }
        }
        if self.members.len() >= self.max_members {
            self.counters.members_refused += 1;
            return Err(limit("members of the group", self.max_members));
        }
        let id = self.next_member;
        self.next_member += 1;
        let member = Member {
            joining: joining.clone(),
            incarnation: 0,
            joined: false,
            polling: false,
            last_poll: now,
            overdue: false,
            session_ends: None,
            assigned: Vec::new(),
        };
        self.due.push(Reverse((now + joining.max_poll_interval, id)));
        self.members.insert(id, member);
        self.rebalance(now);
        if let Some(member) = self.members.get_mut(&id) {
            member.joined = true;
        }
        Ok(Membership { id, incarnation: 0 })
    }

    /// Begins a rebalance, unless one goes on.
    fn rebalance(&mut self, now: Instant) {
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            return;
        }
        if matches!(self.phase, Phase::Rebalancing { .. }) {
            return;
        }
        let delay = if self.phase == Phase::Empty { self.initial_delay } else { Duration::ZERO };
        let longest = self.members.values().map(|member| member.joining.max_poll_interval).max().unwrap_or_default();
        self.phase = Phase::Rebalancing { earliest: now + delay, latest: now + longest.max(delay) };
        for member in self.members.values_mut() {
            member.joined = false;
            member.joining.wake.notify_one();
        }
    }

    fn remove(&mut self, id: u64, now: Instant) {
        self.members.remove(&id);
        self.rebalance(now);
    }

    /// Lets happen what was due by now.
    fn catch_up(&mut self, now: Instant) {
        while let Some(Reverse((at, id))) = self.due.peek().copied()
            && at <= now
        {
            self.due.pop();
            if let Some(next) = self.look_at(id, now) {
                self.due.push(Reverse((next, id)));
            }
        }
        if let Phase::Rebalancing { earliest, latest } = self.phase {
            let is_late = now >= latest;
            if is_late {
                self.members.retain(|_, member| member.joined || member.joining.instance.is_some());
            }
            let all_joined = self.members.values().all(|member| member.joined);
            if now >= earliest && (all_joined || is_late) {
                self.complete();
            }
        }
    }

    /// Whether the member's session or poll interval is over; gives when to look again.
    fn look_at(&mut self, id: u64, now: Instant) -> Option<Instant> {
        let member = self.members.get_mut(&id)?;
        let interval = member.joining.max_poll_interval;
        match member.session_ends {
            Some(ends) if ends <= now => {
                self.counters.sessions_expired += 1;
                self.remove(id, now);
                None
            }
            Some(ends) => Some(ends),
            // Its interval begins when it leaves the poll.
            None if member.polling => Some(now + interval),
            None if member.last_poll + interval > now => Some(member.last_poll + interval),
            None => {
                self.counters.poll_intervals_exceeded += 1;
                if member.joining.instance.is_none() {
                    self.remove(id, now);
                    return None;
                }
                member.overdue = true;
                let ends = member.last_poll + interval + member.joining.session_timeout;
                member.session_ends = Some(ends);
                Some(ends)
            }
        }
    }

    /// Ends the rebalance: partitions for everybody in it.
    fn complete(&mut self) {
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            return;
        }
        self.phase = Phase::Stable;
        self.counters.generation += 1;
        let topics: Vec<_> = self.members.values().map(|member| Arc::clone(&member.joining.topics)).collect();
        let assigned = range(&topics, &*self.partitions);
        for (member, assigned) in self.members.values_mut().zip(assigned) {
            member.assigned = assigned;
            member.joining.wake.notify_one();
        }
    }

    /// When something is due next.
    fn next_due(&self) -> Option<Instant> {
        let member = self.due.peek().map(|Reverse((at, _))| *at);
        let phase = match self.phase {
            Phase::Rebalancing { earliest, latest } => {
                let all_joined = self.members.values().all(|member| member.joined);
                Some(if all_joined { earliest } else { latest })
            }
            Phase::Empty | Phase::Stable => None,
        };
        [member, phase].into_iter().flatten().min()
    }
}

/// Looks at the group when something is due, for as long as the group is there.
async fn look_when_due(group: Weak<Group>, alarm: Arc<Notify>) {
    loop {
        let Some(due) = group.upgrade().map(|group| group.lock().0.next_due()) else { return };
        match due {
            Some(due) => {
                tokio::select! {
                    () = sleep_until(due) => {}
                    () = alarm.notified() => {}
                }
            }
            None => alarm.notified().await,
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.alarm.notify_one();
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").finish_non_exhaustive()
    }
}
