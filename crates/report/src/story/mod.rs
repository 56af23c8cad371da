//! What a recording tells: its numbers, how they changed over time, and each logical write from its first execution to its last
//! copy.
//!
//! Everything that is counted is counted by the ledger. What is told beyond that is put together here, once, and drawn in
//! different ways by the formats.

pub mod measured;
pub mod state;
pub mod steps;
pub mod told;
pub mod write;

use std::collections::BTreeMap;

use backfire_model::OpId;
use backfire_model::counts::{Counts, Difference, Extras};
use backfire_model::event::{ClientEvent, ServerEvent, Wait, What};
use backfire_model::ledger::Ledger;
use serde::Serialize;

use crate::group::{Group, group};
use crate::input::Recording;
use measured::{Measured, More};
use steps::Steps;
use told::{Told, Who};
use write::{Fate, Teller, WriteStory};

/// More writes than this are not drawn.
pub const WRITES_MAX: usize = 10_000;
/// Of the writes that are drawn, no more sends than this are.
pub const SENDS_MAX: usize = 200_000;
/// More events than this are not listed.
pub const EVENTS_MAX: usize = 1_000;
/// More losses of partitions than this are not marked in the chart.
pub const LOSSES_MAX: usize = 500;

/// How many numbers change over time: see [`Story::over_time`].
pub const SERIES: usize = 4;

/// What a recording tells.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// The time of the last event.
    pub duration_ms: u64,
    /// What was counted, of all writes.
    pub measured: Measured,
    /// What else was counted, of all writes.
    pub more: More,
    /// The most copies of one write at the same instant.
    pub copies_of_one_max: u64,
    /// The most executions, sends and copies of one write.
    pub most_of_one: [u64; 3],
    /// How many logical writes there are.
    pub writes_total: u64,
    /// How many writes had each fate, in the order of [`Fate::ALL`].
    pub fates: [u64; Fate::ALL.len()],
    /// The writes that are drawn, in the order in which they began: all of them, or those with the most events.
    pub writes: Vec<WriteStory>,
    /// Sends of the drawn writes that are not drawn, because there are too many.
    pub sends_left_out: u64,
    /// Over time: copies running, operations at the server, of these waiting for a session, and for a ticket.
    pub over_time: Steps<SERIES>,
    /// The events of the drawn writes in order, at most [`EVENTS_MAX`].
    pub events: Vec<Line>,
    /// How many events the drawn writes have.
    pub events_of_writes: u64,
    /// What happened between consumers and their group.
    pub group: GroupCounts,
    /// How many events that were.
    pub events_of_group: u64,
    /// When consumers lost their partitions; at most [`LOSSES_MAX`].
    pub losses_ms: Vec<u64>,
}

/// How often something happened between consumers and their group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct GroupCounts {
    /// A consumer got partitions.
    pub assignments: u64,
    /// A consumer gave partitions up, with its work committed.
    pub revocations: u64,
    /// A consumer was out of its group without knowing, because it had not polled in time.
    pub losses: u64,
    /// Offsets could not be committed.
    pub commits_failed: u64,
}

/// An event in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When.
    pub at_ms: u64,
    /// Of which write, as an index into the drawn ones; `None`: it is about a consumer and its group.
    pub write: Option<usize>,
    /// What.
    pub told: Told,
}

impl Story {
    /// Reads a recording's events.
    pub fn of(recording: &Recording) -> Self {
        let times_ms: Vec<u64> = recording.times().collect();
        let (ledger, over_time, waiting_resends) = count(recording, &times_ms);
        let groups = group(&recording.events, &ledger);
        let mut story = Story {
            duration_ms: times_ms.last().copied().unwrap_or(0),
            writes_total: groups.len() as u64,
            over_time,
            ..Story::default()
        };
        let late_copies = story.tell(recording, &groups, &times_ms);
        let known = recording.context.measured.filter(|known| {
            // Numbers of another run say nothing about this one.
            let counts = ledger.counts(known.waiting_resends, known.documents);
            counts == *known
        });
        let waiting_resends = known.map_or(waiting_resends, |counts| counts.waiting_resends);
        let mut extras = ledger.extras();
        if story.writes_total > 1 {
            // Which of two copies is the older one can be said within one write only.
            extras.late_copies = Some(late_copies);
        }
        story.measured = Measured::of(ledger.counts(waiting_resends, 0), extras, known.map(|counts| counts.documents));
        story
    }

