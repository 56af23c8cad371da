//! `backfire rehearse`: one write against a stalled server.

use std::sync::Arc;
use std::time::Duration;

use backfire_model::run::Run;
use backfire_model::scenario::{BUILT_IN, Scenario};
#[cfg(not(feature = "kafka"))]
use backfire_rehearsal::RehearsalError;
use backfire_rehearsal::app::AppEnd;
#[cfg(feature = "kafka")]
use backfire_rehearsal::kafka::rehearse_kafka;
use backfire_rehearsal::recorder::Watcher;
use backfire_rehearsal::{AppOptions, Options, Transport, rehearse, rehearse_app};
use backfire_report::explain::explanations;
use backfire_report::{Context, Recording, json, table, timeline};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::report;
use super::serve::now_ms;
use super::sink::WITHOUT_KAFKA;
use crate::cli::{Format, Rehearse, With};
use crate::events::{self, EventFile};
use crate::exit::Exit;
use crate::out;
use crate::progress::Progress;
use crate::scenario;

/// Runs a scenario, or tells which there are.
pub fn run(arguments: &Rehearse) -> Exit {
    if arguments.list {
        return list(arguments.format);
    }
    if let Some(name) = &arguments.print {
        return print(name);
    }
    let scenario = match scenario::read(&arguments.scenario, arguments.scenario_file.as_deref()) {
        Ok(scenario) => scenario,
        Err(why) => return Exit::could_not_run(why),
    };
    let brokers = match brokers(arguments) {
        Ok(brokers) => brokers,
        Err(why) => return Exit::could_not_run(why),
    };
    // The file is opened before the rehearsal: a path that cannot be written should not cost four minutes.
    let events = match arguments.events.as_deref().map(EventFile::create).transpose() {
        Ok(events) => events,
        Err(why) => return Exit::could_not_run(why),
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
    let run = runtime.block_on(until_interrupted(perform(arguments, &scenario, brokers, events.clone())));
    // What happened up to an interruption is kept as well.
    let kept = events.as_ref().map_or(Ok(()), EventFile::finish);
    let (run, app) = match (run, kept) {
        (Err(why), _) | (_, Err(why)) => return Exit::could_not_run(why),
        (Ok(run), Ok(())) => run,
    };
    if let Some(target) = report {
        let known = Context { began_at_unix_ms, ..backfire_report::scenario::context(&scenario, arguments.scale) };
        if let Err(why) = target.write(&Recording::from_run(&run).with(known)) {
            return Exit::could_not_run(why);
        }
    }
    show(arguments, &run, app)
}

/// The brokers that the record comes through; `None`: it does not come through any.
fn brokers(arguments: &Rehearse) -> Result<Option<&str>, String> {
    match (arguments.with, &arguments.brokers) {
        (None, _) => Ok(None),
        (Some(With::Kafka), _) if !cfg!(feature = "kafka") => Err(WITHOUT_KAFKA.to_owned()),
        (Some(With::Kafka), Some(brokers)) => Ok(Some(brokers)),
        (Some(With::Kafka), None) => Err("--with kafka needs a broker: --brokers HOST:PORT; in backfire's sources, \
             'clients/kafka/run broker' starts one and says where it is"
            .to_owned()),
    }
}

/// Never called: [`brokers`] has refused.
#[cfg(not(feature = "kafka"))]
async fn rehearse_kafka(_: &Scenario, _: &Options, _: &str) -> Result<Run, RehearsalError> {
    Err(RehearsalError::Application(WITHOUT_KAFKA.to_owned()))
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

/// What sees every event: the progress, and the file that keeps it.
fn watcher(progress: Option<Watcher>, events: Option<EventFile>) -> Option<Watcher> {
    if progress.is_none() && events.is_none() {
        return None;
    }
    Some(Arc::new(move |event, ledger| {
        if let Some(events) = &events {
            events.write(event);
        }
        if let Some(progress) = &progress {
            progress(event, ledger);
        }
    }))
}

async fn perform(
    arguments: &Rehearse,
    scenario: &Scenario,
    brokers: Option<&str>,
    events: Option<EventFile>,
) -> Result<(Run, Option<AppEnd>), String> {
    let progress = Progress::start(scenario, arguments.scale, arguments.quiet)?;
    let options = Options {
        scale: arguments.scale,
        transport: Transport::Tcp,
        seed: arguments.seed,
        started_at_ms: now_ms(),
        watcher: watcher(progress.watcher(), events),
    };
    let result = match (&arguments.app, brokers) {
        (None, None) => rehearse(scenario, &options).await.map(|run| (run, None)),
        (None, Some(brokers)) => rehearse_kafka(scenario, &options, brokers).await.map(|run| (run, None)),
        (Some(command), _) => {
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
                if run.measured.0.sends == 0 {
                    let to = arguments.namespace.as_ref().map(|namespace| format!(" to {namespace}"));
                    let to = to.unwrap_or_default();
                    progress.say(&format!("no write{to} arrived from '{command}'; does it use BACKFIRE_URI?"));
                }
                (run, Some(end))
            })
        }
    };
    progress.finish();
    result.map_err(|error| error.to_string())
}

