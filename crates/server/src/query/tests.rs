//! Tests of the query language as a whole.

use std::cmp::Ordering;

use bson::{Bson, DateTime, Document, bson, doc};
use proptest::prelude::*;

use super::*;
use crate::error::CommandError;
use crate::value::index_keys::IndexPattern;
use crate::value::key_string::Direction;
use crate::value::key_string::tests::any_bson;
use crate::value::view::to_raw;
use crate::value::{DocView, View, compare};

fn context() -> QueryContext {
    QueryContext::new(DateTime::from_millis(1_600_000_000_000))
}

fn matcher(filter: &Document) -> Result<Matcher, CommandError> {
    Matcher::parse(&to_raw(filter).unwrap(), &context())
}

fn matches(filter: &Document, document: &Document) -> bool {
    let matcher = matcher(filter).unwrap();
    let raw = matcher.matches(&to_raw(document).unwrap()).unwrap();
    assert_eq!(matcher.matches_view(document.into()).unwrap(), raw, "{filter} {document}");
    raw
}

/// The `_id`s of the sample documents that match.
fn check(filter: Document, ids: &[i32]) {
    let decimal: bson::Decimal128 = "1.0".parse().unwrap();
    let samples = [
        doc! { "_id": 1, "a": 1, "s": "apple", "arr": [1, 2, 3], "d": { "x": 1 } },
        doc! { "_id": 2, "a": 2.5, "s": "Banana", "arr": [], "n": null },
        doc! { "_id": 3, "a": 3_i64, "arr": [{ "k": 1, "v": 5 }, { "k": 2, "v": 7 }] },
        doc! { "_id": 4, "a": "4", "s": "apricot", "arr": [[1, 2], 3] },
        doc! { "_id": 5, "a": null, "d": { "x": 2, "y": 3 } },
        doc! { "_id": 6, "a": [1, 5], "s": "", "b": true },
        doc! { "_id": 7, "a": decimal, "t": DateTime::from_millis(1_577_934_245_000) },
        doc! { "_id": 8, "a": { "z": 1 }, "s": "apple", "o": bson::oid::ObjectId::from_bytes([7; 12]) },
    ];
    let found: Vec<_> = samples
        .iter()
        .filter(|document| matches(&filter, document))
        .map(|document| document.get_i32("_id").unwrap())
        .collect();
    assert_eq!(found, ids, "{filter}");
}

fn fails(filter: Document, code: i32, message: &str) {
    let error = matcher(&filter).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (code, message), "{filter}");
}

fn regex(pattern: &str) -> Bson {
    Bson::RegularExpression(crate::value::view::regex(pattern, "").unwrap())
}

#[test]
fn comparison() {
    check(doc! { "a": 1 }, &[1, 6, 7]);
    check(doc! { "a": { "$gt": 1 } }, &[2, 3, 6]);
    check(doc! { "a": { "$lte": 2.5 } }, &[1, 2, 6, 7]);
    check(doc! { "a": { "$ne": null } }, &[1, 2, 3, 4, 6, 7, 8]);
    check(doc! { "a": { "$in": [1, "4", null] } }, &[1, 4, 5, 6, 7]);
    check(doc! { "a": { "$nin": [1, null] } }, &[2, 3, 4, 8]);
    check(doc! { "s": { "$in": [regex("^ap"), ""] } }, &[1, 4, 6, 8]);
    check(doc! { "n": null }, &[1, 2, 3, 4, 5, 6, 7, 8]);
    check(doc! { "a": { "$gt": Bson::MinKey } }, &[1, 2, 3, 4, 5, 6, 7, 8]);
    check(doc! { "a": { "$lt": Bson::MinKey } }, &[]);
    check(doc! { "a": { "$gte": null } }, &[5]);
    check(doc! { "a": [1, 5] }, &[6]);
    check(doc! { "a": { "z": 1 } }, &[8]);
    check(doc! { "arr": { "$gt": [] } }, &[1, 3, 4]);
    check(doc! { "o": { "$gt": bson::oid::ObjectId::from_bytes([0; 12]) } }, &[8]);
    fails(doc! { "a": { "$in": 1 } }, 2, "$in needs an array");
    fails(doc! { "a": { "$in": [{ "$gt": 1 }] } }, 2, "cannot nest $ under $in");
    fails(doc! { "a": { "$gt": regex("x") } }, 2, "Can't have RegEx as arg to predicate over field 'a'.");
    fails(doc! { "a": { "$ne": regex("x") } }, 2, "Can't have regex as arg to $ne.");
    fails(doc! { "a": Bson::Undefined }, 2, "cannot compare to undefined");
    fails(doc! { "a": { "$gt": 1, "b": 2 } }, 2, "unknown operator: b");
}

