//! `listCommands`.

use bson::{Document, doc};

use super::{CommandSpec, PrimaryRule, Reply, immediate};

/// `{listCommands: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["listCommands"],
    doc: "lists the commands that this server has",
    needs_auth: false,
    parse: |_, _| {
        immediate(|run| {
            let secondary = if run.shared().profile.primary_terms { "secondaryOk" } else { "slaveOk" };
            let commands: Document = run
                .shared()
                .commands
                .all()
                .into_iter()
                .map(|spec| {
                    let about = doc! {
                        "help": spec.doc,
                        "requiresAuth": spec.needs_auth,
                        secondary: spec.primary != PrimaryRule::Required,
                        "adminOnly": spec.admin_only,
                    };
                    (spec.name().to_owned(), about.into())
                })
                .collect();
            Reply::from_document(&doc! { "commands": commands })
        })
    },
    ..CommandSpec::BASE
};
