//! `findAndModify` (facts/server.md 2.2, 2.4).

use std::sync::Arc;

use backfire_model::Namespace;
use backfire_model::event::ServerEvent;
use bson::raw::{RawDocumentBuf, cstr};
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, RawBsonRef, RawDocument, Timestamp, doc};

use super::{CommandSpec, Invocation, OkPlace, Reply, Run, Running, idl};
use crate::auth::{Action, Needs, Permission};
use crate::counters::bump;
use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::net::request::raw;
use crate::pipeline::Failed;
use crate::plan::{Hint, Scan};
use crate::profile::Profile;
use crate::query::{Match, Matcher, Projection, Sort};
use crate::server::Shared;
use crate::sessions::history::{FindAndModifyKind, FindAndModifyRecord};
use crate::sessions::{Executed, StatementRecord};
use crate::stages::engine::{self, ConflictLoop, Done};
use crate::stages::locks::{Access, enter};
use crate::storage::collection::{Collection, WriteError};
use crate::storage::record::RecordId;
use crate::storage::{Value, Writer};
use crate::update::{Update, UpdateOptions};
use crate::value::view::to_raw;
use crate::value::{View, text};
use crate::write::prepare::id_of;
use crate::write::update::{Change, Job, Outcome, check_removal};

/// `{findAndModify: collection, query, sort, remove | update, new, fields, upsert, …}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["findAndModify", "findandmodify"],
    doc: "updates or removes one document and returns it",
    ok_place: OkPlace::AfterWriteConcernError,
    permission: Permission::Computed(needs),
    parse: |request, shared| {
        if let Some(sequence) = request.sequences.first() {
            let text = "The findAndModify command does not support document sequences.";
            return Err(CommandError::new(40472, format!("{text} ({})", sequence.name)));
        }
        only_known(request, shared.profile)?;
        parse(request, shared)
    },
    ..CommandSpec::WRITE
};

fn needs(request: &Request, needs: &mut Needs) {
    let flag = |name: &str| request.get(name).is_some_and(View::is_true);
    let change = if flag("remove") { Action::Remove } else { Action::Update };
    needs.on_collection(request, &[Action::Find, change]);
    if flag("upsert") {
        needs.on_collection(request, &[Action::Insert]);
    }
}

/// A findAndModify is always one statement.
const STATEMENT: i32 = 0;
const STRUCT: &str = "findAndModify";
const FIELDS: &[&str] = &[
    "query",
    "sort",
    "remove",
    "update",
    "new",
    "fields",
    "upsert",
    "bypassDocumentValidation",
    "collation",
    "arrayFilters",
    "hint",
];

struct FindAndModify {
    ns: Namespace,
    matcher: Arc<Matcher>,
    /// `None`: remove.
    update: Option<Update>,
    sort: Option<Sort>,
    projection: Option<Projection>,
    hint: Option<Hint>,
    return_new: bool,
    upsert: bool,
    bypass_validation: bool,
    /// The request as error texts spell it.
    spelled: String,
}

/// Refuses unknown fields. Older versions have words and a code of their own for them.
fn only_known(request: &Request, profile: &Profile) -> Result<()> {
    let only = idl::only_and_let(request, profile, STRUCT, FIELDS);
    let in_old_words = |error: CommandError| CommandError::new(51177, error.message.replacen("findAndModify.", "", 1));
    if profile.find_and_modify_names_itself { only } else { only.map_err(in_old_words) }
}