#[test]
fn nan_only_equals_nan() {
    let check = |operator: &str, want: bool| {
        assert_eq!(matches(&doc! { "a": { operator: f64::NAN } }, &doc! { "a": f64::NAN }), want);
        assert!(!matches(&doc! { "a": { operator: f64::NAN } }, &doc! { "a": 1 }));
        assert!(!matches(&doc! { "a": { operator: 1 } }, &doc! { "a": f64::NAN }));
    };
    check("$eq", true);
    check("$gte", true);
    check("$lte", true);
    check("$gt", false);
    check("$lt", false);
}

#[test]
fn logical() {
    check(doc! {}, &[1, 2, 3, 4, 5, 6, 7, 8]);
    check(doc! { "$or": [{ "_id": 1 }, { "s": "" }] }, &[1, 6]);
    check(doc! { "$nor": [{ "_id": { "$lt": 7 } }] }, &[7, 8]);
    check(doc! { "$and": [{ "a": { "$gt": 0 } }, { "s": { "$exists": true } }] }, &[1, 2, 6]);
    check(doc! { "a": { "$not": { "$gt": 1 } } }, &[1, 4, 5, 7, 8]);
    check(doc! { "s": { "$not": regex("^ap") } }, &[2, 3, 5, 6, 7]);
    check(doc! { "$alwaysFalse": 1 }, &[]);
    check(doc! { "$comment": "why", "_id": 2 }, &[2]);
    fails(doc! { "$foo": 1 }, 2, "unknown top level operator: $foo");
    fails(doc! { "$or": [] }, 2, "$and/$or/$nor must be a nonempty array");
    fails(doc! { "$or": 1 }, 2, "$or must be an array");
    fails(doc! { "$and": [1] }, 2, "$or/$and/$nor entries need to be full objects");
    fails(doc! { "a": { "$not": 1 } }, 2, "$not needs a regex or a document");
    fails(doc! { "a": { "$not": {} } }, 2, "$not cannot be empty");
    fails(doc! { "$alwaysTrue": 2 }, 9, "$alwaysTrue must be an integer value of 1");
}

#[test]
fn elements_and_types() {
    check(doc! { "a": { "$exists": false } }, &[]);
    check(doc! { "n": { "$exists": true } }, &[2]);
    check(doc! { "n": { "$exists": {} } }, &[2]);
    check(doc! { "a": { "$type": ["string", 10] } }, &[4, 5]);
    check(doc! { "a": { "$type": "array" } }, &[6]);
    check(doc! { "a": { "$type": "number" } }, &[1, 2, 3, 6, 7]);
    check(doc! { "d": { "$type": "object" } }, &[1, 5]);
    fails(doc! { "a": { "$type": 77 } }, 2, "Invalid numerical type code: 77");
    fails(doc! { "a": { "$type": 0 } }, 2, "Invalid numerical type code: 0. Instead use {$exists:false}.");
    fails(doc! { "a": { "$type": "x" } }, 2, "Unknown type name alias: x");
    fails(doc! { "a": { "$type": [] } }, 9, "a must match at least one type");
}

#[test]
fn arrays() {
    check(doc! { "arr": [1, 2, 3] }, &[1]);
    check(doc! { "arr": [] }, &[2]);
    check(doc! { "arr": { "$size": 2 } }, &[3, 4]);
    check(doc! { "arr": { "$all": [1, 3] } }, &[1]);
    check(doc! { "arr": { "$all": [] } }, &[]);
    check(doc! { "arr": { "$elemMatch": { "k": 1, "v": { "$gt": 4 } } } }, &[3]);
    check(doc! { "arr": { "$elemMatch": { "$gt": 2, "$lt": 4 } } }, &[1, 4]);
    check(doc! { "arr": { "$elemMatch": { "$elemMatch": { "$eq": 2 } } } }, &[4]);
    check(doc! { "arr": { "$elemMatch": { "0": 1 } } }, &[4]);
    check(doc! { "arr": { "$all": [{ "$elemMatch": { "k": 1 } }, { "$elemMatch": { "v": 7 } }] } }, &[3]);
    check(doc! { "arr": { "$not": { "$size": 0 } } }, &[1, 3, 4, 5, 6, 7, 8]);
    check(doc! { "arr.k": 2 }, &[3]);
    check(doc! { "arr.1.v": 7 }, &[3]);
    check(doc! { "arr.0": 1 }, &[1]);
    fails(doc! { "a": { "$all": 1 } }, 2, "$all needs an array");
    fails(doc! { "a": { "$all": [{ "$gt": 1 }] } }, 2, "no $ expressions in $all");
    fails(doc! { "a": { "$elemMatch": 1 } }, 2, "$elemMatch needs an Object");
    fails(doc! { "a": { "$size": -1 } }, 2, "$size may not be negative");
    fails(doc! { "a": { "$size": "x" } }, 2, "$size needs a number");
    fails(doc! { "a": { "$size": 1.5 } }, 2, "$size must be a whole number");
}

