//! `bulkWrite` on the client: one command for writes to several collections (server 8.0).
//!
//! Rules: <https://github.com/mongodb/specifications/blob/master/source/crud/bulk-write.md>; retrying as in
//! facts/client.md A5: each command has its own attempts and number, the results' `getMore` is not retried.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bson::{Bson, Document, RawDocumentBuf, doc};
use bytes::Bytes;
use futures_util::future::BoxFuture;

use backfire_model::Namespace;

use crate::bulk::model::{BulkWriteModel, WriteOptions, check_replacement, ensure_id};
use crate::bulk::result::{ClientBulkWriteFailure, ClientBulkWriteResult, VerboseDelete, VerboseUpdate};
use crate::client::next_identity;
use crate::connection::command::{Command, DocumentSequence, encode};
use crate::cursor::{Cursor, CursorRules};
use crate::error::reply::{number, write_concern_error, write_concern_failure, write_errors};
use crate::error::{DriverError, ErrorKind, Result, WriteConcernFailure, WriteFailure};
use crate::execute::{Attempt, Call, Reply, SendOptions, Steps, run, without_numbers};
use crate::retry::{Identity, Operation};
use crate::settings::WriteConcern;
use crate::topology::Criteria;

use super::options::{Options, options};
use super::{Execute, Request, add_raw_data};

/// The first wire version with the command (8.0).
const WIRE_VERSION_BULK_WRITE: i32 = 25;
/// What is kept free in a message for the fields that a send adds.
const MESSAGE_RESERVE_BYTES: usize = 1000;

/// Something that belongs to a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespaced<T> {
    /// The collection.
    pub namespace: Namespace,
    /// What belongs to it.
    pub model: T,
}

/// Writes over several collections. See [`crate::Client::bulk_write`].
pub struct ClientBulkWrite {
    models: Vec<Namespaced<BulkWriteModel>>,
}

options!(ClientBulkWrite: bypass_document_validation, comment, let_vars, max_time, ordered, raw_data, verbose_results,
    write_concern);

impl ClientBulkWrite {
    pub(crate) fn new(models: Vec<Namespaced<BulkWriteModel>>) -> Self {
        Self { models }
    }
}

impl Execute for ClientBulkWrite {
    type Output = ClientBulkWriteResult;

    async fn execute(mut self, mut request: Request) -> Result<Self::Output> {
        let mut call = request.start()?;
        let write_concern = request.write_concern();
        call.check_write_concern(&write_concern)?;
        let Request { options, .. } = request;
        let ordered = options.flag("ordered").unwrap_or(true);
        let verbose = options.flag("verboseResults").unwrap_or(false);
        check(&self.models, &write_concern, ordered, verbose)?;
        let random = call.client.random.clone();
        for entry in &mut self.models {
            if let BulkWriteModel::InsertOne { document } = &mut entry.model {
                ensure_id(document, || random.object_id());
            }
        }
        let result = ClientBulkWriteResult {
            acknowledged: write_concern.is_acknowledged(),
            verbose,
            ..ClientBulkWriteResult::default()
        };
        let mut outcome = Outcome {
            ordered,
            result,
            write_errors: BTreeMap::new(),
            write_concern_errors: Vec::new(),
            any_success: false,
        };
        let mut pending: VecDeque<Entry> = self.models.into_iter().enumerate().collect();
        while !pending.is_empty() && !outcome.should_stop() {
            match run_batch(&mut call, &mut pending, &options, &write_concern, &mut outcome).await {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), ErrorKind::InvalidArgument(_)) => return Err(error),
                Err(error) => return Err(outcome.into_error(Some(error))),
            }
        }
        if outcome.write_errors.is_empty() && outcome.write_concern_errors.is_empty() {
            Ok(outcome.result)
        } else {
            Err(outcome.into_error(None))
        }
    }
}

fn check(
    models: &[Namespaced<BulkWriteModel>],
    write_concern: &WriteConcern,
    ordered: bool,
    verbose: bool,
) -> Result<()> {
    let refuse = |what: &str| Err(DriverError::invalid_argument(what));
    if models.is_empty() {
        return refuse("a bulk write needs at least one write");
    }
    if !write_concern.is_acknowledged() {
        if verbose {
            return refuse("Cannot request unacknowledged write concern and verbose results");
        }
        if ordered {
            return refuse("Cannot request unacknowledged write concern and ordered writes");
        }
    }
    Ok(())
}

