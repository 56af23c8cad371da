//! Server sessions and the client's pool of them.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use backfire_model::{Lsid, TxnNumber};

use crate::random::Random;

/// A session as the server knows it: an id, and the number of the last retryable write in it.
#[derive(Debug)]
pub(crate) struct ServerSession {
    pub(crate) lsid: Lsid,
    txn_number: i64,
    last_use: Instant,
    /// A command of it failed with a network error, so the server may still be busy with it: it is given up when it
    /// comes back, and the next execution gets another one (facts/client.md A4.6).
    pub(crate) dirty: bool,
}

impl ServerSession {
    /// The number for the next retryable write: 1, 2, ...
    pub(crate) fn advance(&mut self) -> TxnNumber {
        self.txn_number += 1;
        TxnNumber(self.txn_number)
    }

    pub(crate) fn touch(&mut self) {
        self.last_use = Instant::now();
    }

    /// Whether less than a minute is left of the server's timeout. Without a known timeout nothing expires.
    fn expires(&self, timeout_minutes: Option<i64>, now: Instant) -> bool {
        let Some(minutes) = timeout_minutes else { return false };
        let usable = Duration::from_secs(60 * u64::try_from(minutes - 1).unwrap_or(0));
        now.saturating_duration_since(self.last_use) >= usable
    }
}

/// Unused sessions that are kept; more than this many operations side by side are not served from the pool again.
const MAX_IDLE: usize = 100_000;

/// Unused sessions; the last one back is the first one out.
#[derive(Debug, Default)]
pub(crate) struct ServerSessionPool(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    idle: Vec<ServerSession>,
    closed: bool,
}

impl ServerSessionPool {
    /// An unused session that has a minute left, or a new one.
    pub(crate) fn acquire(&self, timeout_minutes: Option<i64>, random: &Random) -> ServerSession {
        let now = Instant::now();
        let mut state = self.0.lock();
        while let Some(session) = state.idle.pop() {
            if !session.expires(timeout_minutes, now) {
                return session;
            }
        }
        ServerSession { lsid: random.lsid(), txn_number: 0, last_use: now, dirty: false }
    }

    /// Takes a session back, unless it is dirty or about to expire. The oldest ones are looked through as well.
    pub(crate) fn release(&self, session: ServerSession, timeout_minutes: Option<i64>) {
        let now = Instant::now();
        let mut state = self.0.lock();
        let expired = state.idle.iter().take_while(|idle| idle.expires(timeout_minutes, now)).count();
        state.idle.drain(..expired);
        let keep = !state.closed && !session.dirty && !session.expires(timeout_minutes, now);
        if keep && state.idle.len() < MAX_IDLE {
            state.idle.push(session);
        }
    }

    /// Ends the pool; returns the ids for `endSessions`.
    pub(crate) fn close(&self) -> Vec<Lsid> {
        let mut state = self.0.lock();
        state.closed = true;
        std::mem::take(&mut state.idle).into_iter().map(|session| session.lsid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> (ServerSessionPool, Random) {
        (ServerSessionPool::default(), Random::new(1, 0, Instant::now()))
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_one_back_is_the_first_one_out() {
        let (pool, random) = fixture();
        let (one, two) = (pool.acquire(Some(30), &random), pool.acquire(Some(30), &random));
        let (first, second) = (one.lsid, two.lsid);
        assert_ne!(first, second);
        pool.release(one, Some(30));
        pool.release(two, Some(30));
        assert_eq!(pool.acquire(Some(30), &random).lsid, second);
        assert_eq!(pool.acquire(Some(30), &random).lsid, first);
    }

    #[tokio::test(start_paused = true)]
    async fn dirty_sessions_do_not_come_back() {
        let (pool, random) = fixture();
        let mut session = pool.acquire(Some(30), &random);
        let lsid = session.lsid;
        assert_eq!((session.advance(), session.advance()), (TxnNumber(1), TxnNumber(2)));
        session.dirty = true;
        pool.release(session, Some(30));
        assert_ne!(pool.acquire(Some(30), &random).lsid, lsid);
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_expire_a_minute_early() {
        let (pool, random) = fixture();
        for (minutes, reused) in [(28, true), (29, false)] {
            let mut session = pool.acquire(Some(30), &random);
            session.touch();
            let lsid = session.lsid;
            pool.release(session, Some(30));
            tokio::time::advance(Duration::from_secs(60 * minutes)).await;
            assert_eq!(pool.acquire(Some(30), &random).lsid == lsid, reused, "after {minutes} minutes");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_pool_names_its_sessions_and_keeps_none() {
        let (pool, random) = fixture();
        let session = pool.acquire(None, &random);
        let (late, lsid) = (pool.acquire(None, &random), session.lsid);
        pool.release(session, None);
        assert_eq!(pool.close(), [lsid]);
        pool.release(late, None);
        assert_eq!(pool.close(), []);
    }
}
