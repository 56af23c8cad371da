//! Who consumes records.

use serde::Serialize;

use crate::analysis::{Link, Named, Setting};
use crate::index::{ClassId, Place, Ty, site};
use crate::machine::{ArgVal, Machine, Val, Why};
use crate::mongo::write::Write;
use crate::retry::RetryTopic;
use crate::span::{Site, Span};
use crate::tree::{Annotation, ClassKind, Method};

/// A consumer of records, and the writes that a record causes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listener {
    /// How it gets its records.
    pub kind: ListenerKind,
    /// The method: `OrderListener.onOrder`; a bean's name for a stream binding.
    pub method: String,
    /// `id` of `@KafkaListener`.
    pub id: Option<Setting>,
    /// `topics`; each a text or a property.
    pub topics: Option<Setting>,
    /// `topicPattern`.
    pub topic_pattern: Option<Setting>,
    /// `groupId`.
    pub group_id: Option<Setting>,
    /// `containerFactory`: a bean's name.
    pub container_factory: Option<Setting>,
    /// `concurrency`.
    pub concurrency: Option<Setting>,
    /// `batch`.
    pub batch: Option<Setting>,
    /// `autoStartup`.
    pub auto_startup: Option<Setting>,
    /// `errorHandler`: a `KafkaListenerErrorHandler` bean's name.
    pub error_handler: Option<Setting>,
    /// `properties`: texts such as `max.poll.records=50`.
    pub properties: Option<Setting>,
    /// Other attributes of the annotation.
    pub attributes: Vec<Named>,
    /// What its method takes.
    pub parameter: Parameter,
    /// Whether it takes an `Acknowledgment`.
    pub acknowledges: bool,
    /// Whether it gives back a `Mono`, `CompletableFuture` or the like, or is a suspending function.
    pub asynchronous: bool,
    /// The container factory in [`crate::Analysis::container_factories`].
    pub factory: Link,
    /// The error handler in [`crate::Analysis::error_handlers`]; [`Link::Default`] is Spring Kafka's.
    pub handler: Link,
    /// `@RetryableTopic`.
    pub retry_topic: Option<RetryTopic>,
    /// The writes that a record causes.
    pub writes: Vec<Write>,
    /// Whether a limit kept parts of the code from being followed; problems say where.
    pub cut: bool,
    /// The annotation, or the bean.
    pub span: Span,
}

/// How a listener gets its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListenerKind {
    /// `@KafkaListener` on a method.
    Method,
    /// `@KafkaListener` on a class, and a `@KafkaHandler` method.
    Handler,
    /// A `MessageListener` that is given to a container.
    Container,
    /// A functional bean of Spring Cloud Stream.
    StreamBinding,
}

/// What a listener's method takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    /// One record or its value.
    Record,
    /// A list of records, values or messages.
    List,
    /// `ConsumerRecords`.
    Records,
    /// A `Flux` or the like: what it does with a record is not told by this analysis.
    Reactive,
    /// No record.
    None,
}

/// A `@KafkaListener`, also through an annotation of the project.
#[derive(Clone, Copy)]
struct Marked<'s> {
    annotation: &'s Annotation<'s>,
    /// The project's annotation class's own `@KafkaListener`, whose attributes hold where the use sets none.
    through: Option<(&'s Annotation<'s>, ClassId)>,
}

impl<'s> Machine<'s> {
    /// The listeners of a class.
    pub(crate) fn listeners_of(&mut self, class: ClassId) -> Vec<Listener> {
        let info = self.world.info(class);
        if matches!(info.class.kind, ClassKind::Interface | ClassKind::Annotation) || info.class.is_abstract {
            return Vec::new();
        }
        let mut found = Vec::new();
        let lineage = self.world.lineage(class);
        let on_class = self.marked(&info.class.annotations, self.world.place(class));
        for owner in lineage {
            let place = self.world.place(owner);
            for method in &self.world.class(owner).methods {
                if method.body.is_none() {
                    continue;
                }
                let overridden = self.world.methods(class, method.name).first().is_some_and(|(_, nearest)| {
                    !std::ptr::eq(*nearest, method) && nearest.params.len() == method.params.len()
                });
                if overridden {
                    continue;
                }
                let marks = self.marked(&method.annotations, place);
                for mark in marks {
                    found.push(self.listener(ListenerKind::Method, class, owner, method, mark, place));
                }
                if method.annotations.iter().any(|it| it.simple() == "KafkaHandler") {
                    for mark in &on_class {
                        found.push(self.listener(
                            ListenerKind::Handler,
                            class,
                            owner,
                            method,
                            *mark,
                            self.world.place(class),
                        ));
                    }
                }
            }
        }
        found
    }

