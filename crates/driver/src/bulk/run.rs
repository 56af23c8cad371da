//! Executing a bulk: command after command on one connection, each with an attempt budget of its own
//! (facts/client.md A5).

use std::sync::Arc;

use bson::{Bson, Document};
use futures_util::future::BoxFuture;

use backfire_model::Namespace;

use crate::client::next_identity;
use crate::connection::command::{Command, DocumentSequence, encode};
use crate::error::reply::write_concern_failure;
use crate::error::{DriverError, ErrorKind, RETRYABLE_WRITE_ERROR, Result};
use crate::execute::{Attempt, Call, SendOptions, Steps, run, without_numbers};
use crate::operation::add_raw_data;
use crate::operation::options::Options;
use crate::retry::{Identity, Operation};
use crate::settings::WriteConcern;
use crate::topology::Criteria;

use super::batch::{Batch, Limits, Planner, Statement};
use super::model::{BulkWriteModel, WriteKind, encode_with_id};
use super::result::{BulkWriteResult, Combiner};

/// Before this wire version (4.2) a server ignores an unknown `hint` of an update without saying so.
const WIRE_VERSION_UPDATE_HINT: i32 = 8;
/// The same for deletes (4.4).
const WIRE_VERSION_DELETE_HINT: i32 = 9;

/// More than the message of a command without options takes beside its statements: names of at most 255 bytes, session,
/// cluster time, write concern and server API.
const PLAIN_OVERHEAD_MAX_BYTES: usize = 16 * 1024;

/// A bulk to be executed.
pub(crate) struct Bulk {
    pub(crate) namespace: Namespace,
    pub(crate) models: Vec<BulkWriteModel>,
    pub(crate) ordered: bool,
    pub(crate) write_concern: WriteConcern,
    /// Options that go with each command: `comment`, `let`, `bypassDocumentValidation`, `rawData`.
    pub(crate) options: Options,
}

impl Bulk {
    /// Executes it.
    ///
    /// # Errors
    /// An empty list, a model that makes no sense; a bulk failure when single writes failed; anything else ends the
    /// bulk where it is.
    pub(crate) async fn run(mut self, call: &mut Call) -> Result<BulkWriteResult> {
        if self.models.is_empty() {
            return Err(DriverError::invalid_argument("a bulk write needs at least one write"));
        }
        call.check_write_concern(&self.write_concern)?;
        let statements = self.encode(call)?;
        let rules = call.rules(Operation::BulkWrite);
        let mut steps = BulkSteps {
            planner: Planner::new(statements, self.ordered),
            combiner: Some(Combiner::new(self.ordered, self.write_concern.is_acknowledged())),
            current: None,
            bulk: self,
        };
        run(call, &Criteria::Writable, rules, &mut steps).await?
    }

    fn encode(&mut self, call: &Call) -> Result<Vec<Statement>> {
        let client = call.client.clone();
        let profile = client.settings.profile;
        let encode_one = |(index, model): (usize, &mut BulkWriteModel)| {
            let document = match model {
                BulkWriteModel::InsertOne { document } => encode_with_id(document, || client.random.object_id())?,
                _ => model.to_statement()?,
            };
            let kind = match model.kind() {
                WriteKind::Replace if !profile.replace_is_own_command => WriteKind::Update,
                kind => kind,
            };
            Ok(Statement { index, kind, multi: model.is_multi(), document })
        };
        self.models.iter_mut().enumerate().map(encode_one).collect()
    }