#[test]
fn evaluation() {
    check(doc! { "s": regex("^ap") }, &[1, 4, 8]);
    check(doc! { "s": { "$regex": "^AP", "$options": "i" } }, &[1, 4, 8]);
    check(doc! { "s": { "$options": "i", "$regex": "^AP" } }, &[1, 4, 8]);
    check(doc! { "a": { "$mod": [2, 1] } }, &[1, 3, 6, 7]);
    check(doc! { "$expr": { "$gt": ["$a", 2] } }, &[2, 3, 4, 6, 8]);
    fails(doc! { "a": { "$mod": [0, 1] } }, 2, "divisor cannot be 0");
    fails(doc! { "a": { "$mod": 1 } }, 2, "malformed mod, needs to be an array");
    fails(doc! { "a": { "$mod": [1] } }, 2, "malformed mod, not enough elements");
    fails(doc! { "a": { "$mod": [1, 2, 3] } }, 2, "malformed mod, too many elements");
    fails(doc! { "s": regex("(") }, 51091, "Regular expression is invalid: missing )");
    fails(doc! { "s": { "$options": "i" } }, 2, "$options needs a $regex");
    fails(doc! { "s": { "$regex": 1 } }, 2, "$regex has to be a string");
    fails(doc! { "$expr": { "$foo": 1 } }, 168, "Unrecognized expression '$foo'");
    fails(doc! { "a": { "$elemMatch": { "$expr": 1 } } }, 2, "$expr can only be applied to the top-level document");
    fails(doc! { "$where": 1 }, 2, "$where got bad type");
    fails(doc! { "$where": "x" }, 2, "no globalScriptEngine in $where parsing");
    fails(doc! { "a": { "$where": "x" } }, 2, "$where cannot be applied to a field");
}

#[test]
fn bits() {
    check(doc! { "a": { "$bitsAllSet": 1 } }, &[1, 3, 6, 7]);
    check(doc! { "a": { "$bitsAllSet": [0, 2] } }, &[6]);
    check(doc! { "a": { "$bitsAnyClear": 3 } }, &[1, 6, 7]);
    check(doc! { "a": { "$bitsAllClear": [1] } }, &[1, 6, 7]);
    assert!(matches(&doc! { "a": { "$bitsAllSet": [200] } }, &doc! { "a": -1 }));
    fails(doc! { "a": { "$bitsAllSet": -1 } }, 9, "Expected a positive number in: $bitsAllSet: -1");
    fails(
        doc! { "a": { "$bitsAnySet": "x" } },
        2,
        "a takes an Array, a number, or a BinData but received: $bitsAnySet: \"x\"",
    );
    fails(doc! { "a": { "$bitsAnySet": [-1] } }, 2, "bit positions must be >= 0 but got: 0: -1");
}

#[test]
fn operators_without_an_engine_are_named() {
    fails(doc! { "a": { "$near": [0, 0] } }, 238, "this server has no geospatial queries: $near");
    fails(doc! { "$text": { "$search": "x" } }, 27, "text index required for $text query");
}

