//! Everything that can be set, as one table: from it come the file's reader, `--set`, and the reference page.

use toml::de::{DeTable, DeValue};

use crate::settings::{Delete, How, Id, Mode, Settings, Then};

/// What an option takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Takes {
    /// A text.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of texts; on the command line separated by commas.
    Texts,
    /// `true` or `false`.
    Bool,
    /// A whole number in this range.
    Count(u64, u64),
    /// A number in this range.
    Number(f64, f64),
}

/// A value that was read, and fits what the option takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text, or one of the words.
    Text(String),
    /// A list.
    Texts(Vec<String>),
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Count(u64),
    /// A number.
    Number(f64),
}

/// An option: its name in the file, what it takes, its default as `--set` would give it, what it does, and how.
pub struct OptionRow {
    /// `section.key`.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// The default.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
    set: fn(&mut Settings, Value),
}

/// An option that cannot be set so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The file is no TOML.
    #[error("{0}")]
    Syntax(String),
    /// There is no such option.
    #[error("{place}there is no option '{name}'{}", .nearest.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default())]
    Unknown {
        /// The line, as the text begins; empty on the command line.
        place: String,
        /// What was written.
        name: String,
        /// The nearest option.
        nearest: Option<&'static str>,
    },
    /// The value does not fit.
    #[error("{place}'{name}' takes {expected}, not {found}")]
    Value {
        /// As above.
        place: String,
        /// The option.
        name: String,
        /// What it takes.
        expected: String,
        /// What was given.
        found: String,
    },
}

macro_rules! rows {
    ($($name:literal, $takes:expr, $default:literal, $doc:literal, $variant:ident($value:ident) => |$settings:ident| $set:expr;)*) => {
        /// The options, in the order of the reference page.
        pub const OPTIONS: &[OptionRow] = &[$(OptionRow {
            name: $name,
            takes: $takes,
            default: $default,
            doc: $doc,
            set: |$settings, value| if let Value::$variant($value) = value { $set },
        }),*];
    };
}

const DAY_MS: u64 = 86_400_000;

