//! How fast a sink is, and how much memory it takes. Only where `BACKFIRE_SPEED` is set: it wants the machine for itself.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::stage::Stage;

/// The most memory that a sink may take.
const MAX_KIB: u64 = 150 * 1024;

/// Writes this many records of 500 bytes, and gives the time and the most memory that the sink took.
async fn measure(name: &str, records: u64) -> Option<(Duration, u64)> {
    let mut stage = Stage::new(name).await?;
    stage.fill(records, 500).await;
    let began = Instant::now();
    let mut sink = stage.sink(&["consumer.max_poll_records=500", "consumer.consumers=2"]);
    let status = format!("/proc/{}/status", sink.0.id());
    let mut peak_kib = 0;
    while stage.count().await < records {
        let text = std::fs::read_to_string(&status).expect("the sink runs");
        let peak =
            text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok());
        peak_kib = peak.unwrap_or(peak_kib);
        assert!(began.elapsed() < Duration::from_secs(600), "{} of {records}", stage.count().await);
        sleep(Duration::from_millis(200)).await;
    }
    let took = began.elapsed();
    sink.0.kill().expect("killed");
    Some((took, peak_kib))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_records_and_a_million() {
    if std::env::var_os("BACKFIRE_SPEED").is_none() {
        return;
    }
    for records in [100_000, 1_000_000] {
        let Some((took, peak_kib)) = measure(&format!("speed{records}"), records).await else { return };
        let rate = records as f64 / took.as_secs_f64();
        println!("{records} records of 500 bytes: {:.1} s, {rate:.0}/s, {} MiB", took.as_secs_f64(), peak_kib / 1024);
        assert!(peak_kib < MAX_KIB, "{peak_kib} KiB");
    }
}
