//! Updating documents: what `update` and `findAndModify` do in the same way (facts/server.md 2.2, 7.2).

use std::sync::Arc;

use backfire_model::Namespace;
use bson::raw::RawDocumentBuf;
use bson::{Bson, RawDocument};

use crate::error::{CommandError, Result};
use crate::net::request::raw;
use crate::ops::Op;
use crate::plan::{Hint, Scan};
use crate::profile::Profile;
use crate::query::{Matcher, Sort};
use crate::server::Shared;
use crate::sessions::{CheckedOut, StatementRecord};
use crate::stages::engine::{self, ConflictLoop, Done};
use crate::stages::locks::{Access, Inside, create, enter};
use crate::storage::collection::{Collection, Index, WriteError};
use crate::storage::record::RecordId;
use crate::storage::{Value, Writer};
use crate::update::{Applied, ApplyContext, Oplog, Update};
use crate::value::{View, compare};
use crate::write::prepare::{DOCUMENT_MAX_BYTES, id_of};
use crate::write::validation;

/// Makes what the retry history remembers of a change: statement ids and records.
pub type Remember<'a> = dyn Fn(&Change) -> Result<Vec<(i32, StatementRecord)>> + Sync + 'a;

/// An update that is to be carried out.
pub struct Job<'a> {
    /// The operation.
    pub op: &'a Arc<Op>,
    /// The collection's name.
    pub ns: &'a Namespace,
    /// Which documents.
    pub matcher: Arc<Matcher>,
    /// What is changed.
    pub update: &'a Update,
    /// All that match, or the first.
    pub multi: bool,
    /// Whether a document is inserted when none matches.
    pub upsert: bool,
    /// Which index to use.
    pub hint: Option<&'a Hint>,
    /// Which of the matching documents is the first.
    pub sort: Option<&'a Sort>,
    /// The session, for a write with a `txnNumber`.
    pub session: Option<&'a CheckedOut>,
    /// Makes what the retry history remembers of a change.
    pub remember: &'a Remember<'a>,
    /// Whether the documents need not be valid.
    pub bypass_validation: bool,
}

/// One document's change.
#[derive(Debug, Clone)]
pub struct Change {
    /// The document before; `None` when it was inserted.
    pub before: Option<Value>,
    /// The document after.
    pub after: RawDocumentBuf,
    /// The change in the oplog's form.
    pub oplog: Oplog,
    /// Whether anything changed.
    pub changed: bool,
    /// The collection's UUID.
    pub collection: uuid::Uuid,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many documents matched.
    pub matched: i64,
    /// How many were changed.
    pub modified: i64,
    /// The last change: the only one unless `multi`.
    pub change: Option<Change>,
    /// `_id` of the document that was inserted.
    pub upserted: Option<Bson>,
}

/// What came of one candidate.
enum Tried {
    Updated(Box<Change>),
    /// It is gone or does not match any more.
    Passed,
}

/// What an update that is applied now reads.
pub fn apply_context(shared: &Shared) -> ApplyContext {
    ApplyContext {
        now: shared.clock.now(),
        timestamp: shared.topology.next_op_time(&shared.clock),
        stores_dollar_fields: shared.profile.stores_dollar_fields,
    }
}

/// Checks that documents may be removed from a collection.
///
/// # Errors
/// 20 for a capped one, where the version has it so.
pub fn check_removal(profile: &Profile, collection: &Collection) -> Result<()> {
    if collection.capped.is_some() && profile.capped_is_fixed {
        return Err(CommandError::new(20, format!("cannot remove from a capped collection: {}", collection.ns)));
    }
    Ok(())
}

