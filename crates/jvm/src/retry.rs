//! Retries inside a listener, and retry topics.

use serde::Serialize;

use crate::analysis::{ExceptionClass, Named, Setting};
use crate::index::{Place, site};
use crate::machine::{ArgVal, Frame, Machine, ObjId, Scope, Val};
use crate::span::{Site, Span};
use crate::tree::{Annotation, Expr, ExprKind};
use crate::value::Value;

/// A retry inside a listener: it multiplies the executions of what it surrounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retry {
    /// Which one.
    pub kind: RetryKind,
    /// The name that configuration knows it by: resilience4j's instance.
    pub name: Option<String>,
    /// Executions at most, the first included.
    pub max_attempts: Option<Setting>,
    /// Executions at most, the first not included.
    pub max_retries: Option<Setting>,
    /// The wait, in milliseconds.
    pub delay_ms: Option<Setting>,
    /// The factor between two waits.
    pub multiplier: Option<Setting>,
    /// The longest wait, in milliseconds.
    pub max_delay_ms: Option<Setting>,
    /// The jitter, in milliseconds.
    pub jitter_ms: Option<Setting>,
    /// The exceptions it retries; empty: all.
    pub include: Vec<ExceptionClass>,
    /// The exceptions it does not retry.
    pub exclude: Vec<ExceptionClass>,
    /// Whether its settings are all in the sources.
    pub complete: bool,
    /// Where it is.
    pub span: Span,
}

/// The library of a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetryKind {
    /// spring-retry's `@Retryable`: 3 executions unless set.
    SpringRetry,
    /// Spring Framework 7's `@Retryable`: 3 retries unless set, so 4 executions.
    Framework,
    /// A `RetryTemplate`.
    Template,
    /// resilience4j's `@Retry` or `Retry`; its settings are configuration: `resilience4j.retry.instances.NAME`.
    Resilience4j,
    /// Reactor's `retry` or `retryWhen`.
    Reactor,
}

/// A non-blocking retry: `@RetryableTopic` or a `RetryTopicConfiguration` bean.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetryTopic {
    /// Deliveries at most, the first included; 3 unless set.
    pub attempts: Option<Setting>,
    /// The wait, in milliseconds; 1000 unless set.
    pub delay_ms: Option<Setting>,
    /// The factor between two waits.
    pub multiplier: Option<Setting>,
    /// The longest wait, in milliseconds.
    pub max_delay_ms: Option<Setting>,
    /// `random` of spring-retry's `@Backoff`.
    pub random: Option<Setting>,
    /// `jitter` of Spring Kafka 4's `@BackOff`, in milliseconds.
    pub jitter_ms: Option<Setting>,
    /// The exceptions it retries; empty: all.
    pub include: Vec<ExceptionClass>,
    /// The exceptions it does not retry.
    pub exclude: Vec<ExceptionClass>,
    /// `ALWAYS_RETRY_ON_ERROR`, `FAIL_ON_ERROR` or `NO_DLT`.
    pub dlt_strategy: Option<Setting>,
    /// Its other settings: `sameIntervalTopicReuseStrategy`, `concurrency`, `timeout`, `includeTopics`, ...
    pub settings: Vec<Named>,
    /// Where it is.
    pub span: Span,
}

impl RetryTopic {
    fn new(span: Span) -> Self {
        Self {
            attempts: None,
            delay_ms: None,
            multiplier: None,
            max_delay_ms: None,
            random: None,
            jitter_ms: None,
            include: Vec::new(),
            exclude: Vec::new(),
            dlt_strategy: None,
            settings: Vec::new(),
            span,
        }
    }
}

impl<'s> Machine<'s> {
    fn new_retry(&self, kind: RetryKind, at: Site) -> Retry {
        Retry {
            kind,
            name: None,
            max_attempts: None,
            max_retries: None,
            delay_ms: None,
            multiplier: None,
            max_delay_ms: None,
            jitter_ms: None,
            include: Vec::new(),
            exclude: Vec::new(),
            complete: true,
            span: self.span(at),
        }
    }

    /// Keeps a retry, once for each place and set of settings.
    fn keep(&mut self, retry: Retry) -> usize {
        if let Some(at) = self.retries.iter().position(|known| *known == retry) {
            return at;
        }
        self.retries.push(retry);
        self.retries.len() - 1
    }

    /// An annotation's attribute as a setting; texts are placeholders.
    pub(crate) fn attribute(
        &mut self,
        annotation: &'s Annotation<'s>,
        names: &[&str],
        ty: Option<&str>,
        place: Place,
    ) -> Option<Setting> {
        let arg = names.iter().find_map(|name| annotation.arg(name))?;
        let at = site(place.file, arg.at);
        let value = self.attribute_value(arg, place);
        let value = self.placeholders(value, ty, at);
        Some(self.setting(value, at, false))
    }

