//! `backfire rehearse`: one write against a stalled server.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use backfire_model::event::Event;
use backfire_model::run::Run;
use backfire_model::scenario::{BUILT_IN, Scenario};
use backfire_rehearsal::app::AppEnd;
use backfire_rehearsal::{AppOptions, Options, Transport, rehearse, rehearse_app};
use backfire_report::{Context, Recording, json, table, timeline};
use tokio::signal::unix::{SignalKind, signal};

use super::report;
use super::serve::now_ms;
use crate::cli::{Format, Rehearse};
use crate::exit::Exit;
use crate::out;
use crate::progress::Progress;

/// Runs a scenario, or tells which there are.
pub fn run(arguments: &Rehearse) -> Exit {
    if arguments.list {
        return list();
    }
    if let Some(name) = &arguments.print {
        return print(name);
    }
    let scenario = match scenario(arguments) {
        Ok(scenario) => scenario,
        Err(why) => return Exit::could_not_run(why),
    };
    // The file is opened before the rehearsal: a path that cannot be written should not cost four minutes.
    let events =
        match arguments.events.as_deref().map(|path| File::create(path).map_err(|error| cannot_write(path, &error))) {
            None => None,
            Some(Ok(file)) => Some(file),
            Some(Err(why)) => return Exit::could_not_run(why),
        };
    let report = match arguments.report.as_deref().map(report::Target::open) {
        None => None,
        Some(Ok(target)) => Some(target),
        Some(Err(why)) => return Exit::could_not_run(why),
    };
    let began_at_unix_ms = u64::try_from(now_ms()).ok();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Exit::could_not_run(format!("cannot start: {error}")),
    };
    let run = match runtime.block_on(until_interrupted(perform(arguments, &scenario))) {
        Ok(run) => run,
        Err(why) => return Exit::could_not_run(why),
    };
    if let (Some(file), Some(path)) = (events, &arguments.events)
        && let Err(error) = write_events(file, &run.events)
    {
        return Exit::could_not_run(cannot_write(path, &error));
    }
    if let Some(target) = report {
        let known = Context { began_at_unix_ms, ..backfire_report::scenario::context(&scenario, arguments.scale) };
        if let Err(why) = target.write(&Recording::from_run(&run).with(known)) {
            return Exit::could_not_run(why);
        }
    }
    show(arguments.format, &run)
}

/// Runs something that must clean up behind itself, also when the user has enough.
async fn until_interrupted<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    tokio::select! {
        result = work => result,
        _ = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
        _ = terminated.recv() => Err("terminated".to_owned()),
    }
}

async fn perform(arguments: &Rehearse, scenario: &Scenario) -> Result<Run, String> {
    let progress = Progress::start(scenario, arguments.scale, arguments.quiet)?;
    let options = Options {
        scale: arguments.scale,
        transport: Transport::Tcp,
        seed: arguments.seed,
        started_at_ms: now_ms(),
        watcher: progress.watcher(),
    };
    let result = match &arguments.app {
        None => rehearse(scenario, &options).await,
        Some(command) => {
            let app = AppOptions {
                command: command.clone(),
                namespace: arguments.namespace.clone(),
                timeout: arguments.app_timeout.map(Duration::from_secs),
            };
            rehearse_app(scenario, &options, &app).await.map(|(run, end)| {
                match end {
                    AppEnd::Exited(Some(0)) => {}
                    AppEnd::Exited(Some(code)) => progress.say(&format!("'{command}' ended with status {code}")),
                    AppEnd::Exited(None) => progress.say(&format!("'{command}' was ended by a signal")),
                    AppEnd::TimedOut => progress.say(&format!("'{command}' was ended: its time was over")),
                }
                run
            })
        }
    };
    progress.finish();
    result.map_err(|error| error.to_string())
}

fn scenario(arguments: &Rehearse) -> Result<Scenario, String> {
    match &arguments.scenario_file {
        None => Scenario::built_in(&arguments.scenario).map_err(|error| error.to_string()),
        Some(path) => {
            let text =
                std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            Scenario::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
        }
    }
}

fn list() -> Exit {
    let width = BUILT_IN.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, source) in BUILT_IN {
        match Scenario::parse(source) {
            Ok(scenario) => text.push_str(&format!("{name:width$}  {}\n", scenario.summary)),
            Err(error) => return Exit::could_not_run(format!("{name}: {error}")),
        }
    }
    out::print(&text).err().unwrap_or(Exit::Fine)
}

fn print(name: &str) -> Exit {
    match Scenario::built_in(name) {
        Ok(_) => {
            let text = BUILT_IN.iter().find(|(built_in, _)| *built_in == name).map_or("", |(_, text)| text);
            out::print(text).err().unwrap_or(Exit::Fine)
        }
        Err(error) => Exit::could_not_run(error),
    }
}

fn show(format: Format, run: &Run) -> Exit {
    let text = match format {
        Format::Json => json::render(run) + "\n",
        Format::Text => {
            let scale = if run.scale == 1.0 { String::new() } else { format!(", every time x {}", run.scale) };
            let timeline = timeline::render(run, out::width_columns());
            let verdict = match run.differences().len() {
                0 => "as predicted".to_owned(),
                1 => "1 number differs from the prediction".to_owned(),
                many => format!("{many} numbers differ from the prediction"),
            };
            format!("{}{scale}\n\n{timeline}\n{}\n{verdict}\n", run.scenario, table::render(run))
        }
    };
    if let Err(exit) = out::print(&text) {
        return exit;
    }
    if run.differences().is_empty() { Exit::Fine } else { Exit::Difference }
}

fn write_events(file: File, events: &[Event]) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    for event in events {
        serde_json::to_writer(&mut out, event)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}
