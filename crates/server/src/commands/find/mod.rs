//! `find`.

mod source;

use std::sync::Arc;

use backfire_model::Namespace;
use backfire_model::event::Wait;
use bson::Document;
use bson::raw::RawArrayBuf;

use super::batch::{self, Shape};
use super::{CommandSpec, Invocation, Run, Running, idl, on_view};
use crate::auth::{Action, Permission};
use crate::counters::bump;
use crate::cursors::Tails;
use crate::error::{CommandError, Result};
use crate::failpoints::table::WAIT_IN_FIND_BEFORE_MAKING_BATCH;
use crate::net::Request;
use crate::net::request::name_text;
use crate::ops::{Op, OpKind};
use crate::pipeline::Failed;
use crate::plan::{Hint, Scan};
use crate::profile::Profile;
use crate::query::{Matcher, Projection, QueryContext, Sort};
use crate::stages::locks::{Access, enter};
use crate::storage::Direction;
use crate::storage::collection::Collection;
use crate::tail::Tail;
use crate::value::view::to_raw;
use crate::value::{DocView, View, key_string, text};
use source::{FindSource, Records};

/// `{find: collection, filter, sort, projection, skip, limit, batchSize, …}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["find"],
    doc: "finds documents",
    unknown_field: |request, _, _, field| unrecognized(request, field),
    kind: OpKind::Query,
    permission: Permission::Collection(&[Action::Find]),
    parse: |request, shared| {
        let ns = idl::collection(request)?;
        check_fields(request, shared.profile)?;
        let collation = idl::collation(request.get("collation"), shared, &ns)?;
        let mut context = shared.query_context(collation.clone());
        if let Some(variables) = object(request, "let")? {
            context.bind_all(&variables.to_document()?)?;
        }
        let filter = object(request, "filter")?;
        let matcher = match filter {
            Some(filter) => Matcher::parse_view(filter, &context)?,
            None => Matcher::all(),
        };
        let sort = match object(request, "sort")? {
            Some(sort) => Some(Sort::parse(&to_raw(&sort.to_document()?)?, collation)?),
            None => None,
        };
        let mut hint = Hint::parse(request.get("hint"))?;
        if let (None, Some(order)) = (&hint, sort.as_ref().and_then(Sort::natural)) {
            hint = Some(Hint::Natural(match order {
                key_string::Direction::Ascending => Direction::Forward,
                key_string::Direction::Descending => Direction::Backward,
            }));
        }
        let sort = sort.filter(|sort| !sort.is_empty() && sort.natural().is_none());
        let limit = count(request, "limit", "Limit")?;
        let flag = |name: &str| request.get(name).is_some_and(View::is_true);
        Ok(Box::new(Find {
            ns,
            matcher: Arc::new(matcher),
            sort,
            projection: projection(request, &context)?,
            hint,
            skip: count(request, "skip", "Skip")?.unwrap_or(0),
            limit: limit.filter(|limit| *limit > 0),
            batch_size: count(request, "batchSize", "BatchSize")?.map(|size| size as usize),
            single_batch: flag("singleBatch"),
            tails: tails(request)?,
            min: bound(request, "min")?,
            max: bound(request, "max")?,
            return_key: flag("returnKey"),
            show_record_id: flag("showRecordId"),
            no_timeout: flag("noCursorTimeout"),
        }))
    },
    in_transactions: true,
    snapshot_reads: true,
    ..CommandSpec::READ
};

struct Find {
    ns: Namespace,
    matcher: Arc<Matcher>,
    sort: Option<Sort>,
    projection: Option<Projection>,
    hint: Option<Hint>,
    skip: u64,
    limit: Option<u64>,
    batch_size: Option<usize>,
    single_batch: bool,
    no_timeout: bool,
    tails: Tails,
    /// Where to begin and to end in the index of the hint.
    min: Option<Document>,
    max: Option<Document>,
    return_key: bool,
    show_record_id: bool,
}

/// `tailable` and `awaitData`.
fn tails(request: &Request) -> Result<Tails> {
    let flag = |name: &str| request.get(name).is_some_and(View::is_true);
    let refuse = |what: &str| Err(CommandError::failed_to_parse(format!("Failed to parse: {what}")));
    match (flag("tailable"), flag("awaitData")) {
        (false, true) => refuse("Cannot set 'awaitData' without also setting 'tailable'"),
        (true, _) if flag("singleBatch") => refuse("cannot use tailable option with the 'singleBatch' option"),
        (true, _) if request.get("sort").and_then(View::as_document).is_some_and(|sort| !sort.is_empty()) => {
            refuse("cannot use tailable option with a sort other than {$natural: 1}")
        }
        (true, true) => Ok(Tails::AndWaits),
        (true, false) => Ok(Tails::Yes),
        (false, false) => Ok(Tails::No),
    }
}

fn bound(request: &Request, name: &str) -> Result<Option<Document>> {
    let bound = object(request, name)?.map(|bound| bound.to_document()).transpose()?;
    Ok(bound.filter(|bound| !bound.is_empty()))
}

fn projection(request: &Request, context: &QueryContext) -> Result<Option<Projection>> {
    match object(request, "projection")? {
        Some(DocView::Raw(spec)) => Projection::parse(spec, context),
        _ => Ok(None),
    }
}

