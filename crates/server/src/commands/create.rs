//! `create`.

use backfire_model::Namespace;
use bson::Document;

use super::{CommandSpec, Invocation, Reply, Run, Running, idl};
use crate::aggregate::{Pipeline, PipelineContext};
use crate::auth::{Action, Needs, Permission, Resource};
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::server::Shared;
use crate::stages::locks::{Access, enter};
use crate::value::{Collation, View};
use crate::views::View as AView;
use crate::write::validation::Validator;

/// Fields of a collection's options.
const OPTIONS: &[&str] = &[
    "capped",
    "autoIndexId",
    "idIndex",
    "size",
    "max",
    "storageEngine",
    "validator",
    "validationLevel",
    "validationAction",
    "indexOptionDefaults",
    "viewOn",
    "pipeline",
    "collation",
    "flags",
    "temp",
];

/// `{create: collection, …options}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["create"],
    doc: "creates a collection or a view",
    permission: Permission::Computed(needs),
    parse: |request, shared| {
        let ns = idl::collection(request)?;
        idl::only(request, "create", OPTIONS)?;
        if ns.coll.contains('$') {
            return Err(CommandError::new(73, "invalid collection name"));
        }
        let mut options = Document::new();
        for (name, value) in request.document().iter().skip(1).filter_map(std::result::Result::ok) {
            if OPTIONS.contains(&name.as_str()) {
                options.insert(name.as_str(), View::from(value).to_bson()?);
            }
        }
        let capped = request.get("capped").is_some_and(View::is_true);
        if capped && request.get("size").is_none() {
            return Err(CommandError::new(72, "the 'size' field is required when 'capped' is true"));
        }
        let view = AView::from_options(&ns, &options)?;
        if view.is_some() && capped {
            return Err(CommandError::new(72, "Cannot create a capped view"));
        }
        if let Some(view) = &view {
            check_pipeline(view, shared)?;
        }
        Validator::from_options(&options)?;
        if let Ok(collation) = options.get_document("collation") {
            // It is shown with all its options; the simple one is none.
            match Collation::parse(collation)? {
                Some(whole) => drop(options.insert("collation", whole.spec().clone())),
                None => drop(options.remove("collation")),
            }
        }
        Ok(Box::new(Create { ns, options, view }))
    },
    in_transactions: true,
    ..CommandSpec::DDL
};

fn needs(request: &Request, needs: &mut Needs) {
    needs.on_collection(request, &[Action::CreateCollection]);
    if let (Ok(db), Some(View::String(on))) = (request.database(), request.get("viewOn")) {
        needs.add(Action::Find, Resource::collection(db, on));
    }
}

struct Create {
    ns: Namespace,
    options: Document,
    view: Option<AView>,
}

/// A view's pipeline must be one before the view is there.
fn check_pipeline(view: &AView, shared: &Shared) -> Result<()> {
    let context = PipelineContext {
        query: shared.query_context(None),
        database: view.ns.db.clone(),
        collection: Some(view.on.clone()),
        allow_disk_use: false,
    };
    Pipeline::parse(&view.pipeline, &context).map(drop)
}

impl Invocation for Create {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let shared = run.shared();
            run.op.view().ns = self.ns.to_string();
            if run.op.is_in_transaction() {
                if self.view.is_some() {
                    return Err(CommandError::new(263, "Cannot create a view in a multi-document transaction.").into());
                }
                let inside = enter(run.op, &self.ns, Access::Write).await?;
                run.op.create_in_transaction(&self.ns, self.options)?;
                drop(inside);
                return Ok(Reply::empty());
            }
            let inside = enter(run.op, &self.ns, Access::ChangeCollection).await?;
            match self.view {
                Some(view) => shared.catalog.create_view(view)?,
                None => drop(shared.catalog.create(&self.ns, self.options, shared.new_uuid())?),
            }
            shared.topology.next_op_time(&shared.clock);
            drop(inside);
            Ok(Reply::empty())
        })
    }
}
