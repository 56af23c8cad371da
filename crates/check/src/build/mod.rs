//! Versions: of Spring Boot, the driver, Spring Kafka and the rest, from build files; since defaults depend on them.

pub mod gradle;
pub mod maven;
pub mod other;
pub mod version;
pub mod versions;

use std::path::{Path, PathBuf};

use crate::discover::{Found, Kind, Tree};
use crate::format::tree::Flaw;
use crate::setting::Source;
pub use version::Version;

/// Which driver a service uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// The Java driver, also from Kotlin.
    Java,
    /// The Node.js driver.
    Node,
    /// PyMongo.
    Python,
    /// The Go driver.
    Go,
    /// The Rust driver.
    Rust,
}

impl Family {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Java => "Java driver",
            Self::Node => "Node driver",
            Self::Python => "PyMongo",
            Self::Go => "Go driver",
            Self::Rust => "Rust driver",
        }
    }

    /// The family that `backfire.toml` calls so.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "java" | "kotlin" | "jvm" => Self::Java,
            "node" | "nodejs" | "javascript" | "typescript" => Self::Node,
            "python" | "pymongo" => Self::Python,
            "go" | "golang" => Self::Go,
            "rust" => Self::Rust,
            _ => return None,
        })
    }
}

/// A version and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The version.
    pub version: Version,
    /// Where it comes from.
    pub source: Source,
    /// What has to be said about it, such as that a neighbouring row of the table was taken.
    pub note: Option<String>,
}

/// What build files say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Versions {
    /// Spring Boot.
    pub boot: Option<Known>,
    /// The driver's family, where a build file shows it.
    pub family: Option<Family>,
    /// The driver.
    pub driver: Option<Known>,
    /// Spring Kafka.
    pub spring_kafka: Option<Known>,
    /// Kafka's client library.
    pub kafka_clients: Option<Known>,
    /// Spring Framework.
    pub spring_framework: Option<Known>,
    /// Spring Data MongoDB.
    pub spring_data: Option<Known>,
    /// Whether Spring Kafka is a dependency.
    pub uses_spring_kafka: bool,
    /// Whether a MongoDB driver or Spring Data MongoDB is a dependency.
    pub uses_mongodb: bool,
    /// Whether Spring Cloud Stream's Kafka binder is a dependency.
    pub uses_binder: bool,
    /// The names of other modules that this one depends on.
    pub modules: Vec<String>,
}

impl Versions {
    /// Takes from `other` what is not known here.
    pub fn fill(&mut self, other: Versions) {
        self.boot = self.boot.take().or(other.boot);
        self.family = self.family.or(other.family);
        self.driver = self.driver.take().or(other.driver);
        self.spring_kafka = self.spring_kafka.take().or(other.spring_kafka);
        self.kafka_clients = self.kafka_clients.take().or(other.kafka_clients);
        self.spring_framework = self.spring_framework.take().or(other.spring_framework);
        self.spring_data = self.spring_data.take().or(other.spring_data);
        self.uses_spring_kafka |= other.uses_spring_kafka;
        self.uses_mongodb |= other.uses_mongodb;
        self.uses_binder |= other.uses_binder;
    }

    /// Fills in what Spring Boot's version decides.
    fn fill_from_boot(&mut self) {
        let Some(boot) = &self.boot else { return };
        let Some((row, is_exact)) = versions::row_for(&boot.version) else { return };
        let note = (!is_exact)
            .then(|| format!("the versions below are those of Spring Boot {}, the nearest that is known", row.boot));
        let of = |text: &str| {
            let source =
                Source::Default(format!("Spring Boot {} ({boot_source})", boot.version, boot_source = boot.source));
            Version::parse(text).map(|version| Known { version, source, note: None })
        };
        self.driver = self.driver.take().or_else(|| of(row.driver));
        self.spring_kafka = self.spring_kafka.take().or_else(|| of(row.spring_kafka));
        self.kafka_clients = self.kafka_clients.take().or_else(|| of(row.kafka_clients));
        self.spring_framework = self.spring_framework.take().or_else(|| of(row.spring_framework));
        self.spring_data = self.spring_data.take().or_else(|| of(row.spring_data_mongodb));
        self.family = self.family.or(Some(Family::Java));
        if let Some(boot) = &mut self.boot {
            boot.note = note;
        }
    }
}

/// The versions that hold in a module: from its own build files, then those of the folders above it.
pub fn versions_of(tree: &Tree, module: &Path, flaws: &mut Vec<Flaw>) -> Versions {
    let mut versions = Versions::default();
    let mut boms_only = Versions::default();
    for (level, folder) in module.ancestors().enumerate() {
        let in_folder: Vec<&Found> = tree.files.iter().filter(|found| found.path.parent() == Some(folder)).collect();
        for found in &in_folder {
            let text = match found.kind {
                Kind::Pom => maven::read(&found.file, tree, &found.path, flaws),
                Kind::Gradle => gradle::read(&found.file, tree, &found.path),
                Kind::PackageJson => other::node(&found.file, tree, &found.path, flaws),
                Kind::Requirements => other::requirements(&found.file),
                Kind::PyProject => other::pyproject(&found.file, flaws),
                Kind::GoMod => other::go_mod(&found.file),
                _ => continue,
            };
            let is_above = level > 0;
            let mut text = text;
            if is_above {
                // A folder above says which versions hold, not what this module uses.
                (text.uses_spring_kafka, text.uses_mongodb, text.uses_binder) = (false, false, false);
            }
            if level == 0 {
                versions.modules.extend(text.modules.clone());
            }
            if is_above { boms_only.fill(text) } else { versions.fill(text) }
        }
        if tree.roots.iter().any(|root| root == folder) {
            break;
        }
    }
    versions.fill(boms_only);
    versions.fill_from_boot();
    versions
}

/// The folders that have a build file.
pub fn modules(tree: &Tree) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = tree
        .files
        .iter()
        .filter(|found| found.kind.is_build())
        .filter_map(|found| found.path.parent().map(Path::to_path_buf))
        .collect();
    folders.sort();
    folders.dedup();
    folders
}
