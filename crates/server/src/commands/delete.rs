//! `delete` (facts/server.md 2.2, 2.4, 2.8).

use std::sync::Arc;

use backfire_model::Namespace;
use bson::raw::{RawDocumentBuf, cstr};
use bson::{Document, RawDocument};
use bytes::Bytes;

use super::{CommandSpec, Invocation, Run, Running, idl};
use crate::auth::{Action, Permission};
use crate::counters::bump;
use crate::error::{CommandError, Result};
use crate::net::request::raw;
use crate::ops::OpKind;
use crate::pipeline::Failed;
use crate::plan::{Hint, Scan};
use crate::profile::Profile;
use crate::query::Matcher;
use crate::sessions::{Executed, StatementRecord};
use crate::stages::engine::{self, ConflictLoop, Done};
use crate::stages::locks::{Access, enter};
use crate::storage::Writer;
use crate::storage::collection::{Collection, WriteError};
use crate::storage::record::RecordId;
use crate::value::View;
use crate::write::prepare::{batch, id_of, statement_ids};
use crate::write::update::check_removal;
use crate::write::{WriteKind, WriteResults};

/// `{delete: collection, deletes: [{q, limit, collation, hint}, …], ordered: bool}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["delete"],
    doc: "deletes documents",
    permission: Permission::Collection(&[Action::Remove]),
    parse: |request, shared| {
        let ns = idl::collection(request)?;
        idl::only_and_let(request, shared.profile, "delete", &["deletes", "ordered", "bypassDocumentValidation"])?;
        let statements = batch(request, "delete", "deletes")?;
        let ids = statement_ids(request, statements.len())?;
        let parse = |statement: &Bytes| Statement::parse(raw(statement), STRUCT, shared.profile);
        let deletes = statements.iter().map(parse).collect::<Result<_>>()?;
        let ordered = idl::boolean(request.get("ordered"), "delete", "ordered", false)?.unwrap_or(true);
        let variables = idl::variables(request, "delete")?;
        Ok(Box::new(Delete { ns, deletes, ids, ordered, variables }))
    },
    ..CommandSpec::WRITE
};

const STRUCT: &str = "delete.deletes";

/// The statements of a `delete`.
pub(super) struct Delete {
    pub(super) ns: Namespace,
    pub(super) deletes: Vec<Statement>,
    pub(super) ids: Vec<i32>,
    pub(super) ordered: bool,
    pub(super) variables: Option<Document>,
}

/// One of them.
#[derive(Clone)]
pub(super) struct Statement {
    /// `{q, limit}` as `$currentOp` shows it.
    shown: Bytes,
    filter: RawDocumentBuf,
    multi: bool,
    collation: Option<Document>,
    hint: Option<Hint>,
}

impl Statement {
    /// Reads `{q, limit, …}`; `owner` is what error texts call it.
    pub(super) fn parse(statement: &RawDocument, owner: &str, profile: &Profile) -> Result<Self> {
        let field = |name: &str| statement.get(name).ok().flatten().map(View::from);
        for (name, _) in statement.iter().filter_map(std::result::Result::ok) {
            let name = name.as_str();
            if !["q", "limit", "collation", "hint"].contains(&name) || profile.lacks_field(owner, name) {
                return Err(idl::unknown(owner, name));
            }
        }
        let filter = match field("q") {
            Some(View::Document(filter)) => crate::value::view::to_raw(&filter.to_document()?)?,
            Some(other) => return Err(idl::wrong_type(owner, "q", other, "object")),
            None => return Err(idl::missing(owner, "q")),
        };
        let limit = field("limit").ok_or_else(|| idl::missing(owner, "limit"))?;
        let multi = match idl::whole_number(limit) {
            Some(0) => true,
            Some(1) => false,
            _ => {
                let got = crate::value::text::value(limit);
                return Err(CommandError::failed_to_parse(format!(
                    "The limit field in delete objects must be 0 or 1. Got {got}"
                )));
            }
        };
        let collation =
            field("collation").and_then(View::as_document).map(|collation| collation.to_document()).transpose()?;
        let mut shown = RawDocumentBuf::new();
        shown.append(cstr!("q"), filter.clone());
        shown.append(cstr!("limit"), if multi { 0 } else { 1 });
        let hint = Hint::parse(field("hint"))?;
        Ok(Self { shown: shown.into_bytes().into(), filter, multi, collation, hint })
    }
}