    /// What cannot be checked before a server is known (facts/client.md A6; Java refuses the rest as well).
    fn check_unacknowledged(&self, wire_version: i32) -> Result<()> {
        if self.write_concern.is_acknowledged() {
            return Ok(());
        }
        let refuse = |what: &str| {
            Err(DriverError::client(format!("specifying {what} with an unacknowledged write concern is not supported")))
        };
        if self.options.get("bypassDocumentValidation").is_some() {
            return refuse("bypassDocumentValidation");
        }
        for model in &self.models {
            let Some(options) = model.options() else { continue };
            if options.collation.is_some() {
                return refuse("collation");
            }
            if options.array_filters.is_some() {
                return refuse("array filters");
            }
            let since = match model {
                BulkWriteModel::DeleteOne(_) | BulkWriteModel::DeleteMany(_) => WIRE_VERSION_DELETE_HINT,
                _ => WIRE_VERSION_UPDATE_HINT,
            };
            if options.hint.is_some() && wire_version < since {
                return Err(DriverError::invalid_argument(format!(
                    "hint is not supported by wire version {wire_version}"
                )));
            }
        }
        Ok(())
    }

    fn inserted_id(&self, index: usize) -> Option<Bson> {
        match self.models.get(index) {
            Some(BulkWriteModel::InsertOne { document }) => document.get("_id").cloned(),
            _ => None,
        }
    }
}

/// A command that is being sent, until its reply is taken.
struct Current {
    batch: Batch,
    command: Command,
    identity: Option<Identity>,
    expect_reply: bool,
    /// A reply that said "done, but not as safely as asked, try again": it counts if the retry brings nothing better.
    provisional: Option<Document>,
}

struct BulkSteps {
    bulk: Bulk,
    planner: Planner,
    combiner: Option<Combiner>,
    current: Option<Current>,
}

impl BulkSteps {
    /// Takes the next command's writes and builds it.
    fn next_command(&mut self, attempt: &mut Attempt<'_>) -> Result<Option<Current>> {
        let Some(kind) = self.planner.next_kind() else { return Ok(None) };
        let hello = attempt.connection.hello();
        let wire_version = hello.max_wire_version;
        let limits = Limits {
            max_statements: hello.max_write_batch_size,
            max_message_bytes: hello.max_message_size_bytes,
            max_document_bytes: hello.max_document_size_bytes,
        };
        let mut body = Document::new();
        body.insert(kind.command(), &self.bulk.namespace.coll);
        body.insert("ordered", self.bulk.ordered);
        if !self.bulk.write_concern.is_server_default() {
            body.insert("writeConcern", self.bulk.write_concern.to_document());
        }
        self.bulk.options.copy_into(&mut body, &["bypassDocumentValidation", "comment", "let"]);
        add_raw_data(&self.bulk.options, wire_version, &mut body);
        let mut command = Command::new(self.bulk.namespace.db.clone(), body);

        attempt.state.begin_command();
        let may_number = attempt.may_number(&self.bulk.write_concern);
        let spoiled = attempt.call.client.settings.profile.multi_write_spoils_bulk
            && self.bulk.models.iter().any(BulkWriteModel::is_multi);
        let overhead_bytes = self.overhead_bytes(attempt, &command, kind, limits)?;
        let batch = match self.planner.next_batch(limits, overhead_bytes) {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(None),
            Err(large) => {
                return Err(DriverError::invalid_argument(format!(
                    "write {} has {} bytes, the server takes {}",
                    large.index, large.size_bytes, large.max_bytes
                )));
            }
        };
        let numbered = may_number && !spoiled && !batch.statements.iter().any(|statement| statement.multi);
        let identity = match (numbered, attempt.call.session.clone()) {
            (true, Some(session)) => Some(attempt.state.identity(|| next_identity(&session))?),
            _ => None,
        };
        let documents: Arc<[_]> = batch.statements.iter().map(|statement| statement.document.clone()).collect();
        command.sequences.push(DocumentSequence { name: kind.sequence(), documents });
        // In an ordered bulk the next command must not overtake this one, so its end is waited for even with w: 0.
        let more = self.bulk.ordered && !self.planner.is_empty();
        let expect_reply = self.bulk.write_concern.is_acknowledged() || more;
        Ok(Some(Current { batch, command, identity, expect_reply, provisional: None }))
    }

