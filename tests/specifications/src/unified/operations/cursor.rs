//! Operations on cursors.

use std::time::Duration;

use backfire_driver::Cursor;
use bson::Bson;

use super::{Arguments, Executed, Outcome, unknown};
use crate::failure::Checked;

/// Executes the operation called `name`.
///
/// # Errors
/// When it is not known, or an argument of it.
pub async fn run(cursor: &mut Cursor, name: &str, arguments: Arguments) -> Checked<Executed> {
    let mut fields = arguments.without_session()?;
    let timeout: Option<u64> = fields.optional("timeoutMS")?;
    fields.done()?;
    match (name, timeout) {
        ("iterateOnce", None) => Ok(cursor.try_next().await.map(found)),
        ("iterateUntilDocumentOrError", None) => Ok(cursor.next().await.map(found)),
        ("close", None) => {
            cursor.close().await;
            Ok(Ok(Outcome::Nothing))
        }
        ("close", Some(ms)) => {
            cursor.close_with_timeout(Duration::from_millis(ms)).await;
            Ok(Ok(Outcome::Nothing))
        }
        _ => Err(unknown()),
    }
}

fn found(document: Option<bson::Document>) -> Outcome {
    document.map_or(Outcome::Nothing, |document| Outcome::Value(Bson::Document(document)))
}
