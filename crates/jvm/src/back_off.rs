//! Back-offs as the sources set them up.

use backfire_model::back_off as model;
use serde::Serialize;

use crate::analysis::Setting;
use crate::machine::{Machine, ObjId, Val};
use crate::span::{Site, Span};
use crate::value::{Property, Value};

/// A back-off.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackOff {
    /// Which one.
    pub kind: BackOffKind,
    /// `FixedBackOff`'s interval or the exponential ones' first, in milliseconds.
    pub initial_interval_ms: Option<Setting>,
    /// The factor between two waits.
    pub multiplier: Option<Setting>,
    /// The longest wait, in milliseconds.
    pub max_interval_ms: Option<Setting>,
    /// The limit on the sum of the waits, in milliseconds.
    pub max_elapsed_ms: Option<Setting>,
    /// The number of retries (Spring's `maxAttempts`, `maxRetries`).
    pub max_retries: Option<Setting>,
    /// The jitter, in milliseconds.
    pub jitter_ms: Option<Setting>,
    /// Where it is made.
    pub span: Span,
}

/// The class of a back-off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "class", rename_all = "kebab-case")]
pub enum BackOffKind {
    /// `FixedBackOff`.
    Fixed,
    /// `ExponentialBackOff`.
    Exponential,
    /// `ExponentialBackOffWithMaxRetries`.
    ExponentialMaxRetries,
    /// A lambda or a class of the project.
    Custom {
        /// What it is.
        text: String,
    },
    /// It cannot be told.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// What keeps a back-off from being computed.
#[derive(Debug, Clone, PartialEq)]
pub struct Unresolved {
    /// The setting.
    pub name: &'static str,
    /// What it is instead of a number.
    pub value: Value,
    /// Where it is set.
    pub span: Span,
}

impl BackOff {
    /// The back-off of the model, settings that come from configuration looked up; the rest as the library's defaults.
    ///
    /// # Errors
    /// What is no number even then; a custom back-off gives an empty list, since there is nothing to resolve.
    pub fn to_model(
        &self,
        lookup: &mut dyn FnMut(&Property) -> Option<String>,
    ) -> Result<model::BackOff, Vec<Unresolved>> {
        let mut open = Vec::new();
        let mut value = |name: &'static str, setting: &Option<Setting>| -> Option<Value> {
            let setting = setting.as_ref()?;
            let value = setting.value.resolve(lookup);
            if value.as_ms().is_some() || value.as_f64().is_some() {
                return Some(value);
            }
            open.push(Unresolved { name, value, span: setting.span.clone() });
            None
        };
        let initial = value("initialInterval", &self.initial_interval_ms).and_then(|value| value.as_ms());
        let multiplier = value("multiplier", &self.multiplier).and_then(|value| value.as_f64());
        let max_interval = value("maxInterval", &self.max_interval_ms).and_then(|value| value.as_ms());
        let max_elapsed = value("maxElapsedTime", &self.max_elapsed_ms).and_then(|value| value.as_ms());
        let max_retries = value("maxAttempts", &self.max_retries).and_then(|value| value.as_ms());
        let jitter = value("jitter", &self.jitter_ms).and_then(|value| value.as_ms());
        if !open.is_empty() {
            return Err(open);
        }
        let limit = |limit: Option<i64>| limit.filter(|limit| *limit != i64::MAX);
        match &self.kind {
            BackOffKind::Fixed => Ok(model::BackOff::Fixed(model::Fixed {
                interval_ms: initial.unwrap_or(model::DEFAULT_FIXED_INTERVAL_MS),
                max_retries: limit(max_retries),
            })),
            BackOffKind::Exponential => {
                let default = model::Exponential::default();
                Ok(model::BackOff::Exponential(model::Exponential {
                    initial_interval_ms: initial.unwrap_or(default.initial_interval_ms),
                    multiplier: multiplier.unwrap_or(default.multiplier),
                    max_interval_ms: max_interval.unwrap_or(default.max_interval_ms),
                    jitter_ms: jitter.unwrap_or(default.jitter_ms),
                    max_elapsed_ms: limit(max_elapsed),
                    max_attempts: limit(max_retries),
                }))
            }
            BackOffKind::ExponentialMaxRetries => {
                let default = model::ExponentialMaxRetries::new(max_retries.ok_or_else(Vec::new)?);
                Ok(model::BackOff::ExponentialMaxRetries(model::ExponentialMaxRetries {
                    initial_interval_ms: initial.unwrap_or(default.initial_interval_ms),
                    multiplier: multiplier.unwrap_or(default.multiplier),
                    max_interval_ms: max_interval.unwrap_or(default.max_interval_ms),
                    jitter_ms: jitter.unwrap_or(default.jitter_ms),
                    ..default
                }))
            }
            BackOffKind::Custom { .. } | BackOffKind::Unknown { .. } => Err(Vec::new()),
        }
    }
}

