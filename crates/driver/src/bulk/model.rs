//! A single write of a bulk.

use bson::{Bson, Document, RawDocument, RawDocumentBuf, cstr, doc};
use bytes::Bytes;

use backfire_wire::scan::kind;
use backfire_wire::with_id;

use crate::connection::command::encode;
use crate::error::{DriverError, Result};

/// What an update does.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// Update operators: every key begins with `$`.
    Operators(Document),
    /// A pipeline.
    Pipeline(Vec<Document>),
}

impl From<Document> for Update {
    fn from(operators: Document) -> Self {
        Self::Operators(operators)
    }
}

impl From<Vec<Document>> for Update {
    fn from(pipeline: Vec<Document>) -> Self {
        Self::Pipeline(pipeline)
    }
}

impl Update {
    /// Reads a document or an array of documents.
    ///
    /// # Errors
    /// When it is something else.
    pub fn from_bson(value: &Bson) -> Result<Self> {
        let wrong = || DriverError::invalid_argument("an update is a document or an array of documents");
        match value {
            Bson::Document(operators) => Ok(Self::Operators(operators.clone())),
            Bson::Array(stages) => {
                let stages = stages.iter().map(|stage| stage.as_document().cloned());
                stages.collect::<Option<_>>().map(Self::Pipeline).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    /// Its form in a command.
    ///
    /// # Errors
    /// When it is empty, or a document without operators.
    pub(crate) fn to_bson(&self) -> Result<Bson> {
        match self {
            Self::Operators(operators) => match operators.keys().find(|key| !key.starts_with('$')) {
                None if operators.is_empty() => Err(DriverError::invalid_argument("an update must not be empty")),
                None => Ok(Bson::Document(operators.clone())),
                Some(key) => Err(DriverError::invalid_argument(format!(
                    "an update consists of operators; field '{key}' does not begin with '$'"
                ))),
            },
            Self::Pipeline(stages) if stages.is_empty() => {
                Err(DriverError::invalid_argument("a pipeline update must not be empty"))
            }
            Self::Pipeline(stages) => Ok(Bson::from(stages.clone())),
        }
    }
}

/// Checks that a replacement is a plain document.
pub(crate) fn check_replacement(replacement: &Document) -> Result<()> {
    check_first_field(replacement.keys().next().map(String::as_str))
}

fn check_first_field(first: Option<&str>) -> Result<()> {
    match first {
        Some(key) if key.starts_with('$') => Err(DriverError::invalid_argument(format!(
            "a replacement must not begin with an operator, but '{key}' is one"
        ))),
        _ => Ok(()),
    }
}

/// The options of one write in a bulk. Each kind of write uses those that it has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WriteOptions {
    /// `upsert`.
    pub upsert: Option<bool>,
    /// `collation`.
    pub collation: Option<Document>,
    /// `hint`: an index by name or by key.
    pub hint: Option<Bson>,
    /// `arrayFilters`.
    pub array_filters: Option<Vec<Document>>,
    /// `sort` (server 8.0).
    pub sort: Option<Document>,
}

/// An update of a bulk.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateModel {
    /// Which documents.
    pub filter: Document,
    /// What to do with them.
    pub update: Update,
    /// Options.
    pub options: WriteOptions,
}

/// A replacement of a bulk.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplaceModel {
    /// Which document.
    pub filter: Document,
    /// The new document.
    pub replacement: Document,
    /// Options.
    pub options: WriteOptions,
}

/// A replacement of a bulk in bytes, as they are sent: for callers that make many of them.
#[derive(Debug, Clone, PartialEq)]
pub struct RawReplaceModel {
    /// Which document.
    pub filter: RawDocumentBuf,
    /// The new document.
    pub replacement: RawDocumentBuf,
    /// `upsert`.
    pub upsert: bool,
}

impl RawReplaceModel {
    /// Checks that the replacement is a plain document.
    pub(crate) fn check(&self) -> Result<()> {
        let first = self.replacement.iter().next().transpose();
        let first =
            first.map_err(|error| DriverError::invalid_argument(format!("a replacement is no BSON: {error}")))?;
        check_first_field(first.map(|(key, _)| key.as_str()))
    }
}

/// A delete of a bulk.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteFilter {
    /// Which documents.
    pub filter: Document,
    /// Options.
    pub options: WriteOptions,
}

/// One write of a bulk.
#[derive(Debug, Clone, PartialEq)]
pub enum BulkWriteModel {
    /// `insertOne`.
    InsertOne {
        /// The document; gets an `_id` if it has none.
        document: Document,
    },
    /// `updateOne`.
    UpdateOne(UpdateModel),
    /// `updateMany`.
    UpdateMany(UpdateModel),
    /// `replaceOne`.
    ReplaceOne(ReplaceModel),
    /// `replaceOne` in bytes. It has no other options.
    ReplaceOneRaw(RawReplaceModel),
    /// `deleteOne`.
    DeleteOne(WriteFilter),
    /// `deleteMany`.
    DeleteMany(WriteFilter),
}

