//! What Spring would inject: beans of the sources, settings, library objects.

use std::cell::OnceCell;
use std::rc::Rc;

use super::{ArgVal, Later, Machine, ObjId, Origin, Val, Why, collection};
use crate::index::{Base, BeanMethod, ClassId, Ty, site};
use crate::span::Site;
use crate::tree::{Annotation, ClassKind, Constructor, ExprKind, Field, Method};
use crate::value::Value;

/// What a place asks Spring for.
pub(crate) struct Wanted<'s> {
    pub ty: Ty<'s>,
    /// The field's or parameter's name: Spring takes it for the bean's name where several beans fit.
    pub name: &'s str,
    pub annotations: &'s [Annotation<'s>],
    pub site: Site,
}

const STEREOTYPES: [&str; 9] = [
    "Component",
    "Service",
    "Repository",
    "Configuration",
    "Controller",
    "RestController",
    "SpringBootApplication",
    "AutoConfiguration",
    "Configurable",
];

impl<'s> Machine<'s> {
    /// The one instance of a class that Spring makes (or of an `object`).
    pub(crate) fn bean_object(&mut self, class: ClassId) -> ObjId {
        if let Some(object) = self.bean_objs.borrow().get(&class) {
            return *object;
        }
        let info = self.world.info(class);
        let at = self.world.class_site(class);
        let object = self.aside(|machine| {
            let object = machine.make(Ty::of(Base::Class(class)), Origin::Bean, at, Vec::new());
            machine.bean_objs.borrow_mut().insert(class, object);
            object
        });
        let prefix = self.prefix_of(&info.class.annotations, info.file);
        if let Some(prefix) = prefix {
            self.obj_mut(object, |obj| obj.prefix = Some(Rc::from(&*prefix)));
            return object;
        }
        if matches!(info.class.kind, ClassKind::Class | ClassKind::Record)
            && let Some(constructor) = self.world.injected_constructor(class)
        {
            self.aside(|machine| {
                let args = machine.injected_args(constructor, class, info.file);
                machine.constructor_body(object, class, constructor, args, at, 0);
            });
        }
        object
    }

