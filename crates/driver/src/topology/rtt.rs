//! Round-trip times of one server.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;

/// Measurements that the minimum is taken from.
const RECENT: usize = 10;
/// Weight of a new measurement in the average.
const WEIGHT: f64 = 0.2;

/// Average and minimum of a server's round trips.
#[derive(Debug, Default)]
pub(crate) struct RttSampler(Mutex<Samples>);

#[derive(Debug, Default)]
struct Samples {
    average: Option<Duration>,
    recent: VecDeque<Duration>,
}

impl RttSampler {
    pub(crate) fn add(&self, sample: Duration) {
        let mut samples = self.0.lock();
        samples.average = Some(match samples.average {
            Some(average) => sample.mul_f64(WEIGHT) + average.mul_f64(1.0 - WEIGHT),
            None => sample,
        });
        if samples.recent.len() == RECENT {
            samples.recent.pop_front();
        }
        samples.recent.push_back(sample);
    }

    /// Forgets everything: the server was lost.
    pub(crate) fn reset(&self) {
        *self.0.lock() = Samples::default();
    }

    /// The exponentially weighted average.
    pub(crate) fn average(&self) -> Duration {
        self.0.lock().average.unwrap_or_default()
    }

    /// The smallest recent measurement; zero as long as there is only one.
    pub(crate) fn minimum(&self) -> Duration {
        let samples = self.0.lock();
        if samples.recent.len() < 2 { Duration::ZERO } else { samples.recent.iter().min().copied().unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_needs_two_samples_and_forgets_after_ten() {
        let (sampler, ms) = (RttSampler::default(), Duration::from_millis);
        sampler.add(ms(10));
        assert_eq!((sampler.average(), sampler.minimum()), (ms(10), ms(0)));
        sampler.add(ms(20));
        assert_eq!((sampler.average(), sampler.minimum()), (ms(12), ms(10)));
        (0..9).for_each(|_| sampler.add(ms(20)));
        assert_eq!(sampler.minimum(), ms(20));
        sampler.reset();
        assert_eq!((sampler.average(), sampler.minimum()), (ms(0), ms(0)));
    }
}
