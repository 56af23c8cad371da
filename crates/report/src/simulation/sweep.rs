//! A sweep or a threshold for people: a table, and a bar for the most copies in each row.

use comfy_table::{CellAlignment, Table, presets};

use backfire_model::simulated::{SweepRow, Threshold};

use super::chart;

/// How long the longest bar is.
const BAR_COLUMNS: usize = 30;

/// The table.
pub fn render(rows: &[SweepRow]) -> String {
    let most = rows
        .iter()
        .filter_map(|row| row.result.as_ref().ok())
        .map(|numbers| numbers.outcome.running_copies_max)
        .max()
        .unwrap_or(0);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let dials = rows.first().map(|row| row.values.as_slice()).unwrap_or_default();
    let mut header: Vec<String> = dials.iter().map(|(name, _)| (*name).to_owned()).collect();
    header.extend(
        ["executions", "sends", "dead letters", "copies per record", "recovers after", "most copies"]
            .map(str::to_owned),
    );
    table.set_header(header);
    for row in rows {
        let mut cells: Vec<String> = row.values.iter().map(|(_, value)| value.clone()).collect();
        match &row.result {
            Ok(numbers) => {
                let outcome = &numbers.outcome;
                let copies = outcome.running_copies_max;
                cells.extend([
                    outcome.executions.to_string(),
                    outcome.sends.to_string(),
                    outcome.dead_lettered.to_string(),
                    outcome.overlapping_copies_max.to_string(),
                    match outcome.recovered_after_ms {
                        Some(after_ms) => format!("{:.1} s", after_ms as f64 / 1000.0),
                        None if numbers.outlives_stall => "never".to_owned(),
                        None => "-".to_owned(),
                    },
                    format!("{copies:>6} {}", chart::bar(copies, most, BAR_COLUMNS)),
                ]);
            }
            Err(why) => cells.push(why.lines().next().unwrap_or_default().to_owned()),
        }
        table.add_row(cells);
    }
    for column in dials.len()..dials.len() + 5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// What was tried, and the two values between which it lies.
pub fn threshold(threshold: &Threshold) -> String {
    let dial = threshold.dial;
    let verdict = match &threshold.between {
        Some((recovers, outlives)) => {
            format!("with {dial}={recovers} the service recovers; with {dial}={outlives} the retries outlive the stall")
        }
        None if threshold.rows.iter().any(|row| row.result.as_ref().is_ok_and(|numbers| numbers.outlives_stall)) => {
            "the retries outlive the stall at both ends of the range".to_owned()
        }
        None => "the service recovers at both ends of the range".to_owned(),
    };
    format!("{}\n{verdict}\n", render(&threshold.rows))
}
