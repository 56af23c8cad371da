//! The time of one operation: `timeoutMS`, or the older limits when it is not set (facts/client.md A3, A7;
//! <https://github.com/mongodb/specifications/blob/master/source/client-side-operations-timeout/client-side-operations-timeout.md>).

use std::time::Duration;

use tokio::time::Instant;

use crate::connection::ReadLimit;
use crate::connection::handshake::OpenLimits;
use crate::error::{DriverError, Result};
use crate::pool::CheckOutLimits;
use crate::settings::{ClientSettings, limit};

/// The moment that is `duration` after `start`. A duration so long that there is no such moment is a century.
pub(crate) fn later(start: Instant, duration: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    start.checked_add(duration).unwrap_or_else(|| start + CENTURY)
}

/// What `maxTimeMS` a command carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaxTime {
    /// What is left of `timeoutMS`; without it, what the caller asked for.
    Operation(Option<Duration>),
    /// The caller's value (a cursor's `maxAwaitTimeMS`), but not more than what is left of `timeoutMS`.
    Await(Option<Duration>),
    /// None at all.
    Omitted,
}

/// The clock of one operation, started when the operation starts.
#[derive(Debug, Clone)]
pub(crate) struct OperationClock {
    /// `timeoutMS`; zero stands for "set, and without limit".
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    /// Ends server selection and check-out of the running attempt.
    selection_until: Instant,
    /// Of the selected server.
    min_round_trip: Duration,
    max_time: MaxTime,
}

impl OperationClock {
    pub(crate) fn start(timeout: Option<Duration>, max_time: MaxTime) -> Self {
        let mut clock =
            Self { timeout, deadline: None, selection_until: Instant::now(), min_round_trip: Duration::ZERO, max_time };
        clock.restart();
        clock
    }

    /// The same, within a deadline that is set already: for an operation in `with_transaction`.
    pub(crate) fn within(timeout: Duration, deadline: Option<Instant>, max_time: MaxTime) -> Self {
        Self { deadline, ..Self::start(Some(timeout), max_time) }
    }

    /// Gives the whole `timeoutMS` again: for the next call on a cursor.
    pub(crate) fn restart(&mut self) {
        let timeout = self.timeout.and_then(limit);
        self.deadline = timeout.map(|timeout| later(Instant::now(), timeout));
    }

    /// Another `timeoutMS` from now on.
    pub(crate) fn restart_with(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
        self.restart();
    }

    pub(crate) fn set_max_time(&mut self, max_time: MaxTime) {
        self.max_time = max_time;
    }

    /// `timeoutMS`, if it is set.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// When the operation must be over.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Begins an attempt: from now on server selection and check-out share one limit. Returns it.
    pub(crate) fn begin_selection(&mut self, settings: &ClientSettings) -> Instant {
        let until = later(Instant::now(), settings.server_selection_timeout);
        self.selection_until = self.deadline.map_or(until, |deadline| deadline.min(until));
        self.selection_until
    }

    /// The limits of the attempt's check-out.
    pub(crate) fn check_out_limits(&self, settings: &ClientSettings) -> CheckOutLimits {
        if self.timeout.is_none() {
            let read = ReadLimit::silence(settings.socket_timeout);
            return CheckOutLimits {
                wait_until: later(Instant::now(), settings.wait_queue_timeout),
                is_operation_deadline: false,
                open: OpenLimits { connect: settings.connect_timeout, read, deadline: None },
            };
        }
        let read = ReadLimit::Deadline(self.selection_until);
        CheckOutLimits {
            wait_until: self.selection_until,
            is_operation_deadline: true,
            open: OpenLimits { connect: settings.connect_timeout, read, deadline: Some(self.selection_until) },
        }
    }

    /// The selected server's smallest round trip; what is left of the time is shorter by it.
    pub(crate) fn set_min_round_trip(&mut self, min_round_trip: Duration) {
        self.min_round_trip = min_round_trip;
    }