#[test]
fn json_schema() {
    let check = |schema: Document, ids: &[i32]| check(doc! { "$jsonSchema": schema }, ids);
    check(doc! { "required": ["s", "arr"] }, &[1, 2, 4]);
    check(doc! { "properties": { "a": { "bsonType": "number", "minimum": 2 } } }, &[2, 3]);
    check(doc! { "properties": { "s": { "pattern": "^a", "maxLength": 5 } }, "required": ["s"] }, &[1, 8]);
    check(
        doc! { "properties": { "arr": { "items": { "type": "number" }, "minItems": 1 } }, "required": ["arr"] },
        &[1],
    );
    check(doc! { "properties": { "d": { "required": ["y"] } }, "required": ["d"] }, &[5]);
    check(doc! { "not": { "required": ["s"] } }, &[3, 5, 7]);
    check(doc! { "properties": { "a": { "enum": [1, "4"] } } }, &[1, 4, 7]);
    check(doc! { "additionalProperties": false, "properties": { "_id": {}, "a": {}, "t": {} } }, &[7]);
    check(doc! { "dependencies": { "s": ["arr"] }, "required": ["s"] }, &[1, 2, 4]);
    check(doc! { "oneOf": [{ "required": ["b"] }, { "required": ["o"] }] }, &[6, 8]);
    let fails = |schema: Document, code, message: &str| fails(doc! { "$jsonSchema": schema }, code, message);
    fails(doc! { "foo": 1 }, 9, "Unknown $jsonSchema keyword: foo");
    fails(doc! { "required": 1 }, 14, "$jsonSchema keyword 'required' must be an array");
    fails(doc! { "minimum": "x" }, 14, "$jsonSchema keyword 'minimum' must be a number");
    fails(doc! { "$ref": "x" }, 9, "$jsonSchema keyword '$ref' is not currently supported");
}

#[test]
fn collation() {
    let spec = doc! { "locale": "en", "strength": 2 };
    let context = context().with_collation(Collation::parse(&spec).unwrap());
    let check = |filter: Document, document: Document, want: bool| {
        let matcher = Matcher::parse_view((&filter).into(), &context).unwrap();
        assert_eq!(matcher.matches_view((&document).into()).unwrap(), want);
    };
    check(doc! { "s": "banana" }, doc! { "s": "Banana" }, true);
    check(doc! { "s": { "$in": ["x", "banana"] } }, doc! { "s": "Banana" }, true);
    check(doc! { "s": { "$lt": "b" } }, doc! { "s": "A" }, true);
    check(doc! { "s": { "x": "banana" } }, doc! { "s": { "x": "Banana" } }, true);
    check(doc! { "s": regex("banana") }, doc! { "s": "Banana" }, false);
    check(doc! { "$expr": { "$eq": ["$s", "banana"] } }, doc! { "s": "Banana" }, true);
}

#[test]
fn positions() {
    let check = |filter: Document, document: Document, want: Option<usize>| {
        let found = matcher(&filter).unwrap().find_match(&to_raw(&document).unwrap()).unwrap();
        assert_eq!(found.expect("matches").array_position, want, "{filter}");
    };
    check(doc! { "a": 2 }, doc! { "a": [1, 2] }, Some(1));
    check(doc! { "a": [1, 2] }, doc! { "a": [1, 2] }, None);
    check(doc! { "a.b": 2 }, doc! { "a": [{ "b": 1 }, { "b": [0, 2] }] }, Some(1));
    check(doc! { "a": { "$elemMatch": { "$gt": 1 } } }, doc! { "a": [1, 2] }, Some(1));
    check(doc! { "a": 1, "b": 5 }, doc! { "a": [1], "b": [4, 5] }, Some(1));
    check(doc! { "a": 2, "c": 1 }, doc! { "a": [1, 2], "c": 1 }, Some(1));
    check(doc! { "$or": [{ "a": 2 }] }, doc! { "a": [1, 2] }, None);
}

#[test]
fn equalities() {
    let check = |filter: Document, want: Bson| {
        let found = matcher(&filter).unwrap().equalities().unwrap();
        let found: Vec<_> = found.into_iter().map(|(path, value)| bson!([path, value])).collect();
        assert_eq!(Bson::Array(found), want, "{filter}");
    };
    check(doc! { "a": 1, "b.c": 2, "d": { "$gt": 5 } }, bson!([["a", 1], ["b.c", 2]]));
    check(doc! { "$and": [{ "a": 1 }, { "b": { "$eq": 2 } }] }, bson!([["a", 1], ["b", 2]]));
    check(doc! { "$or": [{ "a": 1 }] }, bson!([["a", 1]]));
    check(doc! { "$or": [{ "a": 1 }, { "b": 1 }] }, bson!([]));
    check(doc! { "a": { "$in": [1] } }, bson!([["a", 1]]));
    check(doc! { "a": { "$all": [1] } }, bson!([["a", 1]]));
    let conflict = |filter: Document, message: &str| {
        let error = matcher(&filter).unwrap().equalities().unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (54, message));
    };
    conflict(doc! { "$and": [{ "a": 1 }, { "a": 2 }] }, "cannot infer query fields to set, path 'a' is matched twice");
    conflict(doc! { "a": 1, "a.b": 2 }, "cannot infer query fields to set, both paths 'a.b' and 'a' are matched");
}

