//! Consumer factories and the properties that the sources give them.

use serde::Serialize;

use crate::index::Ty;
use crate::machine::{Machine, ObjId, Origin, Val};
use crate::span::{Site, Span};
use crate::value::Value;

/// A `DefaultKafkaConsumerFactory` or the like.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConsumerFactory {
    /// The names of its bean; empty for one that is no bean.
    pub names: Vec<String>,
    /// The properties in the order they are set; the last one of a key counts.
    pub properties: Vec<ConsumerProperty>,
    /// Whether they start from what Spring Boot reads (`KafkaProperties.buildConsumerProperties`).
    pub from_boot: bool,
    /// Whether other properties may be there, from something that is not understood.
    pub complete: bool,
    /// Where it is made.
    pub span: Span,
}

/// A Kafka property.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConsumerProperty {
    /// The key: `max.poll.records`. A value that is no text where the key is computed.
    pub key: Value,
    /// The value.
    pub value: Value,
    /// It is set only if some condition holds.
    pub conditional: bool,
    /// The value's place.
    pub span: Span,
}

impl<'s> Machine<'s> {
    pub(crate) fn is_consumer_factory(&self, id: ObjId) -> bool {
        self.is_a(id, "DefaultKafkaConsumerFactory")
            || (self.obj_class(id).is_some() && self.is_a(id, "ConsumerFactory"))
    }

    /// Reads a consumer factory off its object.
    pub(crate) fn consumer_factory(&mut self, id: ObjId) -> ConsumerFactory {
        let (site, args) = self.obj(id, |obj| {
            (obj.site, if obj.ty.class().is_some() { obj.super_args.clone() } else { obj.args.clone() })
        });
        let mut factory = ConsumerFactory {
            names: Vec::new(),
            properties: Vec::new(),
            from_boot: false,
            complete: !args.is_empty(),
            span: self.span(site),
        };
        if let Some(properties) = args.first() {
            self.add_properties(&properties.val, &mut factory, 0);
        }
        self.add_updates(id, &mut factory);
        factory
    }

    fn add_updates(&mut self, id: ObjId, factory: &mut ConsumerFactory) {
        for call in self.logged(id, &["updateConfigs", "setConfigs"]) {
            if let Some(arg) = call.args.first() {
                self.add_properties(&arg.val, factory, 0);
            }
        }
    }

    /// Reads what a `DefaultKafkaConsumerFactoryCustomizer` sets on the factory that Spring Boot makes.
    pub(crate) fn factory_customizer(&mut self, value: &Val<'s>, at: Site) -> Option<ConsumerFactory> {
        let made = self.make(Ty::library("DefaultKafkaConsumerFactory"), Origin::Part, at, Vec::new());
        self.customize(value, made, at)?;
        let mut factory = ConsumerFactory {
            names: Vec::new(),
            properties: Vec::new(),
            from_boot: true,
            complete: true,
            span: self.span(at),
        };
        self.add_updates(made, &mut factory);
        Some(factory)
    }

    pub(crate) fn add_properties(&mut self, map: &Val<'s>, factory: &mut ConsumerFactory, depth: u32) {
        match self.force(map) {
            Val::Obj(id) => {
                let boot = self
                    .obj(id, |obj| obj.ty.lib())
                    .is_some_and(|class| matches!(class, "BootProperties" | "KafkaProperties"));
                if boot {
                    factory.from_boot = true;
                    return;
                }
                match self.entries(id, 0) {
                    Some((entries, bases)) => {
                        for entry in entries {
                            let key = self.value(&entry.key, entry.site);
                            let value = self.value(&entry.val, entry.site);
                            let span = self.span(entry.site);
                            factory.properties.push(ConsumerProperty {
                                key,
                                value,
                                conditional: entry.conditional,
                                span,
                            });
                        }
                        if depth < 4 {
                            for base in bases {
                                self.add_properties(&base, factory, depth + 1);
                            }
                        }
                    }
                    None => factory.complete = false,
                }
            }
            Val::OneOf(parts) => {
                for part in parts.iter() {
                    self.add_properties(part, factory, depth + 1);
                }
                factory.complete = false;
            }
            _ => factory.complete = false,
        }
    }
}