/// The command that a write belongs to. Updates and replacements share a command's name, but never a command
/// (facts/client.md A5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Insert,
    Update,
    Replace,
    Delete,
}

impl WriteKind {
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update | Self::Replace => "update",
            Self::Delete => "delete",
        }
    }

    /// The field that takes the writes.
    pub(crate) fn sequence(self) -> &'static str {
        match self {
            Self::Insert => "documents",
            Self::Update | Self::Replace => "updates",
            Self::Delete => "deletes",
        }
    }
}

impl BulkWriteModel {
    /// An insert.
    pub fn insert_one(document: Document) -> Self {
        Self::InsertOne { document }
    }

    /// An update of one document.
    pub fn update_one(filter: Document, update: impl Into<Update>) -> Self {
        Self::UpdateOne(UpdateModel { filter, update: update.into(), options: WriteOptions::default() })
    }

    /// An update of all matching documents.
    pub fn update_many(filter: Document, update: impl Into<Update>) -> Self {
        Self::UpdateMany(UpdateModel { filter, update: update.into(), options: WriteOptions::default() })
    }

    /// A replacement of one document.
    pub fn replace_one(filter: Document, replacement: Document) -> Self {
        Self::ReplaceOne(ReplaceModel { filter, replacement, options: WriteOptions::default() })
    }

    /// A delete of one document.
    pub fn delete_one(filter: Document) -> Self {
        Self::DeleteOne(WriteFilter { filter, options: WriteOptions::default() })
    }

    /// A delete of all matching documents.
    pub fn delete_many(filter: Document) -> Self {
        Self::DeleteMany(WriteFilter { filter, options: WriteOptions::default() })
    }

    /// The same write with these options.
    pub fn with_options(mut self, options: WriteOptions) -> Self {
        match &mut self {
            Self::InsertOne { .. } => {}
            Self::ReplaceOneRaw(model) => model.upsert = options.upsert.unwrap_or(false),
            Self::UpdateOne(model) | Self::UpdateMany(model) => model.options = options,
            Self::ReplaceOne(model) => model.options = options,
            Self::DeleteOne(model) | Self::DeleteMany(model) => model.options = options,
        }
        self
    }

