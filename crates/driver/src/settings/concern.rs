//! Read concern and write concern.

use std::time::Duration;

use bson::{Bson, Document, doc};

use crate::error::DriverError;

/// How far a read must be replicated: `readConcern.level`, or the server's default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadConcern {
    /// `local`, `majority`, ...; `None` leaves it to the server.
    pub level: Option<String>,
}

impl ReadConcern {
    /// A read concern with a level. The server judges the name.
    pub fn level(level: impl Into<String>) -> Self {
        Self { level: Some(level.into()) }
    }

    /// Its fields in a command; empty for the server's default.
    pub fn to_document(&self) -> Document {
        self.level.as_ref().map_or_else(Document::new, |level| doc! {"level": level})
    }

    /// Reads `{level: ...}`.
    ///
    /// # Errors
    /// When there is another field, or the level is not text.
    pub fn from_document(document: &Document) -> Result<Self, DriverError> {
        let mut concern = Self::default();
        for (name, value) in document {
            match (name.as_str(), value) {
                ("level", Bson::String(level)) => concern.level = Some(level.clone()),
                _ => {
                    return Err(DriverError::invalid_argument(format!("readConcern: unknown or wrong field '{name}'")));
                }
            }
        }
        Ok(concern)
    }
}

/// The `w` of a write concern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acknowledgement {
    /// So many members; 0 asks for no reply at all.
    Members(i32),
    /// `majority`, or a tag set's name.
    Named(String),
}

/// When a write counts as done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteConcern {
    /// `w`; `None` leaves it to the server.
    pub w: Option<Acknowledgement>,
    /// `j`.
    pub journal: Option<bool>,
    /// `wtimeout`. Ignored while `timeoutMS` is set (facts/client.md C1).
    pub wtimeout: Option<Duration>,
}

impl WriteConcern {
    /// `{w: n}`.
    pub fn members(n: i32) -> Self {
        Self { w: Some(Acknowledgement::Members(n)), ..Self::default() }
    }

    /// `{w: "majority"}`.
    pub fn majority() -> Self {
        Self { w: Some(Acknowledgement::Named("majority".into())), ..Self::default() }
    }

    /// Whether the server answers: everything but `w: 0` without `j: true`.
    pub fn is_acknowledged(&self) -> bool {
        self.w != Some(Acknowledgement::Members(0)) || self.journal == Some(true)
    }

    /// Whether it says nothing, so that it is not sent.
    pub fn is_server_default(&self) -> bool {
        *self == Self::default()
    }

    /// Its fields in a command.
    pub fn to_document(&self) -> Document {
        let mut document = Document::new();
        match &self.w {
            Some(Acknowledgement::Members(n)) => drop(document.insert("w", *n)),
            Some(Acknowledgement::Named(name)) => drop(document.insert("w", name)),
            None => {}
        }
        if let Some(wtimeout) = self.wtimeout {
            let millis = i64::try_from(wtimeout.as_millis()).unwrap_or(i64::MAX);
            document.insert("wtimeout", i32::try_from(millis).map_or(Bson::Int64(millis), Bson::Int32));
        }
        if let Some(journal) = self.journal {
            document.insert("j", journal);
        }
        document
    }

    /// Reads `{w, j | journal, wtimeout | wtimeoutMS}`.
    ///
    /// # Errors
    /// When there is another field, or a value has the wrong type or sign.
    pub fn from_document(document: &Document) -> Result<Self, DriverError> {
        let mut concern = Self::default();
        for (name, value) in document {
            let wrong = || DriverError::invalid_argument(format!("writeConcern: unknown or wrong field '{name}'"));
            let number = || match value {
                Bson::Int32(n) => u64::try_from(*n).ok(),
                Bson::Int64(n) => u64::try_from(*n).ok(),
                _ => None,
            };
            match (name.as_str(), value) {
                ("w", Bson::String(text)) => concern.w = Some(Acknowledgement::Named(text.clone())),
                ("w", _) => {
                    let n = number().and_then(|n| i32::try_from(n).ok()).ok_or_else(wrong)?;
                    concern.w = Some(Acknowledgement::Members(n));
                }
                ("j" | "journal", Bson::Boolean(journal)) => concern.journal = Some(*journal),
                ("wtimeout" | "wtimeoutMS", _) => {
                    concern.wtimeout = Some(Duration::from_millis(number().ok_or_else(wrong)?));
                }
                _ => return Err(wrong()),
            }
        }
        Ok(concern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_concerns_round_trip() {
        for document in [doc! {}, doc! {"w": 1}, doc! {"w": "majority", "wtimeout": 5, "j": true}, doc! {"w": 0}] {
            assert_eq!(WriteConcern::from_document(&document).unwrap().to_document(), document);
        }
        for document in [doc! {"w": -1}, doc! {"w": 1.5}, doc! {"x": 1}, doc! {"wtimeout": -1}] {
            assert!(WriteConcern::from_document(&document).is_err(), "{document}");
        }
    }

    #[test]
    fn only_w0_without_journal_is_unacknowledged() {
        for (document, acknowledged) in
            [(doc! {}, true), (doc! {"w": 0}, false), (doc! {"w": 0, "j": true}, true), (doc! {"w": 1}, true)]
        {
            assert_eq!(WriteConcern::from_document(&document).unwrap().is_acknowledged(), acknowledged, "{document}");
        }
    }
}
