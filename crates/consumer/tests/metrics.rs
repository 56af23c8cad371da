//! What a consumer measures, as Prometheus reads it.

use std::time::Duration;

use backfire_consumer::meters::METRICS;
use backfire_consumer::source::memory::{Broker, BrokerSettings, ConsumerSettings};
use backfire_consumer::{
    Container, ContainerSettings, DeadLetterRecoverer, Delivery, Destination, ErrorClass, Failure, ProducerRecord,
    RetrySettings, StopHandle, per_record,
};
use backfire_model::back_off::{BackOff, Fixed, no_random};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::time::sleep;

/// Three records; the second fails for good.
async fn consume() {
    let broker = Broker::new(BrokerSettings::default(), no_random);
    broker.create_topic("orders", 1).unwrap();
    broker.create_topic("orders-dlt", 1).unwrap();
    for _ in 0..3 {
        broker.send(ProducerRecord { topic: "orders".into(), ..Default::default() }).unwrap();
    }
    let work = per_record(|delivery: Delivery| async move {
        sleep(Duration::from_millis(100)).await;
        match delivery.record().offset {
            1 => Err(Failure::new(ErrorClass::new("a.B"), "failed")),
            _ => Ok(()),
        }
    });
    let back_off = BackOff::Fixed(Fixed { interval_ms: 1_000, max_retries: Some(2) });
    let retry = RetrySettings { back_off, ..RetrySettings::bounded() };
    let settings = ContainerSettings { retry, ..ContainerSettings::default() };
    let source = broker.consumer(ConsumerSettings::new("group", ["orders"])).unwrap();
    let stop = StopHandle::new();
    let recoverer = DeadLetterRecoverer::new(broker.clone(), Destination::default());
    let container = Container::new(source, work, recoverer, settings, 1).stop_by(stop.clone());
    let ending = async {
        sleep(Duration::from_secs(60)).await;
        stop.stop();
    };
    tokio::join!(container.run(), ending).0.unwrap();
}

#[test]
fn prometheus_reads_what_happened() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(consume()));
    let text = recorder.handle().render();
    for line in [
        "backfire_consumer_executions_total{outcome=\"ok\"} 2",
        "backfire_consumer_executions_total{outcome=\"failed\"} 3",
        "backfire_consumer_execution_seconds_count 5",
        "backfire_consumer_wait_seconds_count 2",
        "backfire_consumer_dead_letters_total 1",
        "backfire_consumer_recovery_failures_total 0",
        "backfire_consumer_commit_failures_total 0",
        "backfire_consumer_rebalances_total 1",
        "backfire_consumer_lag_records{topic=\"orders\",partition=\"0\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line:?} in\n{text}");
    }
    for metric in METRICS {
        assert!(text.contains(&format!("# HELP {} {}", metric.name, metric.help)), "no {} in\n{text}", metric.name);
    }
}
