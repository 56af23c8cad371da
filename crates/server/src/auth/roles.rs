//! The built-in roles, as data (the manual's "Built-In Roles"). There are no others.

use super::privilege::{Action, Resource};
use Action::*;

/// A role that a user can have in a database.
#[derive(Debug, PartialEq, Eq)]
pub struct Role {
    /// Its name.
    pub name: &'static str,
    /// Whether only the database `admin` has it.
    pub admin_only: bool,
    grants: &'static [&'static [Grant]],
}

/// Actions on resources.
#[derive(Debug, PartialEq, Eq)]
struct Grant {
    on: On,
    actions: &'static [Action],
}

/// Which resources a grant is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    /// The role's own database, and its collections that are not the system's.
    Own,
    /// A system collection of the role's own database.
    OwnSystem(&'static str),
    /// As [`On::Own`], for every database but `local` and `config`.
    AnyDatabase,
    /// A system collection of every database.
    AnySystem(&'static str),
    /// This database, and its collections that are not the system's.
    Named(&'static str),
    /// The server.
    Cluster,
    /// Everything.
    Everything,
}

const fn grant(on: On, actions: &'static [Action]) -> Grant {
    Grant { on, actions }
}

const READ: &[Action] = &[CollStats, DbStats, Find, KillCursors, ListCollections, ListIndexes];
const WRITE: &[Action] =
    &[CreateCollection, CreateIndex, DropCollection, DropIndex, Insert, Remove, RenameCollectionSameDb, Update];
const ADMINISTER: &[Action] = &[
    BypassDocumentValidation,
    CollMod,
    CollStats,
    CreateCollection,
    CreateIndex,
    DbStats,
    DropCollection,
    DropDatabase,
    DropIndex,
    EnableProfiler,
    IndexStats,
    KillCursors,
    ListCollections,
    ListIndexes,
    RenameCollectionSameDb,
    Validate,
];
const USERS: &[Action] = &[ChangeCustomData, ChangePassword, CreateUser, DropUser, GrantRole, RevokeRole, ViewUser];
const MONITOR: &[Action] = &[
    GetCmdLineOpts,
    GetDefaultRwConcern,
    GetLog,
    GetParameter,
    HostInfo,
    Inprog,
    ListDatabases,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ServerStatus,
];
const MONITOR_DATABASE: &[Action] = &[CollStats, DbStats, IndexStats];
const MONITOR_OWN: &[Action] = &[CollStats, DbStats, Find, IndexStats, KillCursors, ListCollections, ListIndexes];

const READ_OWN: &[Grant] = &[grant(On::Own, READ), grant(On::OwnSystem("system.js"), READ)];
const WRITE_OWN: &[Grant] = &[grant(On::Own, WRITE), grant(On::OwnSystem("system.js"), WRITE)];
const ADMINISTER_OWN: &[Grant] = &[
    grant(On::Own, ADMINISTER),
    grant(On::OwnSystem("system.profile"), &[CollStats, DropCollection, Find, KillCursors, ListIndexes]),
];
const USERS_OWN: &[Grant] = &[grant(On::Own, USERS)];
const LIST: &[Grant] = &[grant(On::Cluster, &[ListDatabases])];

const fn role(name: &'static str, grants: &'static [&'static [Grant]]) -> Role {
    Role { name, admin_only: false, grants }
}

const fn of_admin(name: &'static str, grants: &'static [&'static [Grant]]) -> Role {
    Role { name, admin_only: true, grants }
}

/// All roles.
pub static ROLES: &[Role] = &[
    role("read", &[READ_OWN]),
    role("readWrite", &[READ_OWN, WRITE_OWN]),
    role("dbAdmin", &[ADMINISTER_OWN]),
    role("userAdmin", &[USERS_OWN]),
    role("dbOwner", &[READ_OWN, WRITE_OWN, ADMINISTER_OWN, USERS_OWN]),
    of_admin("readAnyDatabase", &[LIST, &[grant(On::AnyDatabase, READ), grant(On::AnySystem("system.js"), READ)]]),
    of_admin(
        "readWriteAnyDatabase",
        &[
            LIST,
            &[grant(On::AnyDatabase, READ), grant(On::AnyDatabase, WRITE), grant(On::AnySystem("system.js"), READ)],
        ],
    ),
    of_admin("dbAdminAnyDatabase", &[LIST, &[grant(On::AnyDatabase, ADMINISTER)]]),
    of_admin("userAdminAnyDatabase", &[LIST, &[grant(On::AnyDatabase, USERS)]]),
    of_admin(
        "clusterMonitor",
        &[&[
            grant(On::Cluster, MONITOR),
            grant(On::AnyDatabase, MONITOR_DATABASE),
            grant(On::AnySystem("system.profile"), &[Find]),
            grant(On::Named("config"), MONITOR_OWN),
            grant(On::Named("local"), MONITOR_OWN),
        ]],
    ),
    of_admin("root", &[&[grant(On::Everything, Action::ALL)]]),
];

/// A role in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// The role.
    pub role: &'static Role,
    /// The database.
    pub db: String,
}

impl Role {
    /// The role called `name` in the database `db`.
    pub fn find(name: &str, db: &str) -> Option<&'static Self> {
        ROLES.iter().find(|role| role.name == name && (!role.admin_only || db == "admin"))
    }
}

impl Assigned {
    /// Whether it allows the action.
    pub fn allows(&self, action: Action, resource: &Resource) -> bool {
        let grants = self.role.grants.iter().copied().flatten();
        grants.into_iter().any(|grant| grant.actions.contains(&action) && covers(grant.on, resource, &self.db))
    }

    /// Whether it allows anything in the database.
    pub fn touches(&self, db: &str) -> bool {
        self.role.grants.iter().copied().flatten().any(|grant| match grant.on {
            On::Own | On::OwnSystem(_) => self.db == db,
            On::AnyDatabase | On::AnySystem(_) | On::Everything => true,
            On::Named(name) => name == db,
            On::Cluster => false,
        })
    }

    /// Its privileges as `connectionStatus` shows them: a resource and actions each.
    pub fn privileges(&self) -> Vec<(bson::Document, Vec<&'static str>)> {
        let of = |db: &str, collection: &str| bson::doc! { "db": db, "collection": collection };
        let grants = self.role.grants.iter().copied().flatten();
        grants
            .map(|grant| {
                let resource = match grant.on {
                    On::Own => of(&self.db, ""),
                    On::OwnSystem(name) => of(&self.db, name),
                    On::AnyDatabase => of("", ""),
                    On::AnySystem(name) => of("", name),
                    On::Named(name) => of(name, ""),
                    On::Cluster => bson::doc! { "cluster": true },
                    On::Everything => bson::doc! { "anyResource": true },
                };
                (resource, grant.actions.iter().map(|action| action.name()).collect())
            })
            .collect()
    }
}

fn covers(on: On, resource: &Resource, own: &str) -> bool {
    let (db, collection) = match resource {
        Resource::Cluster => return matches!(on, On::Cluster | On::Everything),
        Resource::Database(db) => (db.as_str(), None),
        Resource::Collection(ns) => (ns.db.as_str(), Some(ns.coll.as_str())),
    };
    let is_system = collection.is_some_and(|name| name.starts_with("system."));
    match on {
        On::Own => db == own && !is_system,
        On::OwnSystem(name) => db == own && collection == Some(name),
        On::AnyDatabase => !is_system && !matches!(db, "local" | "config"),
        On::AnySystem(name) => collection == Some(name),
        On::Named(name) => db == name && !is_system,
        On::Cluster => false,
        On::Everything => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(role: &str, db: &str, action: Action, resource: Resource, expected: bool) {
        let assigned = Assigned { role: Role::find(role, db).expect("a role"), db: db.to_owned() };
        assert_eq!(assigned.allows(action, &resource), expected, "{role}@{db} {action:?} {resource:?}");
    }

    #[test]
    fn roles_reach_as_far_as_they_should() {
        let c = |db: &str| Resource::collection(db, "c");
        check("read", "test", Find, c("test"), true);
        check("read", "test", Find, c("other"), false);
        check("read", "test", Find, Resource::collection("test", "system.profile"), false);
        check("read", "test", Find, Resource::collection("test", "system.js"), true);
        check("read", "test", Insert, c("test"), false);
        check("readWrite", "test", Insert, c("test"), true);
        check("readWrite", "test", DropDatabase, Resource::Database("test".into()), false);
        check("dbAdmin", "test", Find, c("test"), false);
        check("dbAdmin", "test", Find, Resource::collection("test", "system.profile"), true);
        check("dbAdmin", "test", DropDatabase, Resource::Database("test".into()), true);
        check("readAnyDatabase", "admin", Find, c("test"), true);
        check("readAnyDatabase", "admin", Find, c("local"), false);
        check("clusterMonitor", "admin", Find, c("test"), false);
        check("clusterMonitor", "admin", CollStats, c("test"), true);
        check("clusterMonitor", "admin", Find, c("config"), true);
        check("clusterMonitor", "admin", KillOp, Resource::Cluster, false);
        check("root", "admin", KillOp, Resource::Cluster, true);
        check("root", "admin", Insert, Resource::collection("test", "system.js"), true);
    }

    #[test]
    fn roles_of_the_server_are_those_of_admin() {
        assert!(Role::find("root", "test").is_none() && Role::find("root", "admin").is_some());
        assert!(Role::find("read", "test").is_some() && Role::find("writer", "test").is_none());
    }
}
