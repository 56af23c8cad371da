//! What becomes of a record in other situations than a stall of its writes: each with the numbers, why, and the source.
//!
//! Source of the rules: facts/client.md C2, F5, F11, F15, and "when 2E is not the maximum"; facts/server.md 10 for mongos. Each is
//! held against a simulation in `tests/situations.rs`.

use crate::build::Family;
use crate::prediction::{Amount, Prediction, decisive};
use crate::service::{Client, Listener, Patience, Service};
use crate::setting::shown_ms;

/// A driver looks at a server at most this often, and cannot send to one that it does not know.
const MIN_HEARTBEAT_MS: u64 = 500;
/// `maxAdaptiveRetries` where it is not set.
const ADAPTIVE_RETRIES: u64 = 2;
/// How often mongos itself tries a numbered write on a shard (facts/server.md 10: three retries).
const MONGOS_TRIES: u64 = 4;

/// One situation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// What it is.
    pub name: &'static str,
    /// Sends for one record.
    pub sends: Amount,
    /// Copies of its write at once.
    pub overlapping_copies_max: Amount,
    /// Why.
    pub why: String,
}

impl Situation {
    /// Whether it may give more sends than the stall that was predicted.
    pub fn is_worse(&self, prediction: &Prediction) -> bool {
        match (self.sends.most(), prediction.sends.most()) {
            (Some(here), Some(there)) => here > there,
            _ => self.sends.is_unbounded() && !prediction.sends.is_unbounded(),
        }
    }
}

