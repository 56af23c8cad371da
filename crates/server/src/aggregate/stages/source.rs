//! First stages whose documents the server makes: `$collStats`, `$indexStats`, `$listSessions`, `$listLocalSessions`,
//! `$planCacheStats`.

use super::{Parsed, SourceStage, server};
use crate::error::{Result, fail};
use crate::value::View;

/// Parses `$collStats`.
pub(super) fn coll_stats(operand: View<'_>) -> Result<Parsed> {
    let View::Document(document) = operand else {
        let shown = crate::value::text::element("$collStats", operand);
        return fail(40166, format!("$collStats must take a nested object but found: {shown}"));
    };
    for (name, value) in document.iter() {
        match (name, value) {
            ("latencyStats" | "storageStats" | "count" | "queryExecStats", View::Document(_)) => {}
            ("latencyStats", other) => {
                let text = "latencyStats argument must be an object, but got";
                return fail(
                    40167,
                    format!("{text} {} of type {}", crate::value::text::element(name, other), other.type_name()),
                );
            }
            ("storageStats", other) => {
                let text = "storageStats argument must be an object, but got";
                return fail(
                    40279,
                    format!("{text} {} of type {}", crate::value::text::element(name, other), other.type_name()),
                );
            }
            ("count", other) => {
                let text = "count argument must be an object, but got";
                return fail(
                    40480,
                    format!("{text} {} of type {}", crate::value::text::element(name, other), other.type_name()),
                );
            }
            ("queryExecStats", other) => {
                let text = "queryExecStats argument must be an empty object, but got";
                return fail(
                    31141,
                    format!("{text} {} of type {}", crate::value::text::element(name, other), other.type_name()),
                );
            }
            _ => return fail(40168, format!("unrecognized option to $collStats: {name}")),
        }
    }
    server(SourceStage::CollStats(document.to_document()?))
}

/// Parses `$indexStats`.
pub(super) fn index_stats(operand: View<'_>) -> Result<Parsed> {
    match operand {
        View::Document(document) if document.is_empty() => server(SourceStage::IndexStats),
        _ => fail(28803, "The $indexStats stage specification must be an empty object"),
    }
}

/// Parses `$planCacheStats`.
pub(super) fn plan_cache_stats(operand: View<'_>) -> Result<Parsed> {
    match operand {
        View::Document(document) if document.is_empty() => server(SourceStage::PlanCacheStats),
        View::Document(_) => fail(9, "$planCacheStats parameters object must be empty"),
        other => fail(9, format!("$planCacheStats value must be an object. Found: {}", other.type_name())),
    }
}

/// Parses `$listSessions` or `$listLocalSessions`.
pub(super) fn sessions(name: &str, operand: View<'_>) -> Result<Parsed> {
    let View::Document(document) = operand else {
        return fail(14, format!("{name} options must be specified in an object, but found: {}", operand.type_name()));
    };
    for (option, value) in document.iter() {
        let wanted = match option {
            "allUsers" => (matches!(value, View::Bool(_)), "bool"),
            "users" => (matches!(value, View::Array(_)), "array"),
            _ => return fail(40415, format!("BSON field '{name}.{option}' is an unknown field.")),
        };
        if !wanted.0 {
            let found = value.type_name();
            let text =
                format!("BSON field '{name}.{option}' is the wrong type '{found}', expected type '{}'", wanted.1);
            return fail(14, text);
        }
    }
    let document = document.to_document()?;
    server(if name == "$listSessions" {
        SourceStage::ListSessions(document)
    } else {
        SourceStage::ListLocalSessions(document)
    })
}
