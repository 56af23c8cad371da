//! Values as the sources give them: constants, settings that come from configuration, arithmetic on both, and what is
//! not known, with the reason.

use std::sync::Arc;

use serde::Serialize;

use crate::span::Span;

/// A value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", content = "value", rename_all = "kebab-case")]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number; a `char` is a [`Value::Text`].
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// A text.
    Text(Arc<str>),
    /// A `java.time.Duration` or `kotlin.time.Duration` in milliseconds.
    DurationMs(i64),
    /// An enum's constant or another class's constant that is not in the sources: `AckMode.MANUAL`.
    Constant {
        /// The class, as a simple name.
        owner: Arc<str>,
        /// The constant.
        name: Arc<str>,
    },
    /// A class: `TimeoutException.class`, as a simple name.
    Class(Arc<str>),
    /// Several values in order.
    List(Vec<Value>),
    /// What a configuration key holds.
    Property(Box<Property>),
    /// Arithmetic on values that are not all known yet; [`Value::resolve`] ends it.
    Compute {
        /// The operation.
        op: Operation,
        /// What it works on.
        of: Vec<Value>,
    },
    /// One of these, depending on what runs.
    OneOf(Vec<Value>),
    /// Not known.
    Unknown(Box<Unknown>),
}

/// A setting that comes from configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Property {
    /// The key, in kebab case where a `@ConfigurationProperties` class names it; relaxed binding applies.
    pub key: String,
    /// What holds when the key is not set.
    pub default: Option<Value>,
    /// The type that the text is converted to, as a simple name: `Duration`, `int`, `String`, ...
    pub ty: Option<String>,
    /// For a duration: the unit of a number that has none, in milliseconds; Spring's default is 1.
    pub unit_ms: Option<i64>,
    /// The place that names the key.
    pub span: Span,
}

/// A value that cannot be told from the sources.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unknown {
    /// The expression, shortened.
    pub text: String,
    /// Why it is not known, as a short clause.
    pub why: String,
    /// Where it is.
    pub span: Span,
}

/// An operation on values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// `a + b` on numbers.
    Add,
    /// `a - b`.
    Subtract,
    /// `a * b`.
    Multiply,
    /// `a / b`; on two whole numbers the fraction is dropped.
    Divide,
    /// `a % b`.
    Remainder,
    /// The parts, one behind the other, as text.
    Concat,
    /// `cond ? a : b`.
    Choose,
    /// `!a`.
    Not,
    /// `a == b`.
    Equal,
    /// `a < b`.
    Less,
    /// `a && b`.
    And,
    /// `a || b`.
    Or,
    /// `a` if it is not null, or `b`.
    OrElse,
    /// The lesser of two.
    Min,
    /// The greater of two.
    Max,
    /// A number of milliseconds as a duration.
    DurationOfMs,
    /// A number of seconds as a duration.
    DurationOfSeconds,
    /// A duration in milliseconds.
    ToMs,
    /// A duration in whole seconds.
    ToSeconds,
    /// A text or number as a whole number.
    ToInt,
    /// A text or number as a number with a fraction.
    ToFloat,
    /// Anything as text.
    ToText,
    /// A text as a duration: `PT1S`, or `10s` as Spring reads it.
    ToDuration,
    /// A comma-separated text as a list.
    Split,
}

