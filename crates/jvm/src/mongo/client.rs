//! What the sources set on MongoDB clients.

use serde::Serialize;

use crate::analysis::{Named, Setting};
use crate::index::{ClassId, Ty};
use crate::machine::{Logged, Machine, ObjId, Origin, Val};
use crate::span::{Site, Span};

/// A MongoDB client's settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MongoClient {
    /// How they are given.
    pub kind: ClientKind,
    /// The names of the bean; empty where it is none.
    pub names: Vec<String>,
    /// The connection string.
    pub connection_string: Option<Setting>,
    /// Settings in the order they are made; the last one of a name counts. Names as in [`SETTINGS`]; times are in
    /// milliseconds or a [`crate::Value::DurationMs`].
    pub settings: Vec<Named>,
    /// Where.
    pub span: Span,
}

/// How a client's settings are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientKind {
    /// A `MongoClientSettingsBuilderCustomizer`: it comes behind what Spring Boot reads.
    Customizer,
    /// `configureClientSettings` of a class that extends Spring Data's configuration: Spring Boot makes no client then.
    Configuration,
    /// `MongoClientSettings.builder()`.
    Settings,
    /// `MongoClients.create(..)`.
    Create,
}

/// The builder's methods and the names that their settings have here.
pub const SETTINGS: &[(&str, &str)] = &[
    ("timeout", "timeout"),
    ("retryWrites", "retryWrites"),
    ("retryReads", "retryReads"),
    ("writeConcern", "writeConcern"),
    ("readTimeout", "socket.readTimeout"),
    ("connectTimeout", "socket.connectTimeout"),
    ("serverSelectionTimeout", "cluster.serverSelectionTimeout"),
    ("maxSize", "pool.maxSize"),
    ("minSize", "pool.minSize"),
    ("maxWaitTime", "pool.maxWaitTime"),
    ("maxConnecting", "pool.maxConnecting"),
    ("maxConnectionIdleTime", "pool.maxConnectionIdleTime"),
    ("maxConnectionLifeTime", "pool.maxConnectionLifeTime"),
    ("heartbeatFrequency", "server.heartbeatFrequency"),
    ("readPreference", "readPreference"),
    ("readConcern", "readConcern"),
    ("applicationName", "applicationName"),
    ("maxAdaptiveRetries", "maxAdaptiveRetries"),
];

impl<'s> Machine<'s> {
    /// Runs a customizer, a function or an object of the project, on a builder and reads what it set.
    pub(crate) fn customizer(&mut self, value: &Val<'s>, at: Site) -> Option<MongoClient> {
        let builder = self.make(Ty::library("MongoClientSettings.Builder"), Origin::Part, at, Vec::new());
        self.customize(value, builder, at)?;
        let mut client = self.mongo_client(builder, ClientKind::Customizer);
        client.span = self.span(at);
        Some(client)
    }

