//! What library classes' methods do, as far as it matters here.

use std::rc::Rc;

use super::object::getter_property;
use super::{Any, ArgVal, Call, Flow, Machine, ObjId, Origin, Val, Why};
use crate::index::Ty;
use crate::mongo::write::{Around, AroundKind};
use crate::span::Site;
use crate::value::{Operation, Value, compute};

/// Classes whose methods configure them and give them back.
pub(crate) fn is_fluent(name: &str) -> bool {
    matches!(
        name,
        "MongoClientSettings"
            | "MongoClientSettings.Builder"
            | "ConnectionString"
            | "RetryTemplate"
            | "RetryTemplateBuilder"
            | "RetryPolicy"
            | "RetryPolicy.Builder"
            | "RetryConfig"
            | "RetryRegistry"
            | "RetryTopicConfigurationBuilder"
            | "DeadLetterPublishingRecoverer"
            | "Query"
            | "Criteria"
            | "Update"
            | "Updates"
            | "Filters"
            | "Document"
            | "BasicDBObject"
            | "BsonDocument"
            | "FindAndModifyOptions"
            | "FindAndReplaceOptions"
            | "FindOneAndUpdateOptions"
            | "FindOneAndReplaceOptions"
            | "FindOneAndDeleteOptions"
            | "UpdateOptions"
            | "ReplaceOptions"
            | "InsertOneOptions"
            | "InsertManyOptions"
            | "DeleteOptions"
            | "BulkWriteOptions"
            | "BulkOperations"
            | "ReactiveBulkOperations"
            | "MongoCollection"
            | "MongoDatabase"
            | "ExecutableWrite"
            | "InsertOneModel"
            | "UpdateOneModel"
            | "UpdateManyModel"
            | "ReplaceOneModel"
            | "DeleteOneModel"
            | "DeleteManyModel"
            | "TransactionOptions"
            | "ContainerProperties"
            | "ExponentialBackOff"
            | "FixedBackOff"
            | "ExponentialBackOffWithMaxRetries"
            | "Retry"
            | ""
    )
}

/// Further names under which a library calls a function.
pub(crate) fn is_functional(name: &str) -> bool {
    name.starts_with("do") || matches!(name, "submit" | "onNext" | "filter" | "convert" | "compare" | "getOrThrow")
}

