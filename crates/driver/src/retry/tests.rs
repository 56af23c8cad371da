//! The retry rules as tables, one row each, and as a law over arbitrary attempts.

use proptest::prelude::*;

use super::*;
use crate::error::NetworkStage;
use crate::error::reply::command_error;
use crate::settings::ServerAddress;
use bson::doc;
use uuid::Uuid;

/// What goes wrong with an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bad {
    /// The socket timed out.
    Silence,
    /// The connection broke.
    Reset,
    /// Server selection ran out of its own time.
    NoServer,
    /// The pool was cleared: no connection.
    Cleared,
    /// The connection broke in its handshake.
    Handshake,
    /// `timeoutMS` ran out while a reply was awaited.
    Late,
    /// `timeoutMS` ran out while a server was selected.
    LateSelection,
    /// An error of the server, without a label.
    Code(i32),
    /// The same with `RetryableWriteError`.
    Labelled(i32),
    /// The same with `NoWritesPerformed` as well.
    NothingWritten(i32),
    /// Overloaded, and may be sent again.
    Overload,
    /// Overloaded, and may not.
    OverloadFinal,
}

use Bad::*;

impl Bad {
    fn error(self) -> (Stage, DriverError) {
        let command =
            |code: i32, labels: &[&str]| command_error(doc! {"ok": 0, "code": code, "errorLabels": labels.to_vec()});
        let silence = || DriverError::new(ErrorKind::SocketReadTimeout { silence: Duration::from_secs(1) });
        let reset = || DriverError::network(NetworkStage::Read, "reset");
        let no_server = || DriverError::new(ErrorKind::ServerSelectionTimeout("none".into()));
        match self {
            Silence => (Stage::OnConnection, silence()),
            Reset => (Stage::OnConnection, reset()),
            NoServer => (Stage::BeforeSend, no_server()),
            Cleared => (Stage::BeforeSend, DriverError::new(ErrorKind::PoolCleared("cleared".into()))),
            Handshake => (Stage::BeforeSend, reset()),
            Late => (Stage::OnConnection, silence().into_operation_timeout()),
            LateSelection => (Stage::BeforeSend, no_server().into_operation_timeout()),
            Code(code) => (Stage::OnConnection, command(code, &[])),
            Labelled(code) => (Stage::OnConnection, command(code, &[RETRYABLE_WRITE_ERROR])),
            NothingWritten(code) => (Stage::OnConnection, command(code, &[RETRYABLE_WRITE_ERROR, NO_WRITES_PERFORMED])),
            Overload => (Stage::OnConnection, command(462, &[SYSTEM_OVERLOADED_ERROR, RETRYABLE_ERROR])),
            OverloadFinal => (Stage::OnConnection, command(462, &[SYSTEM_OVERLOADED_ERROR])),
        }
    }
}

/// A command under its rules.
#[derive(Debug, Clone, Copy)]
struct Setup {
    rules: RetryRules,
    numbered: bool,
    wire_version: i32,
}

fn setup(operation: Operation) -> Setup {
    let settings = ClientSettings::new([ServerAddress::new("a", 1)]);
    let numbered = operation.is_numbered_write();
    Setup { rules: RetryRules::new(operation, &settings, false, false), numbered, wire_version: 9 }
}

fn write() -> Setup {
    setup(Operation::BulkWrite)
}

impl Setup {
    fn with_timeout(mut self) -> Self {
        self.rules.has_timeout = true;
        self
    }

    fn without_retry(mut self) -> Self {
        (self.rules.retry_writes, self.rules.retry_reads, self.numbered) = (false, false, false);
        self
    }

    fn not_numbered(mut self) -> Self {
        self.numbered = false;
        self
    }

    fn wire(mut self, wire_version: i32) -> Self {
        self.wire_version = wire_version;
        self
    }

    fn profile(mut self, profile: DriverProfile) -> Self {
        self.rules.profile = profile;
        self
    }
}

/// What came of it: sends, and the error raised (`None`: the attempt after the last bad one is good).
#[derive(Debug)]
struct End {
    sends: u32,
    error: Option<DriverError>,
    waited: Duration,
    identities: Vec<Identity>,
}

fn play(setup: Setup, attempts: &[Bad], deadline_after: Option<Duration>) -> End {
    let mut state = RetryState::new(setup.rules);
    let now = Instant::now();
    let (mut waited, mut identities) = (Duration::ZERO, Vec::new());
    let mut next_txn = 0;
    let mut send = |state: &mut RetryState, identities: &mut Vec<Identity>| {
        if setup.numbered {
            let make = || {
                next_txn += 1;
                Ok((Lsid(Uuid::from_u128(7)), TxnNumber(next_txn)))
            };
            identities.push(state.identity(make).unwrap());
        }
        state.sending()
    };
    for bad in attempts {
        let (stage, error) = bad.error();
        if stage == Stage::OnConnection {
            state.connected(setup.wire_version, true).unwrap();
            send(&mut state, &mut identities);
        }
        let deadline = deadline_after.map(|after| now + after);
        match state.attempt_failed(stage, error, now + waited, deadline, || 1.0, || true) {
            Decision::Retry(wait) => waited += wait,
            Decision::GiveUp(error) => return End { sends: state.sends, error: Some(error), waited, identities },
        }
    }
    state.connected(setup.wire_version, true).unwrap();
    send(&mut state, &mut identities);
    End { sends: state.sends, error: None, waited, identities }
}

