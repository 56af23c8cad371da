//! Why an execution failed, as the application sees it: an exception and its causes, by class name.

use std::borrow::Cow;
use std::fmt;

/// The most exceptions of a chain that are kept; deeper causes are dropped.
pub const MAX_LINKS: usize = 32;

/// The exceptions that Spring Kafka wraps around the application's own (facts/client.md D1, "root exception").
pub(crate) const LISTENER_EXECUTION_FAILED: &str =
    "org.springframework.kafka.listener.ListenerExecutionFailedException";
const TIMESTAMPED: &str = "org.springframework.kafka.listener.TimestampedException";

/// The class of an exception and the classes it extends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorClass {
    name: Cow<'static, str>,
    ancestors: Vec<Cow<'static, str>>,
}

impl ErrorClass {
    /// A class by its full name.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), ancestors: Vec::new() }
    }

    /// The same class, which extends this one. The order does not matter.
    #[must_use]
    pub fn extends(mut self, ancestor: impl Into<Cow<'static, str>>) -> Self {
        self.ancestors.push(ancestor.into());
        self
    }

    /// The full name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is this class or extends it.
    pub fn is_a(&self, name: &str) -> bool {
        self.name == name || self.ancestors.iter().any(|ancestor| ancestor == name)
    }
}

/// One exception of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its class.
    pub class: ErrorClass,
    /// Its message.
    pub message: String,
}

impl fmt::Display for Link {
    /// As Java's `Throwable.toString`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class.name(), self.message)
    }
}

/// A failed execution's exception with its causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    outer: Link,
    causes: Vec<Link>,
    about_key: bool,
}

impl Failure {
    /// An exception without a cause.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { outer: Link { class, message: message.into() }, causes: Vec::new(), about_key: false }
    }

    /// The same failure, of the record's key: it cannot be deserialized. Its dead letter has other headers then.
    #[must_use]
    pub fn about_key(mut self) -> Self {
        self.about_key = true;
        self
    }

    /// Whether it is one of the record's key.
    pub fn is_about_key(&self) -> bool {
        self.about_key
    }

    /// The same exception with another as its cause.
    #[must_use]
    pub fn caused_by(mut self, cause: Failure) -> Self {
        self.causes.push(cause.outer);
        self.causes.extend(cause.causes);
        self.causes.truncate(MAX_LINKS - 1);
        self
    }

    /// The exception itself.
    pub fn outer(&self) -> &Link {
        &self.outer
    }

    /// The exception and its causes, outermost first.
    pub fn chain(&self) -> impl Iterator<Item = &Link> {
        std::iter::once(&self.outer).chain(&self.causes)
    }

    /// The first exception of the chain that is the application's and no wrapper of Spring Kafka's; with no other,
    /// the last wrapper.
    pub fn root(&self) -> &Link {
        let is_wrapper = |link: &Link| link.class.is_a(LISTENER_EXECUTION_FAILED) || link.class.is_a(TIMESTAMPED);
        self.chain().find(|link| !is_wrapper(link)).or(self.causes.last()).unwrap_or(&self.outer)
    }

    /// The failure as Spring Kafka hands it to its error handler: in a `ListenerExecutionFailedException`.
    #[must_use]
    pub fn of_listener(self) -> Self {
        if self.outer.class.is_a(LISTENER_EXECUTION_FAILED) {
            return self;
        }
        let class = ErrorClass::new(LISTENER_EXECUTION_FAILED).extends("org.springframework.kafka.KafkaException");
        let about_key = self.about_key;
        Self { about_key, ..Self::new(class, "Listener failed").caused_by(self) }
    }
}

impl fmt::Display for Failure {
    /// The chain on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, link) in self.chain().enumerate() {
            if index > 0 {
                f.write_str("; caused by ")?;
            }
            write!(f, "{link}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_below_the_wrappers_only() {
        let socket = Failure::new(ErrorClass::new("com.mongodb.MongoSocketReadTimeoutException"), "timed out");
        let dao = Failure::new(ErrorClass::new("org.springframework.dao.DataAccessResourceFailureException"), "failed");
        let failure = dao.clone().caused_by(socket);
        assert_eq!(failure.root(), dao.outer());
        let wrapped = failure.of_listener();
        assert_eq!(wrapped.outer().class.name(), LISTENER_EXECUTION_FAILED);
        assert_eq!(wrapped.root(), dao.outer());
        assert_eq!(wrapped.clone().of_listener(), wrapped);
        let alone = Failure::new(ErrorClass::new(TIMESTAMPED), "x");
        assert_eq!(alone.root(), alone.outer());
    }

    #[test]
    fn a_chain_has_a_limit() {
        let mut failure = Failure::new(ErrorClass::new("a.B"), "last");
        for _ in 0..100 {
            failure = Failure::new(ErrorClass::new("a.C"), "wrapper").caused_by(failure);
        }
        assert_eq!(failure.chain().count(), MAX_LINKS);
    }
}
