//! An analysis as short text, and the `check` that compares it.

use backfire_jvm::*;

/// Splits `== Name.java` sections into files; text before the first is `A.java`, or `A.kt` where it looks like Kotlin.
pub fn files(text: &str) -> Vec<SourceFile<'static>> {
    let mut files: Vec<SourceFile<'static>> = Vec::new();
    for line in text.lines() {
        if let Some(path) = line.trim().strip_prefix("== ") {
            files.push(SourceFile { path: path.to_owned().into(), text: "".into() });
            continue;
        }
        if files.is_empty() {
            if line.trim().is_empty() {
                continue;
            }
            let kotlin = text.contains("fun ") || text.contains("val ");
            let path = if kotlin { "A.kt" } else { "A.java" };
            files.push(SourceFile { path: path.to_owned().into(), text: "".into() });
        }
        if let Some(file) = files.last_mut() {
            let text = file.text.to_mut();
            text.push_str(line);
            text.push('\n');
        }
    }
    files
}

pub fn analyze(text: &str) -> Analysis {
    let files = files(text);
    Project::parse(&files).analyze()
}

/// Compares the lines that begin with one of `kinds` (all where it is empty) with the expected ones.
#[track_caller]
pub fn check(kinds: &[&str], text: &str, expected: &str) {
    let analysis = analyze(text);
    let got = describe(&analysis);
    let wanted = |line: &&str| {
        let trimmed = line.trim_start();
        kinds.is_empty() || kinds.iter().any(|kind| trimmed.starts_with(kind)) || trimmed.starts_with("problem")
    };
    let got: Vec<&str> = got.lines().filter(wanted).map(str::trim).collect();
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(got.join("\n"), expected.join("\n"), "\nof\n{text}");
}

pub fn value(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(is) => is.to_string(),
        Value::Int(i64::MAX) => "MAX".into(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Text(text) => format!("'{text}'"),
        Value::DurationMs(ms) => format!("{ms}ms"),
        Value::Constant { owner, name } => format!("{owner}.{name}"),
        Value::Class(name) => format!("{name}.class"),
        Value::List(items) => format!("[{}]", items.iter().map(self::value).collect::<Vec<_>>().join(", ")),
        Value::Property(property) => match &property.default {
            Some(default) => format!("${{{}:{}}}", property.key, self::value(default)),
            None => format!("${{{}}}", property.key),
        },
        Value::Compute { op, of } => {
            let op = serde_json::to_value(op).expect("an operation is text");
            format!(
                "{}({})",
                op.as_str().unwrap_or_default(),
                of.iter().map(self::value).collect::<Vec<_>>().join(", ")
            )
        }
        Value::OneOf(parts) => format!("either({})", parts.iter().map(self::value).collect::<Vec<_>>().join(" | ")),
        Value::Unknown(unknown) => format!("?{{{}: {}}}", unknown.text, unknown.why),
    }
}

fn setting(setting: &Setting) -> String {
    let if_ = if setting.conditional { " if" } else { "" };
    format!("{}{if_}", value(&setting.value))
}

fn named(settings: &[Named]) -> String {
    settings.iter().map(|it| format!(" {}={}", it.name, setting(&it.setting))).collect()
}

fn optional(parts: &[(&str, &Option<Setting>)]) -> String {
    let parts = parts.iter().filter_map(|(name, it)| it.as_ref().map(|it| format!(" {name}={}", setting(it))));
    parts.collect()
}

fn exceptions(label: &str, classes: &[ExceptionClass]) -> String {
    if classes.is_empty() {
        return String::new();
    }
    format!(" {label}={}", classes.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join("+"))
}

fn back_off(back_off: &BackOff) -> String {
    let kind = match &back_off.kind {
        BackOffKind::Fixed => "fixed".to_owned(),
        BackOffKind::Exponential => "exponential".to_owned(),
        BackOffKind::ExponentialMaxRetries => "exponential-max-retries".to_owned(),
        BackOffKind::Custom { text } => format!("custom {{{text}}}"),
        BackOffKind::Unknown { why } => format!("unknown {{{why}}}"),
    };
    let settings = optional(&[
        ("initial", &back_off.initial_interval_ms),
        ("multiplier", &back_off.multiplier),
        ("max", &back_off.max_interval_ms),
        ("elapsed", &back_off.max_elapsed_ms),
        ("retries", &back_off.max_retries),
        ("jitter", &back_off.jitter_ms),
    ]);
    format!("{kind}{settings}")
}

fn link(link: &Link, name: impl Fn(usize) -> String) -> String {
    match link {
        Link::Found { index } => name(*index),
        Link::Ambiguous { candidates } => {
            format!("one of {}", candidates.iter().map(|index| name(*index)).collect::<Vec<_>>().join("/"))
        }
        Link::Missing { name } => format!("missing {name}"),
        Link::Boot => "boot".into(),
        Link::Default => "default".into(),
        Link::Unknown { why } => format!("unknown ({why})"),
    }
}

