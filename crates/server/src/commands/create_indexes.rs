//! `createIndexes`.

use std::sync::Arc;

use backfire_model::Namespace;
use bson::{Bson, Document, doc};

use super::{CommandSpec, Invocation, Reply, Run, Running, idl};
use crate::auth::{Action, Permission};
use crate::error::{CommandError, Result};
use crate::ops::Op;
use crate::query::{Matcher, QueryContext};
use crate::stages::locks::{Access, enter};
use crate::storage::collection::Collection;
use crate::value::view::to_raw;
use crate::value::wildcard::is_wildcard;
use crate::value::{Collation, View, text};

/// Fields of an index specification.
const SPEC_FIELDS: &[&str] = &[
    "v",
    "key",
    "name",
    "unique",
    "sparse",
    "partialFilterExpression",
    "expireAfterSeconds",
    "background",
    "collation",
    "hidden",
    "storageEngine",
    "ns",
    "dropDups",
    "default_language",
    "language_override",
    "textIndexVersion",
    "weights",
    "bits",
    "min",
    "max",
    "bucketSize",
    "2dsphereIndexVersion",
    "wildcardProjection",
    "prepareUnique",
    "clustered",
];

/// `{createIndexes: collection, indexes: [{key, name, …}, …]}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["createIndexes"],
    doc: "creates indexes, and the collection if need be",
    permission: Permission::Collection(&[Action::CreateIndex]),
    parse: |request, _| {
        let ns = idl::collection(request)?;
        idl::only(request, "createIndexes", &["indexes", "ignoreUnknownIndexOptions", "commitQuorum", "v"])?;
        let specs = match request.get("indexes") {
            Some(View::Array(list)) => list,
            Some(other) => return Err(idl::wrong_type("createIndexes", "indexes", other, "array")),
            None => return Err(idl::missing("createIndexes", "indexes")),
        };
        let specs: Vec<Document> = specs
            .iter()
            .map(|spec| match spec.as_document() {
                Some(spec) => normalized(spec.to_document()?),
                None => Err(CommandError::type_mismatch("The elements of the 'indexes' array must be objects")),
            })
            .collect::<Result<_>>()?;
        if specs.is_empty() {
            return Err(CommandError::bad_value("Must specify at least one index to create"));
        }
        Ok(Box::new(CreateIndexes { ns, specs }))
    },
    in_transactions: true,
    ..CommandSpec::DDL
};

struct CreateIndexes {
    ns: Namespace,
    specs: Vec<Document>,
}

/// Checks a specification and brings its fields into the order in which `listIndexes` shows them.
fn normalized(spec: Document) -> Result<Document> {
    let fail = |code: i32, cause: String| {
        Err(CommandError::new(
            code,
            format!("Error in specification {} :: caused by :: {cause}", text::document(&spec)),
        ))
    };
    if let Some(field) = spec.keys().find(|field| !SPEC_FIELDS.contains(&field.as_str())) {
        let whole = text::document(&spec);
        return fail(
            197,
            format!("The field '{field}' is not valid for an index specification. Specification: {whole}"),
        );
    }
    let key = match spec.get("key") {
        Some(Bson::Document(key)) => key,
        Some(other) => {
            let found = View::from(other).type_name();
            return fail(14, format!("The field 'key' must be an object, but got {found}"));
        }
        None => return fail(9, "The 'key' field is a required property of an index specification".to_owned()),
    };
    if key.is_empty() {
        return fail(67, "Index keys cannot be empty.".to_owned());
    }
    if let Err((code, cause)) = check_wildcard(key, &spec) {
        return fail(code, cause);
    }
    for (path, direction) in key {
        let view = View::from(direction);
        match view {
            View::String(kind) => return fail(67, format!("Unknown index plugin '{kind}'")),
            _ if view.number().is_some_and(|number| !number.is_zero() && !number.is_nan()) => {}
            _ if view.number().is_some() => {
                return fail(67, "Values in the index key pattern cannot be 0.".to_owned());
            }
            _ => {
                return fail(
                    67,
                    format!(
                        "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers < 0, and strings \
                         are allowed.",
                        view.type_name()
                    ),
                );
            }
        }
        if path.is_empty() || path.split('.').any(str::is_empty) {
            return fail(67, "Index keys cannot be an empty field.".to_owned());
        }
    }
    match spec.get("name") {
        Some(Bson::String(name)) if !name.is_empty() => {}
        Some(Bson::String(_)) => return fail(67, "The index name cannot be empty".to_owned()),
        Some(other) => {
            let found = View::from(other).type_name();
            return fail(14, format!("The field 'name' must be a string, but got {found}"));
        }
        None => return fail(9, "The 'name' field is a required property of an index specification".to_owned()),
    }
    let collation = match spec.get("collation") {
        Some(Bson::Document(collation)) => Some(Collation::parse(collation)?),
        _ => None,
    };
    if let Some(filter) = spec.get("partialFilterExpression") {
        let Bson::Document(filter) = filter else {
            let found = View::from(filter).type_name();
            return fail(14, format!("The field 'partialFilterExpression' must be an object, but got {found}"));
        };
        Matcher::parse(&to_raw(filter)?, &QueryContext::new(bson::DateTime::from_millis(0)))?;
    }
    let mut ordered = doc! { "v": 2 };
    if spec.get("unique").is_some_and(|unique| View::from(unique).is_true()) {
        ordered.insert("unique", true);
    }
    for (name, value) in &spec {
        if name == "collation" {
            // An explicit simple one stays until the collection's own has been looked at.
            let whole = collation.clone().flatten().map_or_else(|| doc! { "locale": "simple" }, |it| it.spec().clone());
            ordered.insert("collation", whole);
        } else if !matches!(name.as_str(), "v" | "unique" | "ns" | "background" | "dropDups") {
            ordered.insert(name, value.clone());
        }
    }
    Ok(ordered)
}

