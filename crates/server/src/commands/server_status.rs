//! `serverStatus`.

use bson::{Bson, Document, doc};

use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Permission};
use crate::counters::read;
use crate::locks::TicketPool;
use crate::ops::current_op::global_lock;
use crate::server::Shared;
use crate::value::View;

/// `{serverStatus: 1, section: 0, …}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["serverStatus"],
    doc: "counters of the server: connections, operations, retries, tickets, queues",
    permission: Permission::Cluster(&[Action::ServerStatus]),
    parse: |request, _| {
        let left_out: Vec<String> = request
            .document()
            .iter()
            .filter_map(Result::ok)
            .filter(|(_, value)| !View::from(*value).is_true())
            .map(|(name, _)| name.as_str().to_owned())
            .collect();
        immediate(move |run| {
            let mut status = status(run.shared());
            for name in left_out {
                status.remove(&name);
            }
            Reply::from_document(&status)
        })
    },
    ..CommandSpec::BASE
};

fn status(shared: &Shared) -> Document {
    let uptime = shared.clock.uptime();
    let (current, available, created, rejected) = shared.connections.counts();
    let counters = &shared.counters;
    let mut status = doc! {
        "host": shared.topology.address(),
        "version": shared.profile.version,
        "process": "mongod",
        "pid": i64::from(std::process::id()),
        "uptime": uptime.as_secs_f64().floor(),
        "uptimeMillis": uptime.as_millis() as i64,
        "uptimeEstimate": uptime.as_secs() as i64,
        "localTime": shared.clock.now(),
        "asserts": { "regular": 0, "warning": 0, "msg": 0, "user": read(&counters.user_asserts) as i32, "rollovers": 0 },
        "connections": {
            "current": current as i32,
            "available": available as i32,
            "totalCreated": created as i32,
            "rejected": rejected as i32,
            "active": shared.ops.running() as i32,
            "exhaustIsMaster": read(&counters.exhaust_hellos) as i32,
            "awaitingTopologyChanges": read(&counters.awaiting_topology_changes) as i32,
        },
        "globalLock": global_lock(shared),
        "logicalSessionRecordCache": {
            "activeSessionsCount": shared.sessions.len() as i32,
            "sessionCatalogSize": shared.sessions.len() as i32,
        },
        "network": counters.network_document(),
        "opcounters": counters.ops_document(),
    };
    if let Some(set) = shared.topology.set_name() {
        status.insert("repl", repl(shared, set));
    }
    status.insert("security", doc! { "authentication": counters.log_ins.document(shared.profile) });
    status.insert(
        "storageEngine",
        doc! { "name": "wiredTiger", "supportsCommittedReads": true, "persistent": false, "readOnly": false },
    );
    status.insert("transactions", transactions(shared));
    if shared.profile.execution_queues {
        let queue = |pool: &TicketPool| {
            let (counts, (out, available, total)) = (pool.counters(), pool.usage());
            doc! {
                "out": out as i32, "available": available as i32, "totalTickets": total as i32,
                "normalPriority": {
                    "addedToQueue": counts.queued as i64,
                    "removedFromQueue": counts.queued as i64 - pool.queue_length() as i64,
                    "queueLength": pool.queue_length() as i64,
                    "startedProcessing": counts.granted as i64,
                    "processing": out,
                    "finishedProcessing": counts.granted as i64 - out,
                    "canceled": counts.canceled as i64,
                },
            }
        };
        status.insert(
            "queues",
            doc! { "execution": { "write": queue(&shared.write_tickets), "read": queue(&shared.read_tickets) } },
        );
    }
    status.insert(
        "wiredTiger",
        doc! { "concurrentTransactions": { "write": tickets(&shared.write_tickets), "read": tickets(&shared.read_tickets) } },
    );
    let (open, pinned, timed_out, refused) = shared.cursors.counts();
    status.insert(
        "metrics",
        doc! {
            "cursor": { "timedOut": timed_out as i64, "open": { "pinned": pinned as i64, "total": open as i64 } },
            "operation": { "writeConflicts": read(&counters.write_conflicts) },
            "ttl": { "deletedDocuments": read(&counters.ttl_deleted), "passes": read(&counters.ttl_passes) },
        },
    );
    let sessions = &shared.sessions.counters;
    status.insert(
        "backfire",
        doc! {
            "retryHistory": {
                "statements": shared.sessions.history_len() as i64,
                "sessionsEvicted": read(&sessions.history_evicted),
                "retriesRefused": read(&sessions.history_missed),
            },
            "sessions": { "refused": read(&sessions.refused), "expired": read(&sessions.expired) },
            "cursors": { "refused": refused as i64 },
            "connections": {
                "unfinishedMessagesDropped": read(&shared.connections.dropped.unfinished_messages),
                "slowReadersDropped": read(&shared.connections.dropped.slow_readers),
            },
            "tickets": {
                "writesQueued": shared.write_tickets.counters().queued as i64,
                "writesCanceled": shared.write_tickets.counters().canceled as i64,
                "readsQueued": shared.read_tickets.counters().queued as i64,
                "readsCanceled": shared.read_tickets.counters().canceled as i64,
            },
        },
    );
    status
}

fn tickets(pool: &TicketPool) -> Document {
    let (out, available, total) = pool.usage();
    doc! { "out": out as i32, "available": available as i32, "totalTickets": total as i32 }
}

fn repl(shared: &Shared, set: &str) -> Document {
    let topology = &shared.topology;
    let (primary, address) = (topology.is_primary(), topology.address());
    let mut repl = Document::new();
    if shared.profile.new_handshake {
        repl.insert("topologyVersion", topology.version_document());
    }
    repl.extend(doc! {
        "hosts": [address.clone()],
        "setName": set,
        "setVersion": 1,
        (if shared.profile.primary_terms { "isWritablePrimary" } else { "ismaster" }): primary,
        "secondary": !primary,
    });
    if primary {
        repl.insert("primary", address.clone());
        repl.insert("electionId", topology.election_id());
    }
    repl.insert("me", address);
    repl.insert(
        "lastWrite",
        doc! { "opTime": topology.op_time_document(), "lastWriteDate": topology.last_write_date() },
    );
    repl.insert("rbid", 1);
    repl
}

/// facts/server.md 2.5: the first two count statements answered from history, not resends.
fn transactions(shared: &Shared) -> Document {
    let counters = &shared.sessions.counters;
    let mut transactions = doc! {
        "retriedCommandsCount": read(&counters.retried_commands),
        "retriedStatementsCount": read(&counters.retried_statements),
        "transactionsCollectionWriteCount": read(&counters.record_writes),
    };
    let (open, active) = shared.sessions.open_transactions();
    transactions.extend(doc! {
        "currentActive": active as i64,
        "currentInactive": (open - active) as i64,
        "currentOpen": open as i64,
        "totalAborted": read(&counters.transactions_aborted),
        "totalCommitted": read(&counters.transactions_committed),
        "totalStarted": read(&counters.transactions_started),
    });
    // Nothing is prepared without shards.
    for name in ["totalPrepared", "totalPreparedThenCommitted", "totalPreparedThenAborted", "currentPrepared"] {
        transactions.insert(name, Bson::Int64(0));
    }
    transactions
}
