//! What happens over time, in a number of steps that does not grow with the run.

use serde::Serialize;

use crate::event::ClientEvent;

/// Most steps that are kept; when there are more, two become one.
const STEPS_MAX: usize = 512;

/// The numbers of a moment; in a series, the greatest of a step, and of what is counted the number within it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Copies that the server works on.
    pub running_copies: u64,
    /// Resends that wait for their original's session.
    pub waiting_resends: u64,
    /// Operations that wait for a ticket.
    pub ticket_queue: u64,
    /// Operations at the server, waiting ones included.
    pub operations: u64,
    /// Executions that began.
    pub executions: u64,
    /// Sends.
    pub sends: u64,
    /// Records that were written or given up.
    pub done: u64,
    /// Of these, dead letters.
    pub dead_letters: u64,
}

impl Point {
    pub(super) fn client(&mut self, event: &ClientEvent) {
        match event {
            ClientEvent::ExecutionStarted { .. } => self.executions += 1,
            ClientEvent::Send { .. } => self.sends += 1,
            ClientEvent::ExecutionSucceeded { .. } => self.done += 1,
            ClientEvent::DeadLetter { .. } => {
                self.done += 1;
                self.dead_letters += 1;
            }
            _ => {}
        }
    }

    /// This moment added to a step.
    fn join(&mut self, other: &Self) {
        self.running_copies = self.running_copies.max(other.running_copies);
        self.waiting_resends = self.waiting_resends.max(other.waiting_resends);
        self.ticket_queue = self.ticket_queue.max(other.ticket_queue);
        self.operations = self.operations.max(other.operations);
        // What is counted is a running total: the later one holds the earlier.
        self.executions = self.executions.max(other.executions);
        self.sends = self.sends.max(other.sends);
        self.done = self.done.max(other.done);
        self.dead_letters = self.dead_letters.max(other.dead_letters);
    }
}

/// Points over time. Counted numbers (`executions`, `sends`, `done`, `dead_letters`) are running totals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Series {
    /// How long a step is.
    pub step_ms: u64,
    /// The steps, from 0 on.
    pub points: Vec<Point>,
    #[serde(skip)]
    last: Point,
}

impl Default for Series {
    fn default() -> Self {
        Self { step_ms: 1, points: Vec::new(), last: Point::default() }
    }
}

impl Series {
    /// The numbers at this moment; time never goes back.
    pub(super) fn at(&mut self, at_ms: u64, now: &Point) {
        while at_ms / self.step_ms >= STEPS_MAX as u64 {
            self.halve();
        }
        let step = (at_ms / self.step_ms) as usize;
        while self.points.len() <= step {
            // Nothing changed in between, and a step begins with what the one before ended with.
            self.points.push(self.last);
        }
        self.points[step].join(now);
        self.last = *now;
    }

    fn halve(&mut self) {
        self.step_ms *= 2;
        self.points = self
            .points
            .chunks(2)
            .map(|pair| {
                let mut joined = pair[0];
                pair[1..].iter().for_each(|other| joined.join(other));
                joined
            })
            .collect();
    }

    /// The greatest of a number.
    pub fn most(&self, number: impl Fn(&Point) -> u64) -> u64 {
        self.points.iter().map(number).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_its_peaks_in_few_steps() {
        let mut series = Series::default();
        for at_ms in [0, 3, 1_000, 1_001, 5_000_000] {
            let running_copies = if at_ms == 1_000 { 9 } else { 1 };
            series.at(at_ms, &Point { running_copies, sends: at_ms, ..Point::default() });
        }
        assert!(series.points.len() <= STEPS_MAX, "{}", series.points.len());
        assert_eq!(series.most(|point| point.running_copies), 9);
        assert_eq!(series.points.last().map(|point| (point.sends, point.running_copies)), Some((5_000_000, 1)));
        let peak = series.points.iter().position(|point| point.running_copies == 9);
        assert_eq!(peak, Some((1_000 / series.step_ms) as usize));
    }

    #[test]
    fn a_gauge_that_does_not_change_is_carried_on() {
        let mut series = Series::default();
        series.at(0, &Point { running_copies: 4, ..Point::default() });
        series.at(9, &Point { running_copies: 1, ..Point::default() });
        let running: Vec<_> = series.points.iter().map(|point| point.running_copies).collect();
        assert_eq!(running, [4, 4, 4, 4, 4, 4, 4, 4, 4, 4]);
    }
}
