//! Error handlers of Spring Kafka: today's, those before 2.8, and the project's own.

use serde::Serialize;

use crate::analysis::{ExceptionClass, Link, Named};
use crate::back_off::BackOff;
use crate::machine::{ArgVal, Logged, Machine, ObjId, Val};
use crate::span::{Site, Span};
use crate::value::Value;

/// An error handler or after-rollback processor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorHandler {
    /// The names of its bean; empty for one that is no bean.
    pub names: Vec<String>,
    /// Whether its bean is `@Primary`.
    pub primary: bool,
    /// What its being there depends on, where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<String>,
    /// Which one.
    pub kind: HandlerKind,
    /// The class, as a simple name.
    pub class: String,
    /// Its back-off; none: the library's default; several: one of them.
    pub back_offs: Vec<BackOff>,
    /// What gets a record whose retries are exhausted; none: it is logged and dropped.
    pub recoverers: Vec<Recoverer>,
    /// `addNotRetryableExceptions`.
    pub not_retryable: Vec<ExceptionClass>,
    /// `addRetryableExceptions`.
    pub retryable: Vec<ExceptionClass>,
    /// `removeClassification`: no longer special.
    pub unclassified: Vec<ExceptionClass>,
    /// `setClassifications` or `defaultFalse`: what is not named is retried (`true`) or not; none: it is retried.
    pub retries_by_default: Option<bool>,
    /// A back-off by record and exception: the place of `setBackOffFunction`'s argument.
    pub back_off_function: Option<Span>,
    /// What waits: `ContainerPausingBackOffHandler` or the project's own; none: the consumer's thread sleeps.
    pub back_off_handler: Option<String>,
    /// Its other settings: `resetStateOnExceptionChange`, `seekAfterError`, `ackAfterHandle`, ...
    pub settings: Vec<Named>,
    /// `CommonDelegatingErrorHandler`'s delegates.
    pub delegates: Vec<Delegate>,
    /// The methods that the project's own class overrides.
    pub overrides: Vec<String>,
    /// Where it is made.
    pub span: Span,
}

/// The class of an error handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandlerKind {
    /// `DefaultErrorHandler`.
    Default,
    /// `SeekToCurrentErrorHandler`, up to 2.8.
    SeekToCurrent,
    /// `SeekToCurrentBatchErrorHandler`, up to 2.8: the whole batch again, without end by default.
    SeekToCurrentBatch,
    /// `RetryingBatchErrorHandler`, up to 2.8.
    RetryingBatch,
    /// `RecoveringBatchErrorHandler`, up to 2.8.
    RecoveringBatch,
    /// `CommonContainerStoppingErrorHandler` and its forerunners.
    Stopping,
    /// `CommonLoggingErrorHandler` and its forerunners: nothing is retried.
    Logging,
    /// `CommonDelegatingErrorHandler`.
    Delegating,
    /// `CommonMixedErrorHandler`: one for records, one for batches.
    Mixed,
    /// `DefaultAfterRollbackProcessor`.
    AfterRollback,
    /// A class of the project that extends `DefaultErrorHandler`.
    CustomDefault,
    /// A class of the project.
    Custom,
}

/// What gets a record whose retries are exhausted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recoverer {
    /// Which one.
    pub kind: RecovererKind,
    /// The place of its own destination resolver.
    pub destination_resolver: Option<Span>,
    /// Its settings: `failIfSendResultIsError`, `waitForSendResultTimeout`, ...
    pub settings: Vec<Named>,
    /// Where it is made.
    pub span: Span,
}

/// The class of a recoverer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "class", rename_all = "kebab-case")]
pub enum RecovererKind {
    /// `DeadLetterPublishingRecoverer`.
    DeadLetter,
    /// A lambda, a method or a class of the project.
    Custom {
        /// What it is.
        text: String,
    },
    /// It cannot be told.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// A handler for some exceptions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Delegate {
    /// The exceptions; empty for the default.
    pub exceptions: Vec<ExceptionClass>,
    /// The handler.
    pub handler: Link,
}

/// Settings that have a field of their own.
const OWN_FIELDS: [&str; 5] =
    ["setBackOffFunction", "setClassifications", "setRetryListeners", "setLogLevel", "setBackOff"];

