//! `pom.xml`: parent, properties, dependency management, imported BOMs, dependencies, modules.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use roxmltree::{Document, Node, ParsingOptions};

use super::{Family, Known, Version, Versions};
use crate::discover::{Kind, Tree, resolved};
use crate::format::tree::Flaw;
use crate::setting::Source;
use crate::source::{Place, SourceFile};

/// How many parents are followed.
const PARENTS_MAX: usize = 10;

/// Reads a pom, and the parents of it that are among the files.
pub fn read(file: &Arc<SourceFile>, tree: &Tree, path: &Path, flaws: &mut Vec<Flaw>) -> Versions {
    let mut chain = vec![(Arc::clone(file), path.to_path_buf())];
    while let Some((file, path)) = chain.last().cloned() {
        let parent = parse(&file, flaws, chain.len() == 1).and_then(|pom| {
            let relative = pom.parent.as_ref()?.relative_path.clone();
            let folder = path.parent()?;
            let target = resolved(&folder.join(relative));
            let target = if target.extension().is_some() { target } else { target.join("pom.xml") };
            tree.files.iter().find(|found| found.kind == Kind::Pom && resolved(&found.path) == target)
        });
        match parent {
            Some(parent) if chain.len() < PARENTS_MAX && chain.iter().all(|(_, path)| *path != parent.path) => {
                chain.push((Arc::clone(&parent.file), parent.path.clone()));
            }
            _ => break,
        }
    }
    let poms: Vec<Pom> = chain.iter().filter_map(|(file, _)| parse(file, &mut Vec::new(), false)).collect();
    versions(&poms)
}

/// A text and where it stands.
#[derive(Debug, Clone)]
struct Text {
    text: String,
    place: Place,
}

#[derive(Debug, Clone)]
struct Parent {
    group: String,
    artifact: String,
    version: Option<Text>,
    relative_path: String,
}

#[derive(Debug, Clone)]
struct Dependency {
    group: String,
    artifact: String,
    version: Option<Text>,
    is_managed: bool,
    is_import: bool,
    is_test: bool,
}

#[derive(Debug, Clone)]
struct Pom {
    parent: Option<Parent>,
    properties: BTreeMap<String, Text>,
    dependencies: Vec<Dependency>,
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.is_element() && child.tag_name().name() == name)
}

fn text_of(file: &Arc<SourceFile>, node: Node<'_, '_>) -> Option<Text> {
    let text = node.children().find(|child| child.is_text())?;
    let trimmed = text.text()?.trim();
    let range = text.range();
    let raw = file.text.get(range.clone())?;
    let start = range.start + (raw.len() - raw.trim_start().len());
    Some(Text { text: trimmed.to_owned(), place: Place::new(file, start..start + raw.trim().len()) })
}

fn parse(file: &Arc<SourceFile>, flaws: &mut Vec<Flaw>, say: bool) -> Option<Pom> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: 500_000, ..ParsingOptions::default() };
    let document = match Document::parse_with_options(&file.text, options) {
        Ok(document) => document,
        Err(error) => {
            if say {
                let line = usize::try_from(error.pos().row).unwrap_or(1);
                flaws.push(Flaw { message: format!("this is no XML: {error}"), place: Place::of_line(file, line) });
            }
            return None;
        }
    };
    let project = document.root_element();
    let string = |node: Option<Node<'_, '_>>| node.and_then(|node| text_of(file, node)).map(|text| text.text);
    let parent = child(project, "parent").map(|parent| Parent {
        group: string(child(parent, "groupId")).unwrap_or_default(),
        artifact: string(child(parent, "artifactId")).unwrap_or_default(),
        version: child(parent, "version").and_then(|node| text_of(file, node)),
        relative_path: match child(parent, "relativePath") {
            Some(node) => text_of(file, node).map(|text| text.text).unwrap_or_else(|| "/".to_owned()),
            None => "../pom.xml".to_owned(),
        },
    });
    let mut properties = BTreeMap::new();
    if let Some(node) = child(project, "properties") {
        for property in node.children().filter(Node::is_element) {
            if let Some(text) = text_of(file, property) {
                properties.insert(property.tag_name().name().to_owned(), text);
            }
        }
    }
    let mut dependencies = Vec::new();
    let managed = child(project, "dependencyManagement").and_then(|node| child(node, "dependencies"));
    for (list, is_managed) in [(managed, true), (child(project, "dependencies"), false)] {
        let Some(list) = list else { continue };
        for node in list.children().filter(|node| node.is_element() && node.tag_name().name() == "dependency") {
            let scope = string(child(node, "scope"));
            dependencies.push(Dependency {
                group: string(child(node, "groupId")).unwrap_or_default(),
                artifact: string(child(node, "artifactId")).unwrap_or_default(),
                version: child(node, "version").and_then(|node| text_of(file, node)),
                is_managed,
                is_import: scope.as_deref() == Some("import"),
                is_test: scope.as_deref() == Some("test"),
            });
        }
    }
    Some(Pom { parent, properties, dependencies })
}

