//! The server is killed with `kill -9` under sinks that are killed too.
//!
//! The lab server keeps its data in memory: what it had acknowledged is gone with it, as it would be with a disk. What a sink
//! owes is that it goes on by itself, and that it never commits an offset whose write was not acknowledged.

use std::time::Duration;

use backfire_consumer::SplitMix64;
use tokio::time::{Instant, sleep};

use crate::ledger::Ledger;
use crate::stage::Stage;

const GROUP: &str = "backfire-sink";

/// Waits until the write of every good record has been acknowledged.
async fn all_acknowledged(stage: &Stage, ledger: &Ledger) {
    let wanted = (0..stage.sent).filter_map(|number| stage.id(number)).count();
    let began = Instant::now();
    loop {
        let acknowledged = ledger.acknowledged().len();
        if acknowledged == wanted {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "{acknowledged} of {wanted} were acknowledged");
        sleep(Duration::from_millis(200)).await;
    }
}

/// No committed offset is ahead of an acknowledged write. Gives how many records are committed.
async fn check_committed(stage: &Stage, ledger: &Ledger) -> usize {
    // What is committed is asked for first: the ledger only grows.
    let committed = stage.committed(GROUP).await;
    let acknowledged = ledger.acknowledged();
    let ahead: Vec<_> =
        committed.iter().filter_map(|number| stage.id(*number)).filter(|id| !acknowledged.contains_key(id)).collect();
    assert!(ahead.is_empty(), "committed and not acknowledged: {ahead:?}");
    committed.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_and_killed_sinks_lose_no_acknowledged_commit() {
    let Some((mut stage, ledger)) = Stage::behind_ledger("server").await else { return };
    let mut random = SplitMix64::new(11);
    let mut some_ms = move |most: u64| Duration::from_millis(200 + random.next_u64() % most);
    for round in 1..=5 {
        stage.slow_down(100).await;
        stage.send(400).await;
        let mut sink = stage.sink(&[]);
        sleep(some_ms(2_000)).await;
        let down = some_ms(1_500);
        stage.restart_server(down, &ledger).await;
        // The same sink goes on by itself.
        stage.slow_down(100).await;
        stage.send(200).await;
        all_acknowledged(&stage, &ledger).await;
        assert!(sink.0.try_wait().expect("its state").is_none(), "the sink ended by itself");
        stage.send(300).await;
        sleep(some_ms(1_500)).await;
        drop(sink);
        let committed = check_committed(&stage, &ledger).await;
        println!("round {round}: {} sent, {committed} committed, server down for {} ms", stage.sent, down.as_millis());
    }
    let last = stage.sink(&[]);
    all_acknowledged(&stage, &ledger).await;
    stage.end(last).await;
    assert_eq!(check_committed(&stage, &ledger).await as u64, stage.sent);
    // What the server that runs now acknowledged is there, each once.
    let documents = stage.documents().await;
    for id in ledger.acknowledged_in_this_life() {
        let times = documents.iter().filter(|document| document.get_str("_id").is_ok_and(|own| own == id)).count();
        assert_eq!(times, 1, "{id}");
    }
    let acknowledged = ledger.acknowledged();
    let again = acknowledged.values().filter(|times| **times > 1).count();
    println!("{} writes acknowledged, {again} of them more than once; 0 commits ahead of one", acknowledged.len());
}