/// Which handler a library class is.
pub(crate) fn handler_kind(class: &str) -> Option<HandlerKind> {
    Some(match class {
        "DefaultErrorHandler" => HandlerKind::Default,
        "SeekToCurrentErrorHandler" => HandlerKind::SeekToCurrent,
        "SeekToCurrentBatchErrorHandler" => HandlerKind::SeekToCurrentBatch,
        "RetryingBatchErrorHandler" => HandlerKind::RetryingBatch,
        "RecoveringBatchErrorHandler" => HandlerKind::RecoveringBatch,
        "CommonContainerStoppingErrorHandler"
        | "ContainerStoppingErrorHandler"
        | "ContainerStoppingBatchErrorHandler" => HandlerKind::Stopping,
        "CommonLoggingErrorHandler" | "LoggingErrorHandler" | "BatchLoggingErrorHandler" => HandlerKind::Logging,
        "CommonDelegatingErrorHandler"
        | "ConditionalDelegatingErrorHandler"
        | "ConditionalDelegatingBatchErrorHandler" => HandlerKind::Delegating,
        "CommonMixedErrorHandler" => HandlerKind::Mixed,
        "DefaultAfterRollbackProcessor" => HandlerKind::AfterRollback,
        "CommonErrorHandler"
        | "ErrorHandler"
        | "BatchErrorHandler"
        | "ContainerAwareErrorHandler"
        | "ConsumerAwareErrorHandler"
        | "ContainerAwareBatchErrorHandler"
        | "RemainingRecordsErrorHandler"
        | "AfterRollbackProcessor"
        | "FailedRecordProcessor"
        | "FailedBatchProcessor"
        | "CommonStoppingErrorHandler" => HandlerKind::Custom,
        _ => return None,
    })
}

impl<'s> Machine<'s> {
    /// Whether an object is an error handler.
    pub(crate) fn handler_kind_of(&self, id: ObjId) -> Option<HandlerKind> {
        let own = self.obj_class(id).is_some();
        let classes = self.library_classes(id);
        let kind = classes.iter().find_map(|ty| handler_kind(ty.lib()?))?;
        match (own, kind) {
            (true, HandlerKind::Default) => Some(HandlerKind::CustomDefault),
            (true, _) => Some(HandlerKind::Custom),
            (false, HandlerKind::Custom) => None,
            (false, kind) => Some(kind),
        }
    }

    /// Reads an error handler off its object. `index` gives the index of another handler's object.
    pub(crate) fn error_handler(&mut self, id: ObjId, index: &dyn Fn(ObjId) -> Option<usize>) -> Option<ErrorHandler> {
        let kind = self.handler_kind_of(id)?;
        let (ty, site, bean, args, super_args) =
            self.obj(id, |obj| (obj.ty.clone(), obj.site, obj.bean, obj.args.clone(), obj.super_args.clone()));
        let args = if ty.class().is_some() { super_args } else { args };
        let mut handler = ErrorHandler {
            names: Vec::new(),
            primary: bean.is_some_and(|bean| bean.annotations.iter().any(|it| it.simple() == "Primary")),
            depends_on: None,
            kind,
            class: self.type_name(&ty).to_owned(),
            back_offs: Vec::new(),
            recoverers: Vec::new(),
            not_retryable: Vec::new(),
            retryable: Vec::new(),
            unclassified: Vec::new(),
            retries_by_default: None,
            back_off_function: None,
            back_off_handler: None,
            settings: Vec::new(),
            delegates: Vec::new(),
            overrides: Vec::new(),
            span: self.span(site),
        };
        if let Some(class) = ty.class() {
            let methods = self.world.class(class).methods.iter();
            let handles = methods.map(|method| method.name).filter(|name| {
                name.starts_with("handle")
                    || matches!(*name, "seeksAfterHandling" | "remainingRecords" | "isAckAfterHandle" | "process")
            });
            handler.overrides = handles.map(str::to_owned).collect();
        }
        for arg in &args {
            self.constructor_argument(&mut handler, arg, index);
        }
        let log = self.obj(id, |obj| obj.log.clone());
        for call in log {
            self.handler_call(&mut handler, &call, index);
        }
        Some(handler)
    }

