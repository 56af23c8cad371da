//! From files to the properties that apply: locations, documents, profiles, imports, in Spring Boot's order.
//!
//! Order, weakest first: `bootstrap`, then `application`; the class path before the folder the service runs in, a folder
//! before its `config/`; YAML before `.properties` of the same place; files for all before files for a profile; earlier
//! documents before later ones; a file before what it imports; the environment; `--set`.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::key::Key;
use super::{Origin, Properties, Property, profile};
use crate::discover::{Found, Kind, Tree, resolved};
use crate::format::tree::{Flaw, Node, Value};
use crate::format::{properties, yaml};
use crate::source::{Place, SourceFile};

/// The most files that imports may add.
const IMPORTS_MAX: usize = 200;

/// What is given beside the files.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// `--set`.
    pub set: Vec<(String, String)>,
    /// The environment, where it is to be used.
    pub environment: BTreeMap<String, String>,
    /// `--profile`.
    pub profiles: Vec<String>,
}

/// A document: its properties, and whom it is for.
#[derive(Debug, Clone)]
struct Document {
    properties: Vec<Property>,
    rank: Rank,
}

/// Weakest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_application: bool,
    /// For no profile, or for which of the active ones.
    profile: usize,
    location: u8,
    is_properties: bool,
    order: usize,
}

/// Reads what a module's Spring configuration says. `None`: it has none.
pub fn load(tree: &Tree, module: &Path, given: &Given, flaws: &mut Vec<Flaw>) -> Option<Properties> {
    let files = config_files(tree, module);
    if files.is_empty() {
        return None;
    }
    let parsed: Vec<(&Found, Vec<Vec<Property>>)> =
        files.iter().map(|found| (*found, documents(&found.file, found.kind, flaws))).collect();
    let (active, seen) = active_profiles(&parsed, given);
    let mut loader = Loader { tree, module, active: &active, documents: Vec::new(), imported: HashSet::new(), flaws };
    for (found, documents) in &parsed {
        let Some(rank) = loader.rank(found) else { continue };
        for document in documents {
            loader.document(document, &rank, &found.path);
        }
    }
    let mut documents = loader.documents;
    documents.sort_by(|one, other| one.rank.cmp(&other.rank));
    let mut result = Properties { profiles: active, profiles_seen: seen, ..Properties::default() };
    for document in documents {
        for property in document.properties {
            result.put(property);
        }
    }
    add_given(&mut result, given);
    Some(result)
}

/// Puts the environment and `--set` over what the files say.
pub fn add_given(properties: &mut Properties, given: &Given) {
    for (name, value) in &given.environment {
        let origin = Origin::Environment(name.clone());
        properties.put_name(name, value, origin.clone());
        let is_property = name.to_ascii_uppercase().starts_with("SPRING_");
        if is_property {
            properties.put(Property { key: Key::from_environment(name), value: value.clone(), origin });
        }
    }
    for (name, value) in &given.set {
        properties.put_name(name, value, Origin::Argument);
        properties.put(Property { key: Key::parse(name), value: value.clone(), origin: Origin::Argument });
    }
}

/// The module's configuration files. Where one lies in `src/main/resources`, others count only beside the build file and in
/// its `config/`, where a service finds them at run time.
fn config_files<'a>(tree: &'a Tree, module: &Path) -> Vec<&'a Found> {
    let of_module: Vec<&Found> = tree
        .files
        .iter()
        .filter(|found| matches!(found.kind, Kind::SpringYaml | Kind::SpringProperties))
        .filter(|found| tree.module_of(&found.path) == module)
        .collect();
    let in_resources = |found: &&&Found| is_resource(&found.path);
    if !of_module.iter().any(|found| in_resources(&found)) {
        return of_module;
    }
    let beside = |found: &Found| {
        let folder = found.path.parent();
        folder == Some(module) || folder == Some(&module.join("config"))
    };
    of_module.into_iter().filter(|found| is_resource(&found.path) || beside(found)).collect()
}

fn is_resource(path: &Path) -> bool {
    path.ancestors().any(|folder| folder.file_name().is_some_and(|name| name == "resources"))
}

