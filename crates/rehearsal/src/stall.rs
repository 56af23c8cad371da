//! What keeps the lab server from finishing: how it is begun and lifted.

use std::sync::Arc;
use std::time::Duration;

use backfire_driver::{Client, DriverError};
use backfire_model::Namespace;
use backfire_model::predict::{Distribution, Plan, Stall};
use backfire_server::Server;
use backfire_server::locks::manager::Acquire;
use backfire_server::locks::tickets::Request;
use backfire_server::locks::{Mode, Resource, Ticket, manager};
use bson::{Bson, Document, doc};
use parking_lot::Mutex;

use crate::client_events::WRITES;
use crate::freezer::Freezer;
use crate::lab::Lab;

/// Longer than any stall: a step-down ends when the stall is lifted.
const STEP_DOWN_S: i64 = 1_000_000;

/// The stall of a scenario.
pub(crate) struct Stalling {
    stall: Stall,
    from: Duration,
    for_: Option<Duration>,
    /// How long a write takes in the engine when nothing stalls.
    service: Option<(u64, Distribution)>,
    /// `{namespace, appName}` of the writes it is about.
    own: Document,
    namespace: Namespace,
    /// The commands that meet it.
    commands: Vec<&'static str>,
    held_reads: bool,
    control: Client,
    server: Server,
    freezer: Option<Freezer>,
    held: Mutex<Held>,
}

/// Tickets and locks that are held so that writes wait for them.
#[derive(Default)]
struct Held {
    tickets: Vec<Ticket>,
    lock: Option<manager::Held>,
}

impl Stalling {
    /// The stall of `plan`, for the writes to `namespace` of `app_name`; without `by_name`, for all writes. `service`: how
    /// long a write takes in the engine when nothing stalls.
    pub(crate) fn new(
        plan: &Plan,
        namespace: &Namespace,
        app_name: Option<&str>,
        by_name: bool,
        service: Option<(u64, Distribution)>,
        control: &Client,
        lab: &Lab,
    ) -> Arc<Self> {
        let mut own = Document::new();
        if by_name {
            own.insert("namespace", namespace.to_string());
            own.extend(app_name.map(|app_name| ("appName".to_owned(), Bson::from(app_name))));
        }
        Arc::new(Self {
            stall: plan.stall,
            from: Duration::from_millis(plan.stall_from_ms),
            for_: plan.stall_for_ms.map(Duration::from_millis),
            service,
            own,
            namespace: namespace.clone(),
            commands: plan.stall_command.map_or_else(|| WRITES.to_vec(), |name| vec![name.as_str()]),
            held_reads: plan.held_reads > 0,
            control: control.clone(),
            server: lab.server().clone(),
            freezer: lab.freezer().cloned(),
            held: Mutex::default(),
        })
    }

    async fn admin(&self, command: Document) -> Result<(), DriverError> {
        self.control.database("admin").run_command(command).await.map(drop)
    }

    async fn point(&self, name: &str, mode: impl Into<Bson>, data: Document) -> Result<(), DriverError> {
        self.admin(doc! { "configureFailPoint": name, "mode": mode, "data": data }).await
    }

    async fn slow(&self, times: Option<(u64, Distribution)>) -> Result<(), DriverError> {
        let Some((takes_ms, distribution)) = times else { return self.point("slowEngine", "off", doc! {}).await };
        let mut data = self.own.clone();
        data.insert("meanMS", takes_ms as i64);
        data.insert(
            "distribution",
            match distribution {
                Distribution::Fixed => "fixed",
                Distribution::Exponential => "exponential",
            },
        );
        self.point("slowEngine", "alwaysOn", data).await
    }

    /// Before the first write: what is there without a stall, and the stall itself unless it begins later.
    ///
    /// # Errors
    /// What the server says.
    pub(crate) async fn set_up(&self) -> Result<(), DriverError> {
        if self.service.is_some() {
            self.slow(self.service).await?;
        }
        if self.held_reads {
            self.point("waitInFindBeforeMakingBatch", "alwaysOn", doc! {}).await?;
        }
        if self.from.is_zero() { self.begin().await } else { Ok(()) }
    }

