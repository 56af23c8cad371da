//! A listener as a scenario: what a rehearsal or a simulation runs to measure what was predicted for it.

use backfire_model::ConnectionString;
use backfire_model::back_off::BackOff;
use backfire_model::predict::Stall;
use backfire_model::scenario::{Operation, Scenario};

use crate::prediction::decisive;
use crate::service::{Listener, ListenerKind, Op, Patience, Retries, Service, Write};

/// The scenario of a listener: its client's settings, its retries and the write that decides, while the engine stands still.
///
/// # Errors
/// What a scenario cannot have, in words: something that is not known, retries within an execution, a bulk of several commands.
pub fn of_listener(service: &Service, listener: &Listener) -> Result<Scenario, String> {
    let mut scenario = Scenario::built_in("store-inventory").map_err(|error| error.to_string())?;
    let write = decisive(&service.client, listener).ok_or("no write of it is known")?;
    scenario.name = listener.name.clone();
    scenario.summary = format!("The listener {} of {}, while the engine stands still.", listener.name, service.name);
    scenario.client.uri = uri(service, &listener.name)?;
    scenario.client.max_time_ms = write.max_time_ms;
    scenario.retry.back_off = back_off(listener)?;
    scenario.retry.reset_on_exception_change = listener
        .handler
        .resets_on_exception_change
        .value
        .ok_or("whether another class of exception starts the back-off over is not known")?;
    scenario.stall = Stall::Engine;
    scenario.window.for_ms = service.stall_ms.as_ref().and_then(|setting| setting.value);
    if let Some(tickets) = service.write_tickets.value {
        scenario.server.write_tickets = tickets;
    }
    if let Some(interval_ms) = listener.max_poll_interval_ms.value {
        scenario.kafka.max_poll_interval_ms = interval_ms;
    }
    if let Some(records) = listener.max_poll_records.value {
        scenario.kafka.max_poll_records = records;
    }
    if !listener.inner_layers().is_empty() {
        return Err(format!("{} repeats the write within an execution", listener.inner_layers()[0].name));
    }
    if listener.kind == ListenerKind::RetryTopic {
        return Err("its retries go through further topics".to_owned());
    }
    if !write.is_reported() {
        return Err("its failure does not get to the error handler".to_owned());
    }
    if write.in_transaction {
        return Err("the write is in a transaction".to_owned());
    }
    work(&mut scenario, write)?;
    scenario.check().map_err(|error| error.to_string())?;
    Ok(scenario)
}

fn uri(service: &Service, name: &str) -> Result<String, String> {
    let client = &service.client;
    let mut uri: ConnectionString = "mongodb://localhost/test".parse().map_err(|error| format!("{error}"))?;
    let mut set = |name: &str, value: String| -> Result<(), String> {
        uri = uri.with_option(name, &value).map_err(|error| error.to_string())?;
        Ok(())
    };
    match client.patience() {
        Patience::Socket(timeout_ms) => set("socketTimeoutMS", timeout_ms.to_string())?,
        Patience::Operation(timeout_ms) => set("timeoutMS", timeout_ms.to_string())?,
        Patience::Forever => return Err("its client waits for ever".to_owned()),
        Patience::Unknown => return Err("its socket timeout is not known".to_owned()),
    }
    let retries = client.retry_writes.value.ok_or("whether its driver resends is not known")?;
    set("retryWrites", (retries && !client.is_unacknowledged).to_string())?;
    let app_name: String = name.chars().filter(char::is_ascii_alphanumeric).take(100).collect();
    set("appName", if app_name.is_empty() { "listener".to_owned() } else { app_name })?;
    Ok(uri.to_uri_string())
}

fn back_off(listener: &Listener) -> Result<BackOff, String> {
    match listener.handler.retries.value.as_ref().ok_or("its retries are not known")? {
        Retries::BackOff(back_off) => Ok(back_off.clone()),
        Retries::Times(executions) => {
            Ok(BackOff::fixed(0, i64::try_from(executions.saturating_sub(1)).unwrap_or(i64::MAX)))
        }
        Retries::Annotation(_) => Err("its retries go through further topics".to_owned()),
    }
}

fn work(scenario: &mut Scenario, write: &Write) -> Result<(), String> {
    let table = |text: &str| toml::from_str(text).map_err(|error: toml::de::Error| error.to_string());
    let workload = &mut scenario.workload;
    let document: toml::Table = table("record = '$record'\nattempt = '$execution'")?;
    let filter: toml::Table = table("_id = '$record'")?;
    let update: toml::Table = table("'$set' = { attempt = '$execution' }")?;
    workload.documents = Vec::new();
    let is_bulk_of_inserts =
        !write.models.is_empty() && write.models.iter().all(|model| matches!(model, Op::Insert | Op::InsertMany));
    let mut updates = |operation, upsert: bool| {
        workload.operation = operation;
        workload.filter = Some(filter.clone());
        workload.update = Some(update.clone());
        workload.upsert = upsert;
    };
    match write.op {
        Op::Insert => {
            workload.operation = Operation::InsertOne;
            workload.document = Some(document);
        }
        Op::InsertMany => {
            workload.operation = Operation::InsertMany;
            workload.documents = vec![document.clone(), document];
        }
        Op::Bulk if is_bulk_of_inserts => {
            workload.operation = Operation::BulkInsert;
            workload.documents = write.models.iter().map(|_| document.clone()).collect();
        }
        Op::Bulk if write.models.iter().all(|model| *model == Op::Upsert) && write.models.len() == 1 => {
            updates(Operation::UpdateOne, true);
        }
        Op::Bulk => return Err("a bulk that is not of inserts alone".to_owned()),
        Op::Save | Op::Upsert | Op::Replace => updates(Operation::UpdateOne, true),
        Op::Update | Op::Delete => updates(Operation::UpdateOne, false),
        Op::UpdateMany | Op::DeleteMany => updates(Operation::UpdateMany, false),
        Op::FindAndModify => updates(Operation::FindOneAndUpdate, true),
        Op::Command | Op::Aggregate => return Err(format!("a {} of its own", write.op.name())),
    }
    if matches!(workload.operation, Operation::UpdateOne | Operation::UpdateMany) && !workload.upsert {
        workload.seed = vec![table("_id = '0-0'")?];
    }
    Ok(())
}
