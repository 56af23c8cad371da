//! `runCommand` and `runCursorCommand`: commands that the driver knows nothing of.

use bson::Document;

use crate::cursor::Cursor;
use crate::error::{DriverError, Result};
use crate::execute::Plan;
use crate::retry::Operation;
use crate::topology::Criteria;

use super::options::options;
use super::{Execute, Request};

/// Runs a command as it is given. See [`crate::Database::run_command`].
///
/// Concerns and read preference are not inherited. While `timeoutMS` is set, what is left of it replaces a `maxTimeMS`
/// in the command.
pub struct RunCommand {
    pub(crate) database: String,
    pub(crate) command: Document,
}

options!(RunCommand: read_preference);

impl Execute for RunCommand {
    type Output = Document;

    async fn execute(self, mut request: Request) -> Result<Self::Output> {
        let mut call = request.start()?;
        let plan = plan(self.database, self.command, &request)?;
        Ok(plan.run(&mut call).await?.document)
    }
}

/// Runs a command whose reply is a cursor. See [`crate::Database::run_cursor_command`].
///
/// `batchSize`, `comment` and `maxTimeMS` are those of the cursor's `getMore`.
pub struct RunCursorCommand {
    pub(crate) database: String,
    pub(crate) command: Document,
}

options!(RunCursorCommand: batch_size, comment, cursor_type, max_time, read_preference, timeout_mode);

impl Execute for RunCursorCommand {
    type Output = Cursor;

    async fn execute(self, mut request: Request) -> Result<Self::Output> {
        if let Some(max_time) = request.options.get("maxTimeMS").cloned() {
            request.options.set("maxAwaitTimeMS", max_time);
        }
        let (mut call, rules) = request.start_cursor(None)?;
        let plan = plan(self.database, self.command, &request)?;
        let reply = plan.run(&mut call).await?;
        Cursor::new(call, reply, rules)
    }
}

fn plan(database: String, command: Document, request: &Request) -> Result<Plan> {
    if command.is_empty() {
        return Err(DriverError::invalid_argument("the command must not be empty"));
    }
    let preference = request.options.read_preference()?.unwrap_or_default();
    Ok(Plan::new(Operation::RunCommand, database, Criteria::Read(preference), move |_| Ok(command.clone())))
}
