//! Stage *lookup*: which command it is, and whether it may run on this database.

use crate::commands::CommandSpec;
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::net::request::name_text;
use crate::ops::Op;

/// Finds the command.
///
/// # Errors
/// 59 for an unknown one.
pub fn command(op: &Op, request: &Request) -> Result<&'static CommandSpec> {
    let name = request.command_name();
    let spec =
        op.shared.commands.find(name).ok_or_else(|| CommandError::new(59, format!("no such command: '{name}'")))?;
    op.view().kind = spec.kind;
    Ok(spec)
}

/// Refuses a field that came with a later version.
///
/// # Errors
/// 40415, or what the command says itself of a field that it does not know.
pub fn fields(op: &Op, spec: &CommandSpec, request: &Request) -> Result<()> {
    let (profile, name) = (op.shared.profile, spec.name());
    // Of nearly every command there is nothing to refuse, and then its own fields need not be looked through.
    if !profile.fields_lacking(name).any(|field| request.get(field).is_some()) {
        return Ok(());
    }
    match request.names().map(name_text).find(|field| profile.lacks_field(name, field)) {
        Some(field) => Err((spec.unknown_field)(request, profile, name, field)),
        None => Ok(()),
    }
}

/// Refuses a command of the `admin` database elsewhere.
///
/// # Errors
/// 13.
pub fn admin_only(spec: &CommandSpec, database: &str) -> Result<()> {
    if spec.admin_only && database != "admin" {
        return Err(CommandError::new(13, format!("{} may only be run against the admin database.", spec.name())));
    }
    Ok(())
}
