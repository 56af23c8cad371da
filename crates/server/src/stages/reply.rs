//! Stage *reply*: fields in the real server's order (facts/server.md 3.5, 11.1).

use bson::raw::{CString, RawArrayBuf, cstr};
use bson::{Document, RawDocumentBuf};

use crate::commands::{CommandSpec, OkPlace, Reply};
use crate::error::{Categories, CommandError, categories};
use crate::pipeline::{Facts, append_operation_time, cluster_time};
use crate::server::Shared;
use crate::stages::labels::code_of;

/// A reply with `ok: 1`, or with the bare `ok: 0` of the few commands that fail without a code.
pub fn success(shared: &Shared, reply: Reply, spec: &CommandSpec, facts: &Facts, labels: &[String]) -> RawDocumentBuf {
    let mut document = reply.fields;
    let ok = if reply.ok { 1.0 } else { 0.0 };
    let write_concern_error = facts.write_concern_error.as_ref();
    match spec.ok_place {
        OkPlace::BeforeWriteConcernError => {
            document.append(cstr!("ok"), ok);
            append_document(&mut document, cstr!("writeConcernError"), write_concern_error);
        }
        OkPlace::AfterWriteConcernError => {
            append_document(&mut document, cstr!("writeConcernError"), write_concern_error);
            document.append(cstr!("ok"), ok);
        }
    }
    if let Some(message) = &reply.message {
        document.append(cstr!("errmsg"), message.as_str());
    }
    append_labels(&mut document, labels);
    append_topology_version(shared, &mut document, write_concern_error.and_then(code_of));
    append_cluster_time(shared, &mut document);
    append_operation_time(shared, &mut document);
    document
}

/// A reply with `ok: 0`.
pub fn failure(shared: &Shared, error: &CommandError, facts: &Facts, labels: &[String]) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    let write_concern_error = facts.write_concern_error.as_ref();
    append_labels(&mut document, labels);
    let not_primary = |code: &i32| categories(*code).has(Categories::NOT_PRIMARY);
    append_topology_version(
        shared,
        &mut document,
        Some(error.code).filter(not_primary).or(write_concern_error.and_then(code_of)),
    );
    append_document(&mut document, cstr!("writeConcernError"), write_concern_error);
    append_operation_time(shared, &mut document);
    document.append(cstr!("ok"), 0.0);
    document.append(cstr!("errmsg"), error.message.as_str());
    document.append(cstr!("code"), error.code);
    document.append(cstr!("codeName"), &*shared.profile.code_name(error.code));
    if let Some(extra) = &error.extra {
        append_all(&mut document, extra);
    }
    append_cluster_time(shared, &mut document);
    document
}

fn append_labels(document: &mut RawDocumentBuf, labels: &[String]) {
    if !labels.is_empty() {
        let labels: RawArrayBuf = labels.iter().map(String::as_str).collect();
        document.append(cstr!("errorLabels"), labels);
    }
}

/// A client that is told "not primary" learns which state of this node that was about.
fn append_topology_version(shared: &Shared, document: &mut RawDocumentBuf, code: Option<i32>) {
    let is_told = shared.profile.new_handshake && shared.topology.is_replica_set();
    if is_told && code.is_some_and(|code| categories(code).has(Categories::NOT_PRIMARY)) {
        append_document(document, cstr!("topologyVersion"), Some(&shared.topology.version_document()));
    }
}

fn append_cluster_time(shared: &Shared, document: &mut RawDocumentBuf) {
    if let Some(time) = cluster_time(shared) {
        document.append(cstr!("$clusterTime"), time);
    }
}

/// Appends a document field, if there is one.
pub fn append_document(document: &mut RawDocumentBuf, name: &bson::raw::CStr, value: Option<&Document>) {
    if let Some(raw) = value.and_then(|value| RawDocumentBuf::try_from(value).ok()) {
        document.append(name, raw);
    }
}

/// Appends all fields of `fields`.
pub fn append_all(document: &mut RawDocumentBuf, fields: &Document) {
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (CString::try_from(name.as_str()), bson::RawBson::try_from(value.clone())) {
            document.append(name, value);
        }
    }
}
