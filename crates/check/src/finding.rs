//! Findings, as they are reported.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::source::Place;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Worth knowing.
    Note,
    /// It will go wrong when a server stands still, or it does not do what it seems to.
    Warning,
    /// It goes wrong, or does not work.
    Error,
}

impl Level {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule's id.
    pub rule: &'static str,
    /// How bad it is.
    pub level: Level,
    /// A level other than the rule's.
    pub set_level: Option<Level>,
    /// What is wrong, with the number behind it.
    pub message: String,
    /// Where.
    pub place: Option<Place>,
    /// What to write instead; it can be pasted.
    pub fix: Option<String>,
    /// The service and the listener it is about.
    pub about: String,
    /// What stays the same when lines move (see [`crate::baseline`]).
    pub fingerprint: String,
}

impl Finding {
    /// A finding of a rule; the level is the rule's unless another is set.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            rule: "",
            level: Level::Warning,
            set_level: None,
            message: message.into(),
            place: None,
            fix: None,
            about: String::new(),
            fingerprint: String::new(),
        }
    }

    /// With a place.
    #[must_use]
    pub fn at(mut self, place: Option<&Place>) -> Self {
        self.place = place.cloned();
        self
    }

    /// With a level other than the rule's.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        (self.level, self.set_level) = (level, Some(level));
        self
    }

    /// With a fix.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}
