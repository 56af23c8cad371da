//! Operations on sessions.

use std::time::Duration;

use backfire_driver::{ClientSession, DriverError, WithTransaction};
use bson::Bson;
use parking_lot::Mutex;

use super::{Arguments, Executed, Outcome, execute_and_tell, unknown};
use crate::failure::{Checked, Failure, fail};
use crate::unified::entities::{Entities, SessionEntity, transaction_options};
use crate::unified::file::Operation;

/// Executes an operation.
///
/// # Errors
/// When it is not known, or an argument of it.
pub async fn run(
    entity: &SessionEntity,
    operation: &Operation,
    arguments: Arguments,
    entities: &Entities,
) -> Checked<Executed> {
    let session = &entity.session;
    let mut fields = arguments.without_session()?;
    match operation.name.as_str() {
        "endSession" => {
            fields.done()?;
            entity.end();
            Ok(Ok(Outcome::Nothing))
        }
        "startTransaction" => {
            let options = transaction_options(&mut fields)?;
            fields.done()?;
            Ok(session.start_transaction(options).map(|()| Outcome::Nothing))
        }
        name @ ("commitTransaction" | "abortTransaction") => {
            let timeout = fields.optional("timeoutMS")?.map(Duration::from_millis);
            fields.done()?;
            let ended = match name {
                "commitTransaction" => session.commit_within(timeout).await,
                _ => session.abort_within(timeout).await,
            };
            Ok(ended.map(|()| Outcome::Nothing))
        }
        "withTransaction" => {
            let transaction = transaction_options(&mut fields)?;
            let timeout = fields.optional("timeoutMS")?.map(Duration::from_millis);
            fields.done()?;
            with_transaction(session, WithTransaction { transaction, timeout }, &operation.body, entities).await
        }
        "getSnapshotTime" => {
            fields.done()?;
            match session.snapshot_time() {
                Some(time) => Ok(Ok(Outcome::Value(Bson::Timestamp(time)))),
                None => fail!("the session has no snapshot time"),
            }
        }
        _ => Err(unknown()),
    }
}

/// Runs the operations of the body; an error of one of them is handed on, whether it is expected or not.
async fn with_transaction(
    session: &ClientSession,
    options: WithTransaction,
    body: &[Operation],
    entities: &Entities,
) -> Checked<Executed> {
    let failure: Mutex<Option<Failure>> = Mutex::default();
    let failed = &failure;
    let result = session
        .with_transaction(options, || async move {
            for operation in body {
                match execute_and_tell(entities, operation).await {
                    Ok(None) => {}
                    Ok(Some(error)) => return Err(error),
                    Err(failure) => {
                        *failed.lock() = Some(failure);
                        return Err(DriverError::by_application(
                            "an operation of the body does not do what is expected",
                        ));
                    }
                }
            }
            Ok(())
        })
        .await;
    match failure.into_inner() {
        Some(failure) => Err(failure),
        None => Ok(result.map(|()| Outcome::Nothing)),
    }
}
