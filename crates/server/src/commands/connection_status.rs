//! `connectionStatus`.

use bson::{Bson, Document, doc};

use super::{CommandSpec, Reply, immediate};
use crate::auth::User;
use crate::value::View;

/// `{connectionStatus: 1, showPrivileges: bool}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["connectionStatus"],
    doc: "says who is logged in on this connection",
    needs_auth: false,
    parse: |request, _| {
        let privileges = request.get("showPrivileges").is_some_and(View::is_true);
        immediate(move |run| {
            let user = run.op.user();
            let roles = user.iter().flat_map(|user| &user.roles);
            let users: Vec<Document> =
                user.iter().map(|user| doc! { "user": &user.name.user, "db": &user.name.db }).collect();
            let roles: Vec<Document> = roles.map(|role| doc! { "role": role.role.name, "db": &role.db }).collect();
            let mut info = doc! { "authenticatedUsers": users, "authenticatedUserRoles": roles };
            if privileges {
                info.insert("authenticatedUserPrivileges", user.as_deref().map(shown).unwrap_or_default());
            }
            Reply::from_document(&doc! { "authInfo": info })
        })
    },
    ..CommandSpec::BASE
};

/// What a user may do: each resource once, with the actions of all roles.
fn shown(user: &User) -> Vec<Document> {
    let mut privileges: Vec<(Document, Vec<&str>)> = Vec::new();
    for (resource, actions) in user.roles.iter().flat_map(|role| role.privileges()) {
        match privileges.iter_mut().find(|(known, _)| *known == resource) {
            Some((_, known)) => known.extend(actions),
            None => privileges.push((resource, actions)),
        }
    }
    let shown = privileges.into_iter().map(|(resource, mut actions)| {
        actions.sort_unstable();
        actions.dedup();
        doc! { "resource": resource, "actions": actions.into_iter().map(Bson::from).collect::<Vec<_>>() }
    });
    shown.collect()
}
