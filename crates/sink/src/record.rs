//! A record as a write.

use backfire_consumer::{ErrorClass, Failure, LogicalWriteId, Record};
use backfire_driver::{BulkWriteModel, RawReplaceModel, ReplaceModel, Update, UpdateModel, WriteFilter, WriteOptions};
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, RawBson, RawDocumentBuf, cstr, doc};

use crate::plain_json;
use crate::settings::{Delete, How, Id, Mode, Settings};

/// The class of the failure of a record that cannot be written as it is. It is not tried again.
pub const BAD_RECORD: &str = "backfire.BadRecordException";

/// The largest document that servers take.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

fn bad(why: impl std::fmt::Display) -> Failure {
    Failure::new(ErrorClass::new(BAD_RECORD), why.to_string())
}

/// The write that a record wants; `None`: none.
///
/// # Errors
/// The value is no JSON object, or has not what identifies it.
pub fn write(record: &Record, settings: &Settings) -> Result<Option<BulkWriteModel>, Failure> {
    let Some(value) = &record.value else {
        return match settings.delete {
            Delete::Skip => Ok(None),
            Delete::Delete => {
                let filter = doc! {"_id": key(record)?};
                Ok(Some(BulkWriteModel::DeleteOne(WriteFilter { filter, options: WriteOptions::default() })))
            }
            Delete::DeadLetter => Err(bad("the record has no value")),
        };
    };
    if let Some(model) = plain_upsert(record, value, settings) {
        return Ok(Some(model));
    }
    let document = document(value)?;
    let model = match settings.mode {
        Mode::Insert => insert(record, document, settings)?,
        Mode::Upsert => upsert(record, document, settings)?,
    };
    Ok(Some(model))
}

/// The upsert of a plain JSON object, by an identity that is not in it; `None`: it is another write, or not plain.
fn plain_upsert(record: &Record, value: &[u8], settings: &Settings) -> Option<BulkWriteModel> {
    let is_plain = settings.mode == Mode::Upsert && settings.how == How::Replace;
    if !is_plain || !matches!(settings.id, Id::Record | Id::Key) || value.len() > MAX_DOCUMENT_BYTES {
        return None;
    }
    let id = match settings.id {
        Id::Key => match (&record.key, record.key.as_deref().map(std::str::from_utf8)) {
            (_, Some(Ok(text))) => RawBson::String(text.to_owned()),
            (Some(bytes), _) => RawBson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: bytes.clone() }),
            (None, _) => return None,
        },
        _ => RawBson::String(LogicalWriteId::of(record).to_string()),
    };
    let mut filter = RawDocumentBuf::new();
    filter.append(cstr!("_id"), id);
    // The filter's `_id`, then the value's fields: sizes are those of a document's frame.
    let with_id = filter.as_bytes();
    let mut bytes = Vec::with_capacity(with_id.len() + value.len() + 16);
    bytes.extend_from_slice(&with_id[..with_id.len() - 1]);
    if !plain_json::append_fields(value, &mut bytes) {
        return None;
    }
    bytes.push(0);
    let size = i32::try_from(bytes.len()).ok()?;
    bytes[..4].copy_from_slice(&size.to_le_bytes());
    let replacement = RawDocumentBuf::from_bytes(bytes).ok()?;
    Some(BulkWriteModel::ReplaceOneRaw(RawReplaceModel { filter, replacement, upsert: true }))
}

/// A JSON object as a document; MongoDB's extended JSON is understood.
fn document(value: &[u8]) -> Result<Document, Failure> {
    if value.len() > MAX_DOCUMENT_BYTES {
        return Err(bad(format!("the value has {} bytes; a document has {MAX_DOCUMENT_BYTES} at most", value.len())));
    }
    let json: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(value).map_err(|error| bad(format!("the value is no JSON object: {error}")))?;
    Document::try_from(json).map_err(|error| bad(format!("the value is no document: {error}")))
}

/// The record's key as an `_id`.
fn key(record: &Record) -> Result<Bson, Failure> {
    let key = record.key.as_ref().ok_or_else(|| bad("the record has no key").about_key())?;
    Ok(match std::str::from_utf8(key) {
        Ok(text) => Bson::String(text.to_owned()),
        Err(_) => Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: key.clone() }),
    })
}

/// The `_id` that the settings give the record; `None`: they give none.
fn id(record: &Record, document: &Document, settings: &Settings) -> Result<Option<Bson>, Failure> {
    match settings.id {
        Id::Record => Ok(Some(Bson::String(LogicalWriteId::of(record).to_string()))),
        Id::Key => key(record).map(Some),
        Id::Value => {
            let own = document.get("_id").cloned();
            own.map(Some).ok_or_else(|| bad("the value has no '_id'"))
        }
        Id::Fields | Id::None => Ok(None),
    }
}

