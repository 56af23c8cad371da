//! A trace: one dense line per event.

use backfire_model::event::{ClientEvent, Event, Outcome, SendError, ServerEvent, Wait, What, WriteId};

/// What the letters mean.
pub const LEGEND: &str = "\
# seconds  consumer  record  event
# application  E execution  ok  fail  .. back-off  D dead letter  D! dead letter not published
# driver       > send  >> resend  < reply  x send failed
# group        + partitions assigned  - revoked  ! lost: max.poll.interval.ms exceeded  C! commit failed
# server       arrive  wait (fail point, session, ticket, lock, conflict, engine, interruptible)  go on  execute
#              commit  replay: answered from history  end
# writes are named by the last 4 digits of their lsid and their txnNumber
";

/// The event as a line.
pub fn line(event: &Event) -> String {
    let consumer = event.consumer.map(|consumer| format!("c{consumer}")).unwrap_or_default();
    let record = event.record.map(|record| record.to_string()).unwrap_or_default();
    let what = match &event.what {
        What::Client(event) => client(event),
        What::Server(event) => format!("                      {}", server(event)),
    };
    format!("{:>10.3}  {consumer:<5} {record:<8} {what}\n", event.at_ms as f64 / 1000.0)
}

fn name(write: &WriteId) -> String {
    let lsid = write.lsid.map(|lsid| lsid.to_string());
    let last = lsid.as_deref().map_or("----", |lsid| &lsid[lsid.len() - 4..]);
    match write.txn_number {
        Some(number) => format!("{last}/{number}"),
        None => format!("{last}/-"),
    }
}

fn list(partitions: &[u32]) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn client(event: &ClientEvent) -> String {
    match event {
        ClientEvent::ExecutionStarted { execution } => format!("E{execution}"),
        ClientEvent::Send { write, attempt, command, .. } => {
            format!("{} {command} {}", if *attempt > 1 { ">>" } else { ">" }, name(write))
        }
        ClientEvent::Reply { write, .. } => format!("< {}", name(write)),
        ClientEvent::SendFailed { write, error, .. } => format!(
            "x {} {}",
            name(write),
            match error {
                SendError::SocketTimeout => "socket timeout".to_owned(),
                SendError::OperationTimeout => "timeoutMS".to_owned(),
                SendError::Network { .. } => "network".to_owned(),
                SendError::Server { code, code_name, .. } => format!("{code_name} ({code})"),
            }
        ),
        ClientEvent::ExecutionSucceeded { execution } => format!("E{execution} ok"),
        ClientEvent::ExecutionFailed { execution, .. } => format!("E{execution} fail"),
        ClientEvent::BackOffRestarted { .. } => ".. starts over".to_owned(),
        ClientEvent::BackOff { wait_ms, .. } => format!(".. {wait_ms} ms"),
        ClientEvent::DeadLetter { execution } => format!("D after E{execution}"),
        ClientEvent::RecoveryFailed { execution, .. } => format!("D! after E{execution}"),
        ClientEvent::HungUp => "connections closed".to_owned(),
        ClientEvent::Assigned { partitions } => format!("+ {}", list(partitions)),
        ClientEvent::Revoked { partitions } => format!("- {}", list(partitions)),
        ClientEvent::Lost { partitions } => format!("! {}", list(partitions)),
        ClientEvent::CommitFailed { partitions } => format!("C! {}", list(partitions)),
    }
}

fn wait(wait: Wait) -> &'static str {
    match wait {
        Wait::FailPoint => "fail point",
        Wait::Session => "session",
        Wait::Ticket => "ticket",
        Wait::Lock => "lock",
        Wait::WriteConflict => "conflict",
        Wait::EngineStall => "engine",
        Wait::InterruptibleStall => "interruptible",
    }
}

fn server(event: &ServerEvent) -> String {
    let what = match event {
        ServerEvent::Arrived { command, .. } => format!("arrive {command}"),
        ServerEvent::Waiting { wait: kind, .. } => format!("wait {}", wait(*kind)),
        ServerEvent::Resumed { wait: kind, .. } => format!("go on {}", wait(*kind)),
        ServerEvent::Executing { .. } => "execute".to_owned(),
        ServerEvent::Committed { documents, .. } => format!("commit {documents}"),
        ServerEvent::Replayed { statements, .. } => format!("replay {statements}"),
        ServerEvent::Ended { outcome, client_there, .. } => {
            let outcome = match outcome {
                Outcome::Ok => "ok".to_owned(),
                Outcome::Error { code, code_name } => format!("{code_name} ({code})"),
                Outcome::ConnectionClosed => "connection closed".to_owned(),
            };
            format!("end {outcome}{}", if *client_there { "" } else { ", nobody there" })
        }
    };
    format!("op{} {} {what}", event.op(), name(&event.write()))
}
