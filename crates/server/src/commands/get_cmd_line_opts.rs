//! `getCmdLineOpts`.

use bson::doc;

use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Permission};
use crate::params::Param;

/// `{getCmdLineOpts: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["getCmdLineOpts"],
    doc: "tells the server's command line",
    permission: Permission::Cluster(&[Action::GetCmdLineOpts]),
    parse: |_, _| {
        immediate(|run| {
            let shared = run.shared();
            let mut parsed = doc! {};
            if let Some((host, port)) = shared.topology.address().rsplit_once(':') {
                parsed.insert("net", doc! { "bindIp": host, "port": port.parse::<i32>().unwrap_or(0) });
            }
            if let Some(set) = shared.topology.set_name() {
                parsed.insert("replication", doc! { "replSet": set });
            }
            parsed.insert(
                "setParameter",
                doc! { "enableTestCommands": shared.params.get(Param::EnableTestCommands) as i32 },
            );
            Reply::from_document(&doc! { "argv": shared.argv.clone(), "parsed": parsed })
        })
    },
    ..CommandSpec::ADMIN
};
