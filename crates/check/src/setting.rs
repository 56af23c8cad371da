//! A setting: its value, and where it comes from.

use std::fmt;

use crate::source::Place;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(Place),
    /// The default of something, such as "Java driver 5.4".
    Default(String),
    /// An argument of the command line, such as `--uri`.
    Argument(String),
    /// A variable of the environment.
    Environment(String),
    /// Nowhere: it is not known.
    Unknown {
        /// Why not.
        why: String,
        /// Where something stands that cannot be read, if it does.
        place: Option<Place>,
    },
}

impl Source {
    /// A default of `what`.
    pub fn default_of(what: impl Into<String>) -> Self {
        Self::Default(what.into())
    }

    /// Not known, because of `why`.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into(), place: None }
    }

    /// The place in a file, if there is one.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::File(place) => Some(place),
            Self::Unknown { place, .. } => place.as_ref(),
            Self::Default(_) | Self::Argument(_) | Self::Environment(_) => None,
        }
    }

    /// Whether somebody set it, in contrast to a default.
    pub fn is_set(&self) -> bool {
        matches!(self, Self::File(_) | Self::Argument(_) | Self::Environment(_))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(place) => write!(f, "{place}"),
            Self::Default(of) => write!(f, "default of {of}"),
            Self::Argument(name) => write!(f, "{name}"),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Unknown { why, place: Some(place) } => write!(f, "{place}: {why}"),
            Self::Unknown { why, place: None } => write!(f, "{why}"),
        }
    }
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value; `None`: not known.
    pub value: Option<T>,
    /// Where it comes from.
    pub source: Source,
}

impl<T> Setting<T> {
    /// A known value.
    pub fn new(value: T, source: Source) -> Self {
        Self { value: Some(value), source }
    }

    /// A default of `what`.
    pub fn default_of(value: T, what: impl Into<String>) -> Self {
        Self::new(value, Source::default_of(what))
    }

    /// A value that is not known.
    pub fn unknown(why: impl Into<String>, place: Option<Place>) -> Self {
        Self { value: None, source: Source::Unknown { why: why.into(), place } }
    }

    /// The place in a file, if there is one.
    pub fn place(&self) -> Option<&Place> {
        self.source.place()
    }

    /// Another value of the same source.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: self.value.map(change), source: self.source }
    }
}

impl<T: fmt::Display> Setting<T> {
    /// The value as text, `unknown` where it is not known.
    pub fn shown(&self) -> String {
        self.value.as_ref().map_or_else(|| "unknown".to_owned(), T::to_string)
    }
}

/// A number of milliseconds with a unit that people read: `30 s`, `500 ms`, `3 min 20 s`, `4 h 10 min`.
pub fn shown_ms(ms: u64) -> String {
    let parts = |large: u64, large_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large} {large_unit}"),
        small => format!("{large} {large_unit} {small} {small_unit}"),
    };
    match ms {
        ms if ms >= 7_200_000 => parts(ms / 3_600_000, "h", ms % 3_600_000 / 60_000, "min"),
        ms if ms >= 120_000 => parts(ms / 60_000, "min", ms % 60_000 / 1_000, "s"),
        ms if ms % 1_000 == 0 && ms > 0 => format!("{} s", ms / 1_000),
        ms if ms >= 10_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        ms => format!("{ms} ms"),
    }
}

/// `1 copy`, `2 copies`.
pub fn counted(number: impl fmt::Display, one: &str, many: &str) -> String {
    let number = number.to_string();
    let what = if number == "1" { one } else { many };
    format!("{number} {what}")
}
