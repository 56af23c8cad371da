//! What the sources say, as one value.

use serde::Serialize;

use crate::consumer_factory::ConsumerFactory;
use crate::container::ContainerFactory;
use crate::error_handler::ErrorHandler;
use crate::listener::Listener;
use crate::machine::Machine;
use crate::mongo::client::MongoClient;
use crate::retry::{Retry, RetryTopic};
use crate::span::{Site, Span};
use crate::value::Value;

/// What the sources of a service say.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Analysis {
    /// Who consumes records, and which writes a record causes.
    pub listeners: Vec<Listener>,
    /// Error handlers, after-rollback processors and their settings.
    pub error_handlers: Vec<ErrorHandler>,
    /// Container factories, and containers that are made without one.
    pub container_factories: Vec<ContainerFactory>,
    /// Consumer factories and their properties.
    pub consumer_factories: Vec<ConsumerFactory>,
    /// What `DefaultKafkaConsumerFactoryCustomizer`s set on the factory that Spring Boot makes, in the order of the sources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consumer_customizers: Vec<ConsumerFactory>,
    /// What the sources set on MongoDB clients.
    pub mongo_clients: Vec<MongoClient>,
    /// Retries inside listeners; writes name them by index.
    pub retries: Vec<Retry>,
    /// `RetryTopicConfiguration` beans; `@RetryableTopic` is with its listener.
    pub retry_topics: Vec<RetryTopic>,
    /// Beans of MongoDB transaction managers: without one `@Transactional` is no MongoDB transaction.
    pub transaction_managers: Vec<Span>,
    /// What could not be read or followed.
    pub problems: Vec<Problem>,
}

/// A setting: its value and the place that gives it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// The expression that gives it.
    pub span: Span,
    /// It is set only if some condition holds.
    pub conditional: bool,
}

/// A setting by name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Named {
    /// The setting: a property such as `ackAfterHandle`, or an annotation's attribute.
    pub name: String,
    /// Its value and place.
    #[serde(flatten)]
    pub setting: Setting,
}

/// Another element of the analysis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "link", rename_all = "kebab-case")]
pub enum Link {
    /// It is this one.
    Found {
        /// Its index in the analysis.
        index: usize,
    },
    /// It is one of these.
    Ambiguous {
        /// Their indices.
        candidates: Vec<usize>,
    },
    /// A bean of this name, which the sources do not have.
    Missing {
        /// The name.
        name: String,
    },
    /// What Spring Boot makes.
    Boot,
    /// The library's default.
    Default,
    /// It cannot be told.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// A call on the way to a write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathStep {
    /// The method that is called: `OrderService.store`.
    pub method: String,
    /// The call; for the first step the method's own name.
    pub span: Span,
}

/// Something that could not be read or followed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Problem {
    /// What is wrong, as a clause.
    pub message: String,
    /// Where.
    pub span: Span,
}

/// An exception class that is named somewhere.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExceptionClass {
    /// The simple name.
    pub name: String,
    /// Where it is named.
    pub span: Span,
}

impl Link {
    /// The one or the several that it can be.
    pub fn candidates(&self) -> &[usize] {
        match self {
            Self::Found { index } => std::slice::from_ref(index),
            Self::Ambiguous { candidates } => candidates,
            _ => &[],
        }
    }

    pub(crate) fn of(mut candidates: Vec<usize>) -> Option<Self> {
        candidates.sort_unstable();
        candidates.dedup();
        match candidates.as_slice() {
            [] => None,
            [index] => Some(Self::Found { index: *index }),
            _ => Some(Self::Ambiguous { candidates }),
        }
    }
}

impl<'s> Machine<'s> {
    pub(crate) fn setting(&self, value: Value, site: Site, conditional: bool) -> Setting {
        Setting { value, span: self.span(site), conditional }
    }
}
