//! Spring Data's repositories.
//!
//! What their methods send is read from `SimpleMongoRepository` and `MongoQueryExecution`: `deleteById` and derived deletes
//! are deletes of many, `delete` of an entity a delete of one, `@Update` an update of many.

use std::rc::Rc;

use super::template::Draft;
use super::write::{Api, Command};
use crate::index::{Base, ClassId, Place, Ty};
use crate::machine::{ArgVal, Call, Machine, Val, Why};
use crate::span::Site;
use crate::tree::{ClassKind, Method};
use crate::value::Value;

/// The repository interface among library types: whether it is reactive, its entity, and whether it is MongoDB's for sure.
fn repository<'s>(library: &[Ty<'s>]) -> Option<(bool, Option<Ty<'s>>, bool)> {
    library.iter().find_map(|ty| {
        let (reactive, certain) = match ty.lib()? {
            "MongoRepository" => (false, true),
            "ReactiveMongoRepository" => (true, true),
            "CrudRepository"
            | "ListCrudRepository"
            | "PagingAndSortingRepository"
            | "Repository"
            | "ListPagingAndSortingRepository" => (false, false),
            "ReactiveCrudRepository"
            | "ReactiveSortingRepository"
            | "CoroutineCrudRepository"
            | "CoroutineSortingRepository"
            | "RxJava3CrudRepository" => (true, false),
            _ => return None,
        };
        Some((reactive, ty.args.first().cloned(), certain))
    })
}