    /// Runs a customizer of Spring Boot, a function or an object with a method `customize`, on what it customizes.
    pub(crate) fn customize(&mut self, value: &Val<'s>, customized: ObjId, at: Site) -> Option<()> {
        match self.force(value) {
            Val::Fun(function) => {
                self.entry(|machine| machine.invoke(&function, vec![Val::Obj(customized)], None, at));
            }
            Val::Obj(id) => {
                let class = self.obj_class(id)?;
                self.run_on_builder(class, "customize", Val::Obj(id), customized, at)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// `configureClientSettings(builder)` of a configuration class.
    pub(crate) fn configured_client(&mut self, class: ClassId) -> Option<MongoClient> {
        let at = self.world.class_site(class);
        let builder = self.make(Ty::library("MongoClientSettings.Builder"), Origin::Part, at, Vec::new());
        let this = Val::Obj(self.bean_object(class));
        let method_at = self.run_on_builder(class, "configureClientSettings", this, builder, at)?;
        let mut client = self.mongo_client(builder, ClientKind::Configuration);
        client.span = self.span(method_at);
        Some(client)
    }

    fn run_on_builder(&mut self, class: ClassId, name: &str, this: Val<'s>, builder: ObjId, at: Site) -> Option<Site> {
        let arg = crate::machine::ArgVal { name: None, val: Val::Obj(builder), site: at };
        let (owner, method) = self.pick(class, name, std::slice::from_ref(&arg))?;
        method.body.as_ref()?;
        let method_at = Site { file: self.world.info(owner).file, at: method.name_at };
        self.entry(|machine| machine.run_method(owner, method, Some(this), vec![arg], method_at, false));
        Some(method_at)
    }

    /// Reads settings off a builder's or client's object.
    pub(crate) fn mongo_client(&mut self, id: ObjId, kind: ClientKind) -> MongoClient {
        let (site, args) = self.obj(id, |obj| (obj.site, obj.args.clone()));
        let mut client = MongoClient {
            kind,
            names: Vec::new(),
            connection_string: None,
            settings: Vec::new(),
            span: self.span(site),
        };
        if kind == ClientKind::Create
            && let Some(arg) = args.first()
        {
            match self.force(&arg.val) {
                Val::Obj(settings) if self.is_a(settings, "MongoClientSettings") => {
                    let inner = self.mongo_client(settings, ClientKind::Settings);
                    client.connection_string = inner.connection_string;
                    client.settings = inner.settings;
                }
                _ => client.connection_string = Some(self.connection_string(&arg.val, arg.site, false)),
            }
        }
        self.builder_settings(id, &mut client, 0);
        client
    }

    fn builder_settings(&mut self, id: ObjId, client: &mut MongoClient, depth: u32) {
        if depth > 3 {
            return;
        }
        let log = self.obj(id, |obj| obj.log.clone());
        for call in log {
            self.builder_call(&call, client, depth);
        }
    }

    fn builder_call(&mut self, call: &Logged<'s>, client: &mut MongoClient, depth: u32) {
        let Some(arg) = call.args.first() else { return };
        if call.name == "applyConnectionString" {
            client.connection_string = Some(self.connection_string(&arg.val, arg.site, call.conditional));
            return;
        }
        if call.name.starts_with("applyTo") {
            // A block on a builder of its own.
            let inner = self.make(Ty::library("MongoClientSettings.Builder"), Origin::Part, call.site, Vec::new());
            if let Val::Fun(function) = self.force(&arg.val) {
                self.entry(|machine| {
                    machine.invoke(&function, vec![Val::Obj(inner)], Some(Val::Obj(inner)), call.site)
                });
            }
            self.builder_settings(inner, client, depth + 1);
            return;
        }
        let name = call.name.strip_prefix("set").map_or_else(
            || call.name.to_string(),
            |rest| rest.chars().take(1).flat_map(char::to_lowercase).chain(rest.chars().skip(1)).collect(),
        );
        let Some((_, name)) = SETTINGS.iter().find(|(method, _)| *method == name) else { return };
        if *name == "writeConcern" || *name == "readPreference" || *name == "readConcern" {
            let value = self.value(&arg.val, arg.site);
            let setting = self.setting(value, arg.site, call.conditional);
            client.settings.push(Named { name: (*name).to_owned(), setting });
            return;
        }
        let mut value = self.value(&arg.val, arg.site);
        if let Some(unit) = call.args.get(1)
            && let crate::value::Value::Constant { name: unit, .. } = self.value(&unit.val, unit.site)
            && let Some(ms) = crate::machine::unit_ms(&unit)
        {
            use crate::value::{Operation, Value, compute};
            value = compute(Operation::Multiply, vec![value, Value::Int(ms)]);
            value = compute(Operation::DurationOfMs, vec![value]);
        }
        let setting = self.setting(value, arg.site, call.conditional);
        client.settings.push(Named { name: (*name).to_owned(), setting });
    }

    /// A connection string, given as text or as `new ConnectionString(text)`.
    fn connection_string(&mut self, value: &Val<'s>, at: Site, conditional: bool) -> Setting {
        if let Val::Obj(id) = self.force(value)
            && self.is_a(id, "ConnectionString")
            && let Some(arg) = self.obj(id, |obj| obj.args.first().cloned())
        {
            let value = self.value(&arg.val, arg.site);
            return self.setting(value, arg.site, conditional);
        }
        let value = self.value(value, at);
        self.setting(value, at, conditional)
    }
}
