//! Writes of the sources as writes of the check.

use backfire_jvm::{Analysis, Api, AroundKind, BulkOperation, Command, IdKind};

use super::exception;
use super::layer;
use super::reader::Reader;
use crate::service::{Client, Failure, Id, Op, Write};

/// Words in a field's name that say that it orders versions of a document.
const ORDERING: &[&str] =
    &["version", "offset", "seq", "revision", "updated", "modified", "timestamp", "lsn", "generation", "epoch"];

/// Operators of an update that give the same document however often and in whichever order they run.
const SETTLED: &[&str] = &["setOnInsert", "max", "min", "addToSet", "unset"];

/// Operators of an update that count: each run changes the document again.
const COUNTING: &[&str] = &["inc", "mul", "multiply", "push", "pushAll", "pop", "bit"];

/// A write.
pub fn write(found: &backfire_jvm::Write, analysis: &Analysis, client: &Client, reader: &Reader<'_>) -> Write {
    let by_spring_data = found.api != Api::Driver;
    let mut write = Write::new(op(&found.command, found.upsert, found.id.kind));
    write.id = id(found.id.kind);
    write.is_guarded = guard(found.versioned, &found.filter, &found.update);
    write.counts = found.update.iter().find(|operator| COUNTING.contains(&operator.as_str())).cloned();
    write.by_spring_data = by_spring_data;
    write.in_transaction = in_transaction(found, analysis);
    write.place = reader.place(&found.span);
    write.path = found.path.iter().map(|step| step.method.clone()).collect();
    write.repeats = found.loops().any(|around| !matches!(around.kind, AroundKind::Loop { records: true, .. }))
        || (found.command == Command::SaveAll && write.op != Op::InsertMany);
    if let Some(bulk) = &found.bulk {
        of_bulk(&mut write, bulk, &found.api);
    }
    if let Some(limit) = &found.max_time {
        match limit.sent {
            true => write.max_time_ms = reader.ms(&limit.limit).value,
            false => write.dropped_max_time = true,
        }
    }
    let raised = exception::of_stall(client, by_spring_data);
    (write.failure, write.layers) = around(found, analysis, &raised, reader);
    write
}

fn op(command: &Command, upsert: bool, id: IdKind) -> Op {
    match command {
        Command::Insert => Op::Insert,
        Command::InsertMany => Op::InsertMany,
        // All new: one insert of many. Else one save for each.
        Command::SaveAll if matches!(id, IdKind::Generated) => Op::InsertMany,
        Command::Save | Command::SaveAll => Op::Save,
        Command::Update if upsert => Op::Upsert,
        Command::Update => Op::Update,
        Command::UpdateMany => Op::UpdateMany,
        Command::Replace => Op::Replace,
        Command::Delete => Op::Delete,
        Command::DeleteMany => Op::DeleteMany,
        Command::FindAndModify => Op::FindAndModify,
        Command::Bulk => Op::Bulk,
        Command::RunCommand { .. } => Op::Command,
        Command::Aggregate => Op::Aggregate,
    }
}

fn id(kind: IdKind) -> Id {
    match kind {
        IdKind::Generated | IdKind::Fresh => Id::Generated,
        IdKind::Own | IdKind::Loaded => Id::Own,
        IdKind::Carried | IdKind::Unknown | IdKind::ByFilter => Id::Unknown,
    }
}

/// Whether an older copy is kept from undoing newer data: by `@Version`, an order in the filter, or operators that do not care.
fn guard(versioned: bool, filter: &[String], update: &[String]) -> Option<bool> {
    let orders = |field: &String| {
        let field = field.to_ascii_lowercase();
        ORDERING.iter().any(|word| field.contains(word))
    };
    let is_settled = !update.is_empty() && update.iter().all(|operator| SETTLED.contains(&operator.as_str()));
    (versioned || is_settled || filter.iter().any(orders)).then_some(true)
}

fn of_bulk(write: &mut Write, bulk: &backfire_jvm::Bulk, api: &Api) {
    let model = |operation: &BulkOperation| op(&operation.command, operation.upsert, operation.id.kind);
    let models: Vec<Op> = bulk.operations.iter().map(model).collect();
    let has_multi = models.iter().any(|model| model.is_multi());
    // A part of the models tells only that there is a multi-document write among them.
    if bulk.complete || has_multi {
        write.models = models;
    }
    write.is_ordered = bulk.ordered.unwrap_or(true);
    let repeated = bulk.operations.iter().filter(|operation| operation.repeated).count();
    write.repeats |= !bulk.complete || (write.is_ordered && repeated > 1);
    let ids: Vec<Id> = bulk
        .operations
        .iter()
        .filter(|operation| operation.command == Command::Insert)
        .map(|operation| id(operation.id.kind))
        .collect();
    write.id = match ids.as_slice() {
        [] => Id::Unknown,
        ids if ids.contains(&Id::Generated) => Id::Generated,
        ids if ids.contains(&Id::Unknown) => Id::Unknown,
        _ => Id::Own,
    };
    let overwrites = |operation: &&BulkOperation| {
        matches!(operation.command, Command::Update | Command::Replace | Command::FindAndModify)
    };
    let overwriting: Vec<&BulkOperation> = bulk.operations.iter().filter(overwrites).collect();
    let is_guarded = |operation: &&BulkOperation| guard(false, &operation.filter, &operation.update).is_some();
    write.is_guarded = (!overwriting.is_empty() && overwriting.iter().all(is_guarded)).then_some(true);
    let counts = bulk.operations.iter().flat_map(|operation| &operation.update);
    write.counts = counts.into_iter().find(|operator| COUNTING.contains(&operator.as_str())).cloned();
    write.by_spring_data = *api != Api::Driver;
}

/// Spring's `@Transactional` is a transaction of MongoDB only with a transaction manager of MongoDB.
fn in_transaction(found: &backfire_jvm::Write, analysis: &Analysis) -> bool {
    found.around.iter().any(|around| match &around.kind {
        AroundKind::Transaction { how } => !how.starts_with('@') || !analysis.transaction_managers.is_empty(),
        _ => false,
    })
}

/// What becomes of a failure on its way to the error handler, and the retries that see it.
fn around(
    found: &backfire_jvm::Write,
    analysis: &Analysis,
    raised: &[&'static str],
    reader: &Reader<'_>,
) -> (Failure, Vec<crate::service::Layer>) {
    let mut layers = Vec::new();
    // From the write outwards.
    for around in found.around.iter().rev() {
        match &around.kind {
            AroundKind::Retry { retry } => {
                if let Some(retry) = analysis.retries.get(*retry) {
                    layers.extend(layer::layer(retry, raised, reader));
                }
            }
            AroundKind::Swallow { exceptions, all_failures, certain: true } => {
                let catches = |class: &String| raised.iter().any(|raised| exception::is_a(raised, class));
                if *all_failures || exceptions.iter().any(catches) {
                    return (Failure::Swallowed(reader.place(&around.span)), layers);
                }
            }
            AroundKind::Detached { how } => {
                return (Failure::Detached { how: how.clone(), place: reader.place(&around.span) }, layers);
            }
            _ => {}
        }
    }
    (Failure::Reported, layers)
}
