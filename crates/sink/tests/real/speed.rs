//! How fast a sink is, and how much memory it takes; and the Spring service of clients/spring beside it. Only where
//! `BACKFIRE_SPEED` is set: it wants the machine for itself.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::stage::{Running, Stage};

const RECORD_BYTES: usize = 500;

static RUN: AtomicU64 = AtomicU64::new(0);

/// The most memory that a sink may take.
const MAX_KIB: u64 = 150 * 1024;

/// How much more a ten times longer run may take.
const MORE_KIB: u64 = 20 * 1024;

/// How much faster than the Spring service it has to be.
const TIMES: f64 = 3.0;

/// What a run took, from the first document that was there to the last.
struct Measured {
    /// Records a second.
    rate: f64,
    /// The processor's time for each thousand records, in milliseconds: of what writes, and of the lab server.
    cpu_ms: [f64; 2],
    peak_kib: u64,
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rate, cpu_ms: [own, server], peak_kib } = self;
        write!(f, "{rate:.0} records/s, {} MiB at most, {own:.1} ms of processor time per 1,000", peak_kib / 1024)?;
        write!(f, " and {server:.1} ms of the lab server's")
    }
}

/// A process's processor time so far in milliseconds, and the most memory that it has taken in KiB.
fn taken(process: &Running) -> (u64, u64) {
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", process.0.id())).expect("the process runs");
    let status = read("status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    // Behind the name, which stands in brackets: the 12th and 13th field are ticks of 10 ms, in user code and in the kernel.
    let stat = read("stat");
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields.split(' ').collect::<Vec<_>>()).unwrap_or_default();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
    ((ticks(11) + ticks(12)) * 10, line.and_then(|kib| kib.parse().ok()).unwrap_or(0))
}

/// Lets a process write so many records, and ends it.
async fn measure(stage: &Stage, records: u64, mut process: Running) -> Measured {
    let began = Instant::now();
    let is_late = || began.elapsed() > Duration::from_secs(900);
    let mut first = 0;
    while first == 0 {
        sleep(Duration::from_millis(20)).await;
        assert!(!is_late() && process.0.try_wait().expect("its state").is_none(), "nothing was written");
        first = stage.count().await;
    }
    let from = Instant::now();
    let both = |process: &Running| [process, stage.server()].map(taken);
    let before = both(&process);
    let (mut after, mut count) = (before, first);
    while count < records {
        sleep(Duration::from_millis(50)).await;
        count = stage.count().await;
        after = both(&process);
        assert!(!is_late(), "{count} of {records}");
    }
    let done = (records - first).max(1) as f64;
    let rate = done / from.elapsed().as_secs_f64();
    process.0.kill().expect("killed");
    let cpu_ms = [0, 1].map(|at: usize| (after[at].0 - before[at].0) as f64 * 1_000.0 / done);
    Measured { rate, cpu_ms, peak_kib: after[0].1 }
}

async fn sink(records: u64) -> Option<Measured> {
    // A topic of its own for each run.
    let mut stage = Stage::new(&format!("speed{records}-{}", RUN.fetch_add(1, Ordering::Relaxed))).await?;
    stage.fill(records, RECORD_BYTES).await;
    let sink = stage.sink(&["consumer.max_poll_records=500", "consumer.consumers=2"]);
    Some(measure(&stage, records, sink).await)
}

/// The service with as many consumers and as large polls. `folder` holds its classes and what they depend on.
async fn spring(folder: &Path, records: u64) -> Option<Measured> {
    let mut stage = Stage::new(&format!("spring{records}")).await?;
    stage.fill(records, RECORD_BYTES).await;
    let path = format!("{}:{}/*", folder.join("classes").display(), folder.join("dependency").display());
    let uri = stage.uri_of("test");
    let service = Command::new("java")
        .args(["-Xmx512m", "-cp", &path, "backfire.inventory.InventoryService"])
        .args([
            format!("--INVENTORY_URI={uri}"),
            format!("--INVENTORY_BROKERS={}", stage.brokers),
            format!("--inventory.topic={}", stage.topic),
            format!("--inventory.group={}-spring", stage.topic),
            "--inventory.write=batch".to_owned(),
            "--inventory.consumers=2".to_owned(),
            "--spring.kafka.consumer.max-poll-records=500".to_owned(),
            "--logging.level.root=warn".to_owned(),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the service starts");
    stage.collection = "store_inventory";
    Some(measure(&stage, records, Running(service)).await)
}

fn is_wanted() -> bool {
    std::env::var_os("BACKFIRE_SPEED").is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_is_three_times_as_fast_as_the_spring_service() {
    let (true, Some(folder)) = (is_wanted(), std::env::var_os("BACKFIRE_SPRING")) else { return };
    let Some(own) = sink(100_000).await else { return };
    println!("sink, 100,000 records of {RECORD_BYTES} bytes: {own}");
    let Some(service) = spring(Path::new(&folder), 100_000).await else { return };
    println!("the Spring service, the same: {service}");
    let times = own.rate / service.rate;
    println!("the sink is {times:.1} times as fast");
    assert!(times >= TIMES, "{times}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_a_sink_is_bounded_and_flat() {
    if !is_wanted() {
        return;
    }
    let Some(short) = sink(100_000).await else { return };
    println!("sink, 100,000 records of {RECORD_BYTES} bytes: {short}");
    let Some(long) = sink(1_000_000).await else { return };
    println!("sink, 1,000,000 records: {long}");
    for peak_kib in [short.peak_kib, long.peak_kib] {
        assert!(peak_kib < MAX_KIB, "{peak_kib} KiB");
    }
    assert!(long.peak_kib < short.peak_kib + MORE_KIB, "{} KiB, then {} KiB", short.peak_kib, long.peak_kib);
}
