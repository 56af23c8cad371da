//! The driver's version in Node, Python and Go services.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::{Family, Known, Version, Versions};
use crate::discover::{Kind, Tree};
use crate::format::json;
use crate::format::tree::Flaw;
use crate::setting::Source;
use crate::source::{Place, SourceFile};

fn driver(family: Family, version: &str, place: Place, note: Option<String>) -> Versions {
    let known = Version::parse(version).map(|version| Known { version, source: Source::File(place), note });
    Versions { family: Some(family), driver: known, uses_mongodb: true, ..Versions::default() }
}

/// `package.json`, and the exact version of `package-lock.json` beside it or above it.
pub fn node(file: &Arc<SourceFile>, tree: &Tree, path: &Path, flaws: &mut Vec<Flaw>) -> Versions {
    let root = match json::read(file) {
        Ok(root) => root,
        Err(flaw) => {
            flaws.push(flaw);
            return Versions::default();
        }
    };
    let dependency = ["dependencies", "peerDependencies"].iter().find_map(|section| root.get(section)?.get("mongodb"));
    let Some((range, dependency)) = dependency.and_then(|node| Some((node.text()?, node))) else {
        return Versions::default();
    };
    let lock = path
        .ancestors()
        .skip(1)
        .find_map(|folder| tree.of(Kind::PackageLock).find(|f| f.path.parent() == Some(folder)));
    if let Some(root) = lock.and_then(|lock| json::read(&lock.file).ok()) {
        let entry = root.get("packages").and_then(|packages| packages.get("node_modules/mongodb"));
        let entry = entry.or_else(|| root.get("dependencies")?.get("mongodb"));
        if let Some(version) = entry.and_then(|entry| entry.get("version"))
            && let Some(text) = version.text()
        {
            return driver(Family::Node, text, version.place.clone(), None);
        }
    }
    let lowest = range.trim_start_matches(|c: char| !c.is_ascii_digit());
    let is_exact = lowest.len() == range.len();
    let note =
        (!is_exact).then(|| format!("the lowest version that {range:?} allows, as there is no package-lock.json"));
    driver(Family::Node, lowest, dependency.place.clone(), note)
}

static REQUIREMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"(?im)(?:^|["'])[ \t]*pymongo(?:\[[^\]]*\])?[ \t]*((?:==|>=|~=|\^|=)?[ \t]*"?([0-9][0-9A-Za-z.]*))?"#)
        .ok()
});

fn python(file: &Arc<SourceFile>) -> Versions {
    let Some(captured) = REQUIREMENT.as_ref().and_then(|regex| regex.captures(&file.text)) else {
        return Versions::default();
    };
    let Some(version) = captured.get(2) else {
        return Versions { family: Some(Family::Python), uses_mongodb: true, ..Versions::default() };
    };
    let is_exact = captured.get(1).is_some_and(|text| text.as_str().starts_with("=="));
    let note = (!is_exact).then(|| "the lowest version that the requirement allows".to_owned());
    driver(Family::Python, version.as_str(), Place::new(file, version.range()), note)
}

/// `requirements.txt`.
pub fn requirements(file: &Arc<SourceFile>) -> Versions {
    python(file)
}

/// `pyproject.toml`.
pub fn pyproject(file: &Arc<SourceFile>, flaws: &mut Vec<Flaw>) -> Versions {
    if let Err(error) = file.text.parse::<toml::Table>() {
        let range = error.span().unwrap_or(0..1);
        flaws.push(Flaw { message: format!("this is no TOML: {}", error.message()), place: Place::new(file, range) });
    }
    static POETRY: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"(?m)^[ \t]*pymongo[ \t]*=[ \t]*(?:\{[^}\n]*version[ \t]*=[ \t]*)?"([^"\n]*)""#).ok()
    });
    if let Some(version) = POETRY.as_ref().and_then(|regex| regex.captures(&file.text)).and_then(|c| c.get(1)) {
        let text = version.as_str().trim_start_matches(|c: char| !c.is_ascii_digit());
        let note = (text.len() != version.len()).then(|| "the lowest version that the requirement allows".to_owned());
        return driver(Family::Python, text, Place::new(file, version.range()), note);
    }
    python(file)
}

/// `go.mod`.
pub fn go_mod(file: &Arc<SourceFile>) -> Versions {
    static GO: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?m)go\.mongodb\.org/mongo-driver(?:/v2)?[ \t]+v([0-9][^\s]*)").ok());
    match GO.as_ref().and_then(|regex| regex.captures(&file.text)).and_then(|c| c.get(1)) {
        Some(version) => driver(Family::Go, version.as_str(), Place::new(file, version.range()), None),
        None => Versions::default(),
    }
}
