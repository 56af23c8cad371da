//! Every built-in scenario on the paused clock: what is counted is what was predicted, and what people read stays.

use std::time::Duration;

use backfire_model::run::Run;
use backfire_model::scenario::{BUILT_IN, Scenario};
use backfire_rehearsal::{Options, Transport, rehearse};
use backfire_report::{json, table, timeline};

fn options(transport: Transport, scale: f64) -> Options {
    Options { scale, transport, seed: 1, started_at_ms: 1_795_996_800_000, watcher: None }
}

/// Runs a scenario in memory on the paused clock.
async fn run(scenario: &Scenario) -> Run {
    rehearse(scenario, &options(Transport::Memory, 1.0))
        .await
        .unwrap_or_else(|error| panic!("{}: {error}", scenario.name))
}

async fn built_in(name: &str) -> Run {
    run(&Scenario::built_in(name).expect("built in")).await
}

fn text(run: &Run) -> String {
    format!("{}\n{}", timeline::render(run, None), table::render(run))
}

#[tokio::test(start_paused = true)]
async fn every_built_in_scenario_is_as_predicted() {
    for (name, _) in BUILT_IN {
        let run = built_in(name).await;
        assert_eq!(run.differences(), [], "{name}\n{}", text(&run));
    }
}

#[tokio::test(start_paused = true)]
async fn every_built_in_scenario_reads_as_before() {
    for (name, _) in BUILT_IN {
        insta::assert_snapshot!(*name, text(&built_in(name).await));
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_bytes() {
    let (one, other) = (built_in("store-inventory").await, built_in("store-inventory").await);
    assert_eq!(json::render(&one), json::render(&other));
}

#[tokio::test(start_paused = true)]
async fn the_json_has_the_promised_shape() {
    let run = built_in("retry-lab").await;
    let value: serde_json::Value = serde_json::from_str(&json::render(&run)).expect("JSON");
    let keys = |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&value), ["scenario", "scale", "predicted", "measured", "differences", "extras", "timeline"]);
    let counts = ["executions", "sends", "resends", "copies", "overlapping_copies_max", "waiting_resends", "documents"];
    assert_eq!(keys(&value["predicted"]), counts);
    assert_eq!(keys(&value["measured"]), counts);
    assert_eq!(value["measured"]["sends"], 8);
    let timeline = value["timeline"].as_array().expect("a list");
    assert!(!timeline.is_empty());
    for entry in timeline {
        assert_eq!(keys(entry), ["at_ms", "side", "event", "lsid", "txnNumber", "execution"]);
    }
}

/// The one scenario that also runs over real sockets on the real clock, twenty times faster than written.
#[tokio::test(flavor = "multi_thread")]
async fn retry_lab_over_tcp_on_the_real_clock() {
    let scenario = Scenario::built_in("retry-lab").expect("built in");
    let options = options(Transport::Tcp, 0.05);
    let run = tokio::time::timeout(Duration::from_secs(120), rehearse(&scenario, &options)).await;
    let run = run.expect("within two minutes").expect("it runs");
    assert_eq!(run.differences(), [], "{}", text(&run));
}

#[tokio::test(start_paused = true)]
async fn other_profiles_multiply_just_the_same() {
    for profile in ["7.0", "8.0"] {
        for name in ["retry-lab", "store-inventory", "max-time", "engine-stall", "times-one", "lost-reply"] {
            let mut scenario = Scenario::built_in(name).expect("built in");
            scenario.profile = profile.to_owned();
            let run = run(&scenario).await;
            assert_eq!(run.differences(), [], "{name} under {profile}\n{}", text(&run));
        }
    }
}
