//! `aggregate`.

mod environment;
mod output;
mod permission;
mod source;

use std::sync::Arc;

use backfire_model::Namespace;
use bson::raw::RawDocumentBuf;
use bson::{Bson, Document};

use super::batch::{self, Shape};
use super::{CommandSpec, Invocation, Run, Running, explain, idl};
use crate::aggregate::{Output, Pipeline, PipelineContext, SourceStage};
use crate::auth::Permission;
use crate::counters::bump;
use crate::cursors::from_list;
use crate::error::{Result, fail};
use crate::net::Request;
use crate::net::request::name_text;
use crate::ops::Op;
use crate::pipeline::Failed;
use crate::plan::{Hint, Scan};
use crate::query::Matcher;
use crate::server::Shared;
use crate::stages::locks::{Access, enter};
use crate::value::view::to_raw;
use crate::value::{Collation, View};
use crate::views;
use environment::{OfServer, Reader};
use source::AggregateSource;

/// `{aggregate: collection | 1, pipeline: [...], cursor: {batchSize}, …}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["aggregate"],
    doc: "runs a pipeline over a collection, or over what the server knows of itself; with $out or $merge it \
          does not end when its client goes away",
    permission: Permission::Computed(permission::add),
    parse: |request, shared| {
        if request.get("let").is_some() && !shared.profile.let_in_commands {
            return fail(9, "unrecognized field 'let'");
        }
        if request.get("explain").is_some_and(View::is_true) {
            let command = View::from(request.document()).to_bson()?.as_document().cloned().unwrap_or_default();
            return explain::read(request, shared, command, explain::Verbosity::QueryPlanner);
        }
        parse(request, shared)
    },
    in_transactions: true,
    snapshot_reads: true,
    ..CommandSpec::READ
};

const FIELDS: &[&str] = &[
    "pipeline",
    "cursor",
    "explain",
    "allowDiskUse",
    "bypassDocumentValidation",
    "hint",
    "collation",
    "let",
    "exchange",
    "fromMongos",
    "needsMerge",
    "use44SortKeys",
    "runtimeConstants",
    "isMapReduceCommand",
];

fn parse(request: &Request, shared: &Arc<Shared>) -> Result<Box<dyn Invocation>> {
    let database = request.database()?.to_owned();
    let collection = match request.get("aggregate") {
        Some(View::String(_)) => Some(idl::collection(request)?.coll),
        Some(one) if one.number().is_some_and(|one| one.to_f64() == 1.0) => None,
        Some(View::Int32(_) | View::Int64(_) | View::Double(_)) => {
            return fail(9, "Invalid command format: the 'aggregate' field must specify a collection name or 1");
        }
        other => {
            let found = other.map_or("missing", View::type_name);
            return fail(73, format!("collection name has invalid type {found}"));
        }
    };
    let is_known = |name: &&[u8]| idl::is_one_of(name, FIELDS) || idl::is_generic(name);
    if let Some(name) = request.names().find(|name| !is_known(name)) {
        return fail(9, format!("unrecognized field '{}'", name_text(name)));
    }
    let mut stages: Vec<Bson> = match request.get("pipeline") {
        Some(View::Array(stages)) => stages.iter().map(View::to_bson).collect::<Result<_>>()?,
        _ => return fail(14, "'pipeline' option must be specified as an array"),
    };
    let batch_size = match request.get("cursor") {
        None => return fail(9, "The 'cursor' option is required, except for aggregate with the explain argument"),
        Some(View::Document(cursor)) => batch_size(cursor.to_document()?)?,
        Some(_) => return fail(14, "cursor field must be missing or an object"),
    };
    let name = collection.clone().unwrap_or_else(|| "$cmd.aggregate".to_owned());
    let ns = Namespace::new(&database, name);
    // A pipeline on a view is one on its collection, with the view's stages in front.
    let mut reads = ns.clone();
    let mut collation = idl::collation(request.get("collation"), shared, &ns)?;
    let mut collection = collection;
    if let Some(resolved) = views::resolve(&shared.catalog, &ns)? {
        stages.splice(..0, resolved.pipeline);
        collection = Some(resolved.ns.coll.clone());
        reads = resolved.ns;
        collation = resolved.collation.as_ref().map(Collation::parse).transpose()?.flatten().or(collation);
    }
    let mut context = shared.query_context(collation);
    if let Some(View::Document(variables)) = request.get("let") {
        context.bind_all(&variables.to_document()?)?;
    }
    let allow_disk_use = request.get("allowDiskUse").is_some_and(View::is_true);
    let context = PipelineContext { query: context, database, collection, allow_disk_use };
    let pipeline = Pipeline::parse(&stages, &context)?;
    let first = pipeline.first_filter().and_then(Bson::as_document).cloned().unwrap_or_default();
    let matcher = Matcher::parse(&to_raw(&first)?, &context.query)?;
    let hint = Hint::parse(request.get("hint"))?;
    Ok(Box::new(Aggregate { ns, reads, pipeline, matcher: Arc::new(matcher), hint, batch_size }))
}

