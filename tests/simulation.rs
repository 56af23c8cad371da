//! Simulations: many consumers and records on a paused clock, with the rules of one.

use backfire_model::dial::Dial;
use backfire_model::load::ListenerKind;
use backfire_model::predict::Stall;
use backfire_model::scenario::{BUILT_IN, Scenario};
use backfire_model::simulated::Simulated;
use backfire_rehearsal::simulate::sweep::{sweep, threshold};
use backfire_rehearsal::{RehearsalError, SimulateOptions, simulate};
use backfire_report::simulation::{json, text, trace};

/// Simulates a built-in scenario with these settings, `name=value` each.
fn run(name: &str, settings: &[&str]) -> Simulated {
    let options = SimulateOptions { seed: 1, events_max: 200_000, ..SimulateOptions::default() };
    simulate(&scenario(name, settings), options).unwrap_or_else(|error| panic!("{name} {settings:?}: {error}"))
}

fn scenario(name: &str, settings: &[&str]) -> Scenario {
    let mut scenario = Scenario::built_in(name).expect("built in");
    for setting in settings {
        let (name, value) = setting.split_once('=').expect("name=value");
        let dial = Dial::find(name).expect("a dial");
        dial.set(&mut scenario, &dial.value(value).expect("a value")).expect("it can be set");
    }
    scenario.check().expect("it can be run");
    scenario
}

#[test]
fn one_record_of_each_built_in_scenario_comes_out_as_predicted() {
    for (name, _) in BUILT_IN.iter().filter(|(name, _)| *name != "client-gone") {
        let simulated = run(
            name,
            &["consumers=1", "partitions=1", "records=1", "service=0", "stall-from=0", "max.poll.interval.ms=300s"],
        );
        assert!(simulated.run().is_some(), "{name} has a prediction");
        assert_eq!(simulated.differences(), [], "{name}\n{}", text::render(&simulated, None));
    }
}

#[test]
fn a_client_that_hangs_up_is_for_rehearse() {
    let error = simulate(&scenario("client-gone", &[]), SimulateOptions::default()).err();
    assert!(matches!(error, Some(RehearsalError::NotSimulated(_))), "{error:?}");
}

#[test]
fn the_worked_timeline_reads_as_in_a_rehearsal() {
    insta::assert_snapshot!("simulate-store-inventory", text::render(&run("store-inventory", &[]), None));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_does_not() {
    let settings = [
        "consumers=7",
        "records=9",
        "arrival=1s",
        "stall-from=2s",
        "stall-for=95s",
        "service=20ms",
        "service-distribution=exponential",
    ];
    let bytes = |seed| {
        let options = SimulateOptions { seed, events_max: usize::MAX, ..SimulateOptions::default() };
        let simulated = simulate(&scenario("store-inventory", &settings), options).expect("it runs");
        let events: String = simulated.events.iter().map(trace::line).collect();
        (json::render(&simulated), events)
    };
    let (one, other) = (bytes(3), bytes(3));
    assert!(one == other, "the same seed");
    assert!(one.1 != bytes(4).1, "another seed");
}

/// facts/client.md Y2: one record in two consumers, dead letters again and again, the offset never committed.
#[test]
fn an_execution_longer_than_the_poll_interval_never_ends() {
    let simulated = run("poll-interval", &[]);
    let outcome = &simulated.outcome;
    assert!(!simulated.is_complete);
    assert!(outcome.records_with_two_owners >= 1 && outcome.poll_interval_exceeded > 2, "{outcome:#?}");
    assert!(outcome.commits_failed > 0 && outcome.dead_letters > outcome.dead_lettered, "{outcome:#?}");
    assert!(outcome.executions > 4 * outcome.records, "more than the back-off allows: {outcome:#?}");
    let polls_meanwhile = run("poll-interval", &["error-handling=bounded"]);
    let outcome = &polls_meanwhile.outcome;
    assert!(polls_meanwhile.is_complete);
    assert_eq!((outcome.records_with_two_owners, outcome.poll_interval_exceeded, outcome.commits_failed), (0, 0, 0));
    assert_eq!((outcome.executions, outcome.dead_letters), (4, 1));
}

/// One consumer alone is enough (facts/client.md Y2).
#[test]
fn one_consumer_that_outlives_its_poll_interval_goes_on_for_ever_too() {
    let simulated = run("poll-interval", &["consumers=1", "until=120s"]);
    assert!(!simulated.is_complete && simulated.outcome.dead_letters > 1, "{:#?}", simulated.outcome);
    assert_eq!(simulated.outcome.records_with_two_owners, 0);
}

/// facts/client.md D1: a recoverer that fails starts the whole back-off over.
#[test]
fn a_dead_letter_topic_that_fails_makes_executions_endless() {
    let simulated = run("store-inventory", &["dead-letters=failing", "until=2000s"]);
    assert!(!simulated.is_complete && simulated.outcome.dead_letters_failed >= 8, "{:#?}", simulated.outcome);
    assert_eq!(simulated.outcome.executions, 4 * (simulated.outcome.dead_letters_failed + 1) - (4 - 2));
}

/// A small storm: 5 tickets / 500 ms are 10 writes a second, 5 arrive; 60 consumers / 4 s are 15 copies a second.
const STORM: &[&str] = &[
    "tickets=5",
    "service=500ms",
    "consumers=60",
    "records=20",
    "arrival=12s",
    "stall-from=10s",
    "stall-for=21s",
    "until=150s",
];

#[test]
fn a_storm_of_retries_outlives_its_stall_and_the_threshold_is_found() {
    let simulated = run("retry-storm", STORM);
    assert!(simulated.outlives_stall(), "{}", text::render(&simulated, None));
    let calm = run("retry-storm", &[STORM, &["consumers=20"]].concat());
    assert!(!calm.outlives_stall() && calm.outcome.recovered_after_ms.is_some(), "{}", text::render(&calm, None));
    let found =
        threshold(&scenario("retry-storm", STORM), Dial::find("consumers").unwrap(), (20, 60), 1, |_| {}).unwrap();
    let (recovers, outlives) = found.between.unwrap_or_else(|| panic!("{:#?}", found.rows));
    assert_eq!(recovers.parse::<u64>().unwrap() + 1, outlives.parse::<u64>().unwrap());
}

#[test]
fn a_sweep_has_a_row_for_every_combination_in_order() {
    let dial =
        |name: &str, values: &str| (Dial::find(name).unwrap(), Dial::find(name).unwrap().values(values).unwrap());
    let dials = vec![dial("socketTimeoutMS", "5s,20s"), dial("backoff", "fixed(0,3),fixed(0,9),none")];
    let rows = sweep(&scenario("store-inventory", &[]), &dials, 1, |_, _| {}).unwrap();
    let numbers: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.values.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" "),
                row.result.as_ref().unwrap().outcome.sends,
            )
        })
        .collect();
    let expected = [
        ("5s fixed(0,3)", 8),
        ("5s fixed(0,9)", 20),
        ("5s none", 2),
        ("20s fixed(0,3)", 8),
        ("20s fixed(0,9)", 20),
        ("20s none", 2),
    ];
    assert_eq!(numbers, expected.map(|(name, sends)| (name.to_owned(), sends)));
}

