//! Objects: of the project's classes with their fields, of libraries with a log of what was called on them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use super::{ArgVal, Machine, Scope, Val, Why};
use crate::index::{ClassId, Ty};
use crate::span::Site;
use crate::tree::Method;
use crate::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjId(u32);

impl ObjId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn from_index(at: usize) -> Self {
        Self(at as u32)
    }
}

/// How an object came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `new X(..)`.
    New,
    /// A static method of the class, by name.
    Static,
    /// Spring made it.
    Bean,
    /// A getter of another object gave it.
    Part,
}

/// One call on an object.
#[derive(Clone)]
pub(crate) struct Logged<'s> {
    pub name: Cow<'s, str>,
    pub args: Vec<ArgVal<'s>>,
    pub site: Site,
    /// It runs only if some condition holds.
    pub conditional: bool,
    /// It runs once for each element of something.
    pub looped: bool,
}

pub(crate) struct Obj<'s> {
    pub ty: Ty<'s>,
    pub origin: Origin,
    /// The static method that made it.
    pub made_by: &'s str,
    pub site: Site,
    pub args: Vec<ArgVal<'s>>,
    pub log: Vec<Logged<'s>>,
    pub fields: HashMap<&'s str, Val<'s>>,
    pub parts: HashMap<String, ObjId>,
    /// The object that it is a part of.
    pub owner: Option<ObjId>,
    /// The prefix of the configuration keys that its fields hold.
    pub prefix: Option<Rc<str>>,
    /// The block around a local or anonymous class.
    pub scope: Option<Rc<Scope<'s>>>,
    /// The names that the primary constructors of its classes see.
    pub init_scopes: Vec<(ClassId, Rc<Scope<'s>>)>,
    /// The bean method that made it.
    pub bean: Option<&'s Method<'s>>,
    /// What a project class gave to its library superclass's constructor.
    pub super_args: Vec<ArgVal<'s>>,
    branches: u32,
    loops: u32,
}

impl<'s> Machine<'s> {
    pub(crate) fn make(&mut self, ty: Ty<'s>, origin: Origin, site: Site, args: Vec<ArgVal<'s>>) -> ObjId {
        let mut objs = self.objs.borrow_mut();
        if objs.len() >= super::OBJECTS_MAX {
            // Beyond the limit all objects are one; its log is of no use, but nothing breaks.
            return ObjId(0);
        }
        objs.push(Obj {
            ty,
            origin,
            made_by: "",
            site,
            args,
            log: Vec::new(),
            fields: HashMap::new(),
            parts: HashMap::new(),
            owner: None,
            prefix: None,
            scope: None,
            init_scopes: Vec::new(),
            bean: None,
            super_args: Vec::new(),
            branches: self.branches,
            loops: self.loops,
        });
        ObjId(objs.len() as u32 - 1)
    }

    /// Reads something of an object.
    pub(crate) fn obj<T>(&self, id: ObjId, read: impl FnOnce(&Obj<'s>) -> T) -> T {
        read(&self.objs.borrow()[id.index()])
    }

    pub(crate) fn obj_mut<T>(&self, id: ObjId, change: impl FnOnce(&mut Obj<'s>) -> T) -> T {
        change(&mut self.objs.borrow_mut()[id.index()])
    }

    pub(crate) fn obj_class(&self, id: ObjId) -> Option<ClassId> {
        self.obj(id, |obj| obj.ty.class())
    }

    /// The library's class that an object is of, also through a project's own subclass.
    pub(crate) fn library_classes(&self, id: ObjId) -> Vec<Ty<'s>> {
        let ty = self.obj(id, |obj| obj.ty.clone());
        match ty.class() {
            Some(class) => self.world.library_supers(class),
            None => vec![ty],
        }
    }

    pub(crate) fn is_a(&self, id: ObjId, library: &str) -> bool {
        self.library_classes(id).iter().any(|ty| ty.lib() == Some(library))
    }

    /// Notes a call on an object.
    pub(crate) fn log(&mut self, id: ObjId, name: impl Into<Cow<'s, str>>, args: Vec<ArgVal<'s>>, site: Site) {
        let name = name.into();
        let (branches, loops) = (self.branches, self.loops);
        self.obj_mut(id, |obj| {
            if obj.log.len() < 2_000 {
                let conditional = branches > obj.branches;
                obj.log.push(Logged { name, args, site, conditional, looped: loops > obj.loops });
            }
        });
    }

    /// The calls of some names on an object, in order.
    pub(crate) fn logged(&self, id: ObjId, names: &[&str]) -> Vec<Logged<'s>> {
        self.obj(id, |obj| obj.log.iter().filter(|call| names.contains(&&*call.name)).cloned().collect())
    }