/// The documents of a file as properties.
fn documents(file: &Arc<SourceFile>, kind: Kind, flaws: &mut Vec<Flaw>) -> Vec<Vec<Property>> {
    if matches!(kind, Kind::SpringProperties | Kind::Properties) {
        let (documents, bad) = properties::read(file);
        flaws.extend(bad);
        return documents
            .into_iter()
            .map(|document| {
                let property = |p: properties::Property| Property {
                    key: Key::parse(&p.key),
                    value: p.value,
                    origin: Origin::File { key: p.key_place, value: p.value_place },
                };
                document.into_iter().map(property).collect()
            })
            .collect();
    }
    let (documents, bad) = yaml::read(file);
    flaws.extend(bad);
    documents.iter().map(flatten).collect()
}

/// A YAML document as properties.
pub fn flatten(document: &Node) -> Vec<Property> {
    let mut found = Vec::new();
    let mut left = vec![(Key::parse(""), document, document.place.clone())];
    while let Some((key, node, key_place)) = left.pop() {
        let mut put = |value: &str| {
            let origin = Origin::File { key: key_place.clone(), value: node.place.clone() };
            found.push(Property { key: key.clone(), value: value.to_owned(), origin });
        };
        match &node.value {
            Value::Scalar(text) => put(text),
            Value::Null => put(""),
            Value::List(items) => {
                for (index, item) in items.iter().enumerate().rev() {
                    left.push((key.index(index), item, item.place.clone()));
                }
            }
            Value::Map(entries) => {
                for entry in entries.iter().rev() {
                    left.push((key.join(&Key::parse(&entry.key)), &entry.node, entry.key_place.clone()));
                }
            }
        }
    }
    found.retain(|property| !property.key.elements().is_empty());
    found
}

/// The values of a property that is a list or a text with commas.
fn list(document: &[Property], name: &str) -> Vec<(String, Origin)> {
    let canonical = Key::parse(name).canonical();
    let mut found = Vec::new();
    for property in document {
        let key = property.key.canonical();
        let is_item = key.strip_prefix(&canonical).is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('.').is_some_and(|index| index.parse::<usize>().is_ok())
        });
        if is_item {
            let parts = property.value.split(',').map(str::trim).filter(|part| !part.is_empty());
            found.extend(parts.map(|part| (part.to_owned(), property.origin.clone())));
        }
    }
    found
}

/// The profile in a file's name: `application-prod.yml`.
fn profile_of_name(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_str()?;
    stem.split_once('-').map(|(_, profile)| profile.to_owned())
}

/// Whom a document is for.
fn on_profile(document: &[Property]) -> Option<String> {
    let names = ["spring.config.activate.on-profile", "spring.profiles"];
    names.iter().find_map(|name| {
        let values: Vec<String> = list(document, name).into_iter().map(|(value, _)| value).collect();
        (!values.is_empty()).then(|| values.join(","))
    })
}

/// The active profiles, the strongest last, and those that files or documents are for.
fn active_profiles(parsed: &[(&Found, Vec<Vec<Property>>)], given: &Given) -> (Vec<String>, Vec<String>) {
    let all = |name: &str| -> Vec<String> {
        let base = parsed.iter().filter(|(found, _)| profile_of_name(&found.path).is_none());
        let documents = base.flat_map(|(_, documents)| documents).filter(|document| on_profile(document).is_none());
        documents.flat_map(|document| list(document, name)).map(|(value, _)| value).collect()
    };
    let from_given = |key: &str, variable: &str| -> Vec<String> {
        let set = given.set.iter().rev().find(|(name, _)| Key::parse(name).canonical() == Key::parse(key).canonical());
        let value = set.map(|(_, value)| value).or_else(|| given.environment.get(variable));
        value.map(|value| value.split(',').map(|part| part.trim().to_owned()).collect()).unwrap_or_default()
    };
    let mut wanted = given.profiles.clone();
    if wanted.is_empty() {
        wanted = from_given("spring.profiles.active", "SPRING_PROFILES_ACTIVE");
    }
    if wanted.is_empty() {
        wanted = all("spring.profiles.active");
    }
    wanted.extend(all("spring.profiles.include"));
    let mut active: Vec<String> = Vec::new();
    let mut left: Vec<String> =
        wanted.into_iter().rev().filter(|name| !name.is_empty() && !name.contains("${")).collect();
    while let Some(name) = left.pop() {
        if !active.contains(&name) && active.len() < 100 {
            left.extend(all(&format!("spring.profiles.group.{name}")).into_iter().rev());
            active.push(name);
        }
    }
    if active.is_empty() {
        active.push("default".to_owned());
    }
    let mut seen: Vec<String> = parsed
        .iter()
        .flat_map(|(found, documents)| {
            let in_documents = documents.iter().filter_map(|document| on_profile(document));
            profile_of_name(&found.path).into_iter().chain(in_documents)
        })
        .collect();
    seen.sort();
    seen.dedup();
    (active, seen)
}

