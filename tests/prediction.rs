//! The law of the prediction: what it promises is what a run of the real parts measures, for any settings.
//!
//! Generated times have different last digits (socket timeout and back-off 0, hold 3, `maxTimeMS` 4, time in
//! the engine 6, `timeoutMS` 7, end of the stall 9, a gateway's waits 2 or 1, the end of an execution's context 5), so that
//! what happens independently does not happen at the same instant: then nobody could say which comes first.

use backfire_model::back_off::BackOff;
use backfire_model::budget::RetryBudget;
use backfire_model::load::ListenerKind;
use backfire_model::predict::{CommandName, Distribution, Stall, predict};
use backfire_model::scenario::{DriverRules, Gateway, Inner, Model, ModelKind, Operation, Scenario, Window};
use backfire_rehearsal::{Options, RehearsalError, SimulateOptions, Transport, rehearse, simulate};
use backfire_report::{simulation, table, timeline};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// What a generated scenario is made of.
#[derive(Debug, Clone)]
struct Settings {
    profile: &'static str,
    socket_timeout_tens: Option<u64>,
    timeout_tens: Option<u64>,
    max_time_tens: Option<u64>,
    retry_writes: bool,
    retries: u64,
    wait_tens: u64,
    exponential: bool,
    resets: bool,
    operation: Operation,
    upsert: bool,
    stall: Stall,
    /// When a stall that is lifted is lifted; `None`: when the application has finished.
    for_tens: Option<u64>,
    tickets: u64,
    bulk: Bulk,
    /// Retries within a call, from the innermost layer outwards: how many, and the wait.
    inner: Vec<(u64, u64)>,
    is_batch: bool,
    around: Around,
}

/// What public reports have around the driver, the error handler and the server.
#[derive(Debug, Clone)]
struct Around {
    driver: DriverRules,
    adaptive_retries: Option<u64>,
    gateway: Option<Gateway>,
    cancel_tens: Option<u64>,
    restart_tens: Option<u64>,
    budget: Option<RetryBudget>,
}

fn around() -> impl Strategy<Value = Around> {
    let driver = prop_oneof![
        6 => Just(DriverRules::Java54),
        2 => Just(DriverRules::Specification),
        2 => Just(DriverRules::Java514),
        1 => Just(DriverRules::Unbounded),
    ];
    let own = (tens(), 1..50_u64, 1..8_u64, prop::option::of(0..6_u64), any::<bool>()).prop_map(
        |(hold_tens, tens, times, retries, numbered_only)| Gateway {
            hold_ms: 10 * hold_tens,
            first_wait_ms: 10 * tens + 2,
            longest_wait_ms: 10 * tens * times + 12,
            retries,
            numbered_only,
        },
    );
    let gateway = prop_oneof![1 => Just(Gateway::MONGOS), 3 => own];
    (
        driver,
        prop::option::of(0..5_u64),
        prop::option::weighted(0.25, gateway),
        prop::option::weighted(0.15, tens()),
        prop::option::weighted(0.15, tens()),
        prop::option::weighted(0.15, (0..700_u64, 0..3_u64)),
    )
        .prop_map(|(driver, adaptive_retries, gateway, cancel_tens, restart_tens, budget)| Around {
            budget: budget.map(|(percent, per_second)| RetryBudget { percent, per_second }),
            driver,
            adaptive_retries,
            gateway,
            cancel_tens,
            restart_tens,
        })
}

/// A bulk of several writes.
#[derive(Debug, Clone)]
struct Bulk {
    /// Each with whether its document is there before.
    kinds: Vec<(ModelKind, bool)>,
    ordered: bool,
    max_batch: Option<u64>,
    /// The one command that a fail point holds.
    held: Option<CommandName>,
}

fn bulk() -> impl Strategy<Value = Bulk> {
    let kind = prop_oneof![
        3 => Just(ModelKind::InsertOne),
        3 => Just(ModelKind::UpdateOne),
        2 => Just(ModelKind::ReplaceOne),
        2 => Just(ModelKind::DeleteOne),
        1 => prop::sample::select(&[ModelKind::UpdateMany, ModelKind::DeleteMany]),
    ];
    let held = prop::sample::select(&[CommandName::Insert, CommandName::Update, CommandName::Delete]);
    (
        prop::collection::vec((kind, any::<bool>()), 1..6),
        any::<bool>(),
        prop::option::weighted(0.3, 1..4_u64),
        prop::option::of(held),
    )
        .prop_map(|(kinds, ordered, max_batch, held)| Bulk { kinds, ordered, max_batch, held })
}

