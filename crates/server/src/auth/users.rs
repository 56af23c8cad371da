//! The users of a server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bson::Document;
use parking_lot::RwLock;
use uuid::Uuid;

use super::Mechanism;
use super::credentials::Credentials;
use super::privilege::{Action, Resource};
use super::roles::Assigned;
use crate::error::{CommandError, Result};

/// How many users a server keeps.
const MAX_USERS: usize = 10_000;

/// A user's name, which is good in one database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName {
    /// The database.
    pub db: String,
    /// The name.
    pub user: String,
}

impl UserName {
    /// `user` of `db`.
    pub fn new(db: impl Into<String>, user: impl Into<String>) -> Self {
        Self { db: db.into(), user: user.into() }
    }

    /// `db.user`: the key under which a mongod keeps it.
    pub fn key(&self) -> String {
        format!("{}.{}", self.db, self.user)
    }
}

impl fmt::Display for UserName {
    /// `user@db`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.db)
    }
}

/// A user.
#[derive(Debug, Clone)]
pub struct User {
    /// Its name.
    pub name: UserName,
    /// Tells it from another of the same name, later.
    pub id: Uuid,
    /// What it may do.
    pub roles: Vec<Assigned>,
    /// What its creator wants to be kept with it.
    pub custom_data: Option<Document>,
    /// What it can prove who it is with, by mechanism.
    pub credentials: Vec<Credentials>,
}

impl User {
    /// Whether one of its roles allows the action.
    pub fn may(&self, action: Action, resource: &Resource) -> bool {
        self.roles.iter().any(|role| role.allows(action, resource))
    }

    /// Its mechanisms.
    pub fn mechanisms(&self) -> impl Iterator<Item = Mechanism> {
        self.credentials.iter().map(|credentials| credentials.mechanism)
    }

    /// What `lsid.uid` is for its sessions: the SHA-256 of `user@db`.
    pub fn session_owner(name: &UserName) -> [u8; 32] {
        use sha2::{Digest, Sha256};
        Sha256::digest(name.to_string()).into()
    }
}

/// All users.
#[derive(Debug, Default)]
pub struct Users {
    by_name: RwLock<BTreeMap<UserName, Arc<User>>>,
}

impl Users {
    /// The user of this name.
    pub fn get(&self, name: &UserName) -> Option<Arc<User>> {
        self.by_name.read().get(name).cloned()
    }

    /// All of a database, or of every one.
    pub fn list(&self, db: Option<&str>) -> Vec<Arc<User>> {
        self.by_name.read().values().filter(|user| db.is_none_or(|db| user.name.db == db)).cloned().collect()
    }

    /// Adds one.
    ///
    /// # Errors
    /// 51003 when there is one of that name, 146 when there are too many.
    pub fn add(&self, user: User) -> Result<()> {
        let mut by_name = self.by_name.write();
        if by_name.contains_key(&user.name) {
            return Err(CommandError::new(51003, format!("User \"{}\" already exists", user.name)));
        }
        if by_name.len() >= MAX_USERS {
            return Err(CommandError::new(146, format!("too many users: the limit is {MAX_USERS}")));
        }
        by_name.insert(user.name.clone(), Arc::new(user));
        Ok(())
    }

    /// Changes one; gives whether there is one.
    pub fn change(&self, name: &UserName, change: impl FnOnce(&mut User)) -> bool {
        match self.by_name.write().get_mut(name) {
            Some(user) => {
                change(Arc::make_mut(user));
                true
            }
            None => false,
        }
    }

    /// Removes one; gives whether there was one.
    pub fn remove(&self, name: &UserName) -> bool {
        self.by_name.write().remove(name).is_some()
    }
}
