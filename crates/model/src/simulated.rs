//! What came of a simulation.

use crate::counts::{Counts, Difference, Extras, differences};
use crate::event::Event;
use crate::predict::{Prediction, Unpredictable};
use crate::run::Run;
use crate::scenario::Scenario;
use crate::tally::{Outcome, Series};

/// A simulation that was run.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// What was simulated.
    pub scenario: Scenario,
    /// The seed of everything random.
    pub seed: u64,
    /// The numbers.
    pub outcome: Outcome,
    /// What happened over time.
    pub series: Series,
    /// What the settings promise for one record that meets the stall from its beginning, or why there is no prediction.
    pub predicted: Result<Prediction, Unpredictable>,
    /// When the stall began and ended; `None`: there was none that begins and ends.
    pub stall_ms: Option<(u64, u64)>,
    /// Whether every record had ended when the simulation did.
    pub is_complete: bool,
    /// The numbers of the first record.
    pub first: (Counts, Extras),
    /// The events that were kept.
    pub events: Vec<Event>,
    /// Events that did not fit.
    pub events_dropped: u64,
}

impl Simulated {
    /// Whether it was one record in one consumer, which a prediction is about.
    pub fn is_single(&self) -> bool {
        self.scenario.load.records_all() == 1
    }

    /// The prediction beside the numbers, where it is about one record and there is one.
    pub fn run(&self) -> Option<Run> {
        let predicted = self.predicted.as_ref().ok().filter(|_| self.is_single())?;
        Some(Run { predicted: (predicted.counts, predicted.extras), ..self.unpredicted_run() })
    }

    /// The run of the first record beside itself, for what shows events and compares nothing.
    pub fn unpredicted_run(&self) -> Run {
        let counts = Counts { documents: self.outcome.documents, ..self.first.0 };
        Run {
            scenario: self.scenario.name.clone(),
            scale: 1.0,
            namespace: Some(self.scenario.workload.namespace.clone()),
            predicted: (counts, self.first.1),
            measured: (counts, self.first.1),
            events: self.events.clone(),
        }
    }

    /// Everything in which it differs from the prediction. Of several records nothing can: they meet the stall at
    /// different times.
    pub fn differences(&self) -> Vec<Difference> {
        self.run()
            .map(|run| differences((&run.predicted.0, &run.predicted.1), (&run.measured.0, &run.measured.1)))
            .unwrap_or_default()
    }

    /// Whether the retries went on although the stall was over: the simulation ended with records that still had more
    /// than one operation at the server.
    pub fn outlives_stall(&self) -> bool {
        self.stall_ms.is_some() && self.outcome.recovered_after_ms.is_none()
    }
}

/// One combination of a sweep.
#[derive(Debug, Clone)]
pub struct SweepRow {
    /// What was set: name and value of each dial.
    pub values: Vec<(&'static str, String)>,
    /// What came of it, or why it could not be run.
    pub result: Result<SweepNumbers, String>,
}

/// What a sweep keeps of a simulation.
#[derive(Debug, Clone)]
pub struct SweepNumbers {
    /// The numbers.
    pub outcome: Outcome,
    /// Whether every record had ended.
    pub is_complete: bool,
    /// Whether the retries outlived the stall.
    pub outlives_stall: bool,
}

impl From<Simulated> for SweepNumbers {
    fn from(simulated: Simulated) -> Self {
        Self {
            is_complete: simulated.is_complete,
            outlives_stall: simulated.outlives_stall(),
            outcome: simulated.outcome,
        }
    }
}

/// The value of a dial at which retries begin to outlive their stall.
#[derive(Debug, Clone)]
pub struct Threshold {
    /// The dial.
    pub dial: &'static str,
    /// The nearest value at which the service recovers, and the nearest at which it does not; `None`: it is the same over
    /// the whole range.
    pub between: Option<(String, String)>,
    /// Everything that was tried, in the order of the values.
    pub rows: Vec<SweepRow>,
}