struct Loader<'a> {
    tree: &'a Tree,
    module: &'a Path,
    active: &'a [String],
    documents: Vec<Document>,
    imported: HashSet<PathBuf>,
    flaws: &'a mut Vec<Flaw>,
}

impl Loader<'_> {
    /// Where a file's documents stand; `None`: it is for a profile that is not active.
    fn rank(&self, found: &Found) -> Option<Rank> {
        let name = found.file.path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let profile = match profile_of_name(&found.path) {
            Some(profile) => self.active.iter().position(|active| *active == profile)? + 1,
            None => 0,
        };
        let is_config = found.path.parent().and_then(Path::file_name).is_some_and(|folder| folder == "config");
        Some(Rank {
            is_application: name.starts_with("application"),
            profile,
            location: u8::from(!is_resource(&found.path)) * 2 + u8::from(is_config),
            is_properties: found.kind == Kind::SpringProperties,
            order: 0,
        })
    }

    fn document(&mut self, document: &[Property], rank: &Rank, path: &Path) {
        if let Some(expression) = on_profile(document) {
            match profile::matches(&expression, self.active) {
                Some(true) => {}
                Some(false) => return,
                None => {
                    if let Some(place) = document.iter().find_map(origin_place) {
                        let message = "the profile expression cannot be read; the document is left out".to_owned();
                        self.flaws.push(Flaw { message, place });
                    }
                    return;
                }
            }
        }
        // Where the service runs is not known here.
        if document.iter().any(|p| p.key.canonical() == "spring.config.activate.oncloudplatform") {
            return;
        }
        let imports = list(document, "spring.config.import");
        self.documents.push(Document {
            properties: document.to_vec(),
            rank: Rank { order: self.documents.len(), ..rank.clone() },
        });
        for (import, origin) in imports {
            self.import(&import, &origin, rank, path);
        }
    }

    fn import(&mut self, import: &str, origin: &Origin, rank: &Rank, from: &Path) {
        let Origin::File { value, .. } = origin else { return };
        let (import, is_optional) = match import.strip_prefix("optional:") {
            Some(rest) => (rest, true),
            None => (import, false),
        };
        let import = import.trim();
        let (kind, location) = match import.split_once(':') {
            Some((kind @ ("file" | "classpath"), location)) => (kind, location),
            Some(_) => return,
            None => ("", import),
        };
        if location.contains("${") {
            return;
        }
        // A hint in brackets names the type of a file without an ending.
        let location = location.split('[').next().unwrap_or_default().trim_start_matches('/');
        let folder = from.parent().unwrap_or(from);
        let resources = from.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "resources"));
        let mut bases = vec![folder];
        match kind {
            "file" => bases.insert(0, self.module),
            "classpath" => bases.splice(0..0, resources).for_each(drop),
            _ => {}
        }
        let candidates: Vec<PathBuf> = bases.iter().map(|base| resolved(&base.join(location))).collect();
        let found =
            candidates.iter().find_map(|path| self.tree.files.iter().find(|found| resolved(&found.path) == *path));
        let Some(found) = found else {
            if !is_optional {
                let message = format!("the file '{location}' that is imported here is not in the paths given");
                self.flaws.push(Flaw { message, place: value.clone() });
            }
            return;
        };
        if !self.imported.insert(found.path.clone()) {
            return;
        }
        if self.imported.len() > IMPORTS_MAX {
            self.flaws.push(Flaw { message: format!("more than {IMPORTS_MAX} imports"), place: value.clone() });
            return;
        }
        let is_readable =
            matches!(found.kind, Kind::Yaml | Kind::SpringYaml | Kind::Properties | Kind::SpringProperties);
        if is_readable {
            for document in documents(&found.file, found.kind, self.flaws) {
                self.document(&document, rank, &found.path);
            }
        }
    }
}

fn origin_place(property: &Property) -> Option<Place> {
    match &property.origin {
        Origin::File { key, .. } => Some(key.clone()),
        Origin::Argument | Origin::Environment(_) => None,
    }
}
