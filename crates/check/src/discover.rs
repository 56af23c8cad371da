//! Which files there are: walks the paths given, sorts files by what they may tell, and bounds what is read.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ignore::WalkBuilder;

use crate::source::SourceFile;

/// The largest file that is read.
pub const FILE_MAX_BYTES: u64 = 4 << 20;

/// The most text that is read in all.
pub const TOTAL_MAX_BYTES: u64 = 96 << 20;

/// The most files that are looked at.
pub const FILES_MAX: usize = 200_000;

/// The deepest folder that is looked into.
const DEPTH_MAX: usize = 64;

/// Folders that hold what was built or fetched, never what was written.
const SKIPPED: &[&str] = &[
    "target",
    "build",
    "node_modules",
    ".git",
    ".gradle",
    ".idea",
    "out",
    "dist",
    "vendor",
    ".venv",
    "venv",
    "__pycache__",
];

/// What a file may tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `backfire.toml`.
    Stated,
    /// `application*` and `bootstrap*` in YAML.
    SpringYaml,
    /// `application*` and `bootstrap*` as `.properties`.
    SpringProperties,
    /// `pom.xml`.
    Pom,
    /// `build.gradle`, `build.gradle.kts` and their settings.
    Gradle,
    /// `gradle.properties`.
    GradleProperties,
    /// A version catalog: `*.versions.toml`.
    VersionCatalog,
    /// `package.json`.
    PackageJson,
    /// `package-lock.json`.
    PackageLock,
    /// `requirements*.txt`.
    Requirements,
    /// `pyproject.toml`.
    PyProject,
    /// `go.mod`.
    GoMod,
    /// Java.
    Java,
    /// Kotlin.
    Kotlin,
    /// Other JSON: a connector, perhaps.
    Json,
    /// Other `.properties`: a connector or a consumer, perhaps.
    Properties,
    /// Other YAML: something that a configuration imports, perhaps.
    Yaml,
}

impl Kind {
    /// The kind of a file, from its name.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let is_spring = name.starts_with("application") || name.starts_with("bootstrap");
        Some(match name.as_str() {
            "backfire.toml" => Self::Stated,
            "pom.xml" => Self::Pom,
            "build.gradle" | "build.gradle.kts" | "settings.gradle" | "settings.gradle.kts" => Self::Gradle,
            "gradle.properties" => Self::GradleProperties,
            "package.json" => Self::PackageJson,
            "package-lock.json" => Self::PackageLock,
            "pyproject.toml" => Self::PyProject,
            "go.mod" => Self::GoMod,
            _ if name.ends_with(".versions.toml") => Self::VersionCatalog,
            _ if name.starts_with("requirements") && name.ends_with(".txt") => Self::Requirements,
            _ => match name.rsplit_once('.')?.1 {
                "yml" | "yaml" if is_spring => Self::SpringYaml,
                "properties" if is_spring => Self::SpringProperties,
                "yml" | "yaml" => Self::Yaml,
                "properties" => Self::Properties,
                "json" => Self::Json,
                "java" => Self::Java,
                "kt" => Self::Kotlin,
                "gradle" => Self::Gradle,
                _ => return None,
            },
        })
    }

    /// Whether leaving such a file out loses something that a finding has to say.
    fn matters(self) -> bool {
        !matches!(self, Self::Json | Self::Properties | Self::Yaml | Self::PackageLock)
    }

    /// Whether it says how a module is built.
    pub fn is_build(self) -> bool {
        matches!(
            self,
            Self::Pom | Self::Gradle | Self::PackageJson | Self::PyProject | Self::Requirements | Self::GoMod
        )
    }
}

/// A file that was found and read.
#[derive(Debug, Clone)]
pub struct Found {
    /// What it may tell.
    pub kind: Kind,
    /// The path on this machine.
    pub path: PathBuf,
    /// The text.
    pub file: Arc<SourceFile>,
}

/// A file that was not read, or not in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The path as shown.
    pub path: String,
    /// Why.
    pub why: String,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub struct Tree {
    /// The files, in the order of their paths.
    pub files: Vec<Found>,
    /// What was left out.
    pub unread: Vec<Unread>,
    /// The folders given, or those of the files given.
    pub roots: Vec<PathBuf>,
    /// The folders with a build file.
    build_folders: HashSet<PathBuf>,
}