    fn constructor_argument(
        &mut self,
        handler: &mut ErrorHandler,
        arg: &ArgVal<'s>,
        index: &dyn Fn(ObjId) -> Option<usize>,
    ) {
        match self.force(&arg.val) {
            Val::Known(Value::Null) => {}
            Val::Obj(id) => {
                let is = |class: &str| self.is_a(id, class);
                let back_off = ["BackOff", "FixedBackOff", "ExponentialBackOff", "ExponentialBackOffWithMaxRetries"];
                if back_off.iter().any(|class| is(class)) {
                    handler.back_offs.extend(self.back_offs(&arg.val, arg.site));
                } else if is("ContainerPausingBackOffHandler") || is("BackOffHandler") || is("DefaultBackOffHandler") {
                    let ty = self.obj(id, |obj| obj.ty.clone());
                    handler.back_off_handler = Some(self.type_name(&ty).to_owned());
                } else if self.handler_kind_of(id).is_some() {
                    let link = index(id).map_or(Link::Default, |index| Link::Found { index });
                    handler.delegates.push(Delegate { exceptions: Vec::new(), handler: link });
                } else if !is("BinaryExceptionClassifier") && !is("CommonLoggingErrorHandler") {
                    handler.recoverers.extend(self.recoverers(&arg.val, arg.site));
                }
            }
            Val::OneOf(parts) => {
                for part in parts.iter() {
                    let part = ArgVal { name: arg.name, val: part.clone(), site: arg.site };
                    self.constructor_argument(handler, &part, index);
                }
            }
            // A function without parameters starts a back-off; a recoverer takes two.
            Val::Fun(function) if function.parameters() == Some(0) => {
                handler.back_offs.extend(self.back_offs(&arg.val, arg.site));
            }
            Val::Fun(_) => handler.recoverers.extend(self.recoverers(&arg.val, arg.site)),
            Val::Known(value @ (Value::Int(_) | Value::Property(_) | Value::Compute { .. })) => {
                // `SeekToCurrentErrorHandler(int maxFailures)`, up to 2.3.
                let setting = self.setting(value, arg.site, false);
                handler.settings.push(Named { name: "maxFailures".to_owned(), setting });
            }
            Val::Any(any) => {
                let class = any.ty.as_ref().and_then(|ty| ty.lib()).unwrap_or_default();
                if class.contains("BackOffHandler") {
                    handler.back_off_handler = Some(class.to_owned());
                } else if class.contains("BackOff") {
                    handler.back_offs.extend(self.back_offs(&arg.val, arg.site));
                } else if class.contains("Recoverer") || class.contains("Consumer") {
                    handler.recoverers.extend(self.recoverers(&arg.val, arg.site));
                }
            }
            _ => {}
        }
    }

    fn handler_call(&mut self, handler: &mut ErrorHandler, call: &Logged<'s>, index: &dyn Fn(ObjId) -> Option<usize>) {
        let first = call.args.first();
        match &*call.name {
            "addNotRetryableExceptions" | "addNotRetryableException" => {
                handler.not_retryable.extend(self.exceptions(&call.args));
            }
            "addRetryableExceptions" | "addRetryableException" => handler.retryable.extend(self.exceptions(&call.args)),
            "removeClassification" | "removeNotRetryableException" => {
                handler.unclassified.extend(self.exceptions(&call.args));
            }
            "defaultFalse" => {
                let to = first.map(|arg| self.value(&arg.val, arg.site));
                handler.retries_by_default = Some(to.and_then(|to| to.as_bool()) == Some(true));
            }
            "setClassifications" => {
                handler.retries_by_default = call.args.get(1).and_then(|arg| self.value(&arg.val, arg.site).as_bool());
                if let Some(Val::Obj(map)) = first.map(|arg| self.force(&arg.val))
                    && let Some((entries, _)) = self.entries(map, 0)
                {
                    for entry in entries {
                        let retried = self.value(&entry.val, entry.site).as_bool();
                        let key = ArgVal { name: None, val: entry.key, site: entry.site };
                        let classes = self.exceptions(&[key]);
                        if retried == Some(true) {
                            handler.retryable.extend(classes);
                        } else {
                            handler.not_retryable.extend(classes);
                        }
                    }
                }
            }
            "setBackOffFunction" => handler.back_off_function = first.map(|arg| self.span(arg.site)),
            "setBackOff" => {
                if let Some(arg) = first {
                    handler.back_offs = self.back_offs(&arg.val, arg.site);
                }
            }
            "addDelegate" => {
                if let [exception, delegate] = call.args.as_slice() {
                    let exceptions = self.exceptions(std::slice::from_ref(exception));
                    let handler_link = self.handler_link(&delegate.val, index);
                    handler.delegates.push(Delegate { exceptions, handler: handler_link });
                }
            }
            "setErrorHandlers" => {
                if let Some(Val::Obj(map)) = first.map(|arg| self.force(&arg.val))
                    && let Some((entries, _)) = self.entries(map, 0)
                {
                    for entry in entries {
                        let key = ArgVal { name: None, val: entry.key, site: entry.site };
                        let exceptions = self.exceptions(&[key]);
                        let handler_link = self.handler_link(&entry.val, index);
                        handler.delegates.push(Delegate { exceptions, handler: handler_link });
                    }
                }
            }
            name if name.starts_with("set") && !OWN_FIELDS.contains(&name) => {
                if let (Some(name), Some(arg)) = (crate::machine::setter_property(name), first) {
                    let value = self.value(&arg.val, arg.site);
                    let setting = self.setting(value, arg.site, call.conditional);
                    handler.settings.push(Named { name, setting });
                }
            }
            _ => {}
        }
    }

