//! Operations on sessions.

use backfire_driver::ClientSession;
use bson::Bson;

use super::{Arguments, Executed, Outcome, unknown};
use crate::failure::{Checked, fail};

/// Executes the operation called `name`.
///
/// # Errors
/// When it is not known, or an argument of it.
pub fn run(session: &ClientSession, name: &str, arguments: Arguments) -> Checked<Executed> {
    arguments.without_session()?.done()?;
    match name {
        "endSession" => {
            session.end();
            Ok(Ok(Outcome::Nothing))
        }
        "startTransaction" => Ok(session.start_transaction().map(|()| Outcome::Nothing)),
        "getSnapshotTime" => match session.snapshot_time() {
            Some(time) => Ok(Ok(Outcome::Value(Bson::Timestamp(time)))),
            None => fail!("the session has no snapshot time"),
        },
        _ => Err(unknown()),
    }
}