/// What the commands did so far.
struct Outcome {
    ordered: bool,
    result: ClientBulkWriteResult,
    write_errors: BTreeMap<usize, WriteFailure>,
    write_concern_errors: Vec<WriteConcernFailure>,
    any_success: bool,
}

impl Outcome {
    fn should_stop(&self) -> bool {
        self.ordered && !self.write_errors.is_empty()
    }

    /// Adds the counts of a reply.
    fn add_reply(&mut self, reply: &Document) {
        let count = |name: &str| number(reply, name).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        self.result.inserted_count += count("nInserted");
        self.result.upserted_count += count("nUpserted");
        self.result.matched_count += count("nMatched");
        self.result.modified_count += count("nModified");
        self.result.deleted_count += count("nDeleted");
        self.write_concern_errors.extend(write_concern_error(reply));
    }

    /// Adds what one write did, as the reply's cursor tells it.
    fn add_entry(&mut self, entry: &Document, batch: &[Entry]) {
        let position = number(entry, "idx").and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let Some((index, model)) = batch.get(position).map(|(index, entry)| (*index, &entry.model)) else { return };
        if number(entry, "ok") == Some(0) {
            let mut as_error = entry.clone();
            as_error.insert("index", i64::try_from(index).unwrap_or(i64::MAX));
            self.write_errors
                .extend(write_errors(&doc! {"writeErrors": [as_error]}).into_iter().map(|error| (index, error)));
            return;
        }
        if !self.result.verbose {
            return;
        }
        let count = |name: &str| number(entry, name).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        match model {
            BulkWriteModel::InsertOne { document } => {
                self.result.insert_results.insert(index, document.get("_id").cloned().unwrap_or(Bson::Null));
            }
            BulkWriteModel::UpdateOne(_)
            | BulkWriteModel::UpdateMany(_)
            | BulkWriteModel::ReplaceOne(_)
            | BulkWriteModel::ReplaceOneRaw(_) => {
                let upserted = entry.get_document("upserted").ok();
                let update = VerboseUpdate {
                    matched_count: count("n"),
                    modified_count: count("nModified"),
                    upserted_id: upserted.map(|upserted| upserted.get("_id").cloned().unwrap_or(Bson::Null)),
                };
                self.result.update_results.insert(index, update);
            }
            BulkWriteModel::DeleteOne(_) | BulkWriteModel::DeleteMany(_) => {
                self.result.delete_results.insert(index, VerboseDelete { deleted_count: count("n") });
            }
        }
    }

    fn into_error(self, error: Option<DriverError>) -> DriverError {
        let failure = ClientBulkWriteFailure {
            error: error.clone(),
            write_errors: self.write_errors,
            write_concern_errors: self.write_concern_errors,
            partial_result: self.any_success.then_some(self.result),
        };
        // The end of `timeoutMS` must be seen from outside.
        let is_timeout = error.as_ref().is_some_and(DriverError::is_operation_timeout);
        let wrapped = DriverError::new(ErrorKind::ClientBulkWrite(Box::new(failure)));
        let wrapped = match &error {
            Some(error) => wrapped.with_labels_of(error),
            None => wrapped,
        };
        if is_timeout { wrapped.into_operation_timeout() } else { wrapped }
    }
}

/// A write of the caller's list, with its position.
type Entry = (usize, Namespaced<BulkWriteModel>);

