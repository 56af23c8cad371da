//! Bulks: Spring Data's `BulkOperations`, the driver's models.

use super::identity::identity;
use super::write::{Api, Bulk, BulkOperation, Command, IdKind, Write};
use crate::index::Ty;
use crate::machine::{ArgVal, Machine, ObjId, Val, Why};
use crate::span::Site;
use crate::value::Value;

impl<'s> Machine<'s> {
    /// `BulkOperations.execute()`; other calls are kept in the object's log.
    pub(crate) fn bulk_call(&mut self, target: &Val<'s>, name: &str, at: Site) -> Option<Val<'s>> {
        if name != "execute" {
            return None;
        }
        let Val::Obj(id) = target else {
            let bulk = Bulk { ordered: None, complete: false, operations: Vec::new() };
            self.write_bulk("bulkOps.execute", Api::Template, None, bulk, None, at);
            return Some(self.any(None, Why::Library, at));
        };
        let (args, entity, class) = self.obj(*id, |obj| (obj.args.clone(), obj.ty.args.first().cloned(), obj.ty.lib()));
        let mut ordered = None;
        let mut collection = None;
        for arg in &args {
            match self.value(&arg.val, arg.site) {
                Value::Constant { name, .. } => ordered = Some(&*name == "ORDERED"),
                value @ (Value::Text(_) | Value::Property(_)) => collection = Some(value),
                _ => {}
            }
        }
        let log = self.obj(*id, |obj| obj.log.clone());
        let mut operations = Vec::new();
        let mut complete = true;
        for call in log {
            let command = match &*call.name {
                "insert" => Command::Insert,
                "updateOne" | "upsert" => Command::Update,
                "updateMulti" => Command::UpdateMany,
                // There is no remove of one in BulkOperations (facts/client.md Y1).
                "remove" => Command::DeleteMany,
                "replaceOne" => Command::Replace,
                "execute" | "setDefaultWriteConcern" | "withWriteConcern" => continue,
                _ => {
                    complete = false;
                    continue;
                }
            };
            let batch = call.args.first().is_some_and(|arg| {
                let value = self.force(&arg.val);
                self.is_batch(Some(&value))
            });
            operations.push(self.bulk_operation(
                &call.name,
                command,
                &call.args,
                call.looped || batch,
                entity.clone(),
                call.site,
            ));
        }
        let api = if class == Some("ReactiveBulkOperations") { Api::ReactiveTemplate } else { Api::Template };
        let bulk = Bulk { ordered, complete: complete && !operations.is_empty(), operations };
        self.write_bulk("bulkOps.execute", api, collection, bulk, entity, at);
        Some(self.any(None, Why::Library, at))
    }

    fn bulk_operation(
        &mut self,
        name: &str,
        command: Command,
        args: &[ArgVal<'s>],
        repeated: bool,
        entity: Option<Ty<'s>>,
        at: Site,
    ) -> BulkOperation {
        let first = args.first().map(|arg| arg.val.clone());
        let second = args.get(1).map(|arg| arg.val.clone());
        let inserts = command == Command::Insert;
        let filter = match &first {
            Some(filter) if !inserts => self.filter_fields(filter),
            _ => Vec::new(),
        };
        let update = match (&command, &second) {
            (Command::Update | Command::UpdateMany, Some(update)) => self.update_operators(update),
            _ => Vec::new(),
        };
        let id = match &first {
            Some(document) if inserts => self.identity(document, at),
            document => self.filter_identity(document.as_ref(), &filter),
        };
        let written = if inserts { &first } else { &second };
        let document_type =
            written.as_ref().and_then(|document| self.document_type(document)).filter(|ty| ty.class().is_some());
        let (entity, ..) = self.entity_of(entity.or(document_type));
        let upsert = name == "upsert" || self.options_upsert(args.get(1..).unwrap_or_default());
        BulkOperation {
            operation: name.to_owned(),
            command,
            upsert,
            repeated,
            id,
            filter,
            update,
            entity,
            span: self.span(at),
        }
    }

    /// The driver's models in a list; `false` says that some may be missing.
    pub(crate) fn models(&mut self, models: &Val<'s>) -> (Vec<BulkOperation>, bool) {
        let mut operations = Vec::new();
        let mut complete = true;
        self.add_models(models, false, &mut operations, &mut complete, 0);
        (operations, complete)
    }

    fn add_models(
        &mut self,
        models: &Val<'s>,
        repeated: bool,
        operations: &mut Vec<BulkOperation>,
        complete: &mut bool,
        depth: u32,
    ) {
        if depth > 6 || operations.len() > 200 {
            *complete = false;
            return;
        }
        match self.force(models) {
            Val::Obj(id) => match self.items(id) {
                Some(items) => {
                    for item in items {
                        self.add_models(&item.val, repeated || item.looped, operations, complete, depth + 1);
                    }
                }
                None => self.add_model(id, repeated, operations, complete),
            },
            Val::Many(_, elem) => self.add_models(&elem, true, operations, complete, depth + 1),
            Val::OneOf(parts) => {
                for part in parts.iter() {
                    self.add_models(part, repeated, operations, complete, depth + 1);
                }
            }
            Val::Void => {}
            _ => *complete = false,
        }
    }

    fn add_model(&mut self, id: ObjId, repeated: bool, operations: &mut Vec<BulkOperation>, complete: &mut bool) {
        let (class, args, site) = self.obj(id, |obj| (obj.ty.lib().unwrap_or_default(), obj.args.clone(), obj.site));
        let command = match class {
            "InsertOneModel" => Command::Insert,
            "UpdateOneModel" => Command::Update,
            "UpdateManyModel" => Command::UpdateMany,
            "ReplaceOneModel" => Command::Replace,
            "DeleteOneModel" => Command::Delete,
            "DeleteManyModel" => Command::DeleteMany,
            _ => {
                *complete = false;
                return;
            }
        };
        let operation = self.bulk_operation(class, command, &args, repeated, None, site);
        operations.push(operation);
    }

    pub(crate) fn write_bulk(
        &mut self,
        operation: &str,
        api: Api,
        collection: Option<Value>,
        bulk: Bulk,
        entity: Option<Ty<'s>>,
        at: Site,
    ) {
        let (mut name, named, versioned) = self.entity_of(entity);
        name = name.or_else(|| bulk.operations.iter().find_map(|operation| operation.entity.clone()));
        let id = bulk.operations.first().map_or_else(|| identity(IdKind::Unknown), |first| first.id.clone());
        let upsert = bulk.operations.iter().any(|operation| operation.upsert);
        let write = Write {
            operation: operation.to_owned(),
            api,
            command: Command::Bulk,
            entity: name,
            collection: collection.or(named),
            id,
            upsert,
            filter: Vec::new(),
            update: Vec::new(),
            versioned,
            bulk: Some(bulk),
            max_time: None,
            conditional: self.conditions > 0,
            around: self.around.clone(),
            path: self.path.clone(),
            span: self.span(at),
        };
        self.note_write(write);
    }
}
