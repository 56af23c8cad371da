//! Where the `_id` of a written document comes from.

use super::write::{IdKind, Identity};
use crate::index::{Base, ClassId, Ty, site};
use crate::machine::{ArgVal, Machine, ObjId, Val, Why};
use crate::span::{Site, Span};
use crate::tree::{ExprKind, Field};
use crate::value::Value;

/// An identity of which nothing but the kind is known.
pub(crate) fn identity(kind: IdKind) -> Identity {
    Identity { kind, field: None, span: None }
}

impl<'s> Machine<'s> {
    /// The id of a document or entity.
    pub(crate) fn identity(&mut self, document: &Val<'s>, at: Site) -> Identity {
        self.identity_within(document, at, 0)
    }

    fn identity_within(&mut self, document: &Val<'s>, at: Site, depth: u32) -> Identity {
        if depth > 6 {
            return identity(IdKind::Unknown);
        }
        match self.force(document) {
            Val::Obj(id) => {
                if let Some(elements) = self.elements(id) {
                    let parts = elements.into_iter().map(|(element, _)| element).collect();
                    return self.common(parts, at, depth);
                }
                match self.obj_class(id) {
                    Some(class) => self.entity_identity(id, class, at),
                    None => self.document_identity(id),
                }
            }
            Val::OneOf(parts) => self.common(parts.to_vec(), at, depth),
            Val::Many(_, elem) => self.identity_within(&elem, at, depth + 1),
            Val::Any(any) => {
                let field = any.ty.as_ref().and_then(Ty::class).and_then(|class| self.id_field(class));
                let field = field.map(|(_, field)| field.name.to_owned());
                let kind = match any.why {
                    Why::Loaded => IdKind::Loaded,
                    Why::Record | Why::Parameter | Why::Library | Why::Fresh | Why::Injected => IdKind::Carried,
                    _ => IdKind::Unknown,
                };
                Identity { kind, field, span: None }
            }
            _ => identity(IdKind::Unknown),
        }
    }

    /// What several documents have in common.
    fn common(&mut self, parts: Vec<Val<'s>>, at: Site, depth: u32) -> Identity {
        let mut found: Option<Identity> = None;
        for part in parts {
            let next = self.identity_within(&part, at, depth + 1);
            found = Some(match found {
                None => next,
                Some(known) if known.kind == next.kind => known,
                // A document that was read or made: it depends on which.
                Some(known) => Identity { kind: IdKind::Unknown, ..known },
            });
        }
        found.unwrap_or_else(|| identity(IdKind::Unknown))
    }

