//! The law of the prediction: what it promises is what a run of the real parts measures, for any settings.
//!
//! Generated times have different last digits (socket timeout and back-off 0, hold 3, `maxTimeMS` 4, time in
//! the engine 6, `timeoutMS` 7, end of the stall 9), so that
//! what happens independently does not happen at the same instant: then nobody could say which comes first.

use backfire_model::back_off::BackOff;
use backfire_model::predict::{Distribution, Stall, predict};
use backfire_model::scenario::{Operation, Scenario, Window};
use backfire_rehearsal::{Options, RehearsalError, SimulateOptions, Transport, rehearse, simulate};
use backfire_report::{simulation, table, timeline};
use proptest::prelude::*;

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
}

fn stall() -> impl Strategy<Value = Stall> {
    prop_oneof![
        1 => Just(Stall::None),
        4 => (tens(), 1..12_u64).prop_map(|(tens, times)| Stall::FailCommand { hold_ms: 10 * tens + 3, times }),
        4 => Just(Stall::Engine),
        4 => Just(Stall::Interruptible),
        1 => (1..5_u64).prop_map(|times| Stall::LostReply { times }),
        1 => (1..5_u64).prop_map(|times| Stall::Reset { times }),
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
    let retry = (any::<bool>(), 0..12_u64, prop_oneof![Just(0), tens()], any::<bool>(), any::<bool>());
    let write = (operation(), any::<bool>());
    (prop::sample::select(&["4.4", "7.0", "8.0"]), times, retry, write, (stall(), prop::option::of(tens())), 5..9_u64)
        .prop_map(
            |(
                profile,
                times,
                (retry_writes, retries, wait_tens, exponential, resets),
                (operation, upsert),
                (stall, for_tens),
                tickets,
            )| {
                Settings {
                    profile,
                    socket_timeout_tens: times.0,
                    timeout_tens: times.1,
                    max_time_tens: times.2,
                    retry_writes,
                    retries,
                    wait_tens,
                    exponential,
                    resets,
                    operation,
                    upsert: upsert && matches!(operation, Operation::UpdateOne | Operation::FindOneAndUpdate),
                    stall,
                    for_tens: for_tens.filter(|_| stall.is_lifted()),
                    tickets,
                }
            },
        )
}

impl Settings {
    /// The scenario as a user would write it.
    fn scenario(&self) -> Scenario {
        let option = |name: &str, value: Option<u64>| value.map_or(String::new(), |value| format!("&{name}={value}"));
        let uri = format!(
            "mongodb://localhost/test?appName=generated&retryWrites={}{}{}",
            self.retry_writes,
            option("socketTimeoutMS", self.socket_timeout_tens.map(|tens| 10 * tens)),
            option("timeoutMS", self.timeout_tens.map(|tens| 10 * tens + 7)),
        );
        let mut scenario = Scenario::built_in("upsert-by-id").expect("built in");
        scenario.name = "generated".to_owned();
        scenario.profile = self.profile.to_owned();
        scenario.client.uri = uri;
        scenario.client.max_time_ms = self.max_time_tens.map(|tens| 10 * tens + 4);
        scenario.retry.back_off = self.back_off();
        scenario.retry.reset_on_exception_change = self.resets;
        scenario.stall = self.stall;
        scenario.window = Window { from_ms: 0, for_ms: self.for_tens.map(|tens| 10 * tens + 9) };
        scenario.server.write_tickets = self.tickets;
        let workload = &mut scenario.workload;
        workload.operation = self.operation;
        workload.upsert = self.upsert;
        let document: toml::Table = toml::from_str("productId = 1\nattempt = '$execution'").expect("TOML");
        match self.operation {
            Operation::InsertOne => workload.document = Some(document),
            Operation::InsertMany | Operation::BulkInsert => workload.documents = vec![document.clone(), document],
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
    let scenario = settings.scenario();
    let text = toml::to_string(&scenario).expect("TOML");
    if predict(&scenario.plan(1.0, settings.profile != "4.4").expect("a plan")).is_err() {
        return;
    }
    match simulate(&scenario, SimulateOptions { events_max: 100_000, ..SimulateOptions::default() }) {
        Ok(run) => assert!(run.differences().is_empty(), "{text}\n{}", simulation::text::render(&run, None)),
        Err(error) => panic!("{text}\n{error}"),
    }
}

/// As many cases as `PROPTEST_CASES` says; two tests have ten thousand between them.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(5_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_settings_measure_what_they_predict(settings in settings()) {
        rehearses(&settings);
    }

    #[test]
    fn any_settings_simulate_what_they_predict(settings in settings()) {
        simulates(&settings);
    }
}
