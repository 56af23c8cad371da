//! Listener container factories, and containers that are made without one.

use serde::Serialize;

use crate::analysis::{Link, Named, Setting};
use crate::machine::{Machine, ObjId, Val};
use crate::span::{Site, Span};

/// A `ConcurrentKafkaListenerContainerFactory`, or a container of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContainerFactory {
    /// The names of its bean; empty for one that is no bean.
    pub names: Vec<String>,
    /// A container that is made without a factory.
    pub is_container: bool,
    /// The consumer factory.
    pub consumer_factory: Link,
    /// The error handler that is set; [`Link::Default`]: none.
    pub error_handler: Link,
    /// The after-rollback processor that is set.
    pub after_rollback: Link,
    /// Whether Spring Boot's configurer is applied: then Boot's properties and the one `CommonErrorHandler` bean hold too.
    pub boot_configured: Option<Span>,
    /// `setBatchListener`.
    pub batch: Option<Setting>,
    /// `setConcurrency`.
    pub concurrency: Option<Setting>,
    /// `setAutoStartup`.
    pub auto_startup: Option<Setting>,
    /// `getContainerProperties().setAckMode(..)`.
    pub ack_mode: Option<Setting>,
    /// What else is set on the container's properties: `pollTimeout`, `idleBetweenPolls`, `kafkaConsumerProperties.*`, ...
    pub container_properties: Vec<Named>,
    /// What else is set on the factory.
    pub settings: Vec<Named>,
    /// The place where a transaction manager is set.
    pub transaction_manager: Option<Span>,
    /// Where it is made.
    pub span: Span,
}

/// Setters with a field of their own, or of no interest as values.
const OWN_FIELDS: [&str; 13] = [
    "setConsumerFactory",
    "setCommonErrorHandler",
    "setErrorHandler",
    "setBatchErrorHandler",
    "setAfterRollbackProcessor",
    "setBatchListener",
    "setConcurrency",
    "setAutoStartup",
    "setContainerCustomizer",
    "setRecordMessageConverter",
    "setMessageConverter",
    "setReplyTemplate",
    "setupMessageListener",
];

impl<'s> Machine<'s> {
    /// `Some(true)` for a container, `Some(false)` for a factory.
    pub(crate) fn is_container_or_factory(&self, id: ObjId) -> Option<bool> {
        let classes = self.library_classes(id);
        classes.iter().find_map(|ty| match ty.lib()? {
            "ConcurrentKafkaListenerContainerFactory" | "AbstractKafkaListenerContainerFactory" => Some(false),
            "ConcurrentMessageListenerContainer" | "KafkaMessageListenerContainer" => Some(true),
            _ => None,
        })
    }

