//! What is known of a recording beside its events: its name, the prediction, the settings that caused it, what was found wrong.

use backfire_model::counts::{Counts, Extras};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::grouped;

/// Of settings, findings and predictions no more than this are taken in.
pub const ROWS_MAX: usize = 1_000;

/// What is known beside the events; every part may be missing.
///
/// As JSON it takes what `backfire check --format json` and `backfire rehearse --format json` print; keys that it does not know
/// are passed over.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// The scenario's or the service's name.
    pub scenario: Option<String>,
    /// What every time was multiplied by.
    pub scale: Option<f64>,
    /// The collection whose writes count, `db.collection`; `None`: every collection.
    pub namespace: Option<String>,
    /// How many writes the server lets into its engine at once.
    pub tickets: Option<u64>,
    /// When the recording began, in milliseconds since 1970; only the OTLP spans need it, and begin at 0 without.
    pub began_at_unix_ms: Option<u64>,
    /// What the settings promise.
    pub predicted: Option<Counts>,
    /// What was counted when it happened. Taken from it is what events cannot tell: the documents in the collection in the end,
    /// and the resends that waited when the application had finished.
    pub measured: Option<Counts>,
    /// The other numbers.
    pub extras: BothExtras,
    /// The settings that decided.
    pub settings: Vec<Setting>,
    /// What is wrong with them.
    pub findings: Vec<Finding>,
    /// What the settings promise, per listener.
    pub predictions: Vec<Prediction>,
    /// Which of these lists were cut when they were read, in words.
    #[serde(skip)]
    pub cut: Vec<String>,
}

/// The other numbers, predicted and measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BothExtras {
    /// What the settings promise; `null`s inside are *any*.
    pub predicted: Option<Extras>,
    /// What was counted.
    pub measured: Option<Extras>,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    #[serde(deserialize_with = "as_text")]
    pub value: String,
    /// Where it comes from: a file and line, or the default of a version.
    #[serde(deserialize_with = "as_text")]
    pub source: String,
    /// What has to be said about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Something wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Finding {
    /// The rule's id, such as `BF007`.
    pub rule: String,
    /// `error`, `warning` or `note`.
    pub level: String,
    /// What is wrong.
    pub message: String,
    /// Where: the file,
    pub file: Option<String>,
    /// its line,
    pub line: Option<u64>,
    /// and column, from 1.
    pub column: Option<u64>,
    /// What to write instead.
    pub fix: Option<String>,
    /// The service and the listener it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The line of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_line: Option<String>,
}

impl Finding {
    /// `file:line:column`, as far as it is known.
    pub fn place(&self) -> Option<String> {
        let mut place = self.file.clone()?;
        for number in [self.line, self.column].into_iter().map_while(|number| number) {
            place.push_str(&format!(":{number}"));
        }
        Some(place)
    }
}

/// What the settings of one listener promise. The amounts are texts: a number, a range, `no bound` or `unknown`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Prediction {
    /// The listener.
    pub listener: String,
    /// Executions of one record.
    #[serde(deserialize_with = "as_amount")]
    pub executions: String,
    /// Sends of one record.
    #[serde(deserialize_with = "as_amount")]
    pub sends: String,
    /// Copies of one record.
    #[serde(deserialize_with = "as_amount")]
    pub copies: String,
    /// The most copies of it at once.
    #[serde(deserialize_with = "as_amount")]
    pub overlapping_copies_max: String,
    /// Until its dead letter, in milliseconds.
    #[serde(deserialize_with = "as_amount")]
    pub dead_letter_ms: String,
}

/// Why a text is no [`Context`].
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// It is not JSON, or a part of it has another form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It has none of the keys that were looked for.
    #[error("none of the keys {0} is in it")]
    NothingOf(String),
}

impl Context {
    /// Reads it from JSON. Lists that are longer than [`ROWS_MAX`] are cut.
    ///
    /// # Errors
    /// Text that is not JSON, or a part of another form.
    pub fn parse(json: &str) -> Result<Self, ContextError> {
        Self::parse_with(json, &[])
    }

    /// Reads it from JSON that must have one of `keys`, if there are any.
    ///
    /// # Errors
    /// As [`Context::parse`], and JSON that has none of the keys.
    pub fn parse_with(json: &str, keys: &[&str]) -> Result<Self, ContextError> {
        let mut context: Context = serde_json::from_str(json)?;
        if !keys.is_empty() {
            let value: Value = serde_json::from_str(json)?;
            if keys.iter().all(|key| value.get(key).is_none()) {
                let keys: Vec<_> = keys.iter().map(|key| format!("'{key}'")).collect();
                return Err(ContextError::NothingOf(keys.join(", ")));
            }
        }
        let counts = [
            ("settings", shorten(&mut context.settings)),
            ("findings", shorten(&mut context.findings)),
            ("predictions", shorten(&mut context.predictions)),
        ];
        let cut = counts.into_iter().filter(|(_, count)| *count > ROWS_MAX);
        context.cut = cut
            .map(|(what, count)| {
                format!("The first {} of {} {what} are shown.", grouped(ROWS_MAX as u64), grouped(count as u64))
            })
            .collect();
        Ok(context)
    }

