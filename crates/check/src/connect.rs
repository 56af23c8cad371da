//! Kafka Connect sinks that write to MongoDB: MongoDB's connector and Debezium's, in JSON and `.properties`.
//!
//! Defaults from the public source and documentation of the connectors: `document.id.strategy` is `BsonOidStrategy`, a new `_id`
//! for each delivery; `writemodel.strategy` is `ReplaceOneDefaultStrategy`; `bulk.write.ordered` is true; `errors.tolerance` is
//! `none`. A write that fails ends the task (`DataException`), and nothing retries it but the driver; only connectors before the
//! driver's retryable writes took over honour `max.num.retries` (3) and `retries.defer.timeout` (5000). Kafka Connect's
//! `errors.retry.timeout` is about conversion and transformation, not about `put()`.

use std::collections::BTreeMap;

use crate::discover::{Found, Kind};
use crate::format::tree::{Flaw, Node};
use crate::format::{json, properties};
use crate::source::Place;

/// Whose connector it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// `com.mongodb.kafka.connect.MongoSinkConnector`.
    Mongodb,
    /// `io.debezium.connector.mongodb.sink.MongoDbSinkConnector`.
    Debezium,
}

/// A value of a connector's configuration.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The value.
    pub value: String,
    /// Where the key stands.
    pub key: Place,
    /// Where the value stands.
    pub place: Place,
}

/// A sink.
#[derive(Debug, Clone)]
pub struct Sink {
    /// The connector's name.
    pub name: String,
    /// Whose it is.
    pub maker: Maker,
    /// Where it is told which connector it is.
    pub place: Place,
    /// Its configuration.
    pub config: BTreeMap<String, Entry>,
}

impl Sink {
    /// A value.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.config.get(key)
    }

    /// The connection string.
    pub fn uri(&self) -> Option<&Entry> {
        ["connection.uri", "mongodb.connection.string", "connection.string"].iter().find_map(|key| self.get(key))
    }

    /// The last part of a class name, or a default.
    pub fn class<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.get(key).map_or(default, |entry| entry.value.rsplit('.').next().unwrap_or(default))
    }

    /// Whether every delivery of a record gives the document a new `_id`.
    pub fn makes_new_ids(&self) -> bool {
        if self.maker == Maker::Debezium || self.get("change.data.capture.handler").is_some_and(|e| !e.value.is_empty())
        {
            return false;
        }
        let strategy = self.class("document.id.strategy", "BsonOidStrategy");
        let is_new = matches!(strategy, "BsonOidStrategy" | "UuidStrategy");
        // Strategies that look a business key up do not use the `_id` they are given.
        let by_key = self.class("writemodel.strategy", "").contains("BusinessKey");
        is_new && !by_key
    }

    /// `errors.tolerance` as it applies, and where it was set.
    pub fn tolerance(&self) -> Option<&Entry> {
        self.get("mongo.errors.tolerance")
            .filter(|entry| !entry.value.is_empty())
            .or_else(|| self.get("errors.tolerance"))
    }

    /// The topic of records that are given up.
    pub fn dead_letter_topic(&self) -> Option<&Entry> {
        ["errors.deadletterqueue.topic.name", "mongo.errors.deadletterqueue.topic.name"]
            .iter()
            .find_map(|key| self.get(key))
            .filter(|entry| !entry.value.is_empty())
    }
}

/// The sinks of a file; none where it is about something else.
pub fn read(found: &Found, flaws: &mut Vec<Flaw>) -> Vec<Sink> {
    match found.kind {
        Kind::Json => match json::read(&found.file) {
            Ok(root) => of_json(&root),
            Err(flaw) if found.file.text.contains("connector.class") => {
                flaws.push(flaw);
                Vec::new()
            }
            Err(_) => Vec::new(),
        },
        Kind::Properties => {
            let (documents, _) = properties::read(&found.file);
            let entry =
                |p: properties::Property| (p.key, Entry { value: p.value, key: p.key_place, place: p.value_place });
            documents.into_iter().filter_map(|document| sink(document.into_iter().map(entry).collect(), None)).collect()
        }
        _ => Vec::new(),
    }
}

/// `{name, config}`, the configuration alone, or a list of either.
fn of_json(root: &Node) -> Vec<Sink> {
    let nodes: Vec<&Node> = match &root.value {
        crate::format::tree::Value::List(items) => items.iter().collect(),
        _ => vec![root],
    };
    nodes
        .into_iter()
        .filter_map(|node| {
            let config = node.get("config").unwrap_or(node);
            let name = node.get("name").and_then(Node::text).map(str::to_owned);
            let entries = config.entries().iter().filter_map(|entry| {
                let value = entry.node.text()?.to_owned();
                let place = inside_quotes(&entry.node.place);
                Some((entry.key.clone(), Entry { value, key: entry.key_place.clone(), place }))
            });
            sink(entries.collect(), name)
        })
        .collect()
}

/// The place without its quotation marks.
pub fn inside_quotes(place: &Place) -> Place {
    let range = place.range();
    let text = place.file().text.get(range.clone()).unwrap_or_default();
    let is_quoted = text.len() >= 2 && text.starts_with(['"', '\'']) && text.ends_with(['"', '\'']);
    if is_quoted { Place::new(place.file(), range.start + 1..range.end - 1) } else { place.clone() }
}

fn sink(config: BTreeMap<String, Entry>, name: Option<String>) -> Option<Sink> {
    let class = config.get("connector.class")?;
    let maker = match class.value.as_str() {
        "com.mongodb.kafka.connect.MongoSinkConnector" | "MongoDbAtlasSink" => Maker::Mongodb,
        class if class.starts_with("io.debezium") && class.ends_with("MongoDbSinkConnector") => Maker::Debezium,
        _ => return None,
    };
    let place = class.place.clone();
    let name = name.or_else(|| config.get("name").map(|entry| entry.value.clone()));
    Some(Sink { name: name.unwrap_or_else(|| "sink".to_owned()), maker, place, config })
}