rows! {
    "consumer.group", Takes::Text, "backfire-sink",
        "The consumer group. More sinks in one group share its partitions.",
        Text(text) => |settings| settings.group = text;
    "consumer.consumers", Takes::Count(1, 1_000), "1",
        "How many members of the group this sink is. One partition is never in two of them.",
        Count(count) => |settings| settings.consumers = count as usize;
    "consumer.max_poll_records", Takes::Count(1, 100_000), "500",
        "The most records of a poll, and so of a bulk.",
        Count(count) => |settings| settings.max_poll_records = count as usize;
    "consumer.partitions_at_once", Takes::Count(1, 1_000), "4",
        "How many of its partitions each member writes at the same time, each by one bulk at most. With more than one it reads ahead meanwhile: up to eight polls, or 4 MiB.",
        Count(count) => |settings| settings.partitions_at_once = count as usize;
    "consumer.max_poll_interval_ms", Takes::Count(1_000, DAY_MS), "300000",
        "Kafka's max.poll.interval.ms. The sink polls while it writes, so that it does not pass.",
        Count(ms) => |settings| settings.max_poll_interval_ms = ms;
    "consumer.session_timeout_ms", Takes::Count(1_000, DAY_MS), "45000",
        "Kafka's session.timeout.ms: when a member that was killed is out of its group.",
        Count(ms) => |settings| settings.session_timeout_ms = ms;
    "consumer.drain_timeout_ms", Takes::Count(0, DAY_MS), "30000",
        "How long a rebalance, or a stop, waits for a write that runs.",
        Count(ms) => |settings| settings.drain_timeout_ms = ms;
    "consumer.patience_ms", Takes::Count(0, DAY_MS), "60000",
        "How long brokers may be out of reach before the sink ends with an error.",
        Count(ms) => |settings| settings.patience_ms = ms;
    "write.mode", Takes::OneOf(&["upsert", "insert"]), "upsert",
        "An upsert has the same effect however often it is executed. An insert without an identity adds a document each time.",
        Text(text) => |settings| settings.mode = if text == "insert" { Mode::Insert } else { Mode::Upsert };
    "write.id", Takes::OneOf(&["record", "key", "value", "fields", "none"]), "record",
        "What identifies the document: where the record stands (`_id` is `topic-partition-offset`), the record's key as `_id`, the value's own `_id`, fields of the value, or nothing.",
        Text(text) => |settings| settings.id = match text.as_str() {
            "key" => Id::Key,
            "value" => Id::Value,
            "fields" => Id::Fields,
            "none" => Id::None,
            _ => Id::Record,
        };
    "write.fields", Takes::Texts, "",
        "The fields, with `write.id = \"fields\"`. Without a unique index over them, two upserts at the same time may both insert.",
        Texts(fields) => |settings| settings.fields = fields;
    "write.create_index", Takes::Bool, "false",
        "Make that unique index at the start.",
        Bool(create) => |settings| settings.create_index = create;
    "write.how", Takes::OneOf(&["replace", "merge"]), "replace",
        "Whether an upsert replaces the document, or sets the value's fields and leaves others.",
        Text(text) => |settings| settings.how = if text == "merge" { How::Merge } else { How::Replace };
    "write.no_value", Takes::OneOf(&["dead-letter", "delete", "skip"]), "dead-letter",
        "What a record without a value does: it becomes a dead letter, deletes the document with its key, or nothing.",
        Text(text) => |settings| settings.delete = match text.as_str() {
            "delete" => Delete::Delete,
            "skip" => Delete::Skip,
            _ => Delete::DeadLetter,
        };
    "write.comment", Takes::Bool, "true",
        "Put the identity of the bulk's records into the command's `comment`, where `$currentOp` and the log show it (server 4.4).",
        Bool(comment) => |settings| settings.comment = comment;
    "write.max_time_ms", Takes::Count(0, DAY_MS), "0",
        "`maxTimeMS` of each write; 0: none. Below `socketTimeoutMS`, the server answers first.",
        Count(ms) => |settings| settings.max_time_ms = ms;
    "retry.first_wait_ms", Takes::Count(0, DAY_MS), "1000",
        "The wait before the first retry.",
        Count(ms) => |settings| settings.first_wait_ms = ms;
    "retry.multiplier", Takes::Number(1.0, 100.0), "2",
        "How much longer each further wait is.",
        Number(factor) => |settings| settings.multiplier = factor;
    "retry.max_wait_ms", Takes::Count(0, DAY_MS), "30000",
        "The longest wait.",
        Count(ms) => |settings| settings.max_wait_ms = ms;
    "retry.jitter", Takes::Number(0.0, 1.0), "0.5",
        "How much of a wait jitter may take away. It never makes one longer.",
        Number(part) => |settings| settings.jitter = part;
    "retry.max_attempts", Takes::Count(1, 1_000_000), "10",
        "The most executions of a bulk, or of a record alone.",
        Count(count) => |settings| settings.max_attempts = count;
    "retry.max_elapsed_ms", Takes::Count(0, DAY_MS), "300000",
        "No retry begins later than this after the first execution began; 0: no limit.",
        Count(ms) => |settings| settings.max_elapsed_ms = ms;
    "retry.then", Takes::OneOf(&["stop", "dead-letter"]), "stop",
        "What follows when retries are spent: the sink ends with an error and commits nothing of it, or the records become dead letters, each after retries of its own. A record whose fault is its own becomes one at once.",
        Text(text) => |settings| settings.then = if text == "stop" { Then::Stop } else { Then::DeadLetter };
    "dead_letters.suffix", Takes::Text, "-dlt",
        "What is put behind a topic's name to give that of its dead letters.",
        Text(text) => |settings| settings.dead_letter_suffix = text;
    "dead_letters.topic", Takes::Text, "",
        "The topic for all dead letters, in the place of the suffix.",
        Text(text) => |settings| settings.dead_letter_topic = text;
    "dead_letters.send_timeout_ms", Takes::Count(1, DAY_MS), "30000",
        "How long an acknowledgement of a dead letter is waited for. Nothing is committed before it.",
        Count(ms) => |settings| settings.send_timeout_ms = ms;
    "generated.records", Takes::Count(0, 100_000_000), "10000",
        "Without a broker: how many records are made.",
        Count(count) => |settings| settings.generated_records = count;
    "generated.partitions", Takes::Count(1, 1_000), "4",
        "Without a broker: in how many partitions.",
        Count(count) => |settings| settings.generated_partitions = count as i32;
    "generated.bytes", Takes::Count(100, 1_000_000), "500",
        "Without a broker: how long each is.",
        Count(count) => |settings| settings.generated_bytes = count as usize;
}

