//! A run as JSON, for machines.

use backfire_model::counts::{Counts, Difference, Extras};
use backfire_model::event::{Event, What, WriteId};
use backfire_model::ledger::Ledger;
use backfire_model::{Execution, Lsid, TxnNumber};
use serde::Serialize;

use backfire_model::run::Run;

#[derive(Serialize)]
struct Document<'a> {
    scenario: &'a str,
    scale: f64,
    predicted: &'a Counts,
    measured: &'a Counts,
    differences: Vec<Difference>,
    extras: ExtrasOfBoth<'a>,
    timeline: Vec<Entry>,
}

#[derive(Serialize)]
struct ExtrasOfBoth<'a> {
    predicted: &'a Extras,
    measured: &'a Extras,
}

/// One event of the timeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    at_ms: u64,
    side: &'static str,
    event: String,
    lsid: Option<Lsid>,
    #[serde(rename = "txnNumber")]
    txn_number: Option<TxnNumber>,
    execution: Option<Execution>,
}

/// The run as one JSON object, pretty-printed.
pub fn render(run: &Run) -> String {
    let document = Document {
        scenario: &run.scenario,
        scale: run.scale,
        predicted: &run.predicted.0,
        measured: &run.measured.0,
        differences: run.differences(),
        extras: ExtrasOfBoth { predicted: &run.predicted.1, measured: &run.measured.1 },
        timeline: timeline(run),
    };
    // Numbers, strings and lists only: this cannot fail.
    serde_json::to_string_pretty(&document).unwrap_or_default()
}

/// The events that belong to the logical write, each with its execution.
pub fn timeline(run: &Run) -> Vec<Entry> {
    let mut ledger = Ledger::new(run.namespace.clone());
    run.events.iter().for_each(|event| ledger.record(event));
    run.events.iter().filter_map(|event| entry(event, &ledger)).collect()
}

fn entry(event: &Event, ledger: &Ledger) -> Option<Entry> {
    let (side, write, execution) = match &event.what {
        What::Client(client) => {
            let (write, execution) = of_client(client);
            ("client", write, execution)
        }
        What::Server(server) if ledger.knows(server.op()) => {
            ("server", server.write(), ledger.execution_of_op(server.op()))
        }
        What::Server(_) => return None,
    };
    // The name of the event is its tag in the event stream.
    let tagged = serde_json::to_value(&event.what).ok()?;
    let name = tagged.get("event")?.as_str()?.to_owned();
    Some(Entry { at_ms: event.at_ms, side, event: name, lsid: write.lsid, txn_number: write.txn_number, execution })
}

fn of_client(event: &backfire_model::event::ClientEvent) -> (WriteId, Option<Execution>) {
    use backfire_model::event::ClientEvent as E;
    match event {
        E::Send { write, execution, .. }
        | E::Reply { write, execution, .. }
        | E::SendFailed { write, execution, .. } => (*write, *execution),
        E::ExecutionStarted { execution }
        | E::ExecutionSucceeded { execution }
        | E::ExecutionFailed { execution, .. }
        | E::BackOff { execution, .. }
        | E::BackOffRestarted { execution }
        | E::RecoveryFailed { execution, .. }
        | E::DeadLetter { execution } => (WriteId::default(), Some(*execution)),
        E::HungUp | E::Assigned { .. } | E::Revoked { .. } | E::Lost { .. } | E::CommitFailed { .. } => {
            (WriteId::default(), None)
        }
    }
}
