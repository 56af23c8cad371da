//! What an operation is doing at a moment, and what a send's life at the server consists of.

use backfire_model::event::Wait;

/// What an operation at the server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It was read from its connection and has not begun.
    Received,
    /// It works.
    Running,
    /// It waits.
    Waits(Wait),
}

impl State {
    /// All of them; a state's place in here is its number in the page's data.
    pub const ALL: [State; 9] = [
        State::Received,
        State::Running,
        State::Waits(Wait::FailPoint),
        State::Waits(Wait::Session),
        State::Waits(Wait::Ticket),
        State::Waits(Wait::Lock),
        State::Waits(Wait::WriteConflict),
        State::Waits(Wait::EngineStall),
        State::Waits(Wait::InterruptibleStall),
    ];

    /// Its place in [`State::ALL`].
    pub fn number(self) -> usize {
        Self::ALL.iter().position(|state| *state == self).unwrap_or_default()
    }

    /// One word, for style names.
    pub fn name(self) -> &'static str {
        match self {
            State::Received => "received",
            State::Running => "running",
            State::Waits(Wait::FailPoint) => "fail-point",
            State::Waits(Wait::Session) => "session",
            State::Waits(Wait::Ticket) => "ticket",
            State::Waits(Wait::Lock) => "lock",
            State::Waits(Wait::WriteConflict) => "conflict",
            State::Waits(Wait::EngineStall) => "engine-stall",
            State::Waits(Wait::InterruptibleStall) => "stall",
        }
    }

    /// What it is, in a few words that go with *for 30 s*.
    pub fn label(self) -> &'static str {
        match self {
            State::Received => "received",
            State::Running => "runs",
            State::Waits(Wait::FailPoint) => "held by the fail point",
            State::Waits(Wait::Session) => "waits for its session",
            State::Waits(Wait::Ticket) => "waits for a ticket",
            State::Waits(Wait::Lock) => "waits for a lock",
            State::Waits(Wait::WriteConflict) => "meets a write conflict",
            State::Waits(Wait::EngineStall) => "stands still in the engine",
            State::Waits(Wait::InterruptibleStall) => "stands still",
        }
    }
}

/// More segments of one send are drawn as this many.
pub const SEGMENTS_MAX: usize = 64;

/// The states of one operation over time.
#[derive(Debug, Clone, Default)]
pub struct Track {
    is_executing: bool,
    /// What it waits for, the newest last.
    waits: Vec<Wait>,
    segments: Vec<Segment>,
}

/// From when on an operation was in a state; until the next segment begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The state.
    pub state: State,
    /// From when on.
    pub from_ms: u64,
}

impl Track {
    /// It arrived.
    pub fn arrived(at_ms: u64) -> Self {
        let mut track = Self::default();
        track.note(at_ms);
        track
    }

    /// It began its statements.
    pub fn executing(&mut self, at_ms: u64) {
        self.is_executing = true;
        self.note(at_ms);
    }

    /// It began to wait.
    pub fn waiting(&mut self, at_ms: u64, wait: Wait) {
        // A stream that repeats itself must not grow this.
        if !self.waits.contains(&wait) {
            self.waits.push(wait);
        }
        self.note(at_ms);
    }

    /// A wait ended.
    pub fn resumed(&mut self, at_ms: u64, wait: Wait) {
        self.waits.retain(|other| *other != wait);
        self.note(at_ms);
    }

    /// Whether it waits for this, among others perhaps.
    pub fn waits_for(&self, wait: Wait) -> bool {
        self.waits.contains(&wait)
    }

    /// What it does now.
    pub fn state(&self) -> State {
        match self.waits.last() {
            Some(wait) => State::Waits(*wait),
            None if self.is_executing => State::Running,
            None => State::Received,
        }
    }

    fn note(&mut self, at_ms: u64) {
        let state = self.state();
        // A state that lasted for no time is not worth a segment.
        while self.segments.last().is_some_and(|last| last.from_ms == at_ms) {
            self.segments.pop();
        }
        if self.segments.last().is_none_or(|last| last.state != state) {
            self.segments.push(Segment { state, from_ms: at_ms });
        }
    }

    /// Its segments up to `to_ms`, at most [`SEGMENTS_MAX`]: where there are more, time is divided evenly and each part shows the
    /// state that fills most of it.
    pub fn segments(&self, to_ms: u64) -> Vec<Segment> {
        let (Some(first), true) = (self.segments.first(), self.segments.len() > SEGMENTS_MAX) else {
            return self.segments.clone();
        };
        let span_ms = to_ms.saturating_sub(first.from_ms).max(1);
        let part_ms = span_ms.div_ceil(SEGMENTS_MAX as u64);
        let mut parts = [[0_u64; State::ALL.len()]; SEGMENTS_MAX];
        for (at, segment) in self.segments.iter().enumerate() {
            let end_ms = self.segments.get(at + 1).map_or(to_ms, |next| next.from_ms);
            let (mut from_ms, end_ms) = (segment.from_ms - first.from_ms, end_ms.saturating_sub(first.from_ms));
            while from_ms < end_ms {
                let part = ((from_ms / part_ms) as usize).min(SEGMENTS_MAX - 1);
                let part_end_ms = ((part as u64 + 1) * part_ms).min(end_ms).max(from_ms + 1);
                parts[part][segment.state.number()] += part_end_ms - from_ms;
                from_ms = part_end_ms;
            }
        }
        let mut coarse: Vec<Segment> = Vec::new();
        for (part, times_ms) in parts.iter().enumerate() {
            let longest = times_ms.iter().zip(State::ALL).max_by_key(|(time_ms, _)| **time_ms);
            if let Some((1.., state)) = longest.map(|(time_ms, state)| (*time_ms, state))
                && coarse.last().is_none_or(|last| last.state != state)
            {
                coarse.push(Segment { state, from_ms: first.from_ms + part as u64 * part_ms });
            }
        }
        coarse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(segments: &[Segment]) -> Vec<(&'static str, u64)> {
        segments.iter().map(|segment| (segment.state.name(), segment.from_ms)).collect()
    }

    #[test]
    fn waits_cover_what_they_interrupt() {
        let mut track = Track::arrived(0);
        track.waiting(0, Wait::Session);
        track.resumed(5, Wait::Session);
        track.executing(5);
        track.waiting(5, Wait::EngineStall);
        track.waiting(7, Wait::EngineStall);
        track.resumed(9, Wait::EngineStall);
        assert_eq!(shown(&track.segments(10)), [("session", 0), ("engine-stall", 5), ("running", 9)]);
    }

    #[test]
    fn very_many_segments_become_few() {
        let mut track = Track::arrived(0);
        track.executing(0);
        for at_ms in 0..10_000 {
            track.waiting(at_ms * 3, Wait::WriteConflict);
            track.resumed(at_ms * 3 + 2, Wait::WriteConflict);
        }
        track.resumed(30_000, Wait::WriteConflict);
        assert_eq!(shown(&track.segments(60_000)), [("conflict", 0), ("running", 30_016)]);
    }

    #[test]
    fn every_state_has_its_number() {
        for (at, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state.number(), at);
        }
    }
}