    fn injected_args(&mut self, constructor: &'s Constructor<'s>, class: ClassId, file: u32) -> Vec<ArgVal<'s>> {
        let place = self.world.place(class);
        let mut args = Vec::new();
        for param in &constructor.params {
            let ty = param.ty.as_ref().map(|ty| self.world.ty(ty, place));
            let at = site(file, param.at);
            // Kotlin's defaults stand where Spring has nothing to say.
            if let Some(default) = &param.default
                && !param.annotations.iter().any(|it| it.simple() == "Value")
                && matches!(default.kind, ExprKind::Int(_) | ExprKind::Text(_) | ExprKind::Bool(_) | ExprKind::Float(_))
            {
                continue;
            }
            let val = self.later(ty, param.name, &param.annotations, at);
            args.push(ArgVal { name: Some(param.name), val, site: at });
        }
        args
    }

    /// The parameters of a bean method or a listener's class, to be looked up when used.
    pub(crate) fn later(
        &mut self,
        ty: Option<Ty<'s>>,
        name: &'s str,
        annotations: &'s [Annotation<'s>],
        at: Site,
    ) -> Val<'s> {
        let ty = ty.unwrap_or_else(|| Ty::library(""));
        if let Some(annotation) = annotations.iter().find(|it| it.simple() == "Value")
            && let Some(value) = self.value_annotation(annotation, Some(&ty), at.file)
        {
            return value;
        }
        Val::Later(Rc::new(Later { wanted: Wanted { ty, name, annotations, site: at }, value: OnceCell::new() }))
    }

    /// A field that Spring fills.
    pub(crate) fn injected_field(
        &mut self,
        field: &'s Field<'s>,
        ty: Option<Ty<'s>>,
        owner: ClassId,
        is_bean: bool,
        file: u32,
    ) -> Option<Val<'s>> {
        let has = |names: &[&str]| field.annotations.iter().any(|it| names.contains(&it.simple()));
        if let Some(annotation) =
            field.annotations.iter().find(|it| it.simple() == "Value" && it.arg("value").is_some())
        {
            return self.value_annotation(annotation, ty.as_ref(), file);
        }
        if field.is_static || field.value.is_some() {
            return None;
        }
        // Lombok's constructor of what must be set.
        let class = self.world.class(owner);
        let lombok = class.constructors.is_empty() && field.is_final && is_bean;
        let all = class.annotations.iter().any(|it| it.simple() == "AllArgsConstructor") && is_bean;
        if has(&["Autowired", "Inject", "Resource", "MockBean", "Qualifier"]) || lombok || all {
            return Some(self.later(ty, field.name, &field.annotations, site(file, field.at)));
        }
        None
    }

    pub(crate) fn inject(&mut self, wanted: &Wanted<'s>) -> Val<'s> {
        let result = self.step(wanted.site, |machine| machine.inject_now(wanted));
        result.unwrap_or_else(|| self.any(Some(wanted.ty.clone()), Why::Limit, wanted.site))
    }

    fn inject_now(&mut self, wanted: &Wanted<'s>) -> Val<'s> {
        let ty = &wanted.ty;
        if let Some(name @ ("ObjectProvider" | "Optional" | "Provider" | "ObjectFactory" | "Lazy")) = ty.lib()
            && let Some(inner) = ty.args.first()
        {
            let inner =
                Wanted { ty: inner.clone(), name: wanted.name, annotations: wanted.annotations, site: wanted.site };
            let value = self.inject(&inner);
            let kind = if name == "Optional" { "Optional" } else { "ObjectProvider" };
            return Val::Many(kind, Rc::new(value));
        }
        if let Some(kind) = collection::container(ty) {
            if let Some(elem) = collection::element_type(ty) {
                let beans = self.beans_of(&elem);
                if !beans.is_empty() {
                    let elem = self.join(beans.into_iter().map(|(_, value)| value).collect());
                    return Val::Many(kind, Rc::new(elem));
                }
            }
            return self.any(Some(ty.clone()), Why::Injected, wanted.site);
        }
        if let Some(prefix) = match ty.lib() {
            Some("KafkaProperties") => Some("spring.kafka"),
            Some("MongoProperties") => Some("spring.data.mongodb"),
            _ => None,
        } {
            let object = self.make(ty.clone(), Origin::Bean, wanted.site, Vec::new());
            self.obj_mut(object, |obj| obj.prefix = Some(prefix.into()));
            return Val::Obj(object);
        }
        let mut beans = self.beans_of(ty);
        if beans.len() > 1 {
            let qualifier =
                wanted.annotations.iter().find(|it| matches!(it.simple(), "Qualifier" | "Named" | "Resource"));
            let qualifier = qualifier.and_then(|it| {
                let name = if it.simple() == "Resource" { "name" } else { "value" };
                self.annotation_text(it, name, wanted.site.file, None)
            });
            let wanted_name = match &qualifier {
                Some(Value::Text(text)) => text.to_string(),
                _ => wanted.name.to_owned(),
            };
            let named = |found: &Found| found.names.contains(&wanted_name);
            if qualifier.is_some() && beans.iter().any(|(found, _)| named(found)) {
                beans.retain(|(found, _)| named(found));
            } else if beans.iter().any(|(found, _)| found.primary) {
                beans.retain(|(found, _)| found.primary);
            } else if beans.iter().any(|(found, _)| named(found)) {
                beans.retain(|(found, _)| named(found));
            }
        }
        if beans.is_empty() {
            return self.any(Some(ty.clone()), Why::Injected, wanted.site);
        }
        self.join(beans.into_iter().map(|(_, value)| value).collect())
    }

    /// The beans of the sources that fit a type.
    pub(crate) fn beans_of(&mut self, ty: &Ty<'s>) -> Vec<(Found, Val<'s>)> {
        let mut found = Vec::new();
        for bean in self.world.beans() {
            if self.bean_fits(bean, ty) {
                let value = self.bean_value(bean.class, bean.method);
                found.push((self.describe(bean), value));
            }
        }
        let Some(class) = ty.class() else {
            let Some(library) = ty.lib() else { return found };
            if library.is_empty() || matches!(library, "String" | "Object") {
                return found;
            }
            for id in self.world.implementers(library) {
                let own = self.world.class(id);
                if own.annotations.iter().any(|it| STEREOTYPES.contains(&it.simple())) {
                    found.push((component(own.name, &own.annotations), Val::Obj(self.bean_object(id))));
                }
            }
            return found;
        };
        let mut classes = vec![class];
        classes.extend(self.world.subclasses(class));
        classes.retain(|id| {
            let own = self.world.class(*id);
            matches!(own.kind, ClassKind::Class | ClassKind::Object | ClassKind::Record) && !own.is_abstract
        });
        let is_component = |machine: &Self, id: &ClassId| {
            let annotations = &machine.world.class(*id).annotations;
            annotations.iter().any(|it| STEREOTYPES.contains(&it.simple()) || it.simple() == "ConfigurationProperties")
        };
        if classes.iter().any(|id| is_component(self, id)) || !found.is_empty() {
            classes.retain(|id| is_component(self, id));
        }
        for id in classes {
            let own = self.world.class(id);
            found.push((component(own.name, &own.annotations), Val::Obj(self.bean_object(id))));
        }
        if found.is_empty() && self.world.class(class).kind == ClassKind::Interface {
            // A repository, or something else that a library implements.
            let object = self.bean_object(class);
            found.push((component(self.world.class(class).name, &[]), Val::Obj(object)));
        }
        found
    }

    fn bean_fits(&mut self, bean: &BeanMethod<'s>, ty: &Ty<'s>) -> bool {
        let place = self.world.place(bean.class);
        let Some(ret) = &bean.method.ret else {
            // Kotlin without a type: the made class's name.
            return match made_class(bean.method) {
                Some(name) => {
                    let base = self.world.base(name, place);
                    self.fits(&Ty::of(base), ty)
                }
                None => false,
            };
        };
        let ret = self.world.ty(ret, place);
        self.fits(&ret, ty)
    }

    fn fits(&mut self, own: &Ty<'s>, wanted: &Ty<'s>) -> bool {
        match (own.base, wanted.base) {
            (Base::Class(own), Base::Class(wanted)) => {
                // A bean declared as an interface may be any of its classes.
                self.world.is_subclass(own, wanted) || self.world.is_subclass(wanted, own)
            }
            (Base::Class(own), Base::Library { name, .. }) => {
                self.world.library_supers(own).iter().any(|sup| sup.lib() == Some(name))
            }
            (Base::Library { name: own, .. }, Base::Library { name: wanted, .. }) => {
                own == wanted || library_subtype(own, wanted)
            }
            _ => false,
        }
    }

    fn describe(&mut self, bean: &BeanMethod<'s>) -> Found {
        Found {
            names: self.bean_names(bean.class, bean.method),
            primary: bean.method.annotations.iter().any(|it| it.simple() == "Primary"),
        }
    }

    /// The names of a `@Bean` method's bean.
    pub(crate) fn bean_names(&mut self, class: ClassId, method: &'s Method<'s>) -> Vec<String> {
        let file = self.world.info(class).file;
        let annotation = method.annotations.iter().find(|it| it.simple() == "Bean");
        let given = annotation.and_then(|annotation| {
            ["name", "value"].into_iter().find_map(|name| self.annotation_text(annotation, name, file, Some(class)))
        });
        match given {
            Some(Value::Text(name)) => vec![name.to_string()],
            Some(Value::List(names)) => names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            _ => vec![method.name.to_owned()],
        }
    }

    /// What a `@Bean` method makes; it runs once.
    pub(crate) fn bean_value(&mut self, class: ClassId, method: &'s Method<'s>) -> Val<'s> {
        let key = std::ptr::from_ref(method);
        if let Some(value) = self.bean_values.borrow().get(&key) {
            // `None`: it is being made, and needs itself.
            return value.clone().unwrap_or(Val::Void);
        }
        self.bean_values.borrow_mut().insert(key, None);
        let info = self.world.info(class);
        let place = self.world.place(class);
        let value = self.entry(|machine| {
            let mut args = Vec::new();
            for param in &method.params {
                let ty = param.ty.as_ref().map(|ty| machine.world.ty(ty, place));
                let at = site(info.file, param.at);
                args.push(ArgVal {
                    name: Some(param.name),
                    val: machine.later(ty, param.name, &param.annotations, at),
                    site: at,
                });
            }
            let this = if method.is_static { None } else { Some(Val::Obj(machine.bean_object(class))) };
            machine.run_method(class, method, this, args, site(info.file, method.name_at), false)
        });
        if let Val::Obj(object) = value {
            let prefix = self.prefix_of(&method.annotations, info.file);
            self.obj_mut(object, |obj| {
                obj.bean = obj.bean.or(Some(method));
                if let Some(prefix) = prefix {
                    obj.prefix = Some(Rc::from(&*prefix));
                }
            });
        }
        self.bean_values.borrow_mut().insert(key, Some(value.clone()));
        value
    }
}

