//! Gradle files of both languages, version catalogs and `gradle.properties`, as text.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::maven::DRIVERS;
use super::{Family, Known, Version, Versions};
use crate::discover::{Kind, Tree};
use crate::format::properties;
use crate::setting::Source;
use crate::source::{Place, SourceFile};

/// A regular expression that is known to be one.
fn regex(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

static PLUGIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    regex(r#"id\s*\(?\s*["']org\.springframework\.boot["']\s*\)?\s*version\s*\(?\s*["']?([^"'\s)]+)"#)
});
static COORDINATES: LazyLock<Option<Regex>> =
    LazyLock::new(|| regex(r#"["']([\w.\-]+):([\w.\-]+):([^"':@]+)(?:[:@][^"']*)?["']"#));
static EXTRA: LazyLock<Option<Regex>> = LazyLock::new(|| {
    regex(r#"(?:ext|extra)(?:\[|\.set\(|\s*\{\s*set\()\s*["']([\w.\-]+)["']\s*(?:\]\s*=|,)\s*["']([^"']+)["']"#)
});
static VARIABLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    regex(
        r#"(?m)(?:^|[\s;{])(?:def\s+|val\s+|var\s+|const\s+val\s+|String\s+|ext\.)?([A-Za-z_]\w*)\s*(?:by\s+extra\s*\(\s*|=\s*)["']([^"'\n]+)["']"#,
    )
});
static PROJECT: LazyLock<Option<Regex>> =
    LazyLock::new(|| regex(r#"project\s*\(\s*(?:path\s*[:=]\s*)?["']:?([\w:\-.]+)["']"#));
static ACCESSOR: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"\blibs\.((?:plugins\.|bundles\.)?[A-Za-z0-9_.]+)"));

/// Reads one Gradle file, with the catalogs and properties of the folders above it.
pub fn read(file: &Arc<SourceFile>, tree: &Tree, path: &Path) -> Versions {
    let text = without_comments(&file.text);
    let folders: Vec<&Path> = path.ancestors().skip(1).collect();
    let near = |kind: Kind| {
        let in_folders = |found: &&crate::discover::Found| {
            let folder = found.path.parent().map(|p| if p.ends_with("gradle") { p.parent().unwrap_or(p) } else { p });
            folder.is_some_and(|folder| folders.contains(&folder))
        };
        tree.of(kind).filter(in_folders).collect::<Vec<_>>()
    };
    let mut names: Vec<(String, String, Place)> = Vec::new();
    let siblings =
        tree.of(Kind::Gradle).filter(|found| path.ancestors().skip(1).any(|f| found.path.parent() == Some(f)));
    for sibling in siblings {
        let text = without_comments(&sibling.file.text);
        for captured in VARIABLE.iter().chain(EXTRA.iter()).flat_map(|regex| regex.captures_iter(&text)) {
            if let (Some(name), Some(value)) = (captured.get(1), captured.get(2)) {
                let place = Place::new(&sibling.file, value.range());
                names.push((name.as_str().to_owned(), value.as_str().to_owned(), place));
            }
        }
    }
    for found in near(Kind::GradleProperties) {
        let (documents, _) = properties::read(&found.file);
        names.extend(documents.into_iter().flatten().map(|p| (p.key, p.value, p.value_place)));
    }
    let lookup = |name: &str| names.iter().find(|(known, _, _)| known == name);
    let known = |value: &str, place: Place| -> Option<Known> {
        let name = value.trim().trim_start_matches("${").trim_start_matches('$').trim_end_matches('}');
        let name = name.trim_start_matches("rootProject.").trim_start_matches("project.").trim_start_matches("ext.");
        if let Some(version) = Version::parse(value) {
            return Some(Known { version, source: Source::File(place), note: None });
        }
        let (_, value, place) = lookup(name)?;
        let version = Version::parse(value)?;
        Some(Known { version, source: Source::File(place.clone()), note: None })
    };
    let mut result = Versions::default();
    if let Some(version) = PLUGIN.as_ref().and_then(|regex| regex.captures(&text)).and_then(|c| c.get(1)) {
        result.boot = known(version.as_str(), Place::new(file, version.range()));
    }
    let mut take = |group: &str, artifact: &str, version: Option<Known>| match (group, artifact) {
        ("org.springframework.boot", "spring-boot-dependencies" | "spring-boot-gradle-plugin") => {
            result.boot = result.boot.take().or(version);
        }
        ("org.mongodb", artifact) if DRIVERS.contains(&artifact) => {
            result.driver = result.driver.take().or(version);
            result.uses_mongodb = true;
        }
        ("org.springframework.kafka", "spring-kafka") => {
            result.spring_kafka = result.spring_kafka.take().or(version);
            result.uses_spring_kafka = true;
        }
        ("org.springframework.boot", "spring-boot-starter-kafka") => result.uses_spring_kafka = true,
        ("org.apache.kafka", "kafka-clients") => result.kafka_clients = result.kafka_clients.take().or(version),
        ("org.springframework", "spring-core" | "spring-framework-bom") => {
            result.spring_framework = result.spring_framework.take().or(version);
        }
        ("org.springframework.data", "spring-data-mongodb") => {
            result.spring_data = result.spring_data.take().or(version);
            result.uses_mongodb = true;
        }
        ("org.springframework.cloud", artifact) if artifact.ends_with("kafka") => result.uses_binder = true,
        (_, artifact) if artifact.contains("mongodb") => result.uses_mongodb = true,
        _ => {}
    };
    for captured in COORDINATES.iter().flat_map(|regex| regex.captures_iter(&text)) {
        if let (Some(group), Some(artifact), Some(version)) = (captured.get(1), captured.get(2), captured.get(3)) {
            take(group.as_str(), artifact.as_str(), known(version.as_str(), Place::new(file, version.range())));
        }
    }
    for (group, artifact) in without_version(&text) {
        take(&group, &artifact, None);
    }
    let used: Vec<String> = ACCESSOR
        .iter()
        .flat_map(|regex| regex.captures_iter(&text))
        .filter_map(|captured| captured.get(1))
        .map(|accessor| accessor.as_str().trim_end_matches(".get").to_owned())
        .collect();
    for found in near(Kind::VersionCatalog) {
        for entry in catalog(&found.file) {
            if used.contains(&entry.accessor) {
                take(&entry.group, &entry.artifact, entry.version);
            }
        }
    }
    for (name, slot) in [
        ("mongodb.version", &mut result.driver),
        ("spring-kafka.version", &mut result.spring_kafka),
        ("kafka.version", &mut result.kafka_clients),
        ("spring-framework.version", &mut result.spring_framework),
    ] {
        if slot.is_none()
            && let Some((_, value, place)) = lookup(name)
        {
            *slot =
                Version::parse(value).map(|version| Known { version, source: Source::File(place.clone()), note: None });
        }
    }
    if result.uses_mongodb {
        result.family = Some(Family::Java);
    }
    let projects = PROJECT.iter().flat_map(|regex| regex.captures_iter(&text)).filter_map(|captured| captured.get(1));
    result.modules = projects.filter_map(|name| name.as_str().rsplit(':').next().map(str::to_owned)).collect();
    result
}

/// `"group:artifact"` without a version.
fn without_version(text: &str) -> Vec<(String, String)> {
    static PLAIN: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r#"["']([\w.\-]+):([\w.\-]+)["']"#));
    let found = PLAIN.iter().flat_map(|regex| regex.captures_iter(text));
    found.filter_map(|c| Some((c.get(1)?.as_str().to_owned(), c.get(2)?.as_str().to_owned()))).collect()
}

/// The text with comments blanked, so that every place stays.
fn without_comments(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    let mut quote: Option<char> = None;
    while let Some(character) = rest.chars().next() {
        let length = match quote {
            None if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            None if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => 0,
        };
        if length > 0 {
            result.extend(rest[..length].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            rest = &rest[length..];
            continue;
        }
        quote = match (quote, character) {
            (None, '"' | '\'') => Some(character),
            (Some(open), character) if open == character || character == '\n' => None,
            (quote, _) => quote,
        };
        result.push(character);
        rest = &rest[character.len_utf8()..];
    }
    result
}

struct CatalogEntry {
    accessor: String,
    group: String,
    artifact: String,
    version: Option<Known>,
}

/// The libraries and plugins of a version catalog.
fn catalog(file: &Arc<SourceFile>) -> Vec<CatalogEntry> {
    let Ok(table) = file.text.parse::<toml::Table>() else { return Vec::new() };
    let section = |name: &str| table.get(name).and_then(toml::Value::as_table);
    let accessor = |name: &str| name.replace(['-', '_'], ".");
    let mut found = Vec::new();
    let version = |value: Option<&toml::Value>| -> Option<Known> {
        let text = match value? {
            toml::Value::String(text) => text.clone(),
            toml::Value::Table(table) => match table.get("ref").and_then(toml::Value::as_str) {
                Some(name) => match section("versions")?.get(name)? {
                    toml::Value::String(text) => text.clone(),
                    toml::Value::Table(rich) => {
                        ["strictly", "require", "prefer"].iter().find_map(|key| rich.get(*key)?.as_str())?.to_owned()
                    }
                    _ => return None,
                },
                None => ["strictly", "require", "prefer"].iter().find_map(|key| table.get(*key)?.as_str())?.to_owned(),
            },
            _ => return None,
        };
        let start = file.text.find(&format!("\"{text}\"")).map_or(0, |at| at + 1);
        let place = Place::new(file, start..start + text.len());
        Some(Known { version: Version::parse(&text)?, source: Source::File(place), note: None })
    };
    for (name, value) in section("libraries").into_iter().flatten() {
        let (module, version) = match value {
            toml::Value::String(text) => match text.rsplit_once(':') {
                Some((module, number)) => (module.to_owned(), version(Some(&toml::Value::String(number.to_owned())))),
                None => continue,
            },
            toml::Value::Table(table) => {
                let text = |key: &str| table.get(key).and_then(toml::Value::as_str).unwrap_or_default();
                let module = match text("module") {
                    "" => format!("{}:{}", text("group"), text("name")),
                    module => module.to_owned(),
                };
                (module, version(table.get("version")))
            }
            _ => continue,
        };
        if let Some((group, artifact)) = module.split_once(':') {
            let (group, artifact) = (group.to_owned(), artifact.to_owned());
            found.push(CatalogEntry { accessor: accessor(name), group, artifact, version });
        }
    }
    for (name, value) in section("plugins").into_iter().flatten() {
        let (id, version) = match value {
            toml::Value::String(text) => match text.rsplit_once(':') {
                Some((id, number)) => (id.to_owned(), version(Some(&toml::Value::String(number.to_owned())))),
                None => continue,
            },
            toml::Value::Table(table) => {
                let id = table.get("id").and_then(toml::Value::as_str).unwrap_or_default();
                (id.to_owned(), version(table.get("version")))
            }
            _ => continue,
        };
        if id == "org.springframework.boot" {
            let (group, artifact) = (id, "spring-boot-gradle-plugin".to_owned());
            found.push(CatalogEntry { accessor: format!("plugins.{}", accessor(name)), group, artifact, version });
        }
    }
    found
}
