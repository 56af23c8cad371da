//! Something between the clients and the server that sends failed writes again by itself: a gateway, or a mongos.

use serde::{Deserialize, Serialize};

use crate::predict;

/// A gateway (report R60), or a mongos (facts/server.md 10, facts/client.md "when 2E is not the maximum").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// How long it holds a write and tries again, from its arrival on.
    #[serde(default = "two_minutes")]
    pub hold_ms: u64,
    /// The wait before it tries again; it doubles each time.
    #[serde(default)]
    pub first_wait_ms: u64,
    /// The longest wait.
    #[serde(default)]
    pub longest_wait_ms: u64,
    /// How often it tries again at most; without it, for as long as it holds the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// Whether it does so with numbered writes only, as a mongos does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbered_only: bool,
}

fn two_minutes() -> u64 {
    120_000
}

impl Gateway {
    /// A mongos of 4.4 to 8.0: three more tries on a shard, at once, of numbered writes (facts/server.md 10).
    pub const MONGOS: Self =
        Self { hold_ms: u64::MAX, first_wait_ms: 0, longest_wait_ms: 0, retries: Some(3), numbered_only: true };

    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.longest_wait_ms < self.first_wait_ms {
            let text = format!(
                "gateway.longest_wait_ms is {}; it must not be below gateway.first_wait_ms, {}",
                self.longest_wait_ms, self.first_wait_ms
            );
            return Err(("gateway.longest_wait_ms", text));
        }
        if self.first_wait_ms == 0 && self.retries.is_none() {
            let text = "gateway.first_wait_ms is 0 and gateway.retries is not set: it would try without a pause and without an end";
            return Err(("gateway.retries", text.to_owned()));
        }
        Ok(())
    }

    pub(super) fn plan(&self, scaled: impl Fn(u64) -> u64) -> predict::Gateway {
        predict::Gateway {
            hold_ms: if self.hold_ms == u64::MAX { u64::MAX } else { scaled(self.hold_ms) },
            first_wait_ms: scaled(self.first_wait_ms),
            longest_wait_ms: scaled(self.longest_wait_ms),
            retries: self.retries,
            numbered_only: self.numbered_only,
        }
    }
}
