//! Static methods and constants of libraries, and what a library's call does around the code that it is given.

use std::rc::Rc;

use super::{ArgVal, Call, Machine, Origin, Val, Why, builtin};
use crate::index::{Base, Ty};
use crate::mongo::write::{Around, AroundKind};
use crate::span::Site;
use crate::tree::ClassKind;
use crate::value::{Operation, Value, compute};

/// A library's constant: its value where it matters, else its name.
pub(crate) fn constant(owner: &str, name: &str) -> Value {
    match (owner, name) {
        ("Long", "MAX_VALUE") | ("FixedBackOff", "UNLIMITED_ATTEMPTS") => return Value::Int(i64::MAX),
        ("Integer" | "Int", "MAX_VALUE") => return Value::Int(i64::from(i32::MAX)),
        ("Long", "MIN_VALUE") => return Value::Int(i64::MIN),
        ("FixedBackOff", "DEFAULT_INTERVAL") => return Value::Int(5_000),
        ("ExponentialBackOff", "DEFAULT_INITIAL_INTERVAL") => return Value::Int(2_000),
        ("ExponentialBackOff", "DEFAULT_MULTIPLIER") => return Value::Float(1.5),
        ("ExponentialBackOff", "DEFAULT_MAX_INTERVAL") => return Value::Int(30_000),
        ("ExponentialBackOff", "DEFAULT_MAX_ELAPSED_TIME" | "DEFAULT_MAX_ATTEMPTS") => return Value::Int(i64::MAX),
        ("Boolean", "TRUE") => return Value::Bool(true),
        ("Boolean", "FALSE") => return Value::Bool(false),
        ("Duration", "ZERO") => return Value::DurationMs(0),
        _ => {}
    }
    // Kafka's clients name a setting's key by the key itself.
    if matches!(owner, "ConsumerConfig" | "ProducerConfig" | "CommonClientConfigs")
        && let Some(key) = name.strip_suffix("_CONFIG")
    {
        let key = key.to_ascii_lowercase().replace('_', ".");
        let key = key.strip_suffix(".deserializer.class").map_or(key.clone(), |key| format!("{key}.deserializer"));
        return Value::text(
            key.strip_suffix(".serializer.class").map_or(key.clone(), |key| format!("{key}.serializer")),
        );
    }
    Value::Constant { owner: owner.into(), name: name.into() }
}

/// A `TimeUnit`, `ChronoUnit` or `DurationUnit` in milliseconds.
pub(crate) fn unit_ms(name: &str) -> Option<i64> {
    Some(match name {
        "MILLISECONDS" | "MILLIS" => 1,
        "SECONDS" => 1_000,
        "MINUTES" => 60_000,
        "HOURS" => 3_600_000,
        "DAYS" => 86_400_000,
        _ => return None,
    })
}

/// Whether a call gives back what the code gave that it was given.
pub(crate) fn gives_back(name: &str) -> bool {
    !matches!(name, "forEach" | "subscribe" | "submit" | "runAsync" | "supplyAsync" | "schedule" | "launch" | "thenRun")
}

/// The type of some calls' results, whatever they are called on.
pub(crate) fn result_type<'s>(name: &str) -> Option<Ty<'s>> {
    match name {
        "toString" | "name" | "getName" | "toHexString" | "topic" => Some(Ty::library("String")),
        _ => None,
    }
}

/// What a library's call puts around the code that it is given.
pub(crate) fn around_call<'s>(
    machine: &mut Machine<'s>,
    target: &Val<'s>,
    name: &str,
    args: &[ArgVal<'s>],
    at: Site,
) -> Option<Around> {
    let runs_code = args.iter().any(|arg| matches!(arg.val, Val::Fun(_)))
        || args.iter().any(|arg| matches!(&arg.val, Val::Obj(id) if machine.obj_class(*id).is_some()));
    if !runs_code {
        return None;
    }
    let ty = match target {
        Val::Type(ty) => Some(ty.clone()),
        target => machine.type_of(target),
    };
    let class = ty.as_ref().map_or("", |ty| machine.type_name(ty));
    let detached = |how: &str| Some(AroundKind::Detached { how: how.to_owned() });
    let kind = match (class, name) {
        (_, "executeInTransaction" | "inTransaction" | "withTransaction" | "executeAndAwait" | "transactional") => {
            Some(AroundKind::Transaction { how: name.to_owned() })
        }
        ("TransactionTemplate" | "TransactionalOperator" | "TransactionOperations", _) => {
            Some(AroundKind::Transaction { how: class.to_owned() })
        }
        ("RetryTemplate" | "RetryOperations", "execute" | "invoke") => {
            let retry = machine.retry_template(target, at);
            Some(AroundKind::Retry { retry })
        }
        // resilience4j
        ("Retry", _) if name.starts_with("execute") || name.starts_with("decorate") => {
            let retry = machine.resilience4j(target, at);
            Some(AroundKind::Retry { retry })
        }
        (
            "ExecutorService"
            | "Executor"
            | "TaskExecutor"
            | "AsyncTaskExecutor"
            | "ThreadPoolTaskExecutor"
            | "ScheduledExecutorService"
            | "ForkJoinPool"
            | "Thread"
            | "TaskScheduler",
            _,
        ) => detached(class),
        ("CompletableFuture", "runAsync" | "supplyAsync" | "thenRunAsync" | "thenAcceptAsync" | "thenApplyAsync") => {
            detached("CompletableFuture")
        }
        ("CoroutineScope" | "GlobalScope" | "", "launch" | "async") => detached("coroutine"),
        (_, "onErrorResume" | "onErrorReturn" | "onErrorComplete") => None,
        _ => None,
    }?;
    // What the caller waits for is not detached.
    let is_awaited = machine.awaiting > 0 && matches!(kind, AroundKind::Detached { .. });
    (!is_awaited).then(|| Around { kind, span: machine.span(at) })
}

