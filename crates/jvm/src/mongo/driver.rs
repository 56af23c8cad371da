//! The driver's own classes: clients, databases, collections, sessions.

use std::rc::Rc;

use super::template::Draft;
use super::write::{Api, Around, AroundKind, Bulk, Command};
use crate::index::Ty;
use crate::machine::{ArgVal, Call, Machine, Origin, Val, Why};
use crate::span::Site;
use crate::value::Value;

impl<'s> Machine<'s> {
    pub(crate) fn database_call(&mut self, target: &Val<'s>, class: &str, call: &Call<'s>) -> Option<Val<'s>> {
        match call.name {
            "getDatabase" | "getMongoDatabase" | "withWriteConcern" | "withTimeout" | "withCodecRegistry"
            | "withReadPreference"
                if class != "MongoClients" || call.name == "getDatabase" =>
            {
                Some(self.any(Some(Ty::library("MongoDatabase")), Why::Library, call.at))
            }
            "getCollection" => {
                let made = self.make(Ty::library("MongoCollection"), Origin::Part, call.at, call.args.to_vec());
                self.obj_mut(made, |obj| obj.made_by = "getCollection");
                let entity =
                    call.types.first().cloned().or_else(|| match call.args.get(1).map(|arg| self.force(&arg.val)) {
                        Some(Val::Type(ty)) => Some(ty),
                        _ => None,
                    });
                if let Some(entity) = entity {
                    self.obj_mut(made, |obj| obj.ty.args = Rc::from([entity]));
                }
                Some(Val::Obj(made))
            }
            "runCommand" => {
                let args = skip_session(self, &call.args);
                self.run_command(Api::Driver, call.name, &args, call.at);
                Some(self.any(None, Why::Library, call.at))
            }
            "startSession" => Some(self.any(Some(Ty::library("ClientSession")), Why::Library, call.at)),
            "bulkWrite" => {
                self.models_bulk(target, &call.args, call.at);
                Some(self.any(None, Why::Library, call.at))
            }
            _ => None,
        }
    }

    pub(crate) fn session_call(&mut self, call: &Call<'s>) -> Option<Val<'s>> {
        match call.name {
            // Whatever runs until it ends is inside: in front of what stands around it now.
            "startTransaction" => {
                let kind = AroundKind::Transaction { how: call.name.to_owned() };
                self.around.insert(0, Around { kind, span: self.span(call.at) });
                return Some(Val::Void);
            }
            "commitTransaction" | "abortTransaction" | "close" => {
                let begun = |around: &Around| matches!(&around.kind, AroundKind::Transaction { how } if how == "startTransaction");
                if let Some(place) = self.around.iter().position(begun) {
                    self.around.remove(place);
                }
                return Some(Val::Void);
            }
            "withTransaction" => {}
            _ => return None,
        }
        let kind = AroundKind::Transaction { how: "withTransaction".to_owned() };
        self.around.push(Around { kind, span: self.span(call.at) });
        let mut result = Val::Void;
        for arg in &call.args {
            result = self.run_argument(arg, call.at);
        }
        self.around.pop();
        Some(result)
    }

    pub(crate) fn collection_call(&mut self, target: &Val<'s>, classes: &[Ty<'s>], call: &Call<'s>) -> Option<Val<'s>> {
        let args = &skip_session(self, &call.args);
        let command = match call.name {
            "insertOne" => Command::Insert,
            "insertMany" => Command::InsertMany,
            "updateOne" => Command::Update,
            "updateMany" => Command::UpdateMany,
            "replaceOne" => Command::Replace,
            "deleteOne" => Command::Delete,
            "deleteMany" => Command::DeleteMany,
            "findOneAndUpdate" | "findOneAndReplace" | "findOneAndDelete" => Command::FindAndModify,
            "bulkWrite" => {
                self.models_bulk(target, args, call.at);
                return Some(self.any(None, Why::Library, call.at));
            }
            "aggregate" => {
                let text = args.first().map_or("", |arg| self.world.text(arg.site));
                if text.contains("$out")
                    || text.contains("$merge")
                    || text.contains("Aggregates.out")
                    || text.contains("Aggregates.merge")
                {
                    let mut draft = Draft::new(call.name, Api::Driver, Command::Aggregate);
                    draft.collection = self.collection_name(target);
                    self.write(draft, call.at);
                }
                return None;
            }
            "find" => {
                let entity = classes.first().and_then(|ty| ty.args.first().cloned());
                let value = self.any(entity, Why::Loaded, call.at);
                return Some(Val::Many("List", Rc::new(value)));
            }
            _ => return None,
        };
        let mut draft = Draft::new(call.name, Api::Driver, command);
        draft.collection = self.collection_name(target);
        draft.entity = classes.first().and_then(|ty| ty.args.first().cloned()).filter(|ty| ty.class().is_some());
        let first = args.first().map(|arg| arg.val.clone());
        let second = args.get(1).map(|arg| arg.val.clone());
        match call.name {
            "insertOne" | "insertMany" => draft.document = first,
            "replaceOne" | "findOneAndReplace" => (draft.filter, draft.document) = (first, second),
            "deleteOne" | "deleteMany" | "findOneAndDelete" => draft.filter = first,
            _ => (draft.filter, draft.update) = (first, second),
        }
        draft.upsert = self.options_upsert(args);
        let before = self.writes.len();
        self.write(draft, call.at);
        // The driver does send the limit of findOneAnd..; it has none for other writes (facts/client.md A8).
        let limit = args.iter().skip(1).find_map(|arg| self.max_time(&arg.val, true));
        if let Some(write) = self.writes.get_mut(before) {
            write.max_time = limit;
        }
        Some(self.any(None, Why::Library, call.at))
    }

    /// The name that a collection was asked for by.
    pub(crate) fn collection_name(&mut self, target: &Val<'s>) -> Option<Value> {
        let Val::Obj(id) = self.force(target) else { return None };
        let arg = self.obj(id, |obj| (obj.made_by == "getCollection").then(|| obj.args.first().cloned()).flatten())?;
        match self.value(&arg.val, arg.site) {
            Value::Class(_) => None,
            value => Some(value),
        }
    }

    /// `bulkWrite(models, options)`.
    fn models_bulk(&mut self, target: &Val<'s>, args: &[ArgVal<'s>], at: Site) {
        let (operations, complete) = match args.first() {
            Some(models) => self.models(&models.val),
            None => (Vec::new(), false),
        };
        let mut ordered = Some(true);
        for arg in args.iter().skip(1) {
            if let Val::Obj(id) = self.force(&arg.val)
                && let Some(call) = self.last_logged(id, &["ordered"])
            {
                let value = call.args.first().map(|arg| self.value(&arg.val, arg.site));
                ordered = value.and_then(|value| value.as_bool());
            }
        }
        let collection = self.collection_name(target);
        let bulk = Bulk { ordered, complete: complete && !operations.is_empty(), operations };
        self.write_bulk("bulkWrite", Api::Driver, collection, bulk, None, at);
    }
}

/// The arguments without a leading session.
fn skip_session<'s>(machine: &mut Machine<'s>, args: &[ArgVal<'s>]) -> Vec<ArgVal<'s>> {
    let is_session = args.first().is_some_and(|arg| {
        let value = machine.force(&arg.val);
        machine.type_of(&value).is_some_and(|ty| ty.lib() == Some("ClientSession"))
    });
    args.iter().skip(usize::from(is_session)).cloned().collect()
}