/// Sends one command with as many of the pending writes as fit, and reads its results.
async fn run_batch(
    call: &mut Call,
    pending: &mut VecDeque<Entry>,
    options: &Options,
    write_concern: &WriteConcern,
    outcome: &mut Outcome,
) -> Result<()> {
    let rules = call.rules(Operation::BulkWrite);
    let ordered = outcome.ordered;
    let mut steps =
        BatchSteps { pending, options, write_concern, ordered, verbose: outcome.result.verbose, current: None };
    let result = run(call, &Criteria::Writable, rules, &mut steps).await;
    let (batch, provisional) = steps.current.map(|current| (current.batch, current.provisional)).unwrap_or_default();
    let reply = match (result, provisional) {
        (Ok(reply), _) => reply,
        (Err(error), Some(reply)) if matches!(error.kind(), ErrorKind::WriteConcern(_)) => reply,
        (Err(error), _) => return Err(error),
    };
    if !reply.acknowledged {
        return Ok(());
    }
    outcome.add_reply(&reply.document);
    let rules = CursorRules::new(&Options::default(), None)?;
    let result = match Cursor::new(call.clone(), reply, rules) {
        Ok(cursor) => read_results(cursor, &batch, outcome).await,
        Err(error) => Err(error),
    };
    let mut failed = (0..batch.len()).filter(|position| outcome.write_errors.contains_key(&batch[*position].0));
    // In an ordered batch the first failure is the last write that was tried.
    outcome.any_success |= if ordered { failed.next() != Some(0) } else { failed.count() < batch.len() };
    result
}

async fn read_results(mut cursor: Cursor, batch: &[Entry], outcome: &mut Outcome) -> Result<()> {
    loop {
        match cursor.next().await {
            Ok(Some(entry)) => outcome.add_entry(&entry, batch),
            Ok(None) => return Ok(()),
            Err(error) => {
                cursor.close().await;
                return Err(error);
            }
        }
    }
}

/// The command that is being sent.
struct Current {
    command: Command,
    identity: Option<Identity>,
    batch: Vec<Entry>,
    /// A reply that said "done, but not as safely as asked, try again": it counts if the retry brings nothing better.
    provisional: Option<Reply>,
}

struct BatchSteps<'a> {
    pending: &'a mut VecDeque<Entry>,
    options: &'a Options,
    write_concern: &'a WriteConcern,
    ordered: bool,
    verbose: bool,
    current: Option<Current>,
}

impl BatchSteps<'_> {
    /// Builds the command from as many writes as the server takes in one.
    fn build(&mut self, attempt: &mut Attempt<'_>) -> Result<Current> {
        let hello = attempt.connection.hello();
        let wire_version = hello.max_wire_version;
        if wire_version < WIRE_VERSION_BULK_WRITE {
            return Err(DriverError::client("MongoClient.bulkWrite needs MongoDB 8.0 or later"));
        }
        let mut body = doc! {"bulkWrite": 1, "errorsOnly": !self.verbose, "ordered": self.ordered};
        self.options.copy_into(&mut body, &["bypassDocumentValidation", "comment", "let"]);
        add_raw_data(self.options, wire_version, &mut body);
        if !self.write_concern.is_server_default() {
            body.insert("writeConcern", self.write_concern.to_document());
        }
        let max_bytes = hello.max_message_size_bytes.saturating_sub(MESSAGE_RESERVE_BYTES + encode(&body)?.len());
        let (max_writes, max_document) = (hello.max_write_batch_size, hello.max_document_size_bytes);

        let mut namespaces: Vec<&Namespace> = Vec::new();
        let (mut operations, mut infos, mut size_bytes) = (Vec::<Bytes>::new(), Vec::<Bytes>::new(), 0);
        for (index, entry) in self.pending.iter().take(max_writes) {
            let known = namespaces.iter().position(|namespace| **namespace == entry.namespace);
            let operation = encode(&to_operation(known.unwrap_or(namespaces.len()), &entry.model)?)?;
            if let BulkWriteModel::InsertOne { document } = &entry.model {
                let document_bytes = encode(document)?.len();
                if document_bytes > max_document {
                    return Err(too_large(*index, document_bytes, max_document));
                }
            }
            let info = match known {
                Some(_) => None,
                None => Some(encode(&doc! {"ns": entry.namespace.to_string()})?),
            };
            size_bytes += operation.len() + info.as_ref().map_or(0, Bytes::len);
            if size_bytes > max_bytes {
                if operations.is_empty() {
                    return Err(too_large(*index, size_bytes, max_bytes));
                }
                break;
            }
            operations.push(operation);
            if let Some(info) = info {
                infos.push(info);
                namespaces.push(&entry.namespace);
            }
        }
        let batch: Vec<Entry> = self.pending.drain(..operations.len()).collect();
        let mut command = Command::new("admin", body);
        for (name, documents) in [("ops", operations), ("nsInfo", infos)] {
            command.sequences.push(DocumentSequence { name, documents: Arc::from(documents) });
        }
        let numbered = attempt.may_number(self.write_concern) && !batch.iter().any(|(_, entry)| entry.model.is_multi());
        let identity = match (numbered, attempt.call.session.clone()) {
            (true, Some(session)) => Some(attempt.state.identity(|| next_identity(&session))?),
            _ => None,
        };
        Ok(Current { command, identity, batch, provisional: None })
    }
}

