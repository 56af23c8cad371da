//! `insert` (facts/server.md 2.6, 3.3).

use std::sync::Arc;

use backfire_model::Namespace;
use backfire_model::event::Wait;
use bson::Bson;
use bytes::Bytes;

use super::{CommandSpec, Invocation, Run, Running, idl};
use crate::auth::{Action, Permission};
use crate::counters::bump;
use crate::error::Result;
use crate::failpoints::table::{HANG_DURING_BATCH_INSERT, HANG_WITH_LOCK_DURING_BATCH_INSERT};
use crate::net::request::raw;
use crate::ops::{Op, OpKind};
use crate::pipeline::Failed;
use crate::sessions::{CheckedOut, Executed, StatementRecord};
use crate::stages::engine::{self, ConflictLoop, Done};
use crate::stages::locks::{Access, Inside, create, enter};
use crate::storage::collection::{Collection, WriteError};
use crate::write::prepare::{batch, document_to_store, id_of, statement_ids};
use crate::write::{WriteKind, WriteResults, validation};

/// `{insert: collection, documents: […], ordered: bool}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["insert"],
    doc: "inserts documents",
    permission: Permission::Collection(&[Action::Insert]),
    parse: |request, _| {
        let ns = idl::collection(request)?;
        idl::only(request, "insert", &["documents", "ordered", "bypassDocumentValidation"])?;
        let documents = batch(request, "insert", "documents")?;
        let statements = statement_ids(request, documents.len())?;
        let ordered = idl::boolean(request.get("ordered"), "insert", "ordered", false)?.unwrap_or(true);
        let bypass_validation = idl::bypasses_validation(request, "insert")?;
        Ok(Box::new(Insert { ns, documents, statements, ordered, bypass_validation }))
    },
    ..CommandSpec::WRITE
};

/// How many documents one storage transaction may insert, and how many bytes.
const SUB_BATCH_MAX: usize = 500;
const SUB_BATCH_MAX_BYTES: usize = 256 * 1024;

/// The documents of an `insert`.
pub(super) struct Insert {
    pub(super) ns: Namespace,
    pub(super) documents: Vec<Bytes>,
    pub(super) statements: Vec<i32>,
    pub(super) ordered: bool,
    pub(super) bypass_validation: bool,
}

/// A document that waits to be inserted with others.
struct Pending {
    index: usize,
    statement: i32,
    document: Bytes,
}

impl Invocation for Insert {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, mut run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            {
                let mut view = run.op.view();
                view.kind = OpKind::Insert;
                view.ns = self.ns.joined();
            }
            let mut results = WriteResults::new(WriteKind::Insert, run.op);
            let ended = self.all(&mut run, &mut results).await;
            results.finish(&run, ended)
        })
    }
}

impl Insert {
    /// Inserts them all, or up to the first that fails if they are ordered.
    pub(super) async fn all(&self, run: &mut Run<'_>, results: &mut WriteResults) -> Result<(), Failed> {
        let mut pending: Vec<Pending> = Vec::new();
        let mut pending_bytes = 0;
        for (index, (document, statement)) in self.documents.iter().zip(&self.statements).enumerate() {
            let shared = run.shared();
            bump(&shared.counters.ops.insert);
            let prepared =
                match document_to_store(document, shared.profile.stores_dollar_fields, || shared.new_object_id()) {
                    Ok(Some(stored)) => Ok(Bytes::from(stored)),
                    Ok(None) => Ok(document.clone()),
                    Err(error) => Err(error),
                };
            let executed = match run.session.as_mut() {
                Some(session) => session.executed(*statement)?,
                None => Executed::No,
            };
            let prepared = match (prepared, executed) {
                // The real 4.4.0 loses documents here that wait before a replayed one (facts/server.md 2.6); they are
                // inserted first instead.
                (_, Executed::Yes(_)) => {
                    if !self.flush(run, &mut pending, results).await? {
                        return Ok(());
                    }
                    pending_bytes = 0;
                    results.n += 1;
                    results.retried(*statement);
                    continue;
                }
                (Err(error), Executed::No) => {
                    if !self.flush(run, &mut pending, results).await? {
                        return Ok(());
                    }
                    pending_bytes = 0;
                    results.failed(index, error)?;
                    if results.stops(self.ordered) {
                        return Ok(());
                    }
                    continue;
                }
                (Ok(document), Executed::No) => document,
            };
            pending_bytes += prepared.len();
            pending.push(Pending { index, statement: *statement, document: prepared });
            if pending.len() >= SUB_BATCH_MAX || pending_bytes >= SUB_BATCH_MAX_BYTES {
                if !self.flush(run, &mut pending, results).await? {
                    return Ok(());
                }
                pending_bytes = 0;
            }
        }
        self.flush(run, &mut pending, results).await?;
        Ok(())
    }