/// The situations that differ for the listener of this prediction. (An execution that outlives the poll interval is part of
/// the prediction itself.)
pub fn of_prediction(service: &Service, listener: &Listener, prediction: &Prediction) -> Vec<Situation> {
    let client = &service.client;
    [
        frozen(client, prediction),
        overloaded(client, prediction),
        connections_break(client, prediction),
        through_mongos(service, listener, prediction),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// F15: handshakes and heartbeats stand still as well.
fn frozen(client: &Client, prediction: &Prediction) -> Option<Situation> {
    let Patience::Socket(_) = client.patience() else { return None };
    let pool = client.max_pool_size.value?;
    let why = "new connections cannot be made: a send goes over an idle connection or not at all, and after that server \
               selection fails";
    let most = match (pool, prediction.sends.most()) {
        // 0 means no limit on connections.
        (0, most) => most?,
        (pool, Some(most)) => most.min(pool + 1),
        (pool, None) => pool + 1,
    };
    Some(Situation {
        name: "the whole server stands still, handshakes included",
        sends: Amount::range(1.min(most), most, why),
        overlapping_copies_max: Amount::range(
            1.min(most),
            most.min(prediction.overlapping_copies_max.most().unwrap_or(most)),
            why,
        ),
        why: why.to_owned(),
    })
}

/// Whether the driver answers overload errors with retries of its own (C2).
fn has_backpressure(client: &Client) -> Option<bool> {
    let version = &client.version.as_ref()?.version;
    Some(match client.family {
        Family::Java => version.at_least([5, 12, 0]),
        Family::Node => version.at_least([7, 2, 0]),
        Family::Python => version.at_least([4, 20, 1]),
        Family::Rust => version.at_least([3, 9, 1]),
        Family::Go => version.at_least([2, 10, 0]),
    })
}

/// F11: the server refuses with `SystemOverloadedError` and `RetryableError`; nothing runs.
fn overloaded(client: &Client, prediction: &Prediction) -> Option<Situation> {
    let has = has_backpressure(client)?;
    let gate = client.retry_writes.value?;
    let uri = client.uri.as_ref().and_then(|uri| uri.parsed.as_ref());
    let set = uri.and_then(|uri| {
        let found = uri.occurrences().iter().rev().find(|one| one.name().eq_ignore_ascii_case("maxAdaptiveRetries"))?;
        found.value().expose().parse::<u64>().ok()
    });
    let retries = if has && gate { set.unwrap_or(ADAPTIVE_RETRIES) } else { 0 };
    let why = if retries > 0 {
        format!(
            "each execution is sent {} times (1 + maxAdaptiveRetries), and the server refuses each at its door",
            retries + 1
        )
    } else {
        "this driver does not answer overload errors with sends of its own; the server refuses each execution at its door".to_owned()
    };
    Some(Situation {
        name: "the server refuses writes as overloaded",
        sends: prediction.executions.clone().times(&match client.patience() {
            // It waits before each, and not beyond timeoutMS (C2).
            Patience::Operation(_) => Amount::range(1, retries + 1, "timeoutMS may run out between two of them"),
            _ => Amount::Exact(retries + 1),
        }),
        overlapping_copies_max: Amount::Exact(0),
        why,
    })
}

/// Under `timeoutMS` a broken connection is answered with a send as often as there is time for (F5).
fn connections_break(client: &Client, prediction: &Prediction) -> Option<Situation> {
    let Patience::Operation(timeout_ms) = client.patience() else { return None };
    let sends = timeout_ms / MIN_HEARTBEAT_MS + 1;
    let why = format!(
        "timeoutMS sets no limit on retries but time: a send per {MIN_HEARTBEAT_MS} ms at most, for {}",
        shown_ms(timeout_ms)
    );
    let most = prediction.executions.clone().times(&Amount::Exact(sends));
    let least = prediction.executions.least().unwrap_or(1);
    Some(Situation {
        name: "every connection breaks after the write was read",
        sends: match most.most() {
            Some(most) => Amount::range(least, most, why.clone()),
            None => most,
        },
        // It may break before the write is executed.
        overlapping_copies_max: Amount::range(0, 1, why.clone()),
        why,
    })
}

/// mongos retries between itself and the shard, on errors that a client's timeout does not cause, and numbered writes only.
fn through_mongos(service: &Service, listener: &Listener, prediction: &Prediction) -> Option<Situation> {
    let client = &service.client;
    let write = decisive(client, listener);
    let is_numbered = client.retry_writes.value != Some(false)
        && !client.is_unacknowledged
        && write.is_none_or(|write| write.is_retryable(client.family));
    // Under `timeoutMS` the driver itself sends again as long as there is time: see `connections_break`.
    if !is_numbered || matches!(client.patience(), Patience::Operation(_)) {
        return None;
    }
    let (least, most) = (prediction.sends.least()?, prediction.sends.most()?);
    let why = format!(
        "mongos itself tries a write up to {MONGOS_TRIES} times on a shard when the network breaks or there is no primary; under a \
         stall alone it does not"
    );
    Some(Situation {
        name: "through a mongos whose shard fails",
        sends: Amount::range(least, most.saturating_mul(MONGOS_TRIES), why.clone()),
        // Where the shard is not reached, nothing runs.
        overlapping_copies_max: Amount::range(0, prediction.overlapping_copies_max.most()?, why.clone()),
        why,
    })
}

#[cfg(test)]
mod tests {
    use crate::request::Request;

    /// The situations of the one listener of a service with this `backfire.toml`: name, sends, copies at once.
    fn check(stated: &str, expected: &[(&str, &str, &str)]) {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("backfire.toml"), stated).expect("written");
        let found =
            crate::scenarios(&Request { paths: vec![folder.path().to_owned()], ..Request::default() }).expect("read");
        let shown: Vec<_> = found[0]
            .prediction
            .situations
            .iter()
            .map(|one| (one.name, one.sends.to_string(), one.overlapping_copies_max.to_string()))
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|(name, sends, copies)| (*name, (*sends).to_owned(), (*copies).to_owned())).collect();
        assert_eq!(shown, expected, "{stated}");
    }

    const FROZEN: &str = "the whole server stands still, handshakes included";
    const OVERLOADED: &str = "the server refuses writes as overloaded";
    const BREAK: &str = "every connection breaks after the write was read";
    const MONGOS: &str = "through a mongos whose shard fails";

    /// A service with four executions of an insert.
    fn stated(version: &str, options: &str) -> String {
        format!(
            "[driver]\nfamily = \"python\"\nversion = \"{version}\"\n[client]\nuri = \"mongodb://db/?{options}\"\n\
             [[listener]]\nname = \"l\"\nexecutions = 4\n[[listener.write]]\nop = \"insert\"\n"
        )
    }

    #[test]
    fn a_driver_with_back_pressure_sends_three_times_and_nothing_runs() {
        for (version, options, sends) in [
            ("4.20.1", "socketTimeoutMS=30000", "12"),
            ("4.20.1", "socketTimeoutMS=30000&maxAdaptiveRetries=5", "24"),
            ("4.10.0", "socketTimeoutMS=30000", "4"),
        ] {
            check(
                &stated(version, options),
                &[(FROZEN, "1 to 8", "1 to 4"), (OVERLOADED, sends, "0"), (MONGOS, "8 to 32", "0 to 4")],
            );
        }
    }

    #[test]
    fn broken_connections_under_timeout_ms_are_limited_by_time_alone() {
        check(&stated("4.10.0", "timeoutMS=5000"), &[(OVERLOADED, "4", "0"), (BREAK, "4 to 44", "0 to 1")]);
    }
}