/// The document with this `_id` first.
fn with_id(id: Bson, document: Document) -> Document {
    let mut with = doc! {"_id": id};
    with.extend(document.into_iter().filter(|(name, _)| name != "_id"));
    with
}

fn insert(record: &Record, document: Document, settings: &Settings) -> Result<BulkWriteModel, Failure> {
    let document = match id(record, &document, settings)? {
        Some(id) => with_id(id, document),
        None => document,
    };
    Ok(BulkWriteModel::InsertOne { document })
}

fn upsert(record: &Record, document: Document, settings: &Settings) -> Result<BulkWriteModel, Failure> {
    let filter = match id(record, &document, settings)? {
        Some(id) => doc! {"_id": id},
        None => fields(&document, &settings.fields)?,
    };
    let options = WriteOptions { upsert: Some(true), ..WriteOptions::default() };
    Ok(match settings.how {
        How::Replace => {
            let replacement = match filter.get("_id") {
                Some(id) => with_id(id.clone(), document),
                None => document,
            };
            if let Some(name) = replacement.keys().next().filter(|name| name.starts_with('$')) {
                return Err(bad(format!("a document must not begin with an operator, but '{name}' is one")));
            }
            BulkWriteModel::ReplaceOne(ReplaceModel { filter, replacement, options })
        }
        How::Merge => {
            let rest: Document = document.into_iter().filter(|(name, _)| !filter.contains_key(name)).collect();
            // An empty `$set` is no update: the document is only made.
            let update = if rest.is_empty() {
                doc! {"$setOnInsert": filter.clone()}
            } else {
                doc! {"$set": rest}
            };
            BulkWriteModel::UpdateOne(UpdateModel { filter, update: Update::Operators(update), options })
        }
    })
}