/// Shows an end as `sends class`, with `+` when the class has the retryable label.
fn shown(end: &End) -> String {
    let Some(error) = &end.error else { return format!("{} ok", end.sends) };
    let label = if error.has_label(RETRYABLE_WRITE_ERROR) { "+" } else { "" };
    let what = match error.kind() {
        ErrorKind::SocketReadTimeout { .. } => "silence".to_owned(),
        ErrorKind::Network { .. } => "reset".to_owned(),
        ErrorKind::ServerSelectionTimeout(_) => "no server".to_owned(),
        ErrorKind::PoolCleared(_) => "cleared".to_owned(),
        ErrorKind::OperationTimeout(_) => "timeout".to_owned(),
        ErrorKind::Command(failure) => format!("code {}", failure.code.unwrap_or_default()),
        other => format!("{other:?}"),
    };
    format!("{} {what}{label}", end.sends)
}

#[track_caller]
fn check(setup: Setup, rows: &[(&[Bad], &str)]) {
    for (attempts, expected) in rows {
        assert_eq!(shown(&play(setup, attempts, None)), *expected, "{attempts:?}");
    }
}

#[test]
fn a_numbered_write_is_sent_twice_at_most() {
    // facts/client.md A1.1, A1.2, A1.5, A2 first row.
    check(
        write(),
        &[
            (&[Silence], "2 ok"),
            (&[Silence, Silence], "2 silence+"),
            (&[Reset, Silence], "2 silence+"),
            (&[Labelled(10107)], "2 ok"),
            (&[Labelled(10107), Labelled(91)], "2 code 91+"),
            (&[Code(10107)], "1 code 10107"),
            (&[Code(11000)], "1 code 11000"),
            // A1.6: the server's clock is no reason to send again; 262 is another code.
            (&[Code(50)], "1 code 50"),
            (&[Labelled(262)], "2 ok"),
            (&[Code(462)], "1 code 462"),
        ],
    );
}

#[test]
fn the_error_raised_is_the_newest_that_says_something() {
    // facts/client.md A1.7.
    check(
        write(),
        &[
            (&[Silence, NoServer], "1 silence+"),
            (&[Silence, Cleared], "1 silence+"),
            (&[Silence, Handshake], "1 silence+"),
            (&[Silence, Code(11000)], "2 code 11000"),
            (&[Labelled(91), NothingWritten(10107)], "2 code 91+"),
            (&[NothingWritten(10107), NothingWritten(91)], "2 code 10107+"),
            (&[NothingWritten(10107), Silence], "2 silence+"),
            (&[NoServer], "0 no server"),
        ],
    );
}

#[test]
fn old_servers_need_the_drivers_list_of_codes() {
    // facts/client.md A1.3.
    for code in [6, 7, 89, 91, 189, 262, 9001, 13436, 13435, 11602, 11600, 10107] {
        check(write().wire(8), &[(&[Code(code)], "2 ok")]);
        check(write().wire(9), &[(&[Code(code)], format!("1 code {code}").as_str())]);
    }
    check(write().wire(8), &[(&[Silence], "2 ok"), (&[Code(134)], "1 code 134"), (&[Code(64)], "1 code 64")]);
    check(write().wire(8).profile(DriverProfile::JAVA_5_14), &[(&[Code(134)], "2 ok")]);
}

#[test]
fn what_is_not_numbered_is_sent_once() {
    // facts/client.md A2 second row, A6.
    let once: &[(&[Bad], &str)] =
        &[(&[Silence], "1 silence"), (&[Reset], "1 reset"), (&[Labelled(10107)], "1 code 10107+")];
    check(write().without_retry(), once);
    check(write().not_numbered(), once);
    check(setup(Operation::PlainWrite), once);
    check(setup(Operation::RunCommand), once);
    check(setup(Operation::PlainRead), once);
}

#[test]
fn a_cleared_pool_is_tried_again_whatever_the_write() {
    // facts/client.md A1.4: nothing was sent, so nothing is copied.
    check(write(), &[(&[Cleared], "1 ok"), (&[Cleared, Cleared], "0 cleared")]);
    check(write().not_numbered(), &[(&[Cleared], "1 ok")]);
    check(write().without_retry(), &[(&[Cleared], "0 cleared")]);
    check(setup(Operation::FindAndModify).without_retry(), &[(&[Cleared], "1 ok"), (&[Cleared, Silence], "1 silence")]);
    check(setup(Operation::PlainWrite), &[(&[Cleared], "0 cleared")]);
}

