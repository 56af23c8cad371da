//! The settings of the growing back-offs.

use serde::{Deserialize, Serialize};

/// `ExponentialBackOff`. Its default has no limit: retries without end (facts/client.md D2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Exponential {
    /// The first wait.
    pub initial_interval_ms: i64,
    /// What each wait is multiplied by to give the next; 1 or more.
    pub multiplier: f64,
    /// The longest wait.
    pub max_interval_ms: i64,
    /// How far a wait may be off, up or down, before scaling; Spring 7.0 and later.
    pub jitter_ms: i64,
    /// No further retry once the waits so far add up to this; the executions themselves are not counted.
    pub max_elapsed_ms: Option<i64>,
    /// The largest number of retries; Spring 6.1 and later.
    pub max_attempts: Option<i64>,
}

impl Default for Exponential {
    fn default() -> Self {
        Self {
            initial_interval_ms: initial_interval_ms(),
            multiplier: multiplier(),
            max_interval_ms: max_interval_ms(),
            jitter_ms: 0,
            max_elapsed_ms: None,
            max_attempts: None,
        }
    }
}

impl Exponential {
    /// `new ExponentialBackOff(initialInterval, multiplier)`.
    pub fn new(initial_interval_ms: i64, multiplier: f64) -> Self {
        Self { initial_interval_ms, multiplier, ..Self::default() }
    }
}

/// `ExponentialBackOffWithMaxRetries` of Spring Kafka 2.7.3 and later.
///
/// Its limit is a sum of waits, computed from `max_retries`. Two consequences (facts/client.md D2): 0 retries still
/// give one, and jitter makes the number of retries inexact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExponentialMaxRetries {
    /// The number of retries.
    pub max_retries: i64,
    /// The first wait.
    #[serde(default = "initial_interval_ms")]
    pub initial_interval_ms: i64,
    /// What each wait is multiplied by to give the next; 1 or more.
    #[serde(default = "multiplier")]
    pub multiplier: f64,
    /// The longest wait.
    #[serde(default = "max_interval_ms")]
    pub max_interval_ms: i64,
    /// How far a wait may be off, up or down, before scaling; Spring 7.0 and later.
    #[serde(default)]
    pub jitter_ms: i64,
}

impl ExponentialMaxRetries {
    /// `new ExponentialBackOffWithMaxRetries(maxRetries)`.
    pub fn new(max_retries: i64) -> Self {
        Self {
            max_retries,
            initial_interval_ms: initial_interval_ms(),
            multiplier: multiplier(),
            max_interval_ms: max_interval_ms(),
            jitter_ms: 0,
        }
    }
}

/// `ExponentialBackOff.DEFAULT_INITIAL_INTERVAL`.
fn initial_interval_ms() -> i64 {
    2_000
}

/// `ExponentialBackOff.DEFAULT_MULTIPLIER`.
fn multiplier() -> f64 {
    1.5
}

/// `ExponentialBackOff.DEFAULT_MAX_INTERVAL`.
fn max_interval_ms() -> i64 {
    30_000
}