    /// The handler that a value is.
    pub(crate) fn handler_link(&mut self, value: &Val<'s>, index: &dyn Fn(ObjId) -> Option<usize>) -> Link {
        let mut found = Vec::new();
        let mut open = vec![self.force(value)];
        let mut why = None;
        while let Some(value) = open.pop() {
            match value {
                Val::Obj(id) => match index(id) {
                    Some(index) => found.push(index),
                    None => why = Some("its class is not known as an error handler".to_owned()),
                },
                Val::OneOf(parts) => open.extend(parts.iter().map(|part| self.force(part))),
                Val::Known(Value::Null) => return Link::Default,
                Val::Any(any) => why = Some(any.why.text().to_owned()),
                _ => why = Some("it is not understood".to_owned()),
            }
        }
        Link::of(found).unwrap_or(Link::Unknown { why: why.unwrap_or_default() })
    }

    /// The exception classes among arguments, also inside lists.
    pub(crate) fn exceptions(&mut self, args: &[ArgVal<'s>]) -> Vec<ExceptionClass> {
        let mut found = Vec::new();
        for arg in args {
            self.add_exceptions(&arg.val, arg.site, &mut found, 0);
        }
        found
    }

    fn add_exceptions(&mut self, value: &Val<'s>, at: Site, found: &mut Vec<ExceptionClass>, depth: u32) {
        if depth > 4 {
            return;
        }
        match self.force(value) {
            Val::Type(ty) => {
                found.push(ExceptionClass { name: self.type_name(&ty).to_owned(), span: self.span(at) });
            }
            Val::Obj(id) => {
                for (element, site) in self.elements(id).unwrap_or_default() {
                    self.add_exceptions(&element, site, found, depth + 1);
                }
            }
            Val::Many(_, elem) => self.add_exceptions(&elem, at, found, depth + 1),
            Val::OneOf(parts) => {
                for part in parts.iter() {
                    self.add_exceptions(part, at, found, depth + 1);
                }
            }
            Val::Known(Value::Class(name)) => {
                found.push(ExceptionClass { name: name.to_string(), span: self.span(at) });
            }
            Val::Known(Value::Text(name)) => {
                let name = crate::tree::last_part(&name).to_owned();
                found.push(ExceptionClass { name, span: self.span(at) });
            }
            _ => {}
        }
    }

    /// The recoverers that a value can be.
    pub(crate) fn recoverers(&mut self, value: &Val<'s>, at: Site) -> Vec<Recoverer> {
        let plain = |kind, span| Recoverer { kind, destination_resolver: None, settings: Vec::new(), span };
        match self.force(value) {
            Val::OneOf(parts) => parts.iter().flat_map(|part| self.recoverers(part, at)).collect(),
            Val::Obj(id) if self.is_a(id, "DeadLetterPublishingRecoverer") => {
                let (args, site, log) = self.obj(id, |obj| {
                    let args = if obj.ty.class().is_some() { &obj.super_args } else { &obj.args };
                    (args.clone(), obj.site, obj.log.clone())
                });
                let mut recoverer = plain(RecovererKind::DeadLetter, self.span(site));
                // (template, resolver), (templates, resolver), (template, resolver, ..): the resolver is a function.
                let resolver = args.iter().skip(1).find(|arg| {
                    let value = self.force(&arg.val);
                    matches!(&value, Val::Fun(_) | Val::Obj(_))
                        || matches!(&value, Val::Any(any) if any.ty.as_ref().and_then(|ty| ty.lib()) == Some("BiFunction"))
                });
                recoverer.destination_resolver = resolver.map(|arg| self.span(arg.site));
                for call in log {
                    if let (Some(name), Some(arg)) = (crate::machine::setter_property(&call.name), call.args.first()) {
                        let value = self.value(&arg.val, arg.site);
                        let setting = self.setting(value, arg.site, call.conditional);
                        recoverer.settings.push(Named { name, setting });
                    }
                }
                vec![recoverer]
            }
            Val::Obj(id) => {
                let (ty, site) = self.obj(id, |obj| (obj.ty.clone(), obj.site));
                let name = self.type_name(&ty);
                let text = if name.is_empty() { "an anonymous class".to_owned() } else { name.to_owned() };
                vec![plain(RecovererKind::Custom { text }, self.span(site))]
            }
            Val::Fun(_) => vec![plain(RecovererKind::Custom { text: self.short_text(at) }, self.span(at))],
            Val::Any(any) => {
                vec![plain(RecovererKind::Unknown { why: any.why.text().to_owned() }, self.span(at))]
            }
            _ => Vec::new(),
        }
    }
}