fn around(around: &Around, retries: &[Retry]) -> String {
    match &around.kind {
        AroundKind::Loop { over, records: true } => format!("records({over})"),
        AroundKind::Loop { over, .. } => format!("loop({over})"),
        AroundKind::Swallow { exceptions, all_failures, certain } => format!(
            "swallow({}{}{})",
            exceptions.join("+"),
            if *all_failures { "" } else { " some" },
            if *certain { "" } else { " maybe" }
        ),
        AroundKind::Transaction { how } => format!("transaction({how})"),
        AroundKind::Retry { retry } => format!("retry({})", self::retry(&retries[*retry])),
        AroundKind::Detached { how } => format!("detached({how})"),
        AroundKind::OneOfSeveral => "one-of-several".into(),
    }
}

fn retry(retry: &Retry) -> String {
    let kind = serde_json::to_value(retry.kind).expect("a kind is text");
    let name = retry.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    let settings = optional(&[
        ("attempts", &retry.max_attempts),
        ("retries", &retry.max_retries),
        ("delay", &retry.delay_ms),
        ("multiplier", &retry.multiplier),
        ("max", &retry.max_delay_ms),
        ("jitter", &retry.jitter_ms),
    ]);
    format!(
        "{}{name}{settings}{}{}",
        kind.as_str().unwrap_or_default(),
        exceptions("for", &retry.include),
        exceptions("not", &retry.exclude)
    )
}

fn command(command: &Command) -> String {
    match command {
        Command::RunCommand { command } => format!("run-command({})", command.as_deref().unwrap_or("?")),
        other => serde_json::to_value(other).expect("a command")["name"].as_str().unwrap_or_default().to_owned(),
    }
}

fn id(id: &Identity) -> String {
    let kind = serde_json::to_value(id.kind).expect("a kind is text");
    format!("id={}", kind.as_str().unwrap_or_default())
}

fn write(write: &Write, retries: &[Retry]) -> String {
    let mut text = format!("write {} {} {}", write.operation, command(&write.command), id(&write.id));
    let mut add = |part: String| {
        text.push(' ');
        text.push_str(&part);
    };
    if let Some(entity) = &write.entity {
        add(format!("of={entity}"));
    }
    if let Some(collection) = &write.collection {
        add(format!("in={}", value(collection)));
    }
    if write.upsert {
        add("upsert".into());
    }
    if !write.filter.is_empty() {
        add(format!("where={}", write.filter.join("+")));
    }
    if !write.update.is_empty() {
        add(format!("with={}", write.update.join("+")));
    }
    if write.versioned {
        add("versioned".into());
    }
    if let Some(limit) = &write.max_time {
        add(format!("max-time={}{}", setting(&limit.limit), if limit.sent { "" } else { " dropped" }));
    }
    if let Some(bulk) = &write.bulk {
        let operations: Vec<_> = bulk
            .operations
            .iter()
            .map(|it| {
                let mut text = format!("{} {} {}", it.operation, command(&it.command), id(&it.id));
                for (is, word) in [(it.upsert, " upsert"), (it.repeated, " repeated")] {
                    text.push_str(if is { word } else { "" });
                }
                text
            })
            .collect();
        let ordered = bulk.ordered.map_or("?".to_owned(), |it| it.to_string());
        let more = if bulk.complete { "" } else { ", ..." };
        add(format!("bulk(ordered={ordered}: {}{more})", operations.join(", ")));
    }
    if write.conditional {
        add("if".into());
    }
    for it in &write.around {
        add(around(it, retries));
    }
    let path: Vec<_> = write.path.iter().map(|step| step.method.as_str()).collect();
    add(format!("@{} via {}", write.span.line, path.join(" > ")));
    text
}

fn retry_topic(topic: &RetryTopic) -> String {
    let settings = optional(&[
        ("attempts", &topic.attempts),
        ("delay", &topic.delay_ms),
        ("multiplier", &topic.multiplier),
        ("max", &topic.max_delay_ms),
        ("random", &topic.random),
        ("jitter", &topic.jitter_ms),
        ("dlt", &topic.dlt_strategy),
    ]);
    format!(
        "{settings}{}{}{}",
        exceptions("for", &topic.include),
        exceptions("not", &topic.exclude),
        named(&topic.settings)
    )
}

