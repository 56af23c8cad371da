//! `replSetGetStatus`.

use bson::{Bson, doc};

use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Permission};
use crate::error::CommandError;

/// `{replSetGetStatus: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["replSetGetStatus"],
    doc: "describes the replica set",
    permission: Permission::Cluster(&[Action::ReplSetGetStatus]),
    parse: |_, _| {
        immediate(|run| {
            let shared = run.shared();
            let topology = &shared.topology;
            let Some(set) = topology.set_name() else {
                return Err(CommandError::new(76, "not running with --replSet"));
            };
            let (state, state_text) = if topology.is_primary() { (1, "PRIMARY") } else { (2, "SECONDARY") };
            let (op_time, date) = (topology.op_time_document(), topology.last_write_date());
            Reply::from_document(&doc! {
                "set": set,
                "date": shared.clock.now(),
                "myState": state,
                "term": topology.term(),
                "syncSourceHost": "",
                "syncSourceId": -1,
                "heartbeatIntervalMillis": 2000_i64,
                "majorityVoteCount": 1,
                "writeMajorityCount": 1,
                "votingMembersCount": 1,
                "writableVotingMembersCount": 1,
                "optimes": {
                    "lastCommittedOpTime": op_time.clone(), "lastCommittedWallTime": date,
                    "readConcernMajorityOpTime": op_time.clone(), "readConcernMajorityWallTime": date,
                    "appliedOpTime": op_time.clone(), "durableOpTime": op_time.clone(),
                    "lastAppliedWallTime": date, "lastDurableWallTime": date,
                },
                "members": [{
                    "_id": 0,
                    "name": topology.address(),
                    "health": 1.0,
                    "state": state,
                    "stateStr": state_text,
                    "uptime": shared.clock.uptime().as_secs() as i32,
                    "optime": op_time,
                    "optimeDate": date,
                    "syncSourceHost": "",
                    "syncSourceId": -1,
                    "infoMessage": "",
                    "electionTime": Bson::Timestamp(topology.last_op_time()),
                    "configVersion": 1,
                    "configTerm": topology.term(),
                    "self": true,
                    "lastHeartbeatMessage": "",
                }],
            })
        })
    },
    ..CommandSpec::ADMIN
};
