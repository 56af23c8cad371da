//! Rules about the client: timeouts, `retryWrites`, the connection string.

use backfire_model::connection_string;

use super::{Context, Rule};
use crate::build::Family;
use crate::finding::{Finding, Level};
use crate::service::Patience;
use crate::setting::shown_ms;
use crate::source::{Place, masked};

/// BF001.
pub const NO_TIMEOUT: Rule = Rule {
    id: "BF001",
    name: "no-socket-timeout",
    level: Level::Warning,
    summary: "Neither `socketTimeoutMS` nor `timeoutMS` ends the client's wait.",
    why: "A write that the server does not answer blocks its thread for ever, and the consumer leaves its group when \
          `max.poll.interval.ms` is over. Then another consumer runs the same record while the first call still waits.",
    page: "Set a socket timeout above the slowest write that is still good; two to three times as long is a usual choice. It is \
           the client's clock only: the server goes on with the write. The default is 0, no limit, in the Java, Node, Python and \
           Go drivers (Java driver 5.4.0, `SocketSettings`; the drivers' own options pages).",
    check: |context, findings| {
        let client = &context.service.client;
        let Some(uri) = client.uri.as_ref().filter(|uri| uri.parsed.is_some() && context.has_client()) else { return };
        if client.patience() != Patience::Forever {
            return;
        }
        // Where something is set that the driver does not use, that is the finding.
        if client.socket_timeout_ms.value.is_some_and(|ms| ms > 0)
            || client.timeout_ms.value.flatten().is_some_and(|ms| ms > 0)
        {
            return;
        }
        let text = uri.parsed.as_ref().map(ToString::to_string).unwrap_or_default();
        let joined = if text.contains('?') { "&" } else { "?" };
        findings.push(
            Finding::new(format!(
                "{} waits for ever for a reply: socketTimeoutMS is 0 and timeoutMS is not set",
                client.driver()
            ))
            .at(client.socket_timeout_ms.place().or(uri.source.place()))
            .fix(format!("add {joined}{} to the connection string", client.bound(30_000))),
        );
    },
};

/// BF002.
pub const NO_DEADLINE: Rule = Rule {
    id: "BF002",
    name: "no-server-deadline",
    level: Level::Note,
    summary: "A socket timeout is set, and nothing ends the write on the server.",
    why: "When the socket times out the client stops waiting and the server does not: the write runs to its end, also after the \
          connection is closed. Every further execution adds a copy that runs beside it.",
    page: "With `timeoutMS` (Java driver 5.2 and later, PyMongo, Go) every command carries a `maxTimeMS` that is what is left less \
           the round trip, and a stalled write is sent once per execution. `findOneAnd…` takes a `maxTime` of its own; other \
           writes do not (Java driver 5.4.0, `TimeoutContext` and `FindOneAndUpdateOptions`; \
           <https://github.com/mongodb/specifications/blob/master/source/client-side-operations-timeout/client-side-operations-timeout.md>; \
           <https://github.com/DataDog/integrations-core/pull/18843>). It helps where the server checks for interrupts.",
    check: |context, findings| {
        let client = &context.service.client;
        let Patience::Socket(timeout_ms) = client.patience() else { return };
        let writes: Vec<_> = context.service.listeners.iter().flat_map(|listener| &listener.writes).collect();
        if !writes.is_empty() && writes.iter().all(|write| write.max_time_ms.is_some()) {
            return;
        }
        let most = context.predictions.iter().filter_map(|prediction| prediction.overlapping_copies_max.most()).max();
        let number =
            most.map(|most| format!("; up to {most} copies of one record's write can run at once")).unwrap_or_default();
        let fix = match client.family {
            Family::Java | Family::Python | Family::Go if client.ignores_timeout().is_none() => {
                format!("timeoutMS={timeout_ms} in place of socketTimeoutMS={timeout_ms}")
            }
            _ => "a maxTimeMS below the socket timeout where the operation takes one (findAndModify, runCommand)"
                .to_owned(),
        };
        findings.push(
            Finding::new(format!("the client gives up after {}, the server does not{number}", shown_ms(timeout_ms)))
                .at(client.socket_timeout_ms.place())
                .fix(fix),
        );
    },
};

