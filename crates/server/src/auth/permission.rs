//! What a command needs of the user who sends it (facts/server.md 1.1 step 10).

use super::privilege::{Action, Resource};
use crate::commands::CommandSpec;
use crate::net::Request;
use crate::value::View;

/// How the needs of a command are found.
#[derive(Debug, Clone, Copy)]
pub enum Permission {
    /// Nothing beyond being somebody. What may be seen or ended of others is looked at when it runs.
    LoggedIn,
    /// These actions on the collection that the first field names.
    Collection(&'static [Action]),
    /// These actions on the database.
    Database(&'static [Action]),
    /// These actions on the server.
    Cluster(&'static [Action]),
    /// They depend on the request, which has been parsed without an error before.
    Computed(fn(&Request, &mut Needs)),
}

/// Actions on resources, all of which must be allowed.
#[derive(Debug, Default)]
pub struct Needs(Vec<(Action, Resource)>);

impl Needs {
    /// What `request`, a command of this kind, needs.
    pub fn of(spec: &CommandSpec, request: &Request) -> Self {
        let mut needs = Self::default();
        needs.add_command(spec, request);
        needs
    }

    /// Adds what a command needs.
    pub fn add_command(&mut self, spec: &CommandSpec, request: &Request) {
        let db = || request.database().unwrap_or_default();
        match spec.permission {
            Permission::LoggedIn => {}
            Permission::Collection(actions) => self.on_collection(request, actions),
            Permission::Database(actions) => self.all(actions, &Resource::Database(db().to_owned())),
            Permission::Cluster(actions) => self.all(actions, &Resource::Cluster),
            Permission::Computed(add) => add(request, self),
        }
    }

    /// Adds one action.
    pub fn add(&mut self, action: Action, resource: Resource) {
        self.0.push((action, resource));
    }

    /// Adds several actions on one resource.
    pub fn all(&mut self, actions: &[Action], resource: &Resource) {
        self.0.extend(actions.iter().map(|action| (*action, resource.clone())));
    }

    /// Adds actions on the collection that the first field names.
    pub fn on_collection(&mut self, request: &Request, actions: &[Action]) {
        let db = request.database().unwrap_or_default();
        let resource = match request.first() {
            Some(View::String(name)) => Resource::collection(db, name),
            _ => Resource::Database(db.to_owned()),
        };
        self.all(actions, &resource);
        if request.get("bypassDocumentValidation").is_some_and(View::is_true) {
            self.add(Action::BypassDocumentValidation, resource);
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (Action, &Resource)> {
        self.0.iter().map(|(action, resource)| (*action, resource))
    }
}
