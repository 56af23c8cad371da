//! `backfire simulate`: many consumers and records on a paused clock.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backfire_model::dial::{self, Dial, Kind, Value};
use backfire_model::event::Event;
use backfire_model::scenario::Scenario;
use backfire_model::simulated::Simulated;
use backfire_rehearsal::simulate::sweep::{Dials, sweep, threshold};
use backfire_rehearsal::simulate::{EventWatcher, ProgressWatcher};
use backfire_rehearsal::{SimulateOptions, simulate};
use backfire_report::Recording;
use backfire_report::simulation::{json, sweep as table, text, trace};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

use super::report::Target;
use crate::cli::{Format, Simulate};
use crate::exit::Exit;
use crate::out;

/// Events that are kept for the timeline of a small simulation.
const TIMELINE_EVENTS_MAX: usize = 20_000;
/// Events that are kept for a report.
const REPORT_EVENTS_MAX: usize = 2_000_000;

/// Runs the command.
pub fn run(arguments: &Simulate) -> Exit {
    if arguments.dials {
        return out::print(&dials()).err().unwrap_or(Exit::Fine);
    }
    match perform(arguments) {
        Ok(exit) => exit,
        Err(why) => Exit::could_not_run(why),
    }
}

fn dials() -> String {
    let width = dial::DIALS.iter().map(|dial| dial.name.len()).max().unwrap_or(0);
    dial::DIALS.iter().map(|dial| format!("{:width$}  {} ({})\n", dial.name, dial.doc, dial.kind)).collect()
}

fn perform(arguments: &Simulate) -> Result<Exit, String> {
    let scenario = scenario(arguments)?;
    if let Some((name, range)) = &arguments.threshold {
        return search(arguments, &scenario, name, range);
    }
    if !arguments.sweep.is_empty() {
        return sweep_all(arguments, &scenario);
    }
    let (progress, watcher) = progress(arguments, &scenario);
    let sink = arguments.events.as_deref().map(Events::create).transpose()?;
    let target = arguments.report.as_deref().map(Target::open).transpose()?;
    let options = SimulateOptions {
        seed: arguments.seed,
        events_max: if target.is_some() { REPORT_EVENTS_MAX } else { TIMELINE_EVENTS_MAX },
        watcher: event_watcher(arguments.trace, sink.clone()),
        progress: watcher,
    };
    if arguments.trace && out::print(trace::LEGEND).is_err() {
        return Ok(Exit::Fine);
    }
    let simulated = simulate(&scenario, options).map_err(|error| error.to_string());
    progress.finish_and_clear();
    let simulated = simulated?;
    if let Some(sink) = sink {
        sink.finish()?;
    }
    if let Some(target) = target {
        if simulated.events_dropped > 0 {
            eprintln!(
                "backfire: the report holds the first {REPORT_EVENTS_MAX} events; {} did not fit",
                simulated.events_dropped
            );
        }
        target.write(&Recording::from_simulated(&simulated))?;
    }
    show(arguments, &simulated)
}

fn scenario(arguments: &Simulate) -> Result<Scenario, String> {
    let mut scenario = crate::scenario::read(&arguments.scenario, arguments.scenario_file.as_deref())?;
    for (name, value) in &arguments.set {
        let dial = Dial::find(name)?;
        dial.set(&mut scenario, &dial.value(value)?)?;
    }
    scenario.load.consumers = arguments.consumers.unwrap_or(scenario.load.consumers);
    scenario.load.records = arguments.records.unwrap_or(scenario.load.records);
    scenario.check().map_err(|error| error.to_string())?;
    Ok(scenario)
}

/// Where the event stream goes as it happens: a simulation may have more events than memory.
#[derive(Clone)]
struct Events {
    path: String,
    out: Arc<Mutex<(BufWriter<File>, Option<io::Error>)>>,
}

impl Events {
    fn create(path: &Path) -> Result<Self, String> {
        let file = File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let out = Arc::new(Mutex::new((BufWriter::new(file), None)));
        Ok(Self { path: path.display().to_string(), out })
    }

    fn write(&self, event: &Event) {
        let mut out = self.out.lock();
        if out.1.is_none() {
            let written = serde_json::to_writer(&mut out.0, event).map_err(io::Error::from);
            out.1 = written.and_then(|()| out.0.write_all(b"\n")).err();
        }
    }

