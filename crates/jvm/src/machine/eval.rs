//! Expressions and statements.

use std::rc::Rc;

use super::{Call, Flow, Frame, Fun, Machine, Scope, Val, Why, collection};
use crate::index::{Base, ClassId, Ty, site};
use crate::mongo::write::{Around, AroundKind};
use crate::span::{Range, Site};
use crate::tree::{Arm, Catch, ClassKind, Expr, ExprKind, Op, Try, Type};
use crate::value::{Operation, Value, compute};

impl<'s> Machine<'s> {
    pub(crate) fn eval(&mut self, expr: &'s Expr<'s>, scope: &Rc<Scope<'s>>) -> Val<'s> {
        let site = site(scope.frame.place.file, expr.at);
        let result = self.step(site, |machine| machine.eval_kind(expr, scope, site));
        result.unwrap_or_else(|| self.any(None, Why::Limit, site))
    }

    fn eval_kind(&mut self, expr: &'s Expr<'s>, scope: &Rc<Scope<'s>>, site: Site) -> Val<'s> {
        match &expr.kind {
            ExprKind::Int(number) => Val::Known(Value::Int(*number)),
            ExprKind::Float(number) => Val::Known(Value::Float(*number)),
            ExprKind::Bool(is) => Val::Known(Value::Bool(*is)),
            ExprKind::Null => Val::Known(Value::Null),
            ExprKind::Text(text) => Val::Known(Value::text(text)),
            ExprKind::Template(parts) => {
                let parts = parts.iter().map(|part| self.eval(part, scope)).collect();
                self.concat(parts, site)
            }
            ExprKind::Name(name) => self.name(name, scope, site),
            ExprKind::This => self.this(scope),
            ExprKind::Super => scope.frame.this.clone().unwrap_or(Val::Void),
            ExprKind::Select { target, name } => match self.as_type(target, scope) {
                Some(ty) => self.static_field(&ty, name, site),
                None => {
                    let target = self.eval(target, scope);
                    self.get(&target, name, site)
                }
            },
            ExprKind::Call { target, name, name_at, types, args } => {
                // A call's place is its name and what follows, not the chain in front of it.
                let at = Site { file: site.file, at: Range { start: name_at.start, end: site.at.end } };
                let place = scope.frame.place;
                let types = types.iter().map(|ty| self.world.ty(ty, place)).collect();
                let written = Call { types, ..Call::new(name, Vec::new(), at, scope) };
                self.call(target.as_deref(), args, written, scope)
            }
            ExprKind::Invoke { callee, args } => {
                let callee = self.eval(callee, scope);
                let args = self.args(args, scope);
                self.method(&callee, "invoke", args, site, scope)
            }
            ExprKind::New { ty, args, body } => self.new_object(ty, args, body.as_deref(), scope, site),
            ExprKind::Object(class) => self.anonymous(class, Vec::new(), scope, site),
            ExprKind::Lambda(lambda) => Val::Fun(Rc::new(Fun::Lambda { lambda, scope: scope.clone() })),
            ExprKind::MethodRef { target, name } => {
                // `X::f`, or of a value; a class reference evaluates to its class.
                let target = target.as_deref().map(|target| match self.as_type(target, scope) {
                    Some(ty) => Val::Type(ty),
                    None => self.eval(target, scope),
                });
                Val::Fun(Rc::new(Fun::Reference { target, name, scope: scope.clone() }))
            }
            ExprKind::ClassRef(ty) => Val::Type(self.world.ty(ty, scope.frame.place)),
            ExprKind::Binary { op, left, right } => self.binary(*op, left, right, scope, site),
            ExprKind::Not(inner) => match self.eval(inner, scope) {
                Val::Known(value) => Val::Known(compute(Operation::Not, vec![value])),
                _ => self.any(None, Why::Library, site),
            },
            ExprKind::Neg(inner) => match self.eval(inner, scope) {
                Val::Known(value) => Val::Known(compute(Operation::Subtract, vec![Value::Int(0), value])),
                other => other,
            },
            ExprKind::If { cond, then, other } => self.condition(cond, then, other.as_deref(), scope),
            ExprKind::Switch { subject, arms } => self.switch(subject.as_deref(), arms, scope),
            ExprKind::Try(parts) => self.try_block(parts, scope),
            ExprKind::Assign { target, op, value } => self.assign(target, *op, value, scope, site),
            ExprKind::Index { target, index } => {
                let target = self.eval(target, scope);
                let args = vec![super::ArgVal { name: None, site, val: self.eval(index, scope) }];
                self.method(&target, "get", args, site, scope)
            }
            ExprKind::List(items) => {
                let args = items.iter().map(|item| super::ArgVal {
                    name: None,
                    site: crate::index::site(scope.frame.place.file, item.at),
                    val: self.eval(item, scope),
                });
                let args = args.collect();
                self.new_list("List", args, site)
            }
            ExprKind::Annotation(_) | ExprKind::Other => self.any(None, Why::NotUnderstood, site),
            ExprKind::Block(statements) => {
                let inner = Scope::inner(scope);
                self.block(statements, &inner)
            }
            ExprKind::Return { value, from_lambda } => {
                let result = value.as_deref().map_or(Val::Void, |value| self.eval(value, scope));
                if self.flow == Flow::On {
                    if *from_lambda {
                        if let Some(returns) = self.lambda_returns.last_mut() {
                            returns.push(result);
                        }
                        self.flow = Flow::Jumped;
                    } else {
                        scope.frame.returns.borrow_mut().push(result);
                        self.flow = Flow::Returned;
                    }
                }
                Val::Void
            }
            ExprKind::Throw(value) => {
                self.eval(value, scope);
                self.flow = Flow::Thrown;
                Val::Void
            }
            ExprKind::ForEach { names, ty, over, body } => {
                let over_site = crate::index::site(scope.frame.place.file, over.at);
                let over = self.eval(over, scope);
                let declared = ty.as_ref().map(|ty| self.world.ty(ty, scope.frame.place));
                let (elem, records) = self.element(&over, over_site);
                let elem = self.coerce(elem, declared, site);
                self.in_loop(over_site, records, |machine| {
                    let inner = Scope::inner(scope);
                    machine.declare(names, elem, &inner, site);
                    machine.eval(body, &inner);
                });
                Val::Void
            }
            ExprKind::Loop { init, repeated } => {
                let inner = Scope::inner(scope);
                for part in init {
                    self.eval(part, &inner);
                }
                self.in_loop(site, false, |machine| {
                    machine.block(repeated, &inner);
                });
                Val::Void
            }
            ExprKind::Local { names, ty, value } => {
                let declared = ty.as_ref().map(|ty| self.world.ty(ty, scope.frame.place));
                let value = match value {
                    Some(value) => {
                        let value = self.eval(value, scope);
                        self.coerce(value, declared, site)
                    }
                    None => Val::Void,
                };
                self.declare(names, value, scope, site);
                Val::Void
            }
            ExprKind::LocalFunction(method) => {
                scope.declare(
                    method.name,
                    Val::Fun(Rc::new(Fun::Local { method, scope: scope.clone() })),
                    self.branches,
                );
                Val::Void
            }
            ExprKind::LocalClass(class) => {
                self.world.register(class, scope.frame.place.file, scope.frame.place.class);
                Val::Void
            }
            ExprKind::Cast { ty, value } => {
                let value = self.eval(value, scope);
                let ty = self.world.ty(ty, scope.frame.place);
                self.coerce(value, Some(ty), site)
            }
            ExprKind::Test(parts) => {
                for part in parts {
                    self.eval(part, scope);
                }
                self.any(Some(Ty::library("boolean")), Why::Library, site)
            }
            ExprKind::Jump => {
                self.flow = Flow::Jumped;
                Val::Void
            }
        }
    }

    pub(crate) fn block(&mut self, statements: &'s [Expr<'s>], scope: &Rc<Scope<'s>>) -> Val<'s> {
        let mut last = Val::Void;
        for statement in statements {
            last = self.eval(statement, scope);
            if self.flow != Flow::On {
                return Val::Void;
            }
        }
        last
    }

    /// Runs a loop's body once.
    pub(crate) fn in_loop(&mut self, over: Site, records: bool, run: impl FnOnce(&mut Self)) {
        let kind = AroundKind::Loop { over: self.short_text(over), records };
        self.around.push(Around { kind, span: self.span(over) });
        self.loops += 1;
        self.branches += 1;
        run(self);
        self.branches -= 1;
        self.loops -= 1;
        self.around.pop();
        // The loop may not run at all: what leaves it does not leave the method for sure.
        self.flow = Flow::On;
    }

    pub(crate) fn declare(&mut self, names: &[&'s str], value: Val<'s>, scope: &Rc<Scope<'s>>, site: Site) {
        if let [name] = names {
            scope.declare(name, value, self.branches);
            return;
        }
        for (at, name) in names.iter().enumerate() {
            let part = self.component(&value, at, site);
            scope.declare(name, part, self.branches);
        }
    }

    /// One part of a value that is taken apart: a data class's property, a map entry's key or value.
    fn component(&mut self, value: &Val<'s>, at: usize, site: Site) -> Val<'s> {
        let value = self.force(value);
        if let Some(class) = self.type_of(&value).and_then(|ty| ty.class()) {
            let field = self.world.class(class).fields.iter().filter(|field| field.in_constructor).nth(at);
            if let Some(field) = field {
                return self.get(&value, field.name, site);
            }
        }
        match &value {
            Val::Any(any) => {
                let ty = any.ty.as_ref().and_then(|ty| ty.args.get(at).cloned());
                self.any(ty, any.why, site)
            }
            Val::Many(_, elem) => (**elem).clone(),
            _ => self.any(None, Why::Library, site),
        }
    }

    /// Gives a value whose type is not known the declared one.
    pub(crate) fn coerce(&mut self, value: Val<'s>, declared: Option<Ty<'s>>, site: Site) -> Val<'s> {
        let Some(declared) = declared else { return value };
        if declared.lib().is_some_and(|name| name.len() < 2 || matches!(name, "Object" | "Any" | "Unit"))
            || matches!(declared.base, Base::Variable(_))
        {
            return value;
        }
        match &value {
            Val::Any(any)
                if any.ty.as_ref().is_none_or(|ty| ty.lib().is_some() || matches!(ty.base, Base::Variable(_))) =>
            {
                let keeps = any.ty.as_ref().is_some_and(|ty| ty.base == declared.base);
                if keeps { value } else { self.any(Some(declared), any.why, any.site) }
            }
            Val::Many(_, elem) if matches!(&**elem, Val::Any(any) if any.ty.is_none()) => {
                match (&**elem, collection::container(&declared)) {
                    (Val::Any(any), Some(_)) => self.any(Some(declared), any.why, any.site),
                    _ => value,
                }
            }
            // What a library's object gives, declared as a class of the sources.
            Val::Obj(id) if declared.class().is_some() && self.obj_class(*id).is_none() => {
                self.any(Some(declared), Why::Library, site)
            }
            Val::Void => self.any(Some(declared), Why::Library, site),
            Val::Known(Value::Property(property)) if property.ty.is_none() => {
                let mut property = property.clone();
                property.ty = Some(self.type_name(&declared).to_owned());
                Val::Known(Value::Property(property))
            }
            _ => value,
        }
    }

    pub(crate) fn this(&self, scope: &Rc<Scope<'s>>) -> Val<'s> {
        let mut at = Some(scope);
        while let Some(scope) = at {
            if let Some(receiver) = &scope.receiver {
                return receiver.clone();
            }
            at = scope.parent.as_ref().filter(|parent| Rc::ptr_eq(&parent.frame, &scope.frame));
        }
        scope.frame.this.clone().unwrap_or(Val::Void)
    }

    /// The instance of an enclosing class.
    pub(crate) fn this_for(&mut self, class: ClassId, scope: &Rc<Scope<'s>>, site: Site) -> Val<'s> {
        let mut frame = Some(scope.frame.clone());
        for _ in 0..16 {
            let Some(at) = frame else { break };
            if let Some(own) = at.place.class
                && self.world.is_subclass(own, class)
                && let Some(this) = &at.this
            {
                return this.clone();
            }
            frame = match &at.this {
                Some(Val::Obj(id)) => self.obj(*id, |obj| obj.scope.clone()).map(|scope| scope.frame.clone()),
                _ => None,
            };
        }
        match self.world.class(class).kind {
            ClassKind::Interface | ClassKind::Annotation => {
                self.any(Some(Ty::of(Base::Class(class))), Why::Parameter, site)
            }
            _ => Val::Obj(self.bean_object(class)),
        }
    }

    fn receivers(scope: &Rc<Scope<'s>>) -> Vec<Val<'s>> {
        let mut found = Vec::new();
        let mut at = Some(scope);
        while let Some(scope) = at {
            found.extend(scope.receiver.clone());
            at = scope.parent.as_ref();
        }
        found
    }

    fn name(&mut self, name: &'s str, scope: &Rc<Scope<'s>>, site: Site) -> Val<'s> {
        if let Some(value) = scope.get(name) {
            return self.force(&value);
        }
        let receivers = Self::receivers(scope);
        for receiver in &receivers {
            if let Some(class) = self.type_of(receiver).and_then(|ty| ty.class())
                && self.world.field(class, name).is_some()
            {
                return self.get(receiver, name, site);
            }
        }
        let mut class = scope.frame.place.class;
        while let Some(id) = class {
            if self.world.field(id, name).is_some() || self.world.companion(id).is_some() {
                let is_static = self.world.field(id, name).is_some_and(|(_, field)| field.is_static);
                if is_static || self.world.field(id, name).is_none() {
                    if let Some(value) = self.declared_static(id, name, site) {
                        return value;
                    }
                } else {
                    let this = self.this_for(id, scope, site);
                    return self.get(&this, name, site);
                }
            }
            if self.world.class(id).constants.iter().any(|constant| constant.name == name) {
                return self.static_field(&Ty::of(Base::Class(id)), name, site);
            }
            class = self.world.info(id).outer;
        }
        for (owner, path) in self.world.static_import(name, scope.frame.place.file) {
            match owner {
                Some(owner) => {
                    if let Some(value) = self.declared_static(owner, name, site) {
                        return value;
                    }
                }
                None if !name.starts_with(char::is_lowercase) && self.imports_statically(name, scope) => {
                    return self.static_field(&Ty::library(crate::tree::last_part(path)), name, site);
                }
                None => {}
            }
        }
        if let Some((file, field)) = self.world.top_field(name, scope.frame.place) {
            let frame = Frame::new(None, file, None);
            let key = std::ptr::from_ref(field);
            if let Some(known) = self.statics.borrow().get(&key) {
                return known.clone();
            }
            let value = field.getter.as_ref().or(field.value.as_ref());
            let value = match value {
                Some(value) => self.eval(value, &Scope::top(frame)),
                None => self.any(None, Why::Unset, site),
            };
            self.statics.borrow_mut().insert(key, value.clone());
            return value;
        }
        if name.starts_with(char::is_uppercase) {
            let base = self.world.base(name, scope.frame.place);
            if let Base::Class(id) = base
                && self.world.class(id).kind == ClassKind::Object
            {
                return Val::Obj(self.bean_object(id));
            }
            return Val::Type(Ty::of(base));
        }
        // A property of a library's object that the block is about, as in `apply { containerProperties }`.
        for receiver in &receivers {
            if let Val::Obj(_) = receiver {
                return self.get(receiver, name, site);
            }
        }
        if let Some(Val::Obj(id)) = &scope.frame.this
            && self.obj_class(*id).is_some_and(|class| !self.world.library_supers(class).is_empty())
            && self.world.file(scope.frame.place.file).kotlin
        {
            return self.part(*id, name, site);
        }
        self.any(None, Why::NotUnderstood, site)
    }

    fn imports_statically(&self, name: &str, scope: &Rc<Scope<'s>>) -> bool {
        let imports = &self.world.tree(scope.frame.place.file).imports;
        imports.iter().any(|import| !import.star && import.name == name)
    }

    /// The type that an expression names, if it names one and not a value.
    pub(crate) fn as_type(&mut self, expr: &'s Expr<'s>, scope: &Rc<Scope<'s>>) -> Option<Ty<'s>> {
        match &expr.kind {
            ExprKind::Name(name) => {
                if !name.starts_with(char::is_uppercase) || scope.get(name).is_some() {
                    return None;
                }
                let mut class = scope.frame.place.class;
                while let Some(id) = class {
                    let own = self.world.class(id);
                    if own.constants.iter().any(|it| it.name == *name) || self.world.field(id, name).is_some() {
                        return None;
                    }
                    if let Some(companion) = self.world.companion(id)
                        && self.world.field(companion, name).is_some()
                    {
                        return None;
                    }
                    class = self.world.info(id).outer;
                }
                let base = self.world.base(name, scope.frame.place);
                let is_constant =
                    name.len() > 1 && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
                match base {
                    Base::Class(id) if self.world.class(id).kind == ClassKind::Object => None,
                    Base::Library { path: None, .. } if is_constant => None,
                    Base::Library { .. } if self.world.top_field(name, scope.frame.place).is_some() => None,
                    base => Some(Ty::of(base)),
                }
            }
            ExprKind::Select { target, name } => {
                if !name.starts_with(char::is_uppercase) {
                    return None;
                }
                if let Some(path) = dotted(expr, scope.frame.place.file, self) {
                    if let Some(id) = self.world.class_at(path) {
                        return Some(Ty::of(Base::Class(id)));
                    }
                    let package = path.split('.').next().is_some_and(|part| part.starts_with(char::is_lowercase));
                    if package && scope.get(path.split('.').next().unwrap_or_default()).is_none() && is_package(path) {
                        return Some(Ty::of(Base::Library { name, path: Some(path) }));
                    }
                }
                let outer = self.as_type(target, scope)?;
                match outer.base {
                    Base::Class(outer) => {
                        let inner = self.world.nested_named(outer, name)?;
                        Some(Ty::of(Base::Class(inner)))
                    }
                    // `ContainerProperties.AckMode`, not `AckMode.MANUAL`.
                    Base::Library { .. } if name.chars().any(char::is_lowercase) => Some(Ty::library(name)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn binary(
        &mut self,
        op: Op,
        left: &'s Expr<'s>,
        right: &'s Expr<'s>,
        scope: &Rc<Scope<'s>>,
        site: Site,
    ) -> Val<'s> {
        let left = self.eval(left, scope);
        if op == Op::Elvis {
            if matches!(&left, Val::Known(value) if value.is_known() && *value != Value::Null) {
                return left;
            }
            let right = self.conditionally(|machine| machine.eval(right, scope));
            self.flow = Flow::On;
            return match (&left, &right) {
                (Val::Known(left), Val::Known(right)) => {
                    Val::Known(compute(Operation::OrElse, vec![left.clone(), right.clone()]))
                }
                // `x ?: return` and `x ?: throw ..`: x it is. A plain default of an unknown value says less than the value.
                (Val::Any(_) | Val::Obj(_), _) | (_, Val::Void) => left,
                _ => self.join(vec![left, right]),
            };
        }
        let right = self.eval(right, scope);
        if op == Op::Add && (is_text(&left) || is_text(&right)) {
            return self.concat(vec![left, right], site);
        }
        let operation = match op {
            Op::Add => Operation::Add,
            Op::Sub => Operation::Subtract,
            Op::Mul => Operation::Multiply,
            Op::Div => Operation::Divide,
            Op::Rem => Operation::Remainder,
            Op::And => Operation::And,
            Op::Or => Operation::Or,
            Op::Eq | Op::Ne => Operation::Equal,
            Op::Lt | Op::Ge | Op::Gt | Op::Le => Operation::Less,
            Op::Shl | Op::Shr | Op::Elvis | Op::Other => Operation::ToText,
        };
        match (left, right) {
            (Val::Known(left), Val::Known(right)) => Val::Known(match op {
                Op::Ne => compute(Operation::Not, vec![compute(operation, vec![left, right])]),
                Op::Gt => compute(operation, vec![right, left]),
                Op::Ge => compute(Operation::Not, vec![compute(operation, vec![left, right])]),
                Op::Le => compute(Operation::Not, vec![compute(operation, vec![right, left])]),
                Op::Shl => {
                    shift(&left, &right, i64::checked_shl).unwrap_or_else(|| self.unknown(site, Why::NotUnderstood))
                }
                Op::Shr => {
                    shift(&left, &right, i64::checked_shr).unwrap_or_else(|| self.unknown(site, Why::NotUnderstood))
                }
                Op::Elvis | Op::Other => self.unknown(site, Why::NotUnderstood),
                _ => compute(operation, vec![left, right]),
            }),
            // A list and something more.
            (Val::Obj(list), right) if op == Op::Add => {
                let arg = super::ArgVal { name: None, val: right, site };
                self.log(list, "plus", vec![arg], site);
                Val::Obj(list)
            }
            (Val::Any(any), _) | (_, Val::Any(any)) => self.any(None, any.why, site),
            _ => self.any(None, Why::Library, site),
        }
    }

    pub(crate) fn concat(&mut self, parts: Vec<Val<'s>>, site: Site) -> Val<'s> {
        let text = Some(Ty::library("String"));
        let mut known = Vec::new();
        let mut why = None;
        for part in parts {
            match self.force(&part) {
                Val::Known(value) => known.push(value),
                Val::Any(any) if any.why == Why::Fresh => return self.any(text, Why::Fresh, site),
                Val::Any(any) => why = why.or(Some(any.why)),
                Val::Type(ty) => known.push(Value::text(self.type_name(&ty))),
                _ => why = why.or(Some(Why::Library)),
            }
        }
        match why {
            Some(why) => self.any(text, why, site),
            None => Val::Known(compute(Operation::Concat, known)),
        }
    }

    /// Runs something that may not run, or more than once, for a reason that is none of the code's conditions.
    pub(crate) fn branch<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        self.branches += 1;
        let result = run(self);
        self.branches -= 1;
        result
    }

    /// Runs something that runs only if a condition holds.
    pub(crate) fn conditionally<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        self.conditions += 1;
        let result = self.branch(run);
        self.conditions -= 1;
        result
    }

    fn condition(
        &mut self,
        cond: &'s Expr<'s>,
        then: &'s Expr<'s>,
        other: Option<&'s Expr<'s>>,
        scope: &Rc<Scope<'s>>,
    ) -> Val<'s> {
        let cond = self.eval(cond, scope);
        if self.flow != Flow::On {
            return Val::Void;
        }
        if let Val::Known(Value::Bool(is)) = cond {
            return match (is, other) {
                (true, _) => self.eval(then, scope),
                (false, Some(other)) => self.eval(other, scope),
                (false, None) => Val::Void,
            };
        }
        let yes = self.conditionally(|machine| machine.eval(then, scope));
        let yes_flow = std::mem::replace(&mut self.flow, Flow::On);
        let no = other.map_or(Val::Void, |other| self.conditionally(|machine| machine.eval(other, scope)));
        let no_flow = if other.is_some() { std::mem::replace(&mut self.flow, Flow::On) } else { Flow::On };
        if yes_flow != Flow::On && no_flow != Flow::On {
            self.flow = if yes_flow == no_flow { yes_flow } else { Flow::Returned };
            return Val::Void;
        }
        match (cond, yes, no) {
            (Val::Known(cond), Val::Known(yes), Val::Known(no)) if !matches!(cond, Value::Unknown(_)) => {
                Val::Known(compute(Operation::Choose, vec![cond, yes, no]))
            }
            (_, yes, no) => self.join(vec![yes, no]),
        }
    }

    fn switch(&mut self, subject: Option<&'s Expr<'s>>, arms: &'s [Arm<'s>], scope: &Rc<Scope<'s>>) -> Val<'s> {
        let subject = subject.map(|subject| self.eval(subject, scope));
        if let Some(Val::Known(subject)) = &subject
            && subject.is_known()
        {
            for arm in arms {
                let mut matches = arm.conditions.is_empty();
                for condition in &arm.conditions {
                    // Java names an enum's constant without its class.
                    matches |= match (&condition.kind, subject) {
                        (ExprKind::Name(label), Value::Constant { name, .. }) if **name == **label => true,
                        _ => matches!(self.eval(condition, scope), Val::Known(value) if value == *subject),
                    };
                }
                if matches && !arm.falls_through {
                    return self.eval(&arm.body, scope);
                }
            }
        }
        let mut values = Vec::new();
        let mut default = false;
        let mut leaves = true;
        for arm in arms {
            default |= arm.conditions.is_empty();
            let value = self.conditionally(|machine| {
                for condition in &arm.conditions {
                    if !matches!(condition.kind, ExprKind::Name(_)) {
                        machine.eval(condition, scope);
                    }
                }
                machine.eval(&arm.body, scope)
            });
            let flow = std::mem::replace(&mut self.flow, Flow::On);
            leaves &= matches!(flow, Flow::Returned | Flow::Thrown);
            values.push(value);
        }
        if leaves && default {
            self.flow = Flow::Returned;
        }
        self.join(values)
    }

    fn try_block(&mut self, parts: &'s Try<'s>, scope: &Rc<Scope<'s>>) -> Val<'s> {
        let file = scope.frame.place.file;
        let inner = Scope::inner(scope);
        for resource in &parts.resources {
            self.eval(resource, &inner);
        }
        let mut swallowing = 0;
        for catch in &parts.catches {
            if let Some(around) = self.swallow(catch, scope) {
                self.around.push(Around { kind: around, span: self.span(site(file, catch.at)) });
                swallowing += 1;
            }
        }
        let mut values = vec![self.eval(&parts.body, &inner)];
        for _ in 0..swallowing {
            self.around.pop();
        }
        let body_flow = std::mem::replace(&mut self.flow, Flow::On);
        let mut leaves = body_flow != Flow::On;
        for catch in &parts.catches {
            let value = self.conditionally(|machine| {
                let inner = Scope::inner(scope);
                let ty = catch.types.first().map(|ty| machine.world.ty(ty, scope.frame.place));
                let caught = machine.any(ty, Why::Library, site(file, catch.at));
                inner.declare(catch.name, caught, machine.branches);
                machine.eval(&catch.body, &inner)
            });
            leaves &= self.flow != Flow::On;
            self.flow = Flow::On;
            values.push(value);
        }
        if let Some(finally) = &parts.finally {
            self.eval(finally, scope);
        }
        if leaves && self.flow == Flow::On {
            self.flow = body_flow;
        }
        // What the body gives is the value; a catch's value stands in only where the body has none.
        match values.first() {
            Some(Val::Void) | None => self.join(values),
            _ if parts.catches.is_empty() => values.remove(0),
            _ => self.join(values),
        }
    }

    /// What a `catch` keeps from the error handler, if it keeps a failed write from it.
    fn swallow(&mut self, catch: &'s Catch<'s>, scope: &Rc<Scope<'s>>) -> Option<AroundKind> {
        let mut exceptions = Vec::new();
        let mut all = false;
        for ty in &catch.types {
            let caught = self.catches(ty, scope)?;
            all |= caught;
            exceptions.push(crate::tree::last_part(ty.name).to_owned());
        }
        let throws = throws(&catch.body, 0);
        (throws != Throws::Always && !exceptions.is_empty()).then_some(AroundKind::Swallow {
            exceptions,
            all_failures: all,
            certain: throws == Throws::Never,
        })
    }

    /// Whether an exception class covers every failed write (`true`), some of them (`false`), or none (`None`).
    fn catches(&mut self, ty: &Type<'s>, scope: &Rc<Scope<'s>>) -> Option<bool> {
        let resolved = self.world.ty(ty, scope.frame.place);
        let Some(name) = resolved.lib() else {
            // A class of the project: some failure that the project translates.
            return Some(false);
        };
        match name {
            "Exception"
            | "Throwable"
            | "RuntimeException"
            | "NestedRuntimeException"
            | "DataAccessException"
            | "MongoException" => Some(true),
            _ if name.starts_with("Mongo")
                || name.contains("DataAccess")
                || name.contains("DataIntegrity")
                || name.contains("DuplicateKey")
                || name.contains("OptimisticLock")
                || name.contains("BulkOperation")
                || name.contains("BulkWrite") =>
            {
                Some(false)
            }
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Throws {
    Never,
    Sometimes,
    Always,
}

/// Whether a block throws, or asks the container for the record again.
fn throws(expr: &Expr<'_>, depth: u32) -> Throws {
    if depth > 60 {
        return Throws::Sometimes;
    }
    let next = depth + 1;
    match &expr.kind {
        ExprKind::Throw(_) => Throws::Always,
        ExprKind::Block(parts) => {
            let mut result = Throws::Never;
            for part in parts {
                match throws(part, next) {
                    Throws::Always => return if result == Throws::Never { Throws::Always } else { Throws::Sometimes },
                    Throws::Sometimes => result = Throws::Sometimes,
                    Throws::Never => {}
                }
                // What stands behind an unconditional return does not run.
                if matches!(part.kind, ExprKind::Return { .. }) {
                    break;
                }
            }
            result
        }
        ExprKind::If { then, other, .. } => {
            let other = other.as_deref().map_or(Throws::Never, |other| throws(other, next));
            match (throws(then, next), other) {
                (Throws::Always, Throws::Always) => Throws::Always,
                (Throws::Never, Throws::Never) => Throws::Never,
                _ => Throws::Sometimes,
            }
        }
        ExprKind::Switch { arms, .. } => {
            if arms.iter().any(|arm| throws(&arm.body, next) != Throws::Never) {
                Throws::Sometimes
            } else {
                Throws::Never
            }
        }
        ExprKind::Try(parts) => match (throws(&parts.body, next), parts.catches.is_empty()) {
            (Throws::Never, _) => Throws::Never,
            (other, true) => other,
            _ => Throws::Sometimes,
        },
        ExprKind::ForEach { body, .. } => match throws(body, next) {
            Throws::Never => Throws::Never,
            _ => Throws::Sometimes,
        },
        ExprKind::Return { value: Some(value), .. } => throws(value, next),
        ExprKind::Call { target, name, .. } => match *name {
            // Kotlin's `error(..)`, Spring's `ack.nack(..)`, Reactor's `Mono.error(..)`.
            "nack" | "rethrow" | "sneakyThrow" | "rethrowRuntimeException" => Throws::Always,
            "error" if target.is_none() => Throws::Always,
            "error" => match target.as_deref().map(|target| &target.kind) {
                Some(ExprKind::Name("Mono" | "Flux")) => Throws::Always,
                _ => Throws::Never,
            },
            _ => Throws::Never,
        },
        _ => Throws::Never,
    }
}

fn is_text(value: &Val<'_>) -> bool {
    match value {
        Val::Known(Value::Text(_) | Value::Compute { op: Operation::Concat, .. }) => true,
        Val::Known(Value::Property(property)) => matches!(property.ty.as_deref(), None | Some("String")),
        Val::Any(any) => any.ty.as_ref().is_some_and(|ty| matches!(ty.lib(), Some("String" | "UUID"))),
        _ => false,
    }
}

fn shift(left: &Value, right: &Value, by: impl Fn(i64, u32) -> Option<i64>) -> Option<Value> {
    by(left.as_i64()?, u32::try_from(right.as_i64()?).ok()?).map(Value::Int)
}

/// The text of `a.b.C`, where it is nothing but names and dots.
fn dotted<'s>(expr: &'s Expr<'s>, file: u32, machine: &Machine<'s>) -> Option<&'s str> {
    let mut at = expr;
    while let ExprKind::Select { target, .. } = &at.kind {
        at = target;
    }
    if !matches!(at.kind, ExprKind::Name(_)) {
        return None;
    }
    let text = machine.world.text(site(file, expr.at));
    (!text.contains(char::is_whitespace) && !text.contains('?')).then_some(text)
}

/// `a.b.C`: all but the last part begin in lower case.
fn is_package(path: &str) -> bool {
    let mut parts: Vec<_> = path.split('.').collect();
    parts.pop();
    parts.len() > 1 && parts.iter().all(|part| part.starts_with(char::is_lowercase))
}
