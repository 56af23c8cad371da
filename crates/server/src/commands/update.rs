//! `update` (facts/server.md 2.2, 2.4, 2.8).

use std::sync::Arc;

use backfire_model::Namespace;
use bson::raw::{RawDocumentBuf, cstr};
use bson::{Bson, Document, RawDocument};
use bytes::Bytes;

use super::{CommandSpec, Invocation, Run, Running, idl};
use crate::auth::{Action, Needs, Permission};
use crate::counters::bump;
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::net::request::raw;
use crate::ops::OpKind;
use crate::pipeline::Failed;
use crate::plan::Hint;
use crate::profile::Profile;
use crate::query::{Matcher, Sort};
use crate::sessions::{Executed, StatementRecord};
use crate::update::{Update as Change, UpdateOptions};
use crate::value::view::{document_with_room, to_raw};
use crate::value::{DocView, View};
use crate::write::prepare::{batch, id_of, statement_ids};
use crate::write::update::{Change as Changed, Job, Outcome};
use crate::write::{WriteKind, WriteResults};

/// `{update: collection, updates: [{q, u, multi, upsert, …}, …], ordered: bool}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["update"],
    doc: "updates documents",
    permission: Permission::Computed(needs),
    parse: |request, shared| {
        let ns = idl::collection(request)?;
        idl::only_and_let(request, shared.profile, "update", &["updates", "ordered", "bypassDocumentValidation"])?;
        let statements = batch(request, "update", "updates")?;
        let ids = statement_ids(request, statements.len())?;
        let parse = |statement: &Bytes| Statement::parse(raw(statement), STRUCT, shared.profile);
        let updates = statements.iter().map(parse).collect::<Result<_>>()?;
        let ordered = idl::boolean(request.get("ordered"), "update", "ordered", false)?.unwrap_or(true);
        let variables = idl::variables(request, "update")?;
        let bypass_validation = idl::bypasses_validation(request, "update")?;
        Ok(Box::new(Update { ns, updates, ids, ordered, variables, bypass_validation }))
    },
    ..CommandSpec::WRITE
};

fn needs(request: &Request, needs: &mut Needs) {
    needs.on_collection(request, &[Action::Update]);
    let statements = batch(request, "update", "updates").unwrap_or_default();
    if statements.iter().any(|statement| raw(statement).get_bool("upsert").unwrap_or(false)) {
        needs.on_collection(request, &[Action::Insert]);
    }
}

/// The statements of an `update`.
pub(super) struct Update {
    pub(super) ns: Namespace,
    pub(super) updates: Vec<Statement>,
    pub(super) ids: Vec<i32>,
    pub(super) ordered: bool,
    pub(super) variables: Option<Document>,
    pub(super) bypass_validation: bool,
}

/// One of them.
#[derive(Clone)]
pub(super) struct Statement {
    /// `{q, u, multi, upsert}` as `$currentOp` shows it.
    shown: Bytes,
    filter: RawDocumentBuf,
    /// `None`: a document without operators, which stands in `shown`.
    update: Option<Bson>,
    constants: Option<Document>,
    multi: bool,
    upsert: bool,
    collation: Option<Document>,
    array_filters: Vec<Document>,
    hint: Option<Hint>,
    sort: Option<Document>,
}

const STRUCT: &str = "update.updates";
const FIELDS: &[&str] =
    &["q", "u", "c", "multi", "upsert", "collation", "arrayFilters", "hint", "sort", "upsertSupplied"];

impl Statement {
    /// Reads `{q, u, …}`; `owner` is what error texts call it.
    pub(super) fn parse(statement: &RawDocument, owner: &str, profile: &Profile) -> Result<Self> {
        let mut fields = [None; FIELDS.len()];
        for (name, value) in statement.iter().filter_map(std::result::Result::ok) {
            let too_new = name == "sort" && !profile.bulk_write;
            match FIELDS.iter().position(|known| name == *known).filter(|_| !too_new) {
                // The first of a name counts.
                Some(at) => fields[at] = fields[at].or(Some(value)),
                None => return Err(idl::unknown(owner, name.as_str())),
            }
        }
        let field =
            |name: &str| FIELDS.iter().position(|known| *known == name).and_then(|at| fields[at]).map(View::from);
        let object = |name: &str| match field(name) {
            None => Ok(None),
            Some(View::Document(document)) => document.to_document().map(Some),
            Some(other) => Err(idl::wrong_type(owner, name, other, "object")),
        };
        let filter = match field("q") {
            Some(View::Document(DocView::Raw(filter))) => filter.to_owned(),
            _ => to_raw(&object("q")?.ok_or_else(|| idl::missing(owner, "q"))?)?,
        };
        let update = match field("u").ok_or_else(|| idl::missing(owner, "u"))? {
            View::Document(DocView::Raw(update)) if Change::is_whole(update) => None,
            update => Some(update.to_bson()?),
        };
        let array_filters = match field("arrayFilters") {
            None => Vec::new(),
            Some(View::Array(filters)) => filters
                .iter()
                .map(|filter| match filter {
                    View::Document(filter) => filter.to_document(),
                    other => Err(idl::wrong_type(owner, "arrayFilters", other, "object")),
                })
                .collect::<Result<_>>()?,
            Some(other) => return Err(idl::wrong_type(owner, "arrayFilters", other, "array")),
        };
        let flag = |name: &str| Ok::<_, CommandError>(idl::boolean(field(name), owner, name, true)?.unwrap_or(false));
        let (multi, upsert) = (flag("multi")?, flag("upsert")?);
        let mut shown = document_with_room(statement.as_bytes().len() + 32);
        shown.append(cstr!("q"), &*filter);
        if let Some(update) = statement.get("u").ok().flatten() {
            shown.append(cstr!("u"), update);
        }
        shown.append(cstr!("multi"), multi);
        shown.append(cstr!("upsert"), upsert);
        Ok(Self {
            shown: shown.into_bytes().into(),
            filter,
            update,
            constants: object("c")?,
            multi,
            upsert,
            collation: object("collation")?,
            array_filters,
            hint: Hint::parse(field("hint"))?,
            sort: object("sort")?,
        })
    }

