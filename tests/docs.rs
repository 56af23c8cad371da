//! The reference pages say what the tables say. `UPDATE_DOCS=1 cargo test -p backfire-tests --test docs` writes them.

use std::fs;
use std::path::PathBuf;

use backfire_model::connection_string::reference_markdown;
use backfire_model::predict::predict;
use backfire_model::scenario::Scenario;
use backfire_server::reference;

/// Compares a page below `docs/` with what was generated, or writes it.
fn page(name: &str, generated: &str) {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs")).join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, generated).expect("the page can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == generated, "docs/{name} is not what the tables say; run with UPDATE_DOCS=1");
}

#[test]
fn pages_are_in_step_with_the_tables() {
    page("reference/commands.md", &reference::commands_markdown());
    page("reference/parameters.md", &reference::parameters_markdown());
    page("reference/fail-points.md", &reference::fail_points_markdown());
    page("reference/connection-string.md", &reference_markdown());
    page("reference/dials.md", &backfire_model::dial::markdown());
    page("reference/scenarios.md", &Scenario::built_in_markdown());
}

#[test]
fn the_example_of_a_scenario_file_can_be_used() {
    let page = include_str!("../docs/scenario-file.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let scenario = Scenario::parse(example).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(scenario.warnings(example), [""; 0]);
    let plan = scenario.plan(1.0, false).expect("a plan");
    predict(&plan).expect("a prediction");
}