    /// Tells the writes, and keeps those that are drawn. Returns how many late copies there are in all.
    fn tell(&mut self, recording: &Recording, groups: &[Group], times_ms: &[u64]) -> u64 {
        let drawn = chosen(groups);
        let told_before = told_before(groups, &drawn);
        let mut late_copies = 0;
        let mut sends = 0;
        let mut lines = Vec::new();
        for (group, is_drawn) in groups.iter().zip(&drawn) {
            let before = if *is_drawn { told_before } else { 0 };
            let (mut write, told) = Teller::tell(group, recording, times_ms, before);
            late_copies += write.measured.extras.late_copies.unwrap_or(0);
            self.more += write.more;
            self.copies_of_one_max = self.copies_of_one_max.max(write.measured.overlapping_copies_max);
            self.fates[write.fate.number()] += 1;
            let of_this = [write.measured.executions, write.measured.sends, write.measured.copies];
            for (most, number) in self.most_of_one.iter_mut().zip(of_this) {
                *most = number.max(*most);
            }
            if *is_drawn {
                let room = SENDS_MAX.saturating_sub(sends);
                self.sends_left_out += write.sends.len().saturating_sub(room) as u64;
                write.sends.truncate(room);
                sends += write.sends.len();
                self.events_of_writes += group.events.len() as u64;
                let number = self.writes.len();
                lines.extend(told.into_iter().map(|(at, told)| (at, Some(number), told)));
                self.writes.push(write);
            }
        }
        lines.extend(self.tell_group(recording, times_ms, told_before));
        // An event of several writes is listed with the first of them.
        lines.sort_by_key(|(at, write, _)| (*at, *write));
        lines.dedup_by_key(|(at, ..)| *at);
        let line = |(at, write, told): (u32, Option<usize>, Told)| {
            times_ms.get(at as usize).map(|at_ms| Line { at_ms: *at_ms, write, told })
        };
        self.events = lines.into_iter().take(EVENTS_MAX).filter_map(line).collect();
        late_copies
    }

    /// Counts what happens between consumers and their group, and tells what comes before `told_before`.
    fn tell_group(
        &mut self,
        recording: &Recording,
        times_ms: &[u64],
        told_before: u32,
    ) -> Vec<(u32, Option<usize>, Told)> {
        let mut lines = Vec::new();
        for ((event, at_ms), at) in recording.events.iter().zip(times_ms).zip(0..) {
            let What::Client(what) = &event.what else { continue };
            match what {
                ClientEvent::Assigned { .. } => self.group.assignments += 1,
                ClientEvent::Revoked { .. } => self.group.revocations += 1,
                ClientEvent::Lost { .. } => {
                    self.group.losses += 1;
                    if self.losses_ms.len() < LOSSES_MAX {
                        self.losses_ms.push(*at_ms);
                    }
                }
                ClientEvent::CommitFailed { .. } => self.group.commits_failed += 1,
                _ => continue,
            }
            if at < told_before && lines.len() < EVENTS_MAX {
                let text = told::of_group(what).unwrap_or_default();
                lines.push((at, None, Told { who: Who::Consumer(event.consumer), text }));
            }
        }
        self.events_of_group =
            self.group.assignments + self.group.revocations + self.group.losses + self.group.commits_failed;
        lines
    }

    /// Everything in which it differs from its prediction; `None` without one.
    pub fn differences(&self, recording: &Recording) -> Option<Vec<Difference>> {
        predicted(recording).map(|(counts, extras)| self.measured.differences((&counts, &extras)))
    }
}

