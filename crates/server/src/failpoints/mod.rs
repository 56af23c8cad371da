//! Fail points: named places in the code at which a test can stop, delay or fail a command.
//!
//! Modes and counting follow facts/server.md 4.3. Which fail points exist is [`table::FAIL_POINTS`].

pub mod fail_command;
pub mod mode;
pub mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bson::Document;
use parking_lot::Mutex;
use rand::{Rng, RngExt};
use tokio::sync::Notify;

pub use mode::Mode;
pub use table::FAIL_POINTS;

/// One fail point's state.
#[derive(Debug)]
pub struct FailPoint {
    name: &'static str,
    /// Set while the mode is anything but off.
    armed: AtomicBool,
    /// How many of the server's fail points are armed: what every passer-by looks at.
    armed_count: Arc<AtomicUsize>,
    config: Mutex<Config>,
    times_entered: AtomicU64,
    holders: AtomicU64,
    /// Counts the calls of [`FailPoint::set`].
    generation: AtomicU64,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Config {
    mode: Mode,
    data: Arc<Document>,
}

/// An evaluation that hit. While it lives, the fail point counts one holder, and a change of mode waits for it.
#[derive(Debug)]
pub struct Entered {
    point: Arc<FailPoint>,
    generation: u64,
    /// The `data` of the configuration that was hit.
    pub data: Arc<Document>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.point.holders.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Entered {
    /// Waits until the fail point is configured anew. (A mode that ran out, such as `{times: 1}`, changes nothing for
    /// those it has caught.)
    pub async fn until_changed(&self) {
        loop {
            let changed = self.point.changed.notified();
            if self.point.generation.load(Ordering::Acquire) != self.generation {
                return;
            }
            changed.await;
        }
    }
}

impl FailPoint {
    /// How often a change of mode looks whether the holders are gone (facts/server.md 4.3).
    const HOLDER_POLL: Duration = Duration::from_millis(50);

    fn new(name: &'static str, armed_count: &Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Self {
            name,
            armed: AtomicBool::new(false),
            armed_count: Arc::clone(armed_count),
            config: Mutex::default(),
            times_entered: AtomicU64::new(0),
            holders: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            changed: Notify::new(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How often it was hit since the server started.
    pub fn times_entered(&self) -> u64 {
        self.times_entered.load(Ordering::Acquire)
    }

    fn arm(&self, armed: bool) {
        match (self.armed.swap(armed, Ordering::AcqRel), armed) {
            (false, true) => drop(self.armed_count.fetch_add(1, Ordering::AcqRel)),
            (true, false) => drop(self.armed_count.fetch_sub(1, Ordering::AcqRel)),
            _ => {}
        }
    }

    /// Evaluates the fail point: a hit if its mode says so and `matches` accepts its data. A predicate that says no
    /// consumes nothing; a hit counts and decrements before anything else happens.
    pub fn enter(self: &Arc<Self>, rng: &Mutex<impl Rng>, matches: impl FnOnce(&Document) -> bool) -> Option<Entered> {
        if !self.armed.load(Ordering::Acquire) {
            return None;
        }
        let mut config = self.config.lock();
        if config.mode.is_off() || !matches(&config.data) {
            return None;
        }
        if !config.mode.hit(|| rng.lock().random::<f64>()) {
            return None;
        }
        if config.mode.is_off() {
            self.arm(false);
        }
        self.times_entered.fetch_add(1, Ordering::AcqRel);
        self.holders.fetch_add(1, Ordering::AcqRel);
        let generation = self.generation.load(Ordering::Acquire);
        Some(Entered { point: Arc::clone(self), generation, data: Arc::clone(&config.data) })
    }

    /// Sets mode and data; returns how often the fail point had been hit before. It is inactive at once, then the call
    /// waits, uninterruptibly, until everybody who is held by it has left, and only then the new mode applies
    /// (facts/server.md 4.3: turning a fail point off does not release the commands that sleep in it).
    pub async fn set(&self, mode: Mode, data: Document) -> u64 {
        self.arm(false);
        self.config.lock().mode = Mode::Off;
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
        while self.holders.load(Ordering::Acquire) > 0 {
            tokio::time::sleep(Self::HOLDER_POLL).await;
        }
        let before = self.times_entered();
        let armed = !mode.is_off();
        *self.config.lock() = Config { mode, data: Arc::new(data) };
        self.arm(armed);
        before
    }

    /// Mode and data, for `getParameter`-like listings.
    pub fn describe(&self) -> Document {
        let config = self.config.lock();
        bson::doc! { "mode": config.mode.number(), "data": (*config.data).clone(), "timesEntered": self.times_entered() as i64 }
    }
}

/// All fail points of a server.
#[derive(Debug)]
pub struct FailPoints {
    points: Vec<Arc<FailPoint>>,
    armed_count: Arc<AtomicUsize>,
}

impl Default for FailPoints {
    fn default() -> Self {
        let armed_count = Arc::default();
        Self { points: FAIL_POINTS.iter().map(|row| FailPoint::new(row.name, &armed_count)).collect(), armed_count }
    }
}

impl FailPoints {
    /// The fail point called `name`.
    pub fn find(&self, name: &str) -> Option<&Arc<FailPoint>> {
        self.points.iter().find(|point| point.name == name)
    }

    /// Whether anybody who passes has to look closer at one of the fail points of [`table`].
    pub fn is_armed(&self, name: &'static str) -> bool {
        // Every command passes several of them, and nearly always none is on.
        self.armed_count.load(Ordering::Acquire) > 0
            && self.find(name).is_some_and(|point| point.armed.load(Ordering::Acquire))
    }

    /// Evaluates one of the fail points of [`table`], as [`FailPoint::enter`].
    pub fn enter(
        &self,
        name: &'static str,
        rng: &Mutex<impl Rng>,
        matches: impl FnOnce(&Document) -> bool,
    ) -> Option<Entered> {
        if !self.is_armed(name) {
            return None;
        }
        self.find(name)?.enter(rng, matches)
    }
}
