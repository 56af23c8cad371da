//! A rehearsal through a real Kafka broker, in topics of its own, which are removed when it is over.

use std::time::Duration;

use backfire_consumer::source::kafka::{KafkaConsumer, KafkaPublisher, KafkaSettings};
use backfire_consumer::{Destination, SourceError};
use backfire_model::run::Run;
use backfire_model::scenario::Scenario;

use crate::rehearse::{Options, RehearsalError};
use crate::through_topic::{Through, max_poll_interval, predictable, rehearse_through};

/// How long the broker may take to answer at the start.
const REACHED_WITHIN: Duration = Duration::from_secs(10);

/// The least `session.timeout.ms` that brokers take by default; Kafka wants the poll interval to be no shorter.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// Runs a scenario with a consumer of a topic of `brokers` (`host:port`, separated by commas) as the application.
///
/// The topic, that of its dead letters, and the group are called `backfire-rehearsal-` and the time; the topics are deleted
/// at the end. `max.poll.interval.ms` is the scenario's, scaled, but never less than 6 s: brokers allow no less.
///
/// # Errors
/// No broker answers, or it refuses; and as [`rehearse_through`].
pub async fn rehearse_kafka(scenario: &Scenario, options: &Options, brokers: &str) -> Result<Run, RehearsalError> {
    predictable(scenario, options.scale)?;
    let broker = |error: SourceError| RehearsalError::Application(format!("Kafka at {brokers}: {error}"));
    let topic = format!("backfire-rehearsal-{}-{}", options.started_at_ms, std::process::id());
    let mut settings = KafkaSettings::new(brokers, topic.as_str(), [topic.as_str()]);
    settings.max_poll_interval = max_poll_interval(scenario, options.scale).max(SESSION_TIMEOUT);
    settings.session_timeout = SESSION_TIMEOUT;
    // A record that is fetched again is there at once: the wait for it is no part of the scenario.
    settings.properties.insert("fetch.wait.max.ms".to_owned(), "10".to_owned());
    let publisher = KafkaPublisher::new(&settings).map_err(broker)?;
    publisher.reach(REACHED_WITHIN).await.map_err(broker)?;
    let topics = [topic.clone(), Destination::default().topic_for(&topic)];
    for topic in &topics {
        publisher.create_topic(topic, 1).await.map_err(|error| RehearsalError::Application(error.to_string()))?;
    }
    let result = match KafkaConsumer::new(&settings) {
        Ok(source) => {
            rehearse_through(scenario, options, Through { source, publisher: publisher.clone(), topic }).await
        }
        Err(error) => Err(broker(error)),
    };
    if let Err(error) = publisher.delete_topics(&topics).await {
        tracing::warn!("the rehearsal's topics are left behind: {error}");
    }
    result
}
