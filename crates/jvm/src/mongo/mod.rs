//! MongoDB in the sources: the writes that run, and the clients' settings.

mod bulk;
pub mod client;
mod driver;
mod filter;
mod identity;
mod repository;
mod template;
pub mod write;

use crate::index::Ty;
use crate::machine::{Call, Machine, Val};

impl<'s> Machine<'s> {
    /// A call on something of MongoDB's; `None`: it is not, or the call is nothing special.
    pub(crate) fn mongo_call(&mut self, target: &Val<'s>, classes: &[Ty<'s>], call: &Call<'s>) -> Option<Val<'s>> {
        let class = classes.iter().find_map(Ty::lib)?;
        match class {
            "MongoTemplate" | "MongoOperations" => self.template_call(target, false, call),
            "ReactiveMongoTemplate" | "ReactiveMongoOperations" => self.template_call(target, true, call),
            "ExecutableWrite" => self.fluent_call(target, call),
            "BulkOperations" | "ReactiveBulkOperations" => self.bulk_call(target, call.name, call.at),
            "MongoClient"
            | "MongoDatabase"
            | "MongoCluster"
            | "MongoDatabaseFactory"
            | "ReactiveMongoDatabaseFactory"
            | "MongoClients" => self.database_call(target, class, call),
            "MongoCollection" => self.collection_call(target, classes, call),
            "ClientSession" | "ReactiveClientSession" => self.session_call(call),
            _ => None,
        }
    }
}