/// The section whose keys are librdkafka's own properties.
pub const KAFKA_SECTION: &str = "kafka";

impl Takes {
    /// In words.
    pub fn words(self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Texts => "a list of texts".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Count(least, most) => format!("a whole number from {least} to {most}"),
            Self::Number(least, most) => format!("a number from {least} to {most}"),
        }
    }

    /// Reads the value from a text.
    fn read(self, text: &str) -> Option<Value> {
        match self {
            Self::Text => Some(Value::Text(text.to_owned())),
            Self::OneOf(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Self::Texts => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                Some(Value::Texts(parts.map(str::to_owned).collect()))
            }
            Self::Bool => text.parse().ok().map(Value::Bool),
            Self::Count(least, most) => {
                text.parse().ok().filter(|count| (least..=most).contains(count)).map(Value::Count)
            }
            Self::Number(least, most) => {
                text.parse().ok().filter(|number| (least..=most).contains(number)).map(Value::Number)
            }
        }
    }
}

impl OptionRow {
    /// Sets it from a text, as on the command line.
    ///
    /// # Errors
    /// The text does not fit.
    pub fn set_text(&self, settings: &mut Settings, text: &str) -> Result<(), OptionError> {
        self.set_at(settings, text, String::new())
    }

    fn set_at(&self, settings: &mut Settings, text: &str, place: String) -> Result<(), OptionError> {
        let value = self.takes.read(text).ok_or_else(|| self.does_not_fit(text, place))?;
        (self.set)(settings, value);
        Ok(())
    }

    fn does_not_fit(&self, found: &str, place: String) -> OptionError {
        let found = format!("'{}'", found.chars().take(60).collect::<String>());
        OptionError::Value { place, name: self.name.to_owned(), expected: self.takes.words(), found }
    }

    fn set_toml(&self, settings: &mut Settings, value: &DeValue<'_>, place: String) -> Result<(), OptionError> {
        let text = |value: &DeValue<'_>| match (self.takes, value) {
            (Takes::Text | Takes::OneOf(_) | Takes::Texts, DeValue::String(text)) => Some(text.to_string()),
            (Takes::Bool, DeValue::Boolean(truth)) => Some(truth.to_string()),
            (Takes::Count(..) | Takes::Number(..), DeValue::Integer(number)) => Some(number.to_string()),
            (Takes::Number(..), DeValue::Float(number)) => Some(number.to_string()),
            _ => None,
        };
        if let (Takes::Texts, DeValue::Array(items)) = (self.takes, value) {
            let items: Option<Vec<String>> = items.iter().map(|item| text(item.get_ref())).collect();
            let items = items.ok_or_else(|| self.does_not_fit("a list of something else", place))?;
            (self.set)(settings, Value::Texts(items));
            return Ok(());
        }
        match text(value) {
            Some(text) => self.set_at(settings, &text, place),
            None => Err(self.does_not_fit(&plain(value).unwrap_or_else(|| "a table".to_owned()), place)),
        }
    }
}