fn parse(request: &Request, shared: &Shared) -> Result<Box<dyn Invocation>> {
    let profile = shared.profile;
    let mut context = shared.query_context(None);
    let ns = idl::collection(request)?;
    let object = |name: &str| match request.get(name) {
        None | Some(View::Null | View::Undefined) => Ok(Document::new()),
        Some(View::Document(document)) => document.to_document(),
        Some(other) => Err(idl::wrong_type(STRUCT, name, other, "object")),
    };
    let flag = |name: &str| request.get(name).is_some_and(View::is_true);
    let (remove, return_new, upsert) = (flag("remove"), flag("new"), flag("upsert"));
    let update = request.get("update").map(View::to_bson).transpose()?;
    let contradiction = match (&update, remove) {
        (None, false) => Some("Either an update or remove=true must be specified"),
        (Some(_), true) => Some("Cannot specify both an update and remove=true"),
        (None, true) if upsert => Some("Cannot specify both upsert=true and remove=true "),
        (None, true) if return_new => {
            Some("Cannot specify both new=true and remove=true; 'remove' always returns the deleted document")
        }
        _ => None,
    };
    if let Some(text) = contradiction {
        return Err(CommandError::failed_to_parse(text));
    }
    let (query, fields, sort, collation) = (object("query")?, object("fields")?, object("sort")?, object("collation")?);
    let variables = object("let")?;
    context = context.with_collation(idl::collation(request.get("collation"), shared, &ns)?);
    context.bind_all(&variables)?;
    let array_filters: Vec<Document> = match request.get("arrayFilters").and_then(View::as_array) {
        Some(filters) => {
            filters.iter().filter_map(View::as_document).map(|filter| filter.to_document()).collect::<Result<_>>()?
        }
        None => Vec::new(),
    };
    let parsed = match &update {
        Some(update) => {
            let options = UpdateOptions {
                multi: false,
                array_filters: &array_filters,
                context: &context,
                empty_operators: profile.empty_update_operators,
            };
            Some(Update::parse(update, &options)?)
        }
        None => None,
    };
    let hint_spelled = request.get("hint").map(View::to_bson).transpose()?.unwrap_or_else(|| doc! {}.into());
    let mut spelled = doc! { "findAndModify": ns.coll.clone(), "query": query.clone() };
    match update {
        Some(update) => drop(spelled.insert("update", update)),
        None => drop(spelled.insert("remove", true)),
    }
    if upsert {
        spelled.insert("upsert", true);
    }
    spelled
        .extend(doc! { "fields": fields.clone(), "sort": sort.clone(), "hint": hint_spelled, "collation": collation });
    if return_new {
        spelled.insert("new", true);
    }
    Ok(Box::new(FindAndModify {
        ns,
        matcher: Arc::new(Matcher::parse(&to_raw(&query)?, &context)?),
        update: parsed,
        sort: if sort.is_empty() { None } else { Some(Sort::parse(&to_raw(&sort)?, context.collation().cloned())?) },
        projection: Projection::parse(&to_raw(&fields)?, &context)?,
        hint: Hint::parse(request.get("hint"))?,
        return_new,
        upsert,
        bypass_validation: idl::bypasses_validation(request, STRUCT)?,
        spelled: text::document(&spelled),
    }))
}

/// What the command answers.
struct Answer {
    n: i32,
    updated_existing: Option<bool>,
    upserted: Option<Bson>,
    value: Option<RawDocumentBuf>,
    retried: bool,
}

impl Invocation for FindAndModify {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, mut run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            run.op.view().ns = self.ns.to_string();
            let executed = run.session.as_mut().map(|session| session.executed(STATEMENT)).transpose()?;
            let answer = match executed {
                Some(Executed::Yes(record)) => {
                    run.op.observe(|op, write| ServerEvent::Replayed { op, write, statements: 1 });
                    self.replay(record)?
                }
                Some(Executed::No) | None => match &self.update {
                    Some(update) => self.update(&run, update).await?,
                    None => self.remove(&run).await?,
                },
            };
            Ok(self.reply(&run, answer))
        })
    }
}

impl FindAndModify {
    fn reply(&self, run: &Run<'_>, answer: Answer) -> Reply {
        let mut last_error = RawDocumentBuf::new();
        last_error.append(cstr!("n"), answer.n);
        if let Some(updated) = answer.updated_existing {
            last_error.append(cstr!("updatedExisting"), updated);
        }
        if let Some(upserted) = answer.upserted.and_then(|id| bson::RawBson::try_from(id).ok()) {
            last_error.append(cstr!("upserted"), upserted);
        }
        let mut fields = RawDocumentBuf::new();
        fields.append(cstr!("lastErrorObject"), last_error);
        match answer.value {
            Some(value) => fields.append(cstr!("value"), value),
            None => fields.append(cstr!("value"), RawBsonRef::Null),
        }
        if answer.retried && run.shared().profile.retried_stmt_ids {
            fields.append(cstr!("retriedStmtId"), STATEMENT);
        }
        Reply::new(fields)
    }

    fn project(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        let Some(projection) = &self.projection else { return Ok(document.to_owned()) };
        let how = if projection.needs_match() {
            self.matcher.find_match(document)?.unwrap_or_default()
        } else {
            Match::default()
        };
        projection.apply(document, how)
    }

