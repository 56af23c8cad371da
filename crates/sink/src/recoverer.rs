//! What is done with records that are given up.

use std::sync::Arc;

use backfire_consumer::{
    DeadLetterRecoverer, Failure, PublishError, Publisher, Record, RecoverError, Recovered, Recoverer, Spent,
    StopHandle,
};
use parking_lot::Mutex;

use crate::record::BAD_RECORD;
use crate::settings::Then;
use crate::writer::{NOT_ALLOWED, WRITE_REFUSED};

/// Why a sink ends by itself; the first reason counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reason(Arc<Mutex<Option<String>>>);

impl Reason {
    pub(crate) fn give(&self, reason: String) {
        self.0.lock().get_or_insert(reason);
    }

    pub(crate) fn take(&self) -> Option<String> {
        self.0.lock().take()
    }
}

/// Makes dead letters of records whose fault it is; what else fails stops the sink, or not, as the settings say.
pub(crate) struct SinkRecoverer<P> {
    pub(crate) letters: Arc<DeadLetterRecoverer<P>>,
    pub(crate) then: Then,
    pub(crate) stop: StopHandle,
    pub(crate) reason: Reason,
}

impl<P: Publisher> Recoverer for SinkRecoverer<P> {
    async fn recover(&self, record: &Record, failure: &Failure, spent: Spent) -> Result<Recovered, RecoverError> {
        let is = |class: &str| failure.outer().class.is_a(class);
        let is_its_fault = is(BAD_RECORD) || is(WRITE_REFUSED);
        if is_its_fault || (self.then == Then::DeadLetter && !is(NOT_ALLOWED)) {
            return self.letters.recover(record, failure, spent).await;
        }
        let place = format!("{}-{}@{}", record.topic, record.partition, record.offset);
        let why = match spent {
            Spent::NotRetryable => "cannot be written".to_owned(),
            _ => format!("could not be written ({spent} spent)"),
        };
        self.reason.give(format!("{place} {why}: {}", failure.outer().message));
        self.stop.stop();
        Err(RecoverError::Publish(PublishError { message: "the sink stops, the record is not given up".to_owned() }))
    }
}