/// The name that other modules depend on it by.
pub fn artifact(file: &Arc<SourceFile>) -> Option<String> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: 500_000, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&file.text, options).ok()?;
    let node = child(document.root_element(), "artifactId")?;
    text_of(file, node).map(|text| text.text)
}

/// A version as text, with `${…}` from the properties of the pom and its parents, the nearest first.
fn resolve(poms: &[Pom], text: &Text) -> Option<Known> {
    let mut value = text.clone();
    for _ in 0..10 {
        let Some(name) = value.text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else { break };
        let name = name.to_owned();
        value = poms.iter().find_map(|pom| pom.properties.get(&name))?.clone();
    }
    let version = Version::parse(&value.text)?;
    Some(Known { version, source: Source::File(value.place), note: None })
}

fn versions(poms: &[Pom]) -> Versions {
    let mut result = Versions::default();
    let boot_parent = poms
        .iter()
        .filter_map(|pom| pom.parent.as_ref())
        .find(|parent| parent.group == "org.springframework.boot" && parent.artifact.starts_with("spring-boot-"));
    result.boot = boot_parent.and_then(|parent| resolve(poms, parent.version.as_ref()?));
    let all = || poms.iter().flat_map(|pom| &pom.dependencies);
    if result.boot.is_none() {
        let bom = all().find(|dependency| {
            dependency.group == "org.springframework.boot"
                && (dependency.artifact == "spring-boot-dependencies"
                    || dependency.artifact.starts_with("spring-boot-starter"))
                && dependency.version.is_some()
        });
        result.boot = bom.and_then(|bom| resolve(poms, bom.version.as_ref()?));
    }
    let explicit = |matches: &dyn Fn(&Dependency) -> bool| {
        let with_version = |is_managed: bool| {
            let found = all().find(|d| d.is_managed == is_managed && d.version.is_some() && matches(d));
            found.and_then(|found| resolve(poms, found.version.as_ref()?))
        };
        with_version(false).or_else(|| with_version(true))
    };
    let is = |group: &'static str, artifacts: &'static [&'static str]| {
        move |d: &Dependency| d.group == group && artifacts.contains(&d.artifact.as_str())
    };
    // Properties replace versions of Boot only with its parent, not with an imported BOM.
    let property = |name: &str| {
        boot_parent?;
        let text = poms.iter().find_map(|pom| pom.properties.get(name))?;
        resolve(poms, text)
    };
    let driver = is("org.mongodb", DRIVERS);
    result.driver = explicit(&driver).or_else(|| property("mongodb.version"));
    result.spring_kafka =
        explicit(&is("org.springframework.kafka", &["spring-kafka"])).or_else(|| property("spring-kafka.version"));
    result.kafka_clients = explicit(&is("org.apache.kafka", &["kafka-clients"])).or_else(|| property("kafka.version"));
    result.spring_framework = explicit(&is("org.springframework", &["spring-core", "spring-framework-bom"]))
        .or_else(|| property("spring-framework.version"));
    result.spring_data = explicit(&is("org.springframework.data", &["spring-data-mongodb"]));
    let own = || poms.first().into_iter().flat_map(|pom| &pom.dependencies).filter(|d| !d.is_managed && !d.is_test);
    result.uses_spring_kafka = own().any(|d| d.artifact == "spring-kafka" || d.artifact == "spring-boot-starter-kafka");
    result.uses_binder = own().any(|d| d.artifact.starts_with("spring-cloud-st") && d.artifact.ends_with("kafka"));
    result.uses_mongodb = own().any(|d| d.artifact.contains("mongodb"));
    if result.uses_mongodb {
        result.family = Some(Family::Java);
    }
    result.modules = own().filter(|d| !d.is_import).map(|d| d.artifact.clone()).collect();
    result
}

/// Artifacts whose version is the driver's.
pub const DRIVERS: &[&str] = &[
    "mongodb-driver-sync",
    "mongodb-driver-core",
    "mongodb-driver-reactivestreams",
    "mongodb-driver-bom",
    "mongodb-driver-kotlin-sync",
    "mongodb-driver-kotlin-coroutine",
    "mongo-java-driver",
    "bson",
];
