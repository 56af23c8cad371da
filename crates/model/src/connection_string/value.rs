//! The values of options: what is allowed, and what it means.

use std::fmt;

use super::secret::Secret;

/// What values an option allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
        /// One more that is allowed.
        also: Option<i64>,
        /// `ms`, `s`, or nothing.
        unit: &'static str,
    },
    /// Any text.
    Text,
    /// A password: any text, never shown.
    Secret,
    /// One of these, in this spelling.
    OneOf(&'static [&'static str]),
    /// Some of these, with commas between.
    ListOf(&'static [&'static str]),
    /// `name:value` pairs with commas between, or nothing: a set of tags.
    Tags,
    /// `NAME:value` pairs with commas between.
    Properties,
    /// A number of members, or a name: a write concern's `w`.
    NodesOrTag,
}

/// A set of tags: names and values.
pub type TagSet = Vec<(String, String)>;

/// A write concern's `w`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum W {
    /// This many members; 0: not acknowledged.
    Nodes(u32),
    /// `majority`, or the name of a custom write concern.
    Tag(String),
}

/// A pair of `authMechanismProperties`.
#[derive(Clone, PartialEq, Eq)]
pub struct Property {
    /// The name as written; case does not matter.
    pub name: String,
    /// The value.
    pub value: Secret,
}

impl fmt::Debug for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::credential::shown_property(self))
    }
}

/// A value that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of [`ValueKind::Bool`].
    Bool(bool),
    /// Of [`ValueKind::Int`].
    Int(i64),
    /// Of [`ValueKind::Text`] and [`ValueKind::OneOf`].
    Text(String),
    /// Of [`ValueKind::Secret`].
    Secret(Secret),
    /// Of [`ValueKind::ListOf`].
    List(Vec<String>),
    /// Of [`ValueKind::Tags`]: one per occurrence.
    TagSets(Vec<TagSet>),
    /// Of [`ValueKind::Properties`].
    Properties(Vec<Property>),
    /// Of [`ValueKind::NodesOrTag`].
    W(W),
}

/// Why a value, or a part of it, is ignored. Holds no piece of the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadValue {
    /// The reason, as the end of a sentence about the value.
    pub(super) why: String,
    /// What to write.
    pub(super) help: String,
    /// What drivers do.
    pub(super) drivers: Option<&'static str>,
}

/// What became of a value. Both are set when a part of a list is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) value: Option<Value>,
    pub(super) bad: Option<BadValue>,
}

/// The Java driver throws where the specification has the option ignored.
pub(super) const JAVA_REFUSES: &str = "the Java driver 5.4 refuses the whole connection string";

impl fmt::Display for ValueKind {
    /// The allowed values, as part of a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bool => f.write_str("true or false"),
            Self::Int { min, max, also, unit } => {
                if let Some(also) = also {
                    write!(f, "{also}, or ")?;
                }
                f.write_str("a whole number")?;
                match unit {
                    "ms" => f.write_str(" of milliseconds")?,
                    "s" => f.write_str(" of seconds")?,
                    _ => {}
                }
                if max >= i64::from(i32::MAX) {
                    write!(f, ", {min} or more")
                } else {
                    write!(f, " from {min} to {max}")
                }
            }
            Self::Text | Self::Secret => f.write_str("any text"),
            Self::OneOf(values) => f.write_str(&values.join(", ")),
            Self::ListOf(values) => write!(f, "some of {}, with commas between", values.join(", ")),
            Self::Tags => f.write_str("name:value pairs with commas between, or nothing"),
            Self::Properties => f.write_str("NAME:value pairs with commas between"),
            Self::NodesOrTag => f.write_str("a whole number, 0 or more, or a name such as majority"),
        }
    }
}

impl ValueKind {
    /// Reads a decoded value, which is not empty unless the kind is [`ValueKind::Tags`].
    pub(super) fn parse(&self, text: &str) -> Parsed {
        let value = match *self {
            Self::Bool => self.bool(text).map(Value::Bool),
            Self::Int { min, max, also, unit } => self.int(text, min, max, also, unit).map(Value::Int),
            Self::Text => Ok(Value::Text(text.to_owned())),
            Self::Secret => Ok(Value::Secret(Secret::new(text))),
            Self::OneOf(values) => self.one_of(text, values).map(Value::Text),
            Self::ListOf(values) => return self.list_of(text, values),
            Self::Tags => self.tags(text).map(|tags| Value::TagSets(vec![tags])),
            Self::Properties => self.properties(text).map(Value::Properties),
            Self::NodesOrTag => self.nodes_or_tag(text).map(Value::W),
        };
        match value {
            Ok(value) => Parsed { value: Some(value), bad: None },
            Err(bad) => Parsed { value: None, bad: Some(bad) },
        }
    }

