//! `replSetGetConfig`.

use bson::doc;

use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Permission};
use crate::error::CommandError;

/// `{replSetGetConfig: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["replSetGetConfig"],
    doc: "gives the configuration of the replica set",
    permission: Permission::Cluster(&[Action::ReplSetGetConfig]),
    parse: |_, _| {
        immediate(|run| {
            let topology = &run.shared().topology;
            let Some(set) = topology.set_name() else {
                return Err(CommandError::new(76, "not running with --replSet"));
            };
            Reply::from_document(&doc! {
                "config": {
                    "_id": set,
                    "version": 1,
                    "term": topology.term() as i32,
                    "protocolVersion": 1_i64,
                    "writeConcernMajorityJournalDefault": true,
                    "members": [{
                        "_id": 0,
                        "host": topology.address(),
                        "arbiterOnly": false,
                        "buildIndexes": true,
                        "hidden": false,
                        "priority": 1.0,
                        "tags": {},
                        "slaveDelay": 0_i64,
                        "votes": 1,
                    }],
                    "settings": {
                        "chainingAllowed": true,
                        "heartbeatIntervalMillis": 2000,
                        "heartbeatTimeoutSecs": 10,
                        "electionTimeoutMillis": 10_000,
                        "getLastErrorModes": {},
                        "getLastErrorDefaults": { "w": 1, "wtimeout": 0 },
                    },
                },
            })
        })
    },
    ..CommandSpec::ADMIN
};