impl Steps for BatchSteps<'_> {
    type Output = Reply;

    fn attempt<'a>(&'a mut self, mut attempt: Attempt<'a>) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            if self.current.is_none() {
                self.current = Some(self.build(&mut attempt)?);
            }
            let acknowledged = self.write_concern.is_acknowledged();
            let Some(current) = &mut self.current else { return Err(DriverError::closed("the bulk is over")) };
            let options = SendOptions::write(current.identity, acknowledged);
            let document = attempt.send(&current.command, &options).await?;
            let server = attempt.selected.server.address().clone();
            let error = write_concern_failure(&document).filter(|_| current.identity.is_some());
            match error.filter(|error| attempt.state.is_retryable(error) && attempt.state.has_attempts_left()) {
                Some(error) => {
                    current.provisional = Some(Reply { document, server, acknowledged });
                    Err(error)
                }
                None => Ok(Reply { document, server, acknowledged }),
            }
        })
    }

    fn give_up(&mut self, error: DriverError) -> DriverError {
        without_numbers(error)
    }
}

fn too_large(index: usize, size_bytes: usize, max_bytes: usize) -> DriverError {
    DriverError::invalid_argument(format!("write {index} has {size_bytes} bytes, the server takes {max_bytes}"))
}

/// A write as an element of `ops`; `namespace` is its collection's position in `nsInfo`.
fn to_operation(namespace: usize, model: &BulkWriteModel) -> Result<Document> {
    let namespace = i32::try_from(namespace).map_err(|_| DriverError::invalid_argument("too many collections"))?;
    let update = |filter: &Document, update: Bson, options: &WriteOptions| {
        let mut operation =
            doc! {"update": namespace, "filter": filter, "updateMods": update, "multi": model.is_multi()};
        if let Some(upsert) = options.upsert {
            operation.insert("upsert", upsert);
        }
        add_options(options, &mut operation);
        operation
    };
    Ok(match model {
        BulkWriteModel::InsertOne { document } => doc! {"insert": namespace, "document": document},
        BulkWriteModel::UpdateOne(model) | BulkWriteModel::UpdateMany(model) => {
            update(&model.filter, model.update.to_bson()?, &model.options)
        }
        BulkWriteModel::ReplaceOne(model) => {
            check_replacement(&model.replacement)?;
            update(&model.filter, Bson::Document(model.replacement.clone()), &model.options)
        }
        BulkWriteModel::ReplaceOneRaw(raw) => {
            raw.check()?;
            let decode = |document: &RawDocumentBuf| {
                Document::try_from(document)
                    .map_err(|error| DriverError::invalid_argument(format!("a replacement is no BSON: {error}")))
            };
            let options = WriteOptions { upsert: Some(raw.upsert), ..WriteOptions::default() };
            update(&decode(&raw.filter)?, Bson::Document(decode(&raw.replacement)?), &options)
        }
        BulkWriteModel::DeleteOne(delete) | BulkWriteModel::DeleteMany(delete) => {
            let mut operation = doc! {"delete": namespace, "filter": &delete.filter, "multi": model.is_multi()};
            add_options(&delete.options, &mut operation);
            operation
        }
    })
}

fn add_options(options: &WriteOptions, operation: &mut Document) {
    if let Some(filters) = &options.array_filters {
        operation.insert("arrayFilters", filters.clone());
    }
    if let Some(hint) = &options.hint {
        operation.insert("hint", hint);
    }
    if let Some(collation) = &options.collation {
        operation.insert("collation", collation);
    }
    if let Some(sort) = &options.sort {
        operation.insert("sort", sort);
    }
}