    /// The size of the command's message without its statements. It is measured only where it could matter: for most
    /// bulks an upper bound is far from the limits.
    fn overhead_bytes(
        &self,
        attempt: &Attempt<'_>,
        command: &Command,
        kind: WriteKind,
        limits: Limits,
    ) -> Result<usize> {
        let least_bytes = limits.max_document_bytes.min(limits.max_message_bytes);
        if self.bulk.options.is_empty() && self.planner.left_bytes() + PLAIN_OVERHEAD_MAX_BYTES < least_bytes {
            return Ok(PLAIN_OVERHEAD_MAX_BYTES);
        }
        // Whether this command is numbered is known only with its statements, and their number only with the size of
        // the body; so the room for a number is always taken into account.
        let sized =
            SendOptions::write(Some((backfire_model::Lsid(uuid::Uuid::nil()), backfire_model::TxnNumber(0))), true);
        message_overhead(&attempt.body_to_send(command, &sized)?, kind.sequence())
    }

    /// Adds a reply to the result.
    fn take(&mut self, current: &Current, reply: &Document) {
        if let Some(combiner) = &mut self.combiner {
            let bulk = &self.bulk;
            combiner.add(current.batch.kind, &current.batch.statements, reply, |index| bulk.inserted_id(index));
        }
    }

    /// Whether a reply says that its write concern failed in a way that a resend may mend.
    fn wants_retry(current: &Current, reply: &Document, attempt: &Attempt<'_>) -> Option<DriverError> {
        let error = write_concern_failure(reply).filter(|_| current.identity.is_some())?;
        attempt.state.is_retryable(&error).then_some(error)
    }

    async fn run_all(&mut self, mut attempt: Attempt<'_>) -> Result<Result<BulkWriteResult>> {
        self.bulk.check_unacknowledged(attempt.connection.hello().max_wire_version)?;
        loop {
            let stop = self.combiner.as_ref().is_none_or(Combiner::should_stop);
            if self.current.is_none() && !stop {
                self.current = self.next_command(&mut attempt)?;
            }
            let Some(mut current) = self.current.take() else {
                let combiner = self.combiner.take().ok_or_else(|| DriverError::closed("the bulk is over"))?;
                return Ok(combiner.finish());
            };
            let options = SendOptions::write(current.identity, current.expect_reply);
            let reply = match attempt.send(&current.command, &options).await {
                Ok(reply) => reply,
                Err(error) => {
                    self.current = Some(current);
                    return Err(error);
                }
            };
            if let Some(error) = Self::wants_retry(&current, &reply, &attempt) {
                if attempt.state.has_attempts_left() {
                    current.provisional = Some(reply);
                    self.current = Some(current);
                    return Err(error);
                }
                if let Some(combiner) = &mut self.combiner {
                    combiner.add_label(RETRYABLE_WRITE_ERROR);
                }
            }
            self.take(&current, &reply);
        }
    }
}

impl Steps for BulkSteps {
    /// The inner error is the bulk's own: it is not for the retry rules.
    type Output = Result<BulkWriteResult>;

    fn attempt<'a>(&'a mut self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<Self::Output>> {
        Box::pin(self.run_all(attempt))
    }

    fn give_up(&mut self, error: DriverError) -> DriverError {
        let provisional = self.current.as_mut().and_then(|current| current.provisional.take());
        if let (ErrorKind::WriteConcern(_), Some(reply), Some(current)) =
            (error.kind(), provisional, self.current.take())
        {
            self.take(&current, &reply);
            if let Some(Err(failure)) = self.combiner.take().map(Combiner::finish) {
                return failure.with_labels_of(&error);
            }
        }
        let error = without_numbers(error);
        match &self.combiner {
            Some(combiner) => error.with_bulk_result(combiner.result().clone()),
            None => error,
        }
    }
}

/// The size of a message with this body and one empty sequence.
fn message_overhead(body: &Document, sequence: &str) -> Result<usize> {
    // Header, flags, kind and body, then kind, size and name of the sequence.
    Ok(16 + 4 + 1 + encode(body)?.len() + 1 + 4 + sequence.len() + 1)
}
