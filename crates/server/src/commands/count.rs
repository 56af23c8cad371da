//! `count`.

use std::sync::Arc;

use backfire_model::Namespace;
use bson::raw::{RawDocumentBuf, cstr};

use super::{CommandSpec, Invocation, Reply, Run, Running, idl, on_view};
use crate::auth::{Action, Permission};
use crate::error::CommandError;
use crate::plan::{Hint, Scan};
use crate::query::Matcher;
use crate::stages::locks::{Access, enter};
use crate::value::View;
use crate::write::results::append_number;

/// `{count: collection, query: {…}, limit, skip, hint, collation}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["count"],
    doc: "counts documents",
    permission: Permission::Collection(&[Action::Find]),
    parse: |request, shared| {
        let ns = idl::collection(request)?;
        idl::only(request, "count", &["query", "limit", "skip", "hint", "collation", "fields"])?;
        let number = |field: &str| match request.get(field) {
            None => Ok(0),
            Some(value) => idl::whole_number(value).ok_or_else(|| idl::wrong_type("count", field, value, "long")),
        };
        let collation = idl::collation(request.get("collation"), shared, &ns)?;
        let context = shared.query_context(collation);
        let matcher = match request.get("query") {
            None | Some(View::Null | View::Undefined) => Matcher::all(),
            Some(View::Document(query)) => Matcher::parse_view(query, &context)?,
            Some(other) => return Err(idl::wrong_type("count", "query", other, "object")),
        };
        let skip = number("skip")?;
        if skip < 0 {
            return Err(CommandError::new(
                51024,
                format!("BSON field 'skip' value must be >= 0, actual value '{skip}'"),
            ));
        }
        Ok(Box::new(Count {
            ns,
            matcher: Arc::new(matcher),
            limit: number("limit")?.unsigned_abs(),
            skip: skip as u64,
            hint: Hint::parse(request.get("hint"))?,
        }))
    },
    ..CommandSpec::READ
};

struct Count {
    ns: Namespace,
    matcher: Arc<Matcher>,
    limit: u64,
    skip: u64,
    hint: Option<Hint>,
}

impl Invocation for Count {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let op = run.op;
            op.view().ns = self.ns.to_string();
            if op.shared.catalog.is_view(&self.ns) {
                return on_view::count(run, &self.ns.coll).await;
            }
            let inside = enter(op, &self.ns, Access::Read).await?;
            let found = match op.shared.catalog.get(&self.ns) {
                None => 0,
                Some(collection) if self.matcher.is_empty() => collection.count(&*op.shared.engine.snapshot()) as u64,
                Some(collection) => {
                    let enough = if self.limit == 0 { u64::MAX } else { self.limit.saturating_add(self.skip) };
                    let mut scan = Scan::new(op, collection, self.matcher, self.hint.as_ref())?;
                    let mut found = 0;
                    while found < enough && scan.next(op).await?.is_some() {
                        found += 1;
                    }
                    found
                }
            };
            drop(inside);
            let mut counted = found.saturating_sub(self.skip);
            if self.limit > 0 {
                counted = counted.min(self.limit);
            }
            let mut reply = RawDocumentBuf::new();
            append_number(&mut reply, cstr!("n"), counted as i64);
            Ok(Reply::new(reply))
        })
    }
}
