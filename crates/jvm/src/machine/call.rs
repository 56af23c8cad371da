//! Calls: which method a name means, and running it.

use std::rc::Rc;

use super::object::{getter_property, setter_property};
use super::{Flow, Frame, Fun, Machine, ObjId, Origin, Scope, Val, Why, builtin, collection, statics};
use crate::analysis::PathStep;
use crate::index::{Base, ClassId, Place, Ty, site};
use crate::mongo::write::{Around, AroundKind};
use crate::span::Site;
use crate::tree::{Annotation, Arg, Class, ClassKind, Constructor, Expr, ExprKind, Lambda, Method, Param, Type};

/// An argument of a call.
#[derive(Clone)]
pub(crate) struct ArgVal<'s> {
    pub name: Option<&'s str>,
    pub val: Val<'s>,
    pub site: Site,
}

/// A call: what is called, with what, and where.
#[derive(Clone)]
pub(crate) struct Call<'s> {
    pub name: &'s str,
    /// Type arguments, as in Kotlin's `f<T>()`.
    pub types: Vec<Ty<'s>>,
    pub args: Vec<ArgVal<'s>>,
    pub at: Site,
    /// The block that calls.
    pub scope: Rc<Scope<'s>>,
    /// Whether it goes through Spring's proxy, if the target has one: a call on `this` does not.
    pub proxied: bool,
}

impl<'s> Call<'s> {
    /// A call that no source text shows: of a function value, a getter.
    pub(crate) fn new(name: &'s str, args: Vec<ArgVal<'s>>, at: Site, scope: &Rc<Scope<'s>>) -> Self {
        Self { name, types: Vec::new(), args, at, scope: scope.clone(), proxied: true }
    }

    fn proxied(self, proxied: bool) -> Self {
        Self { proxied, ..self }
    }

    fn named(self, name: &'s str) -> Self {
        Self { name, ..self }
    }
}

/// Names under which a functional interface is called.
const FUNCTIONAL: [&str; 16] = [
    "invoke",
    "run",
    "get",
    "accept",
    "apply",
    "call",
    "execute",
    "test",
    "doInTransaction",
    "doWithRetry",
    "customize",
    "handle",
    "process",
    "doInCollection",
    "doInDB",
    "onMessage",
];

impl<'s> Machine<'s> {
    pub(crate) fn args(&mut self, args: &'s [Arg<'s>], scope: &Rc<Scope<'s>>) -> Vec<ArgVal<'s>> {
        let file = scope.frame.place.file;
        args.iter()
            .map(|arg| ArgVal { name: arg.name, val: self.eval(&arg.value, scope), site: site(file, arg.value.at) })
            .collect()
    }