    /// Reads `{updateOne: {filter, update, upsert, ...}}` and its like, as the unified test format writes them.
    ///
    /// # Errors
    /// When kind or a field is unknown, or a value has the wrong type.
    pub fn from_document(document: &Document) -> Result<Self> {
        let wrong = |what: String| DriverError::invalid_argument(format!("bulk write model: {what}"));
        let mut entries = document.iter();
        let (Some((kind, Bson::Document(fields))), None) = (entries.next(), entries.next()) else {
            return Err(wrong(format!("expected one kind with its fields, not {document}")));
        };
        let (mut options, mut filter, mut content) = (WriteOptions::default(), None, None);
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("filter", Bson::Document(value)) => filter = Some(value.clone()),
                ("document" | "replacement" | "update", _) => content = Some((name.as_str(), value)),
                ("upsert", Bson::Boolean(upsert)) => options.upsert = Some(*upsert),
                ("collation", Bson::Document(collation)) => options.collation = Some(collation.clone()),
                ("hint", Bson::Document(_) | Bson::String(_)) => options.hint = Some(value.clone()),
                ("sort", Bson::Document(sort)) => options.sort = Some(sort.clone()),
                ("arrayFilters", Bson::Array(filters)) => {
                    let filters = filters.iter().map(|filter| filter.as_document().cloned());
                    let filters = filters.collect::<Option<_>>();
                    options.array_filters =
                        Some(filters.ok_or_else(|| wrong("arrayFilters holds documents only".into()))?);
                }
                _ => return Err(wrong(format!("unknown or wrong field '{name}'"))),
            }
        }
        let missing = |field: &str| wrong(format!("{kind} needs '{field}'"));
        let filter = || filter.clone().ok_or_else(|| missing("filter"));
        let document_of = |field: &str| match content {
            Some((name, Bson::Document(value))) if name == field => Ok(value.clone()),
            _ => Err(missing(field)),
        };
        let update = || match content {
            Some(("update", value)) => Update::from_bson(value),
            _ => Err(missing("update")),
        };
        let model = match kind.as_str() {
            "insertOne" => Self::InsertOne { document: document_of("document")? },
            "updateOne" => Self::update_one(filter()?, update()?),
            "updateMany" => Self::update_many(filter()?, update()?),
            "replaceOne" => Self::replace_one(filter()?, document_of("replacement")?),
            "deleteOne" => Self::delete_one(filter()?),
            "deleteMany" => Self::delete_many(filter()?),
            other => return Err(wrong(format!("unknown kind '{other}'"))),
        };
        Ok(model.with_options(options))
    }

    pub(crate) fn kind(&self) -> WriteKind {
        match self {
            Self::InsertOne { .. } => WriteKind::Insert,
            Self::UpdateOne(_) | Self::UpdateMany(_) => WriteKind::Update,
            Self::ReplaceOne(_) | Self::ReplaceOneRaw(_) => WriteKind::Replace,
            Self::DeleteOne(_) | Self::DeleteMany(_) => WriteKind::Delete,
        }
    }

    /// Whether it can touch several documents; such a write is never retried (facts/client.md A6).
    pub(crate) fn is_multi(&self) -> bool {
        matches!(self, Self::UpdateMany(_) | Self::DeleteMany(_))
    }

    pub(crate) fn options(&self) -> Option<&WriteOptions> {
        match self {
            Self::InsertOne { .. } | Self::ReplaceOneRaw(_) => None,
            Self::UpdateOne(model) | Self::UpdateMany(model) => Some(&model.options),
            Self::ReplaceOne(model) => Some(&model.options),
            Self::DeleteOne(model) | Self::DeleteMany(model) => Some(&model.options),
        }
    }

    /// The write as an element of its command's sequence. An insert must have its `_id` already.
    ///
    /// # Errors
    /// When an update has no operators, or a replacement has.
    pub(crate) fn to_statement(&self) -> Result<Bytes> {
        let updated = |filter: &Document, update: Bson, multi: bool, options: &WriteOptions| {
            let mut statement = doc! {"q": filter, "u": update};
            if multi {
                statement.insert("multi", true);
            }
            if let Some(upsert) = options.upsert {
                statement.insert("upsert", upsert);
            }
            add_common(options, &mut statement);
            statement
        };
        let statement = match self {
            Self::InsertOne { document } => return encode(document),
            Self::ReplaceOneRaw(model) => {
                model.check()?;
                return Ok(raw_update(&model.filter, &model.replacement, model.upsert));
            }
            Self::UpdateOne(model) => updated(&model.filter, model.update.to_bson()?, false, &model.options),
            Self::UpdateMany(model) => updated(&model.filter, model.update.to_bson()?, true, &model.options),
            Self::ReplaceOne(model) => {
                check_replacement(&model.replacement)?;
                updated(&model.filter, Bson::Document(model.replacement.clone()), false, &model.options)
            }
            Self::DeleteOne(model) | Self::DeleteMany(model) => {
                let mut statement = doc! {"q": &model.filter, "limit": if self.is_multi() { 0 } else { 1 }};
                add_common(&model.options, &mut statement);
                statement
            }
        };
        encode(&statement)
    }
}

/// `{q: filter, u: update, upsert: true}`; without `upsert` where it is false.
fn raw_update(filter: &RawDocument, update: &RawDocument, upsert: bool) -> Bytes {
    let mut statement = RawDocumentBuf::new();
    statement.append(cstr!("q"), filter);
    statement.append(cstr!("u"), update);
    if upsert {
        statement.append(cstr!("upsert"), true);
    }
    Bytes::from(statement.into_bytes())
}

fn add_common(options: &WriteOptions, statement: &mut Document) {
    if let Some(collation) = &options.collation {
        statement.insert("collation", collation);
    }
    if let Some(filters) = &options.array_filters {
        statement.insert("arrayFilters", filters.clone());
    }
    if let Some(hint) = &options.hint {
        statement.insert("hint", hint);
    }
    if let Some(sort) = &options.sort {
        statement.insert("sort", sort);
    }
}

/// Puts an `_id` in front if the document has none; returns the `_id`.
pub(crate) fn ensure_id(document: &mut Document, make: impl FnOnce() -> bson::oid::ObjectId) -> Bson {
    if let Some(id) = document.get("_id") {
        return id.clone();
    }
    let id = Bson::ObjectId(make());
    let rest = std::mem::take(document);
    document.insert("_id", &id);
    document.extend(rest);
    id
}

