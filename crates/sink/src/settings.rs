//! What a sink does.

use std::collections::BTreeMap;
use std::time::Duration;

use backfire_consumer::{
    BoundedMode, Bounds, ContainerSettings, Destination, Mode as ContainerMode, Recovery, RetrySettings, Terminal,
    WholeBatch,
};
use backfire_model::back_off::{BackOff, Exponential};

use crate::options;

/// Whether writing twice is writing once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The document with this identity is replaced or made.
    #[default]
    Upsert,
    /// A new document.
    Insert,
}

/// What identifies a record's document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Id {
    /// Where the record stands: `_id` is `topic-partition-offset`.
    #[default]
    Record,
    /// The record's key is `_id`.
    Key,
    /// The value's own `_id`.
    Value,
    /// Fields of the value (`write.fields`).
    Fields,
    /// Nothing: the driver makes an `_id` for each execution. For inserts only.
    None,
}

/// What an upsert does to a document that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum How {
    /// The record's value takes its place.
    #[default]
    Replace,
    /// The value's fields are set, others stay.
    Merge,
}

/// What a record without a value does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delete {
    /// It becomes a dead letter.
    #[default]
    DeadLetter,
    /// It deletes the document with its key as `_id`.
    Delete,
    /// Nothing.
    Skip,
}

/// What is done with records whose retries are spent, where the fault is not their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Then {
    /// The sink ends with an error; nothing of them is committed.
    #[default]
    Stop,
    /// They become dead letters.
    DeadLetter,
}

/// A sink's settings. Their documentation is that of the [`options`].
#[derive(Debug, Clone)]
pub struct Settings {
    pub(crate) group: String,
    pub(crate) kafka: BTreeMap<String, String>,
    pub(crate) consumers: usize,
    pub(crate) mode: Mode,
    pub(crate) id: Id,
    pub(crate) fields: Vec<String>,
    pub(crate) create_index: bool,
    pub(crate) how: How,
    pub(crate) delete: Delete,
    pub(crate) comment: bool,
    pub(crate) max_time_ms: u64,
    pub(crate) first_wait_ms: u64,
    pub(crate) multiplier: f64,
    pub(crate) max_wait_ms: u64,
    pub(crate) jitter: f64,
    pub(crate) max_attempts: u64,
    pub(crate) max_elapsed_ms: u64,
    pub(crate) then: Then,
    pub(crate) dead_letter_suffix: String,
    pub(crate) dead_letter_topic: String,
    pub(crate) send_timeout_ms: u64,
    pub(crate) max_poll_records: usize,
    pub(crate) partitions_at_once: usize,
    pub(crate) max_poll_interval_ms: u64,
    pub(crate) session_timeout_ms: u64,
    pub(crate) drain_timeout_ms: u64,
    pub(crate) patience_ms: u64,
    pub(crate) generated_records: u64,
    pub(crate) generated_partitions: i32,
    pub(crate) generated_bytes: usize,
}

impl Default for Settings {
    /// As the [`options`] say.
    fn default() -> Self {
        let mut settings = Self {
            group: String::new(),
            kafka: BTreeMap::new(),
            consumers: 1,
            mode: Mode::default(),
            id: Id::default(),
            fields: Vec::new(),
            create_index: false,
            how: How::default(),
            delete: Delete::default(),
            comment: false,
            max_time_ms: 0,
            first_wait_ms: 0,
            multiplier: 1.0,
            max_wait_ms: 0,
            jitter: 0.0,
            max_attempts: 1,
            max_elapsed_ms: 0,
            then: Then::default(),
            dead_letter_suffix: String::new(),
            dead_letter_topic: String::new(),
            send_timeout_ms: 0,
            max_poll_records: 1,
            partitions_at_once: 1,
            max_poll_interval_ms: 0,
            session_timeout_ms: 0,
            drain_timeout_ms: 0,
            patience_ms: 0,
            generated_records: 0,
            generated_partitions: 1,
            generated_bytes: 0,
        };
        for row in options::OPTIONS {
            // The table's own tests read every default.
            let _ = row.set_text(&mut settings, row.default);
        }
        settings
    }
}