impl Invocation for Delete {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, mut run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            {
                let mut view = run.op.view();
                view.kind = OpKind::Remove;
                view.ns = self.ns.joined();
            }
            let mut results = WriteResults::new(WriteKind::Delete, run.op);
            let ended = self.all(&mut run, &mut results).await;
            run.op.view().statement = None;
            results.finish(&run, ended)
        })
    }
}

impl Delete {
    /// Runs them all, or up to the first that fails if they are ordered.
    pub(super) async fn all(&self, run: &mut Run<'_>, results: &mut WriteResults) -> Result<(), Failed> {
        for (index, (statement, id)) in self.deletes.iter().zip(&self.ids).enumerate() {
            bump(&run.shared().counters.ops.delete);
            run.op.view().statement = Some(statement.shown.clone());
            let result = if statement.multi && run.session.is_some() {
                Err(CommandError::new(72, "Cannot use (or request) retryable writes with limit=0"))
            } else {
                match run.session.as_mut().map(|session| session.executed(*id)).transpose()? {
                    Some(Executed::Yes(_)) => {
                        results.retried(*id);
                        Ok(1)
                    }
                    Some(Executed::No) | None => self.statement(run, statement, *id).await,
                }
            };
            match result {
                Ok(deleted) => results.n += deleted,
                Err(error) => {
                    results.failed(index, error)?;
                    if results.stops(self.ordered) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Deletes what one statement names; returns how many documents.
    async fn statement(&self, run: &mut Run<'_>, statement: &Statement, id: i32) -> Result<i64> {
        let op = run.op;
        let given = statement.collation.as_ref().map(View::from);
        let mut context = op.shared.query_context(idl::collation(given, &op.shared, &self.ns)?);
        if let Some(variables) = &self.variables {
            context.bind_all(variables)?;
        }
        let matcher = Arc::new(Matcher::parse(&statement.filter, &context)?);
        let mut inside = Some(enter(op, &self.ns, Access::Write).await?);
        let Some(collection) = op.collection(&self.ns)? else { return Ok(0) };
        engine::check_collection(op, None, &collection)?;
        engine::stall_interruptibly(op, &self.ns).await?;
        let mut scan = Scan::new(op, Arc::clone(&collection), Arc::clone(&matcher), statement.hint.as_ref())?;
        let (mut deleted, mut conflicts) = (0, ConflictLoop::default());
        while let Some((record, _)) = scan.next(op).await? {
            loop {
                match self.one(run, &collection, &matcher, record, id).await {
                    Ok(was_there) => {
                        deleted += i64::from(was_there);
                        break;
                    }
                    Err(WriteError::Failed(error)) => return Err(error),
                    Err(WriteError::Conflict) => {
                        // Gives up ticket and locks, so that whoever is in the way can finish.
                        drop(inside.take());
                        conflicts.met(op).await?;
                        inside = Some(enter(op, &self.ns, Access::Write).await?);
                    }
                }
            }
            conflicts.passed(op);
            if !statement.multi && deleted > 0 {
                break;
            }
        }
        drop(inside);
        Ok(deleted)
    }

    /// Deletes one document if it is still there and still matches.
    async fn one(
        &self,
        run: &Run<'_>,
        collection: &Collection,
        matcher: &Matcher,
        record: RecordId,
        id: i32,
    ) -> Result<bool, WriteError> {
        let op = run.op;
        let mut unit = engine::begin(op);
        let Some(value) = unit.get(collection.records, &record.key()) else { return Ok(false) };
        let document = raw(&value);
        if !matcher.matches(document)? {
            return Ok(false);
        }
        check_removal(op.shared.profile, collection)?;
        collection.remove(&mut unit, record, document)?;
        let done = Done { statements: vec![(id, StatementRecord::Delete)], documents: 1, first_id: id_of(document) };
        engine::commit(op, &self.ns, unit, run.session.as_deref(), done).await?;
        Ok(true)
    }
}