    fn finish(&self) -> Result<(), String> {
        let mut out = self.out.lock();
        let result = match out.1.take() {
            Some(error) => Err(error),
            None => out.0.flush(),
        };
        result.map_err(|error| format!("cannot write {}: {error}", self.path))
    }
}

fn event_watcher(is_trace: bool, sink: Option<Events>) -> Option<EventWatcher> {
    if !is_trace && sink.is_none() {
        return None;
    }
    let mut trace = is_trace.then(|| BufWriter::new(io::stdout()));
    Some(Box::new(move |event| {
        if let Some(sink) = &sink {
            sink.write(event);
        }
        // A reader that has seen enough (`| head`) is no error.
        if trace.as_mut().is_some_and(|out| out.write_all(trace::line(event).as_bytes()).is_err()) {
            trace = None;
        }
    }))
}

fn progress(arguments: &Simulate, scenario: &Scenario) -> (ProgressBar, Option<ProgressWatcher>) {
    let records = scenario.load.records_all();
    if arguments.quiet || arguments.trace || !io::stderr().is_terminal() {
        return (ProgressBar::hidden(), None);
    }
    let bar = ProgressBar::with_draw_target(Some(records), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {bar:30} {pos}/{len} records {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    let own = bar.clone();
    let watcher: ProgressWatcher = Box::new(move |at_ms, now| {
        own.set_position(now.done.min(records));
        own.set_message(format!("{} s simulated, {} copies run", at_ms / 1000, now.running_copies));
    });
    (bar, Some(watcher))
}

fn show(arguments: &Simulate, simulated: &Simulated) -> Result<Exit, String> {
    let text = match arguments.format {
        Format::Json => json::render(simulated) + "\n",
        Format::Text => text::render(simulated, out::width_columns()),
    };
    if let Err(exit) = out::print(&text) {
        return Ok(exit);
    }
    Ok(if simulated.differences().is_empty() { Exit::Fine } else { Exit::Difference })
}

fn bar(arguments: &Simulate, message: &str) -> ProgressBar {
    if arguments.quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar.set_message(message.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn sweep_all(arguments: &Simulate, scenario: &Scenario) -> Result<Exit, String> {
    let dials: Dials = arguments
        .sweep
        .iter()
        .map(|(name, values)| {
            let dial = Dial::find(name)?;
            Ok((dial, dial.values(values)?))
        })
        .collect::<Result<_, String>>()?;
    let bar = bar(arguments, "simulating");
    let rows = sweep(scenario, &dials, arguments.seed, |done, all| bar.set_message(format!("{done}/{all} simulated")));
    bar.finish_and_clear();
    let rows = rows?;
    let text = match arguments.format {
        Format::Json => json::sweep(&rows) + "\n",
        Format::Text => format!("{}\n\n{}", text::headline(scenario), table::render(&rows)),
    };
    let failed = rows.iter().all(|row| row.result.is_err());
    Ok(out::print(&text).err().unwrap_or(if failed { Exit::CouldNotRun } else { Exit::Fine }))
}

fn search(arguments: &Simulate, scenario: &Scenario, name: &str, range: &str) -> Result<Exit, String> {
    let dial = Dial::find(name)?;
    if !matches!(dial.kind, Kind::Duration | Kind::Count) {
        return Err(format!("{}: a threshold is searched over a time or a number", dial.name));
    }
    let ends = dial.values(range)?;
    let number = |value: Option<&Value>| match value {
        Some(Value::Duration(number) | Value::Count(number)) => Some(*number),
        _ => None,
    };
    let (Some(low), Some(high)) = (number(ends.first()), number(ends.last())) else {
        return Err(format!("{}: '{range}' is not a range, such as 1..100", dial.name));
    };
    if low >= high {
        return Err(format!("{}: '{range}' is not a range, such as 1..100", dial.name));
    }
    let bar = bar(arguments, "searching");
    let found = threshold(scenario, dial, (low, high), arguments.seed, |row| {
        let tried: Vec<_> = row.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        bar.set_message(format!("tried {}", tried.join(" ")));
    });
    bar.finish_and_clear();
    let found = found?;
    let text = match arguments.format {
        Format::Json => json::threshold(&found) + "\n",
        Format::Text => format!("{}\n\n{}", text::headline(scenario), table::threshold(&found)),
    };
    Ok(out::print(&text).err().unwrap_or(Exit::Fine))
}
