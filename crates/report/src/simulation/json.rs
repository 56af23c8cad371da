//! A simulation, a sweep or a threshold for machines.

use backfire_model::simulated::{Simulated, SweepRow, Threshold};
use serde_json::{Value, json};

fn value(of: impl serde::Serialize) -> Value {
    // Every type here is made of numbers and lists of numbers, which cannot fail.
    serde_json::to_value(of).unwrap_or(Value::Null)
}

/// `{scenario, seed, load, stall_ms, complete, predicted, differences, outcome, series}`.
pub fn render(simulated: &Simulated) -> String {
    let scenario = &simulated.scenario;
    let predicted = match &simulated.predicted {
        Ok(prediction) => {
            json!({ "counts": value(prediction.counts), "application_ends_ms": prediction.application_ends_ms })
        }
        Err(why) => json!({ "why_not": why.to_string() }),
    };
    let stall = simulated.stall_ms.map(|(from_ms, to_ms)| json!({ "from_ms": from_ms, "to_ms": to_ms }));
    let all = json!({
        "scenario": scenario.name,
        "seed": simulated.seed,
        "load": value(&scenario.load),
        "kafka": value(&scenario.kafka),
        "stall": stall,
        "complete": simulated.is_complete,
        "outlives_stall": simulated.outlives_stall(),
        "predicted": predicted,
        "measured": simulated.is_single().then(|| value(simulated.run().map(|run| run.measured.0))),
        "differences": value(simulated.differences()),
        "outcome": value(&simulated.outcome),
        "series": value(&simulated.series),
    });
    pretty(&all)
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn row(row: &SweepRow) -> Value {
    let values: serde_json::Map<_, _> =
        row.values.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.clone()))).collect();
    match &row.result {
        Ok(numbers) => json!({
            "set": values,
            "complete": numbers.is_complete,
            "outlives_stall": numbers.outlives_stall,
            "outcome": value(&numbers.outcome),
        }),
        Err(why) => json!({ "set": values, "error": why }),
    }
}

/// `{rows: [{set, complete, outlives_stall, outcome}, …]}`.
pub fn sweep(rows: &[SweepRow]) -> String {
    pretty(&json!({ "rows": rows.iter().map(row).collect::<Vec<_>>() }))
}

/// `{dial, recovers_at, outlives_at, rows}`.
pub fn threshold(threshold: &Threshold) -> String {
    let (recovers, outlives) = threshold.between.clone().unzip();
    pretty(&json!({
        "dial": threshold.dial,
        "recovers_at": recovers,
        "outlives_at": outlives,
        "rows": threshold.rows.iter().map(row).collect::<Vec<_>>(),
    }))
}
