//! The server's error codes that a driver acts on (facts/client.md A1.3; facts/server.md 3.4).

/// `MaxTimeMSExpired`: the server's clock ran out. In no retry list (facts/client.md A1.6).
pub const MAX_TIME_MS_EXPIRED: i32 = 50;
/// `UnknownReplWriteConcern` and `UnsatisfiableWriteConcern`: asking again does not help.
pub const UNMEETABLE_WRITE_CONCERN: [i32; 2] = [79, 100];
/// `CursorNotFound`.
pub const CURSOR_NOT_FOUND: i32 = 43;
/// `NamespaceNotFound`.
pub const NAMESPACE_NOT_FOUND: i32 = 26;
/// `IllegalOperation`: what a standalone answers to a transaction number.
pub const ILLEGAL_OPERATION: i32 = 20;

/// `NotWritablePrimary` and `NotPrimaryNoSecondaryOk`.
const NOT_PRIMARY: [i32; 2] = [10107, 13435];
/// Interrupted by shutdown or state change, not primary or secondary, stepped down, shutting down.
const RECOVERING: [i32; 5] = [11600, 11602, 13436, 189, 91];
/// The part of [`RECOVERING`] that says that the server goes away.
const SHUTDOWN: [i32; 2] = [11600, 91];

/// What a server says about its own state with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateChange {
    /// It is not the primary.
    NotPrimary,
    /// It is neither primary nor secondary now.
    Recovering,
    /// It is about to end.
    Shutdown,
}

impl StateChange {
    /// Judges by code; by text only when the server sent no code (very old ones do not).
    pub fn of(code: Option<i32>, message: &str) -> Option<Self> {
        match code {
            Some(code) if SHUTDOWN.contains(&code) => Some(Self::Shutdown),
            Some(code) if RECOVERING.contains(&code) => Some(Self::Recovering),
            Some(code) if NOT_PRIMARY.contains(&code) => Some(Self::NotPrimary),
            Some(_) => None,
            None if message.contains("not master or secondary") || message.contains("node is recovering") => {
                Some(Self::Recovering)
            }
            None if message.contains("not master") => Some(Self::NotPrimary),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_changes_are_known_by_code_then_text() {
        for (code, message, expected) in [
            (Some(10107), "", Some(StateChange::NotPrimary)),
            (Some(13435), "", Some(StateChange::NotPrimary)),
            (Some(11602), "", Some(StateChange::Recovering)),
            (Some(189), "", Some(StateChange::Recovering)),
            (Some(91), "", Some(StateChange::Shutdown)),
            (Some(11600), "", Some(StateChange::Shutdown)),
            (Some(1), "not master", None),
            (None, "not master", Some(StateChange::NotPrimary)),
            (None, "not master or secondary; cannot", Some(StateChange::Recovering)),
            (None, "node is recovering", Some(StateChange::Recovering)),
            (None, "other", None),
        ] {
            assert_eq!(StateChange::of(code, message), expected, "{code:?} {message}");
        }
    }
}
