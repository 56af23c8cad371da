//! What a number means to a session: one retryable write after another, or a multi-document transaction with a life of its
//! own. Decides and does nothing, so that every rule can be tested in a line.

use super::SessionId;
use crate::error::{CommandError, Result};
use crate::profile::Profile;

/// What the newest number of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Retryable writes, or nothing yet.
    #[default]
    Writes,
    /// A transaction that is open.
    InProgress,
    /// A transaction that was committed.
    Committed,
    /// A transaction that was aborted.
    Aborted,
}

/// What a command says of its place in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// A retryable write.
    Write,
    /// The first command of a transaction.
    Begins,
    /// A later command of a transaction.
    Continues,
    /// `commitTransaction`, which may be said again.
    Commits,
}

/// What follows from a claim that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The number is that of the session.
    Stay,
    /// The number is new; what the older one left open is aborted.
    Renew,
}

/// The number that texts name for a session that has had none.
const NO_NUMBER: i64 = -1;

/// Decides on a command with `number` in a session whose newest number is `newest`.
///
/// # Errors
/// 225 for a number that was overtaken; 217 for a retryable write under the number of a transaction; 251 for a transaction
/// that is not there or was aborted; 256 for one that was committed; 117 for one that was begun before.
pub fn decide(
    (newest, phase): (Option<i64>, Phase),
    (number, claim): (i64, Claim),
    session: &SessionId,
    profile: &Profile,
) -> Result<Step> {
    let active = newest.unwrap_or(NO_NUMBER);
    if number < active {
        return Err(too_old((active, phase), (number, claim), session, profile));
    }
    let is_new = newest.is_none_or(|newest| number > newest);
    match claim {
        Claim::Write if is_new => Ok(Step::Renew),
        Claim::Write if phase == Phase::Writes => Ok(Step::Stay),
        Claim::Write => {
            Err(CommandError::new(217, "Cannot retry a retryable write that has been converted into a transaction"))
        }
        Claim::Begins if is_new => Ok(Step::Renew),
        Claim::Begins => Err(CommandError::new(
            117,
            "Only servers in a sharded cluster can start a new transaction at the active transaction number",
        )),
        Claim::Continues | Claim::Commits if is_new || phase == Phase::Writes => Err(CommandError::new(
            251,
            format!(
                "Given transaction number {number} does not match any in-progress transactions. The active transaction \
                 number is {active}"
            ),
        )),
        Claim::Continues | Claim::Commits => match phase {
            Phase::Aborted => Err(aborted(number, profile)),
            Phase::Committed if claim == Claim::Continues => {
                Err(CommandError::new(256, format!("Transaction {} has been committed.", named(number, profile))))
            }
            Phase::Committed | Phase::InProgress | Phase::Writes => Ok(Step::Stay),
        },
    }
}

/// The error of a command that comes for a transaction which is no more.
pub fn aborted(number: i64, profile: &Profile) -> CommandError {
    CommandError::new(251, format!("Transaction {} has been aborted.", named(number, profile)))
}

/// A transaction's number as texts name it: newer versions write a document.
fn named(number: i64, profile: &Profile) -> String {
    if profile.transaction_texts_have_documents {
        format!("with {{ txnNumber: {number} }}")
    } else {
        number.to_string()
    }
}

