//! What differs between driver versions: one row per difference, never an `if` on a version elsewhere.

/// A driver's rules, as far as they differ from another's.
///
/// The default is [`DriverProfile::JAVA_5_4`], the version that the measurements in facts/client.md X and Y are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverProfile {
    /// What handshakes and reports call it.
    pub name: &'static str,
    /// Retry what an overloaded server refuses, any command, with back-off (facts/client.md C2). Since Java 5.12.
    pub client_backpressure: bool,
    /// One `updateMany` or `deleteMany` makes a whole bulk non-retryable (facts/client.md A5). The specification judges
    /// each command by itself.
    pub multi_write_spoils_bulk: bool,
    /// Updates and replacements are two commands, although both are called `update` (facts/client.md A5). The
    /// specification puts them into one.
    pub replace_is_own_command: bool,
    /// A write whose very first connection breaks in its handshake is tried again (facts/client.md A10). Java 5.4
    /// raises the error.
    pub retries_first_handshake_error: bool,
    /// When the time for a write runs out while a server is selected again, the error is the timeout. In Java it is the
    /// error of the attempt before (facts/client.md A7, last row).
    pub reselection_timeout_wins: bool,
    /// The handshake of the connection that measures round trips counts as a sample. Where it does not, the minimum
    /// stays 0 until the first measurement after `heartbeatFrequencyMS`.
    pub handshake_is_rtt_sample: bool,
    /// A retryable command is sent again without a limit, also when no server can be selected (report R86). The official
    /// drivers do it once.
    pub unlimited_retries: bool,
    /// `with_transaction` waits between two runs of its body. Where it does not, a hot document is run into as often as fits
    /// into 120 seconds.
    pub transaction_back_off: bool,
    /// Codes that are retryable by themselves: for reads always, for writes when the server is too old to send labels
    /// (facts/client.md A1.3).
    pub retryable_codes: &'static [i32],
}

/// facts/client.md A1.3.
const CODES_5_4: &[i32] = &[6, 7, 89, 91, 189, 262, 9001, 13436, 13435, 11602, 11600, 10107];
/// The same with 134 `ReadConcernMajorityNotAvailableYet`, since Java 5.10.
const CODES_5_10: &[i32] = &[6, 7, 89, 91, 134, 189, 262, 9001, 13436, 13435, 11602, 11600, 10107];

impl DriverProfile {
    /// Java driver 5.4.
    pub const JAVA_5_4: Self = Self {
        name: "java-5.4",
        client_backpressure: false,
        multi_write_spoils_bulk: true,
        replace_is_own_command: true,
        retries_first_handshake_error: false,
        reselection_timeout_wins: false,
        handshake_is_rtt_sample: true,
        unlimited_retries: false,
        transaction_back_off: false,
        retryable_codes: CODES_5_4,
    };

    /// Java driver 5.14: with client backpressure.
    pub const JAVA_5_14: Self = Self {
        name: "java-5.14",
        client_backpressure: true,
        retries_first_handshake_error: true,
        retryable_codes: CODES_5_10,
        ..Self::JAVA_5_4
    };

    /// The drivers' common specifications, where they say something else than Java does.
    pub const SPECIFICATION: Self = Self {
        name: "specification",
        multi_write_spoils_bulk: false,
        replace_is_own_command: false,
        reselection_timeout_wins: true,
        handshake_is_rtt_sample: false,
        transaction_back_off: true,
        ..Self::JAVA_5_14
    };

    /// A driver that is none of the official ones: it retries without a limit.
    pub const UNBOUNDED: Self = Self { name: "unbounded", unlimited_retries: true, ..Self::JAVA_5_4 };

    /// All profiles.
    pub const ALL: [Self; 4] = [Self::JAVA_5_4, Self::JAVA_5_14, Self::SPECIFICATION, Self::UNBOUNDED];

    /// The profile called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }
}

impl Default for DriverProfile {
    fn default() -> Self {
        Self::JAVA_5_4
    }
}