pub fn describe(analysis: &Analysis) -> String {
    let mut lines = Vec::new();
    let handler_name = |index: usize| {
        let handler = &analysis.error_handlers[index];
        handler.names.first().cloned().unwrap_or_else(|| format!("{}@{}", handler.class, handler.span.line))
    };
    let factory_name = |index: usize| {
        let factory = &analysis.container_factories[index];
        factory.names.first().cloned().unwrap_or_else(|| format!("factory@{}", factory.span.line))
    };
    for it in &analysis.listeners {
        let kind = serde_json::to_value(it.kind).expect("a kind is text");
        let parameter = serde_json::to_value(it.parameter).expect("a parameter is text");
        let settings = optional(&[
            ("id", &it.id),
            ("topics", &it.topics),
            ("pattern", &it.topic_pattern),
            ("group", &it.group_id),
            ("containerFactory", &it.container_factory),
            ("concurrency", &it.concurrency),
            ("batch", &it.batch),
            ("autoStartup", &it.auto_startup),
            ("errorHandler", &it.error_handler),
            ("properties", &it.properties),
        ]);
        lines.push(format!(
            "listener {} {} {}{}{}{settings}{} -> {}, {}",
            it.method,
            kind.as_str().unwrap_or_default(),
            parameter.as_str().unwrap_or_default(),
            if it.acknowledges { " ack" } else { "" },
            if it.asynchronous { " async" } else { "" },
            named(&it.attributes),
            link(&it.factory, factory_name),
            link(&it.handler, handler_name),
        ));
        if let Some(topic) = &it.retry_topic {
            lines.push(format!("  retry-topic{}", retry_topic(topic)));
        }
        lines.extend(it.writes.iter().map(|it| format!("  {}", write(it, &analysis.retries))));
    }
    for it in &analysis.error_handlers {
        let kind = serde_json::to_value(it.kind).expect("a kind is text");
        let mut text = format!("handler {} {}", it.names.join("/"), kind.as_str().unwrap_or_default());
        if !it.back_offs.is_empty() {
            text.push_str(&format!(" [{}]", it.back_offs.iter().map(back_off).collect::<Vec<_>>().join(" | ")));
        }
        for recoverer in &it.recoverers {
            let kind = match &recoverer.kind {
                RecovererKind::DeadLetter => "dead-letter".to_owned(),
                RecovererKind::Custom { text } => format!("custom {{{text}}}"),
                RecovererKind::Unknown { why } => format!("unknown {{{why}}}"),
            };
            let resolver = if recoverer.destination_resolver.is_some() { " resolver" } else { "" };
            text.push_str(&format!(" recoverer({kind}{resolver}{})", named(&recoverer.settings)));
        }
        text.push_str(&exceptions("not", &it.not_retryable));
        text.push_str(&exceptions("retry", &it.retryable));
        text.push_str(&exceptions("unclassified", &it.unclassified));
        if let Some(by_default) = it.retries_by_default {
            text.push_str(&format!(" by-default={by_default}"));
        }
        if it.back_off_function.is_some() {
            text.push_str(" back-off-function");
        }
        if let Some(name) = &it.back_off_handler {
            text.push_str(&format!(" waits-by={name}"));
        }
        text.push_str(&named(&it.settings));
        for delegate in &it.delegates {
            text.push_str(&format!(
                " delegate({} ->{})",
                link(&delegate.handler, handler_name),
                exceptions("for", &delegate.exceptions)
            ));
        }
        if !it.overrides.is_empty() {
            text.push_str(&format!(" overrides={}", it.overrides.join("+")));
        }
        lines.push(text);
    }
    for it in &analysis.container_factories {
        let settings = optional(&[
            ("batch", &it.batch),
            ("concurrency", &it.concurrency),
            ("autoStartup", &it.auto_startup),
            ("ackMode", &it.ack_mode),
        ]);
        lines.push(format!(
            "factory {}{}{settings}{}{}{} consumer={} handler={}{}",
            it.names.join("/"),
            if it.is_container { " container" } else { "" },
            named(&it.container_properties),
            named(&it.settings),
            if it.boot_configured.is_some() { " boot" } else { "" },
            link(&it.consumer_factory, |index| {
                let factory = &analysis.consumer_factories[index];
                factory.names.first().cloned().unwrap_or_else(|| format!("@{}", factory.span.line))
            }),
            link(&it.error_handler, handler_name),
            match &it.after_rollback {
                Link::Default => String::new(),
                other => format!(" after-rollback={}", link(other, handler_name)),
            },
        ));
    }
    for it in &analysis.consumer_factories {
        let properties: Vec<_> = it
            .properties
            .iter()
            .map(|it| {
                format!(
                    "{}={}{}",
                    it.key.as_str().unwrap_or("?"),
                    value(&it.value),
                    if it.conditional { " if" } else { "" }
                )
            })
            .collect();
        lines.push(format!(
            "consumer {}{}{} {}",
            it.names.join("/"),
            if it.from_boot { " boot" } else { "" },
            if it.complete { "" } else { " incomplete" },
            properties.join(" ")
        ));
    }
    for it in &analysis.mongo_clients {
        let kind = serde_json::to_value(it.kind).expect("a kind is text");
        lines.push(format!(
            "client {} {}{}{}",
            it.names.join("/"),
            kind.as_str().unwrap_or_default(),
            optional(&[("uri", &it.connection_string)]),
            named(&it.settings)
        ));
    }
    lines.extend(analysis.retry_topics.iter().map(|it| format!("retry-topic-bean{}", retry_topic(it))));
    if !analysis.transaction_managers.is_empty() {
        lines.push(format!("transaction-managers {}", analysis.transaction_managers.len()));
    }
    lines
        .extend(analysis.problems.iter().map(|it| format!("problem {}:{} {}", it.span.file, it.span.line, it.message)));
    lines.join("\n")
}
