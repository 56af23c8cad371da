//! Runs the sources on values that are only partly known.
//!
//! Constants stay constants, settings stay symbols, library objects keep a log of what was called on them, and everything
//! else is "some value of this type". Both branches of a condition run unless it is known. Loops run once. Calls are
//! followed into the project's own methods, bounded in depth and in total work.

mod assign;
mod bean;
mod builtin;
mod call;
mod collection;
mod eval;
mod object;
mod property;
mod scope;
mod statics;

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

pub(crate) use bean::Wanted;
pub(crate) use call::{ArgVal, Call};
pub(crate) use object::setter_property;
pub(crate) use object::{Logged, Obj, ObjId, Origin};
pub(crate) use scope::{Frame, Scope};
pub(crate) use statics::unit_ms;

use crate::analysis::PathStep;
use crate::index::{Base, ClassId, Ty, World};
use crate::mongo::write::{Around, Write};
use crate::span::{Range, Site, Span};
use crate::tree::{Field, Lambda, Method};
use crate::value::{Unknown, Value, one_of};

/// Steps of evaluation for one entry point; then the rest is not followed.
const FUEL: u32 = 400_000;
/// Steps of evaluation in all, whatever the number of entry points.
const FUEL_IN_ALL: u64 = 6_000_000;
/// How deep calls are followed.
const CALLS_MAX: usize = 40;
/// How deep expressions and calls may nest in all, for the stack's sake.
const NESTING_MAX: u32 = 900;
/// Objects that are kept; later ones are "some value".
const OBJECTS_MAX: usize = 200_000;

/// Why a value is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// A parameter of an entry point: the record, or what is made of it.
    Record,
    /// A parameter of a method that nothing in the sources calls.
    Parameter,
    /// Read from the database.
    Loaded,
    /// Made anew on each execution: a random or a clock's value.
    Fresh,
    /// A library's result.
    Library,
    /// Injected, and the sources have no bean for it.
    Injected,
    /// The method calls itself.
    Recursion,
    /// A limit of this analysis.
    Limit,
    /// Nothing assigns it.
    Unset,
    /// The language's part is not understood.
    NotUnderstood,
}

impl Why {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Record => "it comes from the record",
            Self::Parameter => "it is a parameter, and no caller was found",
            Self::Loaded => "it is read from the database",
            Self::Fresh => "it is made anew on each execution",
            Self::Library => "a library decides it",
            Self::Injected => "it is injected, and the sources have no bean for it",
            Self::Recursion => "the method calls itself",
            Self::Limit => "the analysis reached its limit",
            Self::Unset => "nothing sets it",
            Self::NotUnderstood => "this expression is not understood",
        }
    }
}

/// Some value of a type.
#[derive(Debug)]
pub(crate) struct Any<'s> {
    pub ty: Option<Ty<'s>>,
    pub why: Why,
    pub site: Site,
}

/// A function as a value.
pub(crate) enum Fun<'s> {
    Lambda {
        lambda: &'s Lambda<'s>,
        scope: Rc<Scope<'s>>,
    },
    Local {
        method: &'s Method<'s>,
        scope: Rc<Scope<'s>>,
    },
    /// `x::f` or `X::f`; the target's value or type, if there is one.
    Reference {
        target: Option<Val<'s>>,
        name: &'s str,
        scope: Rc<Scope<'s>>,
    },
}

impl Fun<'_> {
    /// How many parameters it has, where that can be seen.
    pub(crate) fn parameters(&self) -> Option<usize> {
        match self {
            Self::Lambda { lambda, .. } if lambda.implicit_it => None,
            Self::Lambda { lambda, .. } => Some(lambda.params.len()),
            Self::Local { method, .. } => Some(method.params.len()),
            Self::Reference { .. } => None,
        }
    }

    pub(crate) fn site(&self) -> Option<Range> {
        match self {
            Self::Lambda { lambda, .. } => Some(lambda.at),
            Self::Local { .. } | Self::Reference { .. } => None,
        }
    }
}

/// A bean or a setting that is looked up when it is used.
pub(crate) struct Later<'s> {
    pub wanted: Wanted<'s>,
    pub value: OnceCell<Val<'s>>,
}

