//! Streams that nobody would record: events in any order, of operations that never arrived, with numbers at their limits. Every form
//! is rendered of them, and what forms promise holds.

use std::collections::{BTreeMap, BTreeSet};

use backfire_model::event::{ClientEvent, Event, Outcome, SendError, ServerEvent, Wait, What, WriteId};
use backfire_model::{ConnectionId, ConsumerId, Execution, Lsid, OpId, RecordId, RequestId, TxnNumber};
use backfire_report::{Context, Format, Recording};
use proptest::prelude::*;
use serde_json::Value;
use uuid::Uuid;

/// A time: mostly near the others, now and then at the end of all times.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..1_000_u64, 1 => any::<u64>()]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("insert".to_owned()),
        Just("find".to_owned()),
        Just("</script>\u{202e}\u{0}'\"&".to_owned()),
        ".{0,6}"
    ]
}

fn write() -> impl Strategy<Value = WriteId> {
    (prop::option::of(0..3_u8), prop::option::of(0..2_i64)).prop_map(|(session, number)| WriteId {
        lsid: session.map(|session| Lsid(Uuid::from_bytes([session; 16]))),
        txn_number: number.map(TxnNumber),
    })
}

fn wait() -> impl Strategy<Value = Wait> {
    prop::sample::select(vec![Wait::FailPoint, Wait::Session, Wait::Ticket, Wait::Lock, Wait::EngineStall])
}

fn client() -> impl Strategy<Value = ClientEvent> {
    let execution = || (0..4_u32).prop_map(Execution);
    let of = || (prop::option::of(execution()), write(), (0..4_i32).prop_map(RequestId));
    let error = prop_oneof![
        Just(SendError::SocketTimeout),
        text().prop_map(|message| SendError::Network { message }),
        (any::<i32>(), text()).prop_map(|(code, code_name)| SendError::Server { code, code_name, retryable: true }),
    ];
    prop_oneof![
        execution().prop_map(|execution| ClientEvent::ExecutionStarted { execution }),
        (of(), text(), text(), any::<u32>()).prop_map(
            |((execution, write, request_id), command, namespace, attempt)| {
                ClientEvent::Send {
                    execution,
                    write,
                    request_id,
                    command,
                    namespace: format!("db.{namespace}"),
                    attempt,
                }
            }
        ),
        of().prop_map(|(execution, write, request_id)| ClientEvent::Reply { execution, write, request_id }),
        (of(), error).prop_map(|((execution, write, request_id), error)| ClientEvent::SendFailed {
            execution,
            write,
            request_id,
            error
        }),
        execution().prop_map(|execution| ClientEvent::ExecutionSucceeded { execution }),
        (execution(), text()).prop_map(|(execution, error)| ClientEvent::ExecutionFailed { execution, error }),
        (execution(), time()).prop_map(|(execution, wait_ms)| ClientEvent::BackOff { execution, wait_ms }),
        execution().prop_map(|execution| ClientEvent::DeadLetter { execution }),
        (execution(), text()).prop_map(|(execution, error)| ClientEvent::RecoveryFailed { execution, error }),
        Just(ClientEvent::HungUp),
        prop::collection::vec(0..30_u32, 0..12).prop_map(|partitions| ClientEvent::Lost { partitions }),
    ]
}

/// A command, its collection, and whether it is part of a transaction.
fn arrival() -> impl Strategy<Value = (String, String, bool)> {
    prop_oneof![
        4 => (text(), text(), any::<bool>())
            .prop_map(|(command, namespace, in_transaction)| (command, format!("db.{namespace}"), in_transaction)),
        1 => Just(("commitTransaction".to_owned(), "admin.$cmd".to_owned(), true)),
    ]
}