/// A bean's names, and whether it is preferred.
pub(crate) struct Found {
    pub names: Vec<String>,
    pub primary: bool,
}

fn component(class: &str, annotations: &[Annotation<'_>]) -> Found {
    let mut names = Vec::new();
    for annotation in annotations.iter().filter(|it| STEREOTYPES.contains(&it.simple()) || it.simple() == "Qualifier") {
        if let Some(ExprKind::Text(name)) = annotation.arg("value").map(|value| &value.kind) {
            names.push(name.to_string());
        }
    }
    let mut chars = class.chars();
    names.push(chars.next().into_iter().flat_map(char::to_lowercase).chain(chars).collect());
    Found { names, primary: annotations.iter().any(|it| it.simple() == "Primary") }
}

/// The class that a Kotlin bean function without a declared type makes.
fn made_class<'s>(method: &'s Method<'s>) -> Option<&'s str> {
    let mut at = method.body.as_ref().filter(|_| method.is_expression)?.read()?;
    loop {
        match &at.kind {
            ExprKind::Call { target: None, name, .. } if name.starts_with(char::is_uppercase) => return Some(name),
            ExprKind::Call { target: Some(target), name, .. } if matches!(*name, "apply" | "also" | "build") => {
                at = target
            }
            ExprKind::New { ty, .. } => return Some(ty.name),
            _ => return None,
        }
    }
}

/// Library classes that stand for others at an injection point.
fn library_subtype(own: &str, wanted: &str) -> bool {
    match wanted {
        "CommonErrorHandler" => matches!(
            own,
            "DefaultErrorHandler"
                | "CommonContainerStoppingErrorHandler"
                | "CommonLoggingErrorHandler"
                | "CommonDelegatingErrorHandler"
                | "CommonMixedErrorHandler"
        ),
        "ErrorHandler" | "ContainerAwareErrorHandler" | "GenericErrorHandler" => {
            matches!(own, "SeekToCurrentErrorHandler" | "LoggingErrorHandler" | "ContainerStoppingErrorHandler")
        }
        "BatchErrorHandler" => {
            matches!(
                own,
                "SeekToCurrentBatchErrorHandler" | "RetryingBatchErrorHandler" | "RecoveringBatchErrorHandler"
            )
        }
        "BackOff" => own.ends_with("BackOff") || own == "ExponentialBackOffWithMaxRetries",
        "ConsumerRecordRecoverer" => own == "DeadLetterPublishingRecoverer",
        "ConsumerFactory" => own == "DefaultKafkaConsumerFactory",
        "MongoOperations" => own == "MongoTemplate",
        "ReactiveMongoOperations" => own == "ReactiveMongoTemplate",
        "KafkaListenerContainerFactory" => own == "ConcurrentKafkaListenerContainerFactory",
        "KafkaOperations" => own == "KafkaTemplate",
        "AfterRollbackProcessor" => own == "DefaultAfterRollbackProcessor",
        _ => false,
    }
}
