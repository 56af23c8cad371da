//! Who writes records to a topic.

use std::future::Future;
use std::sync::Arc;

use crate::record::{Position, ProducerRecord};
use crate::source::SourceError;
use crate::source::memory::Broker;

/// A record that could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PublishError {
    /// Why.
    pub message: String,
}

impl From<SourceError> for PublishError {
    fn from(error: SourceError) -> Self {
        Self { message: error.to_string() }
    }
}

/// Writes records.
pub trait Publisher: Send + Sync {
    /// Writes a record; done when the broker has acknowledged it.
    ///
    /// # Errors
    /// It was not acknowledged. It may be written all the same.
    fn publish(&self, record: ProducerRecord) -> impl Future<Output = Result<Position, PublishError>> + Send;

    /// How many partitions a topic has; `None`: not known.
    fn partitions(&self, topic: &str) -> impl Future<Output = Option<i32>> + Send;
}

impl Publisher for Broker {
    async fn publish(&self, record: ProducerRecord) -> Result<Position, PublishError> {
        Ok(self.send(record)?)
    }

    async fn partitions(&self, topic: &str) -> Option<i32> {
        Broker::partitions(self, topic)
    }
}

impl<P: Publisher> Publisher for Arc<P> {
    fn publish(&self, record: ProducerRecord) -> impl Future<Output = Result<Position, PublishError>> + Send {
        P::publish(self, record)
    }

    fn partitions(&self, topic: &str) -> impl Future<Output = Option<i32>> + Send {
        P::partitions(self, topic)
    }
}
