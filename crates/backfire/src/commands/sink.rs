//! `backfire sink`: the records of a topic into a collection.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::IsTerminal;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use backfire_model::Namespace;
use backfire_server::{Server, ServerConfig};
use backfire_sink::{Settings, Stats, StopHandle, Summary, generated};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::serve::now_ms;
use crate::cli::{Format, Sink};
use crate::exit::Exit;
use crate::{metrics, out};

/// How often the line on a terminal changes, and how often a line is written where there is none.
const SHOW_EVERY: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(10);

/// What a build without the feature says.
pub const WITHOUT_KAFKA: &str =
    "this backfire was built without Kafka; build it with: cargo build --release --features kafka";

/// Writes until it is stopped, or everything is written.
pub fn run(arguments: &Sink) -> Exit {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Exit::could_not_run(format!("cannot start: {error}")),
    };
    let (summary, took) = match runtime.block_on(perform(arguments)) {
        Ok(done) => done,
        Err(why) => return Exit::could_not_run(why),
    };
    let text = match arguments.format {
        Format::Json => json(&summary, took).to_string() + "\n",
        Format::Text => text(&summary, took),
    };
    match out::print(&text) {
        Err(exit) => exit,
        Ok(()) if summary.dead_letters > 0 => Exit::Difference,
        Ok(()) => Exit::Fine,
    }
}

fn settings(arguments: &Sink) -> Result<Settings, String> {
    let mut settings = Settings::default();
    if let Some(path) = &arguments.config {
        let file = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        settings.read(&file).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for (name, value) in &arguments.set {
        settings.set(name, value).map_err(|error| format!("--set: {error}"))?;
    }
    Ok(settings)
}

/// A number that no other process has: sessions are made from it.
fn seed() -> u64 {
    // The standard library takes the keys of its hash maps from the operating system's randomness.
    RandomState::new().build_hasher().finish()
}

async fn perform(arguments: &Sink) -> Result<(Summary, Duration), String> {
    let settings = settings(arguments)?;
    let to = Namespace::parse(&arguments.to).ok_or("--to must be of the form 'database.collection'")?;
    let began = Instant::now();
    let uri = match &arguments.uri {
        Some(uri) => uri.clone(),
        None => {
            let uri = lab_server().await?;
            say(arguments, &format!("a lab server for this run: {uri}"));
            uri
        }
    };
    let generated = settings.generated_records();
    let memory = match &arguments.brokers {
        Some(_) => None,
        None => {
            say(arguments, &format!("{generated} generated records in topic {}", arguments.from));
            let broker = generated::broker(&settings, &arguments.from, now_ms(), seed());
            Some(broker.map_err(|error| error.to_string())?)
        }
    };
    let mut sink = backfire_sink::Sink::new(settings, &arguments.from, to, &uri, now_ms(), seed())
        .map_err(|error| error.to_string())?;
    let limit = arguments.records.or(memory.is_some().then_some(generated));
    match limit {
        Some(0) => return Err("there is nothing to write: generated.records is 0".to_owned()),
        Some(records) => sink = sink.limit(records),
        None => {}
    }
    if let Some(address) = arguments.metrics {
        let (listener, handle) = metrics::listen(address).await?;
        if !arguments.quiet {
            // With port 0 nobody knows it otherwise.
            let address = listener.local_addr().map_err(|error| error.to_string())?;
            eprintln!("metrics at http://{address}/metrics");
        }
        tokio::spawn(metrics::serve(listener, handle));
    }
    let (stats, stop) = (sink.stats(), sink.stop_handle());
    let running = async {
        match (memory, &arguments.brokers) {
            (Some(broker), _) => sink.run_in_memory(broker).await.map_err(|error| error.to_string()),
            (None, brokers) => run_kafka(sink, brokers.as_deref().unwrap_or_default()).await,
        }
    };
    let summary = watch(running, &stats, &stop, arguments.quiet).await?;
    Ok((summary, began.elapsed()))
}

#[cfg(feature = "kafka")]
async fn run_kafka(sink: backfire_sink::Sink, brokers: &str) -> Result<Summary, String> {
    sink.run_kafka(brokers).await.map_err(|error| error.to_string())
}

#[cfg(not(feature = "kafka"))]
async fn run_kafka(_: backfire_sink::Sink, _: &str) -> Result<Summary, String> {
    Err(WITHOUT_KAFKA.to_owned())
}

/// A lab server on a free port of the loopback interface, for as long as this process runs. Gives its connection string.
async fn lab_server() -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot start a lab server: {error}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?.to_string();
    let mut config = ServerConfig::new(address.clone(), now_ms());
    config.seed = seed();
    let server = Server::new(config);
    tokio::spawn(async move {
        if let Err(error) = server.run(listener, std::future::pending()).await {
            tracing::error!("the lab server ended: {error}");
        }
    });
    Ok(format!("mongodb://{address}/?replicaSet=rs0"))
}

