//! `distinct`.

use std::sync::Arc;

use backfire_model::Namespace;
use bson::RawBson;
use bson::raw::{RawArrayBuf, RawDocumentBuf, cstr};

use super::{CommandSpec, Invocation, Reply, Run, Running, idl, on_view};
use crate::auth::{Action, Permission};
use crate::error::CommandError;
use crate::net::request::raw;
use crate::plan::{Hint, Scan};
use crate::query::{Distinct as Values, Matcher};
use crate::stages::locks::{Access, enter};
use crate::value::{Collation, View};
use crate::write::prepare::DOCUMENT_MAX_BYTES;

/// `{distinct: collection, key: path, query: {…}, collation}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["distinct"],
    doc: "lists the different values of a field",
    permission: Permission::Collection(&[Action::Find]),
    parse: |request, shared| {
        let ns = idl::collection(request)?;
        idl::only(request, "distinct", &["key", "query", "collation", "hint"])?;
        let key = match request.get("key") {
            Some(View::String(key)) => key.to_owned(),
            Some(other) => return Err(idl::wrong_type("distinct", "key", other, "string")),
            None => return Err(idl::missing("distinct", "key")),
        };
        let collation = idl::collation(request.get("collation"), shared, &ns)?;
        let context = shared.query_context(collation.clone());
        let matcher = match request.get("query") {
            None | Some(View::Null | View::Undefined) => Matcher::all(),
            Some(View::Document(query)) => Matcher::parse_view(query, &context)?,
            Some(other) => return Err(idl::wrong_type("distinct", "query", other, "object")),
        };
        Ok(Box::new(Distinct {
            ns,
            key,
            matcher: Arc::new(matcher),
            collation,
            hint: Hint::parse(request.get("hint"))?,
        }))
    },
    in_transactions: true,
    snapshot_reads: true,
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
            if op.shared.catalog.is_view(&self.ns) {
                return on_view::distinct(run, &self.ns.coll, &self.key).await;
            }
            let inside = enter(op, &self.ns, Access::Read).await?;
            let mut values = Values::new(&self.key, self.collation.clone())?;
            if let Some(collection) = op.collection(&self.ns)? {
                let mut scan = Scan::new(op, collection, Arc::clone(&self.matcher), self.hint.as_ref())?;
                while let Some((_, value)) = scan.next(op).await? {
                    values.add(raw(&value))?;
                }
            }
            drop(inside);
            let mut list = RawArrayBuf::new();
            for value in values.finish() {
                let value = RawBson::try_from(value).map_err(|error| crate::value::view::invalid_bson(&error))?;
                list.push(value);
            }
            let mut reply = RawDocumentBuf::new();
            reply.append(cstr!("values"), list);
            if let Some(time) = op.read_time() {
                reply.append(cstr!("atClusterTime"), time);
            }
            if reply.as_bytes().len() > DOCUMENT_MAX_BYTES {
                return Err(CommandError::new(17217, "distinct too big, 16mb cap").into());
            }
            Ok(Reply::new(reply))
        })
    }
}