impl Bulk {
    /// Its writes, and the documents that are there before.
    fn models(&self) -> (Vec<Model>, Vec<toml::Table>) {
        let table = |text: &str| toml::from_str::<toml::Table>(text).expect("TOML");
        let (mut models, mut seed) = (Vec::new(), Vec::new());
        for (place, (kind, is_there)) in self.kinds.iter().enumerate() {
            let id = format!("_id = 'document-{place}'");
            let (is_insert, replaces) = (*kind == ModelKind::InsertOne, *kind == ModelKind::ReplaceOne);
            let updates = matches!(kind, ModelKind::UpdateOne | ModelKind::UpdateMany);
            let upsert = !is_there && (*kind == ModelKind::UpdateOne || replaces);
            if !is_insert && !upsert {
                seed.push(table(&id));
            }
            models.push(Model {
                kind: *kind,
                document: (is_insert || replaces).then(|| table("attempt = '$execution'")),
                filter: (!is_insert).then(|| table(&id)),
                update: updates.then(|| table("'$set' = { attempt = '$execution' }")),
                upsert,
            });
        }
        (models, seed)
    }
}

fn stall() -> impl Strategy<Value = Stall> {
    prop_oneof![
        1 => Just(Stall::None),
        4 => (tens(), 1..12_u64).prop_map(|(tens, times)| Stall::FailCommand { hold_ms: 10 * tens + 3, times }),
        4 => Just(Stall::Engine),
        4 => Just(Stall::Interruptible),
        1 => (1..5_u64).prop_map(|times| Stall::LostReply { times }),
        2 => (1..30_u64).prop_map(|times| Stall::Reset { times }),
        1 => (1..30_u64).prop_map(|times| Stall::Overload { times }),
        2 => Just(Stall::Tickets),
        2 => Just(Stall::Lock),
        2 => Just(Stall::Sessions),
        2 => tens().prop_map(|tens| Stall::Slow { takes_ms: 10 * tens + 6, distribution: Distribution::Fixed }),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        Just(Operation::InsertOne),
        Just(Operation::InsertMany),
        Just(Operation::BulkInsert),
        Just(Operation::BulkWrite),
        Just(Operation::BulkWrite),
        Just(Operation::BulkWrite),
        Just(Operation::UpdateOne),
        Just(Operation::UpdateMany),
        Just(Operation::FindOneAndUpdate),
    ]
}

/// A time in units of ten milliseconds: short ones are as frequent as long ones, so that all kinds of waits meet.
fn tens() -> impl Strategy<Value = u64> {
    prop_oneof![2..30_u64, 30..300_u64, 300..3000_u64]
}

fn settings() -> impl Strategy<Value = Settings> {
    let times =
        (prop::option::weighted(0.9, tens()), prop::option::weighted(0.2, tens()), prop::option::weighted(0.4, tens()));
    let layer = (1..3_u64, prop_oneof![Just(0), tens()]);
    let inner = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(layer, 1..3)];
    let retry = (any::<bool>(), 0..12_u64, prop_oneof![Just(0), tens()], any::<bool>(), any::<bool>(), inner);
    let write = (operation(), any::<bool>(), bulk(), any::<bool>(), around());
    (prop::sample::select(&["4.4", "7.0", "8.0"]), times, retry, write, (stall(), prop::option::of(tens())), 5..9_u64)
        .prop_map(
            |(
                profile,
                times,
                (retry_writes, retries, wait_tens, exponential, resets, inner),
                (operation, upsert, bulk, is_batch, around),
                (stall, for_tens),
                tickets,
            )| {
                Settings {
                    profile,
                    socket_timeout_tens: times.0,
                    timeout_tens: times.1,
                    max_time_tens: times.2,
                    retry_writes,
                    // Layers multiply.
                    retries: if inner.is_empty() { retries } else { retries % 4 },
                    wait_tens,
                    exponential,
                    resets,
                    operation,
                    upsert: upsert && matches!(operation, Operation::UpdateOne | Operation::FindOneAndUpdate),
                    stall,
                    for_tens: for_tens.filter(|_| stall.is_lifted()),
                    tickets,
                    bulk,
                    inner,
                    is_batch,
                    around,
                }
            },
        )
}