/// BF003.
pub const DEADLINE_TOO_LATE: Rule = Rule {
    id: "BF003",
    name: "deadline-not-below-socket-timeout",
    level: Level::Warning,
    summary: "`maxTimeMS` is not below the socket timeout.",
    why: "The socket timeout comes first, the driver sends the write again, and the deadline ends nothing that anybody waits for. \
          Below it, the server answers `MaxTimeMSExpired`, which is not retried by the driver, so there is no resend.",
    page: "Set `maxTimeMS` some seconds below the socket timeout: 20 s under 30 s. `MaxTimeMSExpired` (50) is in no list of retryable errors (Java driver 5.4.0, `CommandOperationHelper`).",
    check: |context, findings| {
        let Patience::Socket(timeout_ms) = context.service.client.patience() else { return };
        for write in context.service.listeners.iter().flat_map(|listener| &listener.writes) {
            let Some(max_time_ms) = write.max_time_ms.filter(|max_time_ms| *max_time_ms >= timeout_ms) else {
                continue;
            };
            let message =
                format!("maxTimeMS {} is not below socketTimeoutMS {}", shown_ms(max_time_ms), shown_ms(timeout_ms));
            let place = write.place.as_ref().or(context.service.client.socket_timeout_ms.place());
            findings.push(Finding::new(message).at(place).fix(format!("maxTimeMS {}", timeout_ms * 2 / 3)));
        }
    },
};

/// BF004.
pub const SOCKET_TIMEOUT_UNUSED: Rule = Rule {
    id: "BF004",
    name: "socket-timeout-unused",
    level: Level::Warning,
    summary: "`socketTimeoutMS` is set, and this driver ignores or refuses it.",
    why: "The wait is not what the setting says, so every number that was worked out from it is wrong. Without another timeout \
          the client waits for ever.",
    page: "The Go driver 2 ignores it, the Rust driver refuses the connection string, and all drivers ignore it beside \
           `timeoutMS` (Java driver 5.4.0, `TimeoutContext`; Rust driver 3.9.1, `client/options/parse.rs`; Go driver 2.10, \
           `clientoptions.go`). With `timeoutMS=0` there is then no timeout at all.",
    check: |context, findings| {
        let client = &context.service.client;
        if !client.socket_timeout_ms.source.is_set() {
            return;
        }
        let Some(why) = client.ignores_socket_timeout() else { return };
        let mut finding =
            Finding::new(format!("socketTimeoutMS {} has no effect: {why}", client.socket_timeout_ms.shown()));
        finding = finding.at(client.socket_timeout_ms.place());
        if client.family == Family::Rust {
            finding = finding.level(Level::Error);
        }
        let fix = match client.family {
            Family::Rust => "remove socketTimeoutMS; put a deadline on the operation instead".to_owned(),
            Family::Go => format!("timeoutMS={}", client.socket_timeout_ms.shown()),
            _ => "remove socketTimeoutMS".to_owned(),
        };
        findings.push(finding.fix(fix));
    },
};

/// BF005.
pub const TIMEOUT_UNUSED: Rule = Rule {
    id: "BF005",
    name: "timeout-unused",
    level: Level::Warning,
    summary: "`timeoutMS` is set, and this driver's version does nothing with it.",
    why: "No command carries a deadline and no wait ends: the client waits as long as `socketTimeoutMS` says, by default for ever. \
          It looks as if it were bounded.",
    page: "Node 6.22 (6.x) and 7.8 and later made it a no-op; the Java driver knows it from 5.2 on; the Rust driver refuses it \
           (Java driver 5.2.0, `ConnectionString`; Node driver 7.9.0, `timeout.ts`; Rust driver 3.9.1, `client/options/parse.rs`).",
    check: |context, findings| {
        let client = &context.service.client;
        let Some(timeout_ms) = client.timeout_ms.value.flatten().filter(|_| client.timeout_ms.source.is_set()) else {
            return;
        };
        let Some(why) = client.ignores_timeout() else { return };
        findings.push(
            Finding::new(format!("timeoutMS {timeout_ms} has no effect: {why}"))
                .at(client.timeout_ms.place())
                .fix(format!("socketTimeoutMS={}", timeout_ms.max(1))),
        );
    },
};