impl<'s> Machine<'s> {
    /// The back-offs that a value can be.
    pub(crate) fn back_offs(&mut self, value: &Val<'s>, at: Site) -> Vec<BackOff> {
        match self.force(value) {
            Val::OneOf(parts) => parts.iter().flat_map(|part| self.back_offs(part, at)).collect(),
            Val::Obj(id) => vec![self.back_off_object(id)],
            Val::Fun(_) => {
                let kind = BackOffKind::Custom { text: self.short_text(at) };
                vec![self.plain_back_off(kind, at)]
            }
            Val::Any(any) => {
                let kind = BackOffKind::Unknown { why: any.why.text().to_owned() };
                vec![self.plain_back_off(kind, at)]
            }
            _ => Vec::new(),
        }
    }

    fn plain_back_off(&self, kind: BackOffKind, at: Site) -> BackOff {
        BackOff {
            kind,
            initial_interval_ms: None,
            multiplier: None,
            max_interval_ms: None,
            max_elapsed_ms: None,
            max_retries: None,
            jitter_ms: None,
            span: self.span(at),
        }
    }

    fn back_off_object(&mut self, id: ObjId) -> BackOff {
        let (ty, args, site) = self.obj(id, |obj| (obj.ty.clone(), obj.args.clone(), obj.site));
        let kind = match (ty.class(), ty.lib()) {
            (None, Some("FixedBackOff")) => BackOffKind::Fixed,
            (None, Some("ExponentialBackOff")) => BackOffKind::Exponential,
            (None, Some("ExponentialBackOffWithMaxRetries")) => BackOffKind::ExponentialMaxRetries,
            _ => BackOffKind::Custom { text: self.type_name(&ty).to_owned() },
        };
        let mut back_off = self.plain_back_off(kind, site);
        let given: Vec<Setting> = args
            .iter()
            .map(|arg| {
                let value = self.value(&arg.val, arg.site);
                self.setting(value, arg.site, false)
            })
            .collect();
        let mut given = given.into_iter();
        match back_off.kind {
            BackOffKind::Fixed => {
                back_off.initial_interval_ms = given.next();
                back_off.max_retries = given.next();
            }
            BackOffKind::Exponential => {
                back_off.initial_interval_ms = given.next();
                back_off.multiplier = given.next();
            }
            BackOffKind::ExponentialMaxRetries => back_off.max_retries = given.next(),
            _ => return back_off,
        }
        let mut set = |machine: &mut Self, into: fn(&mut BackOff) -> &mut Option<Setting>, names: &[&str]| {
            for setting in machine.settings_of(id, names) {
                *into(&mut back_off) = Some(setting);
            }
        };
        set(self, |it| &mut it.initial_interval_ms, &["setInterval", "setInitialInterval"]);
        set(self, |it| &mut it.multiplier, &["setMultiplier"]);
        set(self, |it| &mut it.max_interval_ms, &["setMaxInterval"]);
        set(self, |it| &mut it.max_elapsed_ms, &["setMaxElapsedTime"]);
        set(self, |it| &mut it.max_retries, &["setMaxAttempts", "setMaxRetries"]);
        set(self, |it| &mut it.jitter_ms, &["setJitter"]);
        back_off
    }

    /// The first arguments of calls of some names; the last one counts.
    pub(crate) fn settings_of(&mut self, id: ObjId, names: &[&str]) -> Vec<Setting> {
        let calls = self.logged(id, names);
        let mut settings = Vec::new();
        for call in calls {
            if let Some(arg) = call.args.first() {
                let mut value = self.value(&arg.val, arg.site);
                // `readTimeout(5, TimeUnit.SECONDS)`
                if let Some(unit) = call.args.get(1)
                    && let Value::Constant { name, .. } = self.value(&unit.val, unit.site)
                    && let Some(ms) = crate::machine::unit_ms(&name)
                {
                    use crate::value::{Operation, compute};
                    value = compute(Operation::Multiply, vec![value, Value::Int(ms)]);
                    value = compute(Operation::DurationOfMs, vec![value]);
                }
                settings.push(self.setting(value, arg.site, call.conditional));
            }
        }
        settings
    }
}
