//! A run beside its prediction.

use crate::counts::{Counts, Difference, Extras, differences};
use crate::event::Event;

/// A run and its prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The scenario's name.
    pub scenario: String,
    /// What every time of the scenario was multiplied by.
    pub scale: f64,
    /// The collection whose writes count; `None`: every collection.
    pub namespace: Option<String>,
    /// What the settings promise.
    pub predicted: (Counts, Extras),
    /// What happened.
    pub measured: (Counts, Extras),
    /// Everything that happened, in order.
    pub events: Vec<Event>,
}

impl Run {
    /// Everything in which it differs from its prediction.
    pub fn differences(&self) -> Vec<Difference> {
        differences((&self.predicted.0, &self.predicted.1), (&self.measured.0, &self.measured.1))
    }
}