/// A plain value's text.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Datetime(time) => Some(time.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn find(name: &str, place: String) -> Result<&'static OptionRow, OptionError> {
    OPTIONS.iter().find(|row| row.name == name).ok_or_else(|| {
        let distance = |row: &&OptionRow| {
            // A forgotten section is no typing error.
            let key = row.name.split_once('.').map_or(row.name, |(_, key)| key);
            strsim::damerau_levenshtein(row.name, name).min(strsim::damerau_levenshtein(key, name))
        };
        let nearest = OPTIONS.iter().min_by_key(distance).filter(|row| distance(row) <= name.len() / 2 + 1);
        OptionError::Unknown { place, name: name.chars().take(60).collect(), nearest: nearest.map(|row| row.name) }
    })
}

impl Settings {
    /// Sets one option from texts, as `--set name=value` does.
    ///
    /// # Errors
    /// No such option, or a value that does not fit.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        match name.split_once('.') {
            Some((KAFKA_SECTION, property)) => {
                self.kafka.insert(property.to_owned(), value.to_owned());
                Ok(())
            }
            _ => find(name, String::new())?.set_text(self, value),
        }
    }

    /// Sets what a file says.
    ///
    /// # Errors
    /// No TOML; an option that does not exist, with its line and the nearest one; a value that does not fit.
    pub fn read(&mut self, file: &str) -> Result<(), OptionError> {
        let table =
            DeTable::parse(file).map_err(|error| OptionError::Syntax(error.to_string().trim_end().to_owned()))?;
        let place = |start: usize| {
            let line = file.get(..start).unwrap_or_default().matches('\n').count() + 1;
            format!("line {line}: ")
        };
        for (section, content) in table.get_ref() {
            let section_place = place(section.span().start);
            let DeValue::Table(keys) = content.get_ref() else {
                find(section.get_ref(), section_place.clone())?;
                continue;
            };
            for (key, value) in keys {
                let place = place(key.span().start);
                if section.get_ref() == KAFKA_SECTION {
                    self.kafka_property("", key.get_ref(), value.get_ref(), &place, 0)?;
                    continue;
                }
                let name = format!("{}.{}", section.get_ref(), key.get_ref());
                find(&name, place.clone())?.set_toml(self, value.get_ref(), place)?;
            }
        }
        Ok(())
    }

    /// Takes over a property of librdkafka; dots in its name may have made tables of it.
    fn kafka_property(
        &mut self,
        before: &str,
        key: &str,
        value: &DeValue<'_>,
        place: &str,
        depth: usize,
    ) -> Result<(), OptionError> {
        let name = if before.is_empty() { key.to_owned() } else { format!("{before}.{key}") };
        let refuse = |found: &str| OptionError::Value {
            place: place.to_owned(),
            name: format!("{KAFKA_SECTION}.{name}"),
            expected: "a plain value".to_owned(),
            found: found.to_owned(),
        };
        match value {
            DeValue::Table(keys) if depth < 10 => keys.iter().try_for_each(|(key, value)| {
                self.kafka_property(&name, key.get_ref(), value.get_ref(), place, depth + 1)
            }),
            _ => {
                let text = plain(value).ok_or_else(|| refuse("a list or a table"))?;
                self.kafka.insert(name, text);
                Ok(())
            }
        }
    }
}

