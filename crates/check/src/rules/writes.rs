//! Rules about what a listener writes.

use super::{Context, Rule};
use crate::build::Family;
use crate::finding::{Finding, Level};
use crate::prediction::Prediction;
use crate::service::{Failure, Id, Listener, ListenerKind, Op, Write};

/// Every write with its listener, where the listener runs it more than once.
fn retried<'a>(context: &Context<'a>) -> impl Iterator<Item = (&'a Listener, &'a Prediction, &'a Write)> {
    context
        .listeners()
        .filter(|(_, prediction)| prediction.executions.most().is_none_or(|most| most > 1))
        .flat_map(|(listener, prediction)| listener.writes.iter().map(move |write| (listener, prediction, write)))
}

/// Every write with its listener.
fn writes<'a>(context: &Context<'a>) -> impl Iterator<Item = (&'a Listener, &'a Write)> {
    context.listeners().flat_map(|(listener, _)| listener.writes.iter().map(move |write| (listener, write)))
}

fn place<'a>(listener: &'a Listener, write: &'a Write) -> Option<&'a crate::source::Place> {
    write.place.as_ref().or(listener.place.as_ref())
}

/// BF017.
pub const GENERATED_ID: Rule = Rule {
    id: "BF017",
    name: "insert-with-generated-id",
    level: Level::Error,
    summary: "A retried insert leaves the `_id` to the driver.",
    why: "Each execution inserts another document, as each gets an `_id` of its own. A resend of the driver does not: it carries the \
          same document and the same number.",
    page: "Make the `_id` from the record, for example topic, partition and offset, or a key of the business; then save by it. \
           Measured with `FixedBackOff(0, 3)` and a stalled mongod: 4 executions, 4 documents \
           (<https://github.com/mongodb-js/mongodb-mcp-server/issues/1432> is such a case).",
    check: |context, findings| {
        for (listener, prediction, write) in retried(context) {
            let inserts =
                matches!(write.op, Op::Insert | Op::InsertMany | Op::Save) || write.models.contains(&Op::Insert);
            if inserts && write.id == Id::Generated && listener.kind != ListenerKind::Sink {
                let message = format!(
                    "{}: {} can leave a document each for one record",
                    listener.name,
                    prediction.executions.executions()
                );
                let fix = match context.service.client.family {
                    Family::Java => {
                        "document.setId(record.topic() + \"-\" + record.partition() + \"-\" + record.offset());"
                    }
                    _ => "_id = topic + \"-\" + partition + \"-\" + offset",
                };
                findings.push(Finding::new(message).at(place(listener, write)).fix(fix));
            }
        }
    },
};

/// BF018.
pub const MULTI_DOCUMENT: Rule = Rule {
    id: "BF018",
    name: "multi-document-write-retried",
    level: Level::Warning,
    summary: "A retried listener updates or deletes many documents at once.",
    why: "The driver never resends `updateMany` and `deleteMany`, and nobody knows how far a failed one got. The application's retry runs \
          it beside the one that still runs, and `$inc` counts twice where both pass.",
    page: "Make it idempotent: set values and do not count, or mark what is done \
           (<https://github.com/mongodb/specifications/blob/master/source/retryable-writes/retryable-writes.md>, under unsupported \
           operations).",
    check: |context, findings| {
        for (listener, prediction, write) in retried(context) {
            if write.op.is_multi() {
                let message = format!(
                    "{}: {} runs in {}, none of them resent",
                    listener.name,
                    write.op.name(),
                    prediction.executions.copies()
                );
                findings.push(
                    Finding::new(message)
                        .at(place(listener, write))
                        .fix("an update that gives the same result however often it runs"),
                );
            }
        }
    },
};

/// BF019.
pub const BULK_WITH_MULTI: Rule = Rule {
    id: "BF019",
    name: "bulk-with-multi-write",
    level: Level::Warning,
    summary: "One multi-document write makes a whole bulk not retryable.",
    why: "The Java driver sends no `txnNumber` for any command of a bulk that holds an `updateMany` or `deleteMany`. A lost reply then \
          ends in an error, and the application's retry writes again what was written.",
    page: "Put the multi-document writes into a bulk of their own (Java driver 5.4.0, `BulkWriteBatch`). Ordered or not makes no difference. Other \
           drivers judge each command.",
    check: |context, findings| {
        for write in context.service.listeners.iter().flat_map(|listener| &listener.writes) {
            let multi = write.models.iter().filter(|model| model.is_multi()).count();
            let is_mixed = multi > 0 && multi < write.models.len();
            if is_mixed && context.service.client.family == Family::Java {
                let message = format!(
                    "{multi} of {} writes touch many documents: the whole bulk is sent once, without txnNumber",
                    write.models.len()
                );
                findings.push(
                    Finding::new(message).at(write.place.as_ref()).fix("a second bulk for the multi-document writes"),
                );
            }
        }
    },
};

