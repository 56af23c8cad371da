//! Stage *authorization*: who may send the command (facts/server.md 1.1 steps 4 and 10).

use std::sync::Arc;

use crate::auth::{Action, Needs, Resource, User};
use crate::commands::CommandSpec;
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::net::request::raw;
use crate::ops::Op;
use crate::value::text;

/// How much of a command a refusal shows.
const SHOWN_MAX_BYTES: usize = 64 * 1024;

/// Refuses a command of somebody who has not logged in.
///
/// # Errors
/// 13.
pub fn logged_in(op: &Op, spec: &CommandSpec) -> Result<()> {
    if op.shared.auth && spec.needs_auth && op.user().is_none() {
        return Err(CommandError::new(13, format!("command {} requires authentication", spec.name())));
    }
    Ok(())
}

/// Refuses a command that the user may not send.
///
/// # Errors
/// 13.
pub fn allowed(op: &Op, spec: &CommandSpec, request: &Request) -> Result<()> {
    if !op.shared.auth || !spec.needs_auth {
        return Ok(());
    }
    let user = op.user();
    let may = |action, resource: &Resource| user.as_ref().is_some_and(|user| user.may(action, resource));
    if Needs::of(spec, request).iter().all(|(action, resource)| may(action, resource)) {
        return Ok(());
    }
    Err(refusal(op, request))
}

/// 13 for a command that its sender may not send.
pub fn refusal(op: &Op, request: &Request) -> CommandError {
    let mut shown = text::document(raw(&op.command));
    if shown.len() > SHOWN_MAX_BYTES {
        let end = (0..=SHOWN_MAX_BYTES).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0);
        shown.truncate(end);
        shown.push_str("...");
    }
    let database = request.database().unwrap_or_default();
    CommandError::new(13, format!("not authorized on {database} to execute command {shown}"))
}

impl Op {
    /// Who sent it, if that is known.
    pub fn user(&self) -> Option<Arc<User>> {
        self.connection.login().user(&self.shared.users)
    }

    /// Whether the same user sent it as another operation.
    pub fn is_of_same_user(&self, other: &Op) -> bool {
        let (own, name) = (other.user(), self.user().map(|user| user.name.clone()));
        own.is_some_and(|own| Some(&own.name) == name.as_ref())
    }

    /// Whether its sender may do something. Where nobody has to log in, everybody may.
    pub fn may(&self, action: Action, resource: &Resource) -> bool {
        !self.shared.auth || self.user().is_some_and(|user| user.may(action, resource))
    }
}