#[test]
fn a_broken_first_handshake_is_raised_by_5_4_only() {
    // facts/client.md A10.
    check(write(), &[(&[Handshake], "0 reset")]);
    check(write().profile(DriverProfile::JAVA_5_14), &[(&[Handshake], "1 ok"), (&[Handshake, Handshake], "0 reset+")]);
    check(write().without_retry().profile(DriverProfile::JAVA_5_14), &[(&[Handshake], "0 reset")]);
}

#[test]
fn with_timeout_ms_attempts_are_not_counted_but_a_timeout_ends_it() {
    // facts/client.md A2 rows three and four, A7.
    check(
        write().with_timeout(),
        &[
            (&[Late], "1 timeout"),
            (&[Reset, Reset, Reset, Reset], "5 ok"),
            (&[Reset, Labelled(91), Late], "3 timeout"),
            (&[Reset, Reset, LateSelection], "2 reset+"),
            (&[LateSelection], "0 timeout"),
            (&[Reset, Code(11000)], "2 code 11000"),
        ],
    );
    check(write().without_retry().with_timeout(), &[(&[Reset], "1 reset"), (&[Cleared, Cleared], "1 ok")]);
    check(
        write().with_timeout().profile(DriverProfile::SPECIFICATION),
        &[(&[Reset, LateSelection], "1 timeout"), (&[Late], "1 timeout")],
    );
}

#[test]
fn a_timeout_after_other_failures_keeps_them_as_its_cause() {
    let end = play(setup(Operation::Read).with_timeout(), &[Reset, LateSelection], None);
    let error = end.error.unwrap();
    assert_eq!(
        (error.java_class(), error.cause().unwrap().java_class()),
        ("MongoOperationTimeoutException", "MongoSocketReadException")
    );
}

#[test]
fn reads_are_retried_once_by_code_on_every_server() {
    check(
        setup(Operation::Read),
        &[
            (&[Silence], "2 ok"),
            (&[Silence, Reset], "2 reset"),
            (&[Code(10107)], "2 ok"),
            (&[Code(262)], "2 ok"),
            (&[Cleared], "1 ok"),
            (&[Handshake], "1 ok"),
            (&[Code(50)], "1 code 50"),
            (&[Code(134)], "1 code 134"),
            // The newest counts if it is the network's or the server's; code 50 is neither in Java.
            (&[Reset, Code(11000)], "2 code 11000"),
            (&[Reset, Code(50)], "2 reset"),
            (&[Reset, NoServer], "1 reset"),
        ],
    );
    check(setup(Operation::Read).without_retry(), &[(&[Silence], "1 silence"), (&[Cleared], "0 cleared")]);
    check(setup(Operation::Read).with_timeout(), &[(&[Reset, Reset, Reset], "4 ok")]);
    check(setup(Operation::Read).profile(DriverProfile::JAVA_5_14), &[(&[Code(134)], "2 ok")]);
}

#[test]
fn overload_errors_are_retried_by_drivers_with_backpressure() {
    // facts/client.md C2: any command, three sends, also under timeoutMS.
    let all = [
        Operation::Read,
        Operation::PlainRead,
        Operation::BulkWrite,
        Operation::FindAndModify,
        Operation::PlainWrite,
        Operation::RunCommand,
    ];
    for operation in all {
        let with = setup(operation).profile(DriverProfile::JAVA_5_14);
        check(
            with,
            &[
                (&[Overload], "2 ok"),
                (&[Overload, Overload], "3 ok"),
                (&[Overload, Overload, Overload], "3 code 462"),
                (&[OverloadFinal], "1 code 462"),
            ],
        );
        check(with.with_timeout(), &[(&[Overload, Overload, Overload], "3 code 462")]);
        check(with.without_retry(), &[(&[Overload], "1 code 462")]);
        check(setup(operation), &[(&[Overload], "1 code 462")]);
    }
    // The limit counts all retries once an overload was seen.
    let with = write().profile(DriverProfile::JAVA_5_14);
    check(
        with,
        &[(&[Reset, Overload], "3 ok"), (&[Overload, Reset, Reset], "3 reset+"), (&[Reset, Reset], "2 reset+")],
    );
}