fn list(format: Format) -> Exit {
    let mut scenarios = Vec::new();
    for (name, source) in BUILT_IN {
        match Scenario::parse(source) {
            Ok(scenario) => scenarios.push((*name, scenario.summary)),
            Err(error) => return Exit::could_not_run(format!("{name}: {error}")),
        }
    }
    let text = match format {
        Format::Json => {
            let all: Vec<_> =
                scenarios.iter().map(|(name, summary)| json!({ "name": name, "summary": summary })).collect();
            format!("{:#}\n", Value::from(all))
        }
        Format::Text => {
            let width = scenarios.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            scenarios.iter().map(|(name, summary)| format!("{name:width$}  {summary}\n")).collect()
        }
    };
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

fn show(arguments: &Rehearse, run: &Run, app: Option<AppEnd>) -> Exit {
    let text = match arguments.format {
        Format::Json => as_json(arguments, run, app),
        Format::Text => {
            let scale = if run.scale == 1.0 { String::new() } else { format!(", every time x {}", run.scale) };
            let through = arguments.brokers.as_ref().map(|brokers| format!(", through Kafka at {brokers}"));
            let through = through.unwrap_or_default();
            let timeline = timeline::render(run, out::width_columns());
            let verdict = match run.differences().len() {
                0 => "as predicted".to_owned(),
                1 => "1 number differs from the prediction".to_owned(),
                many => format!("{many} numbers differ from the prediction"),
            };
            let executions = match app {
                Some(_) => {
                    "\nexecutions: the distinct writes that arrived; those of a program cannot be seen from outside\n"
                }
                None => "",
            };
            let explained: String = explanations(&run.events).into_iter().map(|text| text + "\n").collect();
            let numbers = table::render(run);
            format!("{}{scale}{through}\n\n{timeline}\n{explained}{numbers}{executions}\n{verdict}\n", run.scenario,)
        }
    };
    // Two results on one stream could not be told apart.
    if arguments.events.as_deref().is_some_and(events::is_stdout) {
        eprint!("{text}");
    } else if let Err(exit) = out::print(&text) {
        return exit;
    }
    if run.differences().is_empty() { Exit::Fine } else { Exit::Difference }
}

/// The run as JSON; with `--app`, how the program ended as well.
fn as_json(arguments: &Rehearse, run: &Run, end: Option<AppEnd>) -> String {
    let text = json::render(run) + "\n";
    let (Some(end), Ok(Value::Object(mut object))) = (end, serde_json::from_str(&text)) else { return text };
    let (how, status) = match end {
        AppEnd::Exited(Some(status)) => ("exited", Some(status)),
        AppEnd::Exited(None) => ("signal", None),
        AppEnd::TimedOut => ("timed_out", None),
    };
    object.insert("app".to_owned(), json!({ "command": arguments.app, "end": how, "status": status }));
    format!("{:#}\n", Value::Object(object))
}