impl Tree {
    /// The files of a kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Found> {
        self.files.iter().filter(move |found| found.kind == kind)
    }

    /// The folder of the module that a path belongs to: the nearest with a build file, or the folder given.
    pub fn module_of(&self, path: &Path) -> PathBuf {
        path.ancestors()
            .skip(1)
            .find(|folder| self.build_folders.contains(*folder) || self.roots.iter().any(|root| root == folder))
            .map_or_else(|| path.parent().unwrap_or(path).to_path_buf(), Path::to_path_buf)
    }
}

/// A path that cannot be looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct NoSuchPath {
    /// The path as given.
    pub path: String,
    /// What the system says.
    pub why: String,
}

/// Walks `paths`. Files that `.gitignore` names are left out, and test sources unless `with_tests`.
///
/// # Errors
/// A path that is not there or cannot be read.
pub fn discover(paths: &[PathBuf], with_tests: bool) -> Result<Tree, NoSuchPath> {
    let mut tree = Tree::default();
    let mut found: BTreeMap<PathBuf, (Kind, bool)> = BTreeMap::new();
    for path in paths {
        let metadata = fs::metadata(path).map_err(|error| NoSuchPath { path: shown(path), why: error.to_string() })?;
        if metadata.is_file() {
            let kind = Kind::of(path).unwrap_or(Kind::Properties);
            found.insert(clean(path), (kind, true));
            tree.roots.push(clean(path.parent().unwrap_or(Path::new("."))));
        } else {
            tree.roots.push(clean(path));
            walk(path, with_tests, &mut found, &mut tree.unread);
        }
    }
    let mut left_bytes = TOTAL_MAX_BYTES;
    let mut left_out = 0_usize;
    // Sources last: they are the most, and configuration decides more.
    let (sources, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, (kind, _))| matches!(kind, Kind::Java | Kind::Kotlin));
    for (path, (kind, is_named)) in others.into_iter().chain(sources) {
        match read(&path, kind, is_named, &mut left_bytes) {
            Ok(Some(file)) => {
                if kind.is_build() {
                    tree.build_folders.extend(path.parent().map(Path::to_path_buf));
                }
                tree.files.push(Found { kind, path, file });
            }
            Ok(None) => {}
            Err(Unreadable::TooMuch) => left_out += 1,
            Err(Unreadable::Because(why)) => tree.unread.push(Unread { path: shown(&path), why }),
        }
    }
    if left_out > 0 {
        let path = tree.roots.first().map_or_else(|| ".".to_owned(), |root| shown(root));
        let why = format!("has more than {} MiB of text; {left_out} files are left out", TOTAL_MAX_BYTES >> 20);
        tree.unread.push(Unread { path, why });
    }
    tree.files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(tree)
}

fn walk(root: &Path, with_tests: bool, found: &mut BTreeMap<PathBuf, (Kind, bool)>, unread: &mut Vec<Unread>) {
    let mut builder = WalkBuilder::new(root);
    builder.require_git(false).follow_links(false).max_depth(Some(DEPTH_MAX)).filter_entry(move |entry| {
        let name = entry.file_name().to_string_lossy();
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let is_tests = || {
            let in_src = entry.path().parent().and_then(Path::file_name).is_some_and(|parent| parent == "src");
            in_src && name.to_ascii_lowercase().contains("test")
        };
        entry.depth() == 0 || !is_folder || !(SKIPPED.contains(&&*name) || (!with_tests && is_tests()))
    });
    for (count, entry) in builder.build().enumerate() {
        if count >= FILES_MAX {
            unread
                .push(Unread { path: shown(root), why: format!("more than {FILES_MAX} files; the rest is left out") });
            return;
        }
        match entry {
            Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                if let Some(kind) = Kind::of(entry.path()) {
                    found.insert(clean(entry.path()), (kind, false));
                }
            }
            Ok(_) => {}
            Err(error) => unread.push(Unread { path: shown(root), why: error.to_string() }),
        }
    }
}

/// Why a file is not read.
enum Unreadable {
    /// There is more text than is looked at.
    TooMuch,
    /// Something about this file.
    Because(String),
}

impl From<String> for Unreadable {
    fn from(why: String) -> Self {
        Self::Because(why)
    }
}

