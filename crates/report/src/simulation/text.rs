//! A simulation for people.

use comfy_table::{CellAlignment, Table, presets};

use backfire_model::predict::{Distribution, Stall};
use backfire_model::scenario::Scenario;
use backfire_model::simulated::Simulated;
use backfire_model::tally::{Point, Spread};

use super::chart;
use crate::{table, timeline};

/// How wide the charts are where the width of the output is not known.
const CHART_COLUMNS: usize = 60;

fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// What is simulated, in one line.
pub fn headline(scenario: &Scenario) -> String {
    let load = &scenario.load;
    let mut text = format!("{}: {}", scenario.name, counted(load.consumers, "consumer", "consumers"));
    if let Some(partitions) = load.partitions.filter(|partitions| *partitions != load.consumers) {
        text.push_str(&format!(", {}", counted(partitions, "partition", "partitions")));
    }
    text.push_str(&if load.partitions() == 1 {
        format!(", {}", counted(load.records, "record", "records"))
    } else {
        format!(" x {}", counted(load.records, "record", "records"))
    });
    if load.arrival_interval_ms > 0 {
        text.push_str(&format!(", one every {} per partition", seconds(load.arrival_interval_ms)));
    }
    if load.service_ms > 0 {
        let spread = if load.service == Distribution::Exponential { " on average" } else { "" };
        let capacity = scenario.server.write_tickets as f64 * 1000.0 / load.service_ms as f64;
        text.push_str(&format!(
            "; a write takes {}{spread}, {} tickets: {capacity:.0} writes/s",
            seconds(load.service_ms),
            scenario.server.write_tickets
        ));
    }
    text
}

fn stall(simulated: &Simulated) -> String {
    let what = match simulated.scenario.stall {
        Stall::None => return "no stall".to_owned(),
        Stall::FailCommand { hold_ms, times } => {
            return format!("stall: the first {times} sends are held for {} each", seconds(hold_ms));
        }
        Stall::LostReply { times } => return format!("stall: the first {times} replies are lost"),
        Stall::Overload { times } => return format!("stall: the first {times} sends are refused as overloaded"),
        Stall::Reset { times } => return format!("stall: the first {times} sends find their connection closed"),
        Stall::Engine => "the engine stands still, deaf to interrupts".to_owned(),
        Stall::Interruptible => "writes stand still where maxTimeMS ends them".to_owned(),
        Stall::Tickets => "no ticket is free".to_owned(),
        Stall::Lock => "another operation holds the collection's lock".to_owned(),
        Stall::Sessions => "no session is given out".to_owned(),
        Stall::Slow { takes_ms, distribution: Distribution::Fixed } => format!("a write takes {}", seconds(takes_ms)),
        Stall::Slow { takes_ms, .. } => format!("a write takes {} on average", seconds(takes_ms)),
        Stall::Freeze => "the whole server stands still".to_owned(),
        Stall::StepDown => "nobody is primary".to_owned(),
    };
    match simulated.stall_ms {
        Some((from_ms, to_ms)) => format!("stall: {what}, {} to {}", seconds(from_ms), seconds(to_ms)),
        None => format!("stall: {what}"),
    }
}

fn seconds(ms: u64) -> String {
    if ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{:.1} s", ms as f64 / 1000.0) }
}

/// The result, wrapped to `width_columns` if that is given.
pub fn render(simulated: &Simulated, width_columns: Option<u16>) -> String {
    let mut text = format!("{}\n{}\n\n", headline(&simulated.scenario), stall(simulated));
    if simulated.is_single() && !simulated.events.is_empty() {
        text.push_str(&timeline::render(&simulated.unpredicted_run(), width_columns));
        text.push('\n');
    }
    match simulated.run() {
        Some(run) => text.push_str(&table::render(&run)),
        None => text.push_str(&numbers(simulated)),
    }
    text.push('\n');
    text.push_str(&over_time(simulated, width_columns));
    text.push('\n');
    for line in verdict(simulated) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn numbers(simulated: &Simulated) -> String {
    let outcome = &simulated.outcome;
    let predicted = simulated.predicted.as_ref().ok().map(|prediction| prediction.counts);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "all", "most per record", "predicted for one"]);
    let most = |spread: &Spread| spread.keys().next_back().copied().unwrap_or(0).to_string();
    let shown = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let mut row = |name: &str, all: u64, most: String, predicted: Option<u64>| {
        table.add_row([name.to_owned(), all.to_string(), most, shown(predicted)]);
    };
    row(
        "executions",
        outcome.executions,
        most(&outcome.executions_per_record),
        predicted.map(|counts| counts.executions),
    );
    row("sends", outcome.sends, most(&outcome.sends_per_record), predicted.map(|counts| counts.sends));
    row("copies", outcome.copies, String::new(), predicted.map(|counts| counts.copies));
    row(
        "most copies at the same time",
        outcome.running_copies_max,
        outcome.overlapping_copies_max.to_string(),
        predicted.map(|counts| counts.overlapping_copies_max),
    );
    for column in 1..4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text: String = table.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    text.push_str(&format!(
        "\n {}: {} written, {} to the dead-letter topic, {} not ended; {} documents\n",
        counted(simulated.scenario.load.records_all(), "record", "records"),
        outcome.written,
        outcome.dead_lettered,
        simulated.scenario.load.records_all() - outcome.written - outcome.dead_lettered,
        outcome.documents,
    ));
    text
}

