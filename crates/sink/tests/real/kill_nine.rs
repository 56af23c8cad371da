//! Sinks that are killed with `kill -9`, again and again.

use crate::stage::{BAD_EVERY, Stage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_lose_no_record_and_upserts_apply_none_twice() {
    let Some(mut stage) = Stage::new("upserts").await else { return };
    stage.slow_down(100).await;
    stage.kill(50, 200, &[]).await;
    stage.finish(&[]).await;
    stage.check_nothing_is_lost().await;
    let written = stage.written().await;
    assert!(written.values().all(|count| *count == 1));
    println!("{} records, each once", written.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserts_lose_no_record_and_their_duplicates_are_counted() {
    let Some(mut stage) = Stage::new("inserts").await else { return };
    let sets = ["write.mode=insert", "write.id=none", "consumer.group=inserts"];
    stage.slow_down(100).await;
    stage.kill(10, 300, &sets).await;
    stage.finish(&sets).await;
    let written = stage.written().await;
    assert_eq!(written.len() as u64, stage.sent - stage.sent.div_ceil(BAD_EVERY));
    let twice = written.values().filter(|count| **count > 1).count();
    println!("{} records, {twice} of them more than once", written.len());
}
