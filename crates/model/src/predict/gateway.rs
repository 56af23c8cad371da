//! What stands between the clients and the server and sends again by itself.

/// A gateway that holds writes, or a mongos: how often and when it sends one again whose connection broke behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gateway {
    /// How long it holds a write, from its arrival on.
    pub hold_ms: u64,
    /// The wait before the first retry; it doubles each time.
    pub first_wait_ms: u64,
    /// The longest wait.
    pub longest_wait_ms: u64,
    /// How many retries at most; `None`: as long as it holds the write.
    pub retries: Option<u64>,
    /// Whether it is about numbered writes only.
    pub numbered_only: bool,
}

impl Gateway {
    /// The wait before retry number `retry`, from 1, of a write that it has held for `held_ms`; `None`: it gives up.
    pub fn wait_ms(&self, retry: u64, held_ms: u64) -> Option<u64> {
        if self.retries.is_some_and(|retries| retry > retries) {
            return None;
        }
        let factor = 1_u64.checked_shl(u32::try_from(retry.saturating_sub(1)).unwrap_or(u32::MAX)).unwrap_or(u64::MAX);
        let wait_ms = self.first_wait_ms.saturating_mul(factor).min(self.longest_wait_ms);
        (held_ms.saturating_add(wait_ms) <= self.hold_ms).then_some(wait_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_end() {
        let gateway = Gateway {
            hold_ms: 120_000,
            first_wait_ms: 50,
            longest_wait_ms: 5_000,
            retries: None,
            numbered_only: false,
        };
        for (retry, held_ms, expected) in [
            (1, 0, Some(50)),
            (2, 50, Some(100)),
            (7, 0, Some(3_200)),
            (8, 0, Some(5_000)),
            (200, 115_000, Some(5_000)),
            (200, 115_001, None),
        ] {
            assert_eq!(gateway.wait_ms(retry, held_ms), expected, "{retry} {held_ms}");
        }
        let thrice = Gateway { retries: Some(3), ..gateway };
        assert_eq!((thrice.wait_ms(3, 0), thrice.wait_ms(4, 0)), (Some(200), None));
    }
}