/// The values of these fields; dots lead into documents.
fn fields(document: &Document, names: &[String]) -> Result<Document, Failure> {
    let mut filter = Document::new();
    for name in names {
        let mut parts = name.split('.');
        let first = parts.next().and_then(|part| document.get(part));
        let value = parts.try_fold(first, |value, part| Some(value?.as_document()?.get(part))).flatten();
        let value = value.ok_or_else(|| bad(format!("the value has no field '{name}'")))?;
        filter.insert(name, value.clone());
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings(sets: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        sets.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
        settings.validate().unwrap();
        settings
    }

    fn record(key: Option<&[u8]>, value: Option<&str>) -> Record {
        let value = value.map(|text| text.as_bytes().to_vec());
        Record { topic: "t".into(), partition: 2, offset: 7, key: key.map(<[u8]>::to_vec), value, ..Record::default() }
    }

    fn check(sets: &[(&str, &str)], value: &str, expected: Result<BulkWriteModel, &str>) {
        let found = write(&record(Some(b"k"), Some(value)), &settings(sets));
        let found = found.map_err(|failure| failure.outer().message.clone());
        let found = found.map(|model| model.map(decoded));
        match expected {
            Ok(model) => assert_eq!(found, Ok(Some(model)), "{sets:?} {value}"),
            Err(part) => assert!(found.as_ref().is_err_and(|text| text.contains(part)), "{found:?} {part}"),
        }
    }

    /// A replacement in bytes as one of documents.
    fn decoded(model: BulkWriteModel) -> BulkWriteModel {
        match model {
            BulkWriteModel::ReplaceOneRaw(RawReplaceModel { filter, replacement, upsert: true }) => {
                replace(Document::try_from(&filter).unwrap(), Document::try_from(&replacement).unwrap())
            }
            other => other,
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let number = prop_oneof![
            any::<i64>().prop_map(serde_json::Value::from),
            any::<u64>().prop_map(Into::into),
            any::<i16>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into)
        ];
        let name = "_id|[ab]{0,2}|\\$[a-z]{0,3}|é\u{0}?";
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            number,
            any::<String>().prop_map(Into::into)
        ];
        leaf.prop_recursive(4, 60, 40, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..12).prop_map(Into::into),
                proptest::collection::vec((name, inner), 0..40).prop_map(|fields| fields.into_iter().collect()),
            ]
        })
    }

    proptest! {
        /// What is written of a value is the same by its bytes as by its document; what is no document is refused.
        #[test]
        fn bytes_and_documents_agree(value in json(), more in "[ ]?|x", twice in any::<bool>()) {
            let mut text = value.to_string() + &more;
            if twice {
                text = text.replacen('{', r#"{"a":1,"b":null,"a":[{}],"#, 1).replace(",}", "}");
            }
            let found = write(&record(None, Some(&text)), &settings(&[]));
            match document(text.as_bytes()) {
                Err(failure) => prop_assert_eq!(found, Err(failure)),
                Ok(document) => {
                    let id = Bson::from("t-2-7");
                    let expected = replace(doc! {"_id": id.clone()}, with_id(id, document));
                    prop_assert_eq!(found.map(|model| model.map(decoded)), Ok(Some(expected)));
                }
            }
        }
    }

    #[test]
    fn plain_values_are_written_by_their_bytes() {
        let is_raw = |sets: &[(&str, &str)], value: &str| {
            let model = write(&record(Some(b"k"), Some(value)), &settings(sets));
            matches!(model, Ok(Some(BulkWriteModel::ReplaceOneRaw(_))))
        };
        let plain = r#"{"_id": 1, "a": [1, 2.5, {"b": "é\n"}], "c": {}, "d": [true, null, 5000000000]}"#;
        assert!(is_raw(&[], plain) && is_raw(&[("write.id", "key")], plain));
        assert!(!is_raw(&[("write.id", "value")], plain) && !is_raw(&[("write.how", "merge")], plain));
        assert!(!is_raw(&[], r#"{"a": {"$oid": "5f0000000000000000000000"}}"#) && !is_raw(&[], r#"{"a": 1, "a": 2}"#));
    }

    fn replace(filter: Document, replacement: Document) -> BulkWriteModel {
        let options = WriteOptions { upsert: Some(true), ..WriteOptions::default() };
        BulkWriteModel::ReplaceOne(ReplaceModel { filter, replacement, options })
    }

    fn set(filter: Document, update: Document) -> BulkWriteModel {
        let options = WriteOptions { upsert: Some(true), ..WriteOptions::default() };
        BulkWriteModel::UpdateOne(UpdateModel { filter, update: Update::Operators(update), options })
    }

    #[test]
    fn each_identity_gives_its_write() {
        let value = r#"{"a": 1, "b": {"c": "x"}, "_id": 5}"#;
        let whole = |id: Bson| doc! {"_id": id, "a": 1, "b": {"c": "x"}};
        let upsert = |id: Bson| Ok(replace(doc! {"_id": id.clone()}, whole(id)));
        check(&[], value, upsert("t-2-7".into()));
        check(&[("write.id", "key")], value, upsert("k".into()));
        check(&[("write.id", "value")], value, upsert(5.into()));
        let by_fields = [("write.id", "fields"), ("write.fields", "a,b.c")];
        let own = doc! {"a": 1, "b": {"c": "x"}, "_id": 5};
        check(&by_fields, value, Ok(replace(doc! {"a": 1, "b.c": "x"}, own.clone())));
        check(&[("write.mode", "insert")], value, Ok(BulkWriteModel::insert_one(whole("t-2-7".into()))));
        let no_id = [("write.mode", "insert"), ("write.id", "none")];
        check(&no_id, value, Ok(BulkWriteModel::insert_one(own)));
        let merge = [("write.id", "key"), ("write.how", "merge")];
        check(&merge, value, Ok(set(doc! {"_id": "k"}, doc! {"$set": {"a": 1, "b": {"c": "x"}}})));
        check(&merge, "{}", Ok(set(doc! {"_id": "k"}, doc! {"$setOnInsert": {"_id": "k"}})));
    }

    #[test]
    fn a_record_that_cannot_be_written_says_why() {
        check(&[], "{", Err("no JSON object"));
        check(&[], "[1]", Err("no JSON object"));
        check(&[], r#"{"a": {"$oid": "x"}}"#, Err("no document"));
        check(&[("write.id", "value")], "{}", Err("has no '_id'"));
        check(&[("write.id", "fields"), ("write.fields", "a.b")], r#"{"a": 1}"#, Err("no field 'a.b'"));
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(1_000), "]".repeat(1_000));
        check(&[], &deep, Err("recursion limit"));
        let no_key = write(&record(None, Some("{}")), &settings(&[("write.id", "key")])).unwrap_err();
        assert!(no_key.is_about_key() && no_key.outer().class.name() == BAD_RECORD, "{no_key:?}");
    }

    #[test]
    fn a_record_without_a_value_deletes_is_skipped_or_is_bad() {
        let of = |sets: &[(&str, &str)]| write(&record(Some(&[0xff]), None), &settings(sets));
        assert!(of(&[]).is_err());
        assert_eq!(of(&[("write.no_value", "skip")]), Ok(None));
        let id = Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: vec![0xff] });
        let delete = BulkWriteModel::delete_one(doc! {"_id": id});
        assert_eq!(of(&[("write.no_value", "delete"), ("write.id", "key")]), Ok(Some(delete)));
    }
}
