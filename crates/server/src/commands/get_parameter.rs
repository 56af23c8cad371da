//! `getParameter`.

use bson::{Document, doc};

use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Permission};
use crate::params::{PARAMS, Settable};
use crate::value::View;

/// `{getParameter: 1 | "*" | {showDetails: true}, name: 1, …}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["getParameter"],
    doc: "shows server parameters",
    permission: Permission::Cluster(&[Action::GetParameter]),
    parse: |request, _| {
        let first = request.get("getParameter");
        let all = matches!(first, Some(View::String("*")))
            || first
                .and_then(View::as_document)
                .is_some_and(|options| options.get("allParameters").is_some_and(View::is_true));
        let details = first
            .and_then(View::as_document)
            .is_some_and(|options| options.get("showDetails").is_some_and(View::is_true));
        let wanted: Vec<String> =
            request.document().iter().filter_map(Result::ok).map(|(name, _)| name.as_str().to_owned()).collect();
        immediate(move |run| {
            let mut rows: Vec<_> =
                PARAMS.iter().filter(|row| all || wanted.iter().any(|name| name == row.name)).collect();
            rows.sort_by_key(|row| row.name);
            let mut reply = Document::new();
            for row in rows {
                let value = run.shared().params.show(row);
                if details {
                    let at_runtime = row.settable == Settable::Runtime;
                    reply.insert(
                        row.name,
                        doc! { "value": value, "settableAtRuntime": at_runtime, "settableAtStartup": true },
                    );
                } else {
                    reply.insert(row.name, value);
                }
            }
            if reply.is_empty() && wanted.iter().any(|name| name == "featureCompatibilityVersion") {
                let version = run.shared().profile.name;
                reply.insert("featureCompatibilityVersion", doc! { "version": version });
            }
            if reply.is_empty() {
                Ok(Reply::bare_failure("no option found to get"))
            } else {
                Reply::from_document(&reply)
            }
        })
    },
    ..CommandSpec::ADMIN
};