    fn marked(&mut self, annotations: &'s [Annotation<'s>], place: Place) -> Vec<Marked<'s>> {
        let mut found = Vec::new();
        for annotation in annotations {
            match annotation.simple() {
                "KafkaListener" => found.push(Marked { annotation, through: None }),
                "KafkaListeners" => {
                    if let Some(list) = annotation.arg("value") {
                        let items = match &list.kind {
                            crate::tree::ExprKind::List(items) => items.iter().collect(),
                            _ => vec![list],
                        };
                        for item in items {
                            if let crate::tree::ExprKind::Annotation(inner) = &item.kind {
                                found.push(Marked { annotation: inner, through: None });
                            }
                        }
                    }
                }
                "Override" | "Transactional" | "Service" | "Component" | "RetryableTopic" => {}
                _ => {
                    let base = self.world.base(annotation.name, place);
                    if let crate::index::Base::Class(id) = base
                        && self.world.class(id).kind == ClassKind::Annotation
                    {
                        let own = &self.world.class(id).annotations;
                        let through = own.iter().find(|it| it.simple() == "KafkaListener").map(|it| (it, id));
                        if through.is_some() {
                            found.push(Marked { annotation, through });
                        }
                    }
                }
            }
        }
        found
    }

    fn listener_attribute(
        &mut self,
        mark: Marked<'s>,
        names: &[&str],
        ty: Option<&str>,
        place: Place,
    ) -> Option<Setting> {
        // `value` is an attribute of the project's own annotation at most.
        if let Some(setting) = self.attribute(mark.annotation, names, ty, place) {
            return Some(setting);
        }
        let (annotation, class) = mark.through?;
        let own_place = self.world.place(class);
        if let Some(setting) = self.attribute(annotation, names, ty, own_place) {
            return Some(setting);
        }
        // `@AliasFor(annotation = KafkaListener.class, attribute = "topics") String[] value()`
        for method in &self.world.class(class).methods {
            let alias = method.annotations.iter().find(|it| it.simple() == "AliasFor")?;
            let attribute = self.attribute(alias, &["attribute", "value"], None, own_place);
            let aliased = attribute.and_then(|it| it.value.as_str().map(str::to_owned));
            if aliased.is_some_and(|aliased| names.contains(&aliased.as_str()))
                && let Some(setting) = self.attribute(mark.annotation, &[method.name], ty, place)
            {
                return Some(setting);
            }
        }
        None
    }

    fn listener(
        &mut self,
        kind: ListenerKind,
        class: ClassId,
        owner: ClassId,
        method: &'s Method<'s>,
        mark: Marked<'s>,
        place: Place,
    ) -> Listener {
        let own_place = self.world.place(owner);
        let name = format!("{}.{}", self.world.class(class).name, method.name);
        let mut listener = self.new_listener(kind, name, site(place.file, mark.annotation.at));
        listener.id = self.listener_attribute(mark, &["id"], None, place);
        listener.topics = self.listener_attribute(mark, &["topics"], None, place);
        listener.topic_pattern = self.listener_attribute(mark, &["topicPattern"], None, place);
        listener.group_id = self.listener_attribute(mark, &["groupId"], None, place);
        listener.container_factory = self.listener_attribute(mark, &["containerFactory"], None, place);
        listener.concurrency = self.listener_attribute(mark, &["concurrency"], Some("int"), place);
        listener.batch = self.listener_attribute(mark, &["batch"], Some("boolean"), place);
        listener.auto_startup = self.listener_attribute(mark, &["autoStartup"], Some("boolean"), place);
        listener.error_handler = self.listener_attribute(mark, &["errorHandler"], None, place);
        listener.properties = self.listener_attribute(mark, &["properties"], None, place);
        let own = [
            "id",
            "topics",
            "topicPattern",
            "groupId",
            "containerFactory",
            "concurrency",
            "batch",
            "autoStartup",
            "errorHandler",
            "properties",
        ];
        for arg in &mark.annotation.args {
            let name = arg.name.unwrap_or("value");
            if !own.contains(&name)
                && !matches!(arg.value.kind, crate::tree::ExprKind::Annotation(_))
                && let Some(setting) = self.attribute(mark.annotation, &[name], None, place)
            {
                listener.attributes.push(Named { name: name.to_owned(), setting });
            }
        }
        let on_method = method.annotations.iter().find(|it| it.simple() == "RetryableTopic");
        let topic = match on_method {
            Some(annotation) => Some((annotation, own_place)),
            None => {
                let class_place = self.world.place(class);
                let on_class = self.world.class(class).annotations.iter().find(|it| it.simple() == "RetryableTopic");
                on_class.map(|annotation| (annotation, class_place))
            }
        };
        listener.retry_topic = topic.map(|(annotation, place)| self.retryable_topic(annotation, place));
        let file = self.world.info(owner).file;
        let mut args = Vec::new();
        for param in &method.params {
            let ty = param.ty.as_ref().map(|ty| self.world.ty(ty, own_place));
            let this = Val::Obj(self.bean_object(class));
            let ty = ty.map(|ty| self.in_terms_of(&this, &ty, owner));
            let at = site(file, param.at);
            let header = param.annotations.iter().any(|it| matches!(it.simple(), "Header" | "Headers"));
            let (parameter, val) = self.listener_parameter(ty.as_ref(), header, at);
            if ty.as_ref().and_then(Ty::lib) == Some("Acknowledgment") {
                listener.acknowledges = true;
            }
            if let Some(parameter) = parameter
                && listener.parameter == Parameter::None
            {
                listener.parameter = parameter;
            }
            args.push(ArgVal { name: None, val, site: at });
        }
        let ret = method.ret.as_ref().map(|ret| self.world.ty(ret, own_place));
        listener.asynchronous = method.suspend
            || ret
                .and_then(|ret| ret.lib())
                .is_some_and(|name| matches!(name, "Mono" | "Flux" | "CompletableFuture" | "CompletionStage"));
        let this = Val::Obj(self.bean_object(class));
        let at = site(file, method.name_at);
        self.run_listener(&mut listener, |machine| {
            machine.run_method(owner, method, Some(this), args, at, true);
        });
        listener
    }

    pub(crate) fn new_listener(&self, kind: ListenerKind, method: String, at: Site) -> Listener {
        Listener {
            kind,
            method,
            id: None,
            topics: None,
            topic_pattern: None,
            group_id: None,
            container_factory: None,
            concurrency: None,
            batch: None,
            auto_startup: None,
            error_handler: None,
            properties: None,
            attributes: Vec::new(),
            parameter: Parameter::None,
            acknowledges: false,
            asynchronous: false,
            factory: Link::Default,
            handler: Link::Default,
            retry_topic: None,
            writes: Vec::new(),
            cut: false,
            span: self.span(at),
        }
    }

    /// Runs a listener's code and keeps its writes.
    pub(crate) fn run_listener(&mut self, listener: &mut Listener, run: impl FnOnce(&mut Self)) {
        let limits = self.limits.len();
        let writes = self.entry(|machine| {
            run(machine);
            std::mem::take(&mut machine.writes)
        });
        listener.cut = self.limits.len() > limits;
        listener.writes = writes;
    }

    /// What a parameter is to a listener, and its value.
    fn listener_parameter(&mut self, ty: Option<&Ty<'s>>, header: bool, at: Site) -> (Option<Parameter>, Val<'s>) {
        let Some(ty) = ty else { return (Some(Parameter::Record), self.any(None, Why::Record, at)) };
        let one = self.any(Some(ty.clone()), Why::Record, at);
        if header {
            return (None, one);
        }
        match ty.lib() {
            Some(
                "Acknowledgment"
                | "Consumer"
                | "ConsumerRecordMetadata"
                | "ConsumerGroupMetadata"
                | "MessageHeaders"
                | "Continuation",
            ) => (None, one),
            Some("ConsumerRecords") => (Some(Parameter::Records), self.records_of(ty, at)),
            Some("List" | "Collection" | "MutableList" | "Iterable") => {
                (Some(Parameter::List), self.records_of(ty, at))
            }
            Some("Flux" | "Flow" | "KStream" | "Publisher") => (Some(Parameter::Reactive), one),
            _ if ty.array && ty.lib() != Some("byte") => (Some(Parameter::List), self.records_of(ty, at)),
            _ => (Some(Parameter::Record), one),
        }
    }

    /// A functional bean of Spring Cloud Stream: what it is given is a record.
    pub(crate) fn binding(&mut self, name: String, ty: &Ty<'s>, value: &Val<'s>, at: Site) -> Option<Listener> {
        // Kotlin's function types keep their result only.
        let input = ty.args.first().cloned().filter(|_| ty.lib() != Some("Function") || ty.args.len() > 1);
        let mut listener = self.new_listener(ListenerKind::StreamBinding, name, at);
        let (parameter, given) = self.listener_parameter(input.as_ref(), false, at);
        listener.parameter = parameter.unwrap_or(Parameter::Record);
        listener.asynchronous = listener.parameter == Parameter::Reactive;
        match self.force(value) {
            Val::Fun(function) => self.run_listener(&mut listener, |machine| {
                machine.invoke(&function, vec![given], None, at);
            }),
            Val::Obj(id) => {
                let class = self.obj_class(id)?;
                let arg = ArgVal { name: None, val: given, site: at };
                let names = ["accept", "apply", "invoke"];
                let (owner, method) =
                    names.iter().find_map(|name| self.pick(class, name, std::slice::from_ref(&arg)))?;
                self.run_listener(&mut listener, |machine| {
                    machine.run_method(owner, method, Some(Val::Obj(id)), vec![arg], at, true);
                });
            }
            _ => return None,
        }
        Some(listener)
    }

    /// A message listener that is given to a container.
    pub(crate) fn container_listener(&mut self, value: &Val<'s>, at: Site) -> Option<Listener> {
        match self.force(value) {
            Val::Fun(function) => {
                let mut listener = self.new_listener(ListenerKind::Container, "a listener".to_owned(), at);
                listener.parameter = Parameter::Record;
                let record = self.any(Some(Ty::library("ConsumerRecord")), Why::Record, at);
                self.run_listener(&mut listener, |machine| {
                    machine.invoke(&function, vec![record], None, at);
                });
                Some(listener)
            }
            Val::Obj(id) => {
                let class = self.obj_class(id)?;
                let methods = self.world.methods(class, "onMessage");
                let (owner, method) = methods.into_iter().find(|(_, method)| method.body.is_some())?;
                let name = self.world.class(class).name;
                let name = if name.is_empty() { "a listener".to_owned() } else { format!("{name}.onMessage") };
                let mut listener = self.new_listener(ListenerKind::Container, name, at);
                let place = self.world.place(owner);
                let file = place.file;
                let mut args = Vec::new();
                for param in &method.params {
                    let ty = param.ty.as_ref().map(|ty| self.world.ty(ty, place));
                    let at = site(file, param.at);
                    let (parameter, val) = self.listener_parameter(ty.as_ref(), false, at);
                    listener.acknowledges |= ty.as_ref().and_then(Ty::lib) == Some("Acknowledgment");
                    if let Some(parameter) = parameter {
                        listener.parameter = parameter;
                    }
                    args.push(ArgVal { name: None, val, site: at });
                }
                self.run_listener(&mut listener, |machine| {
                    machine.run_method(owner, method, Some(Val::Obj(id)), args, at, true);
                });
                Some(listener)
            }
            _ => None,
        }
    }
}
