//! Spring Data's `MongoTemplate` and its reactive sister.

use std::rc::Rc;

use super::identity::identity;
use super::write::{Api, Command, IdKind, Identity, Write};
use crate::index::Ty;
use crate::machine::{ArgVal, Call, Machine, Origin, Val, Why};
use crate::span::Site;
use crate::value::Value;

/// The parts of a write that its call shows.
pub(crate) struct Draft<'s> {
    pub operation: String,
    pub api: Api,
    pub command: Command,
    pub document: Option<Val<'s>>,
    pub filter: Option<Val<'s>>,
    pub update: Option<Val<'s>>,
    pub entity: Option<Ty<'s>>,
    pub collection: Option<Value>,
    pub upsert: bool,
}

impl<'s> Draft<'s> {
    pub(crate) fn new(operation: &str, api: Api, command: Command) -> Self {
        Self {
            operation: operation.to_owned(),
            api,
            command,
            document: None,
            filter: None,
            update: None,
            entity: None,
            collection: None,
            upsert: false,
        }
    }
}

impl<'s> Machine<'s> {
    /// Notes a write that runs here.
    pub(crate) fn write(&mut self, draft: Draft<'s>, at: Site) {
        let filter = draft.filter.as_ref().map(|filter| self.filter_fields(filter)).unwrap_or_default();
        let update = draft.update.as_ref().map(|update| self.update_operators(update)).unwrap_or_default();
        let document_type = draft.document.as_ref().and_then(|document| self.document_type(document));
        let inserts = matches!(draft.command, Command::Insert | Command::InsertMany | Command::Save | Command::SaveAll);
        let ty = match (draft.entity, document_type) {
            (Some(entity), _) => Some(entity),
            (None, other) => other,
        };
        let (entity, named, versioned) = self.entity_of(ty);
        let id = match &draft.document {
            Some(document) if inserts => self.identity(document, at),
            _ if inserts => identity(IdKind::Unknown),
            _ => self.filter_identity(draft.filter.as_ref(), &filter),
        };
        let max_time = draft.filter.as_ref().and_then(|filter| self.max_time(filter, false));
        let upsert = draft.upsert || (draft.command == Command::Save && !matches!(id.kind, IdKind::Generated));
        let write = Write {
            operation: draft.operation,
            api: draft.api,
            command: draft.command,
            entity,
            collection: draft.collection.or(named),
            id,
            upsert,
            filter,
            update,
            versioned,
            bulk: None,
            max_time,
            conditional: self.conditions > 0,
            around: self.around.clone(),
            path: self.path.clone(),
            span: self.span(at),
        };
        self.note_write(write);
    }

    pub(crate) fn note_write(&mut self, write: Write) {
        if self.writes.len() < 500 && !self.writes.contains(&write) {
            self.writes.push(write);
        }
    }

    /// Of a write that addresses documents by a filter: by `_id` or not.
    pub(crate) fn filter_identity(&mut self, filter: Option<&Val<'s>>, fields: &[String]) -> Identity {
        if fields.iter().any(|field| field == "_id") {
            let span = match filter.map(|filter| self.force(filter)) {
                Some(Val::Obj(id)) => Some(self.span(self.obj(id, |obj| obj.site))),
                _ => None,
            };
            return Identity { kind: IdKind::Own, field: Some("_id".to_owned()), span };
        }
        identity(IdKind::ByFilter)
    }

    /// The class or collection among a call's arguments.
    pub(crate) fn target_of(&mut self, args: &[ArgVal<'s>], types: &[Ty<'s>]) -> (Option<Ty<'s>>, Option<Value>) {
        let mut entity = types.first().cloned();
        let mut collection = None;
        for arg in args {
            match self.force(&arg.val) {
                Val::Type(ty) => entity = entity.or(Some(ty)),
                Val::Known(value @ (Value::Text(_) | Value::Property(_) | Value::Compute { .. })) => {
                    collection = Some(value)
                }
                _ => {}
            }
        }
        (entity, collection)
    }

