//! `usersInfo`.

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};

use super::{CommandSpec, Reply, idl, immediate};
use crate::auth::{Action, Resource, User, UserName};
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::ops::Op;
use crate::stages::authorization;
use crate::value::View;

/// `{usersInfo: 1 | name | {user, db} | [name | {user, db}, …] | {forAllDBs: true}}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["usersInfo"],
    doc: "lists users and their roles; nobody is shown what is kept of passwords",
    parse: |request, _| {
        const FIELDS: &[&str] = &["showCredentials", "showCustomData", "showPrivileges", "filter"];
        idl::only(request, "usersInfo", FIELDS)?;
        for field in ["showCredentials", "showPrivileges", "filter"] {
            if request.get(field).is_some_and(View::is_true) {
                return Err(CommandError::new(238, format!("usersInfo.{field} is not implemented by this server")));
            }
        }
        let custom_data = request.get("showCustomData").is_none_or(View::is_true);
        let wanted = Wanted::read(request)?;
        immediate(move |run| {
            if !wanted.may_be_seen(run.op) {
                return Err(authorization::refusal(run.op, run.request));
            }
            let users = &run.shared().users;
            let found = match wanted {
                Wanted::All => users.list(None),
                Wanted::Database(db) => users.list(Some(&db)),
                Wanted::Named(names) => names.iter().filter_map(|name| users.get(name)).collect(),
            };
            let found: Vec<Document> = found.iter().map(|user| shown(user, custom_data)).collect();
            Reply::from_document(&doc! { "users": found })
        })
    },
    ..CommandSpec::BASE
};

/// Which users.
enum Wanted {
    All,
    Database(String),
    Named(Vec<UserName>),
}

impl Wanted {
    fn read(request: &Request) -> Result<Self> {
        let db = request.database()?;
        match request.get("usersInfo") {
            Some(View::Document(all)) if all.get("forAllDBs").is_some_and(View::is_true) => Ok(Self::All),
            Some(View::Array(list)) => Ok(Self::Named(list.iter().map(|name| named(name, db)).collect::<Result<_>>()?)),
            Some(one) if one.number().is_some_and(|one| one.to_f64() == 1.0) => Ok(Self::Database(db.to_owned())),
            Some(one) => Ok(Self::Named(vec![named(one, db)?])),
            None => Err(idl::missing("usersInfo", "usersInfo")),
        }
    }

    /// Everybody may ask for itself; who asks for others must be allowed to.
    fn may_be_seen(&self, op: &Op) -> bool {
        let of = |db: &str| op.may(Action::ViewUser, &Resource::Database(db.to_owned()));
        match self {
            // No database has an empty name: only a role for all of them reaches it.
            Self::All => of(""),
            Self::Database(db) => of(db),
            Self::Named(names) => {
                let own = op.user();
                names.iter().all(|name| own.as_ref().is_some_and(|own| own.name == *name) || of(&name.db))
            }
        }
    }
}

fn named(value: View<'_>, db: &str) -> Result<UserName> {
    match value {
        View::String(user) => Ok(UserName::new(db, user)),
        View::Document(document) => match (document.get("user"), document.get("db")) {
            (Some(View::String(user)), Some(View::String(db))) => Ok(UserName::new(db, user)),
            _ => Err(CommandError::bad_value("a user needs a 'user' and a 'db', both strings")),
        },
        _ => Err(CommandError::bad_value("User and role names must be either strings or objects")),
    }
}

fn shown(user: &User, custom_data: bool) -> Document {
    let roles: Vec<Document> = user.roles.iter().map(|role| doc! { "role": role.role.name, "db": &role.db }).collect();
    let id = Binary { subtype: BinarySubtype::Uuid, bytes: user.id.as_bytes().to_vec() };
    let mut shown =
        doc! { "_id": user.name.key(), "userId": id, "user": &user.name.user, "db": &user.name.db, "roles": roles };
    if let Some(data) = user.custom_data.as_ref().filter(|_| custom_data) {
        shown.insert("customData", data.clone());
    }
    shown.insert("mechanisms", user.mechanisms().map(|mechanism| mechanism.name()).collect::<Vec<_>>());
    shown
}