#[test]
fn many_consumers_hit_by_one_stall_have_as_many_copies_each_as_one() {
    let simulated = run("store-inventory", &["consumers=20", "records=3", "stall-for=250s"]);
    let outcome = &simulated.outcome;
    assert_eq!((outcome.records, outcome.dead_lettered, outcome.written), (60, 20, 40));
    assert_eq!((outcome.overlapping_copies_max, outcome.running_copies_max), (4, 20 * 5));
    assert_eq!(outcome.documents, 2 * (20 * 4 + 40));
    assert!(simulated.is_complete && outcome.recovered_after_ms.is_some());
}

/// F9: a batch listener's failure has the whole batch executed again, with the records whose writes had succeeded.
#[test]
fn a_batch_is_executed_again_with_what_was_written() {
    let batch = |settings: &[&str], held: u64| {
        let mut scenario = scenario("store-inventory", settings);
        scenario.kafka.listener = ListenerKind::Batch;
        // Only later records of the batch meet the stall: those before them are written each time.
        scenario.stall = Stall::FailCommand { hold_ms: 1_000_000, times: held };
        simulate(&scenario, SimulateOptions::default()).expect("it runs")
    };
    // Three records, the first of which stalls for ever: it is executed four times, and the others never.
    let outcome = batch(&["records=3"], 1000).outcome;
    assert_eq!(
        (outcome.executions, outcome.sends, outcome.copies, outcome.dead_lettered),
        (4, 8, 4, 3),
        "{outcome:#?}"
    );
    // One send is held and its resend is not: the batch is executed once.
    let outcome = batch(&["records=3"], 1).outcome;
    assert_eq!(
        (outcome.executions, outcome.sends, outcome.written, outcome.dead_lettered),
        (3, 4, 3, 0),
        "{outcome:#?}"
    );
    // Two are: the second execution of the batch writes all.
    let outcome = batch(&["records=3"], 2).outcome;
    assert_eq!(
        (outcome.executions, outcome.sends, outcome.written, outcome.dead_lettered),
        (4, 5, 3, 0),
        "{outcome:#?}"
    );
}

/// F9: the stall begins while a batch is under way, so that records before the one that fails are written again.
#[test]
fn records_before_the_one_that_fails_are_written_in_each_execution() {
    let mut scenario = scenario("store-inventory", &["records=3", "service=1s", "stall-from=1500ms"]);
    scenario.kafka.listener = ListenerKind::Batch;
    scenario.window.for_ms = Some(100_000);
    let simulated = simulate(&scenario, SimulateOptions::default()).expect("it runs");
    let outcome = &simulated.outcome;
    // The second record's write stalls, and the batch fails after a minute. Its second execution begins with the first record,
    // whose write had succeeded, and goes through when the stall is over.
    let executions: Vec<_> =
        outcome.executions_per_record.iter().map(|(executions, records)| (*executions, *records)).collect();
    assert_eq!((outcome.written, outcome.dead_lettered), (3, 0), "{outcome:#?}");
    assert_eq!(executions, [(1, 1), (2, 2)], "{outcome:#?}");
}
