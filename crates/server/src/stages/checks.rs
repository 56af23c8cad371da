//! Stage *command checks*: what can be refused before anything is done (facts/server.md 1.1 steps 8 to 11).

use crate::commands::{CommandSpec, PrimaryRule};
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::ops::Op;
use crate::profile::Profile;
use crate::stages::session_fields::SessionFields;
use crate::value::View;

/// The longest database name.
const DATABASE_NAME_MAX_BYTES: usize = 63;

/// Whether the database's name is one.
///
/// # Errors
/// 73.
pub fn database_name(name: &str) -> Result<()> {
    if let Some(bad) = name.chars().find(|c| matches!(c, '.' | ' ' | '"' | '\\' | '/' | '$' | '\0')) {
        return Err(CommandError::new(73, format!("'{bad}' is an invalid character in a database name")));
    }
    if name.is_empty() || name.len() > DATABASE_NAME_MAX_BYTES {
        return Err(CommandError::new(73, format!("Invalid database name: '{name}'")));
    }
    Ok(())
}

/// Whether a `txnNumber` may come with this command, and whether it may be part of a transaction.
///
/// # Errors
/// 50768 for a command that is not a retryable write; 263 for one that a multi-document transaction cannot have, or cannot
/// begin with.
pub fn session_options(spec: &CommandSpec, profile: &Profile, fields: &SessionFields, database: &str) -> Result<()> {
    if fields.is_in_transaction() {
        return in_transaction(spec, profile, fields.starts_transaction, database);
    }
    if fields.txn_number.is_some() && !spec.retryable_write {
        return Err(CommandError::new(
            50768,
            format!(
                "txnNumber may only be provided for multi-document transactions and retryable write commands. \
                 autocommit:false was not provided, and {} is not a retryable write command.",
                spec.name()
            ),
        ));
    }
    Ok(())
}

fn in_transaction(spec: &CommandSpec, profile: &Profile, starts: bool, database: &str) -> Result<()> {
    let refused = |text: String| Err(CommandError::new(263, text));
    let name = spec.name();
    if name == "count" {
        return refused(
            "Cannot run 'count' in a multi-document transaction. Please see \
             http://dochub.mongodb.org/core/transaction-count for a recommended alternative."
                .to_owned(),
        );
    }
    let makes = matches!(spec.name(), "create" | "createIndexes");
    if !spec.in_transactions || (makes && !profile.creates_in_transactions) {
        return refused(format!("Cannot run '{name}' in a multi-document transaction."));
    }
    if matches!(database, "config" | "local")
        || (database == "admin" && !spec.ends_transaction && spec.name() != "bulkWrite")
    {
        return refused(format!("Cannot run command against the '{database}' database in a transaction"));
    }
    match name {
        "killCursors" if starts => {
            refused("Cannot run killCursors as the first operation in a multi-document transaction.".to_owned())
        }
        "commitTransaction" if starts => refused("Cannot start a transaction with a commit".to_owned()),
        "abortTransaction" if starts => refused("Cannot start a transaction with an abort".to_owned()),
        _ => Ok(()),
    }
}

/// Looks through the top-level fields that every command may have.
///
/// # Errors
/// 9 for a field given twice, 72 for fields that clients may not use.
pub fn generic_fields(request: &Request) -> Result<()> {
    if let Some(name) = request.name_given_twice() {
        return Err(CommandError::failed_to_parse(format!(
            "Parsed command object contains duplicate top level key: {name}"
        )));
    }
    if request.get("$maxTimeMS").is_some() {
        return Err(CommandError::new(72, "no such command option $maxTimeMs; use maxTimeMS instead"));
    }
    if request.get("maxTimeMSOpOnly").is_some() {
        return Err(CommandError::new(72, "Can not specify maxTimeMSOpOnly for non internal clients"));
    }
    Ok(())
}

/// Whether this node, in its present state, runs the command.
///
/// # Errors
/// 10107 for a write, 13435 for a read that did not allow it.
pub fn primary(op: &Op, spec: &CommandSpec, request: &Request) -> Result<()> {
    if op.shared.topology.is_primary() {
        return Ok(());
    }
    let text = op.shared.profile.not_primary_text();
    match spec.primary {
        PrimaryRule::Anywhere => Ok(()),
        PrimaryRule::Required => Err(CommandError::new(10107, text)),
        PrimaryRule::UnlessSecondaryOk if secondary_ok(request) => Ok(()),
        PrimaryRule::UnlessSecondaryOk => Err(CommandError::new(
            13435,
            format!(
                "{text} and {}",
                if op.shared.profile.primary_terms { "secondaryOk=false" } else { "slaveOk=false" }
            ),
        )),
    }
}

fn secondary_ok(request: &Request) -> bool {
    let mode = request.get("$readPreference").and_then(View::as_document).and_then(|preference| preference.get("mode"));
    matches!(mode.and_then(View::as_str), Some("primaryPreferred" | "secondary" | "secondaryPreferred" | "nearest"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_names_are_checked() {
        for (name, text) in [
            ("a.b", Some("'.' is an invalid character in a database name")),
            ("a b", Some("' ' is an invalid character in a database name")),
            ("", Some("Invalid database name: ''")),
            ("test", None),
        ] {
            assert_eq!(database_name(name).err().map(|error| error.message), text.map(str::to_owned));
        }
    }
}