impl Value {
    /// A text.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::Text(text.as_ref().into())
    }

    /// The value, where it is a whole number (or a fraction without one).
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(*number as i64),
            _ => None,
        }
    }

    /// The value, where it is a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The value, where it is a text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value, where it is `true` or `false`.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(is) => Some(*is),
            _ => None,
        }
    }

    /// A time in milliseconds: a duration, or a whole number that is one by its place.
    pub fn as_ms(&self) -> Option<i64> {
        match self {
            Self::DurationMs(ms) => Some(*ms),
            other => other.as_i64(),
        }
    }

    /// Whether nothing is left to resolve, choose or guess.
    pub fn is_known(&self) -> bool {
        match self {
            Self::Property(_) | Self::Compute { .. } | Self::OneOf(_) | Self::Unknown(_) => false,
            Self::List(items) => items.iter().all(Self::is_known),
            _ => true,
        }
    }

    /// The configuration keys that it depends on.
    pub fn properties(&self) -> Vec<&Property> {
        match self {
            Self::Property(property) => {
                let mut found = vec![&**property];
                found.extend(property.default.iter().flat_map(Self::properties));
                found
            }
            Self::List(parts) | Self::OneOf(parts) | Self::Compute { of: parts, .. } => {
                parts.iter().flat_map(Self::properties).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The value once the configuration is known. `lookup` gives the text that a key has, placeholders resolved, or `None`
    /// where it is not set; then the property's default holds, and without one the property stays.
    pub fn resolve(&self, lookup: &mut dyn FnMut(&Property) -> Option<String>) -> Self {
        match self {
            Self::Property(property) => match lookup(property) {
                Some(text) => convert(&text, property),
                None => match &property.default {
                    Some(default) => match default.resolve(lookup) {
                        Self::Text(text) => convert(&text, property),
                        default => default,
                    },
                    None => self.clone(),
                },
            },
            Self::List(items) => Self::List(items.iter().map(|item| item.resolve(lookup)).collect()),
            Self::OneOf(items) => one_of(items.iter().map(|item| item.resolve(lookup)).collect()),
            Self::Compute { op, of } => compute(*op, of.iter().map(|part| part.resolve(lookup)).collect()),
            other => other.clone(),
        }
    }
}

/// Several possible values as one; equal ones count once.
pub(crate) fn one_of(values: Vec<Value>) -> Value {
    let mut distinct: Vec<Value> = Vec::new();
    for value in values {
        let parts = match value {
            Value::OneOf(parts) => parts,
            value => vec![value],
        };
        for part in parts {
            if !distinct.contains(&part) && distinct.len() < 16 {
                distinct.push(part);
            }
        }
    }
    match (distinct.len(), distinct.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            distinct.extend(last);
            Value::OneOf(distinct)
        }
    }
}

/// Spring's conversion of a property's text.
fn convert(text: &str, property: &Property) -> Value {
    let trimmed = text.trim();
    let unchanged = || Value::text(text);
    match property.ty.as_deref().unwrap_or_default() {
        "int" | "Int" | "Integer" | "long" | "Long" | "short" | "Short" => {
            trimmed.replace('_', "").parse().map_or_else(|_| unchanged(), Value::Int)
        }
        "double" | "Double" | "float" | "Float" => trimmed.parse().map_or_else(|_| unchanged(), Value::Float),
        "boolean" | "Boolean" => match trimmed.to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => Value::Bool(true),
            "false" | "off" | "no" | "0" => Value::Bool(false),
            _ => unchanged(),
        },
        "Duration" if property.unit_ms.is_some() && trimmed.parse::<i64>().is_ok() => {
            let number = trimmed.parse::<i64>().unwrap_or_default();
            number.checked_mul(property.unit_ms.unwrap_or(1)).map_or_else(unchanged, Value::DurationMs)
        }
        "Duration" => duration_ms(trimmed).map_or_else(unchanged, Value::DurationMs),
        "List" | "Set" | "Collection" | "String[]" => {
            Value::List(trimmed.split(',').map(|part| Value::text(part.trim())).collect())
        }
        _ => unchanged(),
    }
}

/// A duration as Spring Boot reads it: `10s`, `500` (milliseconds), `PT1M`.
pub(crate) fn duration_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.starts_with(['P', 'p']) {
        return iso_duration_ms(text);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '-' && c != '+').unwrap_or(text.len());
    let number: i64 = text.get(..digits)?.parse().ok()?;
    let unit_ms = match text.get(digits..)?.trim().to_ascii_lowercase().as_str() {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "us" => return Some(number / 1_000),
        "ns" => return Some(number / 1_000_000),
        _ => return None,
    };
    number.checked_mul(unit_ms)
}

fn iso_duration_ms(text: &str) -> Option<i64> {
    let upper = text.to_ascii_uppercase();
    let mut total = 0.0;
    let mut number = String::new();
    let mut seen = false;
    for c in upper.strip_prefix('P')?.chars() {
        let unit_ms = match c {
            '0'..='9' | '.' | '-' | '+' => {
                number.push(c);
                continue;
            }
            'T' if number.is_empty() => continue,
            'D' => 86_400_000.0,
            'H' => 3_600_000.0,
            'M' => 60_000.0,
            'S' => 1_000.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * unit_ms;
        number.clear();
        seen = true;
    }
    (seen && number.is_empty() && f64::abs(total) < 9e15).then_some(total as i64)
}

/// The text of a known value, as `toString` gives it.
pub(crate) fn as_text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => "null".to_owned(),
        Value::Bool(is) => is.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Text(text) => text.to_string(),
        Value::Constant { name, .. } => name.to_string(),
        Value::Class(name) => name.to_string(),
        Value::DurationMs(ms) if ms % 1000 == 0 => format!("PT{}S", ms / 1000),
        Value::DurationMs(ms) => format!("PT{:?}S", *ms as f64 / 1000.0),
        _ => return None,
    })
}

