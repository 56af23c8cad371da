//! `createUser`.

use super::user_fields::{UserFields, needs_of_roles};
use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Mechanism, Needs, Permission, Resource, User};
use crate::error::CommandError;
use crate::net::Request;

/// `{createUser: name, pwd, roles: [name | {role, db}, …], mechanisms: […], customData, digestPassword}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["createUser"],
    doc: "makes a user of the database, with built-in roles; the password itself is not kept",
    permission: Permission::Computed(needs),
    parse: |request, _| {
        let fields = UserFields::read(request, "createUser")?;
        if fields.password().is_none() {
            return Err(CommandError::bad_value(
                "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source \
                 db",
            ));
        }
        if fields.roles.is_none() {
            return Err(CommandError::bad_value("\"createUser\" command requires a \"roles\" array"));
        }
        immediate(move |run| {
            let shared = run.shared();
            let credentials = match fields.password() {
                Some(password) => {
                    let mechanisms = fields.mechanisms.as_deref().unwrap_or(&Mechanism::ALL);
                    shared.credentials(&fields.name.user, password, mechanisms)?
                }
                None => Vec::new(),
            };
            shared.users.add(User {
                name: fields.name,
                id: shared.new_uuid(),
                roles: fields.roles.unwrap_or_default(),
                custom_data: fields.custom_data,
                credentials,
            })?;
            Ok(Reply::empty())
        })
    },
    ..CommandSpec::DDL
};

fn needs(request: &Request, needs: &mut Needs) {
    needs.add(Action::CreateUser, Resource::Database(request.database().unwrap_or_default().to_owned()));
    needs_of_roles(request, needs);
}
