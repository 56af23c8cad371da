//! What an error of the server means, where its own text leads people astray.
//!
//! The texts speak of transactions to people who never began one: the number that a driver gives each retryable write
//! lives in the same field as a transaction's (facts/server.md 1.3).

use std::collections::BTreeMap;

use backfire_model::event::{ClientEvent, Event, Outcome, ServerEvent, What, WriteId};
use backfire_model::{Execution, OpId, RequestId};

use crate::text::{clean, letter, moment};

/// `TransactionTooOld`.
const TRANSACTION_TOO_OLD: i32 = 225;
/// `IncompleteTransactionHistory`.
const INCOMPLETE_TRANSACTION_HISTORY: i32 = 217;
/// Most explanations of one run: the same cause gives the same text many times.
const EXPLANATIONS_MAX: usize = 5;

/// A send as far as both sides told of it.
#[derive(Debug, Clone)]
struct Sent {
    at_ms: u64,
    write: WriteId,
    command: String,
    connection: String,
    app_name: Option<String>,
    request_id: RequestId,
    /// The execution and the driver's attempt, where the client was watched.
    client: Option<(Option<Execution>, u32)>,
}

impl Sent {
    /// `insert, execution 1, attempt 2, request 7 on connection 3 of app "orders", at 30.000 s`.
    fn source(&self) -> String {
        let mut parts = vec![clean(&self.command)];
        if let Some((execution, attempt)) = self.client {
            parts.extend(execution.map(|execution| format!("execution {execution}")));
            parts.push(format!("attempt {attempt} of the driver"));
        }
        let app = self.app_name.as_ref().map(|name| format!(" of app \"{}\"", clean(name))).unwrap_or_default();
        parts.push(format!("request {} on connection {}{app}", self.request_id, self.connection));
        parts.push(format!("arrived at {}", moment(self.at_ms)));
        parts.join(", ")
    }

    fn number(&self) -> i64 {
        self.write.txn_number.map_or(0, |number| number.0)
    }
}

/// One paragraph for each error that needs one, at most five; each shows the two sends that met, and where they came from.
pub fn explanations(events: &[Event]) -> Vec<String> {
    let mut client: BTreeMap<(WriteId, RequestId), (Option<Execution>, u32)> = BTreeMap::new();
    let mut sends: BTreeMap<OpId, Sent> = BTreeMap::new();
    // For each session the send with the highest number, and its letter.
    let mut newest: BTreeMap<backfire_model::Lsid, (OpId, String)> = BTreeMap::new();
    let mut texts = Vec::new();
    for event in events {
        match &event.what {
            What::Client(ClientEvent::Send { execution, write, request_id, attempt, .. }) => {
                client.insert((*write, *request_id), (*execution, *attempt));
            }
            What::Server(ServerEvent::Arrived { op, write, connection, request_id, app_name, command, .. }) => {
                let (Some(lsid), Some(_)) = (write.lsid, write.txn_number) else { continue };
                let sent = Sent {
                    at_ms: event.at_ms,
                    write: *write,
                    command: command.clone(),
                    connection: connection.to_string(),
                    app_name: app_name.clone(),
                    request_id: *request_id,
                    client: client.get(&(*write, *request_id)).copied(),
                };
                let next = letter(newest.len());
                let known = newest.entry(lsid).or_insert_with(|| (*op, next));
                if sends.get(&known.0).is_none_or(|newest| newest.number() <= sent.number()) {
                    known.0 = *op;
                }
                sends.insert(*op, sent);
            }
            What::Server(ServerEvent::Ended { op, outcome: Outcome::Error { code, code_name }, .. })
                if texts.len() < EXPLANATIONS_MAX =>
            {
                let Some(sent) = sends.get(op) else { continue };
                let Some((newest, session)) = sent.write.lsid.and_then(|lsid| newest.get(&lsid)) else { continue };
                match *code {
                    TRANSACTION_TOO_OLD => {
                        texts.extend(sends.get(newest).map(|newest| too_old(code_name, session, sent, newest)))
                    }
                    INCOMPLETE_TRANSACTION_HISTORY => texts.push(forgotten(code_name, session, sent)),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    texts
}

fn too_old(code_name: &str, session: &str, sent: &Sent, newest: &Sent) -> String {
    let (old, new) = (sent.number(), newest.number());
    format!(
        "{} (225) is about a retryable write number, the txnNumber that the driver gives each write of a session; nobody \
         needs to have begun a transaction. Session {session} had gone on to number {new} when number {old} arrived, and \
         the server takes no number below the newest. Two senders that share one session (a forked process, a copied \
         pool), or a send that was under way for very long, cause this.\n  number {old}: {}\n  number {new}: {}\n",
        clean(code_name),
        sent.source(),
        newest.source(),
    )
}

fn forgotten(code_name: &str, session: &str, sent: &Sent) -> String {
    format!(
        "{} (217) is about a retryable write number, the txnNumber that the driver gives each write of a session; nobody \
         needs to have begun a transaction. The server knows that number {} of session {session} was executed, and has \
         lost how: it refuses to execute it again. Whether the write is there has to be read.\n  number {}: {}\n",
        clean(code_name),
        sent.number(),
        sent.number(),
        sent.source(),
    )
}

#[cfg(test)]
mod tests {
    use backfire_model::{ConnectionId, Lsid, TxnNumber};

    use super::*;

    fn server(at_ms: u64, event: ServerEvent) -> Event {
        Event { at_ms, record: None, consumer: None, what: What::Server(event) }
    }

    fn write(number: i64) -> WriteId {
        WriteId { lsid: Some(Lsid(Default::default())), txn_number: Some(TxnNumber(number)) }
    }

    fn arrived(op: i32, number: i64) -> ServerEvent {
        ServerEvent::Arrived {
            op: OpId(op),
            write: write(number),
            connection: ConnectionId(i64::from(op)),
            request_id: RequestId(op + 10),
            app_name: Some("orders".into()),
            command: "insert".into(),
            namespace: "db.c".into(),
            in_transaction: false,
        }
    }

    fn ended(op: i32, number: i64, code: i32, code_name: &str) -> ServerEvent {
        let outcome = Outcome::Error { code, code_name: code_name.into() };
        ServerEvent::Ended { op: OpId(op), write: write(number), outcome, client_there: true }
    }

    #[test]
    fn an_old_number_is_explained_with_both_sends() {
        let send = ClientEvent::Send {
            execution: Some(Execution(1)),
            write: write(2),
            request_id: RequestId(12),
            command: "insert".into(),
            namespace: "db.c".into(),
            attempt: 2,
        };
        let events = [
            server(0, arrived(1, 3)),
            Event { at_ms: 30_000, record: None, consumer: None, what: What::Client(send) },
            server(30_000, arrived(2, 2)),
            server(30_001, ended(2, 2, 225, "TransactionTooOld")),
        ];
        insta::assert_snapshot!(explanations(&events).concat());
    }

    #[test]
    fn other_errors_speak_for_themselves_and_the_same_text_is_not_repeated_for_ever() {
        let one = |code, name: &str| explanations(&[server(0, arrived(1, 3)), server(1, ended(1, 3, code, name))]);
        assert_eq!(one(11000, "DuplicateKey"), Vec::<String>::new());
        assert!(one(217, "IncompleteTransactionHistory").concat().contains("retryable write number"));
        let many: Vec<Event> = (1..100)
            .flat_map(|op| [server(0, arrived(op, 1)), server(1, ended(op, 1, 225, "TransactionTooOld"))])
            .collect();
        assert_eq!(explanations(&many).len(), EXPLANATIONS_MAX);
    }
}