/// An object field.
fn object<'a>(request: &'a Request, name: &str) -> Result<Option<DocView<'a>>> {
    match request.get(name) {
        None => Ok(None),
        Some(View::Document(document)) => Ok(Some(document)),
        Some(other) => Err(CommandError::failed_to_parse(format!(
            "Failed to parse: {}. '{name}' field must be of BSON type object.",
            text::element(name, other)
        ))),
    }
}

/// A number that must not be negative.
fn count(request: &Request, name: &str, label: &str) -> Result<Option<u64>> {
    let Some(value) = request.get(name) else { return Ok(None) };
    let Some(number) = value.number().map(|number| number.to_i64_saturating()) else {
        return Err(CommandError::failed_to_parse(format!(
            "Failed to parse: {}. '{name}' field must be numeric.",
            text::element(name, value)
        )));
    };
    u64::try_from(number)
        .map(Some)
        .map_err(|_| CommandError::bad_value(format!("{label} value must be non-negative, but received: {number}")))
}

fn check_fields(request: &Request, profile: &Profile) -> Result<()> {
    const KNOWN: &[&str] = &[
        "filter",
        "sort",
        "projection",
        "hint",
        "skip",
        "limit",
        "batchSize",
        "singleBatch",
        "noCursorTimeout",
        "collation",
        "allowDiskUse",
        "allowPartialResults",
        "oplogReplay",
        "ntoreturn",
        "term",
        "runtimeConstants",
        "min",
        "max",
        "returnKey",
        "showRecordId",
        "tailable",
        "awaitData",
    ];
    let is_known = |name: &[u8]| match name {
        b"let" => profile.let_in_commands,
        _ => idl::is_one_of(name, KNOWN) || idl::is_generic(name),
    };
    match request.names().find(|name| !is_known(name)) {
        Some(name) => Err(unrecognized(request, name_text(name))),
        None => Ok(()),
    }
}

fn unrecognized(request: &Request, field: &str) -> CommandError {
    let whole = text::document(request.document());
    CommandError::failed_to_parse(format!("Failed to parse: {whole}. Unrecognized field '{field}'."))
}

impl Invocation for Find {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let op = run.op;
            bump(&op.shared.counters.ops.query);
            if op.shared.catalog.is_view(&self.ns) {
                return on_view::find(run, &self.ns.coll).await;
            }
            op.view().ns = self.ns.to_string();
            let inside = enter(op, &self.ns, Access::Read).await?;
            let executor = |error: CommandError| error.caused_by("Executor error during find command");
            let Some(collection) = op.collection(&self.ns)? else {
                hold(op).await.map_err(executor)?;
                return Ok(batch::reply(RawArrayBuf::new(), 0, &self.ns.to_string(), Shape::BatchLast, op.read_time()));
            };
            let (mut records, in_order) = self.records(op, collection)?;
            hold(op).await.map_err(executor)?;
            if let Some(sort) = self.sort.as_ref().filter(|_| !in_order) {
                records.sort(op, sort, self.keep()).await.map_err(executor)?;
            }
            let (batch_size, single_batch, no_timeout) = (self.batch_size, self.single_batch, self.no_timeout);
            let ns = self.ns.to_string();
            let source = FindSource::new(*self, records);
            let reply =
                batch::first(&run, ns, Box::new(source), batch_size, single_batch, Shape::BatchFirst, no_timeout).await;
            drop(inside);
            reply.map_err(|failed| match failed {
                Failed::Error(error) => Failed::Error(executor(error)),
                other => other,
            })
        })
    }
}

impl Find {
    /// Where its documents come from, and whether they come in the order of the sort.
    fn records(&self, op: &Op, collection: Arc<Collection>) -> Result<(Records, bool)> {
        let (matcher, hint) = (Arc::clone(&self.matcher), self.hint.as_ref());
        if self.tails != Tails::No {
            let tail = Tail::new(op, collection, matcher)?;
            // There is nothing to follow in an empty collection.
            let tails = if tail.has_documents() { self.tails } else { Tails::No };
            return Ok((Records::Tail(Box::new(tail), tails), true));
        }
        let (scan, in_order) = match &self.sort {
            _ if self.min.is_some() || self.max.is_some() => {
                let bounds = (self.min.as_ref(), self.max.as_ref());
                (Scan::bounded(op, collection, matcher, hint, bounds)?, self.sort.is_none())
            }
            Some(sort) => Scan::in_order(op, collection, matcher, hint, sort)?,
            None => (Scan::new(op, collection, matcher, hint)?, true),
        };
        Ok((Records::Scan(Box::new(scan)), in_order))
    }

    /// How many of the first documents of the sorted result can be needed.
    fn keep(&self) -> usize {
        self.limit.map_or(usize::MAX, |limit| limit.saturating_add(self.skip).try_into().unwrap_or(usize::MAX))
    }
}

/// `waitInFindBeforeMakingBatch`: where interrupts end it.
async fn hold(op: &Op) -> Result<()> {
    if let Some(entered) = op.shared.passes(WAIT_IN_FIND_BEFORE_MAKING_BATCH) {
        let note = op.note_wait(Wait::InterruptibleStall);
        op.view().msg = Some(WAIT_IN_FIND_BEFORE_MAKING_BATCH);
        let waited = op.wait(entered.until_changed()).await;
        op.view().msg = None;
        waited?;
        note.over();
    }
    Ok(())
}