fn server() -> impl Strategy<Value = ServerEvent> {
    let of = || ((0..20_i32).prop_map(OpId), write());
    let outcome = prop_oneof![
        Just(Outcome::Ok),
        Just(Outcome::ConnectionClosed),
        (any::<i32>(), text()).prop_map(|(code, code_name)| Outcome::Error { code, code_name }),
    ];
    prop_oneof![
        3 => (of(), any::<i64>(), 0..4_i32, arrival()).prop_map(|((op, write), connection, request, arrival)| {
            let (command, namespace, in_transaction) = arrival;
            ServerEvent::Arrived {
                op,
                write,
                connection: ConnectionId(connection),
                request_id: RequestId(request),
                app_name: Some(command.clone()),
                command,
                namespace,
                in_transaction,
            }
        }),
        1 => (of(), wait()).prop_map(|((op, write), wait)| ServerEvent::Waiting { op, write, wait }),
        1 => (of(), wait()).prop_map(|((op, write), wait)| ServerEvent::Resumed { op, write, wait }),
        2 => of().prop_map(|(op, write)| ServerEvent::Executing { op, write }),
        1 => (of(), any::<u32>(), text()).prop_map(|((op, write), documents, first_id)| ServerEvent::Committed {
            op,
            write,
            documents,
            first_id
        }),
        1 => (of(), any::<u32>()).prop_map(|((op, write), statements)| ServerEvent::Replayed { op, write, statements }),
        1 => (of(), outcome, any::<bool>()).prop_map(|((op, write), outcome, client_there)| ServerEvent::Ended {
            op,
            write,
            outcome,
            client_there
        }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let what = prop_oneof![client().prop_map(What::Client), server().prop_map(What::Server)];
    let record = (0..2_u32, any::<u64>()).prop_map(|(partition, offset)| RecordId { partition, offset });
    (time(), prop::option::weighted(0.3, record), prop::option::weighted(0.3, 0..3_u32), what)
        .prop_map(|(at_ms, record, consumer, what)| Event { at_ms, record, consumer: consumer.map(ConsumerId), what })
}

/// Whether two slices of one thread overlap without one lying in the other.
fn crosses(slices: &[(u64, u64)]) -> bool {
    let pairs = slices.iter().flat_map(|one| slices.iter().map(move |other| (one, other)));
    pairs.into_iter().any(|(one, other)| one.0 < other.0 && other.0 < one.1 && one.1 < other.1)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_is_rendered(
        events in prop::collection::vec(event(), 0..60),
        tickets in prop::option::of(any::<u64>()),
        namespace in prop::option::weighted(0.2, Just("db.insert".to_owned())),
    ) {
        // An operation arrives once: its id is its name.
        let mut arrived = BTreeSet::new();
        let mut events = events;
        events.retain(|event| match &event.what {
            What::Server(what @ ServerEvent::Arrived { .. }) => arrived.insert(what.op()),
            _ => true,
        });
        let context = Context { tickets, namespace, began_at_unix_ms: Some(u64::MAX), ..Context::default() };
        let recording = Recording { events, context, ..Recording::default() };

        let numbers: Value = serde_json::from_str(&Format::Json.render(&recording)).expect("JSON");
        let writes = numbers["writes"].as_array().expect("writes");
        prop_assert_eq!(numbers["writes_total"].as_u64(), Some(writes.len() as u64));
        let sum = |key: &str| writes.iter().filter_map(|write| write[key].as_u64()).sum::<u64>();
        let measured = |key: &str| numbers["measured"][key].as_u64().unwrap_or(u64::MAX);
        prop_assert_eq!(sum("sends"), measured("sends"));
        // A session and number that two collections claim is a copy of each of them.
        prop_assert!(sum("copies") >= measured("copies"));

        let svg = Format::Svg.render(&recording);
        prop_assert!(roxmltree::Document::parse(&svg).is_ok(), "{svg}");
        prop_assert!(!svg.contains("NaN") && !svg.contains("\"inf"), "{svg}");
        let page = Format::Html.render(&recording);
        prop_assert_eq!(page.matches("</script>").count(), 2);

        let trace: Value = serde_json::from_str(&Format::Perfetto.render(&recording)).expect("JSON");
        let mut threads: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
        for event in trace["traceEvents"].as_array().into_iter().flatten().filter(|event| event["ph"] == "X") {
            let number = |key: &str| event[key].as_u64().unwrap_or(u64::MAX);
            threads.entry((number("pid"), number("tid"))).or_default().push((number("ts"), number("ts") + number("dur")));
        }
        for (thread, slices) in threads.iter().filter(|((_, thread), _)| *thread >= 100_000) {
            prop_assert!(!crosses(slices), "{:?}: {:?}", thread, slices);
        }

        let spans: Value = serde_json::from_str(&Format::Otlp.render(&recording)).expect("JSON");
        prop_assert_eq!(spans["resourceSpans"].as_array().map(Vec::len), Some(2));
    }
}
