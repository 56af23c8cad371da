//! A retry budget: retries may be a share of the first tries, and some more in each second (report R87).

use serde::{Deserialize, Serialize};

/// Tokens of a whole retry.
const WHOLE: u64 = 1000;
/// How many seconds' worth of the floor a budget holds at most.
const FLOOR_SECONDS: u64 = 10;
/// How many first tries' worth of the share it holds at most.
const SHARE_TRIES: u64 = 1000;

/// What a client and its consumers may spend on retries, resends of the driver included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryBudget {
    /// Retries in a hundred first tries.
    pub percent: u64,
    /// Retries in a second beside that.
    #[serde(default)]
    pub per_second: u64,
}

/// A budget in use. It begins with nothing.
#[derive(Debug, Clone)]
pub struct Purse {
    budget: RetryBudget,
    /// In thousandths of a retry.
    tokens: u64,
    last_ms: u64,
}

impl Purse {
    /// A budget that begins at `now_ms`.
    pub fn new(budget: RetryBudget, now_ms: u64) -> Self {
        Self { budget, tokens: 0, last_ms: now_ms }
    }

    fn earn(&mut self, tokens: u64) {
        let RetryBudget { percent, per_second } = self.budget;
        let share = percent.saturating_mul(SHARE_TRIES * WHOLE / 100);
        let most = per_second.saturating_mul(FLOOR_SECONDS * WHOLE).saturating_add(share);
        self.tokens = self.tokens.saturating_add(tokens).min(most);
    }

    /// Something is tried for the first time.
    pub fn first_try(&mut self) {
        self.earn(self.budget.percent.saturating_mul(WHOLE / 100));
    }

    /// Whether something may be tried again at `now_ms`; it is paid for then.
    pub fn may_retry(&mut self, now_ms: u64) -> bool {
        // One in a second is a thousandth in a millisecond.
        let passed_ms = now_ms.saturating_sub(self.last_ms);
        self.last_ms = self.last_ms.max(now_ms);
        self.earn(passed_ms.saturating_mul(self.budget.per_second));
        let may = self.tokens >= WHOLE;
        if may {
            self.tokens -= WHOLE;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_share_of_the_first_tries_and_a_floor() {
        let mut share = Purse::new(RetryBudget { percent: 20, per_second: 0 }, 0);
        assert!(!share.may_retry(1_000_000));
        (0..5).for_each(|_| share.first_try());
        assert_eq!([share.may_retry(1_000_000), share.may_retry(1_000_000)], [true, false]);
        let mut floor = Purse::new(RetryBudget { percent: 0, per_second: 2 }, 5_000);
        let tries = [5_000, 5_499, 5_500, 5_999, 6_000].map(|now_ms| floor.may_retry(now_ms));
        assert_eq!(tries, [false, false, true, false, true]);
    }

    proptest! {
        #[test]
        fn retries_stay_within_the_budget(
            percent in 0..300_u64, per_second in 0..20_u64,
            steps in prop::collection::vec((0..2_000_u64, any::<bool>()), 1..300),
        ) {
            let mut purse = Purse::new(RetryBudget { percent, per_second }, 0);
            let (mut now_ms, mut firsts, mut retries) = (0, 0, 0);
            for (passed_ms, is_first) in steps {
                now_ms += passed_ms;
                if is_first {
                    purse.first_try();
                    firsts += 1;
                } else {
                    retries += u64::from(purse.may_retry(now_ms));
                }
                prop_assert!(retries * 1000 <= firsts * percent * 10 + per_second * now_ms);
            }
        }
    }
}