/// BF024.
pub const MAX_TIME_DROPPED: Rule = Rule {
    id: "BF024",
    name: "max-time-dropped",
    level: Level::Warning,
    summary: "`findAndModify` with a `maxTime` that Spring Data does not pass on.",
    why: "The query's `maxTime` never reaches the server, so nothing ends the operation there. It looks as if it were bounded.",
    page: "Spring Data MongoDB ignores it in 4.4.0 and 5.1.1; use the driver's `findOneAndUpdate` with `maxTime`, or `timeoutMS` \
           (Spring Data MongoDB 4.4.0, `MongoTemplate`).",
    check: |context, findings| {
        for write in context.service.listeners.iter().flat_map(|listener| &listener.writes) {
            if write.dropped_max_time {
                let fix = "template.execute(Order.class, collection -> collection.findOneAndUpdate(filter, update,\n    new FindOneAndUpdateOptions().maxTime(20, TimeUnit.SECONDS)));";
                findings.push(
                    Finding::new("the maxTime of this findAndModify is dropped by Spring Data")
                        .at(write.place.as_ref())
                        .fix(fix),
                );
            }
        }
    },
};

/// BF025.
pub const TRANSACTION: Rule = Rule {
    id: "BF025",
    name: "transaction-retried",
    level: Level::Note,
    summary: "A retried listener writes in a transaction.",
    why: "Writes in a transaction are never resent; only commit and abort are, once. When a commit's answer is lost, a retry of the \
          body writes again what may have been committed; retrying the commit alone is right.",
    page: "Make the body idempotent, or retry `UnknownTransactionCommitResult` by committing again \
           (<https://github.com/mongodb/specifications/blob/master/source/transactions/transactions.md>).",
    check: |context, findings| {
        for (listener, prediction, write) in retried(context) {
            if write.in_transaction {
                let message =
                    format!("{}: {} of the transaction's body", listener.name, prediction.executions.executions());
                findings.push(Finding::new(message).at(place(listener, write)));
            }
        }
    },
};

/// BF026.
pub const TICKETS: Rule = Rule {
    id: "BF026",
    name: "copies-fill-the-tickets",
    level: Level::Warning,
    summary: "The copies of all consumers can take all the server's write tickets.",
    why: "A stalled copy holds its ticket; when none is left, every other write of the deployment waits. Then the stall of one \
          collection is an outage of all.",
    page: "MongoDB 4.4 to 6.0 lets 128 writes into the engine at once; 7.0 adapts the number. Copies = consumers x executions of a \
           record.",
    check: |context, findings| {
        let Some(tickets) = context.service.write_tickets.value else { return };
        for (listener, prediction) in context.listeners() {
            let Some(copies) = prediction.overlapping_copies_all.most().filter(|copies| *copies >= tickets) else {
                continue;
            };
            let consumers = listener.concurrency.value.unwrap_or(1) * context.service.consumers.value.unwrap_or(1);
            let message = format!(
                "{}: {consumers} consumers x {} copies = {copies}, and the server has {tickets} write tickets",
                listener.name, prediction.overlapping_copies_max
            );
            let fix = "fewer executions, longer waits, or a lower spring.kafka.listener.concurrency";
            findings.push(Finding::new(message).at(listener.concurrency.place().or(listener.place.as_ref())).fix(fix));
        }
    },
};

/// BF028.
pub const BULK_REMOVE: Rule = Rule {
    id: "BF028",
    name: "spring-bulk-with-remove",
    level: Level::Warning,
    summary: "A bulk of Spring Data holds a `remove`.",
    why: "`BulkOperations.remove` is always a `deleteMany`, also by `_id`, so the bulk carries no `txnNumber` and is never resent. The \
          other writes in it lose their protection as well.",
    page: "Use the driver's `DeleteOneModel` through `template.execute`, or a second bulk for removes: `BulkOperations.remove` is a \
           `DeleteManyModel` (Spring Data MongoDB 4.4.0, `DefaultBulkOperations`).",
    check: |context, findings| {
        for write in context.service.listeners.iter().flat_map(|listener| &listener.writes) {
            if write.op == Op::Bulk && write.by_spring_data && write.models.contains(&Op::DeleteMany) {
                let message = "this bulk holds a remove: it is sent once, without txnNumber";
                findings.push(Finding::new(message).at(write.place.as_ref()).fix("a bulk of its own for the removes"));
            }
        }
    },
};

