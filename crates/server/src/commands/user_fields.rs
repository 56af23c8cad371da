//! What the commands about users share: how names, roles, passwords and mechanisms are read.

use bson::Document;

use super::idl;
use crate::auth::credentials::Password;
use crate::auth::roles::{Assigned, Role};
use crate::auth::{Action, Mechanism, Needs, Resource, UserName};
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::value::View;

/// The fields of `createUser` and `updateUser`.
const FIELDS: &[&str] =
    &["pwd", "customData", "roles", "digestPassword", "mechanisms", "authenticationRestrictions", "passwordDigestor"];

/// The fields of a request to make or change a user. Those that are not given stay as they are.
pub(super) struct UserFields {
    pub(super) name: UserName,
    pub(super) roles: Option<Vec<Assigned>>,
    pub(super) custom_data: Option<Document>,
    pub(super) mechanisms: Option<Vec<Mechanism>>,
    password: Option<(String, bool)>,
}

impl UserFields {
    /// Reads the request of `command`.
    ///
    /// # Errors
    /// 2, 14, 31 and 40415, each with the field that is wrong.
    pub(super) fn read(request: &Request, command: &'static str) -> Result<Self> {
        idl::only(request, command, FIELDS)?;
        let name = name(request, command)?;
        let db = request.database()?;
        for field in ["authenticationRestrictions", "passwordDigestor"] {
            let harmless = match request.get(field) {
                None => true,
                Some(View::Array(list)) => list.is_empty(),
                Some(View::String("server")) => true,
                Some(_) => false,
            };
            if !harmless {
                return Err(CommandError::new(238, format!("{command}.{field} is not implemented by this server")));
            }
        }
        let roles = match request.get("roles") {
            None => None,
            Some(View::Array(list)) => Some(list.iter().map(|role| self::role(role, db)).collect::<Result<_>>()?),
            Some(other) => return Err(idl::wrong_type(command, "roles", other, "array")),
        };
        let custom_data = match request.get("customData") {
            None => None,
            Some(View::Document(data)) => Some(data.to_document()?),
            Some(other) => return Err(idl::wrong_type(command, "customData", other, "object")),
        };
        let mechanisms = request.get("mechanisms").map(|value| self::mechanisms(value, command)).transpose()?;
        let digest = idl::boolean(request.get("digestPassword"), command, "digestPassword", true)?.unwrap_or(true);
        let password = match request.get("pwd") {
            None => None,
            Some(View::String(password)) => Some((password.to_owned(), digest)),
            Some(other) => return Err(idl::wrong_type(command, "pwd", other, "string")),
        };
        let sha_256 = mechanisms.as_ref().is_none_or(|mechanisms| mechanisms.contains(&Mechanism::ScramSha256));
        if password.is_some() && !digest && sha_256 {
            return Err(CommandError::bad_value("Use of SCRAM-SHA-256 requires undigested passwords"));
        }
        Ok(Self { name, roles, custom_data, mechanisms, password })
    }

    /// The password.
    pub(super) fn password(&self) -> Option<Password<'_>> {
        self.password.as_ref().map(|(password, digest)| match digest {
            true => Password::Plain(password),
            false => Password::Digested(password),
        })
    }
}

/// What handing out the roles of a request needs.
pub(super) fn needs_of_roles(request: &Request, needs: &mut Needs) {
    let db = request.database().unwrap_or_default();
    for role in request.get("roles").and_then(View::as_array).iter().flat_map(|list| list.iter()) {
        if let Ok(role) = self::role(role, db) {
            needs.add(Action::GrantRole, Resource::Database(role.db));
        }
    }
}

/// The user that the first field names.
///
/// # Errors
/// 2 when it is not a name; users of `local` cannot be.
pub(super) fn name(request: &Request, command: &str) -> Result<UserName> {
    let db = request.database()?;
    match request.get(command) {
        Some(View::String("")) => Err(CommandError::bad_value("User document needs 'user' field to be non-empty")),
        Some(View::String(_)) if db == "local" => {
            Err(CommandError::bad_value("Cannot create users in the local database"))
        }
        Some(View::String(user)) => Ok(UserName::new(db, user)),
        Some(other) => Err(idl::wrong_type(command, command, other, "string")),
        None => Err(idl::missing(command, command)),
    }
}

fn role(value: View<'_>, own_db: &str) -> Result<Assigned> {
    let (name, db) = match value {
        View::String(name) => (name, own_db),
        View::Document(document) => match (document.get("role"), document.get("db")) {
            (Some(View::String(name)), Some(View::String(db))) => (name, db),
            _ => return Err(CommandError::bad_value("a role needs a 'role' and a 'db', both strings")),
        },
        _ => return Err(CommandError::bad_value("Role names must be either strings or objects")),
    };
    match Role::find(name, db) {
        Some(role) => Ok(Assigned { role, db: db.to_owned() }),
        None => Err(CommandError::new(31, format!("Could not find role: {name}@{db}"))),
    }
}

fn mechanisms(value: View<'_>, command: &str) -> Result<Vec<Mechanism>> {
    let View::Array(list) = value else { return Err(idl::wrong_type(command, "mechanisms", value, "array")) };
    let mut mechanisms = Vec::new();
    for name in list.iter() {
        let View::String(name) = name else { return Err(idl::wrong_type(command, "mechanisms", name, "string")) };
        let mechanism = Mechanism::from_name(name);
        let mechanism = mechanism.ok_or_else(|| CommandError::bad_value(format!("Unknown auth mechanism '{name}'")))?;
        if !mechanisms.contains(&mechanism) {
            mechanisms.push(mechanism);
        }
    }
    if mechanisms.is_empty() {
        return Err(CommandError::bad_value("mechanisms field must not be empty"));
    }
    Ok(mechanisms)
}
