//! Many simulations: over all combinations of dials, or in search of a threshold.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use backfire_model::dial::{Dial, Kind, Value};
use backfire_model::scenario::Scenario;
use backfire_model::simulated::{SweepRow, Threshold};
use parking_lot::Mutex;

use super::{SimulateOptions, simulate};

/// A sweep has at most so many combinations.
pub const COMBINATIONS_MAX: usize = 1000;

/// Dials and their values.
pub type Dials = Vec<(&'static Dial, Vec<Value>)>;

/// All combinations, the last dial changing fastest.
///
/// # Errors
/// When there are too many.
pub fn combinations(dials: &Dials) -> Result<Vec<Vec<Value>>, String> {
    let count = dials.iter().map(|(_, values)| values.len()).try_fold(1_usize, usize::checked_mul);
    match count {
        Some(count) if count <= COMBINATIONS_MAX => {}
        _ => return Err(format!("the sweep has more than {COMBINATIONS_MAX} combinations")),
    }
    Ok(dials.iter().fold(vec![Vec::new()], |all, (_, values)| {
        all.iter()
            .flat_map(|before| {
                values.iter().map(move |value| [before.as_slice(), std::slice::from_ref(value)].concat())
            })
            .collect()
    }))
}

/// Simulates every combination, on as many threads as there are processors. `done` is told after each how many are.
///
/// # Errors
/// When there are too many combinations. One that cannot be run is a row that says why.
pub fn sweep(
    scenario: &Scenario,
    dials: &Dials,
    seed: u64,
    done: impl Fn(usize, usize) + Sync,
) -> Result<Vec<SweepRow>, String> {
    let combinations = combinations(dials)?;
    let rows: Mutex<BTreeMap<usize, SweepRow>> = Mutex::default();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(combinations.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(values) = combinations.get(index) else { return };
                    let setting: Vec<_> = dials.iter().map(|(dial, _)| *dial).zip(values).collect();
                    let row = one(scenario, &setting, seed);
                    let mut rows = rows.lock();
                    rows.insert(index, row);
                    done(rows.len(), combinations.len());
                }
            });
        }
    });
    Ok(rows.into_inner().into_values().collect())
}

fn one(scenario: &Scenario, setting: &[(&'static Dial, &Value)], seed: u64) -> SweepRow {
    let values = setting.iter().map(|(dial, value)| (dial.name, value.to_string())).collect();
    let run = || {
        let mut scenario = scenario.clone();
        for (dial, value) in setting {
            dial.set(&mut scenario, value)?;
        }
        scenario.check().map_err(|error| error.to_string())?;
        let options = SimulateOptions { seed, ..SimulateOptions::default() };
        simulate(&scenario, options).map(Into::into).map_err(|error| error.to_string())
    };
    SweepRow { values, result: run() }
}

/// Searches between two values of a dial for the place at which retries begin to outlive their stall, by halving. It
/// supposes that there is one such place.
///
/// # Errors
/// A dial that is no number, a range the wrong way round, a value that cannot be run.
pub fn threshold(
    scenario: &Scenario,
    dial: &'static Dial,
    (low, high): (u64, u64),
    seed: u64,
    mut done: impl FnMut(&SweepRow),
) -> Result<Threshold, String> {
    let made = |number| match dial.kind {
        Kind::Duration => Ok(Value::Duration(number)),
        Kind::Count => Ok(Value::Count(number)),
        _ => Err(format!("{}: a threshold is searched over a time or a number", dial.name)),
    };
    // Times are searched as finely as makes sense for the range.
    let least_step = if dial.kind == Kind::Duration { ((high - low) / 100).max(1) } else { 1 };
    let mut rows: BTreeMap<u64, SweepRow> = BTreeMap::new();
    let mut outlives = |number: u64| -> Result<bool, String> {
        let row = one(scenario, &[(dial, &made(number)?)], seed);
        done(&row);
        let outlives = row.result.as_ref().map(|numbers| numbers.outlives_stall).map_err(Clone::clone);
        rows.insert(number, row);
        outlives.map_err(|error| format!("{}={}: {error}", dial.name, number))
    };
    let (mut low, mut high) = (low, high);
    let (at_low, at_high) = (outlives(low)?, outlives(high)?);
    if at_low != at_high {
        while high - low > least_step {
            let middle = low + (high - low) / 2;
            if outlives(middle)? == at_low { low = middle } else { high = middle }
        }
    }
    let shown = |number| made(number).map(|value| value.to_string());
    let (quiet, stormy) = if at_low { (high, low) } else { (low, high) };
    let between = if at_low == at_high { None } else { Some((shown(quiet)?, shown(stormy)?)) };
    Ok(Threshold { dial: dial.name, between, rows: rows.into_values().collect() })
}
