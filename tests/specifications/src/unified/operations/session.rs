//! Operations on sessions.

use bson::Bson;

use super::{Arguments, Executed, Outcome, unknown};
use crate::failure::{Checked, fail};
use crate::unified::entities::SessionEntity;

/// Executes the operation called `name`.
///
/// # Errors
/// When it is not known, or an argument of it.
pub fn run(entity: &SessionEntity, name: &str, arguments: Arguments) -> Checked<Executed> {
    arguments.without_session()?.done()?;
    match name {
        "endSession" => {
            entity.end();
            Ok(Ok(Outcome::Nothing))
        }
        "startTransaction" => Ok(entity.session.start_transaction().map(|()| Outcome::Nothing)),
        "getSnapshotTime" => match entity.session.snapshot_time() {
            Some(time) => Ok(Ok(Outcome::Value(Bson::Timestamp(time)))),
            None => fail!("the session has no snapshot time"),
        },
        _ => Err(unknown()),
    }
}