fn batch_size(cursor: Document) -> Result<Option<usize>> {
    if cursor.keys().any(|name| name != "batchSize") {
        return fail(2, "cursor object can't contain fields other than batchSize");
    }
    let Some(value) = cursor.get("batchSize") else { return Ok(None) };
    let Some(size) = View::from(value).number().map(|size| size.to_i64_saturating()) else {
        return fail(14, "cursor.batchSize field must be a number");
    };
    match usize::try_from(size) {
        Ok(size) => Ok(Some(size)),
        Err(_) => fail(2, "cursor.batchSize must not be negative"),
    }
}

struct Aggregate {
    ns: Namespace,
    /// The collection that is read: another one when `ns` is a view.
    reads: Namespace,
    pipeline: Pipeline,
    /// What a `$match` that stands first asks for: other documents need not be read.
    matcher: Arc<Matcher>,
    hint: Option<Hint>,
    batch_size: Option<usize>,
}

impl Invocation for Aggregate {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn writes(&self) -> bool {
        self.pipeline.output().is_some()
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            bump(&run.shared().counters.ops.command);
            run.op.view().ns = self.ns.to_string();
            self.check_transaction(run.op)?;
            match self.pipeline.output() {
                Some(output) => {
                    self.write(&run, output).await?;
                    let nothing = bson::raw::RawArrayBuf::new();
                    Ok(batch::reply(nothing, 0, &self.ns.to_string(), Shape::BatchFirst, None))
                }
                None => self.read(&run).await,
            }
        })
    }
}

impl Aggregate {
    /// Refuses what a transaction cannot have: stages that write, and those that tell of the server and not of data.
    fn check_transaction(&self, op: &Op) -> Result<()> {
        if !op.is_in_transaction() {
            return Ok(());
        }
        let stage = match (self.pipeline.output(), self.pipeline.source()) {
            (Some(output), _) => output.name(),
            (None, Some(source)) => source.name(),
            (None, None) => return Ok(()),
        };
        fail(263, format!("Stage not supported inside of a multi-document transaction: {stage}"))
    }

    /// Starts the pipeline on the collection as it is now.
    fn start(&self, run: &Run<'_>) -> Result<AggregateSource> {
        let reader = Reader::new(run.op);
        let collection = if self.pipeline.reads_collection() { run.op.collection(&self.reads)? } else { None };
        let (input, size) = match collection {
            Some(collection) => {
                let size = collection.count(&*run.op.snapshot());
                let scan = Scan::new(run.op, collection, Arc::clone(&self.matcher), self.hint.as_ref())?;
                (reader.documents(scan), size)
            }
            None => (environment::no_documents(), 0),
        };
        let environment = Arc::new(OfServer::new(run.op, self.reads.clone(), reader.clone()));
        let documents = self.pipeline.run(input, environment)?;
        Ok(AggregateSource::new(documents, reader, size))
    }

    async fn read(&self, run: &Run<'_>) -> Result<super::Reply, Failed> {
        // What the server knows of itself is asked for without tickets and locks: it must be there when all are taken.
        let inside = match self.pipeline.source() {
            Some(SourceStage::CurrentOp(_) | SourceStage::ListLocalSessions(_)) => None,
            _ => Some(enter(run.op, &self.ns, Access::Read).await?),
        };
        let source = self.start(run)?;
        let ns = self.ns.to_string();
        let reply = batch::first(run, ns, Box::new(source), self.batch_size, false, Shape::BatchFirst, false).await;
        drop(inside);
        reply
    }

    async fn write(&self, run: &Run<'_>, output: &Output) -> Result<(), Failed> {
        output::check(run, &self.ns, output)?;
        let inside = enter(run.op, &self.ns, Access::Read).await?;
        let mut source: Box<dyn crate::cursors::DocumentSource> = Box::new(self.start(run)?);
        let mut documents: Vec<RawDocumentBuf> = Vec::new();
        let mut pushed_back = None;
        loop {
            let batch = batch::read(run, &mut source, &mut pushed_back, usize::MAX).await?;
            for document in batch.documents.into_iter().filter_map(std::result::Result::ok) {
                documents.extend(document.as_document().map(bson::RawDocument::to_owned));
            }
            if batch.at_end {
                break;
            }
        }
        drop(inside);
        source = from_list(Vec::new());
        drop(source);
        output::write(run, &self.ns, output, documents).await
    }
}