    /// Evaluates a call expression. `written` is the call without its arguments, which are evaluated in their turn.
    pub(crate) fn call(
        &mut self,
        target: Option<&'s Expr<'s>>,
        args: &'s [Arg<'s>],
        written: Call<'s>,
        scope: &Rc<Scope<'s>>,
    ) -> Val<'s> {
        let (name, at) = (written.name, written.at);
        let Some(target) = target else {
            let args = self.args(args, scope);
            if self.flow != Flow::On {
                return Val::Void;
            }
            return self.plain_call(Call { args, ..written });
        };
        if matches!(target.kind, ExprKind::Super) {
            let args = self.args(args, scope);
            return self.super_call(Call { args, ..written });
        }
        if matches!(name, "getOrThrow" | "getOrDefault" | "getOrElse")
            && let ExprKind::Call { name: "runCatching", args: inner, .. } = &target.kind
        {
            // What `getOrThrow` throws again is not swallowed.
            let inner = self.args(inner, scope);
            let plain = name == "getOrThrow";
            let lambda = inner.into_iter().next().map_or(Val::Void, |arg| arg.val);
            return self.run_catching(&lambda, plain, at);
        }
        if let Some(ty) = self.as_type(target, scope) {
            let args = self.args(args, scope);
            return self.static_call(&ty, Call { args, ..written });
        }
        // What handles errors or retries in a reactive chain stands behind the calls that it is about.
        let chained = matches!(
            name,
            "onErrorResume"
                | "onErrorReturn"
                | "onErrorComplete"
                | "onErrorContinue"
                | "exceptionally"
                | "subscribe"
                | "retry"
                | "retryWhen"
        );
        let early = chained.then(|| self.args(args, scope));
        let around = early.as_ref().and_then(|args| self.chain_around(name, args, at));
        let pushed = around.is_some();
        self.around.extend(around);
        let waits = statics::waits(name, args.len());
        self.awaiting += u32::from(waits);
        let target_val = self.eval(target, scope);
        self.awaiting -= u32::from(waits);
        if waits {
            self.awaited(&target_val);
        }
        if pushed {
            self.around.pop();
        }
        let args = match early {
            Some(args) => args,
            None => self.args(args, scope),
        };
        if self.flow != Flow::On {
            return Val::Void;
        }
        let through_this = matches!(target.kind, ExprKind::This);
        self.typed_method(&target_val, Call { args, proxied: !through_this, ..written })
    }

    /// The writes that a value waits for, made on another thread by an earlier call, are not detached.
    fn awaited(&mut self, value: &Val<'s>) {
        let Val::Any(any) = self.force(value) else { return };
        let span = self.span(any.site);
        // `CompletableFuture.allOf(one, other).join()`: which ones is not told.
        let all = self.world.text(any.site).contains("allOf(");
        for write in &mut self.writes {
            write
                .around
                .retain(|around| !(matches!(around.kind, AroundKind::Detached { .. }) && (all || around.span == span)));
        }
    }

    /// A call without a target.
    fn plain_call(&mut self, call: Call<'s>) -> Val<'s> {
        if let Some(local) = call.scope.get(call.name) {
            return self.typed_method(&local, call.named("invoke"));
        }
        let mut receivers = Vec::new();
        let mut block = Some(&call.scope);
        while let Some(inner) = block {
            receivers.extend(inner.receiver.clone());
            block = inner.parent.as_ref();
        }
        for receiver in &receivers {
            if let Some(class) = self.type_of(receiver).and_then(|ty| ty.class())
                && !self.world.methods(class, call.name).is_empty()
            {
                return self.typed_method(receiver, call.proxied(true));
            }
        }
        // The enclosing classes, nearest first.
        let mut class = call.scope.frame.place.class;
        while let Some(id) = class {
            if let Some((owner, method)) = self.pick(id, call.name, &call.args) {
                if method.is_static {
                    return self.run_method(owner, method, None, call.args, call.at, false);
                }
                let this = self.this_for(id, &call.scope, call.at);
                return self.typed_method(&this, call.proxied(false));
            }
            if let Some(companion) = self.world.companion(id)
                && !self.world.methods(companion, call.name).is_empty()
            {
                let this = Val::Obj(self.bean_object(companion));
                return self.typed_method(&this, call.proxied(false));
            }
            // A function kept in a property.
            if let Some((_, field)) = self.world.field(id, call.name)
                && field.ty.as_ref().is_none_or(|ty| ty.name == "Function")
            {
                let this = self.this_for(id, &call.scope, call.at);
                let function = self.get(&this, field.name, call.at);
                if matches!(function, Val::Fun(_)) {
                    return self.typed_method(&function, call.named("invoke"));
                }
            }
            class = self.world.info(id).outer;
        }
        for (owner, path) in self.world.static_import(call.name, call.scope.frame.place.file) {
            match owner {
                Some(owner) if !self.world.methods(owner, call.name).is_empty() => {
                    return self.static_call(&Ty::of(Base::Class(owner)), call);
                }
                None => {
                    let imports = &self.world.tree(call.scope.frame.place.file).imports;
                    if imports.iter().any(|import| !import.star && import.name == call.name) {
                        let ty = Ty::library(crate::tree::last_part(path));
                        return self.static_call(&ty, call);
                    }
                }
                _ => {}
            }
        }
        for (file, function) in self.world.functions(call.name, call.scope.frame.place) {
            let this = match &function.receiver {
                None => None,
                Some(_) => match receivers.first().cloned().or_else(|| call.scope.frame.this.clone()) {
                    Some(this) => Some(this),
                    None => continue,
                },
            };
            return self.run_function(file, function, this, call.args, call.at);
        }
        if call.name.starts_with(char::is_uppercase) {
            let base = self.world.base(call.name, call.scope.frame.place);
            let ty = Ty { base, args: call.types.into(), array: false };
            return self.construct(ty, call.args, call.at);
        }
        if let Some(result) = self.kotlin_function(&call) {
            return result;
        }
        // What is left belongs to what a block is about, or to the class's library superclass.
        for receiver in &receivers {
            if let Val::Obj(_) | Val::Any(_) | Val::Many(..) = receiver {
                return self.typed_method(receiver, call.proxied(true));
            }
        }
        if let Some(this @ Val::Obj(_)) = call.scope.frame.this.clone() {
            return self.typed_method(&this, call.proxied(false));
        }
        self.unknown_call(&Val::Void, call)
    }

    fn super_call(&mut self, call: Call<'s>) -> Val<'s> {
        let this = call.scope.frame.this.clone().unwrap_or(Val::Void);
        let Some(class) = call.scope.frame.place.class else { return Val::Void };
        for sup in self.world.supers(class).iter() {
            if let Base::Class(sup) = sup.base
                && let Some((owner, method)) = self.pick(sup, call.name, &call.args)
                && method.body.is_some()
            {
                return self.run_method(owner, method, Some(this), call.args, call.at, false);
            }
        }
        match &this {
            Val::Obj(id) => self.library_call(*id, call),
            _ => self.unknown_call(&this, call),
        }
    }

    /// A method of a value.
    pub(crate) fn method(
        &mut self,
        target: &Val<'s>,
        name: &'s str,
        args: Vec<ArgVal<'s>>,
        at: Site,
        scope: &Rc<Scope<'s>>,
    ) -> Val<'s> {
        self.typed_method(target, Call::new(name, args, at, scope))
    }

    pub(crate) fn typed_method(&mut self, target: &Val<'s>, call: Call<'s>) -> Val<'s> {
        let at = call.at;
        let result = self.step(at, |machine| {
            let target = machine.force(target);
            if let Some(result) = machine.scope_function(&target, &call) {
                return result;
            }
            machine.dispatch(&target, call)
        });
        result.unwrap_or_else(|| self.any(None, Why::Limit, at))
    }

    fn dispatch(&mut self, target: &Val<'s>, call: Call<'s>) -> Val<'s> {
        match target {
            Val::OneOf(parts) => {
                let mut values = Vec::new();
                for part in parts.iter() {
                    let call = call.clone();
                    values.push(self.branch(|machine| machine.typed_method(part, call)));
                }
                self.flow = Flow::On;
                self.join(values)
            }
            Val::Fun(function) => {
                if FUNCTIONAL.contains(&call.name) || builtin::is_functional(call.name) {
                    let values = call.args.into_iter().map(|arg| arg.val).collect();
                    return self.invoke(&function.clone(), values, None, call.at);
                }
                self.unknown_call(target, call)
            }
            Val::Type(ty) => {
                let ty = ty.clone();
                self.static_call(&ty, call)
            }
            Val::Known(value) => {
                let value = value.clone();
                if let Some(result) = self.extension(target, &call) {
                    return result;
                }
                self.known_method(value, call)
            }
            Val::Many(..) => {
                if let Some(result) = self.extension(target, &call) {
                    return result;
                }
                self.many_method(target, call)
            }
            Val::Obj(id) => self.object_method(*id, call),
            Val::Any(any) => {
                let ty = any.ty.clone();
                if let Some(class) = ty.as_ref().and_then(Ty::class) {
                    return self.class_method(target, class, call);
                }
                if let Some(result) = self.extension(target, &call) {
                    return result;
                }
                if let Some(ty) = &ty
                    && let Some(result) = self.mongo_call(target, std::slice::from_ref(ty), &call)
                {
                    return result;
                }
                self.any_method(&any.clone(), call)
            }
            Val::Void | Val::Later(_) => self.unknown_call(target, call),
        }
    }

    fn object_method(&mut self, id: ObjId, call: Call<'s>) -> Val<'s> {
        let target = Val::Obj(id);
        match self.obj_class(id) {
            Some(class) => self.class_method(&target, class, call),
            None => {
                if let Some(result) = self.extension(&target, &call) {
                    return result;
                }
                self.library_call(id, call)
            }
        }
    }

    /// A method of a value whose class is in the sources.
    fn class_method(&mut self, target: &Val<'s>, class: ClassId, call: Call<'s>) -> Val<'s> {
        let library = self.world.library_supers(class);
        if let Some((owner, method)) = self.pick(class, call.name, &call.args) {
            // Repositories first: what they declare has no body, and Spring Data gives it one.
            if method.body.is_none()
                && let Some(result) = self.repository_call(target, class, &library, Some((owner, method)), &call)
            {
                return result;
            }
            if let Val::Obj(id) = target
                && method.annotations.iter().any(|it| it.simple() == "Bean")
                && self.obj(*id, |obj| obj.origin == Origin::Bean)
            {
                return self.bean_value(class, method);
            }
            if method.body.is_none()
                && let Some(delegate) = self.delegate(target, owner)
            {
                return self.typed_method(&delegate, call.proxied(true));
            }
            if method.body.is_some() && !self.overridden(target, owner) {
                return self.run_method(owner, method, Some(target.clone()), call.args, call.at, call.proxied);
            }
            return self.run_implementations(target, class, owner, method, call);
        }
        if let Some(result) = self.repository_call(target, class, &library, None, &call) {
            return result;
        }
        if let Some(companion) = self.world.companion(class)
            && !self.world.methods(companion, call.name).is_empty()
        {
            let this = Val::Obj(self.bean_object(companion));
            return self.class_method(&this, companion, call.proxied(false));
        }
        // What Lombok, records and Kotlin make.
        if call.args.is_empty() {
            for property in [Some(call.name.to_owned()), getter_property(call.name)].into_iter().flatten() {
                if let Some((_, field)) = self.world.field(class, &property) {
                    return self.get(target, field.name, call.at);
                }
            }
        }
        if let Val::Obj(id) = target {
            let property = setter_property(call.name).or_else(|| call.name.strip_prefix("with").map(str::to_owned));
            let property = property.unwrap_or_else(|| call.name.to_owned());
            let property =
                self.world.field(class, &property).or_else(|| self.world.field(class, &lower_first(&property)));
            if let (Some((_, field)), [arg]) = (property, call.args.as_slice()) {
                self.set_field(*id, field.name, arg.val.clone());
                // Builders and fluent setters go on with the same object.
                return target.clone();
            }
            if matches!(call.name, "build" | "toBuilder") && call.args.is_empty() {
                return target.clone();
            }
            if call.name == "copy" {
                return self.copy(*id, class, call.args, call.at);
            }
        }
        if let Some(result) = self.extension(target, &call) {
            return result;
        }
        if let Some(result) = self.mongo_call(target, &library, &call) {
            return result;
        }
        match target {
            Val::Obj(id) if !library.is_empty() => self.library_call(*id, call),
            _ => self.unknown_call(target, call),
        }
    }

    /// What Kotlin's `: Interface by delegate` hands a method on to.
    fn delegate(&mut self, target: &Val<'s>, owner: ClassId) -> Option<Val<'s>> {
        let Val::Obj(id) = target else { return None };
        let class = self.obj_class(*id)?;
        let info = self.world.info(class);
        let supers = self.world.supers(class);
        let by = info.class.supers.iter().zip(supers.iter()).find_map(|(sup, ty)| {
            let by = sup.by.as_ref()?;
            self.world.is_subclass(ty.class()?, owner).then_some(by)
        })?;
        let scope = self.obj(*id, |obj| obj.init_scopes.iter().find(|(at, _)| *at == class).map(|(_, it)| it.clone()));
        let scope = scope.unwrap_or_else(|| Scope::top(Frame::new(Some(target.clone()), info.file, Some(class))));
        let value = self.eval(by, &scope);
        Some(self.force(&value))
    }

    /// Kotlin's `copy(a = 1)` of a data class.
    fn copy(&mut self, id: ObjId, class: ClassId, args: Vec<ArgVal<'s>>, at: Site) -> Val<'s> {
        let (ty, fields) = self.obj(id, |obj| (obj.ty.clone(), obj.fields.clone()));
        let copy = self.make(ty, Origin::New, at, Vec::new());
        self.obj_mut(copy, |obj| obj.fields = fields);
        for arg in args {
            if let Some(name) = arg.name
                && let Some((_, field)) = self.world.field(class, name)
            {
                self.set_field(copy, field.name, arg.val);
            }
        }
        Val::Obj(copy)
    }

    /// Whether the value may be of a subclass that has its own version: only an interface's default method is asked.
    fn overridden(&self, target: &Val<'s>, owner: ClassId) -> bool {
        matches!(target, Val::Any(any) if any.why == Why::Injected)
            && self.world.class(owner).kind == ClassKind::Interface
            && self.world.subclasses(owner).len() > 1
    }

    /// Runs what implements an abstract method.
    fn run_implementations(
        &mut self,
        target: &Val<'s>,
        class: ClassId,
        owner: ClassId,
        method: &'s Method<'s>,
        call: Call<'s>,
    ) -> Val<'s> {
        let mut candidates: Vec<(ClassId, &'s Method<'s>)> = Vec::new();
        for sub in self.world.subclasses(class) {
            if self.world.class(sub).kind == ClassKind::Interface {
                continue;
            }
            if let Some((at, found)) = self.pick(sub, method.name, &call.args)
                && found.body.is_some()
                && !candidates.iter().any(|(_, known)| std::ptr::eq(*known, found))
            {
                candidates.push((at, found));
            }
        }
        if candidates.is_empty() {
            let place = Place { file: self.world.info(owner).file, class: Some(owner) };
            for arg in &call.args {
                self.run_argument(arg, call.at);
            }
            let ret = method.ret.as_ref().map(|ret| self.world.ty(ret, place));
            let ret = ret.map(|ret| self.in_terms_of(target, &ret, owner));
            return self.any(ret, Why::Library, call.at);
        }
        let several = candidates.len() > 1;
        let mut values = Vec::new();
        for (owner, method) in candidates.into_iter().take(8) {
            let this = match target {
                Val::Obj(id) if self.obj_class(*id).is_some_and(|own| self.world.is_subclass(own, owner)) => {
                    target.clone()
                }
                _ => Val::Obj(self.bean_object(owner)),
            };
            let args = call.args.clone();
            if several {
                self.around.push(Around { kind: AroundKind::OneOfSeveral, span: self.span(call.at) });
            }
            let value =
                self.branch(|machine| machine.run_method(owner, method, Some(this), args, call.at, call.proxied));
            if several {
                self.around.pop();
                self.flow = Flow::On;
            }
            values.push(value);
        }
        self.join(values)
    }

    /// The method that a call means: by name and number of arguments, then by their types.
    pub(crate) fn pick(
        &mut self,
        class: ClassId,
        name: &str,
        args: &[ArgVal<'s>],
    ) -> Option<(ClassId, &'s Method<'s>)> {
        let methods = self.world.methods(class, name);
        let fits = |method: &Method<'s>| {
            let required = method.params.iter().filter(|param| param.default.is_none() && !param.vararg).count();
            let most = if method.params.iter().any(|param| param.vararg) { usize::MAX } else { method.params.len() };
            (required..=most).contains(&args.len())
        };
        let mut best: Option<(i32, ClassId, &'s Method<'s>)> = None;
        for (owner, method) in methods {
            if !fits(method) || method.receiver.is_some() {
                continue;
            }
            let place = self.world.place(owner);
            let mut score = if method.body.is_some() { 1 } else { 0 };
            if method.params.iter().any(|param| param.vararg) {
                score -= 1;
            }
            for (param, arg) in method.params.iter().zip(args) {
                let (Some(declared), Some(actual)) = (&param.ty, self.type_of(&arg.val)) else { continue };
                let declared = self.world.ty(declared, place);
                score += match (declared.class(), actual.class()) {
                    (Some(declared), Some(actual)) if self.world.is_subclass(actual, declared) => 4,
                    (Some(_), _) => -4,
                    (None, None) if declared.lib() == actual.lib() => 3,
                    (None, _) if matches!(declared.base, Base::Variable(_)) || declared.lib() == Some("Object") => 1,
                    (None, Some(_)) if collection::container(&declared).is_some() => -4,
                    _ => 0,
                };
            }
            if best.is_none_or(|(known, ..)| score > known) {
                best = Some((score, owner, method));
            }
        }
        best.map(|(_, owner, method)| (owner, method))
    }

    /// Type variables of a supertype, as the value's class fills them.
    pub(crate) fn in_terms_of(&mut self, target: &Val<'s>, ty: &Ty<'s>, owner: ClassId) -> Ty<'s> {
        let Some(own) = self.type_of(target) else { return ty.clone() };
        let Some(class) = own.class() else { return ty.clone() };
        match self.world.args_for(class, &own.args, owner) {
            Some(args) => self.world.substitute(ty, owner, &args, 0),
            None => ty.clone(),
        }
    }

    /// Runs a method of the project.
    pub(crate) fn run_method(
        &mut self,
        owner: ClassId,
        method: &'s Method<'s>,
        this: Option<Val<'s>>,
        args: Vec<ArgVal<'s>>,
        at: Site,
        proxied: bool,
    ) -> Val<'s> {
        let file = self.world.info(owner).file;
        let place = Place { file, class: Some(owner) };
        let mut ret = method.ret.as_ref().map(|ret| self.world.ty(ret, place));
        if let (Some(this), Some(ty)) = (&this, &ret) {
            ret = Some(self.in_terms_of(this, ty, owner));
        }
        let Some(body) = &method.body else { return self.any(ret, Why::Library, at) };
        let receiver = match &this {
            Some(Val::Obj(id)) => Some(*id),
            _ => None,
        };
        if !self.enter(method, receiver, at) {
            return self.any(ret, Why::Recursion, at);
        }
        self.ran.insert(std::ptr::from_ref(method));
        let captured = receiver.and_then(|id| self.obj(id, |obj| obj.scope.clone()));
        let frame = Frame::new(this, file, Some(owner));
        let scope = match captured {
            Some(captured) => Scope::in_frame(&captured, frame.clone()),
            None => Scope::top(frame.clone()),
        };
        self.bind(&method.params, args, &scope, at);
        let class_name = self.world.class(owner).name;
        let name = if class_name.is_empty() { method.name.to_owned() } else { format!("{class_name}.{}", method.name) };
        self.path.push(PathStep { method: name, span: self.span(at) });
        let pushed = if proxied { self.push_annotations(owner, method, file) } else { 0 };
        let value = self.eval(self.world.body(file, body), &scope);
        for _ in 0..pushed {
            self.around.pop();
        }
        self.path.pop();
        self.leave();
        self.result(method.is_expression, value, &frame, ret, at)
    }

    /// Runs a Kotlin function outside classes.
    pub(crate) fn run_function(
        &mut self,
        file: u32,
        method: &'s Method<'s>,
        this: Option<Val<'s>>,
        args: Vec<ArgVal<'s>>,
        at: Site,
    ) -> Val<'s> {
        let ret = method.ret.as_ref().map(|ret| self.world.ty(ret, Place { file, class: None }));
        let Some(body) = &method.body else { return self.any(ret, Why::Library, at) };
        if !self.enter(method, None, at) {
            return self.any(ret, Why::Recursion, at);
        }
        self.ran.insert(std::ptr::from_ref(method));
        let frame = Frame::new(this.clone(), file, None);
        let scope = Scope::with_receiver(&Scope::top(frame.clone()), this);
        self.bind(&method.params, args, &scope, at);
        self.path.push(PathStep { method: method.name.to_owned(), span: self.span(at) });
        let value = self.eval(self.world.body(file, body), &scope);
        self.path.pop();
        self.leave();
        self.result(method.is_expression, value, &frame, ret, at)
    }

    fn result(
        &mut self,
        is_expression: bool,
        value: Val<'s>,
        frame: &Rc<Frame<'s>>,
        ret: Option<Ty<'s>>,
        at: Site,
    ) -> Val<'s> {
        let thrown = self.flow == Flow::Thrown;
        let mut values = std::mem::take(&mut *frame.returns.borrow_mut());
        if is_expression && self.flow == Flow::On {
            values.push(value);
        }
        // A method that throws whatever happens ends its caller too.
        self.flow = if thrown && values.is_empty() { Flow::Thrown } else { Flow::On };
        let nothing = values.is_empty();
        let joined = self.join(values);
        if nothing && ret.as_ref().is_none_or(|ty| matches!(ty.lib(), Some("void" | "Unit"))) {
            return Val::Void;
        }
        self.coerce(joined, ret, at)
    }

    /// One call deeper; `false` says that the method runs already or that calls go too deep.
    fn enter(&mut self, method: &'s Method<'s>, receiver: Option<ObjId>, at: Site) -> bool {
        let key = (std::ptr::from_ref(method), receiver);
        if self.stack.contains(&key) || self.stack.iter().filter(|(known, _)| *known == key.0).count() > 2 {
            return false;
        }
        if self.stack.len() >= super::CALLS_MAX {
            self.limit(at, "calls go deeper than they are followed");
            return false;
        }
        self.stack.push(key);
        true
    }

    fn leave(&mut self) {
        self.stack.pop();
    }

    pub(crate) fn bind(&mut self, params: &'s [Param<'s>], args: Vec<ArgVal<'s>>, scope: &Rc<Scope<'s>>, at: Site) {
        let place = scope.frame.place;
        let mut positional: Vec<ArgVal<'s>> = Vec::new();
        let mut by_name: Vec<ArgVal<'s>> = Vec::new();
        for arg in args {
            if arg.name.is_some() { by_name.push(arg) } else { positional.push(arg) }
        }
        // Kotlin's last lambda stands behind the parentheses, whatever was left out before it.
        let last_lambda = match positional.last() {
            Some(arg) if matches!(arg.val, Val::Fun(_)) && positional.len() + by_name.len() < params.len() => {
                let wants =
                    params.last().is_some_and(|param| param.ty.as_ref().is_some_and(|ty| ty.name == "Function"));
                if wants { positional.pop() } else { None }
            }
            _ => None,
        };
        let mut positional = positional.into_iter();
        for (index, param) in params.iter().enumerate() {
            let declared = param.ty.as_ref().map(|ty| self.world.ty(ty, place));
            let given = by_name.iter().find(|arg| arg.name == Some(param.name)).map(|arg| arg.val.clone());
            let is_last = index + 1 == params.len();
            let given = match (given, &last_lambda) {
                (Some(given), _) => Some(given),
                (None, Some(lambda)) if is_last => Some(lambda.val.clone()),
                (None, _) if param.vararg => {
                    let rest: Vec<_> = positional.by_ref().collect();
                    match rest.as_slice() {
                        [only] if matches!(&only.val, Val::Many(..)) => Some(only.val.clone()),
                        _ => Some(self.new_list("List", rest, at)),
                    }
                }
                (None, _) => positional.next().map(|arg| arg.val),
            };
            let value = match (given, &param.default) {
                (Some(given), _) => self.coerce(given, declared, at),
                (None, Some(default)) => self.eval(default, scope),
                (None, None) => self.any(declared, Why::Parameter, site(place.file, param.at)),
            };
            scope.declare(param.name, value, self.branches);
        }
    }

    /// Transactions, retries and other threads that annotations put around a method.
    fn push_annotations(&mut self, owner: ClassId, method: &'s Method<'s>, file: u32) -> usize {
        let class = self.world.class(owner);
        let mut pushed = 0;
        let found: Vec<&'s Annotation<'s>> = method.annotations.iter().chain(&class.annotations).collect();
        let mut done: Vec<&str> = Vec::new();
        for annotation in found {
            let name = annotation.simple();
            if done.contains(&name) {
                continue;
            }
            let kind = match name {
                "Transactional" => AroundKind::Transaction { how: "@Transactional".to_owned() },
                "Async" => AroundKind::Detached { how: "@Async".to_owned() },
                "Retryable" | "Retry" => {
                    let place = Place { file, class: Some(owner) };
                    match self.annotated_retry(annotation, place) {
                        Some(retry) => AroundKind::Retry { retry },
                        None => continue,
                    }
                }
                _ => continue,
            };
            done.push(name);
            self.around.push(Around { kind, span: self.span(site(file, annotation.at)) });
            pushed += 1;
        }
        pushed
    }

    /// Calls a function value. `receiver` is what its block is about.
    pub(crate) fn invoke(
        &mut self,
        function: &Rc<Fun<'s>>,
        args: Vec<Val<'s>>,
        receiver: Option<Val<'s>>,
        at: Site,
    ) -> Val<'s> {
        let result = self.step(at, |machine| machine.invoke_now(function, args, receiver, at));
        result.unwrap_or_else(|| self.any(None, Why::Limit, at))
    }

    fn invoke_now(
        &mut self,
        function: &Rc<Fun<'s>>,
        args: Vec<Val<'s>>,
        receiver: Option<Val<'s>>,
        at: Site,
    ) -> Val<'s> {
        match &**function {
            Fun::Lambda { lambda, scope } => self.run_lambda(lambda, scope, args, receiver, at),
            Fun::Local { method, scope } => {
                let Some(body) = &method.body else { return Val::Void };
                if !self.enter(method, None, at) {
                    return self.any(None, Why::Recursion, at);
                }
                let own = &scope.frame;
                let frame = Frame::new(own.this.clone(), own.place.file, own.place.class);
                let inner = Scope::in_frame(scope, frame.clone());
                let args = args.into_iter().map(|val| ArgVal { name: None, val, site: at }).collect();
                self.bind(&method.params, args, &inner, at);
                let value = self.eval(self.world.body(own.place.file, body), &inner);
                self.leave();
                let ret = method.ret.as_ref().map(|ret| self.world.ty(ret, own.place));
                self.result(method.is_expression, value, &frame, ret, at)
            }
            Fun::Reference { target, name, scope } => {
                let mut args = args.into_iter();
                let rest = |args: std::vec::IntoIter<Val<'s>>| -> Vec<ArgVal<'s>> {
                    args.map(|val| ArgVal { name: None, val, site: at }).collect()
                };
                match target {
                    Some(Val::Type(ty)) if *name == "new" => {
                        let args = rest(args);
                        self.construct(ty.clone(), args, at)
                    }
                    Some(Val::Type(ty)) => {
                        // `X::f` is a static method, or one of the first argument.
                        let all: Vec<_> = rest(args.clone());
                        let class = ty.class();
                        let is_static = class
                            .is_some_and(|id| self.pick(id, name, &all).is_some_and(|(_, method)| method.is_static));
                        match args.next() {
                            Some(first) if !is_static && class.is_some() => {
                                let first = self.coerce(first, Some(ty.clone()), at);
                                let args = rest(args);
                                self.method(&first, name, args, at, scope)
                            }
                            _ => self.static_call(ty, Call::new(name, all, at, scope)),
                        }
                    }
                    Some(target) => {
                        let args = rest(args);
                        let through_this =
                            matches!((target, &scope.frame.this), (Val::Obj(a), Some(Val::Obj(b))) if a == b);
                        self.typed_method(target, Call::new(name, args, at, scope).proxied(!through_this))
                    }
                    None => {
                        let args: Vec<_> = rest(args);
                        // Kotlin's `::f`: a function here or an extension of the first argument.
                        let mut functions = self.world.functions(name, scope.frame.place).into_iter();
                        let extension = functions.find(|(_, function)| function.receiver.is_some());
                        match (extension, args.split_first()) {
                            (Some((file, function)), Some((first, rest))) => {
                                self.run_function(file, function, Some(first.val.clone()), rest.to_vec(), at)
                            }
                            _ => self.plain_call(Call::new(name, args, at, scope)),
                        }
                    }
                }
            }
        }
    }

    fn run_lambda(
        &mut self,
        lambda: &'s Lambda<'s>,
        scope: &Rc<Scope<'s>>,
        args: Vec<Val<'s>>,
        receiver: Option<Val<'s>>,
        at: Site,
    ) -> Val<'s> {
        // A lambda may be called from itself, through a field or a helper.
        let key = (std::ptr::from_ref(lambda).cast::<Method<'s>>(), None);
        if self.stack.iter().filter(|known| **known == key).count() > 1 || self.stack.len() >= super::CALLS_MAX {
            return self.any(None, Why::Recursion, at);
        }
        self.stack.push(key);
        let is_block = matches!(lambda.body.kind, ExprKind::Block(_));
        let own = &scope.frame;
        // In Java, and in Kotlin's `fun(..)`, `return` leaves the lambda; in Kotlin's `{ }` the function around it.
        let frame =
            if lambda.own_return { Frame::new(own.this.clone(), own.place.file, own.place.class) } else { own.clone() };
        let inner = if Rc::ptr_eq(&frame, own) {
            Scope::with_receiver(scope, receiver)
        } else {
            Scope::in_frame(scope, frame.clone())
        };
        if lambda.implicit_it {
            if let Some(it) = args.into_iter().next() {
                inner.declare("it", it, self.branches);
            }
        } else {
            let mut args = args.into_iter();
            for param in &lambda.params {
                let declared = param.ty.as_ref().map(|ty| self.world.ty(ty, own.place));
                let value = match args.next() {
                    Some(value) => self.coerce(value, declared, at),
                    None => self.any(declared, Why::Library, site(own.place.file, lambda.at)),
                };
                self.declare(&param.names, value, &inner, at);
            }
        }
        self.lambda_returns.push(Vec::new());
        let value = match &lambda.body.kind {
            // The block's names are those of the lambda.
            ExprKind::Block(statements) => self.block(statements, &inner),
            _ => self.eval(&lambda.body, &inner),
        };
        let mut values = self.lambda_returns.pop().unwrap_or_default();
        self.stack.pop();
        if !Rc::ptr_eq(&frame, own) {
            values.extend(std::mem::take(&mut *frame.returns.borrow_mut()));
            if self.flow == Flow::Returned {
                self.flow = Flow::On;
            }
        }
        if self.flow == Flow::On && (!lambda.own_return || !is_block) {
            values.push(value);
        }
        if self.flow == Flow::Jumped {
            self.flow = Flow::On;
        }
        self.join(values)
    }

    /// Calls a function that a library got as an argument, once, with values that are not known.
    pub(crate) fn run_argument(&mut self, arg: &ArgVal<'s>, at: Site) -> Val<'s> {
        match self.force(&arg.val) {
            Val::Fun(function) => {
                let flow = self.flow;
                let value = self.branch(|machine| machine.invoke(&function, Vec::new(), None, at));
                self.flow = flow;
                value
            }
            // An object of an anonymous class or of a project's own implementation of a library's interface.
            Val::Obj(id) => match self.functional_method(id) {
                Some((owner, method)) => {
                    let flow = self.flow;
                    let value = self
                        .branch(|machine| machine.run_method(owner, method, Some(Val::Obj(id)), Vec::new(), at, true));
                    self.flow = flow;
                    value
                }
                None => Val::Void,
            },
            _ => Val::Void,
        }
    }

    /// The one method of an object that a library would call: of an anonymous class, or under a functional name.
    fn functional_method(&mut self, id: ObjId) -> Option<(ClassId, &'s Method<'s>)> {
        let class = self.obj_class(id)?;
        let info = self.world.class(class);
        if info.kind != ClassKind::Anonymous {
            let implements_library = !self.world.library_supers(class).is_empty();
            let method = info
                .methods
                .iter()
                .find(|method| matches!(method.name, "run" | "call" | "get" | "doInTransaction" | "doWithRetry"));
            return method.filter(|_| implements_library).map(|method| (class, method));
        }
        match info.methods.as_slice() {
            [method] => Some((class, method)),
            _ => None,
        }
    }

    /// A call into a library: what it is given to run, it runs.
    pub(crate) fn unknown_call(&mut self, target: &Val<'s>, call: Call<'s>) -> Val<'s> {
        let mut results = Vec::new();
        let around = statics::around_call(self, target, call.name, &call.args, call.at);
        let pushed = around.is_some();
        self.around.extend(around);
        let mut fresh = false;
        for arg in &call.args {
            let arg_value = self.force(&arg.val);
            fresh |= matches!(&arg_value, Val::Any(any) if any.why == Why::Fresh);
            if matches!(arg_value, Val::Fun(_) | Val::Obj(_)) {
                let result = self.run_argument(arg, call.at);
                if !matches!(result, Val::Void) && matches!(arg_value, Val::Fun(_)) {
                    results.push(result);
                }
            }
        }
        if pushed {
            self.around.pop();
        }
        if let Val::Any(any) = target {
            fresh |= any.why == Why::Fresh;
        }
        if let (Some(result), true) = (results.into_iter().next(), statics::gives_back(call.name)) {
            return result;
        }
        let ty = statics::result_type(call.name);
        self.any(ty, if fresh { Why::Fresh } else { Why::Library }, call.at)
    }

    /// A Kotlin extension function of the project.
    fn extension(&mut self, target: &Val<'s>, call: &Call<'s>) -> Option<Val<'s>> {
        let functions = self.world.functions(call.name, call.scope.frame.place);
        let own = self.type_of(target);
        let found = functions.into_iter().find(|(file, function)| {
            let Some(receiver) = &function.receiver else { return false };
            let place = Place { file: *file, class: None };
            let receiver = self.world.ty(receiver, place);
            match (&receiver.base, own.as_ref().map(|ty| ty.base)) {
                (Base::Class(wanted), Some(Base::Class(own))) => self.world.is_subclass(own, *wanted),
                (Base::Library { name: wanted, .. }, Some(Base::Library { name: own, .. })) => {
                    // Extensions of a supertype (`Iterable`, `Collection`) also apply.
                    *wanted == own || collection::container(&receiver).is_some() == collection::is_container(own)
                }
                (Base::Class(_), Some(Base::Library { .. })) => false,
                _ => true,
            }
        });
        // An extension declared in the class that runs.
        let Some((file, function)) = found else {
            let class = call.scope.frame.place.class?;
            let member = self.world.methods(class, call.name).into_iter().find(|(_, method)| method.receiver.is_some());
            let (owner, method) = member?;
            return Some(self.run_member_extension(owner, method, target, call.args.clone(), call.at, &call.scope));
        };
        Some(self.run_function(file, function, Some(target.clone()), call.args.to_vec(), call.at))
    }

    fn run_member_extension(
        &mut self,
        owner: ClassId,
        method: &'s Method<'s>,
        target: &Val<'s>,
        args: Vec<ArgVal<'s>>,
        at: Site,
        scope: &Rc<Scope<'s>>,
    ) -> Val<'s> {
        let Some(body) = &method.body else { return Val::Void };
        if !self.enter(method, None, at) {
            return self.any(None, Why::Recursion, at);
        }
        let this = self.this_for(owner, scope, at);
        let file = self.world.info(owner).file;
        let frame = Frame::new(Some(this), file, Some(owner));
        let inner = Scope::with_receiver(&Scope::top(frame.clone()), Some(target.clone()));
        self.bind(&method.params, args, &inner, at);
        self.path.push(PathStep { method: method.name.to_owned(), span: self.span(at) });
        let value = self.eval(self.world.body(file, body), &inner);
        self.path.pop();
        self.leave();
        let ret = method.ret.as_ref().map(|ret| self.world.ty(ret, self.world.place(owner)));
        self.result(method.is_expression, value, &frame, ret, at)
    }

    // ---- construction

    pub(crate) fn new_object(
        &mut self,
        ty: &'s Type<'s>,
        args: &'s [Arg<'s>],
        body: Option<&'s Class<'s>>,
        scope: &Rc<Scope<'s>>,
        at: Site,
    ) -> Val<'s> {
        let args = self.args(args, scope);
        match body {
            Some(class) => self.anonymous(class, args, scope, at),
            None => {
                let ty = self.world.ty(ty, scope.frame.place);
                self.construct(ty, args, at)
            }
        }
    }

    pub(crate) fn anonymous(
        &mut self,
        class: &'s Class<'s>,
        args: Vec<ArgVal<'s>>,
        scope: &Rc<Scope<'s>>,
        at: Site,
    ) -> Val<'s> {
        let id = self.world.register(class, scope.frame.place.file, scope.frame.place.class);
        let object = self.make(Ty::of(Base::Class(id)), Origin::New, at, args.clone());
        self.obj_mut(object, |obj| obj.scope = Some(scope.clone()));
        let args = match class.supers.first().and_then(|sup| sup.args.as_ref()) {
            Some(given) => self.args(given, scope),
            None => args,
        };
        self.run_super(object, id, args, at);
        for init in &class.inits {
            let frame = Frame::new(Some(Val::Obj(object)), scope.frame.place.file, Some(id));
            let inner = Scope::in_frame(scope, frame);
            self.eval(init, &inner);
        }
        Val::Obj(object)
    }

    /// `new X(..)`, or Kotlin's `X(..)`.
    pub(crate) fn construct(&mut self, ty: Ty<'s>, args: Vec<ArgVal<'s>>, at: Site) -> Val<'s> {
        let Some(class) = ty.class() else {
            return self.library_object(ty, args, at);
        };
        let object = self.make(ty, Origin::New, at, args.clone());
        self.run_constructor(object, class, args, at, 0);
        Val::Obj(object)
    }

    pub(crate) fn run_constructor(
        &mut self,
        object: ObjId,
        class: ClassId,
        args: Vec<ArgVal<'s>>,
        at: Site,
        depth: u32,
    ) {
        let info = self.world.info(class);
        let constructor = info.class.constructors.iter().filter(|constructor| {
            let required = constructor.params.iter().filter(|p| p.default.is_none() && !p.vararg).count();
            let vararg = constructor.params.iter().any(|p| p.vararg);
            required <= args.len() && (vararg || args.len() <= constructor.params.len())
        });
        let constructor = constructor.min_by_key(|constructor| constructor.params.len());
        match constructor {
            Some(constructor) => self.constructor_body(object, class, constructor, args, at, depth),
            None => {
                // Lombok's constructors: of all fields, or of those that must be set.
                let fields: Vec<_> = info.class.fields.iter().filter(|field| !field.is_static).collect();
                let required: Vec<_> =
                    fields.iter().copied().filter(|field| field.is_final && field.value.is_none()).collect();
                let chosen = if args.len() == fields.len() { fields } else { required };
                if chosen.len() == args.len() {
                    for (field, arg) in chosen.into_iter().zip(&args) {
                        self.set_field(object, field.name, arg.val.clone());
                    }
                } else {
                    self.run_super(object, class, Vec::new(), at);
                }
            }
        }
    }

    pub(crate) fn constructor_body(
        &mut self,
        object: ObjId,
        class: ClassId,
        constructor: &'s Constructor<'s>,
        args: Vec<ArgVal<'s>>,
        at: Site,
        depth: u32,
    ) {
        let key = (std::ptr::from_ref(constructor).cast::<Method<'s>>(), None);
        if self.stack.iter().filter(|known| **known == key).count() > 1 {
            return;
        }
        self.stack.push(key);
        let info = self.world.info(class);
        let frame = Frame::new(Some(Val::Obj(object)), info.file, Some(class));
        let captured = self.obj(object, |obj| obj.scope.clone());
        let scope = match captured {
            Some(captured) => Scope::in_frame(&captured, frame.clone()),
            None => Scope::top(frame.clone()),
        };
        self.bind(&constructor.params, args, &scope, at);
        if constructor.primary {
            // Initial values of fields may use the parameters.
            self.obj_mut(object, |obj| obj.init_scopes.push((class, scope.clone())));
        }
        if constructor.primary && info.class.kind != ClassKind::Record {
            self.primary_fields(object, class, constructor, &scope);
        }
        match &constructor.delegates {
            Some((true, args)) if depth < 4 => {
                let args = self.args(args, &scope);
                self.run_constructor(object, class, args, at, depth + 1);
            }
            Some((false, args)) => {
                let args = self.args(args, &scope);
                self.run_super(object, class, args, at);
            }
            _ => {
                // Kotlin's `: Base(args)`.
                let given = info.class.supers.iter().find_map(|sup| sup.args.as_ref());
                let args = given.map(|given| self.args(given, &scope)).unwrap_or_default();
                self.run_super(object, class, args, at);
            }
        }
        if constructor.primary && self.world.file(info.file).kotlin {
            for init in &info.class.inits {
                self.eval(init, &scope);
            }
        }
        if let Some(body) = &constructor.body {
            match &body.kind {
                ExprKind::Block(statements) => self.block(statements, &scope),
                _ => self.eval(body, &scope),
            };
            if self.flow == Flow::Returned {
                self.flow = Flow::On;
            }
        }
        if constructor.primary && info.class.kind == ClassKind::Record {
            self.primary_fields(object, class, constructor, &scope);
        }
        self.stack.pop();
    }

    fn primary_fields(
        &mut self,
        object: ObjId,
        class: ClassId,
        constructor: &'s Constructor<'s>,
        scope: &Rc<Scope<'s>>,
    ) {
        for param in &constructor.params {
            let is_field = self.world.class(class).fields.iter().any(|it| it.in_constructor && it.name == param.name);
            if let (true, Some(value)) = (is_field, scope.get(param.name)) {
                self.set_field(object, param.name, value);
            }
        }
    }

    /// The superclass's part of an object.
    fn run_super(&mut self, object: ObjId, class: ClassId, args: Vec<ArgVal<'s>>, at: Site) {
        let supers = self.world.supers(class);
        for sup in supers.iter() {
            match sup.base {
                Base::Class(sup) if self.world.class(sup).kind == ClassKind::Class && sup != class => {
                    // Beyond the limit the superclass's part stays as it is.
                    self.step(at, |machine| machine.run_constructor(object, sup, args, at, 0));
                    return;
                }
                _ => {}
            }
        }
        if supers.iter().any(|sup| matches!(sup.base, Base::Library { .. })) && !args.is_empty() {
            self.obj_mut(object, |obj| obj.super_args = args);
        }
    }
}

fn lower_first(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
