//! Listeners of the sources as listeners of the check.

use backfire_jvm::{ContainerFactory, Link, Listener as Found, ListenerKind as FoundKind, Parameter};

use super::handler::Handlers;
use super::poll::Polls;
use super::reader::Reader;
use super::{Sources, exception, topic, write};
use crate::service::{Client, Failure, Handler, Listener, ListenerKind, Write};

/// What listeners are made with.
pub struct Parts<'a> {
    /// The sources.
    pub sources: &'a Sources<'a>,
    /// Values and places.
    pub reader: &'a Reader<'a>,
    /// The client.
    pub client: &'a Client,
    /// A listener of which only the configuration is known.
    pub base: &'a Listener,
    /// What configuration says of retry topics for all listeners.
    pub retry_topics: Option<&'a Handler>,
}

/// The listeners of the sources, but for bindings of Spring Cloud Stream, which configuration tells of: see [`Parts::bound`].
pub fn listeners(parts: &Parts<'_>) -> Vec<Listener> {
    let found = parts.sources.analysis.listeners.iter();
    found.filter(|found| found.kind != FoundKind::StreamBinding).map(|found| parts.listener(found)).collect()
}

impl Parts<'_> {
    fn listener(&self, found: &Found) -> Listener {
        let analysis = &self.sources.analysis;
        let factory = match &found.factory {
            Link::Found { index } => analysis.container_factories.get(*index),
            _ => None,
        };
        let kind = self.kind(found, factory);
        let mut listener = self.base.clone();
        listener.name.clone_from(&found.method);
        listener.place = self.reader.place(&found.span);
        listener.kind = kind;
        listener.is_assumed = false;
        listener.is_asynchronous = found.asynchronous;
        listener.writes = self.writes(found);
        let polls = Polls { reader: self.reader, analysis, base: self.base };
        polls.set(found, factory, &mut listener);
        let not_found = match &found.factory {
            Link::Missing { name } => Some(format!("no bean {name} is in the sources")),
            Link::Unknown { why } => Some(format!("its container factory: {why}")),
            _ => None,
        };
        let by_spring_data = listener.writes.iter().any(|write| write.by_spring_data) || listener.writes.is_empty();
        let raised = exception::of_stall(self.client, by_spring_data);
        let handlers = Handlers {
            reader: self.reader,
            all: &analysis.error_handlers,
            default: &self.base.handler,
            raised: &raised,
        };
        let topic = match &found.retry_topic {
            Some(topic) => Some(topic),
            None => topic::bean_for(&analysis.retry_topics, found, self.reader),
        };
        listener.handler = match (topic, self.retry_topics, factory) {
            (Some(topic), ..) => topic::handler(topic, &self.base.handler, &raised, self.reader),
            (None, Some(handler), _) if kind != ListenerKind::Batch => handler.clone(),
            // In a transaction of Kafka the container rolls back, and the processor decides (facts D1).
            (None, _, Some(factory)) if factory.transaction_manager.is_some() => {
                handlers.linked(&factory.after_rollback, &factory.span, kind, 0)
            }
            _ => handlers.of(found, kind),
        };
        if let Some(why) = not_found {
            let at = &found.span;
            if topic.is_none() {
                listener.handler.retries = self.reader.unknown(why.clone(), at);
            }
            // What Spring Boot's configuration says is for its own factory.
            let base = self.base;
            for (setting, of_boot) in [
                (&mut listener.max_poll_records, &base.max_poll_records),
                (&mut listener.max_poll_interval_ms, &base.max_poll_interval_ms),
                (&mut listener.concurrency, &base.concurrency),
            ] {
                if setting == of_boot {
                    *setting = self.reader.unknown(why.clone(), at);
                }
            }
        }
        if topic.is_some() || (self.retry_topics.is_some() && kind != ListenerKind::Batch) {
            listener.kind = ListenerKind::RetryTopic;
        }
        listener
    }

    fn kind(&self, found: &Found, factory: Option<&ContainerFactory>) -> ListenerKind {
        let set = found.batch.as_ref().or(factory.and_then(|factory| factory.batch.as_ref()));
        let is_batch = match set.and_then(|set| self.reader.flag(set).value) {
            Some(is_batch) => is_batch,
            // Spring Boot sets it on its own factory, and on one that its configurer is applied to.
            None if factory.is_none_or(|factory| factory.boot_configured.is_some())
                && self.base.kind == ListenerKind::Batch =>
            {
                true
            }
            None => set.is_none() && found.parameter == Parameter::Records,
        };
        if is_batch { ListenerKind::Batch } else { ListenerKind::Single }
    }

    fn writes(&self, found: &Found) -> Vec<Write> {
        let analysis = &self.sources.analysis;
        let writes = found.writes.iter().map(|found| write::write(found, analysis, self.client, self.reader));
        let seen = |mut write: Write| {
            // Spring Kafka waits for a future that a listener gives back.
            let is_given_back = matches!(&write.failure, Failure::Detached { how, .. } if how == "CompletableFuture");
            if found.asynchronous && is_given_back {
                write.failure = Failure::Reported;
            }
            write
        };
        writes.map(seen).collect()
    }

    /// The function that a binding of Spring Cloud Stream calls: its writes and its place go into the listener of that binding.
    /// `orders-in-0` calls the bean `orders`.
    pub fn bound(&self, binding: &str, into: &mut Listener) {
        let function = binding.split("-in-").next().unwrap_or(binding);
        let mut bindings = self.sources.analysis.listeners.iter();
        let found = bindings.find(|found| found.kind == FoundKind::StreamBinding && found.method == function);
        if let Some(found) = found {
            into.writes = self.writes(found);
            into.place = into.place.take().or_else(|| self.reader.place(&found.span));
        }
    }

    /// The names of functional beans that write.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        let found = self.sources.analysis.listeners.iter();
        found.filter(|found| found.kind == FoundKind::StreamBinding).map(|found| found.method.as_str())
    }
}