#[test]
fn id_equality() {
    let check = |filter: Document, want: Option<Bson>| {
        assert_eq!(matcher(&filter).unwrap().id_equality().cloned(), want);
    };
    check(doc! { "_id": 5 }, Some(Bson::Int32(5)));
    check(doc! { "_id": { "$eq": "x" } }, Some(Bson::String("x".into())));
    check(doc! { "_id": 5, "a": 1 }, None);
    check(doc! { "_id": { "$gt": 5 } }, None);
}

#[test]
fn deep_nesting_is_handled_or_refused() {
    let nest = |depth: usize, wrap: fn(Bson) -> Bson| (0..depth).fold(bson!({ "a": 1 }), |inner, _| wrap(inner));
    let wraps: [fn(Bson) -> Bson; 3] = [
        |inner| bson!({ "$and": [inner] }),
        |inner| bson!({ "a": { "$elemMatch": inner } }),
        |inner| bson!({ "a": { "$not": { "$elemMatch": inner } } }),
    ];
    for wrap in wraps {
        for depth in [60, 90, 120] {
            let Bson::Document(filter) = nest(depth, wrap) else { continue };
            if let Ok(matcher) = matcher(&filter) {
                matcher.matches_view((&filter).into()).unwrap();
            }
        }
    }
    let Bson::Document(filter) = nest(120, wraps[0]) else { return };
    assert_eq!(matcher(&filter).unwrap_err().code, 15);
}

mod projections {
    use super::*;

    fn project(spec: &Document, document: &Document) -> Result<Document, CommandError> {
        let projection = Projection::parse(&to_raw(spec).unwrap(), &context())?.expect("not empty");
        let raw = projection.apply(&to_raw(document).unwrap(), Match { array_position: Some(1) })?;
        Ok(Document::try_from(&raw).unwrap())
    }

    fn check(spec: Document, document: Document, want: Document) {
        assert_eq!(project(&spec, &document).unwrap().to_string(), want.to_string(), "{spec}");
    }

