//! Every built-in scenario with a consumer of a topic in memory as the application, on the paused clock.

use std::time::Duration;

use backfire_consumer::SplitMix64;
use backfire_consumer::source::memory::{Broker, BrokerSettings, ConsumerSettings};
use backfire_model::event::{ClientEvent, What};
use backfire_model::run::Run;
use backfire_model::scenario::{BUILT_IN, Scenario};
use backfire_rehearsal::through_topic::{max_poll_interval, predictable};
use backfire_rehearsal::{Options, RehearsalError, Through, Transport, rehearse_through};

const TOPIC: &str = "rehearsal";

/// The run, how many dead letters are in their topic, and what is committed.
async fn run(scenario: &Scenario) -> Result<(Run, i64, Option<i64>), RehearsalError> {
    let broker = Broker::new(BrokerSettings::default(), SplitMix64::new(1));
    let dead_letters = format!("{TOPIC}-dlt");
    for topic in [TOPIC, &dead_letters] {
        broker.create_topic(topic, 1).expect("a topic");
    }
    let mut joining = ConsumerSettings::new("rehearsal", [TOPIC]);
    joining.max_poll_interval = max_poll_interval(scenario, 1.0);
    let source = broker.consumer(joining).expect("a consumer");
    let options = Options { scale: 1.0, transport: Transport::Memory, seed: 1, started_at_ms: 0, watcher: None };
    let through = Through { source, publisher: broker.clone(), topic: TOPIC.to_owned() };
    let run = rehearse_through(scenario, &options, through).await?;
    let place = |topic: &str| backfire_consumer::TopicPartition::new(topic, 0);
    let letters = broker.end_offset(&place(&dead_letters)).expect("its topic");
    Ok((run, letters, broker.committed("rehearsal", &place(TOPIC))))
}

#[tokio::test(start_paused = true)]
async fn every_predictable_scenario_is_as_predicted() {
    let mut refused = Vec::new();
    for (name, _) in BUILT_IN {
        let scenario = Scenario::built_in(name).expect("built in");
        if predictable(&scenario, 1.0).is_err() {
            refused.push(*name);
            continue;
        }
        let (run, letters, committed) = run(&scenario).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(run.differences(), [], "{name}");
        let counted = |wanted: fn(&ClientEvent) -> bool| {
            run.events.iter().filter(|event| matches!(&event.what, What::Client(event) if wanted(event))).count()
        };
        assert_eq!(counted(|event| matches!(event, ClientEvent::DeadLetter { .. })) as i64, letters, "{name}");
        // A client that is gone commits nothing.
        let is_gone = counted(|event| matches!(event, ClientEvent::HungUp)) > 0;
        assert_eq!(committed, (!is_gone).then_some(1), "{name}");
    }
    assert_eq!(refused, ["poll-interval"]);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_outlives_the_poll_interval_is_refused() {
    let mut scenario = Scenario::built_in("store-inventory").expect("built in");
    assert!(predictable(&scenario, 0.1).is_ok());
    scenario.kafka.max_poll_interval_ms = 60_000;
    let why = predictable(&scenario, 0.1).expect_err("it is refused").to_string();
    assert!(why.contains("max.poll.interval.ms"), "{why}");
    assert_eq!(max_poll_interval(&scenario, 0.1), Duration::from_secs(6));
}