    /// Inserts the waiting documents; false when the command should stop after them.
    async fn flush(
        &self,
        run: &mut Run<'_>,
        pending: &mut Vec<Pending>,
        results: &mut WriteResults,
    ) -> Result<bool, Failed> {
        let batch = std::mem::take(pending);
        if batch.is_empty() {
            return Ok(true);
        }
        hang_before_locks(run.op).await?;
        // First all in one storage transaction. Whatever goes wrong with that, interruptions too, the documents are
        // then tried one by one, where the same trouble shows itself again.
        if batch.len() > 1 {
            match self.insert_together(run, &batch).await {
                Ok(()) => {
                    results.n += batch.len() as i64;
                    return Ok(true);
                }
                // In a multi-document transaction there is no second try.
                Err(WriteError::Conflict) if run.op.is_in_transaction() => return Err(engine::write_conflict().into()),
                Err(WriteError::Failed(error)) if run.op.is_in_transaction() => return Err(error.into()),
                Err(_) => {}
            }
        }
        for one in &batch {
            match self.insert_alone(run, one).await {
                Ok(()) => results.n += 1,
                Err(error) => {
                    results.failed(one.index, error)?;
                    if results.stops(self.ordered) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    async fn insert_together(&self, run: &mut Run<'_>, batch: &[Pending]) -> Result<(), WriteError> {
        let (inside, collection) = self.acquire(run.op).await?;
        self.write(run, &collection, batch).await?;
        drop(inside);
        Ok(())
    }

    async fn insert_alone(&self, run: &mut Run<'_>, one: &Pending) -> Result<()> {
        let mut conflicts = ConflictLoop::default();
        loop {
            // Ticket and locks are taken anew each time, and every lock is an interrupt point.
            let (inside, collection) = self.acquire(run.op).await?;
            let result = self.write(run, &collection, std::slice::from_ref(one)).await;
            drop(inside);
            match result {
                Err(WriteError::Conflict) => conflicts.met(run.op).await?,
                Err(WriteError::Failed(error)) => {
                    conflicts.passed(run.op);
                    return Err(error);
                }
                Ok(()) => {
                    conflicts.passed(run.op);
                    return Ok(());
                }
            }
        }
    }

    async fn acquire(&self, op: &Arc<Op>) -> Result<(Inside, Arc<Collection>)> {
        if op.shared.catalog.get(&self.ns).is_none() {
            create(op, &self.ns).await?;
        }
        let inside = enter(op, &self.ns, Access::Write).await?;
        let collection = op.collection_or_create(&self.ns)?;
        hang_with_locks(op).await?;
        engine::stall_interruptibly(op, &self.ns).await?;
        Ok((inside, collection))
    }

    async fn write(&self, run: &mut Run<'_>, collection: &Collection, batch: &[Pending]) -> Result<(), WriteError> {
        let op = run.op;
        engine::check_collection(op, run.session.as_deref(), collection)?;
        let mut unit = engine::begin(op);
        for one in batch {
            if !self.bypass_validation {
                validation::check(collection, raw(&one.document), None, op.shared.profile)?;
            }
            collection.insert(&mut unit, raw(&one.document))?;
        }
        let statements = batch.iter().map(|one| (one.statement, StatementRecord::Insert)).collect();
        let first_id = batch.first().map_or(Bson::Null, |one| id_of(raw(&one.document)));
        let session: Option<&CheckedOut> = run.session.as_deref();
        engine::commit(op, &self.ns, unit, session, Done { statements, documents: batch.len() as u32, first_id }).await
    }
}

/// `hangDuringBatchInsert`: before ticket and locks, where interrupts end it.
async fn hang_before_locks(op: &Op) -> Result<()> {
    if let Some(entered) = op.shared.passes(HANG_DURING_BATCH_INSERT) {
        let note = op.note_wait(Wait::InterruptibleStall);
        op.view().msg = Some(HANG_DURING_BATCH_INSERT);
        let waited = op.wait(entered.until_changed()).await;
        op.view().msg = None;
        waited?;
        note.over();
    }
    Ok(())
}

/// `hangWithLockDuringBatchInsert`: with ticket and locks, deaf to interrupts. It stands before the engine's work: when it is
/// let go, an insert whose deadline has passed meanwhile writes nothing (facts/client.md Y4).
async fn hang_with_locks(op: &Op) -> Result<()> {
    if let Some(entered) = op.shared.passes(HANG_WITH_LOCK_DURING_BATCH_INSERT) {
        let note = op.note_wait(Wait::EngineStall);
        op.view().msg = Some(HANG_WITH_LOCK_DURING_BATCH_INSERT);
        op.wait_uninterruptibly(entered.until_changed()).await;
        op.view().msg = None;
        note.over();
        op.check_interrupt()?;
    }
    Ok(())
}