    fn bad(&self, why: impl Into<String>, drivers: Option<&'static str>) -> BadValue {
        BadValue { why: why.into(), help: format!("allowed: {self}"), drivers }
    }

    fn bool(&self, text: &str) -> Result<bool, BadValue> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            // The Java driver's ConnectionString takes these, in any case; the specification deprecates them.
            _ => Err(self.bad(
                "is neither true nor false",
                match text.trim().to_ascii_lowercase().as_str() {
                    "true" | "yes" | "1" => Some("the Java driver 5.4 reads it as true all the same"),
                    "false" | "no" | "0" => Some("the Java driver 5.4 reads it as false all the same"),
                    _ => None,
                },
            )),
        }
    }

    fn int(&self, text: &str, min: i64, max: i64, also: Option<i64>, unit: &str) -> Result<i64, BadValue> {
        match text.parse::<i64>() {
            Ok(value) if (min..=max).contains(&value) || Some(value) == also => Ok(value),
            Ok(value) if value > max => {
                let is_too_long = max == i64::from(i32::MAX);
                Err(self.bad(format!("is more than {max}"), is_too_long.then_some(JAVA_REFUSES)))
            }
            Ok(_) => Err(self.bad(format!("is less than {min}"), None)),
            Err(_) => {
                let bad = self.bad("is no whole number", Some(JAVA_REFUSES));
                match without_unit(text, unit).filter(|value| (min..=max).contains(value)) {
                    Some(value) => Err(BadValue { help: format!("write the number alone: {value}"), ..bad }),
                    None => Err(bad),
                }
            }
        }
    }

    fn one_of(&self, text: &str, values: &[&str]) -> Result<String, BadValue> {
        if values.contains(&text) {
            return Ok(text.to_owned());
        }
        let bad = self.bad("is not one of the values allowed", Some(JAVA_REFUSES));
        match values.iter().find(|value| value.eq_ignore_ascii_case(text)) {
            Some(value) => Err(BadValue { help: format!("write {value}"), drivers: None, ..bad }),
            None => Err(bad),
        }
    }

    fn list_of(&self, text: &str, values: &[&str]) -> Parsed {
        let (known, unknown): (Vec<&str>, Vec<&str>) =
            text.split(',').map(str::trim).filter(|part| !part.is_empty()).partition(|part| values.contains(part));
        let bad = (!unknown.is_empty() || known.is_empty())
            .then(|| self.bad("names one that is not allowed", Some(JAVA_REFUSES)));
        let value = (!known.is_empty()).then(|| Value::List(known.into_iter().map(str::to_owned).collect()));
        Parsed { value, bad }
    }

    fn tags(&self, text: &str) -> Result<TagSet, BadValue> {
        let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
        pairs
            .map(|pair| match pair.split_once(':') {
                Some((name, value)) if !value.contains(':') => Ok((name.trim().to_owned(), value.trim().to_owned())),
                _ => Err(self.bad("has a part that is no name:value pair", Some(JAVA_REFUSES))),
            })
            .collect()
    }

    fn properties(&self, text: &str) -> Result<Vec<Property>, BadValue> {
        text.split(',')
            .map(|pair| match pair.split_once(':') {
                Some((name, value)) if !name.trim().is_empty() => {
                    Ok(Property { name: name.trim().to_owned(), value: Secret::new(value.trim()) })
                }
                _ => Err(BadValue {
                    help: "a value with a comma, escaped or not, cannot be given in a connection string".to_owned(),
                    ..self.bad("has a part between commas that is no NAME:value pair", Some(JAVA_REFUSES))
                }),
            })
            .collect()
    }

    fn nodes_or_tag(&self, text: &str) -> Result<W, BadValue> {
        match text.parse::<i64>() {
            Ok(value) => match u32::try_from(value) {
                Ok(nodes) if i32::try_from(nodes).is_ok() => Ok(W::Nodes(nodes)),
                _ => Err(self.bad("is no possible number of members", (value < 0).then_some(JAVA_REFUSES))),
            },
            Err(_) => Ok(W::Tag(text.to_owned())),
        }
    }
}

/// A number followed by a unit of time, turned into the option's own unit.
fn without_unit(text: &str, unit: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let value: i64 = text[..digits].parse().ok()?;
    let millis = match text[digits..].trim() {
        "ms" | "millis" => 1,
        "s" | "sec" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    match unit {
        "ms" => value.checked_mul(millis),
        "s" => value.checked_mul(millis).map(|millis| millis / 1_000),
        _ => None,
    }
}
