//! Assignments, reading and writing of fields.

use std::rc::Rc;

use super::object::getter_property;
use super::{ArgVal, Frame, Machine, ObjId, Origin, Scope, Val, Why, statics};
use crate::index::{Base, ClassId, Ty, site};
use crate::span::Site;
use crate::tree::{ClassKind, Expr, ExprKind, Field, Op};
use crate::value::{Operation, Value, compute};

impl<'s> Machine<'s> {
    pub(crate) fn assign(
        &mut self,
        target: &'s Expr<'s>,
        op: Option<Op>,
        value: &'s Expr<'s>,
        scope: &Rc<Scope<'s>>,
        at: Site,
    ) -> Val<'s> {
        let value_site = site(scope.frame.place.file, value.at);
        let mut value = self.eval(value, scope);
        if let Some(op) = op {
            let before = self.eval(target, scope);
            value = match (&before, &value) {
                // `list += item`
                (Val::Obj(list), _) => {
                    let arg = ArgVal { name: None, val: value, site: value_site };
                    self.log(*list, "add", vec![arg], at);
                    return before;
                }
                (Val::Known(left), Val::Known(right)) if self.loops == 0 => {
                    let operation = match op {
                        Op::Add => Operation::Add,
                        Op::Sub => Operation::Subtract,
                        Op::Mul => Operation::Multiply,
                        Op::Div => Operation::Divide,
                        Op::Rem => Operation::Remainder,
                        _ => return self.any(None, Why::NotUnderstood, at),
                    };
                    Val::Known(compute(operation, vec![left.clone(), right.clone()]))
                }
                _ => self.any(None, Why::Library, at),
            };
        }
        match &target.kind {
            ExprKind::Name(name) => self.assign_name(name, value.clone(), scope, at, value_site),
            ExprKind::Select { target: owner, name } if self.as_type(owner, scope).is_none() => {
                let owner = self.eval(owner, scope);
                self.set(&owner, name, value.clone(), at, value_site);
            }
            ExprKind::Index { target, index } => {
                let map = self.eval(target, scope);
                let key_site = site(scope.frame.place.file, index.at);
                let key = self.eval(index, scope);
                if let Val::Obj(map) = map {
                    let key = ArgVal { name: None, val: key, site: key_site };
                    let arg = ArgVal { name: None, val: value.clone(), site: value_site };
                    self.log(map, "put", vec![key, arg], at);
                }
            }
            _ => {}
        }
        value
    }

    fn assign_name(&mut self, name: &'s str, value: Val<'s>, scope: &Rc<Scope<'s>>, at: Site, value_site: Site) {
        let branches = self.branches;
        // Kotlin's `apply { maxInterval = 1 }`: what the block is about comes before parameters of the same name.
        let mut block = Some(scope);
        while let Some(inner) = block {
            if let Some(receiver) = &inner.receiver {
                match receiver {
                    Val::Obj(id) if self.obj_class(*id).is_none() => {
                        self.set(&receiver.clone(), name, value, at, value_site);
                        return;
                    }
                    other => {
                        let class = self.type_of(other).and_then(|ty| ty.class());
                        if class.is_some_and(|class| self.world.field(class, name).is_some()) {
                            self.set(&receiver.clone(), name, value, at, value_site);
                            return;
                        }
                    }
                }
            }
            block = inner.parent.as_ref();
        }
        if scope.assign(name, value.clone(), branches, |values| self.join(values)) {
            return;
        }
        let mut class = scope.frame.place.class;
        while let Some(id) = class {
            if self.world.field(id, name).is_some() {
                let this = self.this_for(id, scope, at);
                if let Val::Obj(object) = this
                    && let Some((_, field)) = self.world.field(id, name)
                {
                    self.set_field(object, field.name, value);
                }
                return;
            }
            class = self.world.info(id).outer;
        }
        // A property of the library's superclass.
        if let Some(this @ Val::Obj(_)) = scope.frame.this.clone() {
            self.set(&this, name, value, at, value_site);
        }
    }

    /// `target.name = value`.
    fn set(&mut self, target: &Val<'s>, name: &'s str, value: Val<'s>, at: Site, value_site: Site) {
        let target = self.force(target);
        match &target {
            Val::OneOf(parts) => {
                for part in parts.iter() {
                    self.branch(|machine| machine.set(part, name, value.clone(), at, value_site));
                }
            }
            Val::Obj(id) => {
                let class = self.obj_class(*id);
                if let Some((_, field)) = class.and_then(|class| self.world.field(class, name)) {
                    self.set_field(*id, field.name, value);
                    return;
                }
                // Kotlin's `isBatch` is Java's `setBatch`.
                let plain = name.strip_prefix("is").filter(|rest| rest.starts_with(char::is_uppercase));
                let mut chars = plain.unwrap_or(name).chars();
                let capital: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
                let arg = ArgVal { name: None, val: value, site: value_site };
                self.log(*id, format!("set{capital}"), vec![arg], at);
            }
            _ => {}
        }
    }

    pub(crate) fn set_field(&mut self, id: ObjId, name: &'s str, value: Val<'s>) {
        let before = self.obj(id, |obj| obj.fields.get(name).cloned());
        // A field that is set only under a condition may keep what it had.
        let value = match before {
            Some(before) if self.branches > 0 && !matches!(before, Val::Void) => self.join(vec![before, value]),
            _ => value,
        };
        self.obj_mut(id, |obj| obj.fields.insert(name, value));
    }

    /// `target.name`, as a property or a field.
    pub(crate) fn get(&mut self, target: &Val<'s>, name: &'s str, at: Site) -> Val<'s> {
        let result = self.step(at, |machine| {
            let target = machine.force(target);
            machine.get_now(&target, name, at)
        });
        result.unwrap_or_else(|| self.any(None, Why::Limit, at))
    }

    fn get_now(&mut self, target: &Val<'s>, name: &'s str, at: Site) -> Val<'s> {
        match target {
            Val::OneOf(parts) => {
                let values = parts.iter().map(|part| self.get(part, name, at)).collect();
                self.join(values)
            }
            Val::Type(ty) => self.static_field(&ty.clone(), name, at),
            Val::Obj(id) => match self.obj_class(*id) {
                Some(class) if self.world.field(class, name).is_some() => self.read_field(*id, class, name, at),
                Some(class) => self.synthetic(target, class, name, at),
                None => {
                    let is_list = self.elements(*id).is_some();
                    if is_list { self.call_property(target, name, at) } else { self.part(*id, name, at) }
                }
            },
            Val::Any(any) => match any.ty.as_ref().and_then(Ty::class) {
                Some(class) => match self.world.field(class, name) {
                    Some((owner, field)) => {
                        if let Some(getter) = &field.getter {
                            return self.run_getter(getter, target, owner);
                        }
                        let ty = self.field_type(owner, field);
                        let ty = ty.map(|ty| self.in_terms_of(target, &ty, owner));
                        self.any(ty, any.why, at)
                    }
                    None => self.synthetic(target, class, name, at),
                },
                None => self.call_property(target, name, at),
            },
            Val::Known(_) | Val::Many(..) => self.call_property(target, name, at),
            Val::Fun(_) | Val::Void | Val::Later(_) => self.any(None, Why::Library, at),
        }
    }

    fn run_getter(&mut self, getter: &'s Expr<'s>, this: &Val<'s>, owner: ClassId) -> Val<'s> {
        let frame = Frame::new(Some(this.clone()), self.world.info(owner).file, Some(owner));
        let value = self.eval(getter, &Scope::top(frame.clone()));
        let returns = std::mem::take(&mut *frame.returns.borrow_mut());
        self.flow = super::Flow::On;
        if returns.is_empty() { value } else { self.join(returns) }
    }

    /// Kotlin's `x.name` for a Java getter, and properties of library classes.
    fn call_property(&mut self, target: &Val<'s>, name: &'s str, at: Site) -> Val<'s> {
        let frame = Frame::new(None, at.file, None);
        self.method(target, name, Vec::new(), at, &Scope::top(frame))
    }

    fn synthetic(&mut self, target: &Val<'s>, class: ClassId, name: &'s str, at: Site) -> Val<'s> {
        let wanted = |method: &str| method == name || getter_property(method).is_some_and(|property| property == name);
        for at_class in self.world.lineage(class) {
            let found = self
                .world
                .class(at_class)
                .methods
                .iter()
                .find(|method| method.params.is_empty() && method.receiver.is_none() && wanted(method.name));
            if let Some(method) = found {
                let frame = Frame::new(None, at.file, None);
                return self.method(target, method.name, Vec::new(), at, &Scope::top(frame));
            }
        }
        let functions = self.world.top_field(name, crate::index::Place { file: at.file, class: None });
        if let Some((file, field)) = functions
            && let Some(getter) = &field.getter
        {
            let frame = Frame::new(Some(target.clone()), file, None);
            return self.eval(getter, &Scope::top(frame));
        }
        match target {
            Val::Obj(id) if !self.world.library_supers(class).is_empty() => self.part(*id, name, at),
            _ => self.any(None, Why::Library, at),
        }
    }

    pub(crate) fn field_type(&mut self, owner: ClassId, field: &'s Field<'s>) -> Option<Ty<'s>> {
        field.ty.as_ref().map(|ty| self.world.ty(ty, self.world.place(owner)))
    }

    fn read_field(&mut self, id: ObjId, class: ClassId, name: &'s str, at: Site) -> Val<'s> {
        if let Some(prefix) = self.obj(id, |obj| obj.prefix.clone()) {
            return self.property_field(id, class, name, &prefix, at);
        }
        if let Some(value) = self.obj(id, |obj| obj.fields.get(name).cloned()) {
            return self.force(&value);
        }
        let Some((owner, field)) = self.world.field(class, name) else {
            return self.any(None, Why::Unset, at);
        };
        let file = self.world.info(owner).file;
        let field_site = site(file, field.at);
        if let Some(getter) = &field.getter {
            return self.run_getter(getter, &Val::Obj(id), owner);
        }
        let ty = self.field_type(owner, field);
        let ty = ty.map(|ty| self.in_terms_of(&Val::Obj(id), &ty, owner));
        let is_bean = self.obj(id, |obj| obj.origin == Origin::Bean);
        if let Some(value) = self.injected_field(field, ty.clone(), owner, is_bean, file) {
            self.obj_mut(id, |obj| obj.fields.insert(name, value.clone()));
            return value;
        }
        let value = match &field.value {
            Some(value) => {
                // Seen while it is worked out: a field that depends on itself has no value.
                let placeholder = self.any(ty.clone(), Why::Recursion, field_site);
                self.obj_mut(id, |obj| obj.fields.insert(name, placeholder));
                let scope =
                    self.obj(id, |obj| obj.init_scopes.iter().find(|(at, _)| *at == owner).map(|(_, it)| it.clone()));
                let captured = self.obj(id, |obj| obj.scope.clone());
                let frame = Frame::new(Some(Val::Obj(id)), file, Some(owner));
                let scope = match (scope, captured) {
                    (Some(scope), _) => scope,
                    (None, Some(captured)) => Scope::in_frame(&captured, frame),
                    (None, None) => Scope::top(frame),
                };
                let value = self.aside(|machine| machine.eval(value, &scope));
                self.coerce(value, ty, field_site)
            }
            None => {
                let why = if is_bean && ty.as_ref().is_none_or(|ty| ty.class().is_none()) {
                    Why::Injected
                } else {
                    Why::Unset
                };
                self.any(ty, why, field_site)
            }
        };
        self.obj_mut(id, |obj| obj.fields.insert(name, value.clone()));
        value
    }

    // ---- statics

    /// A static field or a companion's property, if the class has it.
    pub(crate) fn declared_static(&mut self, class: ClassId, name: &'s str, at: Site) -> Option<Val<'s>> {
        if self.world.class(class).constants.iter().any(|constant| constant.name == name) {
            return Some(self.static_field(&Ty::of(Base::Class(class)), name, at));
        }
        if let Some((owner, field)) = self.world.field(class, name) {
            if self.world.class(owner).kind == ClassKind::Object {
                let object = self.bean_object(owner);
                return Some(self.get(&Val::Obj(object), name, at));
            }
            if !field.is_static {
                return None;
            }
            let value = field.value.as_ref()?;
            if let Some(known) = self.statics.borrow().get(&std::ptr::from_ref(field)) {
                return Some(known.clone());
            }
            let file = self.world.info(owner).file;
            let frame = Frame::new(None, file, Some(owner));
            let ty = self.field_type(owner, field);
            // A constant that refers to itself ends at the limit on nesting; a short limit is enough here.
            let key = std::ptr::from_ref(field).cast();
            if self.stack.iter().any(|(known, _)| *known == key) {
                return Some(self.any(ty, Why::Recursion, at));
            }
            self.stack.push((key, None));
            let value = self.eval(value, &Scope::top(frame));
            self.stack.pop();
            let value = self.coerce(value, ty, site(file, field.at));
            self.statics.borrow_mut().insert(std::ptr::from_ref(field), value.clone());
            return Some(value);
        }
        let companion = self.world.companion(class)?;
        self.world.field(companion, name)?;
        let object = self.bean_object(companion);
        Some(self.get(&Val::Obj(object), name, at))
    }

    pub(crate) fn static_field(&mut self, ty: &Ty<'s>, name: &'s str, at: Site) -> Val<'s> {
        if name == "class" {
            return Val::Type(ty.clone());
        }
        match ty.base {
            Base::Class(class) => {
                let info = self.world.class(class);
                if let Some(constant) = info.constants.iter().find(|constant| constant.name == name) {
                    return self.enum_constant(class, constant.name, &constant.args, at);
                }
                if let Some(value) = self.declared_static(class, name, at) {
                    return value;
                }
                match self.world.nested_named(class, name) {
                    Some(inner) if self.world.class(inner).kind == ClassKind::Object => {
                        Val::Obj(self.bean_object(inner))
                    }
                    Some(inner) => Val::Type(Ty::of(Base::Class(inner))),
                    None => self.any(None, Why::Unset, at),
                }
            }
            Base::Library { name: owner, .. } => Val::Known(statics::constant(owner, name)),
            Base::Variable(_) => self.any(None, Why::Library, at),
        }
    }

    /// An enum's constant: an object with its fields, or only its name where it has none.
    fn enum_constant(&mut self, class: ClassId, name: &'s str, args: &'s [crate::tree::Arg<'s>], at: Site) -> Val<'s> {
        let info = self.world.info(class);
        if args.is_empty() && info.class.fields.is_empty() {
            return Val::Known(Value::Constant { owner: info.class.name.into(), name: name.into() });
        }
        let frame = Frame::new(None, info.file, Some(class));
        let args = self.args(args, &Scope::top(frame));
        let object = self.make(Ty::of(Base::Class(class)), Origin::New, at, args.clone());
        self.obj_mut(object, |obj| obj.made_by = name);
        self.run_constructor(object, class, args, at, 0);
        Val::Obj(object)
    }
}
