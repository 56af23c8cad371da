//! Retries within one call of the listener: each layer calls the one inside it again until that succeeds or its own waits
//! are used up, as nested `@Retryable` methods do.

use std::time::Duration;

use backfire_model::scenario::{Scenario, ScenarioError};
use futures_util::future::BoxFuture;

/// The waits of each layer, from the innermost outwards.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers(Vec<Vec<Duration>>);

impl Layers {
    /// Those of a scenario, with their times scaled.
    ///
    /// # Errors
    /// When one of them is not valid.
    pub(crate) fn of(scenario: &Scenario, scale: f64) -> Result<Self, ScenarioError> {
        let waits = |waits_ms: Vec<u64>| waits_ms.into_iter().map(Duration::from_millis).collect();
        Ok(Self(scenario.inner_waits_ms(scale)?.into_iter().map(waits).collect()))
    }

    /// One call: runs `run` as often as the layers say, and tells `waited` of each wait.
    ///
    /// # Errors
    /// Those of the last run.
    pub(crate) async fn call<E: Send>(
        &self,
        run: &(dyn Fn() -> BoxFuture<'static, Result<(), E>> + Sync),
        waited: &(dyn Fn(Duration) + Sync),
    ) -> Result<(), E> {
        // Most have none, and run often.
        if self.0.is_empty() { run().await } else { call(&self.0, run, waited).await }
    }
}

/// The layers are few (`INNER_LAYERS_MAX`), so the depth is bounded.
fn call<'a, E: Send>(
    layers: &'a [Vec<Duration>],
    run: &'a (dyn Fn() -> BoxFuture<'static, Result<(), E>> + Sync),
    waited: &'a (dyn Fn(Duration) + Sync),
) -> BoxFuture<'a, Result<(), E>> {
    Box::pin(async move {
        let Some((outermost, within)) = layers.split_last() else { return run().await };
        let mut waits = outermost.iter();
        loop {
            let Err(error) = call(within, run, waited).await else { return Ok(()) };
            let Some(wait) = waits.next() else { return Err(error) };
            waited(*wait);
            tokio::time::sleep(*wait).await;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Runs and waits in all when the `succeeds`-th run succeeds.
    async fn check(layers: &[&[u64]], succeeds: u64, expected: (u64, u64, bool)) {
        let waits = |waits: &&[u64]| waits.iter().map(|ms| Duration::from_millis(*ms)).collect();
        let layers = Layers(layers.iter().map(waits).collect());
        let (runs, waited) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
        let run = || -> BoxFuture<'static, Result<(), ()>> {
            let number = runs.fetch_add(1, Ordering::Relaxed) + 1;
            Box::pin(std::future::ready(if number == succeeds { Ok(()) } else { Err(()) }))
        };
        let told = |wait: Duration| {
            waited.fetch_add(wait.as_millis() as u64, Ordering::Relaxed);
        };
        let result = layers.call(&run, &told).await;
        assert_eq!((runs.load(Ordering::Relaxed), waited.into_inner(), result.is_ok()), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn layers_multiply() {
        check(&[], 9, (1, 0, false)).await;
        check(&[&[10, 20]], 9, (3, 30, false)).await;
        check(&[&[10, 20], &[100]], 99, (6, 160, false)).await;
        check(&[&[10, 20], &[100]], 5, (5, 140, true)).await;
    }
}
