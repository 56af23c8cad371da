//! Event streams for tests: single events with as little to write as possible, and whole streams of many logical writes.

#![allow(dead_code)]

use super::input::Recording;
use backfire_model::event::{ClientEvent, Event, Outcome, SendError, ServerEvent, Wait, What, WriteId};
use backfire_model::{ConnectionId, Execution, Lsid, OpId, RecordId, RequestId, TxnNumber};

/// The events, one per millisecond.
pub fn events(what: impl IntoIterator<Item = What>) -> Vec<Event> {
    what.into_iter().zip(0..).map(|(what, at_ms)| Event { at_ms, record: None, consumer: None, what }).collect()
}

/// The identity number 1 of a session.
pub fn write(session: u64) -> WriteId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&session.to_be_bytes());
    WriteId { lsid: Some(Lsid(uuid::Uuid::from_bytes(bytes))), txn_number: Some(TxnNumber(1)) }
}

pub fn started(execution: u32) -> What {
    What::Client(ClientEvent::ExecutionStarted { execution: Execution(execution) })
}

pub fn succeeded(execution: u32) -> What {
    What::Client(ClientEvent::ExecutionSucceeded { execution: Execution(execution) })
}

pub fn failed(execution: u32) -> What {
    let error = "MongoSocketReadTimeoutException: no reply within 30000 ms".to_owned();
    What::Client(ClientEvent::ExecutionFailed { execution: Execution(execution), error })
}

pub fn back_off(execution: u32, wait_ms: u64) -> What {
    What::Client(ClientEvent::BackOff { execution: Execution(execution), wait_ms })
}

pub fn dead_letter(execution: u32) -> What {
    What::Client(ClientEvent::DeadLetter { execution: Execution(execution) })
}

pub fn hung_up() -> What {
    What::Client(ClientEvent::HungUp)
}

/// A send with `id` as its session and request.
pub fn send(execution: u32, id: i32, namespace: &str) -> What {
    sent(execution, write(id as u64), id, namespace, 1)
}

pub fn sent(execution: u32, write: WriteId, request: i32, namespace: &str, attempt: u32) -> What {
    What::Client(ClientEvent::Send {
        execution: Some(Execution(execution)),
        write,
        request_id: RequestId(request),
        command: "insert".into(),
        namespace: namespace.into(),
        attempt,
    })
}

pub fn timed_out(execution: u32, write: WriteId, request: i32) -> What {
    send_failed(execution, write, request, SendError::SocketTimeout)
}

pub fn send_failed(execution: u32, write: WriteId, request: i32, error: SendError) -> What {
    let execution = Some(Execution(execution));
    What::Client(ClientEvent::SendFailed { execution, write, request_id: RequestId(request), error })
}

pub fn reply(execution: u32, write: WriteId, request: i32) -> What {
    What::Client(ClientEvent::Reply { execution: Some(Execution(execution)), write, request_id: RequestId(request) })
}

/// An arrival with `id` as its session and request.
pub fn arrived(op: i32, id: i32, command: &str, namespace: &str) -> What {
    arrival(op, write(id as u64), id, command, namespace)
}

pub fn arrival(op: i32, write: WriteId, request: i32, command: &str, namespace: &str) -> What {
    What::Server(ServerEvent::Arrived {
        op: OpId(op),
        write,
        connection: ConnectionId(i64::from(op) + 1),
        request_id: RequestId(request),
        app_name: Some("shop".into()),
        command: command.into(),
        namespace: namespace.into(),
        in_transaction: false,
    })
}

pub fn executing(op: i32, id: i32) -> What {
    What::Server(ServerEvent::Executing { op: OpId(op), write: write(id as u64) })
}

pub fn waiting(op: i32, id: i32, wait: Wait) -> What {
    What::Server(ServerEvent::Waiting { op: OpId(op), write: write(id as u64), wait })
}

pub fn resumed(op: i32, id: i32, wait: Wait) -> What {
    What::Server(ServerEvent::Resumed { op: OpId(op), write: write(id as u64), wait })
}

pub fn committed(op: i32, id: i32, documents: u32) -> What {
    let first_id = format!("{op:024x}");
    What::Server(ServerEvent::Committed { op: OpId(op), write: write(id as u64), documents, first_id })
}

pub fn replayed(op: i32, id: i32) -> What {
    What::Server(ServerEvent::Replayed { op: OpId(op), write: write(id as u64), statements: 1 })
}

pub fn ended(op: i32, id: i32, outcome: Outcome, client_there: bool) -> What {
    What::Server(ServerEvent::Ended { op: OpId(op), write: write(id as u64), outcome, client_there })
}

/// Many logical writes under one engine stall: each is executed up to four times with two sends each. What comes before the stall
/// ends piles up and most of it goes to the dead-letter topic; what comes later is written at once. `spread_ms` is the time
/// between the start of one write and of the next.
pub fn many_writes(writes: u32, spread_ms: u64) -> Recording {
    let stall_ends_ms = u64::from(writes) * spread_ms / 2 + 250_000;
    let mut all = Vec::new();
    for number in 0..writes {
        // A little disorder that is the same every time.
        let began_ms = u64::from(number) * spread_ms + u64::from(number.wrapping_mul(2_654_435_761) % 997);
        one_write(&mut all, number, began_ms, stall_ends_ms);
    }
    // In the order in which things happen; what one write does in one millisecond stays in its order.
    all.sort_by_key(|event: &Event| event.at_ms);
    Recording { events: all, ..Recording::default() }
}

fn one_write(all: &mut Vec<Event>, number: u32, began_ms: u64, stall_ends_ms: u64) {
    const TIMEOUT_MS: u64 = 30_000;
    let namespace = "shop.orders";
    let mut now_ms = began_ms;
    let of = RecordId { partition: number % 4, offset: u64::from(number / 4) };
    // The server knows nothing of records.
    let mut push = |at_ms: u64, what: What| {
        let record = matches!(what, What::Client(_)).then_some(of);
        all.push(Event { at_ms, record, consumer: None, what });
    };
    for execution in 1..=4_u32 {
        push(now_ms, started(execution));
        let id = (number * 4 + execution) as i32;
        let write = write(id as u64);
        for attempt in 1..=2_u32 {
            let op = id * 2 + attempt as i32 - 1;
            push(now_ms, sent(execution, write, op, namespace, attempt));
            push(now_ms, arrival(op, write, op, "insert", namespace));
            let (wait, done_ms) = match attempt {
                1 => (Wait::EngineStall, stall_ends_ms.max(now_ms) + 1),
                _ => (Wait::Session, stall_ends_ms.max(now_ms) + 2),
            };
            let is_heard = done_ms <= now_ms + TIMEOUT_MS;
            if attempt == 1 {
                push(now_ms, executing(op, id));
            }
            if stall_ends_ms > now_ms {
                push(now_ms, waiting(op, id, wait));
                push(done_ms, resumed(op, id, wait));
            }
            if attempt == 1 {
                push(done_ms, committed(op, id, 1));
            } else {
                push(done_ms, executing(op, id));
                push(done_ms, replayed(op, id));
            }
            push(done_ms, ended(op, id, Outcome::Ok, is_heard));
            if is_heard {
                push(done_ms, reply(execution, write, op));
                push(done_ms, succeeded(execution));
                return;
            }
            now_ms += TIMEOUT_MS;
            push(now_ms, timed_out(execution, write, op));
        }
        push(now_ms, failed(execution));
        if execution == 4 {
            push(now_ms, dead_letter(execution));
        } else {
            push(now_ms, back_off(execution, 1_000));
            now_ms += 1_000;
        }
    }
}
