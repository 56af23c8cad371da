//! How often somebody tried to log in, and did: `security.authentication` of `serverStatus`.
//!
//! Source: the recorded `serverStatus` of a mongod 4.4.0 and its `AuthCounter`. A log-in that begins in the handshake counts
//! as speculative and as a log-in.

use std::sync::atomic::AtomicU64;

use bson::{Document, doc};

use super::Mechanism;
use crate::counters::{bump, read};
use crate::profile::Profile;

/// What is counted of all mechanisms.
#[derive(Debug, Default)]
pub struct LogInCounters {
    /// Handshakes that asked for a user's mechanisms.
    pub mechanisms_asked: AtomicU64,
    mechanisms: [OfMechanism; 2],
}

/// What is counted of one mechanism.
#[derive(Debug, Default)]
struct OfMechanism {
    speculative: Attempts,
    all: Attempts,
}

#[derive(Debug, Default)]
struct Attempts {
    received: AtomicU64,
    successful: AtomicU64,
}

impl Attempts {
    fn document(&self) -> Document {
        doc! { "received": read(&self.received), "successful": read(&self.successful) }
    }
}

impl LogInCounters {
    fn of(&self, mechanism: Mechanism) -> &OfMechanism {
        match mechanism {
            Mechanism::ScramSha1 => &self.mechanisms[0],
            Mechanism::ScramSha256 => &self.mechanisms[1],
        }
    }

    /// Somebody begins to log in, with the handshake (`is_speculative`) or after it.
    pub fn received(&self, mechanism: Mechanism, is_speculative: bool) {
        let of = self.of(mechanism);
        bump(&of.all.received);
        if is_speculative {
            bump(&of.speculative.received);
        }
    }

    /// Somebody has logged in.
    pub fn successful(&self, mechanism: Mechanism, is_speculative: bool) {
        let of = self.of(mechanism);
        bump(&of.all.successful);
        if is_speculative {
            bump(&of.speculative.successful);
        }
    }

    /// As `serverStatus` has them. X.509, which this server has not, stands at 0: a mongod lists it always.
    pub fn document(&self, profile: &Profile) -> Document {
        let mechanism = |of: &OfMechanism| {
            let mut document = doc! { "speculativeAuthenticate": of.speculative.document() };
            if profile.counts_cluster_log_ins {
                document.insert("clusterAuthenticate", Attempts::default().document());
            }
            document.insert("authenticate", of.all.document());
            document
        };
        let mut mechanisms = doc! { "MONGODB-X509": mechanism(&OfMechanism::default()) };
        for each in Mechanism::ALL {
            mechanisms.insert(each.name(), mechanism(self.of(each)));
        }
        let mut document = Document::new();
        if profile.counts_cluster_log_ins {
            document.insert("saslSupportedMechsReceived", read(&self.mechanisms_asked));
        }
        document.insert("mechanisms", mechanisms);
        document
    }
}
