//! `getDefaultRWConcern`.

use bson::{Document, doc};

use super::{CommandSpec, Reply, immediate};
use crate::auth::{Action, Permission};

/// `{getDefaultRWConcern: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["getDefaultRWConcern"],
    doc: "gives the read and write concern of commands that name none",
    permission: Permission::Cluster(&[Action::GetDefaultRwConcern]),
    parse: |_, _| {
        immediate(|run| {
            let shared = run.shared();
            let mut reply = Document::new();
            if shared.profile.majority_is_default {
                reply.extend(doc! {
                    "defaultReadConcern": { "level": "local" },
                    "defaultWriteConcern": { "w": "majority", "wtimeout": 0 },
                    "defaultWriteConcernSource": "implicit",
                    "defaultReadConcernSource": "implicit",
                });
            }
            reply.insert("localUpdateWallClockTime", shared.clock.now());
            Reply::from_document(&reply)
        })
    },
    ..CommandSpec::ADMIN
};
