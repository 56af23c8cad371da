//! `updateUser`.

use super::user_fields::{UserFields, needs_of_roles};
use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Mechanism, Needs, Permission, Resource};
use crate::error::CommandError;
use crate::net::Request;

/// `{updateUser: name, pwd, roles: […], mechanisms: […], customData}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["updateUser"],
    doc: "changes a user's password, roles, mechanisms or data; what is not given stays",
    permission: Permission::Computed(needs),
    parse: |request, _| {
        let fields = UserFields::read(request, "updateUser")?;
        let given = ["pwd", "roles", "mechanisms", "customData"].iter().any(|field| request.get(field).is_some());
        if !given {
            return Err(CommandError::bad_value("Must specify at least one field to update in updateUser"));
        }
        immediate(move |run| {
            let shared = run.shared();
            let not_found = || CommandError::new(11, format!("User {} not found", fields.name));
            let known: Vec<Mechanism> = shared.users.get(&fields.name).ok_or_else(not_found)?.mechanisms().collect();
            let wanted = fields.mechanisms.clone().unwrap_or_else(|| known.clone());
            let credentials = match fields.password() {
                Some(password) => Some(shared.credentials(&fields.name.user, password, &wanted)?),
                None if wanted.iter().any(|mechanism| !known.contains(mechanism)) => {
                    let text = "mechanisms field must be a subset of previously set mechanisms";
                    return Err(CommandError::bad_value(text));
                }
                None => None,
            };
            let changed = shared.users.change(&fields.name, |user| {
                if let Some(credentials) = credentials {
                    user.credentials = credentials;
                }
                user.credentials.retain(|credentials| wanted.contains(&credentials.mechanism));
                if let Some(roles) = &fields.roles {
                    user.roles.clone_from(roles);
                }
                if let Some(data) = &fields.custom_data {
                    user.custom_data = Some(data.clone());
                }
            });
            if changed { Ok(Reply::empty()) } else { Err(not_found()) }
        })
    },
    ..CommandSpec::DDL
};

fn needs(request: &Request, needs: &mut Needs) {
    let db = Resource::Database(request.database().unwrap_or_default().to_owned());
    if request.get("pwd").is_some() || request.get("mechanisms").is_some() {
        needs.add(Action::ChangePassword, db.clone());
    }
    if request.get("customData").is_some() {
        needs.add(Action::ChangeCustomData, db.clone());
    }
    if request.get("roles").is_some() {
        needs.add(Action::RevokeRole, db);
    }
    needs_of_roles(request, needs);
}