    /// This context, and what `other` knows where this one knows nothing.
    #[must_use]
    pub fn or(self, other: Context) -> Context {
        fn first<T>(one: Vec<T>, other: Vec<T>) -> Vec<T> {
            if one.is_empty() { other } else { one }
        }
        Context {
            scenario: self.scenario.or(other.scenario),
            scale: self.scale.or(other.scale),
            namespace: self.namespace.or(other.namespace),
            tickets: self.tickets.or(other.tickets),
            began_at_unix_ms: self.began_at_unix_ms.or(other.began_at_unix_ms),
            predicted: self.predicted.or(other.predicted),
            measured: self.measured.or(other.measured),
            extras: BothExtras {
                predicted: self.extras.predicted.or(other.extras.predicted),
                measured: self.extras.measured.or(other.extras.measured),
            },
            settings: first(self.settings, other.settings),
            findings: first(self.findings, other.findings),
            predictions: first(self.predictions, other.predictions),
            cut: {
                let mut cut = self.cut;
                cut.extend(other.cut);
                cut.dedup();
                cut
            },
        }
    }
}

/// Cuts a list; returns how long it was.
fn shorten<T>(list: &mut Vec<T>) -> usize {
    let count = list.len();
    list.truncate(ROWS_MAX);
    count
}

/// A JSON value as text: a string is itself, and nothing is nothing.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn as_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Value::deserialize(deserializer).map(|value| text_of(&value))
}

/// An amount as text. `{"from", "to"}` is a range, `{"unbounded": true}` has no bound, `{"unknown": true}` is not known; each
/// may say why.
fn as_amount<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let text = |key: &str| value.get(key).map(text_of).filter(|text| !text.is_empty());
    let is = |key: &str| value.get(key) == Some(&Value::Bool(true));
    let amount = match (text("from"), text("to")) {
        (Some(from), Some(to)) => format!("{from} to {to}"),
        _ if is("unbounded") => "no bound".to_owned(),
        _ if is("unknown") => "unknown".to_owned(),
        _ => return Ok(text_of(&value)),
    };
    Ok(match text("why") {
        Some(why) => format!("{amount} ({why})"),
        None => amount,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_what_check_prints() {
        let json = r#"{
            "settings": [
                {"name": "socketTimeoutMS", "value": "30000", "source": "application.yml:3", "service": "shop", "kind": "file"},
                {"name": "retryWrites", "value": true, "source": "default"}
            ],
            "predictions": [{
                "listener": "Orders.on", "executions": 4, "sends": {"from": 4, "to": 8, "why": "a race"},
                "copies": {"unbounded": true, "why": "no back-off ends"}, "overlapping_copies_max": {"unknown": true},
                "dead_letter_ms": 240000, "poll_budget": {"needed_ms": 1}
            }],
            "findings": [
                {"rule": "BF001", "level": "error", "message": "m", "file": "a.yml", "line": 3, "column": null, "fix": null}
            ],
            "files": 12
        }"#;
        let context = Context::parse(json).unwrap();
        assert_eq!(context.settings[1].value, "true");
        let prediction = &context.predictions[0];
        assert_eq!(
            [&prediction.executions, &prediction.sends, &prediction.copies, &prediction.overlapping_copies_max],
            ["4", "4 to 8 (a race)", "no bound (no back-off ends)", "unknown"]
        );
        assert_eq!(context.findings[0].place().as_deref(), Some("a.yml:3"));
        assert_eq!(context.predicted, None);
    }

    #[test]
    fn it_takes_what_rehearse_prints() {
        let json = r#"{
            "scenario": "max-time", "scale": 0.5,
            "predicted": {"executions": 4, "sends": 4, "resends": 0, "copies": 4, "overlapping_copies_max": 1, "waiting_resends": 0,
                          "documents": 0},
            "extras": {"predicted": {"answered_from_history": 0, "ended_at_deadline": 4, "reads_ended_with_client": 0,
                                     "late_copies": null}},
            "timeline": []
        }"#;
        let context = Context::parse(json).unwrap();
        assert_eq!(context.predicted.map(|counts| counts.sends), Some(4));
        assert_eq!(context.extras.predicted.and_then(|extras| extras.ended_at_deadline), Some(4));
        let named = Context { scenario: Some("mine".into()), tickets: Some(128), ..Context::default() };
        let both = named.or(context);
        assert_eq!((both.scenario.as_deref(), both.scale, both.tickets), (Some("mine"), Some(0.5), Some(128)));
    }

    #[test]
    fn what_is_no_context_is_an_error() {
        for (json, says) in [
            ("", "line 1 column 0"),
            ("[1]", "invalid"),
            (r#"{"settings": {}}"#, "invalid type"),
            (r#"{"predicted": {"executions": -1}}"#, "invalid value"),
        ] {
            let error = Context::parse(json).unwrap_err().to_string();
            assert!(error.contains(says), "{json}: {error}");
        }
        let error = Context::parse_with("{\"files\": 1}", &["findings", "settings"]).unwrap_err().to_string();
        assert_eq!(error, "none of the keys 'findings', 'settings' is in it");
        assert!(Context::parse_with("{\"findings\": []}", &["findings", "settings"]).is_ok());
        let many = format!(r#"{{"findings": [{}]}}"#, vec!["{}"; ROWS_MAX + 1].join(","));
        let cut = Context::parse(&many).unwrap();
        assert_eq!((cut.findings.len(), cut.cut), (1_000, vec!["The first 1,000 of 1,001 findings are shown.".into()]));
    }
}