#[test]
fn only_overload_errors_wait_and_not_beyond_the_deadline() {
    let with = write().profile(DriverProfile::JAVA_5_14).with_timeout();
    let ms = Duration::from_millis;
    for (attempts, deadline, sends, waited) in [
        (&[Overload, Overload][..], None, 3, ms(600)),
        (&[Reset, Reset][..], None, 3, ms(0)),
        (&[Overload, Overload][..], Some(ms(599)), 2, ms(200)),
        (&[Overload][..], Some(ms(200)), 2, ms(200)),
        (&[Overload][..], Some(ms(199)), 1, ms(0)),
    ] {
        let end = play(with, attempts, deadline);
        assert_eq!((end.sends, end.waited), (sends, waited), "{attempts:?} {deadline:?}");
    }
}

#[test]
fn a_resend_needs_a_server_that_knows_numbers() {
    let mut state = RetryState::new(write().rules);
    state.connected(9, true).unwrap();
    state.identity(|| Ok((Lsid(Uuid::nil()), TxnNumber(1)))).unwrap();
    let (stage, error) = Reset.error();
    let decision = state.attempt_failed(stage, error, Instant::now(), None, || 0.0, || true);
    assert!(matches!(decision, Decision::Retry(wait) if wait.is_zero()));
    assert_eq!(state.connected(9, false).unwrap_err().java_class(), "MongoSocketReadException");
}

#[test]
fn the_next_command_of_a_bulk_has_attempts_of_its_own() {
    // facts/client.md A5.
    let mut state = RetryState::new(write().rules);
    let mut identities = Vec::new();
    for txn in 1..=3 {
        state.begin_command();
        for resend in [false, true] {
            state.connected(9, true).unwrap();
            identities.push(state.identity(|| Ok((Lsid(Uuid::nil()), TxnNumber(txn)))).unwrap().1.0);
            if !resend {
                let (stage, error) = Silence.error();
                let decision = state.attempt_failed(stage, error, Instant::now(), None, || 0.0, || true);
                assert!(matches!(decision, Decision::Retry(_)));
            }
        }
    }
    assert_eq!(identities, [1, 1, 2, 2, 3, 3]);
}

fn any_bad() -> impl Strategy<Value = Bad> {
    prop_oneof![
        Just(Silence),
        Just(Reset),
        Just(NoServer),
        Just(Cleared),
        Just(Handshake),
        Just(Late),
        Just(LateSelection),
        prop_oneof![Just(50), Just(91), Just(262), Just(10107), Just(11000)]
            .prop_flat_map(|code| { prop_oneof![Just(Code(code)), Just(Labelled(code)), Just(NothingWritten(code))] }),
        Just(Overload),
        Just(OverloadFinal),
    ]
}

fn any_setup() -> impl Strategy<Value = Setup> {
    let operation = prop_oneof![
        Just(Operation::Read),
        Just(Operation::PlainRead),
        Just(Operation::BulkWrite),
        Just(Operation::FindAndModify),
        Just(Operation::PlainWrite),
        Just(Operation::RunCommand),
    ];
    let profile =
        prop_oneof![Just(DriverProfile::JAVA_5_4), Just(DriverProfile::JAVA_5_14), Just(DriverProfile::SPECIFICATION)];
    (operation, profile, any::<[bool; 3]>(), prop_oneof![Just(8), Just(9)]).prop_map(
        |(operation, profile, [timeout, retry, numbered], wire_version)| {
            let mut setup = setup(operation).profile(profile).wire(wire_version);
            setup.rules.has_timeout = timeout;
            if !retry {
                setup = setup.without_retry();
            } else if !numbered {
                setup = setup.not_numbered();
            }
            setup
        },
    )
}

proptest! {
    #[test]
    fn sends_stay_within_the_rule_and_the_identity_never_changes(
        setup in any_setup(), attempts in prop::collection::vec(any_bad(), 0..12),
    ) {
        let end = play(setup, &attempts, None);
        let overloaded = setup.rules.profile.client_backpressure
            && attempts.iter().any(|bad| matches!(bad, Overload | OverloadFinal));
        let timed_out = attempts.iter().any(|bad| matches!(bad, Late | LateSelection));
        let most = match setup.rules.operation {
            _ if overloaded && !setup.rules.has_timeout => 1 + setup.rules.max_adaptive_retries,
            _ if setup.rules.has_timeout => attempts.len() as u32 + 1,
            _ if setup.numbered || (setup.rules.operation == Operation::Read && setup.rules.retry_reads) => 2,
            _ => 1,
        };
        prop_assert!(end.sends <= most, "{} sends of {most}", end.sends);
        prop_assert!(end.identities.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", end.identities);
        // A timeout is the last attempt, always.
        if let Some(first) = attempts.iter().position(|bad| matches!(bad, Late | LateSelection)) {
            prop_assert!(!timed_out || end.sends <= first as u32 + 1);
        }
        // A write that is not numbered never reaches the server a second time, except when it was refused unread.
        if !setup.numbered && setup.rules.operation != Operation::Read && !overloaded {
            prop_assert!(end.sends <= 1);
        }
    }
}