/// Whether a call waits for the result of what it is called on: `future.join()`, `future.get(5, SECONDS)`, `deferred.await()`.
pub(crate) fn waits(name: &str, arguments: usize) -> bool {
    matches!((name, arguments), ("get", 0 | 2) | ("join" | "await" | "awaitAll" | "resultNow", 0))
}

impl<'s> Machine<'s> {
    /// A static method.
    pub(crate) fn static_call(&mut self, ty: &Ty<'s>, call: Call<'s>) -> Val<'s> {
        let Some(class) = ty.class() else {
            let owner = ty.lib().unwrap_or_default();
            return self.library_static(ty, owner, call);
        };
        if let Some((owner, method)) = self.pick(class, call.name, &call.args) {
            let is_object = self.world.class(owner).kind == ClassKind::Object;
            let this = if is_object { Some(Val::Obj(self.bean_object(owner))) } else { None };
            if method.is_static || is_object {
                return self.run_method(owner, method, this, call.args, call.at, false);
            }
            // `Outer.this.f()`-like forms, or a method reference without a value.
            let this = self.any(Some(ty.clone()), Why::Parameter, call.at);
            return self.run_method(owner, method, Some(this), call.args, call.at, false);
        }
        if let Some(companion) = self.world.companion(class)
            && let Some((owner, method)) = self.pick(companion, call.name, &call.args)
        {
            let this = Val::Obj(self.bean_object(companion));
            return self.run_method(owner, method, Some(this), call.args, call.at, false);
        }
        match call.name {
            // Lombok's builder, and MapStruct's like.
            "builder" | "newBuilder" => {
                let object = self.make(ty.clone(), Origin::New, call.at, Vec::new());
                Val::Obj(object)
            }
            "valueOf" | "values" | "entries" => self.any(Some(ty.clone()), Why::Library, call.at),
            // Lombok's `staticName`.
            "of" | "create" | "from" => self.construct(ty.clone(), call.args, call.at),
            // Kotlin's `Outer.Inner(..)`
            _ if call.name.starts_with(char::is_uppercase) => match self.world.nested_named(class, call.name) {
                Some(inner) => self.construct(Ty::of(Base::Class(inner)), call.args, call.at),
                None => self.unknown_call(&Val::Type(ty.clone()), call),
            },
            _ => self.unknown_call(&Val::Type(ty.clone()), call),
        }
    }

    fn library_static(&mut self, ty: &Ty<'s>, owner: &'s str, call: Call<'s>) -> Val<'s> {
        let first = call.args.first().map(|arg| self.force(&arg.val));
        let known = |machine: &mut Self, op, count: usize| {
            let values = call.args.iter().take(count).map(|arg| machine.value(&arg.val, arg.site)).collect();
            Some(Val::Known(compute(op, values)))
        };
        let scaled = |machine: &mut Self, ms: i64| {
            let value = call.args.first().map(|arg| machine.value(&arg.val, arg.site)).unwrap_or(Value::Null);
            let value = compute(Operation::Multiply, vec![value, Value::Int(ms)]);
            Some(Val::Known(compute(Operation::DurationOfMs, vec![value])))
        };
        let result = match (owner, call.name) {
            ("Duration", "ofMillis") => known(self, Operation::DurationOfMs, 1),
            ("Duration", "ofSeconds") => known(self, Operation::DurationOfSeconds, 1),
            ("Duration", "ofMinutes") => scaled(self, 60_000),
            ("Duration", "ofHours") => scaled(self, 3_600_000),
            ("Duration", "ofDays") => scaled(self, 86_400_000),
            ("Duration", "parse") => known(self, Operation::ToDuration, 1),
            ("Duration", "of") => match call.args.get(1).map(|arg| self.value(&arg.val, arg.site)) {
                Some(Value::Constant { name, .. }) => unit_ms(&name).and_then(|ms| scaled(self, ms)),
                _ => None,
            },
            ("Math", "max") => known(self, Operation::Max, 2),
            ("Math", "min") => known(self, Operation::Min, 2),
            ("Math", "toIntExact") => known(self, Operation::ToInt, 1),
            ("Integer" | "Long", "parseInt" | "parseLong" | "valueOf") => known(self, Operation::ToInt, 1),
            ("Double" | "Float", "parseDouble" | "valueOf") => known(self, Operation::ToFloat, 1),
            ("String", "valueOf") => known(self, Operation::ToText, 1),
            ("Objects", "requireNonNull" | "requireNonNullElse" | "requireNonNullElseGet") => first,
            ("UUID", "randomUUID") | ("ObjectId", "get") => Some(self.any(Some(ty.clone()), Why::Fresh, call.at)),
            (
                "Instant" | "LocalDateTime" | "LocalDate" | "OffsetDateTime" | "ZonedDateTime" | "System" | "Clock",
                "now" | "currentTimeMillis" | "nanoTime" | "systemUTC",
            ) => Some(self.any(Some(ty.clone()), Why::Fresh, call.at)),
            ("List" | "Set", "of" | "copyOf")
            | ("Arrays", "asList")
            | ("Stream", "of")
            | ("Flux", "just")
            | ("Collections", "singletonList" | "singleton" | "emptyList" | "unmodifiableList") => {
                Some(self.list_of(owner, call.args.clone(), call.at))
            }
            ("Flux" | "Mono", "fromIterable" | "fromStream" | "from") => {
                let (elem, _) = first.map_or((Val::Void, false), |first| self.element(&first, call.at));
                Some(Val::Many(owner, Rc::new(elem)))
            }
            (
                "Mono" | "Optional" | "CompletableFuture" | "Result",
                "just" | "of" | "ofNullable" | "justOrEmpty" | "completedFuture" | "success",
            ) => Some(Val::Many(owner, Rc::new(first.unwrap_or(Val::Void)))),
            ("Mono" | "Flux", "defer" | "fromRunnable" | "fromCallable" | "fromSupplier" | "create" | "using") => {
                let mut result = Val::Void;
                for arg in &call.args {
                    result = self.run_argument(arg, call.at);
                }
                Some(if matches!(result, Val::Many(..)) { result } else { Val::Many("Mono", Rc::new(result)) })
            }
            ("Map", "of" | "ofEntries" | "copyOf")
            | ("Collections", "singletonMap" | "emptyMap" | "unmodifiableMap") => match first {
                Some(Val::Obj(map)) if matches!(call.name, "copyOf" | "unmodifiableMap") => Some(Val::Obj(map)),
                _ => {
                    let map = self.make(Ty::library("Map"), Origin::Static, call.at, call.args.clone());
                    self.obj_mut(map, |obj| obj.made_by = call.name);
                    Some(Val::Obj(map))
                }
            },
            ("System", "getenv" | "getProperty") => match first {
                Some(Val::Known(Value::Text(key))) => {
                    let default = call.args.get(1).map(|arg| self.value(&arg.val, arg.site));
                    let span = self.span(call.at);
                    let ty = Some("String".to_owned());
                    let property = crate::value::Property { key: key.to_string(), default, ty, unit_ms: None, span };
                    Some(Val::Known(Value::Property(Box::new(property))))
                }
                _ => None,
            },
            ("Map", "entry") => {
                let entry = self.make(Ty::library("Entry"), Origin::Static, call.at, call.args.clone());
                Some(Val::Obj(entry))
            }
            ("MongoClients", "create") => {
                Some(self.library_made(ty, "MongoClients", call.name, call.args.clone(), call.at))
            }
            ("MongoClient", "create" | "Factory") => {
                Some(self.library_made(ty, "MongoClients", call.name, call.args.clone(), call.at))
            }
            _ => None,
        };
        if let Some(result) = result {
            return result;
        }
        let full = match call.name {
            "builder" | "newBuilder" | "custom" | "newInstance" => owner,
            _ if builtin::is_fluent(owner) => owner,
            _ => {
                return match self.mongo_call(&Val::Type(ty.clone()), std::slice::from_ref(ty), &call) {
                    Some(result) => result,
                    None => self.unknown_call(&Val::Type(ty.clone()), call),
                };
            }
        };
        self.library_made(ty, full, call.name, call.args, call.at)
    }

    /// An object that a library's static method makes.
    fn library_made(
        &mut self,
        ty: &Ty<'s>,
        class: &'s str,
        made_by: &'s str,
        args: Vec<ArgVal<'s>>,
        at: Site,
    ) -> Val<'s> {
        let base = match ty.base {
            Base::Library { path, .. } => Base::Library { name: class, path },
            base => base,
        };
        let object = self.make(Ty::of(base), Origin::Static, at, args);
        self.obj_mut(object, |obj| obj.made_by = made_by);
        Val::Obj(object)
    }
}