/// The reference page.
pub fn reference() -> String {
    let mut page =
        "# The sink's options\n\nEach can stand in the file of `--config` (`[section]`, then `key = value`) \
                    and on the command line (`--set section.key=value`), which wins.\n"
            .to_owned();
    let mut last_section = "";
    for row in OPTIONS {
        let (section, key) = row.name.split_once('.').unwrap_or(("", row.name));
        if section != last_section {
            page.push_str(&format!("\n## [{section}]\n\n| key | takes | default | |\n| --- | --- | --- | --- |\n"));
            last_section = section;
        }
        let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
        page.push_str(&format!("| `{key}` | {} | {default} | {} |\n", row.takes.words(), row.doc));
    }
    page.push_str(&format!(
        "\n## [{KAFKA_SECTION}]\n\nAny property of librdkafka, under its own name: `\"security.protocol\" = \"ssl\"`. \
         Offsets are committed by the sink, so `enable.auto.commit` has no effect.\n"
    ));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_fits() {
        for row in OPTIONS {
            assert!(row.set_text(&mut Settings::default(), row.default).is_ok(), "{}", row.name);
            assert!(row.name.split_once('.').is_some() && row.doc.ends_with('.'), "{}", row.name);
        }
        assert_eq!(Settings::default().validate(), Ok(()));
    }

    #[test]
    fn a_file_and_the_command_line_set_the_same() {
        let mut settings = Settings::default();
        let file = "[write]\nid = \"fields\"\nfields = [\"a\", \"b.c\"]\n[retry]\nmultiplier = 3\njitter = 0.25\n\
                    [kafka]\nsecurity.protocol = \"ssl\"\n\"socket.timeout.ms\" = 1000\n";
        settings.read(file).unwrap();
        assert_eq!((settings.id, settings.fields.join(" ")), (Id::Fields, "a b.c".to_owned()));
        assert_eq!((settings.multiplier, settings.jitter), (3.0, 0.25));
        let kafka: Vec<_> = settings.kafka.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(kafka, ["security.protocol=ssl", "socket.timeout.ms=1000"]);
        let mut same = Settings::default();
        let sets = [
            ("write.id", "fields"),
            ("write.fields", "a, b.c"),
            ("retry.multiplier", "3"),
            ("retry.jitter", "0.25"),
            ("kafka.security.protocol", "ssl"),
            ("kafka.socket.timeout.ms", "1000"),
        ];
        sets.iter().for_each(|(name, value)| same.set(name, value).unwrap());
        assert_eq!(format!("{same:?}"), format!("{settings:?}"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let read = |file: &str| Settings::default().read(file).unwrap_err().to_string();
        let cases = [
            ("[write]\nmood = \"insert\"", "line 2: there is no option 'write.mood'; did you mean 'write.mode'?"),
            ("mode = \"insert\"", "line 1: there is no option 'mode'; did you mean 'write.mode'?"),
            ("\n[write]\n\nmode = \"append\"", "line 4: 'write.mode' takes one of upsert, insert, not 'append'"),
            (
                "[retry]\nmax_attempts = 0",
                "line 2: 'retry.max_attempts' takes a whole number from 1 to 1000000, not '0'",
            ),
            ("[retry]\njitter = \"0.5\"", "line 2: 'retry.jitter' takes a number from 0 to 1, not '0.5'"),
            ("[write]\nfields = [1]", "line 2: 'write.fields' takes a list of texts, not 'a list of something else'"),
            ("[kafka]\na = [1]", "line 2: 'kafka.a' takes a plain value, not a list or a table"),
        ];
        for (file, expected) in cases {
            assert_eq!(read(file), expected);
        }
        assert!(read("[write").contains("line 1"), "{}", read("[write"));
        let unknown = Settings::default().set("write.mood", "x").unwrap_err().to_string();
        assert_eq!(unknown, "there is no option 'write.mood'; did you mean 'write.mode'?");
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let cases: [(&[(&str, &str)], &str); 7] = [
            (&[("write.id", "none")], "needs an identity"),
            (&[("write.id", "fields")], "needs write.fields"),
            (&[("write.fields", "a")], "has no effect"),
            (&[("write.no_value", "delete")], "needs write.id 'key'"),
            (&[("write.mode", "insert"), ("write.how", "merge")], "is for write.mode 'upsert'"),
            (&[("retry.first_wait_ms", "60000")], "above retry.max_wait_ms"),
            (&[("consumer.drain_timeout_ms", "300000")], "below consumer.max_poll_interval_ms"),
        ];
        for (sets, part) in cases {
            let mut settings = Settings::default();
            sets.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
            let error = settings.validate().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_reference_is_in_step() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/sink-options.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, reference()).expect("the page can be written");
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == reference(), "docs/reference/sink-options.md is old; run with UPDATE_DOCS=1");
    }
}