/// The prediction of a recording, if it has one. Extras that are missing are *any*.
pub fn predicted(recording: &Recording) -> Option<(Counts, Extras)> {
    let counts = recording.context.predicted?;
    Some((counts, recording.context.extras.predicted.unwrap_or_default()))
}

/// Events of the writes that are drawn; a limit for the work, and for the size of what is drawn.
const EVENTS_DRAWN_MAX: usize = 2_000_000;

/// Which groups are drawn: those with the most events, the earlier first among equals.
fn chosen(groups: &[Group]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(groups[*at].events.len()));
    let mut drawn = vec![false; groups.len()];
    let mut events = 0;
    for (place, at) in order.into_iter().take(WRITES_MAX).enumerate() {
        events += groups[at].events.len();
        if place > 0 && events > EVENTS_DRAWN_MAX {
            break;
        }
        drawn[at] = true;
    }
    drawn
}

/// The event before which everything is listed, so that no more than [`EVENTS_MAX`] are.
fn told_before(groups: &[Group], drawn: &[bool]) -> u32 {
    let mut all: Vec<u32> =
        groups.iter().zip(drawn).filter(|(_, drawn)| **drawn).flat_map(|(group, _)| &group.events).copied().collect();
    all.sort_unstable();
    all.dedup();
    all.get(EVENTS_MAX).copied().unwrap_or(u32::MAX)
}

/// What an operation that counts is doing, as far as the numbers over time ask.
#[derive(Debug, Clone, Copy, Default)]
struct Waits {
    session: bool,
    ticket: bool,
}