    async fn update(&self, run: &Run<'_>, update: &Update) -> Result<Answer> {
        bump(&run.shared().counters.ops.update);
        let remember = |change: &Change| {
            let kind = match (&change.before, self.return_new) {
                (None, _) => FindAndModifyKind::Upsert,
                (Some(_), true) => FindAndModifyKind::UpdateKeptAfter,
                (Some(_), false) => FindAndModifyKind::UpdateKeptBefore,
            };
            let image = match (kind, &change.before) {
                (FindAndModifyKind::UpdateKeptBefore, Some(before)) => raw(before).to_owned(),
                _ => change.after.clone(),
            };
            let entry = self.oplog_entry(run, kind, change.collection, change.oplog()?, id_of(&change.after));
            let record = FindAndModifyRecord { kind, image, oplog_entry: entry };
            Ok(vec![(STATEMENT, StatementRecord::FindAndModify(Box::new(record)))])
        };
        let job = Job {
            op: run.op,
            ns: &self.ns,
            matcher: Arc::clone(&self.matcher),
            update,
            multi: false,
            upsert: self.upsert,
            hint: self.hint.as_ref(),
            sort: self.sort.as_ref(),
            session: run.session.as_deref(),
            remember: &remember,
            bypass_validation: self.bypass_validation,
        };
        let Outcome { change, upserted, .. } = job.run().await?;
        let Some(change) = change else {
            return Ok(Answer { n: 0, updated_existing: Some(false), upserted: None, value: None, retried: false });
        };
        let value = match (&change.before, self.return_new) {
            (_, true) => Some(self.project(&change.after)?),
            (Some(before), false) => Some(self.project(raw(before))?),
            (None, false) => None,
        };
        Ok(Answer { n: 1, updated_existing: Some(change.before.is_some()), upserted, value, retried: false })
    }

    async fn remove(&self, run: &Run<'_>) -> Result<Answer> {
        let op = run.op;
        bump(&op.shared.counters.ops.delete);
        let nothing = Answer { n: 0, updated_existing: None, upserted: None, value: None, retried: false };
        let mut conflicts = ConflictLoop::default();
        loop {
            let inside = enter(op, &self.ns, Access::Write).await?;
            let Some(collection) = op.collection(&self.ns)? else { return Ok(nothing) };
            engine::check_collection(op, None, &collection)?;
            engine::stall_interruptibly(op, &self.ns).await?;
            let result = self.remove_first(run, &collection).await;
            drop(inside);
            match result {
                Err(WriteError::Conflict) => conflicts.met(op).await?,
                Err(WriteError::Failed(error)) => return Err(error),
                Ok(removed) => {
                    conflicts.passed(op);
                    let Some(removed) = removed else { return Ok(nothing) };
                    return Ok(Answer { n: 1, value: Some(self.project(raw(&removed))?), ..nothing });
                }
            }
        }
    }

    /// Removes the first document, by the sort order if there is one.
    async fn remove_first(&self, run: &Run<'_>, collection: &Arc<Collection>) -> Result<Option<Value>, WriteError> {
        let op = run.op;
        let mut scan = Scan::new(op, Arc::clone(collection), Arc::clone(&self.matcher), self.hint.as_ref())?;
        let mut first: Option<(Vec<u8>, RecordId)> = None;
        while let Some((record, value)) = scan.next(op).await? {
            let Some(sort) = &self.sort else {
                first = Some((Vec::new(), record));
                break;
            };
            let key = sort.key(raw(&value))?;
            if first.as_ref().is_none_or(|(smallest, _)| key < *smallest) {
                first = Some((key, record));
            }
        }
        let Some((_, record)) = first else { return Ok(None) };
        let mut unit = engine::begin(op);
        // It may have changed since it was found: then look again.
        let value = unit.get(collection.records, &record.key()).ok_or(WriteError::Conflict)?;
        if !self.matcher.matches(raw(&value))? {
            return Err(WriteError::Conflict);
        }
        check_removal(op.shared.profile, collection)?;
        collection.remove(&mut unit, record, raw(&value))?;
        let id = id_of(raw(&value));
        let kind = FindAndModifyKind::Remove;
        let entry = self.oplog_entry(run, kind, collection.uuid, doc! { "_id": id.clone() }, id.clone());
        let image = raw(&value).to_owned();
        let record = FindAndModifyRecord { kind, image, oplog_entry: entry };
        let statements = vec![(STATEMENT, StatementRecord::FindAndModify(Box::new(record)))];
        engine::commit(op, &self.ns, unit, run.session.as_deref(), Done { statements, documents: 1, first_id: id })
            .await?;
        Ok(Some(value))
    }

