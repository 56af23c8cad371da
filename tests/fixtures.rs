//! What `check` predicts for the services in `fixtures/` is what a rehearsal of them measures.

use std::path::PathBuf;

use backfire_check::{Amount, ListenerScenario, Request, scenarios};
use backfire_rehearsal::{Options, Transport, rehearse};

/// The listeners of all fixtures, and of some of them with other settings: as a user would ask with `--set`, `--uri`, `--profile`
/// or `--stall`.
fn listeners() -> Vec<(String, ListenerScenario)> {
    let fixtures = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures"));
    let mut folders: Vec<_> =
        std::fs::read_dir(&fixtures).expect("fixtures/").map(|entry| entry.expect("an entry").path()).collect();
    folders.sort();
    let uris = [
        None,
        Some("mongodb://db/stock?socketTimeoutMS=4000&retryWrites=true"),
        Some("mongodb://db/stock?socketTimeoutMS=7000&retryWrites=false"),
        Some("mongodb://db/stock?timeoutMS=9000"),
    ];
    let mut all = Vec::new();
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        for uri in uris {
            for stall_ms in [None, Some(61_003)] {
                let request = Request {
                    paths: vec![folder.clone()],
                    uri: uri.map(str::to_owned),
                    stall_ms,
                    ..Request::default()
                };
                let Ok(found) = scenarios(&request) else { continue };
                let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
                let name = format!("{name} {} {stall_ms:?}", uri.unwrap_or("as it is"));
                all.extend(found.into_iter().map(|listener| (name.clone(), listener)));
            }
        }
    }
    all
}

/// Whether what was measured is what was promised; `None`: nothing was promised.
fn holds(promised: &Amount, measured: u64) -> Option<bool> {
    match promised {
        Amount::Exact(number) => Some(*number == measured),
        Amount::Range { from, to, .. } => Some((*from..=*to).contains(&measured)),
        Amount::Unbounded { .. } | Amount::Unknown { .. } => None,
    }
}

#[test]
fn predictions_for_the_fixtures_are_what_a_rehearsal_measures() {
    let (mut measured, mut exact, mut without) = (Vec::new(), 0, Vec::new());
    for (name, found) in listeners() {
        let what = format!("{name}: {}", found.listener);
        let scenario = match found.scenario {
            Ok(scenario) => scenario,
            Err(why) => {
                without.push(format!("{what}: {why}"));
                continue;
            }
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        let options = Options { scale: 1.0, transport: Transport::Memory, seed: 1, started_at_ms: 0, watcher: None };
        let run = match runtime.block_on(rehearse(&scenario, &options)) {
            Ok(run) => run,
            Err(error) => {
                without.push(format!("{what}: {error}"));
                continue;
            }
        };
        let (counts, promised) = (run.measured.0, &found.prediction);
        assert_eq!(run.differences(), [], "{what}: the scenario's own prediction");
        for (name, promised, measured) in [
            ("executions", &promised.executions, counts.executions),
            ("sends", &promised.sends, counts.sends),
            ("copies", &promised.copies, counts.copies),
            ("copies at once", &promised.overlapping_copies_max, counts.overlapping_copies_max),
        ] {
            assert_ne!(
                holds(promised, measured),
                Some(false),
                "{what}: {name}: {promised} promised, {measured} measured"
            );
            exact += usize::from(matches!(promised, Amount::Exact(_)));
        }
        measured.push(what);
    }
    println!("{} configurations, {exact} exact numbers:\n{}", measured.len(), measured.join("\n"));
    println!("without a scenario:\n{}", without.join("\n"));
    assert!(measured.len() >= 12 && exact >= 4 * 12, "{} configurations, {exact} exact numbers", measured.len());
}