    fn fails(spec: Document, code: i32, message: &str) {
        let error = project(&spec, &doc! {}).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, message), "{spec}");
    }

    fn sample() -> Document {
        doc! { "_id": 1, "a": 1, "s": "apple", "arr": [1, 2, 3], "d": { "x": 1, "y": 2 } }
    }

    #[test]
    fn inclusion_and_exclusion() {
        check(doc! { "a": 1 }, sample(), doc! { "_id": 1, "a": 1 });
        check(doc! { "a": true, "b": 1.0 }, sample(), doc! { "_id": 1, "a": 1 });
        check(doc! { "s": 1, "a": 1, "_id": 0 }, sample(), doc! { "a": 1, "s": "apple" });
        check(doc! { "_id": 1 }, sample(), doc! { "_id": 1 });
        check(doc! { "_id": 0 }, doc! { "_id": 1, "a": 2 }, doc! { "a": 2 });
        check(doc! { "arr": 0, "d": 0, "_id": 1 }, sample(), doc! { "_id": 1, "a": 1, "s": "apple" });
        check(doc! { "d": { "x": 1 } }, sample(), doc! { "_id": 1, "d": { "x": 1 } });
        check(doc! { "d.x": 0, "arr": 0 }, sample(), doc! { "_id": 1, "a": 1, "s": "apple", "d": { "y": 2 } });
        check(doc! { "arr.k": 1 }, sample(), doc! { "_id": 1, "arr": [] });
        let nested = doc! { "_id": 3, "arr": [{ "k": 1, "v": 5 }, [{ "k": 2, "v": 7 }], 9] };
        check(doc! { "arr.k": 1 }, nested.clone(), doc! { "_id": 3, "arr": [{ "k": 1 }, [{ "k": 2 }]] });
        check(doc! { "arr.k": 0 }, nested, doc! { "_id": 3, "arr": [{ "v": 5 }, [{ "v": 7 }], 9] });
        fails(doc! { "a": 1, "s": 0 }, 31254, "Cannot do exclusion on field s in inclusion projection");
        fails(doc! { "a": 0, "s": 1 }, 31253, "Cannot do inclusion on field s in exclusion projection");
        fails(doc! { "d": 1, "d.x": 1 }, 31249, "Path collision at d.x remaining portion x");
        fails(doc! { "d.x": 1, "d": 1 }, 31250, "Path collision at d");
        fails(doc! { "d": {} }, 51270, "Invalid empty sub-projection: d");
        fails(doc! { "$a": 1 }, 16410, "FieldPath field names may not start with '$'.");
    }

    #[test]
    fn computed() {
        check(doc! { "a": "$s" }, sample(), doc! { "_id": 1, "a": "apple" });
        check(doc! { "z": { "$add": ["$a", 1] }, "s": 1 }, sample(), doc! { "_id": 1, "s": "apple", "z": 2 });
        check(doc! { "d.z": "$a", "d.x": 1 }, sample(), doc! { "_id": 1, "d": { "x": 1, "z": 1 } });
        check(doc! { "a.z": "$s" }, sample(), doc! { "_id": 1, "a": { "z": "apple" } });
        check(doc! { "z": "$missing" }, sample(), doc! { "_id": 1 });
        fails(doc! { "a": 0, "z": "x" }, 31310, "Cannot use an expression z: \"x\" in an exclusion projection");
        let exclusion = "Cannot use expression other than $meta in exclusion projection";
        fails(doc! { "a": 0, "z": { "$add": [1] } }, 31252, exclusion);
        fails(doc! { "z": { "$a b": 1 } }, 31325, "Unknown expression $a b");
    }

    #[test]
    fn slices() {
        let check = |operand: Bson, want: Bson| {
            let projected = project(&doc! { "arr": { "$slice": operand } }, &sample()).unwrap();
            assert_eq!(projected.get("arr"), Some(&want));
            assert_eq!(projected.len(), 5);
        };
        check(bson!(1), bson!([1]));
        check(bson!(-1), bson!([3]));
        check(bson!([1, 1]), bson!([2]));
        check(bson!([-2, 5]), bson!([2, 3]));
        check(bson!(0), bson!([]));
        check(bson!(1_i64 << 40), bson!([1, 2, 3]));
        super::projections::check(
            doc! { "arr": { "$slice": 1 }, "a": 1 },
            sample(),
            doc! { "_id": 1, "a": 1, "arr": [1] },
        );
        let both = "Invalid $slice syntax. The given syntax { $slice: \"x\" } did not match the find() syntax because :: \
            Location31273: $slice only supports numbers and [skip, limit] arrays :: The given syntax did not match the \
            expression $slice syntax. :: caused by :: Expression $slice takes at least 2 arguments, and at most 3, but 1 \
            were passed in.";
        fails(doc! { "arr": { "$slice": "x" } }, 28667, both);
    }

    #[test]
    fn element_match_and_position() {
        let document = doc! { "_id": 3, "a": 3, "arr": [{ "k": 1, "v": 5 }, { "k": 2, "v": 7 }] };
        let second = doc! { "_id": 3, "arr": [{ "k": 2, "v": 7 }] };
        check(doc! { "arr": { "$elemMatch": { "k": 2 } } }, document.clone(), second.clone());
        check(doc! { "arr": { "$elemMatch": { "k": 9 } } }, document.clone(), doc! { "_id": 3 });
        check(doc! { "arr.$": 1 }, document.clone(), second.clone());
        let object = "positional projection cannot be used with an expression or sub object";
        fails(doc! { "arr.$": { "x": 1 } }, 31271, object);
        fails(doc! { "arr.$": 0 }, 31395, "positional projection cannot be used with exclusion");
        fails(doc! { "arr.$": "x" }, 31308, "positional projection cannot be used with a literal");
        fails(doc! { "a.$": 1, "b.$": 1 }, 31276, "Cannot specify more than one positional projection per query.");
        fails(doc! { "a.b": { "$elemMatch": {} } }, 31275, "Cannot use $elemMatch projection on a nested field.");
        let projection = Projection::parse(&to_raw(&doc! { "arr.$": 1 }).unwrap(), &context()).unwrap().unwrap();
        assert!(projection.needs_match());
        let error = projection.apply(&to_raw(&document).unwrap(), Match::default()).unwrap_err();
        assert_eq!(error.code, 51246);
    }

    proptest! {
        #[test]
        fn arbitrary_projections_never_panic(spec in any_bson(), document in any_bson()) {
            let Bson::Document(document) = document else { return Ok(()) };
            if let Bson::Document(spec) = &spec {
                let _ = Projection::parse(&to_raw(spec).unwrap(), &context())
                    .map(|found| found.map(|found| found.apply(&to_raw(&document).unwrap(), Match::default())));
            }
            for name in ["a", "$slice", "$elemMatch", "a.$"] {
                let spec = doc! { "a": { name: spec.clone() }, name: spec.clone() };
                let _ = Projection::parse(&to_raw(&spec).unwrap(), &context());
            }
        }
    }
}

