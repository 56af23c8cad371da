//! `distinct`.

use std::collections::BTreeMap;
use std::sync::Arc;

use backfire_model::Namespace;
use bson::raw::{RawArrayBuf, RawDocumentBuf, cstr};
use bson::{Bson, RawBson};

use super::{CommandSpec, Invocation, Reply, Run, Running, idl};
use crate::error::{CommandError, Result};
use crate::net::request::raw;
use crate::plan::{Hint, Scan};
use crate::query::Matcher;
use crate::stages::locks::{Access, enter};
use crate::value::{Collation, View, key_string};
use crate::write::prepare::DOCUMENT_MAX_BYTES;

/// `{distinct: collection, key: path, query: {…}, collation}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["distinct"],
    doc: "lists the different values of a field",
    parse: |request, shared| {
        let ns = idl::collection(request)?;
        idl::only(request, "distinct", &["key", "query", "collation", "hint"])?;
        let key = match request.get("key") {
            Some(View::String(key)) => key.to_owned(),
            Some(other) => return Err(idl::wrong_type("distinct", "key", other, "string")),
            None => return Err(idl::missing("distinct", "key")),
        };
        let collation = match request.get("collation").and_then(View::as_document) {
            Some(collation) => Collation::parse(collation)?,
            None => None,
        };
        let context = shared.query_context(collation.clone());
        let matcher = match request.get("query") {
            None | Some(View::Null | View::Undefined) => Matcher::parse(&RawDocumentBuf::new(), &context)?,
            Some(View::Document(query)) => Matcher::parse_view(query, &context)?,
            Some(other) => return Err(idl::wrong_type("distinct", "query", other, "object")),
        };
        Ok(Box::new(Distinct { ns, key, matcher: Arc::new(matcher), collation, hint: Hint::parse(request.get("hint"))? }))
    },
    ..CommandSpec::READ
};

struct Distinct {
    ns: Namespace,
    key: String,
    matcher: Arc<Matcher>,
    collation: Option<Collation>,
    hint: Option<Hint>,
}

impl Invocation for Distinct {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let op = run.op;
            op.view().ns = self.ns.to_string();
            let inside = enter(op, &self.ns, Access::Read).await?;
            // The order of values is that of an index.
            let mut values: BTreeMap<Vec<u8>, Bson> = BTreeMap::new();
            if let Some(collection) = op.shared.catalog.get(&self.ns) {
                let mut scan = Scan::new(op, collection, Arc::clone(&self.matcher), self.hint.as_ref())?;
                let parts: Vec<&str> = self.key.split('.').collect();
                while let Some((_, value)) = scan.next(op).await? {
                    collect(View::from(raw(&value)), &parts, self.collation.as_ref(), &mut values)?;
                }
            }
            drop(inside);
            let mut list = RawArrayBuf::new();
            for value in values.into_values() {
                let value = RawBson::try_from(value).map_err(|error| crate::value::view::invalid_bson(&error))?;
                list.push(value);
            }
            let mut reply = RawDocumentBuf::new();
            reply.append(cstr!("values"), list);
            if reply.as_bytes().len() > DOCUMENT_MAX_BYTES {
                return Err(CommandError::new(17217, "distinct too big, 16mb cap").into());
            }
            Ok(Reply::new(reply))
        })
    }
}

/// Collects the values at a path; arrays on the way and at its end are spread.
fn collect(
    value: View<'_>,
    parts: &[&str],
    collation: Option<&Collation>,
    values: &mut BTreeMap<Vec<u8>, Bson>,
) -> Result<()> {
    let mut add = |value: View<'_>| -> Result<()> {
        let key = key_string::encode(value, collation);
        if let std::collections::btree_map::Entry::Vacant(slot) = values.entry(key) {
            slot.insert(value.to_bson()?);
        }
        Ok(())
    };
    match (parts, value) {
        ([], View::Array(array)) => array.iter().try_for_each(add),
        ([], value) => add(value),
        ([first, rest @ ..], View::Document(document)) => match document.get(first) {
            Some(inner) => collect(inner, rest, collation, values),
            None => Ok(()),
        },
        ([first, rest @ ..], View::Array(array)) => {
            if let Some(element) = first.parse::<usize>().ok().and_then(|index| array.get(index)) {
                collect(element, rest, collation, values)?;
            }
            for element in array.iter().filter(|element| matches!(element, View::Document(_))) {
                collect(element, parts, collation, values)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
