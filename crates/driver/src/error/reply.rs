//! Errors out of a server's reply.

use bson::{Bson, Document};

use super::{CommandFailure, DriverError, ErrorKind, WriteConcernFailure, WriteFailure};

/// A number of any BSON type as `i32`; `None` when it is none or does not fit.
pub(crate) fn as_i32(value: &Bson) -> Option<i32> {
    as_i64(value).and_then(|n| i32::try_from(n).ok())
}

/// A number of any BSON type as `i64`; a fraction is cut off.
pub(crate) fn as_i64(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        Bson::Double(n) if n.is_finite() => Some(*n as i64),
        _ => None,
    }
}

/// The number in field `name`.
pub(crate) fn number(document: &Document, name: &str) -> Option<i64> {
    document.get(name).and_then(as_i64)
}

fn code(document: &Document) -> Option<i32> {
    document.get("code").and_then(as_i32)
}

fn text(document: &Document, name: &str) -> String {
    document.get_str(name).unwrap_or_default().to_owned()
}

/// Whether a reply says `ok: 1` (as any number, or `true`).
pub(crate) fn is_ok(reply: &Document) -> bool {
    match reply.get("ok") {
        Some(Bson::Boolean(ok)) => *ok,
        Some(ok) => as_i64(ok) == Some(1),
        None => false,
    }
}

/// The labels a reply carries.
pub(crate) fn labels(reply: &Document) -> impl Iterator<Item = &str> {
    reply.get_array("errorLabels").into_iter().flatten().filter_map(Bson::as_str)
}

/// The error of a reply with `ok: 0`.
pub(crate) fn command_error(reply: Document) -> DriverError {
    let failure = CommandFailure {
        code: code(&reply),
        code_name: text(&reply, "codeName"),
        message: text(&reply, "errmsg"),
        response: reply,
    };
    let mut error = DriverError::new(ErrorKind::Command(failure.clone()));
    for label in labels(&failure.response) {
        error.add_label(label);
    }
    error
}

/// The entries of `writeErrors`; what is not a document is left out.
pub(crate) fn write_errors(reply: &Document) -> Vec<WriteFailure> {
    let entries = reply.get_array("writeErrors").into_iter().flatten().filter_map(Bson::as_document);
    entries
        .map(|entry| WriteFailure {
            index: number(entry, "index").and_then(|index| usize::try_from(index).ok()).unwrap_or(0),
            code: code(entry).unwrap_or(-1),
            message: text(entry, "errmsg"),
            details: entry.get_document("errInfo").ok().cloned(),
            response: entry.clone(),
        })
        .collect()
}

/// The `writeConcernError` of a reply.
pub(crate) fn write_concern_error(reply: &Document) -> Option<WriteConcernFailure> {
    let error = reply.get_document("writeConcernError").ok()?;
    Some(WriteConcernFailure {
        code: code(error).unwrap_or(-1),
        code_name: text(error, "codeName"),
        message: text(error, "errmsg"),
        details: error.get_document("errInfo").ok().cloned(),
        response: error.clone(),
    })
}

/// A `writeConcernError` as an error by itself, with the labels of its reply.
pub(crate) fn write_concern_failure(reply: &Document) -> Option<DriverError> {
    let mut error = DriverError::new(ErrorKind::WriteConcern(write_concern_error(reply)?));
    let inner = reply.get_document("writeConcernError").ok().into_iter().flat_map(labels);
    for label in labels(reply).chain(inner) {
        error.add_label(label);
    }
    Some(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn ok_is_read_in_every_shape() {
        for (reply, ok) in [
            (doc! {"ok": 1}, true),
            (doc! {"ok": 1.0}, true),
            (doc! {"ok": 1_i64}, true),
            (doc! {"ok": true}, true),
            (doc! {"ok": 0.0}, false),
            (doc! {"ok": "1"}, false),
            (doc! {}, false),
        ] {
            assert_eq!(is_ok(&reply), ok, "{reply}");
        }
    }

    #[test]
    fn a_failed_reply_keeps_code_labels_and_document() {
        let reply = doc! {"errorLabels": ["RetryableWriteError"], "ok": 0.0, "errmsg": "not master", "code": 10107, "codeName": "NotMaster"};
        let error = command_error(reply.clone());
        assert_eq!((error.code(), error.response()), (Some(10107), Some(&reply)));
        assert!(error.has_label("RetryableWriteError"));
        assert_eq!(error.java_class(), "MongoNotPrimaryException");
    }
}