    /// The field that holds an entity's `_id`.
    pub(crate) fn id_field(&self, class: ClassId) -> Option<(ClassId, &'s Field<'s>)> {
        let lineage = self.world.lineage(class);
        let marked = |field: &Field<'s>, owner: ClassId| {
            let is_id = |name: &str| matches!(name, "Id" | "MongoId" | "BsonId");
            let on_param = self.world.class(owner).constructors.iter().flat_map(|it| &it.params);
            let mut on_param = on_param.filter(|param| param.name == field.name).flat_map(|param| &param.annotations);
            field.annotations.iter().any(|it| is_id(it.simple())) || on_param.any(|it| is_id(it.simple()))
        };
        let find = |wanted: &dyn Fn(&Field<'s>, ClassId) -> bool| {
            lineage.iter().find_map(|at| {
                let field = self.world.class(*at).fields.iter().find(|field| !field.is_static && wanted(field, *at))?;
                Some((*at, field))
            })
        };
        find(&|field, owner| marked(field, owner)).or_else(|| find(&|field, _| matches!(field.name, "id" | "_id")))
    }

    pub(crate) fn is_versioned(&self, class: ClassId) -> bool {
        let version =
            |annotations: &[crate::tree::Annotation<'s>]| annotations.iter().any(|it| it.simple() == "Version");
        self.world.lineage(class).into_iter().any(|at| {
            let own = self.world.class(at);
            own.fields.iter().any(|field| version(&field.annotations))
                || own.constructors.iter().flat_map(|it| &it.params).any(|param| version(&param.annotations))
        })
    }

    fn entity_identity(&mut self, id: ObjId, class: ClassId, at: Site) -> Identity {
        let Some((owner, field)) = self.id_field(class) else {
            return identity(IdKind::Generated);
        };
        let name = Some(field.name.to_owned());
        let file = self.world.info(owner).file;
        let declared: Span = self.span(site(file, field.at));
        let set = self.obj(id, |obj| obj.fields.get(field.name).cloned());
        let value = match set {
            Some(value) => Some(self.force(&value)),
            None if field.value.is_some() => Some(self.get(&Val::Obj(id), field.name, at)),
            None => None,
        };
        let Some(value) = value else {
            return Identity { kind: IdKind::Generated, field: name, span: None };
        };
        let made = self.obj(id, |obj| obj.site);
        let mut found = self.id_value(&value, made);
        // A parameter left out, with null as its default.
        let null_default = matches!(field.value.as_ref().map(|value| &value.kind), Some(ExprKind::Null));
        if found.kind == IdKind::Unknown && null_default {
            found.kind = IdKind::Generated;
        }
        found.field = name;
        if found.kind == IdKind::Fresh && found.span.is_none() {
            found.span = Some(declared);
        }
        found
    }

    /// An id by its value.
    fn id_value(&mut self, value: &Val<'s>, at: Site) -> Identity {
        let with = |kind, span| Identity { kind, field: None, span };
        match value {
            Val::Known(Value::Null) => with(IdKind::Generated, None),
            Val::Known(Value::Unknown(_)) => with(IdKind::Unknown, None),
            Val::Known(_) => with(IdKind::Own, Some(self.span(at))),
            Val::Any(any) => {
                let span = Some(self.span(any.site));
                match any.why {
                    Why::Fresh => with(IdKind::Fresh, span),
                    Why::Loaded => with(IdKind::Loaded, span),
                    Why::Unset => with(IdKind::Generated, None),
                    Why::Record | Why::Library | Why::Parameter | Why::Injected => with(IdKind::Own, span),
                    _ => with(IdKind::Unknown, span),
                }
            }
            Val::OneOf(parts) => {
                let parts: Vec<_> = parts.to_vec();
                let mut kinds = parts.iter().map(|part| self.id_value(part, at));
                let Some(first) = kinds.next() else { return with(IdKind::Unknown, None) };
                let rest: Vec<_> = kinds.collect();
                if rest.iter().all(|next| next.kind == first.kind) { first } else { with(IdKind::Unknown, first.span) }
            }
            Val::Obj(id) => {
                // A composite id of the project, or a library's object made of what it was given.
                let args = self.obj(*id, |obj| obj.args.clone());
                let fresh = args.iter().any(|arg| matches!(&arg.val, Val::Any(any) if any.why == Why::Fresh));
                with(if fresh { IdKind::Fresh } else { IdKind::Own }, Some(self.span(at)))
            }
            _ => with(IdKind::Unknown, None),
        }
    }

    /// The `_id` of a `Document` that is put together here.
    fn document_identity(&mut self, id: ObjId) -> Identity {
        let (class, args, log) = self.obj(id, |obj| (obj.ty.clone(), obj.args.clone(), obj.log.clone()));
        let class = class.lib().unwrap_or_default();
        let is_document =
            matches!(class, "Document" | "BasicDBObject" | "BsonDocument" | "Map" | "HashMap" | "LinkedHashMap");
        if !is_document {
            return identity(IdKind::Unknown);
        }
        let mut pairs: Vec<(ArgVal<'s>, ArgVal<'s>)> = Vec::new();
        match args.as_slice() {
            [key, value] => pairs.push((key.clone(), value.clone())),
            [] => {}
            // `new Document(map)`: what the map holds.
            [map] => {
                if let Val::Obj(inner) = self.force(&map.val)
                    && let Some((entries, bases)) = self.entries(inner, 0)
                {
                    if !bases.is_empty() {
                        return identity(IdKind::Unknown);
                    }
                    for entry in entries {
                        let key = ArgVal { name: None, val: entry.key, site: entry.site };
                        pairs.push((key, ArgVal { name: None, val: entry.val, site: entry.site }));
                    }
                } else {
                    return identity(IdKind::Carried);
                }
            }
            _ => {}
        }
        for call in log {
            if let ("append" | "put", [key, value]) = (&*call.name, call.args.as_slice()) {
                pairs.push((key.clone(), value.clone()));
            }
        }
        for (key, value) in pairs {
            if self.value(&key.val, key.site).as_str() == Some("_id") {
                let given = self.force(&value.val);
                let found = self.id_value(&given, value.site);
                return Identity { field: Some("_id".to_owned()), ..found };
            }
        }
        identity(IdKind::Generated)
    }

    /// The class of an entity, its collection as `@Document` names it, and whether it is versioned.
    pub(crate) fn entity_of(&mut self, ty: Option<Ty<'s>>) -> (Option<String>, Option<Value>, bool) {
        let Some(ty) = ty else { return (None, None, false) };
        let Some(class) = ty.class() else {
            let name = ty
                .lib()
                .filter(|name| !name.is_empty() && !matches!(*name, "Document" | "Object" | "Any" | "List" | "Bson"));
            return (name.map(str::to_owned), None, false);
        };
        let info = self.world.info(class);
        let document = info.class.annotations.iter().find(|it| it.simple() == "Document");
        let collection = document.and_then(|annotation| {
            ["collection", "value"]
                .into_iter()
                .find_map(|name| self.annotation_text(annotation, name, info.file, Some(class)))
        });
        // Without a name it is the class's, in lower case at its beginning.
        let mut chars = info.class.name.chars();
        let derived: String = chars.next().into_iter().flat_map(char::to_lowercase).chain(chars).collect();
        let collection = collection.or_else(|| document.map(|_| Value::text(derived)));
        (Some(info.class.name.to_owned()), collection, self.is_versioned(class))
    }

    /// The type of a document, also inside lists.
    pub(crate) fn document_type(&mut self, document: &Val<'s>) -> Option<Ty<'s>> {
        match self.force(document) {
            Val::Obj(id) => match self.elements(id) {
                Some(elements) => elements.iter().find_map(|(element, _)| self.document_type(element)),
                None => Some(self.obj(id, |obj| obj.ty.clone())),
            },
            Val::Many(_, elem) => self.document_type(&elem),
            Val::OneOf(parts) => parts.iter().find_map(|part| self.document_type(part)),
            Val::Any(any) => any.ty.clone().filter(|ty| !matches!(ty.base, Base::Variable(_))),
            _ => None,
        }
    }
}