impl Job<'_> {
    /// Carries it out.
    ///
    /// # Errors
    /// What the update says of a document, 11000, or an interrupt.
    pub async fn run(&self) -> Result<Outcome> {
        let mut conflicts = ConflictLoop::default();
        loop {
            match self.attempt(&mut conflicts).await {
                // Somebody else has inserted the document that this upsert wanted to insert: now there is one to update.
                // In a transaction it stays unseen.
                Err(error)
                    if error.code == 11000
                        && self.upsert
                        && !self.multi
                        && !self.op.is_in_transaction()
                        && self.wants_the_duplicate(&error)? =>
                {
                    conflicts.met(self.op).await?;
                }
                result => {
                    conflicts.passed(self.op);
                    return result;
                }
            }
        }
    }

    async fn attempt(&self, conflicts: &mut ConflictLoop) -> Result<Outcome> {
        let shared = &self.op.shared;
        if self.upsert && shared.catalog.get(self.ns).is_none() {
            create(self.op, self.ns).await?;
        }
        let mut inside = Some(enter(self.op, self.ns, Access::Write).await?);
        let Some(collection) = self.op.collection(self.ns)? else { return Ok(Outcome::default()) };
        engine::check_collection(self.op, self.session, &collection)?;
        engine::stall_interruptibly(self.op, self.ns).await?;
        let mut outcome = Outcome::default();
        let mut candidates = self.candidates(&collection).await?;
        while let Some(record) = candidates.next(self.op).await? {
            candidates.let_go();
            if let Tried::Updated(change) = self.candidate(&mut inside, &collection, record, conflicts).await? {
                outcome.matched += 1;
                outcome.modified += i64::from(change.changed);
                outcome.change = Some(*change);
                if !self.multi {
                    break;
                }
            }
        }
        drop(candidates);
        if outcome.matched == 0 && self.upsert {
            let change = self.insert(&collection, conflicts).await?;
            outcome.upserted = Some(id_of(&change.after));
            outcome.change = Some(change);
        }
        drop(inside);
        Ok(outcome)
    }

    async fn candidates(&self, collection: &Arc<Collection>) -> Result<Candidates> {
        let mut scan = Scan::new(self.op, Arc::clone(collection), Arc::clone(&self.matcher), self.hint)?;
        let Some(sort) = self.sort else { return Ok(Candidates::Scanned(scan)) };
        let mut found = Vec::new();
        while let Some((record, value)) = scan.next(self.op).await? {
            found.push((sort.key(raw(&value))?, record));
        }
        found.sort_unstable();
        Ok(Candidates::Sorted(found.into_iter().map(|(_, record)| record).collect::<Vec<_>>().into_iter()))
    }

    /// Updates one candidate, again and again until it goes through. Between two tries it gives up ticket and locks, and
    /// looks for interrupts when it takes them again.
    async fn candidate(
        &self,
        inside: &mut Option<Inside>,
        collection: &Collection,
        record: RecordId,
        conflicts: &mut ConflictLoop,
    ) -> Result<Tried> {
        loop {
            match self.one(collection, record).await {
                Ok(tried) => {
                    conflicts.passed(self.op);
                    return Ok(tried);
                }
                Err(WriteError::Failed(error)) => return Err(error),
                Err(WriteError::Conflict) => {
                    drop(inside.take());
                    conflicts.met(self.op).await?;
                    *inside = Some(enter(self.op, self.ns, Access::Write).await?);
                }
            }
        }
    }

    /// Updates one document if it is still there and still matches.
    async fn one(&self, collection: &Collection, record: RecordId) -> Result<Tried, WriteError> {
        let mut unit = engine::begin(self.op);
        let Some(before) = unit.get(collection.records, &record.key()) else { return Ok(Tried::Passed) };
        let document = raw(&before);
        let Some(how) = self.matcher.find_match(document)? else { return Ok(Tried::Passed) };
        let context = apply_context(&self.op.shared);
        let Applied { document: after, changed, oplog } =
            self.update.apply_encoded(document, how.array_position, &context)?;
        check_size(&after, "Resulting document after update is larger than", 17419)?;
        let before = Some(before.clone());
        let change = Change { before, after, oplog, changed, collection: collection.uuid };
        if change.changed {
            self.check_change(collection, document, &change.after)?;
            collection.replace(&mut unit, record, document, &change.after)?;
            self.commit(unit, &change).await?;
        }
        Ok(Tried::Updated(Box::new(change)))
    }

    /// Inserts the document that the filter and the update make. Conflicts are slept off with ticket and locks in hand, and
    /// nothing interrupts that (facts/server.md 7.2).
    async fn insert(&self, collection: &Collection, conflicts: &mut ConflictLoop) -> Result<Change> {
        let shared = &self.op.shared;
        let after = self.update.insert_encoded(&self.matcher, shared.new_object_id(), &apply_context(shared))?;
        check_size(&after, "Document to upsert is larger than", 17420)?;
        if !self.bypass_validation {
            validation::check(collection, &after, None, shared.profile)?;
        }
        let change = Change { before: None, after, oplog: Oplog::Whole, changed: true, collection: collection.uuid };
        loop {
            let mut unit = engine::begin(self.op);
            let result = match collection.insert(&mut unit, &change.after) {
                Ok(_) => self.commit(unit, &change).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => {
                    conflicts.passed(self.op);
                    return Ok(change);
                }
                Err(WriteError::Conflict) => conflicts.met(self.op).await?,
                Err(WriteError::Failed(error)) => return Err(error),
            }
        }
    }

    /// Checks what the collection has to say about a change.
    fn check_change(&self, collection: &Collection, before: &RawDocument, after: &RawDocument) -> Result<()> {
        let profile = self.op.shared.profile;
        if !self.bypass_validation {
            validation::check(collection, after, Some(before), profile)?;
        }
        let (old, new) = (before.as_bytes().len(), after.as_bytes().len());
        if collection.capped.is_some() && profile.capped_is_fixed && old != new {
            let text = "Cannot change the size of a document in a capped collection";
            return Err(CommandError::new(10003, format!("{text}: {old} != {new}")));
        }
        Ok(())
    }

    async fn commit(&self, unit: engine::Unit, change: &Change) -> Result<(), WriteError> {
        let statements = if self.session.is_some() { (self.remember)(change)? } else { Vec::new() };
        let done = Done { statements, documents: 1, first_id: id_of(&change.after) };
        engine::commit(self.op, self.ns, unit, self.session, done).await
    }

    /// Whether the key that was there already is exactly what the filter asks for: then trying again finds a document. The
    /// filter has an equality for each field of the index and nothing else, and the values are the same without any collation.
    /// Whoever asks in another way gets 11000 and tries again himself.
    ///
    /// Source: SERVER-14322, `UpdateStage::shouldRetryDuplicateKeyException` of server 4.4. A key of an index with a collation
    /// is never the value that was asked for.
    fn wants_the_duplicate(&self, error: &CommandError) -> Result<bool> {
        let part = |name: &str| error.extra.as_ref().and_then(|extra| extra.get_document(name).ok());
        let (Some(pattern), Some(key)) = (part("keyPattern"), part("keyValue")) else { return Ok(false) };
        let Some(wanted) = self.matcher.only_equalities().filter(|wanted| wanted.len() == key.len()) else {
            return Ok(false);
        };
        let same = key.iter().all(|(path, value)| {
            let fixed = wanted.iter().find(|(wanted, _)| wanted == path);
            fixed.is_some_and(|(_, fixed)| compare::equal(View::from(fixed), View::from(value), None))
        });
        let Some(collection) = self.op.collection(self.ns)?.filter(|_| same) else { return Ok(false) };
        let collated = |index: &Index| index.key_pattern() == *pattern && index.pattern.collation().is_some();
        Ok(!collection.indexes().iter().any(|index| collated(index)))
    }
}

/// The records to look at, in order.
enum Candidates {
    Scanned(Scan),
    Sorted(std::vec::IntoIter<RecordId>),
}

impl Candidates {
    /// Lets go of the state that was read, if that is not needed any more: while it is shared, every write copies the path to
    /// its key.
    fn let_go(&mut self) {
        if matches!(self, Candidates::Scanned(scan) if scan.is_at_end()) {
            *self = Candidates::Sorted(Vec::new().into_iter());
        }
    }

    async fn next(&mut self, op: &Op) -> Result<Option<RecordId>> {
        match self {
            Candidates::Scanned(scan) => Ok(scan.next(op).await?.map(|(record, _)| record)),
            Candidates::Sorted(records) => Ok(records.next()),
        }
    }
}

fn check_size(document: &RawDocumentBuf, text: &str, code: i32) -> Result<()> {
    if document.as_bytes().len() > DOCUMENT_MAX_BYTES {
        return Err(CommandError::new(code, format!("{text} {DOCUMENT_MAX_BYTES}")));
    }
    Ok(())
}
