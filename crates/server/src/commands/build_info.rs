//! `buildInfo`.

use bson::{Bson, doc};

use super::{CommandSpec, Reply, immediate};

/// `{buildInfo: 1}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["buildInfo", "buildinfo"],
    doc: "says which version this server behaves like",
    needs_auth: false,
    parse: |_, _| {
        immediate(|run| {
            let profile = run.shared().profile;
            let version: Vec<Bson> = profile.version_array.iter().map(|part| Bson::Int32(*part)).collect();
            Reply::from_document(&doc! {
                "version": profile.version,
                "gitVersion": concat!("backfire-", env!("CARGO_PKG_VERSION")),
                "modules": ["backfire"],
                "allocator": "system",
                "javascriptEngine": "none",
                "sysInfo": "deprecated",
                "versionArray": version,
                "openssl": { "running": "disabled", "compiled": "disabled" },
                "buildEnvironment": { "target_arch": std::env::consts::ARCH, "target_os": std::env::consts::OS },
                "bits": 64,
                "debug": cfg!(debug_assertions),
                "maxBsonObjectSize": 16 * 1024 * 1024,
                "storageEngines": ["devnull", "ephemeralForTest", "wiredTiger"],
            })
        })
    },
    ..CommandSpec::BASE
};