#[derive(Clone)]
pub(crate) enum Val<'s> {
    /// Nothing: `void`.
    Void,
    Known(Value),
    Obj(ObjId),
    Fun(Rc<Fun<'s>>),
    Any(Rc<Any<'s>>),
    /// A container with some number of such elements: its class's simple name, and one element.
    Many(&'s str, Rc<Val<'s>>),
    OneOf(Rc<[Val<'s>]>),
    /// A class: as the target of a static call, or `X.class`.
    Type(Ty<'s>),
    Later(Rc<Later<'s>>),
}

/// How the code goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    On,
    Returned,
    Thrown,
    Jumped,
}

pub(crate) struct Machine<'s> {
    pub world: &'s World<'s>,
    pub objs: RefCell<Vec<Obj<'s>>>,
    pub bean_objs: RefCell<HashMap<ClassId, ObjId>>,
    pub bean_values: RefCell<HashMap<*const Method<'s>, Option<Val<'s>>>>,
    pub flow: Flow,
    /// Static fields and Kotlin's properties outside classes, once they are worked out.
    pub statics: RefCell<HashMap<*const Field<'s>, Val<'s>>>,
    fuel: u32,
    fuel_in_all: u64,
    nesting: u32,
    /// How many conditions enclose what runs now, below the entry point.
    pub branches: u32,
    /// How many of them are real conditions, and not a function that a library calls.
    pub conditions: u32,
    pub loops: u32,
    /// How many calls that wait for a result enclose what runs now.
    pub awaiting: u32,
    pub around: Vec<Around>,
    pub path: Vec<PathStep>,
    stack: Vec<(*const Method<'s>, Option<ObjId>)>,
    /// The values that labelled returns gave to the lambdas that run.
    pub lambda_returns: Vec<Vec<Val<'s>>>,
    pub writes: Vec<Write>,
    /// A limit that was reached, where.
    pub limits: Vec<(Site, &'static str)>,
    /// The methods that ran.
    pub ran: HashSet<*const Method<'s>>,
    pub retries: Vec<crate::retry::Retry>,
}

impl<'s> Machine<'s> {
    pub(crate) fn new(world: &'s World<'s>) -> Self {
        Self {
            world,
            objs: RefCell::default(),
            bean_objs: RefCell::default(),
            bean_values: RefCell::default(),
            flow: Flow::On,
            statics: RefCell::default(),
            fuel: FUEL,
            fuel_in_all: FUEL_IN_ALL,
            nesting: 0,
            branches: 0,
            conditions: 0,
            loops: 0,
            awaiting: 0,
            around: Vec::new(),
            path: Vec::new(),
            stack: Vec::new(),
            lambda_returns: Vec::new(),
            writes: Vec::new(),
            limits: Vec::new(),
            ran: HashSet::new(),
            retries: Vec::new(),
        }
    }

    /// Runs an entry point: with a path, contexts and limits of its own.
    pub(crate) fn entry<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        let fuel = std::mem::replace(&mut self.fuel, FUEL);
        let result = self.aside(run);
        self.fuel = fuel;
        result
    }

    /// Runs something that is not part of what runs now, such as the making of a bean.
    pub(crate) fn aside<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        let flow = std::mem::replace(&mut self.flow, Flow::On);
        let branches = std::mem::take(&mut self.branches);
        let conditions = std::mem::take(&mut self.conditions);
        let loops = std::mem::take(&mut self.loops);
        let around = std::mem::take(&mut self.around);
        let path = std::mem::take(&mut self.path);
        let stack = std::mem::take(&mut self.stack);
        let writes = std::mem::take(&mut self.writes);
        let result = run(self);
        self.flow = flow;
        self.branches = branches;
        self.conditions = conditions;
        self.loops = loops;
        self.around = around;
        self.path = path;
        self.stack = stack;
        self.writes = writes;
        result
    }

    /// One more step, one level down; `None` when a limit is reached.
    pub(crate) fn step<T>(&mut self, site: Site, run: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let spent = self.fuel == 0 || self.fuel_in_all == 0;
        if spent || self.nesting >= NESTING_MAX {
            let what = if spent { "too many calls to follow" } else { "calls and expressions nest too deeply" };
            self.limit(site, what);
            return None;
        }
        self.fuel -= 1;
        self.fuel_in_all -= 1;
        self.nesting += 1;
        let result = run(self);
        self.nesting -= 1;
        Some(result)
    }

    pub(crate) fn limit(&mut self, site: Site, what: &'static str) {
        if self.limits.len() < 20 && !self.limits.iter().any(|(_, known)| *known == what) {
            self.limits.push((site, what));
        }
    }

    pub(crate) fn span(&self, site: Site) -> Span {
        self.world.span(site)
    }

    // ---- values

    pub(crate) fn any(&self, ty: Option<Ty<'s>>, why: Why, site: Site) -> Val<'s> {
        // A container of known elements' type is better kept as a container.
        if let Some(ty) = &ty
            && let Some(kind) = collection::container(ty)
        {
            let elem = collection::element_type(ty);
            return Val::Many(kind, Rc::new(self.any(elem, why, site)));
        }
        Val::Any(Rc::new(Any { ty, why, site }))
    }

    /// Several possible values as one.
    pub(crate) fn join(&self, values: Vec<Val<'s>>) -> Val<'s> {
        let mut parts: Vec<Val<'s>> = Vec::new();
        for value in values {
            match value {
                Val::OneOf(inner) => inner.iter().for_each(|part| push_distinct(&mut parts, part.clone())),
                Val::Void => {}
                value => push_distinct(&mut parts, value),
            }
        }
        if parts.len() > 1 && parts.iter().all(|part| matches!(part, Val::Known(_))) {
            let known =
                parts.into_iter().filter_map(|part| if let Val::Known(value) = part { Some(value) } else { None });
            return Val::Known(one_of(known.collect()));
        }
        match (parts.len(), parts.pop()) {
            (0, _) => Val::Void,
            (1, Some(only)) => only,
            (_, last) => {
                parts.extend(last);
                Val::OneOf(parts.into())
            }
        }
    }

    /// Looks up what was put off.
    pub(crate) fn force(&mut self, value: &Val<'s>) -> Val<'s> {
        match value {
            Val::Later(later) => {
                if let Some(value) = later.value.get() {
                    return value.clone();
                }
                let found = self.inject(&later.wanted);
                later.value.get_or_init(|| found).clone()
            }
            value => value.clone(),
        }
    }

    /// The type of a value, as far as it is known.
    pub(crate) fn type_of(&self, value: &Val<'s>) -> Option<Ty<'s>> {
        match value {
            Val::Obj(id) => Some(self.objs.borrow()[id.index()].ty.clone()),
            Val::Any(any) => any.ty.clone(),
            Val::Many(kind, elem) => {
                let args = self.type_of(elem).into_iter().collect();
                Some(Ty { base: Base::Library { name: kind, path: None }, args, array: false })
            }
            Val::OneOf(parts) => parts.iter().find_map(|part| self.type_of(part)),
            Val::Known(Value::Text(_)) => Some(Ty::library("String")),
            Val::Known(Value::DurationMs(_)) => Some(Ty::library("Duration")),
            Val::Later(later) => match later.value.get() {
                Some(value) => self.type_of(value),
                None => Some(later.wanted.ty.clone()),
            },
            _ => None,
        }
    }

    /// A value as the outside sees it.
    pub(crate) fn value(&mut self, value: &Val<'s>, site: Site) -> Value {
        match self.force(value) {
            Val::Known(value) => value,
            Val::Type(ty) => Value::Class(self.type_name(&ty).into()),
            Val::OneOf(parts) => one_of(parts.iter().map(|part| self.value(part, site)).collect()),
            Val::Any(any) => self.unknown(site, any.why),
            Val::Obj(id) => self.object_value(id, site),
            Val::Many(..) => self.unknown(site, Why::Library),
            Val::Fun(_) | Val::Void | Val::Later(_) => self.unknown(site, Why::NotUnderstood),
        }
    }

    pub(crate) fn unknown(&self, site: Site, why: Why) -> Value {
        let text = self.short_text(site);
        Value::Unknown(Box::new(Unknown { text, why: why.text().to_owned(), span: self.span(site) }))
    }

    /// The source text of a place, on one line and shortened.
    pub(crate) fn short_text(&self, site: Site) -> String {
        let mut text = String::new();
        let whole = self.world.text(site);
        for word in whole.split_whitespace() {
            if !text.is_empty() {
                text.push(' ');
            }
            text.extend(word.chars().take(80));
            if text.len() > 80 {
                let cut = text.char_indices().nth(79).map_or(text.len(), |(at, _)| at);
                text.truncate(cut);
                text.push('…');
                break;
            }
        }
        text
    }

    pub(crate) fn type_name(&self, ty: &Ty<'s>) -> &'s str {
        match ty.base {
            Base::Class(id) => self.world.class(id).name,
            Base::Library { name, .. } | Base::Variable(name) => name,
        }
    }
}

fn push_distinct<'s>(parts: &mut Vec<Val<'s>>, value: Val<'s>) {
    let same = |part: &Val<'s>| match (part, &value) {
        (Val::Known(left), Val::Known(right)) => left == right,
        (Val::Obj(left), Val::Obj(right)) => left == right,
        (Val::Type(left), Val::Type(right)) => left == right,
        (Val::Any(left), Val::Any(right)) => left.ty == right.ty && left.why == right.why,
        (Val::Later(left), Val::Later(right)) => Rc::ptr_eq(left, right),
        _ => false,
    };
    if parts.len() < 12 && !parts.iter().any(same) {
        parts.push(value);
    }
}