    pub(crate) fn template_call(&mut self, target: &Val<'s>, reactive: bool, call: &Call<'s>) -> Option<Val<'s>> {
        let api = if reactive { Api::ReactiveTemplate } else { Api::Template };
        let first = call.args.first().map(|arg| self.force(&arg.val));
        let rest = call.args.get(1..).unwrap_or_default();
        let lifted = |value: Val<'s>| if reactive { Val::Many("Mono", Rc::new(value)) } else { value };
        let names_class = matches!(first, Some(Val::Type(_))) || (call.args.is_empty() && !call.types.is_empty());
        let document_op = |command: Command| Draft { document: first.clone(), ..Draft::new(call.name, api, command) };
        match call.name {
            "insert" | "update" | "remove" if names_class => {
                let made = self.make(Ty::library("ExecutableWrite"), Origin::Part, call.at, call.args.to_vec());
                self.obj_mut(made, |obj| obj.made_by = call.name);
                let entity = match first {
                    Some(Val::Type(ty)) => Some(ty),
                    _ => call.types.first().cloned(),
                };
                if let Some(entity) = entity {
                    self.obj_mut(made, |obj| obj.ty.args = Rc::from([entity]));
                }
                let reactive = Val::Known(Value::Bool(reactive));
                self.obj_mut(made, |obj| obj.fields.insert("reactive", reactive));
                Some(Val::Obj(made))
            }
            "insert" | "insertAll" | "save" => {
                let many = call.name == "insertAll" || self.is_batch(first.as_ref());
                let command = match (call.name, many) {
                    ("save", _) => Command::Save,
                    (_, true) => Command::InsertMany,
                    (_, false) => Command::Insert,
                };
                let mut draft = document_op(command);
                (draft.entity, draft.collection) = self.target_of(rest, &[]);
                self.write(draft, call.at);
                Some(lifted(first.unwrap_or(Val::Void)))
            }
            "remove" if self.is_entity(first.as_ref()) => {
                let mut draft = document_op(Command::Delete);
                draft.collection = self.target_of(rest, &[]).1;
                self.write(draft, call.at);
                Some(lifted(self.any(None, Why::Library, call.at)))
            }
            "updateFirst" | "updateMulti" | "upsert" | "remove" | "findAndRemove" | "findAllAndRemove"
            | "findAndModify" | "findAndReplace" | "replace" => {
                let command = match call.name {
                    "updateFirst" | "upsert" => Command::Update,
                    "updateMulti" => Command::UpdateMany,
                    "remove" | "findAllAndRemove" => Command::DeleteMany,
                    "replace" => Command::Replace,
                    _ => Command::FindAndModify,
                };
                let mut draft = Draft::new(call.name, api, command);
                draft.filter = first;
                if !matches!(call.name, "remove" | "findAndRemove" | "findAllAndRemove") {
                    draft.update = rest.first().map(|arg| arg.val.clone());
                    if matches!(call.name, "findAndReplace" | "replace") {
                        draft.document = draft.update.take();
                    }
                }
                (draft.entity, draft.collection) = self.target_of(rest, &call.types);
                draft.upsert = call.name == "upsert" || self.options_upsert(rest);
                let entity = draft.entity.clone();
                self.write(draft, call.at);
                let result = self.loaded(entity, call.at);
                Some(lifted(result))
            }
            "bulkOps" => {
                let class = if reactive { "ReactiveBulkOperations" } else { "BulkOperations" };
                let made = self.make(Ty::library(class), Origin::Part, call.at, call.args.to_vec());
                if let (Some(entity), _) = self.target_of(rest, &call.types) {
                    self.obj_mut(made, |obj| obj.ty.args = Rc::from([entity]));
                }
                Some(Val::Obj(made))
            }
            "executeCommand" => {
                self.run_command(api, call.name, &call.args, call.at);
                Some(lifted(self.any(None, Why::Library, call.at)))
            }
            "aggregate" | "aggregateStream" if self.aggregation_writes(&call.args) => {
                let mut draft = Draft::new(call.name, api, Command::Aggregate);
                (draft.entity, draft.collection) = self.target_of(&call.args, &call.types);
                self.write(draft, call.at);
                None
            }
            "getCollection" => {
                let made = self.make(Ty::library("MongoCollection"), Origin::Part, call.at, call.args.to_vec());
                self.obj_mut(made, |obj| obj.made_by = "getCollection");
                Some(lifted(Val::Obj(made)))
            }
            "getDb" | "getMongoDatabase" => Some(self.any(Some(Ty::library("MongoDatabase")), Why::Library, call.at)),
            "execute" => {
                let named = call.args.len() > 1 || !call.types.is_empty();
                let class = if named { "MongoCollection" } else { "MongoDatabase" };
                let given = self.make(
                    Ty::library(class),
                    Origin::Part,
                    call.at,
                    call.args.first().filter(|_| named).cloned().into_iter().collect(),
                );
                self.obj_mut(given, |obj| obj.made_by = if named { "getCollection" } else { "" });
                let result = self.run_with(&call.args, Val::Obj(given), call.at);
                Some(result)
            }
            "inTransaction" | "withSession" => match call.args.iter().find(|arg| matches!(arg.val, Val::Fun(_))) {
                Some(_) => Some(self.run_with(&call.args, target.clone(), call.at)),
                None => {
                    // `inTransaction().execute(..)`: what follows runs with the template.
                    let made = self.make(Ty::library("SessionScoped"), Origin::Part, call.at, Vec::new());
                    self.obj_mut(made, |obj| obj.made_by = call.name);
                    Some(Val::Obj(made))
                }
            },
            "findById" | "findOne" | "find" | "findAll" | "findDistinct" | "query" | "stream" | "findAndReturn"
            | "aggregate" => {
                let (entity, _) = self.target_of(&call.args, &call.types);
                let one = matches!(call.name, "findById" | "findOne");
                let value = self.any(entity, Why::Loaded, call.at);
                Some(match (reactive, one) {
                    (false, true) => value,
                    (true, true) => Val::Many("Mono", Rc::new(value)),
                    (true, false) => Val::Many("Flux", Rc::new(value)),
                    (false, false) => Val::Many("List", Rc::new(value)),
                })
            }
            _ => None,
        }
    }

    /// Runs the functions among the arguments, with one value.
    pub(crate) fn run_with(&mut self, args: &[ArgVal<'s>], given: Val<'s>, at: Site) -> Val<'s> {
        let mut result = Val::Void;
        for arg in args {
            if let Val::Fun(function) = self.force(&arg.val) {
                result = self.branch(|machine| machine.invoke(&function, vec![given.clone()], None, at));
            } else if matches!(arg.val, Val::Obj(_)) {
                self.run_argument(arg, at);
            }
        }
        result
    }

    /// Whether an argument is a collection of documents.
    pub(crate) fn is_batch(&mut self, value: Option<&Val<'s>>) -> bool {
        match value {
            Some(Val::Many(kind, _)) => !matches!(*kind, "Mono" | "Optional"),
            Some(Val::Obj(id)) => self.elements(*id).is_some(),
            Some(Val::OneOf(parts)) => parts.iter().any(|part| self.is_batch(Some(part))),
            _ => false,
        }
    }

    /// Whether an argument is a document, and not a query or a class.
    fn is_entity(&mut self, value: Option<&Val<'s>>) -> bool {
        match value {
            Some(Val::Obj(id)) => self.obj_class(*id).is_some(),
            Some(Val::Any(any)) => any.ty.as_ref().is_some_and(|ty| ty.class().is_some()),
            Some(Val::Many("Mono", elem)) => {
                let elem = (**elem).clone();
                self.is_entity(Some(&elem))
            }
            Some(Val::OneOf(parts)) => parts.iter().any(|part| self.is_entity(Some(part))),
            _ => false,
        }
    }

    /// Whether options among the arguments ask for an upsert.
    pub(crate) fn options_upsert(&mut self, args: &[ArgVal<'s>]) -> bool {
        for arg in args {
            if let Val::Obj(id) = self.force(&arg.val) {
                let class = self.obj(id, |obj| obj.ty.lib().unwrap_or_default());
                if !class.ends_with("Options") {
                    continue;
                }
                if let Some(call) = self.last_logged(id, &["upsert", "setUpsert"]) {
                    let value = call.args.first().map(|arg| self.value(&arg.val, arg.site));
                    return value.is_none_or(|value| value.as_bool() != Some(false));
                }
                if self.obj(id, |obj| obj.made_by == "upsert") {
                    return true;
                }
            }
        }
        false
    }

    /// A command that is written by hand.
    pub(crate) fn run_command(&mut self, api: Api, operation: &str, args: &[ArgVal<'s>], at: Site) {
        let mut command = None;
        let mut max_time = None;
        if let Some(Val::Obj(id)) = args.first().map(|arg| self.force(&arg.val)) {
            let key = self.obj(id, |obj| obj.args.first().cloned());
            let appended = self.logged(id, &["append", "put"]);
            let key = key.or_else(|| appended.first().and_then(|call| call.args.first().cloned()));
            command = key.and_then(|key| self.value(&key.val, key.site).as_str().map(str::to_owned));
            for call in appended {
                if let [key, value] = call.args.as_slice()
                    && self.value(&key.val, key.site).as_str() == Some("maxTimeMS")
                {
                    let limit = self.value(&value.val, value.site);
                    let limit = self.setting(limit, call.site, call.conditional);
                    max_time = Some(super::write::MaxTime { limit, sent: true });
                }
            }
        } else if let Some(arg) = args.first()
            && let Value::Text(json) = self.value(&arg.val, arg.site)
        {
            // `executeCommand("{ update: .. }")`
            let name: String =
                json.chars().skip_while(|c| !c.is_alphabetic()).take_while(|c| c.is_alphanumeric()).collect();
            command = Some(name);
        }
        let reads = [
            "find",
            "aggregate",
            "count",
            "ping",
            "hello",
            "isMaster",
            "buildInfo",
            "dbStats",
            "collStats",
            "serverStatus",
        ];
        if command.as_deref().is_some_and(|command| reads.contains(&command)) {
            return;
        }
        let write = Write {
            operation: operation.to_owned(),
            api,
            command: Command::RunCommand { command },
            entity: None,
            collection: None,
            id: identity(IdKind::Unknown),
            upsert: false,
            filter: Vec::new(),
            update: Vec::new(),
            versioned: false,
            bulk: None,
            max_time,
            conditional: self.conditions > 0,
            around: self.around.clone(),
            path: self.path.clone(),
            span: self.span(at),
        };
        self.note_write(write);
    }

    /// Whether an aggregation ends in `$out` or `$merge`.
    fn aggregation_writes(&mut self, args: &[ArgVal<'s>]) -> bool {
        args.iter().any(|arg| {
            let text = self.world.text(arg.site);
            ["$out", "$merge", "out(", "merge("].iter().any(|word| text.contains(word))
        })
    }

    /// A fluent chain: `update(X.class).matching(..).apply(..).first()`.
    pub(crate) fn fluent_call(&mut self, target: &Val<'s>, call: &Call<'s>) -> Option<Val<'s>> {
        let Val::Obj(id) = target else { return None };
        let (begun, entity) = self.obj(*id, |obj| (obj.made_by, obj.ty.args.first().cloned()));
        let reactive =
            matches!(self.obj(*id, |obj| obj.fields.get("reactive").cloned()), Some(Val::Known(Value::Bool(true))));
        let api = if reactive { Api::ReactiveTemplate } else { Api::Template };
        let command = match (begun, call.name) {
            ("insert", "one") => Command::Insert,
            ("insert", "all") => Command::InsertMany,
            ("insert", "bulk") => Command::Bulk,
            ("update", "first") => Command::Update,
            ("update", "all") => Command::UpdateMany,
            ("update", "upsert" | "firstAndUpsert") => Command::Update,
            ("update", "findAndModify" | "findAndModifyValue" | "findAndReplace" | "findAndReplaceValue") => {
                Command::FindAndModify
            }
            ("update", "replaceFirst") => Command::Replace,
            ("remove", "all" | "findAndRemove") => Command::DeleteMany,
            ("remove", "one") => Command::Delete,
            _ => return None,
        };
        if matches!(call.name, "first" | "all" | "one") || !call.args.is_empty() || !call.name.is_empty() {
            let mut draft = Draft::new(&format!("{begun}.{}", call.name), api, command);
            draft.upsert = matches!(call.name, "upsert" | "firstAndUpsert");
            let last = |machine: &Self, names: &[&str]| {
                machine.last_logged(*id, names).and_then(|call| call.args.first().map(|arg| arg.val.clone()))
            };
            draft.filter = last(self, &["matching"]);
            draft.update = last(self, &["apply"]);
            draft.document = match begun {
                "insert" => call.args.first().map(|arg| arg.val.clone()),
                _ => last(self, &["replaceWith"]),
            };
            draft.entity = entity.clone().or_else(|| call.types.first().cloned());
            let collection = self.last_logged(*id, &["inCollection"]).and_then(|call| call.args.into_iter().next());
            draft.collection = collection.map(|arg| self.value(&arg.val, arg.site));
            self.write(draft, call.at);
        }
        let result = self.loaded(entity, call.at);
        Some(if reactive { Val::Many("Mono", Rc::new(result)) } else { result })
    }
}
