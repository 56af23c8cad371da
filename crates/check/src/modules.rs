//! Which folders are services, and which other modules the sources of each go on into.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::build::{self, maven};
use crate::discover::{Found, Kind, Tree};
use crate::source::SourceFile;

/// Where a listener is named.
const LISTENER: &str = "@KafkaListener";

/// The services of a tree and the modules that their sources are in.
#[derive(Debug, Default)]
pub struct Modules {
    /// The folders of services, in order.
    pub services: Vec<PathBuf>,
    sources: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
}

impl Modules {
    /// Finds them.
    pub fn of(tree: &Tree) -> Self {
        let mut services = configured(tree);
        let sources = Graph::of(tree);
        // Listeners in a module that no service depends on: it is one itself, configured from elsewhere.
        let mut reached: BTreeSet<PathBuf> = BTreeSet::new();
        for service in &services {
            reached.extend(sources.reach(service, &services));
        }
        let listening: BTreeSet<&PathBuf> = sources.listening.difference(&reached).collect();
        let depended: BTreeSet<PathBuf> = listening
            .iter()
            .flat_map(|module| sources.reach(module, &services).into_iter().filter(move |other| other != *module))
            .collect();
        services.extend(listening.into_iter().filter(|module| !depended.contains(*module)).cloned());
        if services.is_empty() {
            let mut flaws = Vec::new();
            services = build::modules(tree)
                .into_iter()
                .filter(|module| {
                    let versions = build::versions_of(tree, module, &mut flaws);
                    versions.uses_spring_kafka || versions.uses_mongodb || versions.uses_binder
                })
                .collect();
        }
        services.sort();
        services.dedup();
        let reach = services.iter().map(|service| (service.clone(), sources.reach(service, &services))).collect();
        Self { services, sources: reach }
    }

    /// The modules of a service: its own and those that it depends on.
    pub fn of_service(&self, service: &Path) -> BTreeSet<PathBuf> {
        self.sources.get(service).cloned().unwrap_or_else(|| BTreeSet::from([service.to_path_buf()]))
    }
}

/// The folders of services: those with Spring configuration, with a `backfire.toml`, or with a driver for another language.
fn configured(tree: &Tree) -> Vec<PathBuf> {
    let mut modules: Vec<PathBuf> = Vec::new();
    for found in &tree.files {
        let is_service = match found.kind {
            Kind::SpringYaml | Kind::SpringProperties => true,
            Kind::PackageJson => found.file.text.contains("\"mongodb\""),
            Kind::Requirements | Kind::PyProject => found.file.text.to_ascii_lowercase().contains("pymongo"),
            Kind::GoMod => found.file.text.contains("go.mongodb.org/mongo-driver"),
            Kind::Properties => is_consumer(&found.file),
            _ => false,
        };
        if is_service {
            modules.push(tree.module_of(&found.path));
        }
    }
    for found in tree.of(Kind::Stated) {
        let folder = found.path.parent().unwrap_or(Path::new("")).to_path_buf();
        if !modules.iter().any(|module| module.starts_with(&folder)) {
            modules.push(tree.module_of(&found.path));
        }
    }
    modules.sort();
    modules.dedup();
    modules
}

/// Plain properties of a Kafka consumer.
pub fn is_consumer(file: &SourceFile) -> bool {
    !file.text.contains("connector.class") && file.text.contains("bootstrap.servers") && file.text.contains("max.poll")
}

/// What the sources of modules depend on: what build files declare, and packages that are imported.
struct Graph {
    depends: HashMap<PathBuf, BTreeSet<PathBuf>>,
    /// Modules that name listeners.
    listening: BTreeSet<PathBuf>,
}

impl Graph {
    fn of(tree: &Tree) -> Self {
        let mut packages: HashMap<&str, BTreeSet<PathBuf>> = HashMap::new();
        let mut imports: BTreeMap<PathBuf, BTreeSet<&str>> = BTreeMap::new();
        let mut listening = BTreeSet::new();
        for found in tree.files.iter().filter(|found| matches!(found.kind, Kind::Java | Kind::Kotlin)) {
            let module = tree.module_of(&found.path);
            let (package, named) = header(&found.file.text);
            packages.entry(package).or_default().insert(module.clone());
            imports.entry(module.clone()).or_default().extend(named);
            if found.file.text.contains(LISTENER) {
                listening.insert(module);
            }
        }
        let mut depends: HashMap<PathBuf, BTreeSet<PathBuf>> = HashMap::new();
        if imports.len() > 1 {
            let names = names(tree);
            for (module, imports) in &imports {
                let of = depends.entry(module.clone()).or_default();
                of.extend(imports.iter().filter_map(|package| packages.get(package)).flatten().cloned());
                let declared = build::versions_of(tree, module, &mut Vec::new()).modules;
                of.extend(declared.iter().filter_map(|name| names.get(name)).cloned());
            }
        }
        Self { depends, listening }
    }

    /// A module and those it depends on, but for other services.
    fn reach(&self, module: &Path, services: &[PathBuf]) -> BTreeSet<PathBuf> {
        let mut reached = BTreeSet::from([module.to_path_buf()]);
        let mut open = vec![module.to_path_buf()];
        while let Some(next) = open.pop() {
            for other in self.depends.get(&next).into_iter().flatten() {
                if !services.contains(other) && reached.insert(other.clone()) {
                    open.push(other.clone());
                }
            }
        }
        reached
    }
}

/// Modules by the names that builds have for them: a folder's name and an artifact's.
fn names(tree: &Tree) -> HashMap<String, PathBuf> {
    let mut names = HashMap::new();
    let folder = |found: &Found| found.path.parent().map(Path::to_path_buf).unwrap_or_default();
    for found in tree.files.iter().filter(|found| found.kind.is_build()) {
        let folder = folder(found);
        if let Some(name) = folder.file_name().and_then(|name| name.to_str()) {
            names.entry(name.to_owned()).or_insert_with(|| folder.clone());
        }
    }
    for found in tree.of(Kind::Pom) {
        if let Some(artifact) = maven::artifact(&found.file) {
            names.insert(artifact, folder(found));
        }
    }
    names
}

/// The package of a source file, and the packages that its imports name.
fn header(text: &str) -> (&str, Vec<&str>) {
    let mut package = "";
    let mut imports = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_end_matches(';').trim_end();
        if let Some(name) = line.strip_prefix("package ") {
            package = name.trim();
        } else if let Some(name) = line.strip_prefix("import ") {
            let name = name.trim().trim_start_matches("static ").trim();
            let name = name.split(" as ").next().unwrap_or(name);
            // Up to the first part that is a class.
            let parts = name.split('.').take_while(|part| part.starts_with(|first: char| first.is_lowercase()));
            let length: usize = parts.map(|part| part.len() + 1).sum();
            imports.push(name.get(..length.saturating_sub(1)).unwrap_or_default());
        } else if line.contains('{') {
            break;
        }
    }
    (package, imports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_a_file() {
        let text = "// x\npackage a.b;\n\nimport java.util.List;\nimport static c.d.Constants.X;\nimport e.f.*;\nclass A { import x.y.Z; }\n";
        assert_eq!(header(text), ("a.b", vec!["java.util", "c.d", "e.f"]));
        assert_eq!(header("package a.b\nimport c.d.X as Y\n"), ("a.b", vec!["c.d"]));
        assert_eq!(header(""), ("", vec![]));
    }
}
