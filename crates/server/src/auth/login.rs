//! Who is logged in on a connection, and who is about to be.
//!
//! A connection is one user's. Who logs in as somebody else takes the place of the former.

use std::sync::Arc;

use uuid::Uuid;

use super::Mechanism;
use super::scram::Conversation;
use super::users::{User, UserName, Users};
use crate::sessions::NOBODY;

/// The state of a connection.
#[derive(Debug, Default)]
pub struct Login {
    identity: Option<Identity>,
    /// The conversation that is under way.
    pub pending: Option<Pending>,
}

/// Somebody who proved who it is.
#[derive(Debug, Clone)]
struct Identity {
    name: UserName,
    /// A user that was dropped and made again is another one.
    id: Uuid,
    session_owner: [u8; 32],
}

/// A conversation that has begun.
#[derive(Debug)]
pub struct Pending {
    /// Who it is about.
    pub user: Arc<User>,
    /// Where it stands.
    pub conversation: Conversation,
    /// How the user proves who it is.
    pub mechanism: Mechanism,
    /// Whether it began with the handshake.
    pub is_speculative: bool,
}

impl Login {
    /// Somebody has proved who it is.
    pub fn accept(&mut self, user: &User) {
        let session_owner = User::session_owner(&user.name);
        self.identity = Some(Identity { name: user.name.clone(), id: user.id, session_owner });
    }

    /// Forgets the user, if it is one of `db`.
    pub fn log_out(&mut self, db: &str) {
        self.pending = None;
        self.identity = self.identity.take().filter(|identity| identity.name.db != db);
    }

    /// The user, as it is now. One that was dropped is nobody any more.
    pub fn user(&self, users: &Users) -> Option<Arc<User>> {
        let identity = self.identity.as_ref()?;
        users.get(&identity.name).filter(|user| user.id == identity.id)
    }

    /// The user's name, without a look at whether it still is one.
    pub fn name(&self) -> Option<&UserName> {
        self.identity.as_ref().map(|identity| &identity.name)
    }

    /// Whom its sessions and cursors belong to.
    pub fn session_owner(&self) -> [u8; 32] {
        self.identity.as_ref().map_or(NOBODY, |identity| identity.session_owner)
    }
}
