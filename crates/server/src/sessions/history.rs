//! What the server remembers of an executed statement, and how a replay is answered from it (facts/server.md 2.4).

use std::sync::LazyLock;

use bson::raw::{RawBson, RawDocumentBuf, cstr};
use bson::{Bson, Document, doc};

use crate::storage::Value;

/// A statement that was executed under a (session, txnNumber, stmtId).
#[derive(Debug, Clone, PartialEq)]
pub enum StatementRecord {
    /// An insert.
    Insert,
    /// A delete of one document.
    Delete,
    /// An update that changed a document.
    Update,
    /// An upsert that inserted; its `_id`.
    Upsert(Box<Bson>),
    /// A findAndModify; it keeps an image.
    FindAndModify(Box<FindAndModifyRecord>),
}

/// A statement in the history of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Remembered {
    /// What it did.
    pub what: StatementRecord,
    /// Whether a row of the history table begins with it. A batch of inserts is one row.
    pub begins_row: bool,
}

impl Remembered {
    /// Statements that follow on each other and have done the same, of which nothing more is kept, are one row.
    pub fn in_rows(statements: Vec<(i32, StatementRecord)>) -> Vec<(i32, Self)> {
        let mut all: Vec<(i32, Self)> = Vec::with_capacity(statements.len());
        for (id, what) in statements {
            let goes_on = all.last().is_some_and(|(last, before)| {
                last.checked_add(1) == Some(id) && before.what == what && what.is_plain()
            });
            all.push((id, Self { what, begins_row: !goes_on }));
        }
        all
    }
}

/// What a findAndModify leaves behind.
#[derive(Debug, Clone, PartialEq)]
pub struct FindAndModifyRecord {
    /// What it did.
    pub kind: FindAndModifyKind,
    /// The whole document before or after; for an upsert the inserted document.
    pub image: RawDocumentBuf,
    /// The oplog entry, which error texts show (40606 and following).
    pub oplog_entry: Document,
}

/// What a findAndModify did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindAndModifyKind {
    /// Removed a document; the image is the document.
    Remove,
    /// Updated a document; the image is the document before.
    UpdateKeptBefore,
    /// Updated a document; the image is the document after.
    UpdateKeptAfter,
    /// Inserted a document.
    Upsert,
}

/// The answer to "was this statement executed before?".
#[derive(Debug, Clone, PartialEq)]
pub enum Executed {
    /// No.
    No,
    /// Yes, and this is what it did.
    Yes(StatementRecord),
}

impl StatementRecord {
    /// Whether it says all in its kind.
    fn is_plain(&self) -> bool {
        matches!(self, StatementRecord::Insert | StatementRecord::Delete | StatementRecord::Update)
    }

    /// The bytes of the record as it is stored. Those of a record without contents exist once.
    pub fn stored(&self) -> Value {
        static PLAIN: LazyLock<[Value; 3]> = LazyLock::new(|| {
            [StatementRecord::Insert, StatementRecord::Delete, StatementRecord::Update].map(|record| record.encode())
        });
        match self {
            StatementRecord::Insert => Value::clone(&PLAIN[0]),
            StatementRecord::Delete => Value::clone(&PLAIN[1]),
            StatementRecord::Update => Value::clone(&PLAIN[2]),
            StatementRecord::Upsert(_) | StatementRecord::FindAndModify(_) => self.encode(),
        }
    }

    fn encode(&self) -> Value {
        if let StatementRecord::Upsert(id) = self
            && let Ok(id) = RawBson::try_from((**id).clone())
        {
            let mut record = RawDocumentBuf::new();
            record.append(cstr!("k"), "s");
            record.append(cstr!("id"), id);
            return record.as_bytes().into();
        }
        // What was read from BSON can be written as BSON.
        self.to_document().to_vec().unwrap_or_default().into()
    }

    /// The record as it is stored.
    pub fn to_document(&self) -> Document {
        match self {
            StatementRecord::Insert => doc! { "k": "i" },
            StatementRecord::Delete => doc! { "k": "d" },
            StatementRecord::Update => doc! { "k": "u" },
            StatementRecord::Upsert(id) => doc! { "k": "s", "id": (**id).clone() },
            StatementRecord::FindAndModify(record) => doc! {
                "k": "f",
                "op": record.kind.letter(),
                "image": Document::try_from(record.image.clone()).unwrap_or_default(),
                "entry": record.oplog_entry.clone(),
            },
        }
    }

    /// Reads a stored record; `None` when it is damaged.
    pub fn from_document(document: &Document) -> Option<Self> {
        Some(match document.get_str("k").ok()? {
            "i" => StatementRecord::Insert,
            "d" => StatementRecord::Delete,
            "u" => StatementRecord::Update,
            "s" => StatementRecord::Upsert(Box::new(document.get("id")?.clone())),
            "f" => StatementRecord::FindAndModify(Box::new(FindAndModifyRecord {
                kind: FindAndModifyKind::from_letter(document.get_str("op").ok()?)?,
                image: RawDocumentBuf::try_from(document.get_document("image").ok()?).ok()?,
                oplog_entry: document.get_document("entry").ok()?.clone(),
            })),
            _ => return None,
        })
    }
}

impl FindAndModifyKind {
    fn letter(self) -> &'static str {
        match self {
            FindAndModifyKind::Remove => "d",
            FindAndModifyKind::UpdateKeptBefore => "b",
            FindAndModifyKind::UpdateKeptAfter => "a",
            FindAndModifyKind::Upsert => "s",
        }
    }

    fn from_letter(letter: &str) -> Option<Self> {
        [Self::Remove, Self::UpdateKeptBefore, Self::UpdateKeptAfter, Self::Upsert]
            .into_iter()
            .find(|kind| kind.letter() == letter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn plain_statements_in_a_row_share_one() {
        let upsert = || StatementRecord::Upsert(Box::new(Bson::Int32(5)));
        use StatementRecord::{Insert, Update};
        for (statements, rows) in [
            (vec![(0, Insert), (1, Insert), (2, Insert)], vec![0]),
            (vec![(0, Insert), (2, Insert), (3, Insert)], vec![0, 2]),
            (vec![(0, Insert), (1, Update), (2, Update)], vec![0, 1]),
            (vec![(i32::MAX - 1, upsert()), (i32::MAX, upsert())], vec![i32::MAX - 1, i32::MAX]),
        ] {
            let all = Remembered::in_rows(statements);
            let begin = all.iter().filter(|(_, statement)| statement.begins_row).map(|(id, _)| *id);
            assert_eq!(begin.collect::<Vec<_>>(), rows);
        }
    }

    #[test]
    fn records_round_trip() {
        let modify = |kind| {
            StatementRecord::FindAndModify(Box::new(FindAndModifyRecord {
                kind,
                image: rawdoc! { "_id": 1 },
                oplog_entry: doc! { "op": "u" },
            }))
        };
        for record in [
            StatementRecord::Insert,
            StatementRecord::Delete,
            StatementRecord::Update,
            StatementRecord::Upsert(Box::new(Bson::Int32(5))),
            modify(FindAndModifyKind::Remove),
            modify(FindAndModifyKind::UpdateKeptBefore),
            modify(FindAndModifyKind::UpdateKeptAfter),
            modify(FindAndModifyKind::Upsert),
        ] {
            let stored = Document::from_reader(&*record.stored()).expect("a document");
            assert_eq!(StatementRecord::from_document(&stored), Some(record));
        }
        assert_eq!(StatementRecord::from_document(&doc! { "k": "?" }), None);
    }
}