fn too_old(
    (active, phase): (i64, Phase),
    (number, claim): (i64, Claim),
    session: &SessionId,
    profile: &Profile,
) -> CommandError {
    let newer = if phase == Phase::Writes { "retryable write" } else { "transaction" };
    let what = match claim {
        Claim::Write => format!("Retryable write with txnNumber {number} is prohibited"),
        Claim::Begins | Claim::Continues | Claim::Commits => {
            format!("Cannot start transaction {}", named(number, profile))
        }
    };
    let by = match claim {
        Claim::Write => format!("txnNumber {active}"),
        _ if !profile.transaction_texts_have_documents => format!("txnNumber {active}"),
        // Only the counter of a transaction is set.
        _ if phase == Phase::Writes => format!("txnNumberAndRetryCounter {{ txnNumber: {active} }}"),
        _ => format!("txnNumberAndRetryCounter {{ txnNumber: {active}, txnRetryCounter: 0 }}"),
    };
    let text =
        format!("{what} on session {session} because a newer {newer} with {by} has already started on this session.");
    CommandError::new(225, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{V4_4, V7_0};

    fn check(state: (Option<i64>, Phase), request: (i64, Claim), expected: Result<Step, (i32, &str)>) {
        let session = SessionId::of_nobody(uuid::Uuid::nil());
        let found = decide(state, request, &session, &V4_4).map_err(|error| (error.code, error.message));
        match (&found, expected) {
            (Err((code, text)), Err((wanted, part))) => {
                assert!(*code == wanted && text.contains(part), "{state:?} {request:?}: {code} {text}");
            }
            _ => assert_eq!(found.ok(), expected.ok(), "{state:?} {request:?}"),
        }
    }

    #[test]
    fn every_claim_in_every_phase() {
        use Claim::{Begins, Commits, Continues, Write};
        use Phase::{Aborted, Committed, InProgress, Writes};
        let (no_match, converted) = ("The active transaction number is", "converted into a transaction");
        for (state, request, expected) in [
            ((None, Writes), (0, Write), Ok(Step::Renew)),
            ((None, Writes), (0, Begins), Ok(Step::Renew)),
            ((None, Writes), (0, Continues), Err((251, "number 0 does not match"))),
            ((None, Writes), (3, Commits), Err((251, "The active transaction number is -1"))),
            ((Some(4), Writes), (4, Write), Ok(Step::Stay)),
            ((Some(4), Writes), (5, Write), Ok(Step::Renew)),
            ((Some(4), Writes), (4, Begins), Err((117, "Only servers in a sharded cluster"))),
            ((Some(4), Writes), (4, Continues), Err((251, no_match))),
            ((Some(4), Writes), (3, Write), Err((225, "because a newer retryable write with txnNumber 4"))),
            ((Some(4), Writes), (3, Begins), Err((225, "Cannot start transaction 3 on session"))),
            ((Some(4), InProgress), (3, Write), Err((225, "Retryable write with txnNumber 3 is prohibited"))),
            ((Some(4), InProgress), (3, Commits), Err((225, "because a newer transaction with txnNumber 4"))),
            ((Some(4), InProgress), (4, Write), Err((217, converted))),
            ((Some(4), InProgress), (4, Begins), Err((117, "Only servers"))),
            ((Some(4), InProgress), (4, Continues), Ok(Step::Stay)),
            ((Some(4), InProgress), (4, Commits), Ok(Step::Stay)),
            ((Some(4), InProgress), (5, Begins), Ok(Step::Renew)),
            ((Some(4), InProgress), (5, Write), Ok(Step::Renew)),
            ((Some(4), InProgress), (5, Continues), Err((251, "Given transaction number 5 does not match"))),
            ((Some(4), Committed), (5, Continues), Err((251, "The active transaction number is 4"))),
            ((Some(4), Committed), (4, Continues), Err((256, "Transaction 4 has been committed."))),
            ((Some(4), Committed), (4, Commits), Ok(Step::Stay)),
            ((Some(4), Committed), (4, Write), Err((217, converted))),
            ((Some(4), Aborted), (4, Continues), Err((251, "Transaction 4 has been aborted."))),
            ((Some(4), Aborted), (4, Commits), Err((251, "Transaction 4 has been aborted."))),
            ((Some(4), Aborted), (5, Begins), Ok(Step::Renew)),
        ] {
            check(state, request, expected);
        }
    }

    #[test]
    fn newer_versions_name_numbers_otherwise() {
        let session = SessionId::of_nobody(uuid::Uuid::nil());
        let text = |state, request| decide(state, request, &session, &V7_0).map_err(|error| error.message);
        assert_eq!(
            text((Some(4), Phase::Committed), (4, Claim::Continues)),
            Err("Transaction with { txnNumber: 4 } has been committed.".into())
        );
        let too_old = text((Some(4), Phase::InProgress), (3, Claim::Begins)).expect_err("refused");
        assert!(too_old.starts_with("Cannot start transaction with { txnNumber: 3 } on session"), "{too_old}");
        assert!(too_old.contains("txnNumberAndRetryCounter { txnNumber: 4, txnRetryCounter: 0 } has"), "{too_old}");
    }
}
