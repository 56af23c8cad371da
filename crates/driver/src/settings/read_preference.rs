//! Read preference: which member of a replica set a read goes to.

use std::collections::BTreeMap;
use std::time::Duration;

use bson::{Bson, Document};

use crate::error::DriverError;

/// The mode of a read preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// Only the primary.
    #[default]
    Primary,
    /// The primary, a secondary when there is none.
    PrimaryPreferred,
    /// Only secondaries.
    Secondary,
    /// Secondaries, the primary when there is none.
    SecondaryPreferred,
    /// The nearest member of any kind.
    Nearest,
}

impl ReadMode {
    const ALL: [Self; 5] =
        [Self::Primary, Self::PrimaryPreferred, Self::Secondary, Self::SecondaryPreferred, Self::Nearest];

    /// Its name on the wire and in connection strings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::PrimaryPreferred => "primaryPreferred",
            Self::Secondary => "secondary",
            Self::SecondaryPreferred => "secondaryPreferred",
            Self::Nearest => "nearest",
        }
    }

    /// The mode called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// One tag set: a member matches when it has all these tags.
pub type TagSet = BTreeMap<String, String>;

/// Mode, tags and staleness limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadPreference {
    /// The mode.
    pub mode: ReadMode,
    /// Tag sets, tried in order; the first that any member matches counts.
    pub tag_sets: Vec<TagSet>,
    /// How far a secondary may lag; `None` is no limit.
    pub max_staleness: Option<Duration>,
}

impl ReadPreference {
    /// A read preference that is only a mode.
    pub fn mode(mode: ReadMode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// The `$readPreference` document.
    pub fn to_document(&self) -> Document {
        let mut document = Document::new();
        document.insert("mode", self.mode.name());
        if !self.tag_sets.is_empty() {
            let tags =
                self.tag_sets.iter().map(|set| set.iter().map(|(k, v)| (k.clone(), Bson::String(v.clone()))).collect());
            document.insert("tags", tags.collect::<Vec<Document>>());
        }
        if let Some(staleness) = self.max_staleness {
            document.insert("maxStalenessSeconds", i64::try_from(staleness.as_secs()).unwrap_or(i64::MAX));
        }
        document
    }

    /// Reads `{mode, tags | tagSets, maxStalenessSeconds}`.
    ///
    /// # Errors
    /// When a field is unknown or wrong, or tags or staleness come with mode `primary`.
    pub fn from_document(document: &Document) -> Result<Self, DriverError> {
        let mut preference = Self::default();
        for (name, value) in document {
            let wrong = || DriverError::invalid_argument(format!("readPreference: unknown or wrong field '{name}'"));
            match (name.as_str(), value) {
                ("mode", Bson::String(mode)) => preference.mode = ReadMode::from_name(mode).ok_or_else(wrong)?,
                ("tags" | "tagSets", Bson::Array(sets)) => {
                    for set in sets {
                        let set = set.as_document().ok_or_else(wrong)?;
                        let tags = set.iter().map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
                        preference.tag_sets.push(tags.collect::<Option<TagSet>>().ok_or_else(wrong)?);
                    }
                }
                ("maxStalenessSeconds", Bson::Int32(_) | Bson::Int64(_)) => {
                    let seconds = value.as_i64().or_else(|| value.as_i32().map(i64::from)).unwrap_or(-1);
                    if seconds != -1 {
                        preference.max_staleness =
                            Some(Duration::from_secs(u64::try_from(seconds).map_err(|_| wrong())?));
                    }
                }
                _ => return Err(wrong()),
            }
        }
        preference.validate()?;
        Ok(preference)
    }

    /// Checks what does not depend on the topology.
    ///
    /// # Errors
    /// Mode `primary` with tags or a staleness limit.
    pub fn validate(&self) -> Result<(), DriverError> {
        let has_tags = self.tag_sets.iter().any(|set| !set.is_empty());
        if self.mode == ReadMode::Primary && (has_tags || self.max_staleness.is_some()) {
            return Err(DriverError::invalid_argument(
                "read preference primary goes with neither tag sets nor maxStalenessSeconds",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn read_preferences_round_trip() {
        for document in [
            doc! {"mode": "primary"},
            doc! {"mode": "secondary", "tags": [{"dc": "x"}, {}], "maxStalenessSeconds": 600_i64},
        ] {
            assert_eq!(ReadPreference::from_document(&document).unwrap().to_document(), document);
        }
        for document in [doc! {"mode": "primary", "maxStalenessSeconds": 90}, doc! {"mode": "x"}, doc! {"y": 1}] {
            assert!(ReadPreference::from_document(&document).is_err(), "{document}");
        }
    }
}
