//! Single writes of bulks.

use backfire_driver::{BulkWriteModel, Namespaced, ReplaceModel, Update, UpdateModel, WriteFilter, WriteOptions};
use backfire_model::Namespace;
use bson::{Bson, Document};

use crate::failure::{Checked, Failure, fail};
use crate::fields::Fields;

/// A write of a collection's bulk: `{updateOne: {filter, ...}}`.
///
/// # Errors
/// When its kind is not known, or a field of it.
pub fn plain(document: Document) -> Checked<BulkWriteModel> {
    let (kind, fields) = open(document)?;
    model(&kind, fields)
}

/// A write of a client's bulk, which names its collection.
///
/// # Errors
/// As [`plain`].
pub fn namespaced(document: Document) -> Checked<Namespaced<BulkWriteModel>> {
    let (kind, mut fields) = open(document)?;
    let namespace: String = fields.required("namespace")?;
    let Some((db, coll)) = namespace.split_once('.') else { fail!("'{namespace}' is not a namespace") };
    Ok(Namespaced { namespace: Namespace::new(db, coll), model: model(&kind, fields)? })
}

fn open(document: Document) -> Checked<(String, Fields)> {
    match Fields::single("a write", document)? {
        (kind, Bson::Document(fields)) => Ok((kind.clone(), Fields::new(kind, fields))),
        (kind, other) => fail!("{kind}: {other}"),
    }
}

fn model(kind: &str, mut fields: Fields) -> Checked<BulkWriteModel> {
    if kind == "insertOne" {
        let document = fields.required("document")?;
        fields.done()?;
        return Ok(BulkWriteModel::InsertOne { document });
    }
    let filter: Document = fields.required("filter")?;
    let mut options = WriteOptions {
        collation: fields.optional("collation")?,
        hint: fields.optional("hint")?,
        ..WriteOptions::default()
    };
    if kind == "deleteOne" || kind == "deleteMany" {
        fields.done()?;
        let delete = WriteFilter { filter, options };
        return Ok(match kind {
            "deleteOne" => BulkWriteModel::DeleteOne(delete),
            _ => BulkWriteModel::DeleteMany(delete),
        });
    }
    options.upsert = fields.optional("upsert")?;
    if kind != "updateMany" {
        options.sort = fields.optional("sort")?;
    }
    if kind == "replaceOne" {
        let replacement = fields.required("replacement")?;
        fields.done()?;
        return Ok(BulkWriteModel::ReplaceOne(ReplaceModel { filter, replacement, options }));
    }
    options.array_filters = fields.optional("arrayFilters")?;
    let update = Update::from_bson(&fields.required::<Bson>("update")?).map_err(Failure::new)?;
    fields.done()?;
    let update = UpdateModel { filter, update, options };
    match kind {
        "updateOne" => Ok(BulkWriteModel::UpdateOne(update)),
        "updateMany" => Ok(BulkWriteModel::UpdateMany(update)),
        _ => fail!("there is no write '{kind}'"),
    }
}