    fn attribute_value(&mut self, arg: &'s Expr<'s>, place: Place) -> Value {
        let frame = Frame::new(None, place.file, place.class);
        let value = self.entry(|machine| machine.eval(arg, &Scope::top(frame)));
        self.value(&value, site(place.file, arg.at))
    }

    fn attribute_classes(
        &mut self,
        annotation: &'s Annotation<'s>,
        names: &[&str],
        place: Place,
    ) -> Vec<ExceptionClass> {
        let mut found = Vec::new();
        for name in names {
            // A repeated attribute is Kotlin's vararg.
            for arg in annotation.args.iter().filter(|arg| arg.name.unwrap_or("value") == *name) {
                let frame = Frame::new(None, place.file, place.class);
                let val = self.entry(|machine| machine.eval(&arg.value, &Scope::top(frame)));
                let arg = ArgVal { name: None, val, site: site(place.file, arg.value.at) };
                found.extend(self.exceptions(&[arg]));
            }
        }
        found
    }

    /// `@Retryable` of spring-retry or of Spring Framework 7, or resilience4j's `@Retry`.
    pub(crate) fn annotated_retry(&mut self, annotation: &'s Annotation<'s>, place: Place) -> Option<usize> {
        let at = site(place.file, annotation.at);
        if annotation.simple() == "Retry" {
            let name = self.attribute(annotation, &["name", "value"], None, place)?;
            let mut retry = self.new_retry(RetryKind::Resilience4j, at);
            retry.name = name.value.as_str().map(str::to_owned);
            retry.complete = false;
            return Some(self.keep(retry));
        }
        let imports = &self.world.tree(place.file).imports;
        let framework = annotation.name.contains("resilience")
            || imports.iter().any(|import| import.path.starts_with("org.springframework.resilience"))
            || ["maxRetries", "maxRetriesString", "includes", "delay", "delayString"]
                .iter()
                .any(|name| annotation.arg(name).is_some());
        let kind = if framework { RetryKind::Framework } else { RetryKind::SpringRetry };
        let mut retry = self.new_retry(kind, at);
        retry.include = self.attribute_classes(annotation, &["retryFor", "include", "includes", "value"], place);
        retry.exclude = self.attribute_classes(annotation, &["noRetryFor", "exclude", "excludes"], place);
        retry.max_attempts = self.attribute(annotation, &["maxAttempts", "maxAttemptsExpression"], Some("int"), place);
        if framework {
            retry.max_retries = self.attribute(annotation, &["maxRetries", "maxRetriesString"], Some("int"), place);
            retry.delay_ms = self.attribute(annotation, &["delay", "delayString"], Some("Duration"), place);
            retry.multiplier = self.attribute(annotation, &["multiplier", "multiplierString"], Some("double"), place);
            retry.max_delay_ms = self.attribute(annotation, &["maxDelay", "maxDelayString"], Some("Duration"), place);
            retry.jitter_ms = self.attribute(annotation, &["jitter", "jitterString"], Some("Duration"), place);
        } else if let Some(back_off) = nested(annotation, &["backoff"]) {
            retry.delay_ms = self.attribute(back_off, &["delay", "delayExpression", "value"], Some("long"), place);
            retry.multiplier = self.attribute(back_off, &["multiplier", "multiplierExpression"], Some("double"), place);
            retry.max_delay_ms = self.attribute(back_off, &["maxDelay", "maxDelayExpression"], Some("long"), place);
        }
        Some(self.keep(retry))
    }

    /// The settings of a `RetryTemplate`: spring-retry's builder and setters, or Spring Framework 7's `RetryPolicy`.
    pub(crate) fn retry_template(&mut self, target: &Val<'s>, at: Site) -> usize {
        let mut retry = self.new_retry(RetryKind::Template, at);
        match self.force(target) {
            Val::Obj(id) => self.template_settings(id, &mut retry, 0),
            _ => retry.complete = false,
        }
        self.keep(retry)
    }

