//! Values of sources as settings: configuration looked up, places found.

use std::collections::HashMap;
use std::sync::Arc;

use backfire_jvm::{Property, Span, Value};

use super::Sources;
use crate::kafka;
use crate::setting::{Setting, Source};
use crate::source::{Place, SourceFile};
use crate::spring::Properties;

/// Looks values up in a service's configuration.
pub struct Reader<'a> {
    files: HashMap<&'a str, &'a Arc<SourceFile>>,
    properties: Option<&'a Properties>,
    /// Whether something in the sources makes `@Retryable` work.
    pub enables_retry: bool,
}

impl<'a> Reader<'a> {
    /// A reader of these sources with this configuration.
    pub fn new(sources: &'a Sources<'_>, properties: Option<&'a Properties>) -> Self {
        let files = sources.files.iter().map(|found| (found.file.path.as_str(), &found.file)).collect();
        let enables = |text: &str| text.contains("EnableRetry") || text.contains("EnableResilientMethods");
        let enables_retry = sources.files.iter().any(|found| enables(&found.file.text));
        Self { files, properties, enables_retry }
    }

    /// The service's configuration.
    pub fn properties(&self) -> Option<&'a Properties> {
        self.properties
    }

    /// A place that the sources name.
    pub fn place(&self, span: &Span) -> Option<Place> {
        let file = self.files.get(&*span.file)?;
        Some(Place::new(file, span.start_byte as usize..span.end_byte as usize))
    }

    /// A setting that is made in the sources at a place.
    pub fn made<T>(&self, value: T, span: &Span) -> Setting<T> {
        match self.place(span) {
            Some(place) => Setting::new(value, Source::File(place)),
            None => Setting::default_of(value, "the sources"),
        }
    }

    /// A setting that cannot be told.
    pub fn unknown<T>(&self, why: impl Into<String>, span: &Span) -> Setting<T> {
        Setting::unknown(why, self.place(span))
    }

    /// The text that a key of the configuration has. `Err`: it is set, and its value cannot be seen.
    fn look_up(&self, property: &Property) -> Result<Option<String>, String> {
        let Some(properties) = self.properties else { return Ok(None) };
        let resolved = properties.resolve_text(&format!("${{{}}}", property.key));
        if let Some(text) = resolved.known() {
            return Ok(Some(text.to_owned()));
        }
        match resolved.unknown.iter().all(|name| *name == property.key) {
            true => Ok(None),
            false => Err(format!("nothing says what {} is", resolved.unknown.join(", "))),
        }
    }

    /// The text of a key, where it is set and can be seen.
    pub fn text(&self, property: &Property) -> Option<String> {
        self.look_up(property).ok().flatten()
    }

    /// A value once the configuration is known.
    ///
    /// # Errors
    /// Why it cannot be told.
    pub fn resolve(&self, value: &Value) -> Result<Value, String> {
        for property in value.properties() {
            self.look_up(property)?;
        }
        let resolved = value.resolve(&mut |property| self.text(property));
        if resolved.is_known() { Ok(resolved) } else { Err(open(&resolved)) }
    }

    /// A setting of the sources, converted by `read`; `what` says what it should be: "a number".
    pub fn setting<T>(
        &self,
        setting: &backfire_jvm::Setting,
        what: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Setting<T> {
        if setting.conditional {
            return self.unknown("it is set under a condition", &setting.span);
        }
        let value = match self.resolve(&setting.value) {
            Ok(value) => value,
            Err(why) => return self.unknown(why, &setting.span),
        };
        match read(&value) {
            Some(value) => match self.origin(&setting.value) {
                Some(source) => Setting::new(value, source),
                None => self.made(value, &setting.span),
            },
            None => self.unknown(format!("its value is not {what}"), &setting.span),
        }
    }

    /// The place in the configuration that gives a value, where it is one key's and the key is set.
    fn origin(&self, value: &Value) -> Option<Source> {
        let Value::Property(property) = value else { return None };
        let found = self.properties?.get(&property.key)?;
        Some(kafka::source(&found.origin))
    }

    /// A whole number, not negative.
    pub fn number(&self, setting: &backfire_jvm::Setting) -> Setting<u64> {
        self.setting(setting, "a number", number)
    }

    /// A time in milliseconds, not negative.
    pub fn ms(&self, setting: &backfire_jvm::Setting) -> Setting<u64> {
        self.setting(setting, "a time", |value| value.as_ms().and_then(|ms| u64::try_from(ms).ok()))
    }

    /// `true` or `false`.
    pub fn flag(&self, setting: &backfire_jvm::Setting) -> Setting<bool> {
        self.setting(setting, "true or false", flag)
    }

    /// The texts of a text or a list.
    pub fn texts(&self, setting: &backfire_jvm::Setting) -> Vec<String> {
        let texts = self.setting(setting, "a text", |value| {
            Some(match value {
                Value::List(items) => items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
                value => value.as_str().map(str::to_owned).into_iter().collect::<Vec<_>>(),
            })
        });
        texts.value.unwrap_or_default()
    }
}

/// A whole number, not negative; also as text.
pub fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Text(text) => text.trim().replace('_', "").parse().ok(),
        value => value.as_ms().and_then(|number| u64::try_from(number).ok()),
    }
}

/// `true` or `false`; also as text.
fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Text(text) => text.trim().to_ascii_lowercase().parse().ok(),
        value => value.as_bool(),
    }
}

/// Why a value is not known.
fn open(value: &Value) -> String {
    match value {
        Value::Unknown(unknown) => format!("{}: {}", unknown.text, unknown.why),
        Value::Property(property) => format!("nothing says what {} is", property.key),
        Value::OneOf(_) => "it depends on which branch runs".to_owned(),
        Value::Compute { of: parts, .. } | Value::List(parts) => {
            parts.iter().find(|part| !part.is_known()).map_or_else(|| "it cannot be computed".to_owned(), open)
        }
        _ => "it is not understood".to_owned(),
    }
}
