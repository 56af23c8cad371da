//! MongoDB in the sources: the writes that run, and the clients' settings.

mod bulk;
pub mod client;
mod driver;
mod filter;
mod identity;
mod repository;
mod template;
pub mod write;

use std::rc::Rc;

use crate::index::Ty;
use crate::machine::{ArgVal, Machine, Scope, Val};
use crate::span::Site;

impl<'s> Machine<'s> {
    /// A call on something of MongoDB's; `None`: it is not, or the call is nothing special.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn mongo_call(
        &mut self,
        target: &Val<'s>,
        classes: &[Ty<'s>],
        name: &'s str,
        types: &[Ty<'s>],
        args: &[ArgVal<'s>],
        at: Site,
        scope: &Rc<Scope<'s>>,
    ) -> Option<Val<'s>> {
        let class = classes.iter().find_map(Ty::lib)?;
        match class {
            "MongoTemplate" | "MongoOperations" => self.template_call(target, false, name, types, args, at, scope),
            "ReactiveMongoTemplate" | "ReactiveMongoOperations" => {
                self.template_call(target, true, name, types, args, at, scope)
            }
            "ExecutableWrite" => self.fluent_call(target, name, types, args, at),
            "BulkOperations" | "ReactiveBulkOperations" => self.bulk_call(target, name, at),
            "MongoClient"
            | "MongoDatabase"
            | "MongoCluster"
            | "MongoDatabaseFactory"
            | "ReactiveMongoDatabaseFactory"
            | "MongoClients" => self.database_call(target, class, name, types, args, at),
            "MongoCollection" => self.collection_call(target, classes, name, args, at),
            "ClientSession" | "ReactiveClientSession" => self.session_call(name, args, at),
            _ => None,
        }
    }
}