fn over_time(simulated: &Simulated, width_columns: Option<u16>) -> String {
    let series = &simulated.series;
    let columns = width_columns.map_or(CHART_COLUMNS, |width| usize::from(width).saturating_sub(40).clamp(20, 120));
    type Number = fn(&Point) -> u64;
    let lines: [(&str, Number); 4] = [
        ("running copies", |point| point.running_copies),
        ("waiting resends", |point| point.waiting_resends),
        ("queue for a ticket", |point| point.ticket_queue),
        ("records done", |point| point.done),
    ];
    let mut text = String::new();
    for (name, number) in lines {
        let values: Vec<u64> = series.points.iter().map(number).collect();
        let most = values.iter().copied().max().unwrap_or(0);
        if most > 0 {
            text.push_str(&format!(" {name:18} |{:columns$}| {most}\n", chart::line(&values, columns)));
        }
    }
    let end = seconds(simulated.outcome.ended_ms);
    text.push_str(&format!(" {:18}  0 s{end:>width$}\n", "", width = columns.saturating_sub(3)));
    text
}

/// What is to be said of it, a sentence per line.
fn verdict(simulated: &Simulated) -> Vec<String> {
    let outcome = &simulated.outcome;
    let mut lines = Vec::new();
    match simulated.differences().len() {
        0 if simulated.run().is_some() => lines.push("as predicted".to_owned()),
        0 => {}
        1 => lines.push("1 number differs from the prediction".to_owned()),
        many => lines.push(format!("{many} numbers differ from the prediction")),
    }
    if let (true, Err(why)) = (simulated.is_single(), &simulated.predicted) {
        lines.push(format!("no prediction: {why}"));
    }
    if outcome.poll_interval_exceeded > 0 {
        lines.push(format!(
            "max.poll.interval.ms was exceeded {}: consumers were thrown out of their group, and {} failed",
            counted(outcome.poll_interval_exceeded, "time", "times"),
            counted(outcome.commits_failed, "commit", "commits")
        ));
    }
    if outcome.records_with_two_owners > 0 {
        let records = counted(outcome.records_with_two_owners, "record", "records");
        lines.push(format!("{records} ran in two consumers at the same time"));
    }
    if outcome.dead_letters > outcome.dead_lettered {
        lines.push(format!(
            "{} dead letters for {}: offsets were not committed, so records came back",
            outcome.dead_letters,
            counted(outcome.dead_lettered, "record", "records")
        ));
    }
    if outcome.dead_letters_failed > 0 {
        lines.push(format!("{} dead letters could not be published", outcome.dead_letters_failed));
    }
    if outcome.late_copies > 0 {
        lines.push(format!("{} older copies wrote after a newer execution: they undo newer data", outcome.late_copies));
    }
    if !simulated.is_complete {
        lines.push(format!("not over after {}: the simulation ends here", seconds(outcome.ended_ms)));
    }
    if let Some((_, ended_ms)) = simulated.stall_ms.filter(|_| !simulated.is_single()) {
        lines.push(match outcome.recovered_after_ms {
            Some(after_ms) => format!(
                "{} after the stall no record had more than one operation at the server any more",
                seconds(after_ms)
            ),
            None => format!(
                "the retries outlive the stall: {} after it, {} records still have more than one operation at the server",
                seconds(outcome.ended_ms.saturating_sub(ended_ms)),
                outcome.left_multiplied
            ),
        });
    }
    lines
}