/// Shows progress and hands on signals: the first asks it to stop, the second ends it.
async fn watch(
    running: impl Future<Output = Result<Summary, String>>,
    stats: &Arc<Stats>,
    stop: &StopHandle,
    quiet: bool,
) -> Result<Summary, String> {
    let mut interrupted = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut progress = Progress::start(quiet);
    let mut tick = interval(SHOW_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut running = pin!(running);
    let mut signals = 0;
    let result = loop {
        tokio::select! {
            result = &mut running => break result,
            _ = tick.tick() => progress.show(&stats.summary()),
            _ = interrupted.recv() => signals += 1,
            _ = terminated.recv() => signals += 1,
        }
        match signals {
            0 => {}
            1 if !stop.is_requested() => {
                progress.say("stopping; once more to end at once");
                stop.stop();
            }
            1 => {}
            _ => break Err("ended before it had stopped; what was not committed is written again".to_owned()),
        }
    };
    progress.finish();
    result
}

fn say(arguments: &Sink, text: &str) {
    if !arguments.quiet {
        eprintln!("{text}");
    }
}

/// One line on stderr that changes, or a line now and then.
struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    began: Instant,
    next_line: Instant,
}

impl Progress {
    fn start(quiet: bool) -> Self {
        let began = Instant::now();
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, quiet, began, next_line: began + LINE_EVERY }
    }

    fn show(&mut self, summary: &Summary) {
        let elapsed = self.began.elapsed();
        match &self.bar {
            Some(bar) => {
                bar.set_message(line(summary, elapsed));
                bar.tick();
            }
            None if !self.quiet && Instant::now() >= self.next_line => {
                self.next_line += LINE_EVERY;
                eprintln!("{:>6.0} s  {}", elapsed.as_secs_f64(), line(summary, elapsed));
            }
            None => {}
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None if self.quiet => {}
            None => eprintln!("{text}"),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn rate(records: u64, took: Duration) -> f64 {
    records as f64 / took.as_secs_f64().max(0.001)
}

fn line(summary: &Summary, took: Duration) -> String {
    let Summary { done, dead_letters, failures, .. } = summary;
    format!("{done} records, {:.0}/s; {dead_letters} dead letters, {failures} failed bulks", rate(*done, took))
}

fn text(summary: &Summary, took: Duration) -> String {
    let Summary { done, dead_letters, bulks, writes, already_there, failures, waits_ms, .. } = *summary;
    let again = writes.saturating_sub(done - dead_letters.min(done));
    let mut text = format!(
        "{done} records in {:.1} s ({:.0}/s): {} written, {dead_letters} dead letters\n\
         {bulks} bulks, {failures} failed, {:.1} s waited between them; {again} writes more than records\n",
        took.as_secs_f64(),
        rate(done, took),
        done - dead_letters.min(done),
        waits_ms as f64 / 1_000.0,
    );
    let more = [
        (already_there, "inserts found their own document from an earlier execution"),
        (summary.commits_failed, "commits failed; their records may come again"),
        (summary.recoveries_failed, "tries to publish a dead letter failed"),
        (summary.source_failures, "polls failed"),
        (summary.handed_to_two, "records were begun by two consumers"),
    ];
    more.iter().filter(|(count, _)| *count > 0).for_each(|(count, what)| text.push_str(&format!("{count} {what}\n")));
    text
}

fn json(summary: &Summary, took: Duration) -> serde_json::Value {
    json!({
        "records": summary.done,
        "deadLetters": summary.dead_letters,
        "bulks": summary.bulks,
        "writes": summary.writes,
        "alreadyThere": summary.already_there,
        "failedBulks": summary.failures,
        "waitsMs": summary.waits_ms,
        "rebalances": summary.rebalances,
        "failedCommits": summary.commits_failed,
        "failedRecoveries": summary.recoveries_failed,
        "failedPolls": summary.source_failures,
        "handedToTwo": summary.handed_to_two,
        "tookMs": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    })
}
