//! The situations that `check` predicts beside a stall, held against simulations of them, for any settings.
//!
//! Each is a stall of its own in the scenario of the listener that was checked: a frozen server, one that refuses writes as
//! overloaded, connections that break under `timeoutMS`, and a mongos whose shard fails.

use std::sync::LazyLock;

use backfire_check::{Amount, ListenerScenario, Request, scenarios};
use backfire_model::predict::Stall;
use backfire_model::scenario::{DriverRules, Gateway, Scenario, Window};
use backfire_rehearsal::{SimulateOptions, simulate};
use proptest::prelude::*;

/// More than any scenario here sends.
const MANY: u64 = 1_000_000;

/// A service that states its settings.
#[derive(Debug, Clone)]
struct Stated {
    has_backpressure: bool,
    socket_timeout_ms: u64,
    timeout_ms: Option<u64>,
    retry_writes: bool,
    adaptive_retries: Option<u64>,
    pool: u64,
    executions: u64,
    op: &'static str,
}

fn stated() -> impl Strategy<Value = Stated> {
    (
        any::<bool>(),
        1_000..60_000_u64,
        prop::option::weighted(0.3, 1_000..20_000_u64),
        any::<bool>(),
        prop::option::of(0..6_u64),
        1..8_u64,
        1..8_u64,
        prop::sample::select(&["insert", "upsert", "update-many"]),
    )
        .prop_map(
            |(
                has_backpressure,
                socket_timeout_ms,
                timeout_ms,
                retry_writes,
                adaptive_retries,
                pool,
                executions,
                op,
            )| {
                Stated {
                    has_backpressure,
                    socket_timeout_ms,
                    timeout_ms,
                    retry_writes,
                    adaptive_retries,
                    pool,
                    executions,
                    op,
                }
            },
        )
}

impl Stated {
    fn text(&self) -> String {
        let version = if self.has_backpressure { "5.14.0" } else { "5.4.0" };
        let option = |name: &str, value: Option<u64>| value.map_or(String::new(), |value| format!("&{name}={value}"));
        let uri = format!(
            "mongodb://db/?retryWrites={}&socketTimeoutMS={}&maxPoolSize={}{}{}",
            self.retry_writes,
            self.socket_timeout_ms,
            self.pool,
            option("timeoutMS", self.timeout_ms),
            option("maxAdaptiveRetries", self.adaptive_retries),
        );
        format!(
            "[driver]\nfamily = \"java\"\nversion = \"{version}\"\n[client]\nuri = \"{uri}\"\n[[listener]]\nname = \"l\"\n\
             executions = {}\n[[listener.write]]\nop = \"{}\"\n",
            self.executions, self.op
        )
    }

    fn check(&self) -> ListenerScenario {
        static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));
        let file = FOLDER.path().join("backfire.toml");
        std::fs::write(&file, self.text()).expect("written");
        let request = Request { paths: vec![file], ..Request::default() };
        scenarios(&request).unwrap_or_else(|error| panic!("{error}\n{}", self.text())).remove(0)
    }
}

/// The scenario of a situation, by the name that `check` gives it.
fn scenario(name: &str, of_listener: &Scenario) -> Scenario {
    let mut scenario = of_listener.clone();
    // It is about sends, and not about the group.
    scenario.kafka.max_poll_interval_ms = 24 * 3_600_000;
    scenario.load.until_ms = 48 * 3_600_000;
    scenario.window = Window::default();
    scenario.stall = Stall::Reset { times: MANY };
    match name {
        "the whole server stands still, handshakes included" => scenario.stall = Stall::Freeze,
        "the server refuses writes as overloaded" => scenario.stall = Stall::Overload { times: MANY },
        "every connection breaks after the write was read" => {}
        "through a mongos whose shard fails" => scenario.gateway = Some(Gateway::MONGOS),
        other => panic!("the situation '{other}' is not simulated"),
    }
    scenario
}

fn holds(promised: &Amount, measured: u64) -> bool {
    match promised {
        Amount::Exact(number) => *number == measured,
        Amount::Range { from, to, .. } => (*from..=*to).contains(&measured),
        Amount::Unbounded { .. } | Amount::Unknown { .. } => true,
    }
}

fn simulates(stated: &Stated) -> usize {
    let found = stated.check();
    let of_listener = found.scenario.as_ref().unwrap_or_else(|error| panic!("{error}\n{}", stated.text()));
    let backpressure = if stated.has_backpressure { DriverRules::Java514 } else { DriverRules::Java54 };
    assert_eq!(of_listener.client.driver, backpressure);
    for situation in &found.prediction.situations {
        let scenario = scenario(situation.name, of_listener);
        let simulated = simulate(&scenario, SimulateOptions::default())
            .unwrap_or_else(|error| panic!("{}: {error}\n{}", situation.name, stated.text()));
        let outcome = &simulated.outcome;
        let what = format!("{}\n{}\n{outcome:#?}", situation.name, stated.text());
        assert!(holds(&situation.sends, outcome.sends), "{} promised: {what}", situation.sends);
        assert!(
            holds(&situation.overlapping_copies_max, outcome.running_copies_max),
            "{} at once promised: {what}",
            situation.overlapping_copies_max
        );
    }
    found.prediction.situations.len()
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn situations_are_what_a_simulation_measures(stated in stated()) {
        prop_assert!(simulates(&stated) >= 1);
    }
}
