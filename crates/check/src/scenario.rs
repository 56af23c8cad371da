//! A listener as a scenario: what a rehearsal or a simulation runs to measure what was predicted for it.

use backfire_model::ConnectionString;
use backfire_model::back_off::BackOff;
use backfire_model::load::{ErrorHandling, ListenerKind as Handed};
use backfire_model::predict::Stall;
use backfire_model::scenario::{DriverRules, Inner, Model, ModelKind, Operation, Scenario};

use crate::build::Family;
use crate::prediction::decisive;
use crate::service::{Client, Layer, Listener, ListenerKind, Op, Patience, Retries, Service, Write};

/// The scenario of a listener: its client's settings, its retries and the write that decides, while the engine stands still.
///
/// # Errors
/// What a scenario cannot have, in words: something that is not known, retries through further topics, a transaction.
pub fn of_listener(service: &Service, listener: &Listener) -> Result<Scenario, String> {
    let mut scenario = Scenario::built_in("store-inventory").map_err(|error| error.to_string())?;
    let write = decisive(&service.client, listener).ok_or("no write of it is known")?;
    scenario.name = listener.name.clone();
    scenario.summary = format!("The listener {} of {}, while the engine stands still.", listener.name, service.name);
    scenario.client.uri = uri(service, &listener.name)?;
    scenario.client.max_time_ms = write.max_time_ms;
    scenario.client.driver = driver(&service.client, write)?;
    scenario.retry.back_off = back_off(listener)?;
    scenario.retry.inner = write.layers.iter().chain(&listener.layers).map(inner).collect::<Result<_, _>>()?;
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
    match listener.kind {
        ListenerKind::RetryTopic => return Err("its retries go through further topics".to_owned()),
        // A batch that is executed again sleeps on the consumer's thread, whatever the handler does (D4).
        ListenerKind::Batch => scenario.kafka.listener = Handed::Batch,
        ListenerKind::Single if listener.handler.pauses => {
            scenario.kafka.error_handling = ErrorHandling::SpringPausing;
        }
        ListenerKind::Single | ListenerKind::Sink => {}
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

/// Options of a connection string that a scenario takes over as they are.
const CARRIED: [&str; 6] = [
    "maxAdaptiveRetries",
    "maxPoolSize",
    "maxConnecting",
    "connectTimeoutMS",
    "serverSelectionTimeoutMS",
    "heartbeatFrequencyMS",
];

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
    // What else decides about sends, where the service sets it.
    let stated = client.uri.as_ref().and_then(|uri| uri.parsed.as_ref());
    for option in stated.iter().flat_map(|uri| uri.occurrences()) {
        if CARRIED.iter().any(|name| name.eq_ignore_ascii_case(option.name())) {
            set(option.name(), option.value().expose().to_owned())?;
        }
    }
    let app_name: String = name.chars().filter(char::is_ascii_alphanumeric).take(100).collect();
    set("appName", if app_name.is_empty() { "listener".to_owned() } else { app_name })?;
    Ok(uri.to_uri_string())
}

/// Whose rules the driver follows, as far as it matters for this write (facts/client.md A5, A10, B).
fn driver(client: &Client, write: &Write) -> Result<DriverRules, String> {
    let is_mixed = write.op == Op::Bulk && write.models.iter().any(|model| model.is_multi());
    match client.family {
        Family::Java => Ok(match &client.version {
            Some(known) if known.version.at_least([5, 12, 0]) => DriverRules::Java514,
            _ => DriverRules::Java54,
        }),
        // From the first command with a multi write on it resends nothing, which no rules here say.
        Family::Node if is_mixed && write.models.len() > 1 => {
            Err("a bulk of the Node driver with a multi-document write in it".to_owned())
        }
        _ => Ok(DriverRules::Specification),
    }
}

/// A layer with its waits alike: only their sum is known.
fn inner(layer: &Layer) -> Result<Inner, String> {
    let executions = layer.executions.ok_or_else(|| format!("the attempts of {} are not known", layer.name))?;
    let retries = executions.saturating_sub(1);
    let wait_ms = layer.waits_ms.checked_div(retries).unwrap_or(0);
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    Ok(Inner { name: layer.name.clone(), back_off: BackOff::fixed(whole(wait_ms), whole(retries)) })
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
        Op::Bulk if write.models.is_empty() => return Err("what its bulk is made of is not known".to_owned()),
        Op::Bulk => {
            workload.operation = Operation::BulkWrite;
            workload.ordered = write.is_ordered;
            (workload.models, workload.seed) = models(&write.models)?;
        }
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

/// The writes of a bulk, each about a document of its own, and the documents that have to be there before.
fn models(ops: &[Op]) -> Result<(Vec<Model>, Vec<toml::Table>), String> {
    let table = |text: &str| toml::from_str::<toml::Table>(text).map_err(|error| error.to_string());
    let (mut models, mut seed) = (Vec::new(), Vec::new());
    for (place, op) in ops.iter().enumerate() {
        let id = format!("_id = 'document-{}'", place + 1);
        let kind = match op {
            Op::Insert | Op::InsertMany => ModelKind::InsertOne,
            Op::Update | Op::Upsert => ModelKind::UpdateOne,
            Op::UpdateMany => ModelKind::UpdateMany,
            Op::Save | Op::Replace => ModelKind::ReplaceOne,
            Op::Delete => ModelKind::DeleteOne,
            Op::DeleteMany => ModelKind::DeleteMany,
            Op::FindAndModify | Op::Bulk | Op::Command | Op::Aggregate => {
                return Err(format!("a {} in its bulk", op.name()));
            }
        };
        let upsert = matches!(op, Op::Upsert | Op::Save);
        let has_document = matches!(kind, ModelKind::InsertOne | ModelKind::ReplaceOne);
        let has_update = matches!(kind, ModelKind::UpdateOne | ModelKind::UpdateMany);
        if kind != ModelKind::InsertOne && !upsert {
            seed.push(table(&id)?);
        }
        models.push(Model {
            kind,
            document: has_document.then(|| table("record = '$record'\nattempt = '$execution'")).transpose()?,
            filter: (kind != ModelKind::InsertOne).then(|| table(&id)).transpose()?,
            update: has_update.then(|| table("'$set' = { attempt = '$execution' }")).transpose()?,
            upsert,
        });
    }
    Ok((models, seed))
}

#[cfg(test)]
mod tests {
    use backfire_model::load::ListenerKind;
    use backfire_model::predict::predict;
    use backfire_model::scenario::{DriverRules, Scenario};

    use crate::request::Request;

    /// The scenario of the one listener of a service that states this.
    fn scenario(listener: &str) -> Scenario {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "[driver]\nfamily = \"java\"\nversion = \"5.14.0\"\n[client]\nuri = \"mongodb://db/?socketTimeoutMS=30000\"\n\
             [[listener]]\nname = \"l\"\nexecutions = 4\n{listener}"
        );
        std::fs::write(folder.path().join("backfire.toml"), text).expect("written");
        let request = Request { paths: vec![folder.path().to_owned()], ..Request::default() };
        let found = crate::scenarios(&request).expect("read").remove(0);
        found.scenario.unwrap_or_else(|error| panic!("{listener}: {error}"))
    }

    #[test]
    fn bulks_layers_and_batches_have_a_scenario() {
        let bulk = "[[listener.write]]\nop = \"bulk\"\nmodels = ";
        // Commands, executions, sends, copies while the engine stands still.
        for (listener, expected) in [
            (format!("{bulk}[\"insert\", \"upsert\", \"insert\"]"), (3, 4, 8, 4)),
            (format!("{bulk}[\"insert\", \"upsert\", \"insert\"]\nordered = false"), (2, 4, 8, 4)),
            (format!("{bulk}[\"insert\", \"update-many\"]"), (2, 4, 4, 4)),
            (format!("{bulk}[\"update\", \"replace\", \"delete\"]"), (3, 4, 8, 4)),
            ("inner_executions = 3\n[[listener.write]]\nop = \"insert\"".to_owned(), (1, 12, 24, 12)),
            ("kind = \"batch\"\n[[listener.write]]\nop = \"insert\"".to_owned(), (1, 4, 8, 4)),
        ] {
            let scenario = scenario(&listener);
            assert_eq!(scenario.client.driver, DriverRules::Java514);
            assert_eq!(scenario.kafka.listener == ListenerKind::Batch, listener.starts_with("kind"), "{listener}");
            let plan = scenario.plan(1.0, false).expect("a plan");
            let counts = predict(&plan).unwrap_or_else(|error| panic!("{listener}: {error}")).counts;
            assert_eq!((plan.commands.len(), counts.executions, counts.sends, counts.copies), expected, "{listener}");
            // What `check --scenario` prints can be read again.
            let text = toml::to_string(&scenario).expect("TOML");
            assert_eq!(Scenario::parse(&text).as_ref(), Ok(&scenario), "{text}");
        }
    }
}