    /// The oplog entry, as error texts show it (40606 and following).
    fn oplog_entry(
        &self,
        run: &Run<'_>,
        kind: FindAndModifyKind,
        collection: uuid::Uuid,
        o: Document,
        id: Bson,
    ) -> Document {
        let shared = run.shared();
        let term = shared.topology.term();
        let now = Bson::Timestamp(shared.topology.next_op_time(&shared.clock));
        let op_time = |timestamp: Bson| doc! { "ts": timestamp, "t": term };
        let (letter, image) = match kind {
            FindAndModifyKind::Remove => ("d", Some("preImageOpTime")),
            FindAndModifyKind::UpdateKeptBefore => ("u", Some("preImageOpTime")),
            FindAndModifyKind::UpdateKeptAfter => ("u", Some("postImageOpTime")),
            FindAndModifyKind::Upsert => ("i", None),
        };
        let mut entry = Document::new();
        if let (Some(lsid), Some(session)) = (run.op.view().lsid, &run.session) {
            entry.insert("lsid", lsid.document());
            entry.insert("txnNumber", session.number());
        }
        let uuid = Binary { subtype: BinarySubtype::Uuid, bytes: collection.as_bytes().to_vec() };
        entry.extend(doc! { "op": letter, "ns": self.ns.to_string(), "ui": uuid, "o": o });
        if letter == "u" {
            entry.insert("o2", doc! { "_id": id });
        }
        if let Some(image) = image {
            entry.insert(image, op_time(now.clone()));
        }
        entry.extend(doc! {
            "ts": now, "t": term, "wall": shared.clock.now(), "v": 2_i64, "stmtId": STATEMENT,
            "prevOpTime": { "ts": Timestamp { time: 0, increment: 0 }, "t": -1_i64 },
        });
        entry
    }

    /// The answer to a resend, from what the history keeps. The projection is not applied again.
    fn replay(&self, record: StatementRecord) -> Result<Answer, Failed> {
        let StatementRecord::FindAndModify(record) = record else {
            let text = format!(
                "findAndModify retry request: {} is not compatible with previous write in the transaction",
                self.spelled
            );
            return Err(CommandError::new(40606, text).into());
        };
        let stored = |code: i32, what: &str| {
            let timestamp = record.oplog_entry.get("ts").map(|ts| text::value(ts.into())).unwrap_or_default();
            let entry = text::document(&record.oplog_entry);
            let text =
                format!("findAndModify retry request: {} {what}, oplogTs: {timestamp}, oplog: {entry}", self.spelled);
            Err(CommandError::new(code, text).into())
        };
        let incompatible =
            |letter: &str| format!("is not compatible with previous write in the transaction of type: {letter}");
        let image = record.image.clone();
        let retried = true;
        match record.kind {
            FindAndModifyKind::Remove if self.update.is_some() => stored(40606, &incompatible("d")),
            FindAndModifyKind::Remove => {
                Ok(Answer { n: 1, updated_existing: None, upserted: None, value: Some(image), retried })
            }
            FindAndModifyKind::Upsert if !self.upsert => stored(40608, &incompatible("i")),
            FindAndModifyKind::Upsert => {
                let upserted = Some(id_of(&image));
                let value = self.return_new.then_some(image);
                Ok(Answer { n: 1, updated_existing: Some(false), upserted, value, retried })
            }
            FindAndModifyKind::UpdateKeptBefore if self.return_new => {
                stored(40611, "wants the document after update returned, but only before update document is stored")
            }
            FindAndModifyKind::UpdateKeptAfter if !self.return_new => {
                stored(40612, "wants the document before update returned, but only after update document is stored")
            }
            FindAndModifyKind::UpdateKeptBefore | FindAndModifyKind::UpdateKeptAfter => {
                Ok(Answer { n: 1, updated_existing: Some(true), upserted: None, value: Some(image), retried })
            }
        }
    }
}