impl Settings {
    /// Checks what single options cannot.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn validate(&self) -> Result<(), String> {
        let wrong = |text: &str| Err(text.to_owned());
        match (self.mode, self.id, self.fields.is_empty()) {
            (Mode::Upsert, Id::None, _) => wrong("write.mode 'upsert' needs an identity: write.id is 'none'"),
            (_, Id::Fields, true) => wrong("write.id 'fields' needs write.fields"),
            (_, Id::Record | Id::Key | Id::Value | Id::None, false) => {
                wrong("write.fields has no effect unless write.id is 'fields'")
            }
            (Mode::Insert, Id::Fields, _) => wrong("write.id 'fields' is for write.mode 'upsert'"),
            _ => Ok(()),
        }?;
        if self.create_index && self.id != Id::Fields {
            return wrong("write.create_index has no effect unless write.id is 'fields'");
        }
        if self.delete == Delete::Delete && self.id != Id::Key {
            return wrong("write.no_value 'delete' needs write.id 'key': a record without a value has nothing else");
        }
        if self.how == How::Merge && self.fields.iter().any(|field| field.contains('.')) {
            return wrong("write.how 'merge' does not go with a dotted name in write.fields");
        }
        if self.mode == Mode::Insert && self.how == How::Merge {
            return wrong("write.how 'merge' is for write.mode 'upsert'");
        }
        if self.first_wait_ms > self.max_wait_ms {
            return wrong("retry.first_wait_ms is above retry.max_wait_ms");
        }
        if self.drain_timeout_ms >= self.max_poll_interval_ms {
            return wrong("consumer.drain_timeout_ms must be below consumer.max_poll_interval_ms");
        }
        if self.session_timeout_ms > self.max_poll_interval_ms {
            return wrong("consumer.session_timeout_ms must not be above consumer.max_poll_interval_ms");
        }
        Ok(())
    }

    /// The consumer group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// How many records are generated where there is no broker.
    pub fn generated_records(&self) -> u64 {
        self.generated_records
    }

    /// Where dead letters go.
    pub fn destination(&self) -> Destination {
        let topic = Some(self.dead_letter_topic.clone()).filter(|topic| !topic.is_empty());
        Destination {
            topic_suffix: self.dead_letter_suffix.clone(),
            topic,
            consumer_group: Some(self.group.clone()),
            ..Destination::default()
        }
    }

    /// The container's settings.
    pub(crate) fn container(&self) -> ContainerSettings {
        let whole_batch = match self.then {
            // One record after the other would only prolong it.
            Then::Stop => WholeBatch::GiveUpAll,
            Then::DeadLetter => WholeBatch::OneByOne,
        };
        let waits = Exponential {
            max_interval_ms: i64::try_from(self.max_wait_ms).unwrap_or(i64::MAX),
            ..Exponential::new(i64::try_from(self.first_wait_ms).unwrap_or(i64::MAX), self.multiplier)
        };
        let retry = RetrySettings {
            back_off: BackOff::Exponential(waits),
            bounds: Bounds {
                max_attempts: Some(u32::try_from(self.max_attempts).unwrap_or(u32::MAX)),
                max_elapsed_ms: Some(self.max_elapsed_ms).filter(|ms| *ms > 0),
                grant_one_retry: true,
                jitter: self.jitter,
            },
            classifier: crate::writer::classifier(),
            recovery: Some(Recovery { then: Terminal::Block, ..Recovery::default() }),
            ..RetrySettings::bounded()
        };
        let mode = BoundedMode {
            drain_timeout: Duration::from_millis(self.drain_timeout_ms),
            whole_batch,
            partitions_at_once: self.partitions_at_once,
            ..BoundedMode::default()
        };
        ContainerSettings {
            mode: ContainerMode::Bounded(mode),
            retry,
            max_poll_records: self.max_poll_records,
            poll_timeout: Duration::from_secs(1),
            source_patience: Duration::from_millis(self.patience_ms),
            ..ContainerSettings::default()
        }
    }
}