/// Encodes a document to be inserted. One without `_id` gets one: it is sent as the first field, as [`ensure_id`] has it, and
/// added to `document` for the result without moving what is there.
pub(crate) fn encode_with_id(document: &mut Document, make: impl FnOnce() -> bson::oid::ObjectId) -> Result<Bytes> {
    let encoded = encode(document)?;
    if document.contains_key("_id") {
        return Ok(encoded);
    }
    let id = make();
    document.insert("_id", id);
    let whole = with_id(&encoded, kind::OBJECT_ID, &id.bytes());
    let size_bytes = encoded.len();
    let too_large =
        || DriverError::invalid_argument(format!("a document of {size_bytes} bytes has no room for an _id"));
    whole.map(Bytes::from).ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_from_documents_and_become_statements() {
        for (model, statement) in [
            (doc! {"insertOne": {"document": {"_id": 1}}}, doc! {"_id": 1}),
            (
                doc! {"updateOne": {"filter": {"a": 1}, "update": {"$set": {"b": 2}}, "upsert": true, "hint": "h"}},
                doc! {"q": {"a": 1}, "u": {"$set": {"b": 2}}, "upsert": true, "hint": "h"},
            ),
            (
                doc! {"updateMany": {"filter": {}, "update": [{"$set": {"b": 2}}], "collation": {"locale": "en"}}},
                doc! {"q": {}, "u": [{"$set": {"b": 2}}], "multi": true, "collation": {"locale": "en"}},
            ),
            (
                doc! {"replaceOne": {"filter": {}, "replacement": {"x": 1}, "sort": {"x": 1}}},
                doc! {"q": {}, "u": {"x": 1}, "sort": {"x": 1}},
            ),
            (doc! {"deleteOne": {"filter": {"a": 1}}}, doc! {"q": {"a": 1}, "limit": 1}),
            (doc! {"deleteMany": {"filter": {"a": 1}}}, doc! {"q": {"a": 1}, "limit": 0}),
        ] {
            assert_eq!(
                BulkWriteModel::from_document(&model).unwrap().to_statement().unwrap(),
                encode(&statement).unwrap(),
                "{model}"
            );
        }
    }

    #[test]
    fn a_replacement_in_bytes_becomes_the_same_statement() {
        let bytes = |document: &Document| RawDocumentBuf::try_from(document).unwrap();
        for upsert in [true, false] {
            let (filter, replacement) = (doc! {"_id": 1}, doc! {"_id": 1, "a": {"b": "c"}});
            let raw = RawReplaceModel { filter: bytes(&filter), replacement: bytes(&replacement), upsert };
            let options = WriteOptions { upsert: upsert.then_some(true), ..WriteOptions::default() };
            let model = BulkWriteModel::replace_one(filter, replacement).with_options(options);
            assert_eq!(BulkWriteModel::ReplaceOneRaw(raw).to_statement().unwrap(), model.to_statement().unwrap());
        }
        let replacement = bytes(&doc! {"$set": {}});
        let raw = RawReplaceModel { filter: RawDocumentBuf::new(), replacement, upsert: false };
        assert!(BulkWriteModel::ReplaceOneRaw(raw).to_statement().is_err());
    }

    #[test]
    fn wrong_models_are_errors() {
        for model in [
            doc! {},
            doc! {"insertOne": {}},
            doc! {"insertOne": {"document": 1}},
            doc! {"updateOne": {"filter": {}}},
            doc! {"updateOne": {"update": {"$set": {}}}},
            doc! {"deleteOne": {"filter": {}, "x": 1}},
            doc! {"moveOne": {"filter": {}}},
        ] {
            assert!(BulkWriteModel::from_document(&model).is_err(), "{model}");
        }
        for model in [
            BulkWriteModel::update_one(doc! {}, doc! {"a": 1}),
            BulkWriteModel::update_one(doc! {}, doc! {"$set": {}, "a": 1}),
            BulkWriteModel::update_one(doc! {}, doc! {}),
            BulkWriteModel::update_one(doc! {}, Vec::<Document>::new()),
            BulkWriteModel::replace_one(doc! {}, doc! {"$set": {}}),
        ] {
            assert!(model.to_statement().is_err(), "{model:?}");
        }
    }

    #[test]
    fn an_id_is_put_in_front_once() {
        let make = || bson::oid::ObjectId::from_bytes([7; 12]);
        let mut document = doc! {"a": 1};
        let id = ensure_id(&mut document, make);
        assert_eq!(document, doc! {"_id": &id, "a": 1});
        assert_eq!(ensure_id(&mut doc! {"a": 1, "_id": 5}, make), Bson::Int32(5));
    }

    #[test]
    fn an_id_is_encoded_in_front_once() {
        let make = || bson::oid::ObjectId::from_bytes([7; 12]);
        for given in [doc! {}, doc! {"a": 1, "b": {"c": [1, "x"]}}, doc! {"a": 1, "_id": 5}, doc! {"_id": "x", "a": 1}]
        {
            let (mut added, mut expected) = (given.clone(), given.clone());
            let bytes = encode_with_id(&mut added, make).unwrap();
            let id = ensure_id(&mut expected, make);
            assert_eq!(bytes, encode(&expected).unwrap(), "{given}");
            assert_eq!(added.get("_id"), Some(&id), "{given}");
        }
    }
}