    /// What is left for the server; `None` without a limit.
    ///
    /// # Errors
    /// When nothing is left: then a command is not sent at all.
    fn left_for_server(&self) -> Result<Option<Duration>> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        let left = deadline.saturating_duration_since(Instant::now()).saturating_sub(self.min_round_trip);
        if left.is_zero() {
            return Err(DriverError::operation_timeout(
                "what is left of timeoutMS is not more than the server's smallest round-trip time",
            ));
        }
        Ok(Some(left))
    }

    /// The `maxTimeMS` of a command that is sent now.
    ///
    /// # Errors
    /// When too little time is left to send it.
    pub(crate) fn max_time_ms(&self) -> Result<Option<i64>> {
        let left = self.left_for_server()?;
        let value = match self.max_time {
            MaxTime::Operation(asked) if self.timeout.is_none() => asked,
            MaxTime::Operation(_) => left,
            MaxTime::Await(asked) => asked.map(|asked| left.map_or(asked, |left| left.min(asked))),
            MaxTime::Omitted => None,
        };
        // 0 would mean "no limit" to the server, so what is left of a millisecond counts as one.
        Ok(value.map(|value| i64::try_from(value.as_millis()).unwrap_or(i64::MAX).max(1)))
    }

    /// How long a reply may take.
    pub(crate) fn read_limit(&self, settings: &ClientSettings) -> ReadLimit {
        match (self.timeout, self.deadline) {
            (_, Some(deadline)) => ReadLimit::Deadline(deadline),
            (Some(_), None) => ReadLimit::Unlimited,
            (None, None) => ReadLimit::silence(settings.socket_timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ServerAddress;

    const MS: Duration = Duration::from_millis(1);

    fn settings() -> ClientSettings {
        ClientSettings { socket_timeout: 30 * MS, ..ClientSettings::new([ServerAddress::new("a", 1)]) }
    }

    #[tokio::test(start_paused = true)]
    async fn max_time_is_what_is_left_without_the_round_trip() {
        let mut clock = OperationClock::start(Some(1000 * MS), MaxTime::Operation(Some(7 * MS)));
        clock.set_min_round_trip(20 * MS);
        tokio::time::advance(100 * MS).await;
        assert_eq!(clock.max_time_ms().unwrap(), Some(880));
        clock.set_max_time(MaxTime::Await(Some(50 * MS)));
        assert_eq!(clock.max_time_ms().unwrap(), Some(50));
        clock.set_max_time(MaxTime::Await(None));
        assert_eq!(clock.max_time_ms().unwrap(), None);
        tokio::time::advance(880 * MS).await;
        assert!(clock.max_time_ms().unwrap_err().is_operation_timeout());
        clock.restart();
        clock.set_max_time(MaxTime::Omitted);
        assert_eq!(clock.max_time_ms().unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_without_end_is_a_century() {
        let now = Instant::now();
        assert_eq!(later(now, MS), now + MS);
        assert!(later(now, Duration::MAX) > now + Duration::from_secs(3_000_000_000));
        assert!(OperationClock::start(Some(Duration::MAX), MaxTime::Operation(None)).max_time_ms().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn each_timeout_has_its_read_limit() {
        let limit = |timeout: Option<Duration>| {
            OperationClock::start(timeout, MaxTime::Operation(None)).read_limit(&settings())
        };
        assert_eq!(limit(None), ReadLimit::Silence(30 * MS));
        assert_eq!(limit(Some(Duration::ZERO)), ReadLimit::Unlimited);
        assert_eq!(limit(Some(9 * MS)), ReadLimit::Deadline(Instant::now() + 9 * MS));
    }

    #[tokio::test(start_paused = true)]
    async fn without_timeout_ms_the_callers_max_time_is_sent() {
        for (timeout, asked, sent) in
            [(None, Some(5), Some(5)), (None, None, None), (Some(Duration::ZERO), Some(5), None)]
        {
            let clock = OperationClock::start(timeout, MaxTime::Operation(asked.map(Duration::from_millis)));
            assert_eq!(clock.max_time_ms().unwrap(), sent, "{timeout:?} {asked:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn selection_takes_the_smaller_limit() {
        let settings = ClientSettings { server_selection_timeout: 50 * MS, ..settings() };
        for (timeout, expected) in [(None, 50), (Some(20), 20), (Some(0), 50), (Some(90), 50)] {
            let mut clock = OperationClock::start(timeout.map(Duration::from_millis), MaxTime::Omitted);
            assert_eq!(clock.begin_selection(&settings), Instant::now() + expected * MS, "{timeout:?}");
        }
    }
}
