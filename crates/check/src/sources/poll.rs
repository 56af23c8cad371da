//! `max.poll.records`, `max.poll.interval.ms` and concurrency, as code sets them.

use backfire_jvm::{Analysis, ConsumerFactory, ConsumerProperty, ContainerFactory, Link, Listener, Value};

use super::reader::{Reader, number};
use crate::service::Listener as Base;
use crate::setting::Setting;

/// What decides about a listener's polls, the strongest first: the annotation's `properties`, the container's consumer
/// properties, the consumer factory, Spring Boot.
pub struct Polls<'a> {
    /// Values and places.
    pub reader: &'a Reader<'a>,
    /// The consumer factories.
    pub analysis: &'a Analysis,
    /// What Spring Boot's configuration says.
    pub base: &'a Base,
}

impl Polls<'_> {
    /// Sets the polls of a listener. `factory`: its container factory, where the sources make it.
    pub fn set(&self, listener: &Listener, factory: Option<&ContainerFactory>, into: &mut Base) {
        let setting = |key: &str, base: &Setting<u64>, default: u64| self.of(listener, factory, key, base, default);
        into.max_poll_records = setting("max.poll.records", &self.base.max_poll_records, 500);
        into.max_poll_interval_ms = setting("max.poll.interval.ms", &self.base.max_poll_interval_ms, 300_000);
        let own = listener.concurrency.as_ref().or(factory.and_then(|factory| factory.concurrency.as_ref()));
        into.concurrency = match (own, factory) {
            (Some(concurrency), _) => self.reader.number(concurrency),
            (None, Some(factory)) if factory.boot_configured.is_none() => Setting::default_of(1, "Spring Kafka"),
            _ => self.base.concurrency.clone(),
        };
    }

    fn of(
        &self,
        listener: &Listener,
        factory: Option<&ContainerFactory>,
        key: &str,
        base: &Setting<u64>,
        default: u64,
    ) -> Setting<u64> {
        if let Some(found) = self.annotated(listener, key) {
            return found;
        }
        let Some(factory) = factory else { return self.boots(key, base) };
        let name = format!("kafkaConsumerProperties.{key}");
        if let Some(named) = factory.container_properties.iter().rev().find(|named| named.name == name) {
            return self.reader.setting(&named.setting, "a number", number);
        }
        match &factory.consumer_factory {
            Link::Found { index } => match self.analysis.consumer_factories.get(*index) {
                Some(consumer) => self.made(consumer, key, base, default),
                None => base.clone(),
            },
            Link::Boot | Link::Default => self.boots(key, base),
            Link::Ambiguous { .. } | Link::Missing { .. } | Link::Unknown { .. } => {
                self.reader.unknown(format!("{key}: the consumer factory is not known"), &factory.span)
            }
        }
    }

    /// What holds for the factory that Spring Boot makes: its configuration, and what customizers set over it.
    fn boots(&self, key: &str, base: &Setting<u64>) -> Setting<u64> {
        for customizer in self.analysis.consumer_customizers.iter().rev() {
            let found = customizer.properties.iter().rev().find(|property| property.key.as_str() == Some(key));
            if let Some(property) = found {
                return self.property(property);
            }
            if !customizer.complete {
                let why = format!("{key}: not all that the customizer sets is known");
                return self.reader.unknown(why, &customizer.span);
            }
        }
        base.clone()
    }

    fn property(&self, property: &ConsumerProperty) -> Setting<u64> {
        let setting = backfire_jvm::Setting {
            value: property.value.clone(),
            span: property.span.clone(),
            conditional: property.conditional,
        };
        self.reader.setting(&setting, "a number", number)
    }

    /// What a consumer factory of the sources is given.
    fn made(&self, consumer: &ConsumerFactory, key: &str, base: &Setting<u64>, default: u64) -> Setting<u64> {
        let found = consumer.properties.iter().rev().find(|property| property.key.as_str() == Some(key));
        if let Some(property) = found {
            return self.property(property);
        }
        match (consumer.from_boot, consumer.complete) {
            (true, _) => base.clone(),
            (false, true) => Setting::default_of(default, "Kafka: the consumer factory does not set it"),
            (false, false) => {
                self.reader.unknown(format!("{key}: not all of the consumer's properties are known"), &consumer.span)
            }
        }
    }

    /// `properties = "max.poll.records=50"` of the annotation.
    fn annotated(&self, listener: &Listener, key: &str) -> Option<Setting<u64>> {
        let setting = listener.properties.as_ref()?;
        let of = |text: &str| -> Option<String> {
            // Read as a `.properties` file.
            let mut lines = text.lines().map(str::trim);
            lines.find_map(|line| {
                let rest = line.strip_prefix(key)?.trim_start();
                Some(rest.strip_prefix(['=', ':']).unwrap_or(rest).trim().to_owned())
            })
        };
        let items: Vec<&Value> = match &setting.value {
            Value::List(items) => items.iter().collect(),
            value => vec![value],
        };
        items.into_iter().rev().find_map(|item| {
            let resolved = match self.reader.resolve(item) {
                Ok(resolved) => resolved,
                // A text that is not known may name the key.
                Err(why) if mentions(item, key) => return Some(self.reader.unknown(why, &setting.span)),
                Err(_) => return None,
            };
            let text = of(resolved.as_str()?)?;
            Some(match text.parse() {
                Ok(value) => self.reader.made(value, &setting.span),
                Err(_) => self.reader.unknown(format!("{key} is no number"), &setting.span),
            })
        })
    }
}

/// Whether a text that is put together holds a key.
fn mentions(value: &Value, key: &str) -> bool {
    match value {
        Value::Text(text) => text.contains(key),
        Value::Compute { of: parts, .. } | Value::List(parts) | Value::OneOf(parts) => {
            parts.iter().any(|part| mentions(part, key))
        }
        _ => false,
    }
}
