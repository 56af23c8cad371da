//! A client of a test, and what it has told so far.

use std::time::Duration;

use backfire_driver::events::PoolEvent;
use backfire_driver::settings::ServerApi;
use backfire_driver::{Client, ClientSettings, DriverProfile, Event};
use backfire_model::connection_string::ConnectionString;
use backfire_tests::Lab;
use bson::{Bson, Document};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::events::{self, KINDS};
use crate::failure::{Checked, Failure, Within, fail};
use crate::fields::Fields;

/// A client and its listener.
pub struct ClientEntity {
    /// The client.
    pub client: Client,
    /// What it told.
    pub recorder: Arc<Recorder>,
}

impl ClientEntity {
    /// Connects to the lab server as the fields say; gives the client's name as well.
    ///
    /// # Errors
    /// When there is a field or an option that is not known, or the pool is not filled in time.
    pub async fn create(mut fields: Fields, lab: &Lab, seed: u64) -> Checked<(String, Self)> {
        let id: String = fields.required("id")?;
        // There is one server, and it is no mongos.
        fields.optional::<bool>("useMultipleMongoses")?;
        let mut settings = settings(fields.optional("uriOptions")?.unwrap_or_default(), lab.userinfo())?;
        settings.server_api = fields.optional("serverApi")?.map(server_api).transpose()?;
        let fill_within_ms: Option<u64> = fields.optional("awaitMinPoolSizeMS")?;
        let recorder = Arc::new(Recorder::read(&mut fields)?);
        fields.done()?;
        let pool_size = settings.min_pool_size as usize;
        let listener = Arc::clone(&recorder);
        let client =
            Client::connect(settings, lab.connector(Duration::ZERO), move |event: &Event| listener.hear(event), seed)
                .map_err(Failure::new)?;
        if let Some(ms) = fill_within_ms {
            recorder.await_connections(pool_size, Duration::from_millis(ms)).await.within(|| id.clone())?;
        }
        Ok((id, Self { client, recorder }))
    }
}

/// Settings from options of a connection string, and from what stands before its host.
fn settings(options: Document, userinfo: &str) -> Checked<ClientSettings> {
    let direct = options.get_bool("directConnection").unwrap_or(false);
    let mut uri = format!("mongodb://{userinfo}127.0.0.1:27017/?{}", if direct { "" } else { "replicaSet=rs0" });
    for (name, value) in &options {
        match value {
            Bson::String(text) => uri.push_str(&format!("&{name}={text}")),
            Bson::Int32(_) | Bson::Int64(_) | Bson::Boolean(_) => uri.push_str(&format!("&{name}={value}")),
            _ => fail!("uriOptions: {name} has the value {value}"),
        }
    }
    let uri = ConnectionString::parse(&uri.replace("?&", "?")).map_err(Failure::new)?;
    if let Some(warning) = uri.warnings().next() {
        fail!("uriOptions: {warning}");
    }
    let mut settings = ClientSettings::from_connection_string(&uri).map_err(Failure::new)?;
    settings.profile = DriverProfile::SPECIFICATION;
    Ok(settings)
}

fn server_api(document: Document) -> Checked<ServerApi> {
    let mut fields = Fields::new("serverApi", document);
    let api = ServerApi {
        version: fields.required("version")?,
        strict: fields.optional("strict")?,
        deprecation_errors: fields.optional("deprecationErrors")?,
    };
    fields.done()?;
    if api.version != "1" {
        fail!("serverApi: version {} is not known", api.version);
    }
    Ok(api)
}

/// Keeps the events that a test wants to look at.
pub struct Recorder {
    wanted: Vec<String>,
    ignored_commands: Vec<String>,
    with_sensitive: bool,
    heard: Mutex<Heard>,
    changed: Notify,
}

#[derive(Default)]
struct Heard {
    events: Vec<Event>,
    stopped: bool,
    checked_out: i64,
    ready: usize,
}

impl Recorder {
    fn read(fields: &mut Fields) -> Checked<Self> {
        let wanted: Vec<String> = fields.optional("observeEvents")?.unwrap_or_default();
        if let Some(unknown) = wanted.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
            fail!("observeEvents: '{unknown}' is not known");
        }
        Ok(Self {
            wanted,
            ignored_commands: fields.optional("ignoreCommandMonitoringEvents")?.unwrap_or_default(),
            with_sensitive: fields.optional("observeSensitiveCommands")?.unwrap_or(false),
            heard: Mutex::default(),
            changed: Notify::new(),
        })
    }

    fn hear(&self, event: &Event) {
        let mut heard = self.heard.lock();
        match event {
            Event::Pool(PoolEvent::CheckedOut { .. }) => heard.checked_out += 1,
            Event::Pool(PoolEvent::CheckedIn { .. }) => heard.checked_out -= 1,
            Event::Pool(PoolEvent::ConnectionReady { .. }) => heard.ready += 1,
            _ => {}
        }
        let is_wanted = events::kind(event).is_some_and(|kind| self.wanted.iter().any(|wanted| wanted == kind));
        if is_wanted && !heard.stopped && !self.ignores(event) {
            heard.events.push(event.clone());
        }
        drop(heard);
        self.changed.notify_waiters();
    }

    fn ignores(&self, event: &Event) -> bool {
        let Some(name) = events::command_name(event) else { return false };
        name == "configureFailPoint"
            || self.ignored_commands.iter().any(|ignored| ignored == name)
            || (events::is_sensitive(event) && !self.with_sensitive)
    }

    /// What was heard so far.
    pub fn events(&self) -> Vec<Event> {
        self.heard.lock().events.clone()
    }

    /// Hears nothing from now on.
    pub fn stop(&self) {
        self.heard.lock().stopped = true;
    }

    /// How many connections are in use.
    pub fn checked_out(&self) -> i64 {
        self.heard.lock().checked_out
    }

    /// Waits until `condition` holds; it is looked at after each event.
    ///
    /// # Errors
    /// When it does not hold in time.
    pub async fn wait_until(&self, limit: Duration, condition: impl Fn(&[Event]) -> bool) -> Checked {
        self.wait(limit, |heard| condition(&heard.events)).await
    }

    /// Waits until so many connections have been opened, and forgets what led there.
    async fn await_connections(&self, count: usize, limit: Duration) -> Checked {
        self.wait(limit, |heard| heard.ready >= count).await?;
        self.heard.lock().events.clear();
        Ok(())
    }

    async fn wait(&self, limit: Duration, condition: impl Fn(&Heard) -> bool) -> Checked {
        let holds = async {
            loop {
                let changed = self.changed.notified();
                if condition(&self.heard.lock()) {
                    return;
                }
                changed.await;
            }
        };
        timeout(limit, holds).await.within(|| format!("not within {} ms", limit.as_millis()))
    }
}
