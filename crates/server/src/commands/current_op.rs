//! The `currentOp` command.

use bson::raw::{RawArrayBuf, cstr};
use bson::{Document, RawDocumentBuf};

use super::{CommandSpec, Reply, idl, immediate};
use crate::auth::{Action, Needs, Permission, Resource};
use crate::net::Request;
use crate::ops::current_op::{Wanted, documents};
use crate::query::Matcher;
use crate::value::View;
use crate::value::view::to_raw;

/// `{currentOp: 1, $all: bool, $ownOps: bool, …filter}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["currentOp"],
    doc: "lists running operations; long commands are shortened",
    permission: Permission::Computed(needs),
    parse: |request, shared| {
        let flag = |name: &str| request.get(name).is_some_and(View::is_true);
        let (all, own) = (flag("$all"), flag("$ownOps"));
        let mut filter = Document::new();
        for (name, value) in request.document().iter().skip(1).filter_map(Result::ok) {
            let name = name.as_str();
            if !idl::is_generic(name.as_bytes()) && !matches!(name, "$all" | "$ownOps" | "$truncateOps") {
                filter.insert(name, View::from(value).to_bson()?);
            }
        }
        let matcher = Matcher::parse(&to_raw(&filter)?, &shared.query_context(None))?;
        immediate(move |run| {
            // It is an aggregation underneath.
            run.op.view().ns = "admin.$cmd.aggregate".to_owned();
            let wanted = Wanted {
                idle_connections: all,
                truncate: true,
                idle_sessions: true,
                owner: Wanted::owner(run.op, own),
                ..Wanted::default()
            };
            let mut matching = RawArrayBuf::new();
            for document in documents(run.shared(), wanted) {
                if matcher.matches(&document)? {
                    matching.push(document);
                }
            }
            let mut reply = RawDocumentBuf::new();
            reply.append(cstr!("inprog"), matching);
            Ok(Reply::new(reply))
        })
    },
    ..CommandSpec::ADMIN
};

/// Who does not ask for its own operations only must be allowed to see those of others.
fn needs(request: &Request, needs: &mut Needs) {
    if !request.get("$ownOps").is_some_and(View::is_true) {
        needs.add(Action::Inprog, Resource::Cluster);
    }
}
