//! Numbers that change over time, and the same in coarser steps for a smaller drawing. A peak is never lost.

/// `N` numbers over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps<const N: usize> {
    points: Vec<Point<N>>,
}

/// A moment, or a bin of time, in which numbers changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point<const N: usize> {
    /// When it begins.
    pub at_ms: u64,
    /// The most that each number was in it.
    pub max: [u64; N],
    /// What each number is after it, until the next point.
    pub last: [u64; N],
}

/// Steps of one width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level<const N: usize> {
    /// How long the bins are; 0: the points are exact.
    pub width_ms: u64,
    /// The bins in which something changed, in order.
    pub points: Vec<Point<N>>,
}

impl<const N: usize> Default for Steps<N> {
    fn default() -> Self {
        Self { points: Vec::new() }
    }
}

impl<const N: usize> Steps<N> {
    /// The numbers are `now` from `at_ms` on; times must not run backwards.
    pub fn push(&mut self, at_ms: u64, now: [u64; N]) {
        match self.points.last_mut() {
            Some(point) if point.at_ms == at_ms => {
                point.max = larger(point.max, now);
                point.last = now;
            }
            Some(point) if point.last == now => {}
            // Before the first point, every number is 0.
            None if now == [0; N] => {}
            _ => self.points.push(Point { at_ms, max: now, last: now }),
        }
    }

    /// The exact points.
    pub fn points(&self) -> &[Point<N>] {
        &self.points
    }

    /// The most that each number ever was.
    pub fn max(&self) -> [u64; N] {
        self.points.iter().fold([0; N], |max, point| larger(max, point.max))
    }

    /// The same in bins of `width_ms`, which begin at multiples of it; 0 is the exact points.
    pub fn level(&self, width_ms: u64) -> Level<N> {
        if width_ms == 0 {
            return Level { width_ms, points: self.points.clone() };
        }
        let mut points: Vec<Point<N>> = Vec::new();
        let mut before = [0; N];
        for point in &self.points {
            let at_ms = point.at_ms - point.at_ms % width_ms;
            match points.last_mut() {
                Some(bin) if bin.at_ms == at_ms => {
                    bin.max = larger(bin.max, point.max);
                    bin.last = point.last;
                }
                // In the bin's first part the numbers are what they were before it.
                _ => points.push(Point { at_ms, max: larger(before, point.max), last: point.last }),
            }
            before = point.last;
        }
        Level { width_ms, points }
    }

    /// Levels from the finest, of at most `points_max` points, to one of at most a sixteenth of that, each four times as coarse as
    /// the one before. A short recording has one, with the exact points.
    pub fn levels(&self, points_max: usize) -> Vec<Level<N>> {
        let span_ms = match (self.points.first(), self.points.last()) {
            (Some(first), Some(last)) => last.at_ms - first.at_ms + 1,
            _ => 1,
        };
        let points_max = points_max.max(16) as u64;
        let mut levels = Vec::new();
        // The bins of a span are one more than it has room for, where it does not begin with a bin.
        let mut width_ms = if self.points.len() as u64 <= points_max { 0 } else { span_ms.div_ceil(points_max - 1) };
        loop {
            let level = self.level(width_ms);
            let is_last = level.points.len() as u64 <= points_max / 16;
            levels.push(level);
            if is_last {
                return levels;
            }
            width_ms = if width_ms == 0 { span_ms.div_ceil(points_max - 1) } else { width_ms.saturating_mul(4) };
        }
    }

    /// The coarsest steps that still fit: at most `points_max` points.
    pub fn fitted(&self, points_max: usize) -> Level<N> {
        let levels = self.levels(points_max);
        levels.into_iter().next().unwrap_or(Level { width_ms: 0, points: Vec::new() })
    }
}

fn larger<const N: usize>(one: [u64; N], other: [u64; N]) -> [u64; N] {
    let mut larger = one;
    for (number, other) in larger.iter_mut().zip(other) {
        *number = (*number).max(other);
    }
    larger
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps(values: &[(u64, u64)]) -> Steps<1> {
        let mut steps = Steps::default();
        values.iter().for_each(|(at_ms, value)| steps.push(*at_ms, [*value]));
        steps
    }

    fn shown(level: &Level<1>) -> Vec<(u64, u64, u64)> {
        level.points.iter().map(|point| (point.at_ms, point.max[0], point.last[0])).collect()
    }

    #[test]
    fn a_peak_within_a_moment_is_kept() {
        let steps = steps(&[(0, 0), (1, 3), (5, 4), (5, 2), (9, 2), (10, 0)]);
        assert_eq!(shown(&steps.level(0)), [(1, 3, 3), (5, 4, 2), (10, 0, 0)]);
        assert_eq!(shown(&steps.level(4)), [(0, 3, 3), (4, 4, 2), (8, 2, 0)]);
        assert_eq!(steps.max(), [4]);
    }

    #[test]
    fn nothing_has_one_empty_level() {
        let levels = Steps::<1>::default().levels(100);
        assert_eq!(levels, [Level { width_ms: 0, points: vec![] }]);
    }

    proptest! {
        #[test]
        fn levels_fit_and_keep_the_peak_and_the_end(
            changes in prop::collection::vec((0..50_u64, 0..9_u64), 0..400),
            points_max in 1..200_usize,
        ) {
            let mut at_ms = 0;
            let mut steps = Steps::<1>::default();
            for (wait_ms, value) in changes {
                at_ms += wait_ms;
                steps.push(at_ms, [value]);
            }
            let levels = steps.levels(points_max);
            let points_max = points_max.max(16);
            for level in &levels {
                prop_assert!(level.points.len() <= points_max);
                let max = level.points.iter().map(|point| point.max[0]).max().unwrap_or(0);
                prop_assert_eq!(max, steps.max()[0]);
                prop_assert_eq!(level.points.last().map(|point| point.last), steps.points().last().map(|point| point.last));
            }
            prop_assert!(levels.windows(2).all(|pair| pair[0].width_ms < pair[1].width_ms));
        }
    }
}
