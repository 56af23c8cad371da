//! Rules about configuration as such: keys that nobody reads, values that are not known, files that cannot be read.

use super::Rule;
use crate::finding::{Finding, Level};

/// BF022.
pub const NOT_BOUND: Rule = Rule {
    id: "BF022",
    name: "property-not-bound",
    level: Level::Error,
    summary: "A MongoDB property has the name of another version of Spring Boot.",
    why: "Spring Boot 4 reads `spring.mongodb.*`; the old `spring.data.mongodb.uri` is no longer bound and nothing says so. The \
          service then connects to localhost, or loses all the options of its connection string.",
    page: "Rename the keys; `spring.data.mongodb.auto-index-creation`, `.gridfs.*` and `.repositories.type` keep their names \
           (Spring Boot 4.1.2, `MongoProperties`).",
    check: |context, findings| {
        for unbound in context.service.unbound.iter().filter(|unbound| unbound.is_renamed) {
            findings.push(Finding::new(unbound.message.clone()).at(unbound.place.as_ref()).fix(unbound.fix.clone()));
        }
    },
};

/// BF033.
pub const KAFKA_NAME: Rule = Rule {
    id: "BF033",
    name: "kafka-property-ignored",
    level: Level::Warning,
    summary: "A consumer property is spelled so that nobody reads it.",
    why: "Below `properties:` only Kafka's own dotted name counts, and keys of Spring Boot's own depend on its version. The default \
          applies: 500 records, 300000 ms.",
    page: "`max.poll.interval.ms`, `\"[max.poll.interval.ms]\"` and nested maps give the same name; `max-poll-interval-ms` does not. \
           Spring Boot 3.5 has `spring.kafka.consumer.max-poll-interval` \
           (<https://github.com/spring-projects/spring-boot/pull/44901>).",
    check: |context, findings| {
        for unbound in context.service.unbound.iter().filter(|unbound| !unbound.is_renamed) {
            findings.push(Finding::new(unbound.message.clone()).at(unbound.place.as_ref()).fix(unbound.fix.clone()));
        }
    },
};

/// BF037.
pub const UNKNOWN_VALUE: Rule = Rule {
    id: "BF037",
    name: "value-unknown",
    level: Level::Note,
    summary: "A value that decides cannot be seen.",
    why: "A placeholder has no default, or code computes the value. What is predicted from it is unknown, and no rule can look at it.",
    page: "Give it with `--set NAME=VALUE`, take the environment with `--env`, or state it in `backfire.toml`.",
    check: |context, findings| {
        let client = &context.service.client;
        let mut seen: Vec<String> = Vec::new();
        let mut add = |name: &str, source: &crate::setting::Source, findings: &mut Vec<Finding>| {
            if let crate::setting::Source::Unknown { why, place } = source {
                // One placeholder hides many settings; it is said once. A string that is wrong has its own finding.
                if why.contains("cannot be read") || seen.contains(why) {
                    return;
                }
                seen.push(why.clone());
                let names = why.split_once("what ").and_then(|(_, rest)| rest.strip_suffix(" is"));
                let names = names.filter(|names| !names.replace(", ", "").contains(' '));
                let fix = match names {
                    Some(names) => format!("--set {names}=VALUE"),
                    None if name == "the connection string" => "--uri URI".to_owned(),
                    None => "state it in backfire.toml".to_owned(),
                };
                findings.push(Finding::new(format!("{name} is not known: {why}")).at(place.as_ref()).fix(fix));
            }
        };
        add("the connection string", &client.socket_timeout_ms.source, findings);
        add("timeoutMS", &client.timeout_ms.source, findings);
        add("retryWrites", &client.retry_writes.source, findings);
        for listener in &context.service.listeners {
            add("max.poll.records", &listener.max_poll_records.source, findings);
            add("max.poll.interval.ms", &listener.max_poll_interval_ms.source, findings);
            add("the back-off", &listener.handler.retries.source, findings);
            add("concurrency", &listener.concurrency.source, findings);
            add("what follows the retries", &listener.handler.recoverer.source, findings);
            for layer in listener.inner_layers() {
                add(&layer.name, &layer.source, findings);
            }
        }
    },
};

/// BF038.
pub const UNREADABLE: Rule = Rule {
    id: "BF038",
    name: "file-cannot-be-read",
    level: Level::Warning,
    summary: "A file cannot be read, or only up to a mistake.",
    why: "What stands behind the mistake is not seen, so a setting in it may be missing here. A service may refuse to start with such \
          a file.",
    page: "Files above 4 MiB, files that are not UTF-8, and imports that are not among the paths are named as well.",
    check: |context, findings| {
        for flaw in &context.service.flaws {
            findings.push(Finding::new(flaw.message.clone()).at(Some(&flaw.place)));
        }
    },
};

/// BF047.
pub const NOT_FOLLOWED: Rule = Rule {
    id: "BF047",
    name: "source-not-followed",
    level: Level::Note,
    summary: "Java or Kotlin code could not be read or followed to its end, or nobody knows whether a bean is there.",
    why: "A write or a setting behind that place may be missing here. The prediction then holds for what was found.",
    page: "Syntax that the grammar does not know, files of more than 1 MiB, and calls beyond the limits are named; so are \
           `@Profile` and `@ConditionalOnProperty` whose profile or property is not known (`--profile`, `--set`). State what is missing in \
           `backfire.toml`.",
    check: |context, findings| {
        for flaw in &context.service.not_followed {
            findings.push(Finding::new(flaw.message.clone()).at(Some(&flaw.place)));
        }
    },
};

/// BF039.
pub const BAD_IGNORE: Rule = Rule {
    id: "BF039",
    name: "ignore-without-rule",
    level: Level::Warning,
    summary: "A `backfire-ignore` comment names no rule that exists, or gives no reason.",
    why: "It ignores nothing, while it looks as if it did. A reason lets the next reader judge whether it still holds.",
    page: "Write `backfire-ignore: BF012 why it is fine here`.",
    // The comments are looked at where findings are sifted, see crate::ignores.
    check: |_, _| {},
};

/// BF041.
pub const ENGINE: Rule = Rule {
    id: "BF041",
    name: "engine-without-retryable-writes",
    level: Level::Warning,
    summary: "A test server uses the storage engine `ephemeralForTest`.",
    why: "That engine has no document-level locking, so retryable writes and transactions fail on it. The driver is not at fault.",
    page: "Use the engine `wiredTiger` (<https://github.com/typegoose/mongodb-memory-server/issues/577>).",
    check: |context, findings| {
        for place in &context.service.unsuitable_engines {
            let message = "ephemeralForTest refuses retryable writes and transactions";
            findings.push(Finding::new(message).at(Some(place)).fix("wiredTiger"));
        }
    },
};