mod sorting {
    use super::*;

    fn key(pattern: &Document, document: &Document) -> Vec<u8> {
        Sort::parse(&to_raw(pattern).unwrap(), None).unwrap().key(&to_raw(document).unwrap()).unwrap()
    }

    #[test]
    fn order() {
        let check = |pattern: Document, left: Document, right: Document| {
            assert!(key(&pattern, &left) < key(&pattern, &right), "{pattern} {left} {right}");
        };
        check(doc! { "a": 1 }, doc! { "a": 1 }, doc! { "a": 2 });
        check(doc! { "a": -1 }, doc! { "a": 2 }, doc! { "a": 1 });
        check(doc! { "a": 1 }, doc! {}, doc! { "a": 1 });
        check(doc! { "a": 1 }, doc! { "a": [5, 1] }, doc! { "a": 2 });
        check(doc! { "a": -1 }, doc! { "a": [5, 1] }, doc! { "a": 4 });
        check(doc! { "a": 1 }, doc! { "a": [] }, doc! { "a": null });
        check(doc! { "a": 1, "b": -1 }, doc! { "a": 1, "b": 2 }, doc! { "a": 1, "b": 1 });
        check(doc! { "d.x": 1 }, doc! { "d": 5 }, doc! { "d": { "x": 1 } });
        check(doc! { "d.x": 1 }, doc! { "d": [{ "x": 3 }, { "x": 1 }] }, doc! { "d": { "x": 2 } });
        assert_eq!(key(&doc! { "a": 1 }, &doc! {}), key(&doc! { "a": 1 }, &doc! { "a": null }));
    }

    #[test]
    fn errors() {
        let check = |pattern: Document, code: i32, message: &str| {
            let error = Sort::parse(&to_raw(&pattern).unwrap(), None).unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (code, message));
        };
        check(doc! { "a": "x" }, 15974, "Illegal key in $sort specification: a: \"x\"");
        check(doc! { "a": 2 }, 15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)");
        check(doc! { "": 1 }, 40352, "FieldPath cannot be constructed with empty string");
        check(doc! { "$a": 1 }, 16410, "FieldPath field names may not start with '$'.");
        check(doc! { "a": { "b": 1 } }, 17312, "$meta is the only expression supported by $sort right now");
        let compound = "Cannot include '$natural' in compound sort: { $natural: 1, a: 1 }";
        check(doc! { "$natural": 1, "a": 1 }, 2, compound);
        let natural = Sort::parse(&to_raw(&doc! { "$natural": -1 }).unwrap(), None).unwrap();
        assert_eq!(natural.natural(), Some(Direction::Descending));
        let sort = Sort::parse(&to_raw(&doc! { "a": 1, "b": 1 }).unwrap(), None).unwrap();
        let error = sort.key(&to_raw(&doc! { "a": [1], "b": [2] }).unwrap()).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (2, "cannot sort with keys that are parallel arrays"));
    }

    proptest! {
        #[test]
        fn single_values_sort_as_they_compare(left in any_bson(), right in any_bson()) {
            prop_assume!(!matches!((&left, &right), (Bson::Array(_), _) | (_, Bson::Array(_))));
            let order = key(&doc! { "a": 1 }, &doc! { "a": left.clone() })
                .cmp(&key(&doc! { "a": 1 }, &doc! { "a": right.clone() }));
            prop_assert_eq!(order, compare((&left).into(), (&right).into(), None));
        }
    }
}

