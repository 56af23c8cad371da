//! Operations on collections.

use backfire_driver::{Collection, IndexModel, Update};
use bson::{Bson, Document};

use super::{
    Arguments, Executed, Outcome, cursor, document_or_null, names, nothing, number, text, unknown, write_model,
};
use crate::failure::{Checked, Failure};
use crate::unified::results;

/// Executes the operation called `name`.
///
/// # Errors
/// When it is not known, or an argument of it.
pub async fn run(collection: &Collection, name: &str, mut arguments: Arguments) -> Checked<Executed> {
    let mut filter = || arguments.fields.required::<Document>("filter");
    match name {
        "find" => {
            let find = collection.find(filter()?);
            arguments.collect(find).await
        }
        "findOne" => {
            let find = collection.find_one(filter()?);
            arguments.execute(find, document_or_null).await
        }
        "createFindCursor" => {
            let find = collection.find(filter()?);
            arguments.execute(find, cursor).await
        }
        "count" => {
            let count = collection.count(filter()?);
            arguments.execute(count, number).await
        }
        "countDocuments" => {
            let count = collection.count_documents(filter()?);
            arguments.execute(count, number).await
        }
        "estimatedDocumentCount" => arguments.execute(collection.estimated_document_count(), number).await,
        "distinct" => {
            let filter = filter()?;
            let field: String = arguments.fields.required("fieldName")?;
            let values = |values| Outcome::Value(Bson::Array(values));
            arguments.execute(collection.distinct(field, filter), values).await
        }
        "aggregate" => {
            let pipeline: Vec<Document> = arguments.fields.required("pipeline")?;
            arguments.collect(collection.aggregate(pipeline)).await
        }
        "insertOne" => {
            let document: Document = arguments.fields.required("document")?;
            let value = |result| Outcome::Value(results::insert_one(&result));
            arguments.execute(collection.insert_one(document), value).await
        }
        "insertMany" => {
            let documents: Vec<Document> = arguments.fields.required("documents")?;
            let value = |result| Outcome::Value(results::insert_many(&result));
            arguments.execute(collection.insert_many(documents), value).await
        }
        "bulkWrite" => {
            let requests: Vec<Document> = arguments.fields.required("requests")?;
            let models: Vec<_> = requests.into_iter().map(write_model::plain).collect::<Checked<_>>()?;
            let value = |result| Outcome::Value(results::bulk_write(&result));
            arguments.execute(collection.bulk_write(models), value).await
        }
        "updateOne" | "updateMany" | "replaceOne" => update(collection, name, arguments).await,
        "deleteOne" => {
            let delete = collection.delete_one(filter()?);
            arguments.execute(delete, |result| Outcome::Value(results::delete(&result))).await
        }
        "deleteMany" => {
            let delete = collection.delete_many(filter()?);
            arguments.execute(delete, |result| Outcome::Value(results::delete(&result))).await
        }
        "findOneAndUpdate" => {
            let filter = filter()?;
            let update = change(&mut arguments)?;
            arguments.execute(collection.find_one_and_update(filter, update), document_or_null).await
        }
        "findOneAndReplace" => {
            let filter = filter()?;
            let replacement: Document = arguments.fields.required("replacement")?;
            arguments.execute(collection.find_one_and_replace(filter, replacement), document_or_null).await
        }
        "findOneAndDelete" => {
            let delete = collection.find_one_and_delete(filter()?);
            arguments.execute(delete, document_or_null).await
        }
        "createIndex" => {
            let mut model = IndexModel::new(arguments.fields.required("keys")?);
            for option in ["name", "unique"] {
                if let Some(value) = arguments.fields.optional::<Bson>(option)? {
                    model.options.insert(option, value);
                }
            }
            arguments.execute(collection.create_index(model), text).await
        }
        "dropIndex" => {
            let name: String = arguments.fields.required("name")?;
            arguments.execute(collection.drop_index(name), nothing).await
        }
        "dropIndexes" => arguments.execute(collection.drop_indexes(), nothing).await,
        "listIndexes" => arguments.collect(collection.list_indexes()).await,
        "listIndexNames" => arguments.execute(collection.list_index_names(), names).await,
        _ => Err(unknown()),
    }
}

async fn update(collection: &Collection, name: &str, mut arguments: Arguments) -> Checked<Executed> {
    let filter: Document = arguments.fields.required("filter")?;
    let value = |result| Outcome::Value(results::update(&result));
    match name {
        "updateOne" => {
            let update = change(&mut arguments)?;
            arguments.execute(collection.update_one(filter, update), value).await
        }
        "updateMany" => {
            let update = change(&mut arguments)?;
            arguments.execute(collection.update_many(filter, update), value).await
        }
        _ => {
            let replacement: Document = arguments.fields.required("replacement")?;
            arguments.execute(collection.replace_one(filter, replacement), value).await
        }
    }
}

/// The change of an update: operators or a pipeline.
fn change(arguments: &mut Arguments) -> Checked<Update> {
    Update::from_bson(&arguments.fields.required::<Bson>("update")?).map_err(Failure::new)
}