    /// The update, where it is a document without operators.
    fn whole(&self) -> Result<&RawDocument> {
        raw(&self.shown).get_document("u").map_err(|error| CommandError::new(22, error.to_string()))
    }
}

impl Invocation for Update {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, mut run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            {
                let mut view = run.op.view();
                view.kind = OpKind::Update;
                view.ns = self.ns.joined();
            }
            let mut results = WriteResults::new(WriteKind::Update, run.op);
            let ended = self.all(&mut run, &mut results).await;
            run.op.view().statement = None;
            results.finish(&run, ended)
        })
    }
}

impl Update {
    /// Runs them all, or up to the first that fails if they are ordered.
    pub(super) async fn all(&self, run: &mut Run<'_>, results: &mut WriteResults) -> Result<(), Failed> {
        for (index, (statement, id)) in self.updates.iter().zip(&self.ids).enumerate() {
            bump(&run.shared().counters.ops.update);
            run.op.view().statement = Some(statement.shown.clone());
            if statement.multi && run.session.is_some() {
                results
                    .failed(index, CommandError::new(72, "Cannot use (or request) retryable writes with multi=true"))?;
            } else if let Some(Executed::Yes(record)) =
                run.session.as_mut().map(|session| session.executed(*id)).transpose()?
            {
                results.retried(*id);
                match record {
                    StatementRecord::Upsert(upserted) => results.upserted(index, *upserted),
                    _ => {
                        results.n += 1;
                        results.modified += 1;
                    }
                }
                continue;
            } else {
                match self.statement(run, statement, *id).await {
                    Ok(Outcome { upserted: Some(upserted), .. }) => results.upserted(index, upserted),
                    Ok(outcome) => {
                        results.n += outcome.matched;
                        results.modified += outcome.modified;
                    }
                    Err(error) => results.failed(index, error)?,
                }
            }
            if results.stops(self.ordered) {
                break;
            }
        }
        Ok(())
    }

    async fn statement(&self, run: &Run<'_>, statement: &Statement, id: i32) -> Result<Outcome> {
        let shared = run.shared();
        let collation = idl::collation(statement.collation.as_ref().map(View::from), shared, &self.ns)?;
        let mut context = shared.query_context(collation.clone());
        for variables in [&self.variables, &statement.constants].into_iter().flatten() {
            context.bind_all(variables)?;
        }
        let matcher = Arc::new(Matcher::parse(&statement.filter, &context)?);
        let options = UpdateOptions {
            multi: statement.multi,
            array_filters: &statement.array_filters,
            context: &context,
            empty_operators: shared.profile.empty_update_operators,
        };
        let update = match &statement.update {
            Some(update) => Change::parse(update, &options)?,
            None => Change::replacement(statement.whole()?, &options)?,
        };
        let sort = statement.sort.as_ref().map(|sort| Sort::parse(&to_raw(sort)?, collation)).transpose()?;
        let remember = move |change: &Changed| {
            let record = match change.before {
                Some(_) => StatementRecord::Update,
                None => StatementRecord::Upsert(Box::new(id_of(&change.after))),
            };
            Ok(vec![(id, record)])
        };
        Job {
            op: run.op,
            ns: &self.ns,
            matcher,
            update: &update,
            multi: statement.multi,
            upsert: statement.upsert,
            hint: statement.hint.as_ref(),
            sort: sort.as_ref(),
            session: run.session.as_deref(),
            remember: &remember,
            bypass_validation: self.bypass_validation,
        }
        .run()
        .await
    }
}