    fn template_settings(&mut self, id: ObjId, retry: &mut Retry, depth: u32) {
        let (class, made_by, args, log, site) = self.obj(id, |obj| {
            (obj.ty.lib().unwrap_or_default(), obj.made_by, obj.args.clone(), obj.log.clone(), obj.site)
        });
        if depth == 0 {
            retry.span = self.span(site);
        }
        let setting = |machine: &mut Self, arg: Option<&ArgVal<'s>>| {
            let arg = arg?;
            let value = machine.value(&arg.val, arg.site);
            Some(machine.setting(value, arg.site, false))
        };
        match class {
            "SimpleRetryPolicy" | "MaxAttemptsRetryPolicy" => {
                retry.max_attempts = setting(self, args.first()).or(retry.max_attempts.take())
            }
            // `RetryPolicy.withMaxRetries(3)`
            "RetryPolicy" if made_by == "withMaxRetries" => retry.max_retries = setting(self, args.first()),
            _ => {}
        }
        for call in log {
            let first = call.args.first();
            match (&*call.name, class) {
                ("maxAttempts" | "setMaxAttempts", _) => retry.max_attempts = setting(self, first),
                ("maxRetries", _) => retry.max_retries = setting(self, first),
                ("fixedBackoff" | "setBackOffPeriod" | "delay" | "setInitialInterval" | "setMinBackOffPeriod", _) => {
                    retry.delay_ms = setting(self, first);
                }
                ("multiplier" | "setMultiplier", _) => retry.multiplier = setting(self, first),
                ("maxDelay" | "setMaxInterval", _) => retry.max_delay_ms = setting(self, first),
                ("jitter", _) => retry.jitter_ms = setting(self, first),
                ("exponentialBackoff", _) => {
                    retry.delay_ms = setting(self, first);
                    retry.multiplier = setting(self, call.args.get(1));
                    retry.max_delay_ms = setting(self, call.args.get(2));
                }
                ("retryOn" | "includes", _) => retry.include.extend(self.exceptions(&call.args)),
                ("notRetryOn" | "excludes", _) => retry.exclude.extend(self.exceptions(&call.args)),
                ("infiniteRetry", _) => {
                    let value = self.setting(Value::Int(i64::MAX), call.site, false);
                    retry.max_attempts = Some(value);
                }
                ("setRetryPolicy" | "setBackOffPolicy" | "customPolicy" | "customBackoff" | "backOff", _) => {
                    match first.map(|arg| self.force(&arg.val)) {
                        Some(Val::Obj(policy)) if depth < 3 => self.template_settings(policy, retry, depth + 1),
                        _ => retry.complete = false,
                    }
                }
                _ => {}
            }
        }
        for arg in args {
            if let Val::Obj(policy) = self.force(&arg.val)
                && depth < 3
            {
                self.template_settings(policy, retry, depth + 1);
            }
        }
    }

    /// A resilience4j `Retry` object: `Retry.of("name", config)`, `Retry.ofDefaults("name")`, or one of a registry.
    pub(crate) fn resilience4j(&mut self, target: &Val<'s>, at: Site) -> usize {
        let mut retry = self.new_retry(RetryKind::Resilience4j, at);
        retry.complete = false;
        if let Val::Obj(id) = self.force(target) {
            let (args, log) = self.obj(id, |obj| (obj.args.clone(), obj.log.clone()));
            let named = log.iter().filter(|call| call.name == "retry").flat_map(|call| call.args.first());
            let named: Vec<_> = args.iter().chain(named).cloned().collect();
            for arg in named {
                match self.force(&arg.val) {
                    Val::Known(Value::Text(name)) => retry.name = Some(name.to_string()),
                    Val::Obj(config) => {
                        retry.complete = true;
                        let first = |machine: &mut Self, names: &[&str]| machine.settings_of(config, names).pop();
                        retry.max_attempts = first(self, &["maxAttempts"]);
                        retry.delay_ms = first(self, &["waitDuration"]);
                    }
                    _ => {}
                }
            }
        }
        self.keep(retry)
    }

    /// Reactor's `retry(3)` or `retryWhen(Retry.backoff(3, ..))`.
    pub(crate) fn reactor_retry(&mut self, name: &str, args: &[ArgVal<'s>], at: Site) -> usize {
        let mut retry = self.new_retry(RetryKind::Reactor, at);
        let numbers: Vec<ArgVal<'s>> = match args.first().map(|arg| self.force(&arg.val)) {
            Some(Val::Obj(spec)) if name == "retryWhen" => {
                retry.complete = true;
                if let Some(jitter) = self.settings_of(spec, &["jitter"]).pop() {
                    retry.jitter_ms = Some(jitter);
                }
                retry.max_delay_ms = self.settings_of(spec, &["maxBackoff"]).pop();
                self.obj(spec, |obj| obj.args.clone())
            }
            _ if name == "retry" => args.to_vec(),
            _ => {
                retry.complete = false;
                Vec::new()
            }
        };
        let mut settings = numbers.iter().map(|arg| {
            let value = self.value(&arg.val, arg.site);
            self.setting(value, arg.site, false)
        });
        retry.max_retries = settings.next();
        retry.delay_ms = settings.next();
        if name == "retry" && retry.max_retries.is_none() {
            let value = self.setting(Value::Int(i64::MAX), at, false);
            retry.max_retries = Some(value);
        }
        self.keep(retry)
    }

    /// `@RetryableTopic`.
    pub(crate) fn retryable_topic(&mut self, annotation: &'s Annotation<'s>, place: Place) -> RetryTopic {
        let mut topic = RetryTopic::new(self.span(site(place.file, annotation.at)));
        topic.attempts = self.attribute(annotation, &["attempts"], Some("int"), place);
        topic.include = self.attribute_classes(annotation, &["include", "includeNames"], place);
        topic.exclude = self.attribute_classes(annotation, &["exclude", "excludeNames"], place);
        topic.dlt_strategy = self.attribute(annotation, &["dltStrategy"], None, place);
        if let Some(back_off) = nested(annotation, &["backoff", "backOff"]) {
            topic.delay_ms = self.attribute(
                back_off,
                &["delay", "delayExpression", "delayString", "value"],
                Some("Duration"),
                place,
            );
            topic.multiplier = self.attribute(
                back_off,
                &["multiplier", "multiplierExpression", "multiplierString"],
                Some("double"),
                place,
            );
            topic.max_delay_ms = self.attribute(
                back_off,
                &["maxDelay", "maxDelayExpression", "maxDelayString"],
                Some("Duration"),
                place,
            );
            topic.random = self.attribute(back_off, &["random", "randomExpression"], Some("boolean"), place);
            topic.jitter_ms = self.attribute(back_off, &["jitter", "jitterString"], Some("Duration"), place);
        }
        let own =
            ["attempts", "include", "includeNames", "exclude", "excludeNames", "dltStrategy", "backoff", "backOff"];
        for arg in &annotation.args {
            let name = arg.name.unwrap_or("value");
            if own.contains(&name) {
                continue;
            }
            if let Some(setting) = self.attribute(annotation, &[name], None, place) {
                topic.settings.push(Named { name: name.to_owned(), setting });
            }
        }
        topic
    }

    /// A `RetryTopicConfigurationBuilder` whose object is given.
    pub(crate) fn retry_topic(&mut self, id: ObjId) -> RetryTopic {
        let (at, log) = self.obj(id, |obj| (obj.site, obj.log.clone()));
        let mut topic = RetryTopic::new(self.span(at));
        for call in log {
            let settings: Vec<Setting> = call
                .args
                .iter()
                .map(|arg| {
                    let value = self.value(&arg.val, arg.site);
                    self.setting(value, arg.site, call.conditional)
                })
                .collect();
            let mut settings = settings.into_iter();
            match &*call.name {
                "maxAttempts" => topic.attempts = settings.next(),
                "fixedBackOff" => topic.delay_ms = settings.next(),
                "noBackoff" => topic.delay_ms = Some(self.setting(Value::Int(0), call.site, call.conditional)),
                "exponentialBackoff" => {
                    topic.delay_ms = settings.next();
                    topic.multiplier = settings.next();
                    topic.max_delay_ms = settings.next();
                    topic.random = settings.next();
                }
                "uniformRandomBackoff" => {
                    topic.delay_ms = settings.next();
                    topic.max_delay_ms = settings.next();
                }
                "retryOn" => topic.include.extend(self.exceptions(&call.args)),
                "notRetryOn" => topic.exclude.extend(self.exceptions(&call.args)),
                "dltProcessingFailureStrategy" => topic.dlt_strategy = settings.next(),
                "doNotRetryOnDltFailure" | "doNotConfigureDlt" => {
                    let name = if call.name == "doNotConfigureDlt" { "NO_DLT" } else { "FAIL_ON_ERROR" };
                    let value = Value::Constant { owner: "DltStrategy".into(), name: name.into() };
                    topic.dlt_strategy = Some(self.setting(value, call.site, call.conditional));
                }
                "create" => {}
                name => {
                    let setting = settings.next();
                    let setting =
                        setting.unwrap_or_else(|| self.setting(Value::Bool(true), call.site, call.conditional));
                    topic.settings.push(Named { name: name.to_owned(), setting });
                }
            }
        }
        topic
    }
}

/// An annotation inside another: `backoff = @Backoff(..)`, in Kotlin `backoff = Backoff(..)`, which is read as a call.
fn nested<'s>(annotation: &'s Annotation<'s>, names: &[&str]) -> Option<&'s Annotation<'s>> {
    let arg = names.iter().find_map(|name| annotation.arg(name))?;
    match &arg.kind {
        ExprKind::Annotation(inner) => Some(inner),
        _ => None,
    }
}