impl Settings {
    /// The scenario as a user would write it.
    fn scenario(&self) -> Scenario {
        let option = |name: &str, value: Option<u64>| value.map_or(String::new(), |value| format!("&{name}={value}"));
        let uri = format!(
            "mongodb://localhost/test?appName=generated&retryWrites={}{}{}{}",
            self.retry_writes,
            option("socketTimeoutMS", self.socket_timeout_tens.map(|tens| 10 * tens)),
            option("timeoutMS", self.timeout_tens.map(|tens| 10 * tens + 7)),
            option("maxAdaptiveRetries", self.around.adaptive_retries),
        );
        let mut scenario = Scenario::built_in("upsert-by-id").expect("built in");
        scenario.name = "generated".to_owned();
        scenario.profile = self.profile.to_owned();
        scenario.client.uri = uri;
        scenario.client.max_time_ms = self.max_time_tens.map(|tens| 10 * tens + 4);
        scenario.retry.back_off = self.back_off();
        scenario.retry.reset_on_exception_change = self.resets;
        scenario.stall = self.stall;
        scenario.retry.inner = self.inner.iter().map(|(retries, tens)| inner(*retries, 10 * tens)).collect();
        scenario.kafka.listener = if self.is_batch { ListenerKind::Batch } else { ListenerKind::Single };
        // Many executions take longer than the hour that a simulation has by default.
        scenario.load.until_ms = 48 * 3_600_000;
        let held = self.bulk.held.filter(|_| matches!(self.stall, Stall::FailCommand { .. }));
        let for_ms = self.for_tens.map(|tens| 10 * tens + 9);
        scenario.window =
            Window { from_ms: 0, for_ms, command: held.filter(|_| self.operation == Operation::BulkWrite) };
        scenario.server.write_tickets = self.tickets;
        scenario.server.max_write_batch_size = self.bulk.max_batch.unwrap_or(100_000);
        scenario.client.driver = self.around.driver;
        scenario.client.cancel_after_ms = self.around.cancel_tens.map(|tens| 10 * tens + 5);
        scenario.retry.restart_after_ms = self.around.restart_tens.map(|tens| 10 * tens);
        scenario.gateway = self.around.gateway;
        scenario.retry.budget = self.around.budget.filter(|_| !self.is_batch);
        let workload = &mut scenario.workload;
        workload.operation = self.operation;
        workload.upsert = self.upsert;
        let document: toml::Table = toml::from_str("productId = 1\nattempt = '$execution'").expect("TOML");
        match self.operation {
            Operation::InsertOne => workload.document = Some(document),
            Operation::InsertMany | Operation::BulkInsert => workload.documents = vec![document.clone(), document],
            Operation::BulkWrite => {
                (workload.models, workload.seed) = self.bulk.models();
                workload.ordered = self.bulk.ordered;
            }
            Operation::UpdateOne | Operation::UpdateMany | Operation::FindOneAndUpdate => {
                let seed: toml::Table = toml::from_str("_id = 'product-1'\nquantity = 0").expect("TOML");
                if !self.upsert {
                    workload.seed = vec![seed];
                }
            }
        }
        scenario
    }

    fn back_off(&self) -> BackOff {
        let (retries, wait_ms) = (self.retries, 10 * self.wait_tens);
        let text = if self.exponential {
            format!(
                "kind = 'exponential-max-retries'\nmax_retries = {}\ninitial_interval_ms = {}\nmultiplier = 2.0\nmax_interval_ms = 20000",
                retries.max(1),
                wait_ms.max(10),
            )
        } else {
            format!("kind = 'fixed'\nmax_retries = {retries}\ninterval_ms = {wait_ms}")
        };
        toml::from_str(&text).expect("a back-off")
    }
}

/// A layer of retries within a call.
fn inner(retries: u64, wait_ms: u64) -> Inner {
    let text = format!("back_off = {{ kind = 'fixed', max_retries = {retries}, interval_ms = {wait_ms} }}");
    toml::from_str(&text).expect("a layer")
}

/// One write in a rehearsal.
fn rehearses(settings: &Settings) {
    let scenario = settings.scenario();
    let text = toml::to_string(&scenario).expect("TOML");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let options = Options { scale: 1.0, transport: Transport::Memory, seed: 1, started_at_ms: 0, watcher: None };
    match runtime.block_on(rehearse(&scenario, &options)) {
        Ok(run) => {
            assert!(run.differences().is_empty(), "{text}\n{}\n{}", timeline::render(&run, None), table::render(&run))
        }
        // A client without any timeout is told that it would wait for ever.
        Err(RehearsalError::Unpredictable(_)) => {}
        Err(error) => panic!("{text}\n{error}"),
    }
}

/// One record in a simulation, with a consumer of a Kafka group.
fn simulates(settings: &Settings) {
    let mut scenario = settings.scenario();
    // A consumer that is started again joins its group in its own time.
    scenario.retry.restart_after_ms = None;
    let text = toml::to_string(&scenario).expect("TOML");
    if predict(&scenario.plan(1.0, settings.profile != "4.4").expect("a plan")).is_err() {
        return;
    }
    match simulate(&scenario, SimulateOptions { events_max: 100_000, ..SimulateOptions::default() }) {
        Ok(run) => assert!(run.differences().is_empty(), "{text}\n{}", simulation::text::render(&run, None)),
        Err(error) => panic!("{text}\n{error}"),
    }
}

/// How many settings are rehearsed; `PROPTEST_CASES` says otherwise.
const REHEARSED: u32 = 8_000;
/// How many of them, the first, are simulated as well: that takes longer.
const SIMULATED: u32 = 2_000;

/// The same settings at every run, so that a run says something about a change; `PROPTEST_RNG_SEED` looks at others.
fn config(cases: u32) -> ProptestConfig {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    ProptestConfig {
        cases: number("PROPTEST_CASES").and_then(|cases| u32::try_from(cases).ok()).unwrap_or(cases),
        max_shrink_iters: 3000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(number("PROPTEST_RNG_SEED").unwrap_or(1)),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(REHEARSED))]

    #[test]
    fn any_settings_measure_what_they_predict(settings in settings()) {
        rehearses(&settings);
    }
}

proptest! {
    #![proptest_config(config(SIMULATED))]

    #[test]
    fn any_settings_simulate_what_they_predict(settings in settings()) {
        simulates(&settings);
    }
}