/// `None`: nothing is lost by leaving it out.
fn read(path: &Path, kind: Kind, is_named: bool, left_bytes: &mut u64) -> Result<Option<Arc<SourceFile>>, Unreadable> {
    let matters = is_named || kind.matters();
    let size = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) => return Err(format!("cannot be read: {error}").into()),
    };
    if size > FILE_MAX_BYTES {
        return match matters {
            true => Err(format!("is {} MiB; files above {} MiB are not read", size >> 20, FILE_MAX_BYTES >> 20).into()),
            false => Ok(None),
        };
    }
    if size > *left_bytes {
        return Err(Unreadable::TooMuch);
    }
    let bytes = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    *left_bytes = left_bytes.saturating_sub(bytes.len() as u64);
    match String::from_utf8(bytes) {
        Ok(text) => Ok(is_worth_keeping(kind, is_named, &text).then(|| SourceFile::new(shown(path), text))),
        // `.properties` were Latin-1 until Java 9, and Spring Boot 2 and 3 still read them so; old sources often are.
        Err(error)
            if matches!(
                kind,
                Kind::SpringProperties | Kind::GradleProperties | Kind::Properties | Kind::Java | Kind::Kotlin
            ) =>
        {
            let text: String = error.as_bytes().iter().map(|byte| char::from(*byte)).collect();
            Ok(is_worth_keeping(kind, is_named, &text).then(|| SourceFile::new(shown(path), text)))
        }
        Err(error) if matters => {
            Err(format!("is not UTF-8: byte {} is not valid", error.utf8_error().valid_up_to() + 1).into())
        }
        Err(_) => Ok(None),
    }
}

/// Files of a general kind are kept only where they can be about this.
fn is_worth_keeping(kind: Kind, is_named: bool, text: &str) -> bool {
    let about = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match kind {
        _ if is_named => true,
        Kind::Json | Kind::Properties => {
            about(&["connector.class", "max.poll", "bootstrap.servers", "mongodb://", "mongodb+srv://", "spring."])
        }
        Kind::PackageLock => about(&["node_modules/mongodb", "\"mongodb\""]),
        _ => true,
    }
}

/// The path without `.` components; the folder the program runs in is empty, as the parent of a name alone is.
pub fn clean(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

/// The path with `..` taken out where a folder stands before it, for looking up among found files.
pub fn resolved(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if result.file_name().is_some() => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}

/// The path as text, with `/` and without control characters.
pub fn shown(path: &Path) -> String {
    let text = clean(path).to_string_lossy().replace('\\', "/");
    if text.is_empty() {
        return ".".to_owned();
    }
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_name() {
        let cases = [
            ("application-prod.yml", Some(Kind::SpringYaml)),
            ("bootstrap.properties", Some(Kind::SpringProperties)),
            ("build.gradle.kts", Some(Kind::Gradle)),
            ("libs.versions.toml", Some(Kind::VersionCatalog)),
            ("requirements-dev.txt", Some(Kind::Requirements)),
            ("A.kt", Some(Kind::Kotlin)),
            ("sink.json", Some(Kind::Json)),
            ("README.md", None),
            ("Makefile", None),
        ];
        for (name, kind) in cases {
            assert_eq!(Kind::of(Path::new(name)), kind, "{name}");
        }
    }

    #[test]
    fn what_is_built_tested_ignored_linked_large_or_no_text_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |name: &str, bytes: &[u8]| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("pom.xml", b"<project/>");
        write("a/pom.xml", b"<project/>");
        write("a/src/main/resources/application.yml", b"a: 1");
        write("a/src/test/resources/application.yml", b"a: 2");
        write("target/application.yml", b"a: 3");
        write("ignored/application.yml", b"a: 4");
        write(".gitignore", b"ignored/\n");
        write("bad/application.yml", b"a: \xff");
        write("other.json", b"\xff{}");
        let large = fs::File::create(root.join("application-large.yml")).unwrap();
        large.set_len(100 << 20).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(root, root.join("loop")).unwrap();
        let tree = discover(&[root.to_path_buf()], false).unwrap();
        let names: Vec<_> =
            tree.files.iter().map(|found| found.path.strip_prefix(root).unwrap().display().to_string()).collect();
        assert_eq!(names, ["a/pom.xml", "a/src/main/resources/application.yml", "pom.xml"]);
        let why: Vec<_> = tree.unread.iter().map(|unread| unread.why.as_str()).collect();
        assert_eq!(why, ["is 100 MiB; files above 4 MiB are not read", "is not UTF-8: byte 4 is not valid"]);
        assert_eq!(tree.module_of(&root.join("a/src/main/resources/application.yml")), root.join("a"));
        let all = discover(&[root.to_path_buf()], true).unwrap();
        assert!(all.files.len() > tree.files.len());
        assert!(discover(&[root.join("none")], false).is_err());
        assert_eq!(discover(&[root.join("pom.xml")], false).unwrap().files.len(), 1);
    }
}
