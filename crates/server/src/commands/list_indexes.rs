//! `listIndexes`.

use super::batch::{self, Shape};
use super::{CommandSpec, Invocation, Run, Running, idl};
use crate::auth::{Action, Permission};
use crate::cursors::from_list;
use crate::error::CommandError;
use crate::value::View;

/// `{listIndexes: collection, cursor: {batchSize}}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["listIndexes"],
    doc: "lists the indexes of a collection",
    dies_with_client: true,
    permission: Permission::Collection(&[Action::ListIndexes]),
    parse: |request, _| Ok(Box::new(ListIndexes { ns: idl::collection(request)?, batch_size: batch_size(request) })),
    primary: super::PrimaryRule::UnlessSecondaryOk,
    ..CommandSpec::BASE
};

struct ListIndexes {
    ns: backfire_model::Namespace,
    batch_size: Option<usize>,
}

/// `cursor.batchSize`.
pub(super) fn batch_size(request: &crate::net::Request) -> Option<usize> {
    let cursor = request.get("cursor")?.as_document()?;
    cursor.get("batchSize").and_then(idl::whole_number).and_then(|size| usize::try_from(size).ok())
}

impl Invocation for ListIndexes {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            if run.shared().catalog.is_view(&self.ns) {
                return Err(crate::views::refused(&self.ns).into());
            }
            let missing = || CommandError::new(26, format!("ns does not exist: {}", self.ns));
            let collection = run.shared().catalog.get(&self.ns).ok_or_else(missing)?;
            let mut specs = Vec::new();
            for index in collection.indexes().iter() {
                specs.push(batch::value(&crate::value::view::to_raw(&index.spec)?));
            }
            let source = from_list(specs);
            batch::first(&run, self.ns.to_string(), source, self.batch_size, false, Shape::BatchLast, false).await
        })
    }
}

/// Whether a field is set to something true.
pub(super) fn flag(request: &crate::net::Request, name: &str) -> bool {
    request.get(name).is_some_and(View::is_true)
}
