//! What a pipeline sees of the server: collections, and what the server knows of itself.

use std::sync::Arc;

use backfire_model::Namespace;
use bson::raw::RawDocumentBuf;
use bson::{DateTime, Document, doc};
use parking_lot::Mutex;

use crate::aggregate::{CurrentOpOptions, Documents, Environment, Pipeline, PipelineContext, SourceStage};
use crate::cursors::Step;
use crate::error::{CommandError, Result};
use crate::net::request::raw;
use crate::ops::Op;
use crate::ops::current_op::{self, Wanted};
use crate::plan::Scan;
use crate::query::Matcher;
use crate::server::Shared;
use crate::stats;
use crate::storage::collection::Collection;
use crate::value::view::to_raw;
use crate::value::{Collation, View};
use crate::views::{self, Resolved};

/// How many documents are read between two interrupt checks.
const CHECK_EVERY: u32 = 128;

/// Reads documents for the operation that wants them at the moment: first the aggregate, then one getMore after another.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    op: Arc<Mutex<Arc<Op>>>,
}

impl Reader {
    pub(super) fn new(op: &Arc<Op>) -> Self {
        Self { op: Arc::new(Mutex::new(Arc::clone(op))) }
    }

    pub(super) fn set_op(&self, op: &Arc<Op>) {
        *self.op.lock() = Arc::clone(op);
    }

    /// What a scan finds, until an interrupt.
    pub(super) fn documents(&self, mut scan: Scan) -> Documents {
        let reader = self.clone();
        let mut steps = 0_u32;
        Box::new(std::iter::from_fn(move || {
            loop {
                steps = steps.wrapping_add(1);
                if steps.is_multiple_of(CHECK_EVERY)
                    && let Err(error) = reader.op.lock().check_interrupt()
                {
                    return Some(Err(error));
                }
                match scan.step() {
                    Ok(Step::Found((_, value))) => return Some(Ok(raw(&value).to_owned())),
                    Ok(Step::Nothing) => {}
                    Ok(Step::End) => return None,
                    Err(error) => return Some(Err(error)),
                }
            }
        }))
    }
}

pub(super) fn no_documents() -> Documents {
    Box::new(std::iter::empty())
}

/// The server as one operation's pipeline sees it.
pub(super) struct OfServer {
    shared: Arc<Shared>,
    op: Arc<Op>,
    ns: Namespace,
    reader: Reader,
}

impl OfServer {
    pub(super) fn new(op: &Arc<Op>, ns: Namespace, reader: Reader) -> Self {
        Self { shared: Arc::clone(&op.shared), op: Arc::clone(op), ns, reader }
    }

    fn current_op(&self, options: CurrentOpOptions) -> Vec<RawDocumentBuf> {
        let wanted = Wanted {
            idle_connections: options.idle_connections,
            idle_cursors: options.idle_cursors,
            idle_sessions: options.idle_sessions,
            truncate: options.truncate_ops,
            owner: Wanted::owner(&self.op, !options.all_users),
        };
        current_op::documents(&self.shared, wanted)
    }

    /// What a view gives.
    fn of_view(&self, view: &Resolved) -> Result<Documents> {
        let collation = view.collation.as_ref().map(Collation::parse).transpose()?.flatten();
        let context = PipelineContext {
            query: self.shared.query_context(collation),
            database: view.ns.db.clone(),
            collection: Some(view.ns.coll.clone()),
            allow_disk_use: false,
        };
        let pipeline = Pipeline::parse(&view.pipeline, &context)?;
        let input = self.documents(&view.ns.db, &view.ns.coll)?;
        let environment = Self::new(&self.op, view.ns.clone(), self.reader.clone());
        pipeline.run(input, Arc::new(environment))
    }

    fn collection(&self) -> Option<Arc<Collection>> {
        self.shared.catalog.get(&self.ns)
    }

    fn coll_stats(&self, options: &Document) -> Result<Document> {
        let mut told = doc! {
            "ns": self.ns.to_string(),
            "host": self.shared.topology.address(),
            "localTime": self.shared.clock.now(),
        };
        let missing = |option: &str| {
            let text = format!("Unable to retrieve {option} in $collStats stage");
            CommandError::new(26, format!("{text} :: caused by :: Collection [{}] not found.", self.ns))
        };
        if options.contains_key("latencyStats") {
            let none = || doc! { "latency": 0_i64, "ops": 0_i64 };
            told.insert("latencyStats", doc! { "reads": none(), "writes": none(), "commands": none() });
        }
        if options.contains_key("storageStats") {
            let collection = self.collection().ok_or_else(|| missing("storageStats"))?;
            let scale = storage_scale(options);
            let storage = stats::storage(&self.shared, &collection, scale);
            told.insert("storageStats", storage);
        }
        if options.contains_key("count") {
            let collection = self.collection().ok_or_else(|| missing("count"))?;
            told.insert("count", collection.count(&*self.shared.engine.snapshot()) as i64);
        }
        Ok(told)
    }

    fn index_stats(&self) -> Vec<Document> {
        let Some(collection) = self.collection() else { return Vec::new() };
        let since = self.shared.clock.started_at();
        let indexes = collection.indexes();
        let stats = indexes.iter().map(|index| {
            doc! {
                "name": index.name.clone(), "key": index.key_pattern(), "host": self.shared.topology.address(),
                "accesses": { "ops": 0_i64, "since": since }, "spec": index.spec.clone(),
            }
        });
        stats.collect()
    }
}

fn storage_scale(options: &Document) -> u64 {
    let scale =
        options.get_document("storageStats").ok().and_then(|options| View::from(options.get("scale")?).number());
    scale.and_then(|scale| u64::try_from(scale.to_i64_saturating()).ok()).filter(|scale| *scale > 0).unwrap_or(1)
}

impl Environment for OfServer {
    fn documents(&self, database: &str, collection: &str) -> Result<Documents> {
        self.op.check_interrupt()?;
        let ns = Namespace::new(database, collection);
        if let Some(resolved) = views::resolve(&self.shared.catalog, &ns)? {
            return self.of_view(&resolved);
        }
        let Some(collection) = self.op.collection(&ns)? else {
            return Ok(no_documents());
        };
        let scan = Scan::new(&self.op, collection, Arc::new(Matcher::all()), None)?;
        Ok(self.reader.documents(scan))
    }

    fn source(&self, stage: &SourceStage) -> Result<Documents> {
        let documents = match stage {
            SourceStage::CurrentOp(options) => return Ok(Box::new(self.current_op(*options).into_iter().map(Ok))),
            SourceStage::CollStats(options) => vec![self.coll_stats(options)?],
            SourceStage::IndexStats => self.index_stats(),
            SourceStage::ListSessions(options) | SourceStage::ListLocalSessions(options) => {
                let all = !self.shared.auth || options.get_bool("allUsers").unwrap_or(false);
                let owner = self.op.connection.login().session_owner();
                let now_ms = self.shared.clock.now_ms();
                let sessions = self.shared.sessions.all().into_iter().filter(|(id, _)| all || id.uid == owner).map(
                    |(id, idle)| {
                        let last_use = DateTime::from_millis(now_ms - idle.as_millis() as i64);
                        doc! { "_id": id.document(), "lastUse": last_use }
                    },
                );
                sessions.collect()
            }
            SourceStage::PlanCacheStats => Vec::new(),
        };
        Ok(Box::new(documents.into_iter().map(|document| to_raw(&document))))
    }
}