/// BF006.
pub const RETRY_WRITES_OFF: Rule = Rule {
    id: "BF006",
    name: "retry-writes-off",
    level: Level::Warning,
    summary: "`retryWrites` is off.",
    why: "It halves the sends and leaves the copies: a resend carries the same `lsid` and `txnNumber` and is executed once, while \
          the application's retry is another write. What is lost is the cure for a lost reply and for a change of primary.",
    page: "Leave it on, and bound the application's retries instead: switching it off halves the sends and leaves \
           the copies. On services that emulate MongoDB without retryable writes it has to be off; see BF032.",
    check: |context, findings| {
        let client = &context.service.client;
        if client.retry_writes.value != Some(false) || emulation(context).is_some() {
            return;
        }
        let copies = context.predictions.iter().filter_map(|prediction| prediction.executions.most()).max();
        let number = copies.map(|copies| format!(": still {copies} copies of one record's write")).unwrap_or_default();
        findings.push(
            Finding::new(format!("retryWrites=false does not prevent copies{number}"))
                .at(client.retry_writes.place())
                .fix("retryWrites=true"),
        );
    },
};

/// BF023.
pub const BELOW_SELECTION: Rule = Rule {
    id: "BF023",
    name: "timeout-below-server-selection",
    level: Level::Note,
    summary: "The wire timeouts are below `serverSelectionTimeoutMS`.",
    why: "While there is no primary an execution lasts as long as server selection, not as long as the socket timeout says. The \
          poll budget has to hold that longer time.",
    page: "Lower `serverSelectionTimeoutMS` (30000) to what an election takes, about 10 s to 15 s, or count with it (Java driver 5.4.0, \
           `ClusterSettings`; <https://github.com/mongodb/specifications/issues/842>).",
    check: |context, findings| {
        let client = &context.service.client;
        let Patience::Socket(timeout_ms) = client.patience() else { return };
        let Some(selection_ms) = client.server_selection_timeout_ms.value else { return };
        let longest_ms =
            context.predictions.iter().filter_map(|prediction| prediction.execution_ms.most()).max().unwrap_or(0);
        if longest_ms < selection_ms {
            findings.push(
                Finding::new(format!(
                    "without a primary an execution lasts {} (serverSelectionTimeoutMS), not {} (socketTimeoutMS {})",
                    shown_ms(selection_ms),
                    shown_ms(longest_ms),
                    shown_ms(timeout_ms),
                ))
                .at(client.socket_timeout_ms.place())
                .fix("serverSelectionTimeoutMS=15000"),
            );
        }
    },
};

/// BF027.
pub const POOL_SIZE: Rule = Rule {
    id: "BF027",
    name: "pool-size-no-bound",
    level: Level::Note,
    summary: "`maxPoolSize` is set low, as if it bounded the writes that run.",
    why: "A connection that timed out is closed and frees its place in the pool, while its write still runs on the server. So the \
          pool bounds the connections of this client, not the copies.",
    page: "Bound the executions instead: fewer retries, longer waits, fewer consumers. A connection that timed out gives \
           its place back at once (Java driver 5.4.0, `DefaultConnectionPool`).",
    check: |context, findings| {
        let client = &context.service.client;
        let Some(size) = client.max_pool_size.value.filter(|size| client.max_pool_size.source.is_set() && *size > 0)
        else {
            return;
        };
        let Patience::Socket(_) = client.patience() else { return };
        let Some(copies) = context.predictions.iter().filter_map(|p| p.overlapping_copies_all.most()).max() else {
            return;
        };
        if copies > size {
            let message =
                format!("maxPoolSize {size} does not bound the copies: {copies} can run on the server at once");
            findings.push(
                Finding::new(message)
                    .at(client.max_pool_size.place())
                    .fix("fewer executions or longer waits between them"),
            );
        }
    },
};

/// BF031.
pub const CONNECTION_STRING: Rule = Rule {
    id: "BF031",
    name: "connection-string",
    level: Level::Error,
    summary: "The connection string cannot be used, or a part of it is ignored.",
    why: "An option that is misspelled or has a unit behind its number is ignored, and the default applies. A password with an \
          unescaped character makes drivers name the wrong part.",
    page: "The message names the part and the character, and says what to write. Secrets are never shown \
           (<https://github.com/mongodb/specifications/blob/master/source/connection-string/connection-string-spec.md>).",
    check: |context, findings| {
        let Some(uri) = &context.service.client.uri else { return };
        for diagnostic in &uri.diagnostics {
            let level = match diagnostic.severity {
                connection_string::Severity::Error => Level::Error,
                connection_string::Severity::Warning => Level::Warning,
                // What the Java driver does is no news for another driver, and other rules say what has no effect.
                connection_string::Severity::Note => continue,
            };
            let place = match &uri.place {
                Some(place) => Some(Place::new(
                    place.file(),
                    place.range().start + diagnostic.span.start..place.range().start + diagnostic.span.end,
                )),
                None => uri.source.place().cloned(),
            };
            let mut message = diagnostic.message.clone();
            if let Some(drivers) = &diagnostic.drivers {
                message = format!("{message} ({drivers})");
            }
            if place.is_none() {
                message = format!("{message}\n{}", diagnostic.snippet());
            }
            let mut finding = Finding::new(message).at(place.as_ref());
            finding = finding.level(level);
            finding.fix = diagnostic.help.clone();
            findings.push(finding);
        }
    },
};

