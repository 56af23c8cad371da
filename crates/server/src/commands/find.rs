//! `find`.

use std::sync::Arc;

use backfire_model::Namespace;
use backfire_model::event::Wait;
use bson::raw::RawArrayBuf;

use super::batch::{self, Shape};
use super::{CommandSpec, Invocation, Run, Running, idl};
use crate::counters::bump;
use crate::cursors::{DocumentSource, Step};
use crate::error::{CommandError, Result};
use crate::failpoints::table::WAIT_IN_FIND_BEFORE_MAKING_BATCH;
use crate::net::Request;
use crate::net::request::raw;
use crate::ops::{Op, OpKind};
use crate::pipeline::Failed;
use crate::plan::{Hint, Scan};
use crate::profile::Profile;
use crate::query::{Matcher, Projection, QueryContext, Sort};
use crate::stages::locks::{Access, enter};
use crate::storage::{Direction, Value};
use crate::value::view::to_raw;
use crate::value::{Collation, DocView, View, key_string, text};

/// `{find: collection, filter, sort, projection, skip, limit, batchSize, …}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["find"],
    doc: "finds documents",
    kind: OpKind::Query,
    parse: |request, shared| {
        let ns = idl::collection(request)?;
        check_fields(request, shared.profile)?;
        let collation = match request.get("collation").and_then(View::as_document) {
            Some(collation) => Collation::parse(collation)?,
            None => None,
        };
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
        Ok(Box::new(Find {
            ns,
            matcher: Arc::new(matcher),
            sort,
            projection: projection(request, &context)?,
            hint,
            skip: count(request, "skip", "Skip")?.unwrap_or(0),
            limit: limit.filter(|limit| *limit > 0),
            batch_size: count(request, "batchSize", "BatchSize")?.map(|size| size as usize),
            single_batch: request.get("singleBatch").is_some_and(View::is_true),
            no_timeout: request.get("noCursorTimeout").is_some_and(View::is_true),
        }))
    },
    snapshot_reads: true,
    ..CommandSpec::READ
};

/// How many bytes a sort may hold.
const SORT_MAX_BYTES: usize = 100 * 1024 * 1024;

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
        "filter", "sort", "projection", "hint", "skip", "limit", "batchSize", "singleBatch", "noCursorTimeout", "collation", "let",
        "allowDiskUse", "allowPartialResults", "oplogReplay", "ntoreturn", "term", "runtimeConstants",
    ];
    const REFUSED: &[&str] = &["min", "max", "returnKey", "showRecordId", "tailable", "awaitData"];
    for (name, value) in request.document().iter().skip(1).filter_map(std::result::Result::ok) {
        let name = name.as_str();
        if REFUSED.contains(&name) && !matches!(View::from(value), View::Bool(false)) {
            return Err(CommandError::new(115, format!("find option '{name}' is not supported by this server")));
        }
        let too_new = name == "let" && !profile.let_in_commands;
        if too_new || (!KNOWN.contains(&name) && !REFUSED.contains(&name) && !idl::is_generic(name)) {
            let whole = text::document(request.document());
            return Err(CommandError::failed_to_parse(format!("Failed to parse: {whole}. Unrecognized field '{name}'.")));
        }
    }
    Ok(())
}

impl Invocation for Find {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let op = run.op;
            bump(&op.shared.counters.ops.query);
            op.view().ns = self.ns.to_string();
            let inside = enter(op, &self.ns, Access::Read).await?;
            let executor = |error: CommandError| error.caused_by("Executor error during find command");
            let Some(collection) = op.shared.catalog.get(&self.ns) else {
                hold(op).await.map_err(executor)?;
                return Ok(batch::reply(RawArrayBuf::new(), 0, &self.ns.to_string(), Shape::BatchLast, op.read_time()));
            };
            let mut scan = Scan::new(op, collection, Arc::clone(&self.matcher), self.hint.as_ref())?;
            hold(op).await.map_err(executor)?;
            let sorted = match &self.sort {
                Some(sort) => Some(sorted(op, &mut scan, sort, self.keep()).await.map_err(executor)?.into_iter()),
                None => None,
            };
            let (batch_size, single_batch, no_timeout) = (self.batch_size, self.single_batch, self.no_timeout);
            let ns = self.ns.to_string();
            let left = self.limit.unwrap_or(u64::MAX);
            let source = FindSource { find: *self, scan, sorted, skipped: 0, left };
            let reply = batch::first(&run, ns, Box::new(source), batch_size, single_batch, Shape::BatchFirst, no_timeout).await;
            drop(inside);
            reply.map_err(|failed| match failed {
                Failed::Error(error) => Failed::Error(executor(error)),
                other => other,
            })
        })
    }
}

impl Find {
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

/// All matches in order, or the first `keep` of them.
async fn sorted(op: &Op, scan: &mut Scan, sort: &Sort, keep: usize) -> Result<Vec<Value>> {
    let mut found: Vec<(Vec<u8>, usize, Value)> = Vec::new();
    let mut bytes = 0;
    while let Some((_, value)) = scan.next(op).await? {
        let key = sort.key(raw(&value))?;
        bytes += key.len() + value.len();
        let at = found.len();
        found.push((key, at, value));
        if keep < usize::MAX && found.len() > 2 * keep.max(64) {
            found.sort_unstable_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
            found.truncate(keep);
            bytes = found.iter().map(|(key, _, value)| key.len() + value.len()).sum();
        }
        if bytes > SORT_MAX_BYTES {
            return Err(CommandError::new(
                292,
                format!("Sort exceeded memory limit of {SORT_MAX_BYTES} bytes, but did not opt in to external sorting."),
            ));
        }
    }
    found.sort_unstable_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
    found.truncate(keep);
    Ok(found.into_iter().map(|(_, _, value)| value).collect())
}

/// The documents of a find: matched, sorted, skipped, limited, projected.
struct FindSource {
    find: Find,
    scan: Scan,
    sorted: Option<std::vec::IntoIter<Value>>,
    skipped: u64,
    left: u64,
}

impl DocumentSource for FindSource {
    fn step(&mut self) -> Result<Step<Value>> {
        if self.left == 0 {
            return Ok(Step::End);
        }
        let step = match &mut self.sorted {
            Some(sorted) => sorted.next().map_or(Step::End, Step::Found),
            None => match self.scan.step()? {
                Step::Found((_, value)) => Step::Found(value),
                Step::Nothing => Step::Nothing,
                Step::End => Step::End,
            },
        };
        let Step::Found(value) = step else { return Ok(step) };
        if self.skipped < self.find.skip {
            self.skipped += 1;
            return Ok(Step::Nothing);
        }
        self.left -= 1;
        let Some(projection) = &self.find.projection else { return Ok(Step::Found(value)) };
        let how = if projection.needs_match() { self.find.matcher.find_match(raw(&value))?.unwrap_or_default() } else { crate::query::Match::default() };
        Ok(Step::Found(batch::value(&projection.apply(raw(&value), how)?)))
    }
}