/// A value with more parts than this is not kept apart any further.
const PARTS_MAX: usize = 64;
/// A text longer than this is not put together.
const TEXT_MAX: usize = 16 * 1024;

/// Counts the parts of a value, up to a limit.
fn parts(value: &Value, left: &mut usize) {
    *left = left.saturating_sub(1);
    if let Value::List(items) | Value::OneOf(items) | Value::Compute { of: items, .. } = value {
        for item in items {
            if *left == 0 {
                return;
            }
            parts(item, left);
        }
    }
}

/// Does the operation where its operands are known; else keeps it.
pub(crate) fn compute(op: Operation, of: Vec<Value>) -> Value {
    let mut left = PARTS_MAX;
    of.iter().for_each(|part| parts(part, &mut left));
    // Times one, which units often are.
    if op == Operation::Multiply
        && let [value, Value::Int(1)] = of.as_slice()
    {
        return value.clone();
    }
    if left == 0 && !of.iter().all(Value::is_known) {
        // Too large to keep: its first unresolved part stands for it.
        return of.into_iter().find(|part| !part.is_known()).unwrap_or(Value::Null);
    }
    // A choice between few values is done for each of them.
    if let Some(at) = of.iter().position(|part| matches!(part, Value::OneOf(options) if options.len() <= 4)) {
        let Some(Value::OneOf(options)) = of.get(at).cloned() else { return Value::Compute { op, of } };
        let results = options.into_iter().map(|option| {
            let mut of = of.clone();
            of[at] = option;
            compute(op, of)
        });
        return one_of(results.collect());
    }
    match known(op, &of) {
        Some(value) => value,
        None => match of.iter().find(|part| matches!(part, Value::Unknown(_))) {
            Some(unknown) if !matches!(op, Operation::Choose | Operation::OrElse | Operation::Concat) => {
                unknown.clone()
            }
            _ => Value::Compute { op, of },
        },
    }
}

fn known(op: Operation, of: &[Value]) -> Option<Value> {
    use Operation as O;
    let first = of.first()?;
    let second = of.get(1);
    match op {
        O::Add | O::Subtract | O::Multiply | O::Divide | O::Remainder | O::Min | O::Max => {
            arithmetic(op, first, second?)
        }
        O::Concat => {
            let parts: Option<Vec<_>> = of.iter().map(as_text).collect();
            parts.map(|parts| parts.concat()).filter(|text| text.len() <= TEXT_MAX).map(Value::text)
        }
        O::Choose => match first {
            Value::Bool(true) => second.cloned(),
            Value::Bool(false) => of.get(2).cloned(),
            _ if second == of.get(2) => second.cloned(),
            _ => None,
        },
        O::OrElse => match first {
            Value::Null => second.cloned(),
            value if value.is_known() => Some(value.clone()),
            _ => None,
        },
        O::Not => first.as_bool().map(|is| Value::Bool(!is)),
        O::Equal if first.is_known() && second?.is_known() => {
            Some(Value::Bool(match (first.as_f64(), second?.as_f64()) {
                (Some(left), Some(right)) => left == right,
                _ => Some(first) == second,
            }))
        }
        O::Less => Some(Value::Bool(first.as_f64()? < second?.as_f64()?)),
        O::And => match (first.as_bool(), second?.as_bool()) {
            (Some(false), _) | (_, Some(false)) => Some(Value::Bool(false)),
            (Some(true), Some(true)) => Some(Value::Bool(true)),
            _ => None,
        },
        O::Or => match (first.as_bool(), second?.as_bool()) {
            (Some(true), _) | (_, Some(true)) => Some(Value::Bool(true)),
            (Some(false), Some(false)) => Some(Value::Bool(false)),
            _ => None,
        },
        O::Equal => None,
        O::DurationOfMs => first.as_ms().map(Value::DurationMs),
        O::DurationOfSeconds => match first {
            Value::DurationMs(ms) => Some(Value::DurationMs(*ms)),
            Value::Float(seconds) => Some(Value::DurationMs((seconds * 1000.0) as i64)),
            value => value.as_i64()?.checked_mul(1000).map(Value::DurationMs),
        },
        O::ToMs => match first {
            Value::DurationMs(ms) => Some(Value::Int(*ms)),
            Value::Text(text) => duration_ms(text).map(Value::Int),
            value => value.as_i64().map(Value::Int),
        },
        O::ToSeconds => match first {
            Value::DurationMs(ms) => Some(Value::Int(ms / 1000)),
            Value::Text(text) => duration_ms(text).map(|ms| Value::Int(ms / 1000)),
            value => value.as_i64().map(Value::Int),
        },
        O::ToInt => match first {
            Value::Text(text) => text.trim().replace('_', "").parse().ok().map(Value::Int),
            Value::Float(number) => Some(Value::Int(*number as i64)),
            value => value.as_i64().map(Value::Int),
        },
        O::ToFloat => match first {
            Value::Text(text) => text.trim().parse().ok().map(Value::Float),
            value => value.as_f64().map(Value::Float),
        },
        O::ToText => as_text(first).map(Value::text),
        O::ToDuration => match first {
            Value::DurationMs(_) => Some(first.clone()),
            Value::Text(text) => duration_ms(text).map(Value::DurationMs),
            _ => None,
        },
        O::Split => match first {
            Value::List(_) => Some(first.clone()),
            Value::Text(text) => Some(Value::List(text.split(',').map(|part| Value::text(part.trim())).collect())),
            _ => None,
        },
    }
}