/// Hosts of services that emulate MongoDB: ending, name, whether retryable writes work there.
const EMULATIONS: &[(&str, &str, bool)] = &[
    (".docdb.amazonaws.com", "Amazon DocumentDB", false),
    (".docdb-elastic.amazonaws.com", "Amazon DocumentDB", false),
    (".documents.azure.com", "Azure Cosmos DB", false),
    (".mongo.cosmos.azure.com", "Azure Cosmos DB", true),
];

fn emulation(context: &Context<'_>) -> Option<(&'static str, bool)> {
    let parsed = context.service.client.uri.as_ref()?.parsed.as_ref()?;
    parsed
        .hosts()
        .iter()
        .filter_map(|host| {
            let name = host.name().to_ascii_lowercase();
            EMULATIONS.iter().find(|(ending, ..)| name.ends_with(ending)).map(|(_, service, may)| (*service, *may))
        })
        .next()
}

/// BF032.
pub const EMULATION: Rule = Rule {
    id: "BF032",
    name: "retry-writes-not-supported",
    level: Level::Error,
    summary: "The host is a service without retryable writes, and `retryWrites` is on.",
    why: "Such a service refuses the write with \"Retryable writes are not supported\". Drivers have `retryWrites` on by default.",
    page: "Amazon DocumentDB and older Azure Cosmos DB need `retryWrites=false`; newer Cosmos DB accepts them where the server \
           feature is switched on (<https://docs.aws.amazon.com/documentdb/latest/developerguide/functional-differences.html>; \
           <https://github.com/MicrosoftDocs/azure-docs/issues/123467>).",
    check: |context, findings| {
        let Some((service, may)) = emulation(context) else { return };
        let client = &context.service.client;
        if client.retry_writes.value != Some(true) {
            return;
        }
        let place = client.retry_writes.place().or(client.uri.as_ref().and_then(|uri| uri.source.place()));
        let mut finding = match may {
            true => {
                Finding::new(format!("{service} accepts retryable writes only where the server feature is switched on"))
            }
            false => Finding::new(format!("{service} has no retryable writes, and retryWrites is on"))
                .fix("retryWrites=false"),
        };
        if may {
            finding = finding.level(Level::Note);
        }
        findings.push(finding.at(place));
    },
};

/// BF042.
pub const STANDALONE: Rule = Rule {
    id: "BF042",
    name: "transaction-on-standalone",
    level: Level::Note,
    summary: "Transactions are used and the connection string names one host directly.",
    why: "On a standalone server a transaction fails with \"Transaction numbers are only allowed on a replica set member or \
          mongos\". `retryWrites=false` does not help, since the transaction carries a number of its own.",
    page: "Plain writes on a standalone send no number, so the error there means a transaction, or a driver that was told it talks \
           to a replica set. Start the server as a replica set of one \
           (<https://github.com/Automattic/mongoose/issues/7073>).",
    check: |context, findings| {
        let uses =
            context.service.listeners.iter().flat_map(|listener| &listener.writes).find(|write| write.in_transaction);
        let (Some(write), Some(uri)) = (uses, &context.service.client.uri) else { return };
        let is_direct = uri.parsed.as_ref().is_some_and(|parsed| {
            parsed.direct_connection()
                || (parsed.hosts().len() == 1 && !parsed.needs_dns() && parsed.replica_set().is_none())
        });
        if is_direct && uri.source.is_set() {
            let message = format!(
                "a transaction needs a replica set; {} names one host and no replicaSet",
                masked(&uri.source.to_string())
            );
            findings.push(
                Finding::new(message).at(write.place.as_ref()).fix("add replicaSet=NAME to the connection string"),
            );
        }
    },
};