/// Checks what is about wildcard indexes, and names that begin with `$`.
fn check_wildcard(key: &Document, spec: &Document) -> std::result::Result<(), (i32, String)> {
    let refused = |code: i32, cause: &str| Err((code, cause.to_owned()));
    let is_wild = key.keys().any(|path| is_wildcard(path));
    let names = key.keys().flat_map(|path| path.strip_suffix("$**").unwrap_or(path).split('.'));
    let mut names = names.filter(|name| !matches!(*name, "$id" | "$ref" | "$db"));
    if names.any(|name| name.starts_with('$')) {
        return refused(67, "Index key contains an illegal field name: field name starts with '$'.");
    }
    let projection = spec.get("wildcardProjection");
    if !is_wild {
        return match projection {
            Some(_) => refused(2, "The field 'wildcardProjection' is only allowed in an 'wildcard' index"),
            None => Ok(()),
        };
    }
    if key.len() > 1 {
        return refused(67, "wildcard indexes do not allow compounding");
    }
    if key.values().any(|value| View::from(value).number().is_some_and(|number| number.to_f64() < 0.0)) {
        return refused(67, "A numeric value in a $** index key pattern must be positive.");
    }
    for option in ["sparse", "unique", "expireAfterSeconds"] {
        if spec.get(option).is_some_and(|value| option == "expireAfterSeconds" || View::from(value).is_true()) {
            return Err((67, format!("Index type 'wildcard' does not support the {option} option")));
        }
    }
    match projection {
        None => Ok(()),
        Some(Bson::Document(_)) if !key.contains_key("$**") => {
            refused(2, "The field 'wildcardProjection' is only allowed when 'key' is {\"$**\": ±1}")
        }
        Some(Bson::Document(projection)) if projection.is_empty() => {
            refused(9, "The 'wildcardProjection' field cannot be an empty object")
        }
        Some(Bson::Document(projection)) => {
            let mut wants =
                projection.iter().filter(|(name, _)| *name != "_id").map(|(_, value)| View::from(value).is_true());
            let first = wants.next();
            if wants.any(|other| Some(other) != first) {
                return refused(9, "Failed to parse wildcardProjection: cannot have both inclusions and exclusions");
            }
            Ok(())
        }
        Some(other) => {
            let found = View::from(other).type_name();
            Err((14, format!("The field 'wildcardProjection' must be a non-empty object, but got {found}")))
        }
    }
}

