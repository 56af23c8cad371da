//! Operations that are one command: how it is built, where it goes, whether it is numbered.

use bson::{Bson, Document};
use futures_util::future::BoxFuture;

use crate::client::next_identity;
use crate::connection::command::Command;
use crate::connection::{HelloReply, ServerType};
use crate::error::reply::write_concern_failure;
use crate::error::{DriverError, Result, codes};
use crate::retry::{Identity, Operation};
use crate::session::of_retried_commit;
use crate::settings::{ReadConcern, ReadPreference, ServerAddress, WriteConcern};
use crate::topology::Criteria;

use super::{Attempt, Call, SendOptions, Steps, run};

/// The reply to a command, and who gave it.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) document: Document,
    pub(crate) server: ServerAddress,
    /// Whether there was one at all: not with `w: 0`.
    pub(crate) acknowledged: bool,
}

type Build = dyn Fn(i32) -> Result<Document> + Send + Sync;

/// One command.
pub(crate) struct Plan {
    operation: Operation,
    database: String,
    criteria: Criteria,
    build: Box<Build>,
    read_concern: Option<ReadConcern>,
    write_concern: WriteConcern,
    /// For a commit: whether it was sent before.
    commit_was_sent: Option<bool>,
}

impl Plan {
    /// `build` gives name and fields for a server of some wire version; it is called again for each attempt of a
    /// read, and once for a write.
    pub(crate) fn new(
        operation: Operation,
        database: impl Into<String>,
        criteria: Criteria,
        build: impl Fn(i32) -> Result<Document> + Send + Sync + 'static,
    ) -> Self {
        Self {
            operation,
            database: database.into(),
            criteria,
            build: Box::new(build),
            read_concern: None,
            write_concern: WriteConcern::default(),
            commit_was_sent: None,
        }
    }

    /// The command is a commit; `before`: it was sent before.
    pub(crate) fn for_commit(mut self, before: bool) -> Self {
        self.commit_was_sent = Some(before);
        self
    }

    /// The command takes a read concern, and what the session adds to it.
    pub(crate) fn with_read_concern(mut self, read_concern: ReadConcern) -> Self {
        self.read_concern = Some(read_concern);
        self
    }

    /// The command takes a write concern.
    pub(crate) fn with_write_concern(mut self, write_concern: WriteConcern) -> Self {
        self.write_concern = write_concern;
        self
    }

    /// Executes it, retrying as the rules say.
    pub(crate) async fn run(self, call: &mut Call) -> Result<Reply> {
        let (rules, criteria) = (call.rules(self.operation), self.criteria.clone());
        run(call, &criteria, rules, &mut SingleCommand { plan: self, write: None }).await
    }

    fn preference(&self, attempt: &Attempt<'_>) -> Option<ReadPreference> {
        match &self.criteria {
            Criteria::Writable => None,
            Criteria::Read(preference) => Some(preference.clone()),
            Criteria::ReadOrPrimaryBelow(preference, wire_version) => {
                let old = attempt.connection.hello().max_wire_version < *wire_version;
                (!old).then(|| preference.clone())
            }
        }
    }
}

struct SingleCommand {
    plan: Plan,
    /// The write that was built for the first attempt: resends are the same command.
    write: Option<Document>,
}

impl SingleCommand {
    fn body(&mut self, attempt: &Attempt<'_>) -> Result<Document> {
        if let Some(body) = &self.write {
            return Ok(body.clone());
        }
        let mut body = (self.plan.build)(attempt.connection.hello().max_wire_version)?;
        if let Some(read_concern) = &self.plan.read_concern {
            let mut document = read_concern.to_document();
            if let Some(session) = attempt.call.session.as_ref().filter(|session| !session.is_snapshot()) {
                session.add_read_concern(&mut document);
            }
            if !document.is_empty() {
                body.insert("readConcern", document);
            }
        }
        let write_concern = self.write_concern(attempt);
        if !write_concern.is_server_default() {
            body.insert("writeConcern", write_concern.to_document());
        }
        if self.plan.operation == Operation::FindAndModify {
            self.write = Some(body.clone());
        }
        Ok(body)
    }

    fn write_concern(&self, attempt: &Attempt<'_>) -> WriteConcern {
        let concern = &self.plan.write_concern;
        match self.plan.commit_was_sent {
            Some(before) if before || attempt.state.sends() > 0 => {
                of_retried_commit(concern, attempt.call.clock.timeout().is_some())
            }
            _ => concern.clone(),
        }
    }

    /// The identity of a numbered write, if this one is to be numbered.
    fn identity(&self, attempt: &mut Attempt<'_>) -> Result<Option<Identity>> {
        if let (Operation::EndTransaction, Some(session)) = (self.plan.operation, attempt.call.session.clone()) {
            // The number is that of the transaction, and so is the session.
            return attempt.state.identity(|| session.transaction_identity()).map(Some);
        }
        if self.plan.operation != Operation::FindAndModify || !attempt.may_number(&self.plan.write_concern) {
            return Ok(None);
        }
        match attempt.call.session.clone() {
            Some(session) => attempt.state.identity(|| next_identity(&session)).map(Some),
            None => Ok(None),
        }
    }
}

impl Steps for SingleCommand {
    type Output = Reply;

    fn attempt<'a>(&'a mut self, mut attempt: Attempt<'a>) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            let body = self.body(&attempt)?;
            let identity = self.identity(&mut attempt)?;
            let acknowledged = self.plan.write_concern.is_acknowledged();
            let options =
                SendOptions { identity, read_preference: self.plan.preference(&attempt), expect_reply: acknowledged };
            let command = Command::new(self.plan.database.clone(), body);
            let document = attempt.send(&command, &options).await?;
            // What an unknown command answers is for the caller to judge.
            if self.plan.operation != Operation::RunCommand
                && let Some(error) = write_concern_failure(&document)
            {
                return Err(error.at(attempt.selected.server.address()));
            }
            Ok(Reply { document, server: attempt.selected.server.address().clone(), acknowledged })
        })
    }

    fn give_up(&mut self, error: DriverError) -> DriverError {
        without_numbers(error)
    }
}

/// The error that a server without retryable writes gives to a numbered one, in words that help.
pub(crate) fn without_numbers(error: DriverError) -> DriverError {
    let refused = error.code() == Some(codes::ILLEGAL_OPERATION)
        && error
            .response()
            .and_then(|reply| reply.get("errmsg"))
            .and_then(Bson::as_str)
            .is_some_and(|message| message.starts_with("Transaction numbers"));
    if !refused {
        return error;
    }
    let what =
        "this MongoDB deployment does not support retryable writes: add retryWrites=false to the connection string";
    DriverError::client(what).with_labels_of(&error).with_cause(error)
}

/// Whether a server of this kind takes transaction numbers.
pub(crate) fn takes_numbers(hello: &HelloReply, server_type: ServerType) -> bool {
    hello.session_timeout_minutes.is_some() && server_type != ServerType::Standalone
}
