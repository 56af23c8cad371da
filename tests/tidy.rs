//! The rooms keep what ARCHITECTURE.md promises of them, as far as text can show it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// All Rust files below `folder`, as (path from the root, text).
fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(path: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(path).expect("a readable folder").map(|entry| entry.expect("a readable entry").path())
        {
            match entry.extension() {
                _ if entry.is_dir() => walk(&entry, found),
                Some(extension) if extension == "rs" => found.push(entry),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found.sort();
    let name = |path: &PathBuf| path.strip_prefix(root()).expect("below the root").display().to_string();
    found.iter().map(|path| (name(path), fs::read_to_string(path).expect("UTF-8"))).collect()
}

/// The code of a file: without comments, and without its test module, which stands last.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Lines of product code below `folder` that contain one of `words`.
fn occurrences(folder: &str, words: &[&str], but_not_in: &[&str]) -> Vec<String> {
    sources(folder)
        .into_iter()
        .filter(|(path, _)| !but_not_in.iter().any(|part| path.contains(part)))
        .flat_map(|(path, text)| {
            let hits = code(&text)
                .lines()
                .filter(|line| words.iter().any(|word| line.contains(word)))
                .map(str::to_owned)
                .collect::<Vec<_>>();
            hits.into_iter().map(move |line| format!("{path}: {}", line.trim()))
        })
        .collect()
}

#[test]
fn rooms_depend_only_on_the_rooms_they_may() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("model", &[][..]),
        ("wire", &[]),
        ("server", &["model", "wire"]),
        ("driver", &["model", "wire"]),
        ("consumer", &["model"]),
        ("jvm", &["model"]),
        ("report", &["model"]),
        ("check", &["jvm", "model"]),
        ("rehearsal", &["consumer", "driver", "model", "server"]),
        ("sink", &["consumer", "driver", "model"]),
        ("backfire", &["check", "model", "rehearsal", "report", "server", "sink"]),
    ]);
    let mut rooms = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).expect("crates/").map(|entry| entry.expect("an entry").path()) {
        let room = entry.file_name().expect("a name").to_string_lossy().into_owned();
        let manifest = fs::read_to_string(entry.join("Cargo.toml")).expect("a manifest");
        let normal = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        let used: Vec<_> = normal
            .lines()
            .filter_map(|line| line.strip_prefix("backfire-"))
            .filter_map(|line| line.split(['.', ' ']).next())
            .collect();
        let may = allowed.get(room.as_str()).unwrap_or_else(|| panic!("crates/{room} is not in this test's table"));
        assert_eq!(used, *may, "crates/{room} depends on other rooms than it may");
        assert!(manifest.contains("[lints]\nworkspace = true"), "crates/{room} does not take the workspace's lints");
        rooms.insert(room);
    }
    assert_eq!(rooms.iter().map(String::as_str).collect::<Vec<_>>(), allowed.keys().copied().collect::<Vec<_>>());
}

#[test]
fn there_is_no_clock_but_tokios() {
    // The command line asks the wall clock once, and hands the answer on.
    let found =
        occurrences("crates", &["SystemTime::now", "std::time::Instant", "thread::sleep"], &["crates/backfire/"]);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn only_the_command_line_prints() {
    // Tests say what they skipped and measured.
    let found = occurrences("crates", &["println!", "print!(", "dbg!"], &["crates/backfire/", "/tests/"]);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn nothing_is_left_to_do_later() {
    let found = occurrences("crates", &["todo!", "unimplemented!", "TODO", "FIXME"], &[]);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn unsafe_is_forbidden_everywhere() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace manifest");
    assert!(manifest.contains("unsafe_code = \"forbid\""));
    let found = occurrences("crates", &["unsafe {", "unsafe fn", "unsafe impl"], &[]);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_file_says_what_it_is_about() {
    let silent: Vec<_> = sources("crates")
        .into_iter()
        .filter(|(path, text)| !text.starts_with("//!") && !path.ends_with("tests.rs"))
        .map(|(path, _)| path)
        .collect();
    assert!(silent.is_empty(), "no //! at the top of {}", silent.join(", "));
}

#[test]
fn versions_are_asked_for_in_the_profile_only() {
    let words = ["profile.name ==", "profile.version ==", "profile.max_wire_version >", "profile.max_wire_version <"];
    let found = occurrences("crates/server", &words, &["src/profile.rs"]);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_wait_of_an_operation_goes_through_one_function() {
    // Stages, commands and sessions wait with `op.wait` or `op.wait_uninterruptibly`, never with a bare sleep; the ticket
    // queue has slices of its own (facts/server.md 7.1).
    let bare: Vec<_> = occurrences(
        "crates/server/src",
        &["tokio::time::sleep("],
        &["src/server.rs", "src/net/", "src/failpoints/mod.rs", "stages/ticket.rs", "src/ops/mod.rs"],
    )
    .into_iter()
    .filter(|line| {
        !line.contains("op.wait(") && !line.contains("op.wait_uninterruptibly(") && !line.contains("run.op.wait(")
    })
    .collect();
    assert!(bare.is_empty(), "{}", bare.join("\n"));
}

#[test]
fn every_fail_point_that_code_asks_for_is_in_the_table() {
    let text = fs::read_to_string(root().join("crates/server/src/failpoints/table.rs")).expect("the table");
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("pub const ")?.strip_suffix("\";")).collect();
    let names: Vec<_> = names.iter().filter_map(|line| line.split_once(": &str = \"")).map(|(_, name)| name).collect();
    let rows: Vec<_> = backfire_server::failpoints::FAIL_POINTS.iter().map(|row| row.name).collect();
    assert!(!names.is_empty());
    assert_eq!(names, rows);
}
