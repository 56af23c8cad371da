//! A version of Spring Framework in a scenario file: its number as text.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

use crate::back_off::SpringVersion;

pub(super) fn serialize<S: Serializer>(version: &SpringVersion, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(version)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SpringVersion, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|error| D::Error::custom(format!("retry.spring_framework: {error}")))
}

pub(super) fn is_default(version: &SpringVersion) -> bool {
    *version == SpringVersion::default()
}