impl<'s> Machine<'s> {
    /// `new X(..)` of a library.
    pub(crate) fn library_object(&mut self, ty: Ty<'s>, args: Vec<ArgVal<'s>>, at: Site) -> Val<'s> {
        let name = ty.lib().unwrap_or_default();
        match name {
            "ObjectId" if args.is_empty() => return self.any(Some(ty), Why::Fresh, at),
            "Date" | "Random" | "SecureRandom" => return self.any(Some(ty), Why::Fresh, at),
            "String" | "ObjectId" | "StringBuilder" | "BigDecimal" | "AtomicReference" => {
                if let Some(arg) = args.first() {
                    return self.force(&arg.val);
                }
            }
            "Thread" => {
                let around = Around { kind: AroundKind::Detached { how: "Thread".to_owned() }, span: self.span(at) };
                self.around.push(around);
                for arg in &args {
                    self.run_argument(arg, at);
                }
                self.around.pop();
            }
            _ => {}
        }
        Val::Obj(self.make(ty, Origin::New, at, args))
    }

    /// A method of a library's object.
    pub(crate) fn library_call(&mut self, id: ObjId, call: Call<'s>) -> Val<'s> {
        let target = Val::Obj(id);
        if let Some(result) = self.built_method(id, &call) {
            return result;
        }
        let classes = self.library_classes(id);
        if let Some(result) = self.mongo_call(&target, &classes, &call) {
            return result;
        }
        let class = classes.first().and_then(Ty::lib).unwrap_or_default();
        if class == "Entry"
            && matches!(call.name, "getValue" | "value" | "component2" | "second" | "getKey" | "key" | "first")
        {
            let place = usize::from(!matches!(call.name, "getKey" | "key" | "first"));
            let arg = self.obj(id, |obj| obj.args.get(place).map(|arg| arg.val.clone()));
            return arg.map_or(Val::Void, |value| self.force(&value));
        }
        if class == "KafkaProperties" && call.name.starts_with("build") {
            // The map of what Boot reads: a base that the caller knows.
            let base = self.make(Ty::library("BootProperties"), Origin::Part, call.at, Vec::new());
            let base = ArgVal { name: None, val: Val::Obj(base), site: call.at };
            return Val::Obj(self.make(Ty::library("HashMap"), Origin::New, call.at, vec![base]));
        }
        if self.is_map(id) && matches!((call.name, call.args.len()), ("toMutableMap" | "toMap" | "copyOf", 0)) {
            let base = ArgVal { name: None, val: target, site: call.at };
            return Val::Obj(self.make(Ty::library("HashMap"), Origin::New, call.at, vec![base]));
        }
        if call.args.is_empty()
            && let Some(property) = getter_property(call.name)
        {
            return self.part(id, &property, call.at);
        }
        let prefixed = self.obj(id, |obj| obj.prefix.is_some());
        if prefixed && call.args.is_empty() {
            return match call.name {
                "toMillis" | "toSeconds" | "intValue" | "longValue" | "toString" => {
                    let value = self.object_value(id, call.at);
                    self.known_method(value, call)
                }
                _ => self.part(id, call.name, call.at),
            };
        }
        self.log(id, call.name, call.args.clone(), call.at);
        if matches!(class, "List" | "Map") {
            return Val::Void;
        }
        let fluent = classes.iter().any(|ty| ty.lib().is_some_and(is_fluent));
        if fluent && class != "RetryTemplate" && class != "Retry" {
            return target;
        }
        if matches!(call.name, "build" | "create" | "and" | "config" | "or") {
            return target;
        }
        let setter = call.name.starts_with("set")
            || call.name.starts_with("add")
            || call.name.starts_with("with")
            || call.name == "defaultFalse";
        if setter {
            return target;
        }
        // A container that a factory makes has the factory's settings.
        if matches!(call.name, "createContainer" | "createListenerContainer") {
            return target;
        }
        if fluent && !call.args.iter().any(|arg| matches!(arg.val, Val::Fun(_) | Val::Obj(_))) {
            return target;
        }
        self.unknown_call(&target, call)
    }

    /// A method of a constant or a setting.
    pub(crate) fn known_method(&mut self, value: Value, call: Call<'s>) -> Val<'s> {
        let first = call.args.first().map(|arg| self.value(&arg.val, arg.site));
        let minutes = |value: Value, ms: i64| {
            let ms = compute(Operation::Multiply, vec![value, Value::Int(ms)]);
            Some(compute(Operation::DurationOfMs, vec![ms]))
        };
        let apply = |op, value: Value| Some(compute(op, vec![value]));
        let with = |op, value: Value, first: &Option<Value>| Some(compute(op, vec![value, first.clone()?]));
        if let Value::Constant { name: unit, .. } = &value
            && let Some(unit_ms) = super::statics::unit_ms(unit)
            && let Some(first) = &first
        {
            let ms = compute(Operation::Multiply, vec![first.clone(), Value::Int(unit_ms)]);
            let result = match call.name {
                "toMillis" => Some(ms),
                "toSeconds" => Some(compute(Operation::Divide, vec![ms, Value::Int(1_000)])),
                "toMinutes" => Some(compute(Operation::Divide, vec![ms, Value::Int(60_000)])),
                _ => None,
            };
            if let Some(result) = result {
                return Val::Known(result);
            }
        }
        let result = match call.name {
            "toMillis" | "inWholeMilliseconds" | "getInWholeMilliseconds" => apply(Operation::ToMs, value.clone()),
            "toSeconds" | "getSeconds" | "inWholeSeconds" => apply(Operation::ToSeconds, value.clone()),
            "toMinutes" | "inWholeMinutes" => {
                with(Operation::Divide, compute(Operation::ToSeconds, vec![value.clone()]), &Some(Value::Int(60)))
            }
            "toJavaDuration" | "toKotlinDuration" | "intern" | "trim" | "strip" | "orEmpty" | "toDuration" | "abs" => {
                Some(value.clone())
            }
            "plus" => with(Operation::Add, value.clone(), &first),
            "minus" => with(Operation::Subtract, value.clone(), &first),
            "times" | "multipliedBy" => with(Operation::Multiply, value.clone(), &first),
            "div" | "dividedBy" => with(Operation::Divide, value.clone(), &first),
            "plusMillis" => first.clone().and_then(|ms| {
                let ms = compute(Operation::DurationOfMs, vec![ms]);
                with(Operation::Add, value.clone(), &Some(ms))
            }),
            "plusSeconds" => first.clone().and_then(|seconds| {
                let seconds = compute(Operation::DurationOfSeconds, vec![seconds]);
                with(Operation::Add, value.clone(), &Some(seconds))
            }),
            "milliseconds" => apply(Operation::DurationOfMs, value.clone()),
            "seconds" => apply(Operation::DurationOfSeconds, value.clone()),
            "minutes" => minutes(value.clone(), 60_000),
            "hours" => minutes(value.clone(), 3_600_000),
            "days" => minutes(value.clone(), 86_400_000),
            "toInt" | "toLong" | "intValue" | "longValue" | "toIntOrNull" | "toLongOrNull" => {
                apply(Operation::ToInt, value.clone())
            }
            "toDouble" | "doubleValue" | "toFloat" => apply(Operation::ToFloat, value.clone()),
            "toString" | "name" => apply(Operation::ToText, value.clone()),
            "coerceAtLeast" => with(Operation::Max, value.clone(), &first),
            "coerceAtMost" => with(Operation::Min, value.clone(), &first),
            "split" if matches!(&first, Some(Value::Text(comma)) if &**comma == ",") => {
                apply(Operation::Split, value.clone())
            }
            "equals" => with(Operation::Equal, value.clone(), &first),
            "booleanValue" | "value" | "get" | "java" | "kotlin" | "javaObjectType" => Some(value.clone()),
            "orElse" | "getOrDefault" | "ifEmpty" => with(Operation::OrElse, value.clone(), &first),
            _ => None,
        };
        match result {
            Some(value) => Val::Known(value),
            None => {
                // `props.topics.forEach { }`, and names that only the configuration holds.
                let elem = self.any(None, Why::Library, call.at);
                if call.args.iter().any(|arg| matches!(arg.val, Val::Fun(_))) && !matches!(value, Value::Text(_)) {
                    let many = Val::Many("List", Rc::new(elem));
                    return self.many_method(&many, call);
                }
                self.unknown_call(&Val::Known(value), call)
            }
        }
    }

    /// A method of some value of a library's class, or of a class that is not known.
    pub(crate) fn any_method(&mut self, any: &Rc<Any<'s>>, call: Call<'s>) -> Val<'s> {
        let class = any.ty.as_ref().and_then(Ty::lib).unwrap_or_default();
        let type_arg = |place: usize| any.ty.as_ref().and_then(|ty| ty.args.get(place).cloned());
        match (class, call.name) {
            ("Environment" | "ConfigurableEnvironment" | "PropertyResolver", _) => {
                if let Some(value) = self.environment(call.name, &call.args, call.at) {
                    return value;
                }
            }
            ("ConsumerRecord", "value" | "component2") => return self.any(type_arg(1), any.why, call.at),
            ("ConsumerRecord", "key" | "component1") => return self.any(type_arg(0), any.why, call.at),
            ("Message", "getPayload" | "payload") => return self.any(type_arg(0), any.why, call.at),
            ("Entry" | "Map.Entry" | "Pair", "getValue" | "value" | "second" | "component2") => {
                return self.any(type_arg(1), any.why, call.at);
            }
            ("Entry" | "Map.Entry" | "Pair", "getKey" | "key" | "first" | "component1") => {
                return self.any(type_arg(0), any.why, call.at);
            }
            // Boot's own configuration of a factory.
            ("ConcurrentKafkaListenerContainerFactoryConfigurer", "configure") => {
                if let Some(Val::Obj(factory)) = call.args.first().map(|arg| self.force(&arg.val)) {
                    self.log(factory, "<boot>", call.args, call.at);
                    return Val::Void;
                }
            }
            ("Acknowledgment", "nack") => self.flow = Flow::Thrown,
            // `clock.instant()`
            ("Clock", _) => return self.any(None, Why::Fresh, call.at),
            _ => {}
        }
        // What is read into a class that is named.
        let named = call.types.first().cloned().or_else(|| {
            let given = call
                .args
                .iter()
                .rev()
                .find_map(|arg| if let Val::Type(ty) = &arg.val { Some(ty.clone()) } else { None });
            given.filter(|_| !matches!(call.name, "execute" | "when" | "isAssignableFrom"))
        });
        let result = self.unknown_call(&Val::Any(any.clone()), call.clone());
        let mut why = match &result {
            Val::Any(result) => result.why,
            _ => return result,
        };
        let mut given = vec![any.why];
        for arg in &call.args {
            if let Val::Any(arg) = self.force(&arg.val) {
                given.push(arg.why);
            }
        }
        for stronger in [Why::Fresh, Why::Record, Why::Loaded, Why::Parameter] {
            if given.contains(&stronger) {
                why = stronger;
                break;
            }
        }
        let ty = named.or(match &result {
            Val::Any(result) => result.ty.clone(),
            _ => None,
        });
        self.any(ty, why, call.at)
    }

    /// Kotlin's `let`, `apply` and their like, on any value.
    pub(crate) fn scope_function(&mut self, target: &Val<'s>, call: &Call<'s>) -> Option<Val<'s>> {
        if !self.world.file(call.scope.frame.place.file).kotlin {
            return None;
        }
        let [arg] = call.args.as_slice() else { return None };
        if call.name == "to" {
            let first = ArgVal { name: None, val: target.clone(), site: call.at };
            let entry = self.make(Ty::library("Entry"), Origin::Static, call.at, vec![first, arg.clone()]);
            return Some(Val::Obj(entry));
        }
        let Val::Fun(function) = &arg.val else { return None };
        let function = function.clone();
        Some(match call.name {
            "let" => self.invoke(&function, vec![target.clone()], None, call.at),
            "use" => self.invoke(&function, vec![target.clone()], None, call.at),
            "also" => {
                self.invoke(&function, vec![target.clone()], None, call.at);
                target.clone()
            }
            "apply" => {
                self.invoke(&function, vec![target.clone()], Some(target.clone()), call.at);
                target.clone()
            }
            "run" if !matches!(target, Val::Fun(_)) => {
                self.invoke(&function, vec![target.clone()], Some(target.clone()), call.at)
            }
            "takeIf" | "takeUnless" => {
                self.invoke(&function, vec![target.clone()], None, call.at);
                target.clone()
            }
            "runCatching" => {
                let lambda = Val::Fun(function);
                let with_target = self.swallowing(call.at, |machine| match &lambda {
                    Val::Fun(function) => machine.invoke(function, vec![target.clone()], Some(target.clone()), call.at),
                    _ => Val::Void,
                });
                Val::Many("Result", Rc::new(with_target))
            }
            _ => return None,
        })
    }

    /// Runs code whose exceptions end up in a value.
    fn swallowing(&mut self, at: Site, run: impl FnOnce(&mut Self) -> Val<'s>) -> Val<'s> {
        let kind = AroundKind::Swallow { exceptions: vec!["Throwable".to_owned()], all_failures: true, certain: false };
        self.around.push(Around { kind, span: self.span(at) });
        let value = run(self);
        self.around.pop();
        if self.flow == Flow::Thrown {
            self.flow = Flow::On;
        }
        value
    }

    pub(crate) fn run_catching(&mut self, lambda: &Val<'s>, plain: bool, at: Site) -> Val<'s> {
        let Val::Fun(function) = lambda else { return Val::Void };
        let function = function.clone();
        if plain {
            return self.invoke(&function, Vec::new(), None, at);
        }
        self.swallowing(at, |machine| machine.invoke(&function, Vec::new(), None, at))
    }

    /// Kotlin's functions without a target.
    pub(crate) fn kotlin_function(&mut self, call: &Call<'s>) -> Option<Val<'s>> {
        if !self.world.file(call.scope.frame.place.file).kotlin {
            return None;
        }
        let last = call.args.last().map(|arg| self.force(&arg.val));
        let function = match &last {
            Some(Val::Fun(function)) => Some(function.clone()),
            _ => None,
        };
        Some(match (call.name, function) {
            (
                "listOf" | "mutableListOf" | "arrayListOf" | "setOf" | "mutableSetOf" | "arrayOf" | "emptyList"
                | "emptySet" | "listOfNotNull" | "sequenceOf" | "intArrayOf",
                _,
            ) => self.new_list("List", call.args.to_vec(), call.at),
            ("mapOf" | "mutableMapOf" | "hashMapOf" | "linkedMapOf" | "emptyMap", _) => {
                let map = self.make(Ty::library("Map"), Origin::Static, call.at, call.args.to_vec());
                Val::Obj(map)
            }
            ("buildList" | "buildMap" | "buildSet", Some(function)) => {
                let class = if call.name == "buildMap" { "Map" } else { "List" };
                let built = Val::Obj(self.make(Ty::library(class), Origin::Static, call.at, Vec::new()));
                self.invoke(&function, vec![built.clone()], Some(built.clone()), call.at);
                built
            }
            ("with", Some(function)) => {
                let target = call.args.first().map(|arg| self.force(&arg.val)).unwrap_or(Val::Void);
                self.invoke(&function, vec![target.clone()], Some(target), call.at)
            }
            ("repeat", Some(function)) => {
                self.in_loop(call.at, false, |machine| {
                    let index = machine.any(Some(Ty::library("Int")), Why::Library, call.at);
                    machine.invoke(&function, vec![index], None, call.at);
                });
                Val::Void
            }
            ("runCatching", Some(function)) => {
                let value = self.swallowing(call.at, |machine| machine.invoke(&function, Vec::new(), None, call.at));
                Val::Many("Result", Rc::new(value))
            }
            ("launch" | "async", Some(function)) => {
                let kind = AroundKind::Detached { how: call.name.to_owned() };
                self.around.push(Around { kind, span: self.span(call.at) });
                let value = self.invoke(&function, Vec::new(), None, call.at);
                self.around.pop();
                value
            }
            ("mono" | "flux" | "flow", Some(function)) => {
                let value = self.invoke(&function, Vec::new(), None, call.at);
                Val::Many(if call.name == "mono" { "Mono" } else { "Flux" }, Rc::new(value))
            }
            (
                "run" | "runBlocking" | "coroutineScope" | "supervisorScope" | "withContext" | "withTimeout" | "lazy"
                | "synchronized" | "withTimeoutOrNull",
                Some(function),
            ) => self.invoke(&function, Vec::new(), None, call.at),
            ("maxOf" | "minOf", None) => {
                let op = if call.name == "maxOf" { Operation::Max } else { Operation::Min };
                let values = call.args.iter().map(|arg| self.value(&arg.val, arg.site)).collect();
                Val::Known(compute(op, values))
            }
            ("error", _) => {
                self.flow = Flow::Thrown;
                Val::Void
            }
            ("requireNotNull" | "checkNotNull", _) => call.args.first().map(|arg| self.force(&arg.val))?,
            ("readValue" | "jacksonTypeRef", _) if !call.types.is_empty() => {
                self.any(call.types.first().cloned(), Why::Library, call.at)
            }
            _ => return None,
        })
    }

    /// What stands around the calls in front of a reactive chain's operator: `x.save().onErrorResume(..)`.
    pub(crate) fn chain_around(&mut self, name: &str, args: &[ArgVal<'s>], at: Site) -> Option<Around> {
        let kind = match name {
            "onErrorResume" | "onErrorReturn" | "onErrorComplete" | "onErrorContinue" | "exceptionally" => {
                let certain = !args.iter().any(|arg| {
                    let Val::Fun(function) = &arg.val else { return false };
                    let Some(range) = function.site() else { return true };
                    let text = self.world.text(Site { file: arg.site.file, at: range });
                    text.contains("error(") || text.contains("throw ")
                });
                let filtered = args.len() > 1;
                AroundKind::Swallow {
                    exceptions: vec![if filtered { self.short_text(args[0].site) } else { "Throwable".to_owned() }],
                    all_failures: !filtered,
                    certain,
                }
            }
            "subscribe" => AroundKind::Detached { how: "subscribe".to_owned() },
            "retry" | "retryWhen" => AroundKind::Retry { retry: self.reactor_retry(name, args, at) },
            _ => return None,
        };
        Some(Around { kind, span: self.span(at) })
    }

    /// Some value of a type that was read from the database.
    pub(crate) fn loaded(&self, ty: Option<Ty<'s>>, at: Site) -> Val<'s> {
        self.any(ty, Why::Loaded, at)
    }
}
