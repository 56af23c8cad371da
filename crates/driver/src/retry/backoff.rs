//! The wait before a retry that follows an overload error (facts/client.md C2).

use std::time::Duration;

use crate::error::DriverError;
use crate::error::reply::number;

const BASE_MS: u64 = 100;
const MOST_MS: u64 = 10_000;

/// How long to wait before retry number `retry` (from 1): `jitter` in [0, 1) times the exponential back-off. The
/// server may name its own base in the error.
pub(super) fn wait(error: &DriverError, retry: u32, jitter: f64) -> Duration {
    let named = error.response().and_then(|reply| number(reply, "baseBackoffMS")).filter(|base_ms| *base_ms > 0);
    let base_ms = named.and_then(|base_ms| u64::try_from(base_ms).ok()).unwrap_or(BASE_MS);
    let factor = 1_u64.checked_shl(retry).unwrap_or(u64::MAX);
    let whole_ms = base_ms.saturating_mul(factor).min(MOST_MS);
    Duration::from_millis(whole_ms).mul_f64(jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::reply::command_error;
    use bson::doc;

    #[test]
    fn the_wait_doubles_up_to_ten_seconds() {
        let plain = command_error(doc! {"ok": 0, "code": 462});
        let own = command_error(doc! {"ok": 0, "code": 462, "baseBackoffMS": 30});
        for (error, retry, jitter, expected_ms) in [
            (&plain, 1, 1.0, 200),
            (&plain, 2, 1.0, 400),
            (&plain, 1, 0.5, 100),
            (&plain, 1, 0.0, 0),
            (&plain, 9, 1.0, 10_000),
            (&plain, 200, 1.0, 10_000),
            (&own, 1, 1.0, 60),
        ] {
            assert_eq!(wait(error, retry, jitter), Duration::from_millis(expected_ms), "{retry} {jitter}");
        }
    }
}