    async fn begin(&self) -> Result<(), DriverError> {
        let times = |times: u64| doc! { "times": times.min(i32::MAX as u64) as i64 };
        let mut data = self.own.clone();
        match self.stall {
            Stall::None => Ok(()),
            Stall::FailCommand { hold_ms, times: count } => {
                data.insert("failCommands", self.commands.iter().map(|name| Bson::from(*name)).collect::<Vec<_>>());
                data.insert("blockConnection", true);
                data.insert("blockTimeMS", hold_ms as i64);
                self.point("failCommand", times(count), data).await
            }
            Stall::Reset { times: count } => {
                data.insert("failCommands", WRITES.map(Bson::from).to_vec());
                data.insert("closeConnection", true);
                self.point("failCommand", times(count), data).await
            }
            Stall::Overload { times: count } => {
                // What a server says at its door since 8.2 (facts/client.md C2).
                data.insert("failCommands", self.commands.iter().map(|name| Bson::from(*name)).collect::<Vec<_>>());
                data.insert("errorCode", 462);
                data.insert("errorLabels", vec!["SystemOverloadedError", "RetryableError"]);
                self.point("failCommand", times(count), data).await
            }
            Stall::Engine => self.point("stallInEngine", "alwaysOn", data).await,
            Stall::Interruptible => self.point("stallInterruptible", "alwaysOn", data).await,
            Stall::Sessions => self.point("stallInSessionCheckout", "alwaysOn", data).await,
            Stall::LostReply { times: count } => self.point("onPrimaryTransactionalWrite", times(count), doc! {}).await,
            Stall::Slow { takes_ms, distribution } => self.slow(Some((takes_ms, distribution))).await,
            Stall::Tickets => {
                self.take_tickets();
                Ok(())
            }
            Stall::Lock => {
                self.take_lock().await;
                Ok(())
            }
            Stall::Freeze => {
                self.freeze(true);
                Ok(())
            }
            Stall::StepDown => {
                self.admin(doc! { "replSetStepDown": STEP_DOWN_S, "force": true, "secondaryCatchUpPeriodSecs": 0 })
                    .await
            }
        }
    }

    fn freeze(&self, stands_still: bool) {
        if let Some(freezer) = &self.freezer {
            freezer.set(stands_still);
        }
    }

    /// Takes every ticket that is free; those that are out are not given out again because the queue is served in order
    /// only after the next lift.
    fn take_tickets(&self) {
        let mut held = self.held.lock();
        while let Request::Ticket(ticket) = self.server.shared().write_tickets.request() {
            held.tickets.push(ticket);
        }
    }

    async fn take_lock(&self) {
        let resource = Resource::Collection(Arc::from(self.namespace.to_string()));
        let lock = match self.server.shared().locks.acquire(resource, Mode::Exclusive) {
            Acquire::Held(held) => held,
            Acquire::Pending(pending) => pending.granted().await,
        };
        self.held.lock().lock = Some(lock);
    }

    /// Ends it: what stands still goes on.
    ///
    /// # Errors
    /// What the server says.
    pub(crate) async fn lift(&self) -> Result<(), DriverError> {
        match self.stall {
            Stall::Engine => self.point("stallInEngine", "off", doc! {}).await?,
            Stall::Interruptible => self.point("stallInterruptible", "off", doc! {}).await?,
            Stall::Sessions => self.point("stallInSessionCheckout", "off", doc! {}).await?,
            Stall::Slow { .. } => self.slow(self.service).await?,
            Stall::Freeze => self.freeze(false),
            Stall::StepDown => self.server.shared().topology.elect(),
            Stall::Tickets | Stall::Lock => {
                let held = std::mem::take(&mut *self.held.lock());
                drop(held);
            }
            Stall::None
            | Stall::FailCommand { .. }
            | Stall::LostReply { .. }
            | Stall::Reset { .. }
            | Stall::Overload { .. } => {}
        }
        if self.held_reads {
            self.point("waitInFindBeforeMakingBatch", "off", doc! {}).await?;
        }
        Ok(())
    }

    /// Begins and lifts it at its times, counted from now. Where it lasts until the application has finished, it is lifted
    /// by somebody else.
    ///
    /// # Errors
    /// What the server says.
    pub(crate) async fn play(self: Arc<Self>) -> Result<(), DriverError> {
        if !self.from.is_zero() {
            tokio::time::sleep(self.from).await;
            self.begin().await?;
        }
        match self.for_ {
            Some(for_) => {
                tokio::time::sleep(for_).await;
                self.lift().await
            }
            None => Ok(()),
        }
    }
}