/// BF044.
pub const SWALLOWED: Rule = Rule {
    id: "BF044",
    name: "failure-swallowed",
    level: Level::Warning,
    summary: "A failed write is caught in the listener and not thrown again.",
    why: "The record counts as done: its offset is committed, no retry follows and no dead letter is written. The write is lost for \
          good where it did not get through, and nobody hears of it where it did.",
    page: "Throw the exception again, so that the error handler decides; catch only what is no failure, such as \
           `DuplicateKeyException` of an insert that a former copy has made \
           (<https://github.com/openimsdk/open-im-server/issues/3799> is such a case).",
    check: |context, findings| {
        for (listener, write) in writes(context) {
            if let Failure::Swallowed(at) = &write.failure {
                let message =
                    format!("{}: a failed {} ends here, and the record counts as done", listener.name, write.op.name());
                findings.push(Finding::new(message).at(at.as_ref().or(place(listener, write))).fix("throw e;"));
            }
        }
    },
};

/// BF045.
pub const DETACHED: Rule = Rule {
    id: "BF045",
    name: "write-detached",
    level: Level::Warning,
    summary: "A write runs on another thread, and the listener does not wait for it.",
    why: "The record's offset can be committed before the write is done, so a crash or a failure loses it. The error handler sees no \
          failure, and nothing bounds how many such writes run at once.",
    page: "Wait for the result in the listener (`block()`, `join()`), or return it: Spring Kafka 3.2 and later waits for a \
           `CompletableFuture` or `Mono` that a listener returns \
           (`MessagingMessageListenerAdapter`).",
    check: |context, findings| {
        for (listener, write) in writes(context) {
            if let Failure::Detached { how, place: at } = &write.failure {
                let message = format!(
                    "{}: this {} is handed on by {how}: its failure reaches nobody",
                    listener.name,
                    write.op.name()
                );
                findings
                    .push(Finding::new(message).at(at.as_ref().or(place(listener, write))).fix("wait for the result"));
            }
        }
    },
};

/// BF046.
pub const COUNTS: Rule = Rule {
    id: "BF046",
    name: "update-counts-again",
    level: Level::Error,
    summary: "A retried update counts or appends.",
    why: "`$inc`, `$mul`, `$push` and their like change the document in each execution, so every copy that gets through counts once \
          more. A resend of the driver does not: it carries the same number.",
    page: "Set the result in place of counting, or remember the record in the document and ask for it in the filter: \
           `{ _id: id, done: { $ne: key } }` with `$push: { done: key }`.",
    check: |context, findings| {
        for (listener, prediction, write) in retried(context) {
            if let Some(operator) = &write.counts
                && write.is_guarded != Some(true)
            {
                let message = format!(
                    "{}: ${operator} of this {} runs in {} of one record",
                    listener.name,
                    write.op.name(),
                    prediction.executions.copies()
                );
                let fix = "Query.query(where(\"_id\").is(id).and(\"done\").ne(key)), new Update().inc(\"amount\", n).push(\"done\", key)";
                findings.push(Finding::new(message).at(place(listener, write)).fix(fix));
            }
        }
    },
};

/// BF029.
pub const LATE_COPY: Rule = Rule {
    id: "BF029",
    name: "late-copy-undoes-newer-data",
    level: Level::Warning,
    summary: "A retried update or upsert has no check of version or order.",
    why: "After a stall the copies finish in any order, so an older copy can write last. It was seen to undo a newer write that had \
          been reported as done.",
    page: "Put the version or the record's offset into the filter: `{ _id, offset: { $lt: 42 } }`. Measured on \
           mongod 4.4: after a release the final value came from an older execution than the newest.",
    check: |context, findings| {
        for (listener, prediction, write) in retried(context) {
            let overwrites =
                |op: Op| matches!(op, Op::Update | Op::Upsert | Op::Save | Op::Replace | Op::FindAndModify);
            let applies = overwrites(write.op) || write.models.iter().any(|model| overwrites(*model));
            let is_new_each_time = write.id == Id::Generated;
            if applies && !is_new_each_time && write.is_guarded != Some(true) {
                let message = format!(
                    "{}: of {} of this {} any may write last",
                    listener.name,
                    prediction.executions.copies(),
                    write.op.name()
                );
                let fix = match context.service.client.family {
                    Family::Java => "Query.query(where(\"_id\").is(id).and(\"offset\").lt(record.offset()))",
                    _ => "{ _id: id, offset: { $lt: offset } }",
                };
                findings.push(Finding::new(message).at(place(listener, write)).fix(fix));
            }
        }
    },
};
