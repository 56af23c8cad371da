//! What the server counts, for `serverStatus`.

use std::sync::atomic::{AtomicU64, Ordering};

use bson::{Document, doc};

use crate::auth::counters::LogInCounters;

/// Counters since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    requests: AtomicU64,
    /// `opcounters`.
    pub ops: OpCounters,
    /// User errors (`asserts.user`).
    pub user_asserts: AtomicU64,
    /// Write conflicts met.
    pub write_conflicts: AtomicU64,
    /// Writes the server is working on, ticket held.
    pub active_writers: AtomicU64,
    /// Reads the server is working on, ticket held.
    pub active_readers: AtomicU64,
    /// Awaitable hellos that wait.
    pub awaiting_topology_changes: AtomicU64,
    /// Hellos that stream their replies.
    pub exhaust_hellos: AtomicU64,
    /// Documents that have expired.
    pub ttl_deleted: AtomicU64,
    /// How often expired documents were looked for.
    pub ttl_passes: AtomicU64,
    /// Log-ins.
    pub log_ins: LogInCounters,
}

/// `opcounters`: statements by kind.
#[derive(Debug, Default)]
#[allow(missing_docs)] // The field names are those of serverStatus.
pub struct OpCounters {
    pub insert: AtomicU64,
    pub query: AtomicU64,
    pub update: AtomicU64,
    pub delete: AtomicU64,
    pub getmore: AtomicU64,
    pub command: AtomicU64,
}

/// Reads a counter as a BSON long.
pub fn read(counter: &AtomicU64) -> i64 {
    counter.load(Ordering::Relaxed) as i64
}

/// Adds one to a counter.
pub fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// One more of something, for as long as this value lives.
#[derive(Debug)]
pub struct Gauge<'a>(&'a AtomicU64);

impl<'a> Gauge<'a> {
    /// Counts it in.
    pub fn up(counter: &'a AtomicU64) -> Self {
        bump(counter);
        Self(counter)
    }
}

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    /// A request of this size was read.
    pub fn network_request(&self, size_bytes: usize) {
        self.bytes_in.fetch_add(size_bytes as u64, Ordering::Relaxed);
        bump(&self.requests);
    }

    /// A reply of this size is written.
    pub fn network_reply(&self, size_bytes: usize) {
        self.bytes_out.fetch_add(size_bytes as u64, Ordering::Relaxed);
    }

    /// The `network` section.
    pub fn network_document(&self) -> Document {
        doc! { "bytesIn": read(&self.bytes_in), "bytesOut": read(&self.bytes_out), "numRequests": read(&self.requests) }
    }

    /// The `opcounters` section.
    pub fn ops_document(&self) -> Document {
        let ops = &self.ops;
        doc! {
            "insert": read(&ops.insert), "query": read(&ops.query), "update": read(&ops.update),
            "delete": read(&ops.delete), "getmore": read(&ops.getmore), "command": read(&ops.command),
        }
    }
}
