//! A sink that runs.

use std::sync::Arc;
use std::time::Duration;

use backfire_consumer::owners::Owners;
use backfire_consumer::source::memory::Broker;
use backfire_consumer::{
    Container, ContainerError, DeadLetterRecoverer, Publisher, Source, SourceError, StopHandle, run_concurrently,
};
use backfire_driver::{Client, ClientSettings, DriverError, IndexModel, TcpConnector};
use backfire_model::{ConnectionString, Namespace};
use bson::{Document, doc};
use tokio::time::sleep;

use crate::generated;
use crate::recoverer::{Reason, SinkRecoverer};
use crate::settings::Settings;
use crate::stats::{Stats, Summary};
use crate::writer::Writer;

/// How many uncommitted records the ledger of owners follows.
const FOLLOWED_RECORDS: usize = 100_000;

/// How often the dead-letter topic is looked for, and the wait in between: a broker may be about to start.
const LOOK_UPS: u32 = 5;
const LOOK_UP_WAIT: Duration = Duration::from_secs(1);

/// Why a sink did not start, or ended by itself. What was not committed is delivered again.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Settings that make no sense.
    #[error("{0}")]
    Settings(String),
    /// The connection string cannot be used.
    #[error("the connection string cannot be used: {0}")]
    Uri(String),
    /// The server cannot be reached, or refuses.
    #[error("{0}")]
    Server(#[from] DriverError),
    /// The topics cannot be read.
    #[error("{0}")]
    Source(#[from] SourceError),
    /// There is nowhere for dead letters to go.
    #[error("there is no topic {topic:?} for dead letters; make it, or name another (dead_letters.topic)")]
    NoDeadLetterTopic {
        /// Its name.
        topic: String,
    },
    /// A consumer ended.
    #[error("{0}")]
    Container(#[from] ContainerError),
    /// Records could not be written, and the settings say to stop then.
    #[error("{0}")]
    Stopped(String),
}

/// A sink from a topic to a collection.
pub struct Sink {
    settings: Arc<Settings>,
    topic: String,
    to: Namespace,
    client: Client,
    limit: Option<u64>,
    stats: Arc<Stats>,
    stop: StopHandle,
}

impl Sink {
    /// A sink that is not started, with a client of its own for this connection string. `now_ms` is the time in
    /// milliseconds since 1970. `seed` is for all that is random, session ids among it: two sinks with the same seed would
    /// have the same sessions, and the server would take the writes of one for resends of the other.
    ///
    /// # Errors
    /// Settings or a connection string that cannot be used.
    pub fn new(
        settings: Settings,
        topic: &str,
        to: Namespace,
        uri: &str,
        now_ms: i64,
        seed: u64,
    ) -> Result<Self, SinkError> {
        settings.validate().map_err(SinkError::Settings)?;
        let uri: ConnectionString = uri.parse().map_err(|error| SinkError::Uri(format!("{error}")))?;
        let mut client = ClientSettings::from_connection_string(&uri)?;
        client.app_name.get_or_insert_with(|| "backfire-sink".to_owned());
        client.object_id_epoch_s = u32::try_from(now_ms / 1_000).unwrap_or(0);
        Self::with_client(settings, topic, to, Client::connect(client, TcpConnector, (), seed)?)
    }

    /// The same with a client that is there already. It is closed when the sink has ended.
    ///
    /// # Errors
    /// Settings that cannot be used.
    pub fn with_client(settings: Settings, topic: &str, to: Namespace, client: Client) -> Result<Self, SinkError> {
        settings.validate().map_err(SinkError::Settings)?;
        Ok(Self {
            settings: Arc::new(settings),
            topic: topic.to_owned(),
            to,
            client,
            limit: None,
            stats: Arc::default(),
            stop: StopHandle::new(),
        })
    }

    /// Stops when this many records are done.
    #[must_use]
    pub fn limit(mut self, records: u64) -> Self {
        self.limit = Some(records);
        self
    }

    /// What it has done so far.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// Asks it to stop: bulks that run are ended, what is done is committed, the group is left.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Runs on a Kafka broker (`host:port`, separated by commas).
    ///
    /// # Errors
    /// As [`Sink::run`].
    #[cfg(feature = "kafka")]
    pub async fn run_kafka(self, brokers: &str) -> Result<Summary, SinkError> {
        use backfire_consumer::source::kafka::{KafkaConsumer, KafkaPublisher, KafkaSettings};

        let settings = &self.settings;
        let kafka = KafkaSettings {
            max_poll_interval: Duration::from_millis(settings.max_poll_interval_ms),
            session_timeout: Duration::from_millis(settings.session_timeout_ms),
            properties: settings.kafka.clone(),
            ..KafkaSettings::new(brokers, settings.group(), [self.topic.as_str()])
        };
        let publisher = KafkaPublisher::new(&kafka)?;
        publisher.reach(Duration::from_millis(settings.patience_ms)).await?;
        self.run(|_| KafkaConsumer::new(&kafka), publisher).await
    }

    /// Runs on topics in memory, such as those of [`generated`](crate::generated).
    ///
    /// # Errors
    /// As [`Sink::run`].
    pub async fn run_in_memory(self, broker: Broker) -> Result<Summary, SinkError> {
        let topic = self.topic.clone();
        let source = broker.clone();
        self.run(|settings| generated::consumer(&source, settings, &topic), broker).await
    }

    /// Runs until it is asked to stop, or its limit is reached. `source` makes the members of the group.
    ///
    /// # Errors
    /// The server or the broker cannot be reached, or records cannot be written and the settings say to stop then.
    pub async fn run<S, P>(
        self,
        mut source: impl FnMut(&Settings) -> Result<S, SourceError>,
        publisher: P,
    ) -> Result<Summary, SinkError>
    where
        S: Source + 'static,
        P: Publisher + 'static,
    {
        let result = self.run_consumers(&mut source, publisher).await;
        self.client.close().await;
        result
    }

    async fn run_consumers<S, P>(
        &self,
        source: &mut impl FnMut(&Settings) -> Result<S, SourceError>,
        publisher: P,
    ) -> Result<Summary, SinkError>
    where
        S: Source + 'static,
        P: Publisher + 'static,
    {
        let settings = &self.settings;
        let database = self.client.database(&self.to.db);
        database.run_command(doc! {"ping": 1}).await?;
        let collection = database.collection(&self.to.coll);
        if settings.create_index {
            let keys: Document = settings.fields.iter().map(|field| (field.clone(), 1.into())).collect();
            let index = IndexModel { options: doc! {"unique": true}, ..IndexModel::new(keys) };
            collection.create_index(index).await?;
        }
        let destination = settings.destination();
        let dead_letter_topic = destination.topic_for(&self.topic);
        let mut tries = 0;
        while publisher.partitions(&dead_letter_topic).await.is_none() {
            tries += 1;
            if tries >= LOOK_UPS {
                return Err(SinkError::NoDeadLetterTopic { topic: dead_letter_topic });
            }
            sleep(LOOK_UP_WAIT).await;
        }
        let send_timeout = Duration::from_millis(settings.send_timeout_ms);
        let letters = Arc::new(DeadLetterRecoverer::new(publisher, destination).send_timeout(send_timeout));
        let (reason, owners) = (Reason::default(), Owners::new(FOLLOWED_RECORDS));
        let mut sources = (0..settings.consumers).map(|_| source(settings)).collect::<Result<Vec<_>, _>>()?;
        let container = |number: usize, source: S| {
            let writer = Writer::new(collection.clone(), Arc::clone(settings), Arc::clone(&self.stats));
            let recoverer = SinkRecoverer {
                letters: Arc::clone(&letters),
                then: settings.then,
                stop: self.stop.clone(),
                reason: reason.clone(),
            };
            let observer = self.stats.observer(self.limit, self.stop.clone());
            Container::new(source, writer, recoverer, settings.container(), number as u64)
                .observer(owners.observer(&number.to_string(), observer))
        };
        let count = sources.len();
        let ended = run_concurrently(count, &self.stop, |number| {
            // As many sources as containers.
            container(number, sources.remove(0))
        })
        .await;
        if let Some(reason) = reason.take() {
            return Err(SinkError::Stopped(reason));
        }
        ended?;
        Ok(Summary { handed_to_two: owners.handed_to_two(), ..self.stats.summary() })
    }
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("topic", &self.topic).field("to", &self.to).finish_non_exhaustive()
    }
}
