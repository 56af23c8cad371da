//! `validate`.

use bson::{Bson, Document, doc};

use super::{CommandSpec, PrimaryRule, Reply, idl, immediate};
use crate::auth::{Action, Permission};
use crate::error::fail;
use crate::net::request::raw;
use crate::stats::number;
use crate::storage::Direction;

/// `{validate: collection}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["validate"],
    doc: "compares the indexes of a collection with its documents",
    primary: PrimaryRule::UnlessSecondaryOk,
    permission: Permission::Collection(&[Action::Validate]),
    parse: |request, _| {
        let ns = idl::collection(request)?;
        immediate(move |run| {
            use std::ops::Bound::Unbounded;
            let shared = run.shared();
            let Some(collection) = shared.catalog.get(&ns) else {
                return fail(26, format!("Collection '{ns}' does not exist to validate."));
            };
            let (snapshot, mut documents) = (shared.engine.snapshot(), Vec::new());
            snapshot.scan(collection.records, Unbounded, Unbounded, Direction::Forward, usize::MAX, &mut documents);
            let (mut keys, mut details, mut errors) = (Document::new(), Document::new(), Vec::new());
            for index in collection.indexes().iter() {
                let mut expected = 0;
                for (_, document) in &documents {
                    expected += index.keys_of(raw(document))?.keys.len();
                }
                let found = snapshot.len(index.table);
                keys.insert(&index.name, number(found as u64));
                details.insert(&index.name, doc! { "valid": found == expected });
                if found != expected {
                    errors.push(Bson::String(format!("index {} has {found} keys instead of {expected}", index.name)));
                }
            }
            Reply::from_document(&doc! {
                "ns": ns.to_string(),
                "nInvalidDocuments": 0,
                "nrecords": number(documents.len() as u64),
                "nIndexes": number(keys.len() as u64),
                "keysPerIndex": keys,
                "indexDetails": details,
                "valid": errors.is_empty(),
                "warnings": [],
                "errors": errors,
                "extraIndexEntries": [],
                "missingIndexEntries": [],
            })
        })
    },
    ..CommandSpec::BASE
};