impl Invocation for CreateIndexes {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let shared = run.shared();
            run.op.view().ns = self.ns.to_string();
            if run.op.is_in_transaction() {
                return Ok(self.in_transaction(run.op).await?);
            }
            let inside = enter(run.op, &self.ns, Access::ChangeCollection).await?;
            let created = shared.catalog.get(&self.ns).is_none();
            let collection = shared.catalog.get_or_create(&self.ns, || shared.new_uuid())?;
            let before = collection.indexes().len() as i32;
            let wanted = self.missing_from(&collection)?;
            if wanted.is_empty() {
                return Ok(all_exist(before)?);
            }
            let mut built: Vec<String> = Vec::new();
            for spec in wanted {
                let name = spec.get_str("name").unwrap_or_default().to_owned();
                if let Err(error) = shared.catalog.create_index(&collection, spec) {
                    // All or none.
                    built.iter().for_each(|name| shared.catalog.drop_index(&collection, name));
                    return Err(error.into());
                }
                built.push(name);
            }
            shared.topology.next_op_time(&shared.clock);
            drop(inside);
            Ok(were_built(created, before, built.len() as i32)?)
        })
    }
}

impl CreateIndexes {
    /// The specifications of indexes that the collection does not have.
    fn missing_from(&self, collection: &Collection) -> Result<Vec<Document>> {
        let mut wanted: Vec<Document> = Vec::new();
        for spec in &self.specs {
            let mut spec = spec.clone();
            inherit_collation(collection, &mut spec);
            if !exists(collection, &spec)? && !wanted.contains(&spec) {
                wanted.push(spec);
            }
        }
        Ok(wanted)
    }

    /// In a transaction, indexes are created on a collection that the transaction created, and while it is empty.
    async fn in_transaction(&self, op: &Arc<Op>) -> Result<Reply> {
        let inside = enter(op, &self.ns, Access::Write).await?;
        let created = op.collection(&self.ns)?.is_none();
        let collection = op.collection_or_create(&self.ns)?;
        let before = collection.indexes().len() as i32;
        let wanted = self.missing_from(&collection)?;
        if wanted.is_empty() {
            return all_exist(before);
        }
        let kind = match op.with_transaction(|open| open.created(&self.ns)).flatten() {
            None => Some("existing"),
            Some(collection) if collection.count(&*op.snapshot()) > 0 => Some("non-empty"),
            Some(_) => None,
        };
        if let Some(kind) = kind {
            let ns = &self.ns;
            let text = format!("Cannot create new indexes on {kind} collection {ns} in a multi-document transaction.");
            return Err(CommandError::new(263, text));
        }
        let built = wanted.len() as i32;
        for spec in wanted {
            op.shared.catalog.prepare_index(&collection, spec)?;
        }
        drop(inside);
        were_built(created, before, built)
    }
}

fn all_exist(count: i32) -> Result<Reply> {
    let note = "all indexes already exist";
    Reply::from_document(&doc! { "numIndexesBefore": count, "numIndexesAfter": count, "note": note })
}

fn were_built(created: bool, before: i32, built: i32) -> Result<Reply> {
    Reply::from_document(&doc! {
        "createdCollectionAutomatically": created,
        "numIndexesBefore": before,
        "numIndexesAfter": before + built,
        "commitQuorum": "votingMembers",
    })
}

/// An index without a collation has the collection's; the simple one is shown as none.
fn inherit_collation(collection: &Collection, spec: &mut Document) {
    match (spec.get_document("collation"), &collection.collation) {
        (Ok(collation), _) if collation.get_str("locale").is_ok_and(|locale| locale == "simple") => {
            spec.remove("collation");
        }
        (Err(_), Some(own)) => {
            spec.insert("collation", own.spec().clone());
        }
        _ => {}
    }
}

/// Whether the collection has the index already.
fn exists(collection: &Collection, spec: &Document) -> Result<bool> {
    let (name, key) = (spec.get_str("name").unwrap_or_default(), spec.get_document("key").cloned().unwrap_or_default());
    for index in collection.indexes().iter() {
        let same_key = index.key_pattern() == key && index.spec.get("collation") == spec.get("collation");
        if index.name == name {
            let same_options = |document: &Document| {
                let mut rest = document.clone();
                rest.remove("v");
                rest
            };
            if same_key && (index.name == "_id_" || same_options(&index.spec) == same_options(spec)) {
                return Ok(true);
            }
            return Err(CommandError::new(
                86,
                format!(
                    "Index must have unique name.The existing index: {} has the same name as the requested index: {}",
                    text::document(&index.spec),
                    text::document(spec)
                ),
            ));
        }
        if same_key && index.spec.get("partialFilterExpression") == spec.get("partialFilterExpression") {
            if index.name == "_id_" {
                return Ok(true);
            }
            return Err(CommandError::new(85, format!("Index with name: {name} already exists with a different name")));
        }
    }
    Ok(false)
}
