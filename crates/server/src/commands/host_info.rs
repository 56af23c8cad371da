//! `hostInfo`.

use bson::doc;

use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Permission};

/// `{hostInfo: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["hostInfo"],
    doc: "describes the machine, as far as a client may want to know it",
    permission: Permission::Cluster(&[Action::HostInfo]),
    parse: |_, _| {
        immediate(|run| {
            let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as i32);
            Reply::from_document(&doc! {
                "system": {
                    "currentTime": run.shared().clock.now(),
                    "hostname": run.shared().topology.address(),
                    "cpuAddrSize": 64,
                    "numCores": cores,
                    "cpuArch": std::env::consts::ARCH,
                    "numaEnabled": false,
                },
                "os": { "type": std::env::consts::OS, "name": std::env::consts::OS, "version": "" },
                "extra": {},
            })
        })
    },
    ..CommandSpec::BASE
};