    /// The last call of one of the names, if its argument counts.
    pub(crate) fn last_logged(&self, id: ObjId, names: &[&str]) -> Option<Logged<'s>> {
        self.obj(id, |obj| obj.log.iter().rev().find(|call| names.contains(&&*call.name)).cloned())
    }

    /// What a getter of a library's object gives: what the setter got, or a part that is kept.
    pub(crate) fn part(&mut self, id: ObjId, name: &str, site: Site) -> Val<'s> {
        let set = |call: &Logged<'s>| setter_property(&call.name).is_some_and(|set| set == name);
        let last = self.obj(id, |obj| obj.log.iter().rev().find(|call| set(call)).cloned());
        if let Some(call) = last
            && let Some(arg) = call.args.into_iter().next()
        {
            return arg.val;
        }
        if let Some(part) = self.obj(id, |obj| obj.parts.get(name).copied()) {
            return Val::Obj(part);
        }
        let prefix = self.obj(id, |obj| obj.prefix.clone());
        let ty = Ty::library(part_type(name));
        let part = self.make(ty, Origin::Part, site, Vec::new());
        self.obj_mut(part, |obj| {
            obj.owner = Some(id);
            obj.prefix = prefix.map(|prefix| format!("{prefix}.{}", super::property::kebab(name)).into());
        });
        self.obj_mut(id, |obj| obj.parts.insert(name.to_owned(), part));
        Val::Obj(part)
    }

    pub(crate) fn object_value(&mut self, id: ObjId, site: Site) -> Value {
        // A setting of a library's own properties class.
        let (ty, prefix) = self.obj(id, |obj| (obj.ty.clone(), obj.prefix.clone()));
        if let (Some(prefix), None) = (prefix, ty.class()) {
            let span = self.span(site);
            let key = prefix.to_string();
            return Value::Property(Box::new(crate::value::Property {
                key,
                default: None,
                ty: None,
                unit_ms: None,
                span,
            }));
        }
        if let Some(class) = ty.class()
            && self.world.class(class).kind == crate::tree::ClassKind::Enum
        {
            let name = self.obj(id, |obj| obj.made_by);
            return Value::Constant { owner: self.world.class(class).name.into(), name: name.into() };
        }
        match self.elements(id) {
            Some(elements) => Value::List(elements.iter().map(|(value, site)| self.value(value, *site)).collect()),
            None => self.unknown(site, Why::Library),
        }
    }
}

/// The class of what a getter gives, where it matters.
fn part_type(name: &str) -> &'static str {
    match name {
        "containerProperties" => "ContainerProperties",
        "kafkaConsumerProperties" => "Properties",
        _ => "",
    }
}

/// `setAckMode` sets `ackMode`; so does Kotlin's `ackMode = ..`, which is logged as the setter.
pub(crate) fn setter_property(name: &str) -> Option<String> {
    decapitalize(name.strip_prefix("set")?)
}

/// `getRetry`, `isEnabled`: the property's name.
pub(crate) fn getter_property(name: &str) -> Option<String> {
    decapitalize(name.strip_prefix("get").or_else(|| name.strip_prefix("is"))?)
}

fn decapitalize(name: &str) -> Option<String> {
    let first = name.chars().next()?;
    if !first.is_uppercase() {
        return None;
    }
    Some(first.to_lowercase().chain(name.chars().skip(1)).collect())
}
