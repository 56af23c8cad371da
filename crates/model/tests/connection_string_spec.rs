//! The specifications' own cases for connection strings and URI options
//! (<https://github.com/mongodb/specifications>, `source/connection-string/tests` and `source/uri-options/tests`).
//!
//! They are read in place: from `spec/` below the folder that `BACKFIRE_SHARED` names, or below `../shared` beside
//! the workspace. Without that folder nothing is tested, and the test says so.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use backfire_model::connection_string::{
    ConnectionString, Host, HostKind, Problem, Property, Secret, TagSet, Value, W, find_option,
};
use serde_json::{Map, Value as Json, json};

#[test]
fn connection_string() {
    run("connection-string", 98, &[check_hosts, check_auth, check_options, check_nothing_else]);
}

#[test]
fn uri_options() {
    run("uri-options", 159, &[check_options, check_ignored]);
}

type Check = fn(&Json, &ConnectionString) -> Result<(), String>;

/// Runs every case of every file of a folder, and reports all that fail.
fn run(folder: &str, least_cases: usize, checks: &[Check]) {
    let Some(folder) = spec_folder(folder) else { return };
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut cases = 0;
    let mut failures = Vec::new();
    for file in files {
        let document: Json = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        for case in document["tests"].as_array().unwrap() {
            cases += 1;
            if let Err(failure) = check_case(case, checks) {
                failures.push(format!("{}: {}: {failure}\n    {}", file.display(), case["description"], case["uri"]));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {cases} cases fail:\n{}", failures.len(), failures.join("\n"));
    assert!(cases >= least_cases, "only {cases} cases found in {}", folder.display());
}

fn spec_folder(name: &str) -> Option<PathBuf> {
    let shared = match std::env::var_os("BACKFIRE_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let folder = shared.join("spec").join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    // Written past the test harness, which would keep it to itself.
    let text = format!("\nSKIPPED: the {name} cases are not run: there is no folder {}\n", folder.display());
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    None
}

fn check_case(case: &Json, checks: &[Check]) -> Result<(), String> {
    let uri = case["uri"].as_str().unwrap();
    let parsed = match (case["valid"].as_bool().unwrap(), ConnectionString::parse(uri)) {
        (true, Ok(parsed)) => parsed,
        (false, Err(_)) => return Ok(()),
        (true, Err(error)) => return Err(format!("is valid, but: {error}")),
        (false, Ok(_)) => return Err("is invalid, but was accepted".to_owned()),
    };
    let warnings: Vec<String> = parsed.warnings().map(ToString::to_string).collect();
    match case["warning"].as_bool() {
        Some(true) if warnings.is_empty() => return Err("gave no warning".to_owned()),
        Some(false) if !warnings.is_empty() => return Err(format!("gave warnings: {warnings:?}")),
        _ => {}
    }
    checks.iter().try_for_each(|check| check(case, &parsed))
}

fn check_hosts(case: &Json, parsed: &ConnectionString) -> Result<(), String> {
    let kind = |host: &Host| match host.kind() {
        HostKind::Hostname => "hostname",
        HostKind::Ipv4 => "ipv4",
        HostKind::IpLiteral => "ip_literal",
        HostKind::Unix => "unix",
    };
    let hosts: Vec<Json> = parsed
        .hosts()
        .iter()
        .map(|host| json!({ "type": kind(host), "host": host.name(), "port": host.port() }))
        .collect();
    equal("hosts", &case["hosts"], &Json::from(hosts))
}

fn check_auth(case: &Json, parsed: &ConnectionString) -> Result<(), String> {
    let auth = json!({
        "username": parsed.user(),
        "password": parsed.password().map(Secret::expose),
        "db": parsed.database(),
    });
    let expected = match &case["auth"] {
        Json::Null => json!({ "username": null, "password": null, "db": null }),
        auth => auth.clone(),
    };
    equal("auth", &expected, &auth)
}

/// Every option that the case names is set as it says.
fn check_options(case: &Json, parsed: &ConnectionString) -> Result<(), String> {
    let none = Map::new();
    for (name, expected) in case["options"].as_object().unwrap_or(&none) {
        let (option, _) = find_option(name).ok_or_else(|| format!("there is no option {name}"))?;
        let value = parsed.value(option.id).map_or(Json::Null, to_json);
        equal(name, expected, &value)?;
    }
    Ok(())
}

/// In the connection string cases `options` are all there are.
fn check_nothing_else(case: &Json, parsed: &ConnectionString) -> Result<(), String> {
    let set = parsed.occurrences().iter().filter_map(|occurrence| occurrence.option());
    if case["options"].is_null() && set.clone().any(|option| parsed.value(option).is_some()) {
        return Err(format!("options are set: {:?}", set.collect::<Vec<_>>()));
    }
    Ok(())
}

/// An option whose value gave a warning is not set.
fn check_ignored(_: &Json, parsed: &ConnectionString) -> Result<(), String> {
    let ignored = parsed.warnings().filter(|warning| warning.problem == Problem::BadValue);
    match ignored.filter_map(|warning| warning.option).find(|option| parsed.value(*option).is_some()) {
        Some(option) => Err(format!("{option} is set all the same")),
        None => Ok(()),
    }
}

fn equal(what: &str, expected: &Json, found: &Json) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{what}: expected {expected}, found {found}")) }
}

fn to_json(value: &Value) -> Json {
    let tags = |set: &TagSet| Json::Object(set.iter().map(|(name, value)| (name.clone(), json!(value))).collect());
    let property = |property: &Property| (property.name.clone(), json!(property.value.expose()));
    match value {
        Value::Bool(value) => json!(value),
        Value::Int(value) => json!(value),
        Value::Text(text) => json!(text),
        Value::Secret(secret) => json!(secret.expose()),
        Value::List(values) => json!(values),
        Value::TagSets(sets) => sets.iter().map(tags).collect(),
        Value::Properties(properties) => Json::Object(properties.iter().map(property).collect()),
        Value::W(W::Nodes(nodes)) => json!(nodes),
        Value::W(W::Tag(tag)) => json!(tag),
    }
}
