//! Which failures are tried again.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::failure::{Failure, Link};

/// What Spring Kafka does not retry unless told to: what fails again for sure (facts/client.md D1).
const FATAL: &[&str] = &[
    "org.springframework.kafka.support.serializer.DeserializationException",
    "org.springframework.messaging.converter.MessageConversionException",
    "org.springframework.kafka.support.converter.ConversionException",
    "org.springframework.messaging.handler.invocation.MethodArgumentResolutionException",
    "java.lang.NoSuchMethodException",
    "java.lang.ClassCastException",
];

type Predicate = dyn Fn(&Link) -> bool + Send + Sync;

/// A rule: exceptions it is about, and whether to try again after one.
#[derive(Clone)]
pub struct Rule {
    name: Cow<'static, str>,
    is_about: Arc<Predicate>,
    retryable: bool,
}

impl Rule {
    /// A rule about a class and those that extend it.
    pub fn class(name: impl Into<Cow<'static, str>>, retryable: bool) -> Self {
        let name = name.into();
        let class = name.clone();
        Self { name, is_about: Arc::new(move |link| link.class.is_a(&class)), retryable }
    }

    /// A rule about the exceptions for which `is_about` is true; the name is for `Debug`.
    pub fn when(
        name: impl Into<Cow<'static, str>>,
        is_about: impl Fn(&Link) -> bool + Send + Sync + 'static,
        retryable: bool,
    ) -> Self {
        Self { name: name.into(), is_about: Arc::new(is_about), retryable }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.retryable { "retry" } else { "do not retry" }, self.name)
    }
}

/// Rules in order, and what holds where none does.
#[derive(Debug, Clone)]
pub struct Classifier {
    rules: Vec<Rule>,
    otherwise_retryable: bool,
    traverse_causes: bool,
}

impl Default for Classifier {
    /// Spring Kafka's: everything is retried but deserialization, conversion and the like. No exception of MongoDB's
    /// or of Spring's data access is among those.
    fn default() -> Self {
        Self {
            rules: FATAL.iter().map(|class| Rule::class(*class, false)).collect(),
            otherwise_retryable: true,
            traverse_causes: true,
        }
    }
}

impl Classifier {
    /// No rules; what is not named is retried, or not (`setClassifications`, `defaultFalse`).
    pub fn new(otherwise_retryable: bool) -> Self {
        Self { rules: Vec::new(), otherwise_retryable, traverse_causes: true }
    }

    /// Adds a rule before the others, so that it overrules them (`addNotRetryableExceptions`,
    /// `addRetryableExceptions`).
    #[must_use]
    pub fn with(mut self, rule: Rule) -> Self {
        self.rules.insert(0, rule);
        self
    }

    /// Whether causes count too, as they do unless this is called (`setTraverseCauses`).
    #[must_use]
    pub fn traverse_causes(mut self, traverse_causes: bool) -> Self {
        self.traverse_causes = traverse_causes;
        self
    }

    /// Whether to try again: by the outermost exception that a rule is about, and by its first such rule.
    pub fn is_retryable(&self, failure: &Failure) -> bool {
        let depth = if self.traverse_causes { usize::MAX } else { 1 };
        failure
            .chain()
            .take(depth)
            .find_map(|link| self.rules.iter().find(|rule| (rule.is_about)(link)))
            .map_or(self.otherwise_retryable, |rule| rule.retryable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::ErrorClass;

    /// A chain of classes, outermost first.
    fn failure(classes: &[&'static str]) -> Failure {
        let mut links = classes.iter().rev().map(|class| Failure::new(ErrorClass::new(*class), ""));
        let last = links.next().unwrap();
        links.fold(last, |cause, failure| failure.caused_by(cause))
    }

    fn check(classifier: &Classifier, classes: &[&'static str], retryable: bool) {
        assert_eq!(classifier.is_retryable(&failure(classes)), retryable, "{classes:?} by {classifier:?}");
    }

    #[test]
    fn the_default_retries_all_but_the_fatal() {
        let default = Classifier::default();
        check(&default, &["com.mongodb.MongoSocketReadTimeoutException"], true);
        for class in FATAL {
            check(&default, &[class], false);
            check(&default, &["a.Wrapper", "a.Wrapper", class], false);
            check(&default.clone().traverse_causes(false), &["a.Wrapper", class], true);
        }
    }

    #[test]
    fn rules_added_later_come_first() {
        let classifier = Classifier::default()
            .with(Rule::class("org.springframework.dao.DuplicateKeyException", false))
            .with(Rule::class("java.lang.ClassCastException", true));
        check(&classifier, &["org.springframework.dao.DuplicateKeyException"], false);
        check(&classifier, &["java.lang.ClassCastException"], true);
        check(&classifier, &["java.lang.ClassCastException", "java.lang.NoSuchMethodException"], true);
    }

    #[test]
    fn a_class_rule_is_about_subclasses_and_a_predicate_about_what_it_likes() {
        let timeout = ErrorClass::new("a.ReadTimeout").extends("a.SocketException");
        let failure = Failure::new(timeout, "E11000 duplicate key");
        assert!(Classifier::new(false).with(Rule::class("a.SocketException", true)).is_retryable(&failure));
        let duplicate = Rule::when("duplicate key", |link: &Link| link.message.contains("E11000"), false);
        assert!(!Classifier::new(true).with(duplicate).is_retryable(&failure));
        assert!(!Classifier::new(false).is_retryable(&failure));
    }
}