fn arithmetic(op: Operation, left: &Value, right: &Value) -> Option<Value> {
    use Operation as O;
    let whole = |left: i64, right: i64| match op {
        O::Add => left.checked_add(right),
        O::Subtract => left.checked_sub(right),
        O::Multiply => left.checked_mul(right),
        O::Divide => left.checked_div(right),
        O::Remainder => left.checked_rem(right),
        O::Min => Some(left.min(right)),
        _ => Some(left.max(right)),
    };
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => whole(*left, *right).map(Value::Int),
        // Durations: sums with each other, products with numbers.
        (Value::DurationMs(left), Value::DurationMs(right)) if !matches!(op, O::Multiply | O::Remainder) => {
            let result = whole(*left, *right)?;
            Some(if op == O::Divide { Value::Int(result) } else { Value::DurationMs(result) })
        }
        (Value::DurationMs(left), right) if matches!(op, O::Multiply | O::Divide) => match right {
            Value::Int(right) => whole(*left, *right).map(Value::DurationMs),
            Value::Float(right) if op == O::Multiply => Some(Value::DurationMs((*left as f64 * right) as i64)),
            Value::Float(right) => Some(Value::DurationMs((*left as f64 / right) as i64)),
            _ => None,
        },
        (Value::Text(_), _) | (_, Value::Text(_)) if op == O::Add => {
            Some(as_text(left)? + &as_text(right)?).filter(|text| text.len() <= TEXT_MAX).map(Value::text)
        }
        (left, right) => {
            let (left, right) = (left.as_f64()?, right.as_f64()?);
            let result = match op {
                O::Add => left + right,
                O::Subtract => left - right,
                O::Multiply => left * right,
                O::Divide => left / right,
                O::Remainder => left % right,
                O::Min => left.min(right),
                _ => left.max(right),
            };
            Some(Value::Float(result))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn property(key: &str, ty: &str, default: Option<Value>) -> Value {
        let span = Span { file: "f".into(), line: 1, column: 1, start_byte: 0, end_byte: 0 };
        Value::Property(Box::new(Property { key: key.into(), default, ty: Some(ty.into()), unit_ms: None, span }))
    }

    #[test]
    fn durations_as_spring_reads_them() {
        let cases =
            [("10s", 10_000), ("500", 500), ("2m", 120_000), ("PT1.5S", 1_500), ("P1DT1H", 90_000_000), ("7us", 0)];
        for (text, ms) in cases {
            assert_eq!(duration_ms(text), Some(ms), "{text}");
        }
        for text in ["", "x", "10 parsecs", "P", "PT", "9223372036854775807d"] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }

    #[test]
    fn a_property_is_converted_to_its_type_and_used() {
        let wait = property("a.wait", "Duration", Some(Value::text("2s")));
        let doubled = compute(Operation::Multiply, vec![compute(Operation::ToMs, vec![wait]), Value::Int(2)]);
        assert!(!doubled.is_known());
        assert_eq!(doubled.resolve(&mut |_| None), Value::Int(4_000));
        assert_eq!(doubled.resolve(&mut |it| (it.key == "a.wait").then(|| "PT5S".to_owned())), Value::Int(10_000));
        assert_eq!(doubled.properties().len(), 1);
    }

    #[test]
    fn overflow_and_division_by_zero_stay_open() {
        let sum = compute(Operation::Add, vec![Value::Int(i64::MAX), Value::Int(1)]);
        assert!(!sum.is_known());
        assert!(!compute(Operation::Divide, vec![Value::Int(1), Value::Int(0)]).is_known());
        assert_eq!(compute(Operation::Divide, vec![Value::Int(7), Value::Int(2)]), Value::Int(3));
    }
}