    /// Reads a container factory off its object.
    pub(crate) fn container_factory(
        &mut self,
        id: ObjId,
        handlers: &dyn Fn(ObjId) -> Option<usize>,
        consumers: &dyn Fn(ObjId) -> Option<usize>,
    ) -> ContainerFactory {
        let (site, args) = self.obj(id, |obj| (obj.site, obj.args.clone()));
        let is_container = self.is_container_or_factory(id) == Some(true);
        let mut factory = ContainerFactory {
            names: Vec::new(),
            is_container,
            consumer_factory: Link::Default,
            error_handler: Link::Default,
            after_rollback: Link::Default,
            boot_configured: None,
            batch: None,
            concurrency: None,
            auto_startup: None,
            ack_mode: None,
            container_properties: Vec::new(),
            settings: Vec::new(),
            transaction_manager: None,
            span: self.span(site),
        };
        let mut customized = Vec::new();
        if is_container {
            if let Some(arg) = args.first() {
                factory.consumer_factory = self.consumer_link(&arg.val, consumers);
            }
            if let Some(Val::Obj(properties)) = args.get(1).map(|arg| self.force(&arg.val)) {
                customized.push(properties);
            }
        }
        let log = self.obj(id, |obj| obj.log.clone());
        for call in log {
            let Some(arg) = call.args.first() else { continue };
            let setting = |machine: &mut Self| {
                let value = machine.value(&arg.val, arg.site);
                Some(machine.setting(value, arg.site, call.conditional))
            };
            match &*call.name {
                "setConsumerFactory" => factory.consumer_factory = self.consumer_link(&arg.val, consumers),
                "setCommonErrorHandler" | "setErrorHandler" | "setBatchErrorHandler" => {
                    factory.error_handler = self.handler_link(&arg.val, handlers);
                }
                "setAfterRollbackProcessor" => factory.after_rollback = self.handler_link(&arg.val, handlers),
                "<boot>" => {
                    factory.boot_configured = Some(self.span(call.site));
                    if let Some(consumer) = call.args.get(1) {
                        factory.consumer_factory = self.consumer_link(&consumer.val, consumers);
                    }
                }
                "setBatchListener" => factory.batch = setting(self),
                "setConcurrency" => factory.concurrency = setting(self),
                "setAutoStartup" => factory.auto_startup = setting(self),
                "setContainerCustomizer" => {
                    // What it does to each container counts as set on the factory.
                    if let Val::Fun(function) = self.force(&arg.val) {
                        self.entry(|machine| machine.invoke(&function, vec![Val::Obj(id)], None, call.site));
                    }
                }
                name if name.starts_with("set") && !OWN_FIELDS.contains(&name) => {
                    if let (Some(name), Some(setting)) = (crate::machine::setter_property(name), setting(self)) {
                        factory.settings.push(Named { name, setting });
                    }
                }
                _ => {}
            }
        }
        customized.extend(self.obj(id, |obj| obj.parts.get("containerProperties").copied()));
        for properties in customized {
            self.container_properties(properties, "", &mut factory);
        }
        factory
    }

    fn container_properties(&mut self, id: ObjId, prefix: &str, factory: &mut ContainerFactory) {
        let log = self.obj(id, |obj| obj.log.clone());
        for call in log {
            // `kafkaConsumerProperties.put(key, value)`
            if let (false, [key, value]) = (prefix.is_empty(), call.args.as_slice()) {
                let key = self.value(&key.val, key.site);
                let name = format!("{prefix}.{}", key.as_str().unwrap_or("?"));
                let set = self.value(&value.val, value.site);
                let setting = self.setting(set, value.site, call.conditional);
                factory.container_properties.push(Named { name, setting });
                continue;
            }
            let Some(arg) = call.args.first() else { continue };
            let Some(name) = crate::machine::setter_property(&call.name) else { continue };
            match name.as_str() {
                "messageListener" => continue,
                "transactionManager" | "kafkaAwareTransactionManager" => {
                    factory.transaction_manager = Some(self.span(arg.site));
                    continue;
                }
                _ => {}
            }
            let value = self.value(&arg.val, arg.site);
            let setting = self.setting(value, arg.site, call.conditional);
            if name == "ackMode" {
                factory.ack_mode = Some(setting);
            } else {
                factory.container_properties.push(Named { name, setting });
            }
        }
        if prefix.is_empty()
            && let Some(part) = self.obj(id, |obj| obj.parts.get("kafkaConsumerProperties").copied())
        {
            self.container_properties(part, "kafkaConsumerProperties", factory);
        }
    }

    fn consumer_link(&mut self, value: &Val<'s>, consumers: &dyn Fn(ObjId) -> Option<usize>) -> Link {
        match self.force(value) {
            Val::Obj(id) => match consumers(id) {
                Some(index) => Link::Found { index },
                None => Link::Unknown { why: "its class is not known as a consumer factory".to_owned() },
            },
            Val::OneOf(parts) => {
                let found = parts.iter().filter_map(|part| match self.force(part) {
                    Val::Obj(id) => consumers(id),
                    _ => None,
                });
                Link::of(found.collect()).unwrap_or(Link::Unknown { why: "it is not understood".to_owned() })
            }
            Val::Any(any) if any.why == crate::machine::Why::Injected => Link::Boot,
            Val::Many("ObjectProvider" | "Optional", elem) => self.consumer_link(&elem, consumers),
            Val::Any(any) => Link::Unknown { why: any.why.text().to_owned() },
            _ => Link::Unknown { why: "it is not understood".to_owned() },
        }
    }

    pub(crate) fn site_of(&self, id: ObjId) -> Site {
        self.obj(id, |obj| obj.site)
    }
}