impl<'s> Machine<'s> {
    /// A call on a repository of the project; `None`: it is no repository, or another class gives the method its body.
    pub(crate) fn repository_call(
        &mut self,
        target: &Val<'s>,
        class: ClassId,
        library: &[Ty<'s>],
        declared: Option<(ClassId, &'s Method<'s>)>,
        call: &Call<'s>,
    ) -> Option<Val<'s>> {
        let (reactive, entity, certain) = repository(library)?;
        if self.world.class(class).kind != ClassKind::Interface {
            return None;
        }
        let entity = entity.map(|entity| match self.type_of(target) {
            Some(own) => self.world.substitute(&entity, class, &own.args, 0),
            None => entity,
        });
        if !certain && !self.is_document(class, entity.as_ref()) {
            // A repository of another kind of database: its methods write nothing here.
            return Some(self.loaded(entity, call.at));
        }
        // A fragment: `interface Custom` with `class CustomImpl`.
        if let Some((owner, method)) = declared
            && let Some(result) = self.fragment(class, owner, method, &call.args, call.at)
        {
            return Some(result);
        }
        let api = if reactive { Api::ReactiveRepository } else { Api::Repository };
        let first = call.args.first().map(|arg| self.force(&arg.val));
        let coroutine = library.iter().any(|ty| ty.lib().is_some_and(|name| name.starts_with("Coroutine")));
        let lift = |value: Val<'s>, many: bool| match (reactive && !coroutine, many) {
            (true, true) => Val::Many("Flux", Rc::new(value)),
            (true, false) => Val::Many("Mono", Rc::new(value)),
            (false, true) => Val::Many("List", Rc::new(value)),
            (false, false) => value,
        };
        let annotations = declared.map(|(_, method)| &method.annotations);
        let annotation = |wanted: &str| annotations?.iter().find(|it| it.simple() == wanted);
        let place = declared.map(|(owner, _)| Place { file: self.world.info(owner).file, class: Some(owner) });
        let result_type = declared.and_then(|(owner, method)| {
            let ret = method.ret.as_ref().map(|ret| self.world.ty(ret, self.world.place(owner)))?;
            Some(self.in_terms_of(target, &ret, owner))
        });
        // Methods of the project's own, with a query or a call.name that says what they do.
        if annotation("Update").is_some() {
            let mut draft = Draft::new(call.name, api, Command::UpdateMany);
            draft.entity = entity;
            self.write(draft, call.at);
            return Some(self.any(result_type, Why::Library, call.at));
        }
        let deletes_by_query = annotation("Query").or_else(|| annotation("DeleteQuery")).is_some_and(|it| {
            let delete = it.arg("delete").is_some_and(|arg| matches!(arg.kind, crate::tree::ExprKind::Bool(true)));
            delete || it.simple() == "DeleteQuery"
        });
        let derived_delete = declared.is_some()
            && ["deleteBy", "removeBy", "deleteAllBy", "deleteTop", "deleteFirst", "removeAllBy"]
                .iter()
                .any(|prefix| call.name.starts_with(prefix))
            && call.name != "deleteById"
            && call.name != "deleteAllById";
        if deletes_by_query || derived_delete {
            // An entity as the result asks for findAndRemove.
            let one = result_type.as_ref().and_then(Ty::class).is_some();
            let mut draft = Draft::new(call.name, api, if one { Command::FindAndModify } else { Command::DeleteMany });
            draft.entity = entity;
            self.write(draft, call.at);
            return Some(self.any(result_type, Why::Loaded, call.at));
        }
        if let Some(annotation) = annotation("Aggregation") {
            let place = place?;
            let pipeline = ["pipeline", "value"]
                .into_iter()
                .find_map(|name| self.annotation_text(annotation, name, place.file, place.class));
            let writes =
                |value: &Value| value.as_str().is_some_and(|text| text.contains("$out") || text.contains("$merge"));
            let writes = match &pipeline {
                Some(Value::List(stages)) => stages.iter().any(writes),
                Some(value) => writes(value),
                None => false,
            };
            if writes {
                let mut draft = Draft::new(call.name, api, Command::Aggregate);
                draft.entity = entity;
                self.write(draft, call.at);
            }
            return Some(self.loaded(result_type, call.at));
        }
        let batch = self.is_batch(first.as_ref());
        let command = match call.name {
            "save" => Some(Command::Save),
            "saveAll" => Some(Command::SaveAll),
            "insert" if batch => Some(Command::InsertMany),
            "insert" => Some(Command::Insert),
            // A loop over the entities, one delete each.
            "deleteAll" if !call.args.is_empty() => Some(Command::Delete),
            "delete" => Some(Command::Delete),
            "deleteById" | "deleteAllById" | "deleteAll" => Some(Command::DeleteMany),
            _ => None,
        };
        if let Some(command) = command {
            let mut draft = Draft::new(call.name, api, command);
            let writes_document = matches!(call.name, "save" | "saveAll" | "insert");
            draft.document = first.clone().filter(|_| writes_document);
            draft.entity = entity;
            self.write(draft, call.at);
            return Some(match call.name {
                "save" | "insert" | "saveAll" => match first.unwrap_or(Val::Void) {
                    value @ Val::Many(..) => value,
                    value if batch && !reactive => value,
                    value => lift(value, batch),
                },
                _ => lift(self.any(None, Why::Library, call.at), false),
            });
        }
        if declared.is_some() {
            return Some(self.loaded(result_type, call.at));
        }
        Some(match call.name {
            "findById" | "findOne" | "findBy" if !reactive => {
                Val::Many("Optional", Rc::new(self.any(entity, Why::Loaded, call.at)))
            }
            "findById" | "findOne" => lift(self.any(entity, Why::Loaded, call.at), false),
            _ if call.name.starts_with("find") => lift(self.any(entity, Why::Loaded, call.at), true),
            "existsById" | "count" | "exists" => lift(self.any(None, Why::Library, call.at), false),
            _ => return None,
        })
    }

    /// Whether a general repository is about MongoDB's documents.
    fn is_document(&mut self, class: ClassId, entity: Option<&Ty<'s>>) -> bool {
        let imports = |file: u32| {
            let tree = self.world.tree(file);
            tree.imports.iter().any(|import| import.path.contains("mongodb"))
        };
        if imports(self.world.info(class).file) {
            return true;
        }
        match entity.map(|entity| entity.base) {
            Some(Base::Class(id)) => {
                let info = self.world.info(id);
                let jpa = info.class.annotations.iter().any(|it| matches!(it.simple(), "Entity" | "Table"));
                let document = info.class.annotations.iter().any(|it| it.simple() == "Document");
                document || (!jpa && imports(info.file))
            }
            _ => false,
        }
    }

    /// Runs the class that gives a repository's own method its body.
    fn fragment(
        &mut self,
        class: ClassId,
        owner: ClassId,
        method: &'s Method<'s>,
        args: &[ArgVal<'s>],
        at: Site,
    ) -> Option<Val<'s>> {
        let mut candidates = self.world.subclasses(owner);
        candidates.retain(|id| self.world.class(*id).kind == ClassKind::Class);
        let own_name = format!("{}Impl", self.world.class(class).name);
        let named = self.world.class_at(&match self.world.file(self.world.info(class).file).scan.package.as_str() {
            "" => own_name,
            package => format!("{package}.{own_name}"),
        });
        candidates.extend(named);
        for candidate in candidates {
            if let Some((at_class, found)) = self.pick(candidate, method.name, args)
                && found.body.is_some()
            {
                let this = Val::Obj(self.bean_object(candidate));
                return Some(self.run_method(at_class, found, Some(this), args.to_vec(), at, true));
            }
        }
        None
    }
}
