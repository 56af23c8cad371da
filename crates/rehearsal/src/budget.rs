//! The retry budget of a client and its consumers, on the clock.

use std::sync::Arc;

use backfire_consumer::{Classifier, ErrorClass, Failure, Rule};
use backfire_model::budget::{Purse, RetryBudget};
use parking_lot::Mutex;
use tokio::time::Instant;

/// What an execution fails with that the budget does not allow. It is not retried.
const SPENT: &str = "RetryBudgetSpent";

/// A budget in use, or none. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budget(Option<Arc<Mutex<Shared>>>);

#[derive(Debug)]
struct Shared {
    purse: Purse,
    /// Its time runs from the first try on.
    began: Option<Instant>,
}

impl Budget {
    /// One that begins with the first try.
    pub(crate) fn new(budget: Option<RetryBudget>) -> Self {
        Self(budget.map(|budget| Arc::new(Mutex::new(Shared { purse: Purse::new(budget, 0), began: None }))))
    }

    /// Whether there may be a retry now, which is spent then.
    pub(crate) fn may_retry(&self) -> bool {
        self.0.as_ref().is_none_or(|shared| {
            let mut shared = shared.lock();
            let passed_ms = shared.began.map_or(0, |began| began.elapsed().as_millis() as u64);
            shared.purse.may_retry(passed_ms)
        })
    }

    /// A run of the write begins.
    ///
    /// # Errors
    /// When it is a retry that the budget does not allow.
    pub(crate) fn run(&self, is_first: bool) -> Result<(), Failure> {
        match &self.0 {
            Some(shared) if is_first => {
                let mut shared = shared.lock();
                shared.began.get_or_insert_with(Instant::now);
                shared.purse.first_try();
            }
            _ if is_first || self.may_retry() => {}
            _ => return Err(Failure::new(ErrorClass::new(SPENT), "the retry budget is spent")),
        }
        Ok(())
    }
}

/// Spring's classification, with a spent budget as something that is not retried.
pub(crate) fn classifier() -> Classifier {
    Classifier::default().with(Rule::class(SPENT, false))
}