/// Lets a ledger count everything. Returns it, the numbers over time, and the resends that waited after the client's last event, or
/// in a stream without a client the most that ever did.
fn count(recording: &Recording, times_ms: &[u64]) -> (Ledger, Steps<SERIES>, u64) {
    let mut ledger = Ledger::new(recording.context.namespace.clone());
    let mut over_time = Steps::default();
    let mut ops: BTreeMap<OpId, Waits> = BTreeMap::new();
    let [mut live, mut session, mut ticket] = [0_u64; 3];
    let last_of_client = recording.events.iter().rposition(|event| matches!(event.what, What::Client(_)));
    let mut waiting_resends = None;
    for (at, (event, at_ms)) in recording.events.iter().zip(times_ms).enumerate() {
        ledger.record(event);
        if let What::Server(event) = &event.what {
            let op = event.op();
            if matches!(event, ServerEvent::Arrived { .. }) && ledger.copy_of_op(op).is_some() {
                live += u64::from(ops.insert(op, Waits::default()).is_none());
            }
            if let Some(waits) = ops.get_mut(&op) {
                let before = *waits;
                match event {
                    ServerEvent::Waiting { wait: Wait::Session, .. } => waits.session = true,
                    ServerEvent::Resumed { wait: Wait::Session, .. } => waits.session = false,
                    ServerEvent::Waiting { wait: Wait::Ticket, .. } => waits.ticket = true,
                    ServerEvent::Resumed { wait: Wait::Ticket, .. } => waits.ticket = false,
                    ServerEvent::Ended { .. } => *waits = Waits::default(),
                    _ => {}
                }
                session = session + u64::from(waits.session) - u64::from(before.session);
                ticket = ticket + u64::from(waits.ticket) - u64::from(before.ticket);
                if matches!(event, ServerEvent::Ended { .. }) {
                    ops.remove(&op);
                    live -= 1;
                }
            }
        }
        over_time.push(*at_ms, [ledger.running_copies(), live, session, ticket]);
        if Some(at) == last_of_client {
            waiting_resends = Some(ledger.waiting_resends());
        }
    }
    let [_, _, session_max, _] = over_time.max();
    (ledger, over_time, waiting_resends.unwrap_or(session_max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use backfire_model::event::Outcome;

    fn story(what: impl IntoIterator<Item = What>) -> Story {
        Story::of(&Recording { events: sample::events(what), ..Recording::default() })
    }

    #[test]
    fn a_resend_waits_for_its_original() {
        let a = sample::write(1);
        let story = story([
            sample::started(1),
            sample::sent(1, a, 1, "db.c", 1),
            sample::arrival(1, a, 1, "insert", "db.c"),
            sample::executing(1, 1),
            sample::waiting(1, 1, Wait::EngineStall),
            sample::timed_out(1, a, 1),
            sample::sent(1, a, 2, "db.c", 2),
            sample::arrival(2, a, 2, "insert", "db.c"),
            sample::waiting(2, 1, Wait::Session),
            sample::timed_out(1, a, 2),
            sample::failed(1),
            sample::dead_letter(1),
            sample::resumed(1, 1, Wait::EngineStall),
            sample::committed(1, 1, 2),
            sample::ended(1, 1, Outcome::Ok, false),
            sample::resumed(2, 1, Wait::Session),
            sample::replayed(2, 1),
            sample::ended(2, 1, Outcome::Ok, false),
        ]);
        let m = story.measured;
        assert_eq!((m.executions, m.sends, m.resends, m.copies, m.overlapping_copies_max), (1, 2, 1, 1, 1));
        assert_eq!((m.waiting_resends, m.documents), (1, None));
        assert_eq!(story.more, More { documents_committed: 2, deserted: 2, unheard: 2 });
        let write = &story.writes[0];
        assert_eq!((write.fate, write.measured.waiting_resends), (Fate::DeadLetter, 1));
        let names: Vec<_> = write.sends.iter().map(|send| (send.name(), send.identity.as_str())).collect();
        assert_eq!(names, [("copy 1".into(), "A, 1"), ("resend of copy 1".into(), "A, 1")]);
        assert_eq!(story.over_time.max(), [1, 2, 1, 0]);
        let texts: Vec<_> = story.events.iter().map(|line| line.told.text.as_str()).collect();
        assert_eq!(texts[..3], ["starts", "sends insert (A, 1)", "insert arrives on connection 2, operation 1"]);
        assert_eq!(texts.len(), 18);
    }

    #[test]
    fn reads_have_a_row_when_they_are_held() {
        let held = Outcome::Error { code: 279, code_name: "ClientDisconnect".into() };
        let story = story([
            sample::arrived(1, 1, "insert", "db.c"),
            sample::executing(1, 1),
            sample::arrived(2, 2, "find", "db.c"),
            sample::executing(2, 2),
            sample::waiting(2, 2, Wait::InterruptibleStall),
            sample::ended(2, 2, held, false),
            sample::arrived(3, 3, "aggregate", "db.c"),
            sample::ended(3, 3, Outcome::Ok, true),
        ]);
        let names: Vec<_> = story.writes[0].sends.iter().map(|send| send.name()).collect();
        assert_eq!(names, ["copy 1", "find"]);
        assert_eq!((story.measured.sends, story.measured.extras.reads_ended_with_client), (1, Some(1)));
        assert_eq!(story.more.unheard, 0);
    }

    #[test]
    fn many_writes_are_counted_apart_and_together() {
        let recording = sample::many_writes(40, 200);
        let story = Story::of(&recording);
        assert_eq!((story.writes_total, story.writes.len()), (40, 40));
        let sum = |number: fn(&Measured) -> u64| story.writes.iter().map(|write| number(&write.measured)).sum::<u64>();
        assert_eq!(sum(|m| m.sends), story.measured.sends);
        assert_eq!(sum(|m| m.copies), story.measured.copies);
        assert_eq!(sum(|m| m.executions), story.measured.executions);
        assert_eq!(story.copies_of_one_max, 4);
        assert_eq!(story.writes[7].label, "record 3-1");
        assert!(story.measured.overlapping_copies_max > 100, "{}", story.measured.overlapping_copies_max);
        assert_eq!(story.fates.iter().sum::<u64>(), 40);
        assert_eq!(story.events.len(), EVENTS_MAX);
    }
}
