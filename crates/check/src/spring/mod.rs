//! Spring configuration: what applies, and where it was set.

pub mod duration;
pub mod files;
pub mod key;
pub mod placeholder;
pub mod profile;

use std::collections::BTreeMap;

use crate::source::Place;
use key::Key;
use placeholder::Resolved;

/// Where a property was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File {
        /// The key.
        key: Place,
        /// The value.
        value: Place,
    },
    /// With `--set`.
    Argument,
    /// In the environment.
    Environment(String),
}

/// One property.
#[derive(Debug, Clone)]
pub struct Property {
    /// The key as written.
    pub key: Key,
    /// The value as written, placeholders included.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
}

/// The properties that apply, the strongest of each key.
#[derive(Debug, Clone, Default)]
pub struct Properties {
    /// By canonical key.
    by_key: BTreeMap<String, Property>,
    /// What `--set` and the environment give for names in placeholders that are no properties.
    extra: BTreeMap<String, (String, Origin)>,
    /// The profiles that are active.
    pub profiles: Vec<String>,
    /// The profiles that some file or document is for.
    pub profiles_seen: Vec<String>,
}

impl Properties {
    /// Adds a property; it replaces one of the same canonical key.
    pub fn put(&mut self, property: Property) {
        self.by_key.insert(property.key.canonical(), property);
    }

    /// Adds a name that placeholders can use.
    pub fn put_name(&mut self, name: &str, value: &str, origin: Origin) {
        self.extra.insert(name.to_owned(), (value.to_owned(), origin));
    }

    /// The property with this name, in any of its spellings.
    pub fn get(&self, name: &str) -> Option<&Property> {
        self.by_key.get(&Key::parse(name).canonical())
    }

    /// What a placeholder's name stands for.
    fn lookup(&self, name: &str) -> Option<(&str, &Origin)> {
        if let Some((value, origin)) = self.extra.get(name) {
            return Some((value, origin));
        }
        self.get(name).map(|property| (property.value.as_str(), &property.origin))
    }

    /// A property's value with its placeholders resolved.
    pub fn resolve(&self, property: &Property) -> Resolved {
        self.resolve_text(&property.value)
    }

    /// A text with its placeholders resolved.
    pub fn resolve_text(&self, text: &str) -> Resolved {
        placeholder::resolve(text, &|name| self.lookup(name).map(|(value, _)| value.to_owned()))
    }

    /// The properties below a prefix, each with the rest of its key as a map's key: elements joined with dots.
    pub fn map(&self, prefix: &str) -> Vec<(String, &Property)> {
        let canonical = Key::parse(prefix).canonical();
        let depth = Key::parse(prefix).elements().len();
        let from = format!("{canonical}.");
        self.by_key
            .range(from.clone()..)
            .take_while(|(key, _)| key.starts_with(&from))
            .map(|(_, property)| (property.key.map_key(depth), property))
            .collect()
    }

    /// The names of the next element below a prefix.
    pub fn children(&self, prefix: &str) -> Vec<String> {
        let depth = Key::parse(prefix).elements().len();
        let mut names: Vec<String> = self
            .map(prefix)
            .iter()
            .filter_map(|(_, property)| property.key.elements().get(depth).map(|element| element.text.clone()))
            .collect();
        names.dedup();
        names
    }

    /// All properties.
    pub fn iter(&self) -> impl Iterator<Item = &Property> {
        self.by_key.values()
    }
}
