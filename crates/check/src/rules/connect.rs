//! Rules about Kafka Connect sinks.

use super::Rule;
use crate::connect::Maker;
use crate::finding::{Finding, Level};

/// BF034.
pub const NEW_ID: Rule = Rule {
    id: "BF034",
    name: "sink-makes-new-ids",
    level: Level::Error,
    summary: "A MongoDB sink gives every delivery of a record a new `_id`.",
    why: "The default `document.id.strategy` is `BsonOidStrategy`. After a rebalance or a restart of the task the records since the last \
          commit are delivered again, and each leaves a second document.",
    page: "Take the `_id` from the record: `ProvidedInKeyStrategy`, `FullKeyStrategy`, `KafkaMetaDataStrategy` (topic, partition, offset), \
           or a business key with `ReplaceOneBusinessKeyStrategy` (the connector's documentation, \"document.id.strategy\").",
    check: |context, findings| {
        for sink in context.service.sinks.iter().filter(|sink| sink.makes_new_ids()) {
            let entry = sink.get("document.id.strategy");
            let message = format!(
                "{}: {} makes a new _id per delivery",
                sink.name,
                entry.map_or("the default document.id.strategy (BsonOidStrategy)", |entry| entry
                    .value
                    .rsplit('.')
                    .next()
                    .unwrap_or("it"))
            );
            findings.push(
                Finding::new(message)
                    .at(Some(entry.map_or(&sink.place, |entry| &entry.place)))
                    .fix("\"document.id.strategy\": \"com.mongodb.kafka.connect.sink.processor.id.strategy.KafkaMetaDataStrategy\""),
            );
        }
    },
};

/// BF035.
pub const TOLERANCE: Rule = Rule {
    id: "BF035",
    name: "sink-drops-writes",
    level: Level::Error,
    summary: "A sink tolerates all errors and has no dead-letter topic.",
    why: "A bulk that times out is logged or not even that, its records are committed, and nobody knows whether they were written. That \
          is loss, the mirror image of a copy.",
    page: "Set `errors.deadletterqueue.topic.name`, or `mongo.errors.tolerance` to `data` (connector 1.11 and later) or `none`.",
    check: |context, findings| {
        for sink in &context.service.sinks {
            if let Some(entry) = sink.tolerance().filter(|entry| entry.value.eq_ignore_ascii_case("all"))
                && sink.dead_letter_topic().is_none()
            {
                let message =
                    format!("{}: errors.tolerance=all without a dead-letter topic drops what fails", sink.name);
                findings.push(
                    Finding::new(message)
                        .at(Some(&entry.place))
                        .fix("\"errors.deadletterqueue.topic.name\": \"orders-dlq\""),
                );
            }
        }
    },
};

/// BF036.
pub const OLD_RETRIES: Rule = Rule {
    id: "BF036",
    name: "sink-retries-unused",
    level: Level::Note,
    summary: "A sink has retry settings that its connector does not use for writes.",
    why: "`max.num.retries` and `retries.defer.timeout` are of old connectors; newer ones leave retries to the driver, and a failed \
          write ends the task. `errors.retry.timeout` repeats conversions, never `put()`.",
    page: "Count on the driver's one resend, a dead-letter topic and a restart of the task (the connector's source, `StartedMongoSinkTask`).",
    check: |context, findings| {
        for sink in context.service.sinks.iter().filter(|sink| sink.maker == Maker::Mongodb) {
            for key in ["max.num.retries", "retries.defer.timeout", "errors.retry.timeout"] {
                if let Some(entry) = sink.get(key) {
                    let message =
                        format!("{}: {key}={} does not retry writes in current connectors", sink.name, entry.value);
                    findings.push(Finding::new(message).at(Some(&entry.key)));
                }
            }
        }
    },
};