fn any_filter() -> impl Strategy<Value = Document> {
    let operator = prop_oneof![
        Just("$eq"),
        Just("$gt"),
        Just("$gte"),
        Just("$lt"),
        Just("$lte"),
        Just("$ne"),
        Just("$in"),
        Just("$size"),
        Just("$type"),
        Just("$elemMatch"),
        Just("$all"),
        Just("$mod"),
        Just("$bitsAnySet"),
        Just("$not"),
        Just("$regex"),
    ];
    prop::collection::vec((operator, any_bson()), 1..3).prop_map(|operators| {
        doc! { "a": operators.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Document>() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn arbitrary_filters_never_panic(filter in any_bson(), operators in any_filter(), document in any_bson()) {
        let document = doc! { "a": document };
        for filter in [doc! { "a": filter.clone() }, doc! { "$or": filter.clone() }, doc! { "$jsonSchema": filter },
            operators]
        {
            if let Ok(matcher) = matcher(&filter) {
                let decoded = matcher.matches_view((&document).into()).ok();
                prop_assert_eq!(matcher.matches(&to_raw(&document).unwrap()).ok(), decoded);
            }
        }
    }

    /// A scalar comparison is the order of values within one type; arrays match by any element.
    #[test]
    fn comparisons_agree_with_a_naive_oracle(value in any_bson(), operand in any_bson()) {
        prop_assume!(!matches!(operand, Bson::Undefined | Bson::RegularExpression(_) | Bson::MinKey | Bson::MaxKey));
        let nan = |value: &Bson| View::from(value).number().is_some_and(|number| number.is_nan());
        prop_assume!(!nan(&operand));
        let holds = |value: &Bson, test: fn(Ordering) -> bool| {
            let null = matches!((value, &operand), (Bson::Undefined, Bson::Null));
            let same = View::from(value).kind().rank() == View::from(&operand).kind().rank();
            (null && test(Ordering::Equal))
                || (same && !nan(value) && test(compare(value.into(), (&operand).into(), None)))
        };
        type Test = fn(Ordering) -> bool;
        let tests: [(&str, Test); 5] = [
            ("$eq", Ordering::is_eq), ("$gt", Ordering::is_gt), ("$gte", Ordering::is_ge), ("$lt", Ordering::is_lt),
            ("$lte", Ordering::is_le),
        ];
        for (operator, test) in tests {
            let any = match &value {
                Bson::Array(values) => values.iter().any(|value| holds(value, test)) || holds(&value, test),
                one => holds(one, test),
            };
            prop_assert_eq!(matches(&doc! { "a": { operator: operand.clone() } }, &doc! { "a": value.clone() }), any);
        }
    }

    #[test]
    fn lists_are_unions(value in any_bson(), operands in prop::collection::vec(any_bson(), 1..12)) {
        let operands: Vec<_> =
            operands.into_iter().filter(|each| !matches!(each, Bson::Undefined | Bson::RegularExpression(_))).collect();
        prop_assume!(!operands.is_empty());
        let document = doc! { "a": value };
        let one = |operand: &Bson| matches(&doc! { "a": { "$eq": operand.clone() } }, &document);
        let any = operands.iter().any(one);
        // $in does not let null stand for undefined
        prop_assume!(!(any && operands.contains(&Bson::Null)));
        prop_assert_eq!(matches(&doc! { "a": { "$in": operands.clone() } }, &document), any);
        prop_assert_eq!(matches(&doc! { "a": { "$nin": operands } }, &document), !any);
    }

    /// A document that matches has an index key in the ranges of every predicate.
    #[test]
    fn bounds_are_necessary(value in any_bson(), filter in any_filter(), down: bool) {
        let document = doc! { "a": value };
        let Ok(matcher) = matcher(&filter) else { return Ok(()) };
        if !matcher.matches_view((&document).into()).unwrap() {
            return Ok(());
        }
        let (pattern, direction) = if down {
            (doc! { "a": -1 }, Direction::Descending)
        } else {
            (doc! { "a": 1 }, Direction::Ascending)
        };
        let keys = IndexPattern::new(&pattern, false, None).keys_of(DocView::from(&document)).unwrap().keys;
        for predicate in matcher.bounds_on("a") {
            let ranges = predicate.key_ranges(direction, None);
            let inside = keys.iter().any(|key| {
                ranges.iter().any(|range| range.start <= key.bytes && key.bytes < range.end)
            });
            prop_assert!(inside, "{} {} {:?}", filter, document, predicate);
        }
    }
}
