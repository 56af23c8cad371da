//! Retries within one call of the listener.

use serde::{Deserialize, Serialize};

use crate::back_off::BackOff;

/// More layers than this are refused.
pub const INNER_LAYERS_MAX: usize = 8;

/// A layer that repeats the write before the listener fails: `@Retryable` on a service, a binder's `maxAttempts`
/// (facts/client.md D2, F: "inner retries").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inner {
    /// What it is, such as `@Retryable`.
    #[serde(default = "retryable")]
    pub name: String,
    /// Its waits, and how many.
    pub back_off: BackOff,
}

fn retryable() -> String {
    "@Retryable".to_owned()
}
