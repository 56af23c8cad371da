//! Tests of updates.

use bson::{Bson, DateTime, Document, Timestamp, bson, doc};
use proptest::prelude::*;

use super::*;
use crate::error::CommandError;
use crate::value::key_string::tests::any_bson;

const NOW: ApplyContext = ApplyContext {
    now: DateTime::from_millis(1_000),
    timestamp: Timestamp { time: 7, increment: 3 },
    stores_dollar_fields: false,
};

fn context() -> QueryContext {
    QueryContext::new(NOW.now)
}

fn parse(update: &Bson, filters: &[Document]) -> Result<Update, CommandError> {
    let context = context();
    Update::parse(
        update,
        &UpdateOptions { multi: false, array_filters: filters, context: &context, empty_operators: false },
    )
}

fn apply_with(update: &Bson, filters: &[Document], document: &Document, at: Option<usize>) -> Result<Applied> {
    parse(update, filters)?.apply(&to_raw(document).unwrap(), at, &NOW)
}

fn oplog_of(applied: &Applied) -> Document {
    applied.oplog.clone().document(|| Ok(applied.document.clone())).unwrap()
}

/// Applies operators and compares the document and its oplog form; an empty one is no change.
fn check(update: Document, document: Document, want: Document, oplog: Document) {
    let applied = apply_with(&Bson::Document(update.clone()), &[], &document, Some(1)).unwrap();
    assert_eq!(applied.document.to_string(), want.to_string(), "{update}");
    let logged = if oplog.is_empty() {
        oplog
    } else {
        let mut versioned = doc! { "$v": 1 };
        versioned.extend(oplog);
        versioned
    };
    assert_eq!(oplog_of(&applied).to_string(), logged.to_string(), "{update}");
    assert_eq!(applied.changed, !logged.is_empty());
}

fn fails(update: Document, document: Document, code: i32, message: &str) {
    let error = apply_with(&Bson::Document(update.clone()), &[], &document, None).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (code, message), "{update}");
}

#[test]
fn set_and_unset() {
    let one = || doc! { "_id": 1, "a": 1 };
    check(doc! { "$set": { "a": 2 } }, one(), doc! { "_id": 1, "a": 2 }, doc! { "$set": { "a": 2 } });
    check(doc! { "$set": { "a": 1 } }, one(), one(), doc! {});
    check(doc! { "$set": { "a": 1.0 } }, one(), doc! { "_id": 1, "a": 1.0 }, doc! { "$set": { "a": 1.0 } });
    check(
        doc! { "$set": { "z": 1, "b.c": 2 } },
        one(),
        doc! { "_id": 1, "a": 1, "b": { "c": 2 }, "z": 1 },
        doc! { "$set": { "b.c": 2, "z": 1 } },
    );
    check(
        doc! { "$set": { "a.3": 9 } },
        doc! { "_id": 1, "a": [1, 2] },
        doc! { "_id": 1, "a": [1, 2, null, 9] },
        doc! { "$set": { "a.3": 9 } },
    );
    check(doc! { "$unset": { "a": "" } }, one(), doc! { "_id": 1 }, doc! { "$unset": { "a": true } });
    check(doc! { "$unset": { "b.c": 1 } }, one(), one(), doc! {});
    check(
        doc! { "$unset": { "a.0": 1 } },
        doc! { "_id": 1, "a": [1, 2] },
        doc! { "_id": 1, "a": [null, 2] },
        doc! { "$unset": { "a.0": true } },
    );
    check(doc! { "$setOnInsert": { "z": 1 } }, one(), one(), doc! {});
    fails(doc! { "$set": { "a.b": 2 } }, one(), 28, "Cannot create field 'b' in element {a: 1}");
    let array = "Cannot create field 'b' in element {a: [ 1 ]}";
    fails(doc! { "$set": { "a.b": 2 } }, doc! { "a": [1] }, 28, array);
    fails(doc! { "$set": { "a.2000000": 2 } }, doc! { "a": [1] }, 34, "can't backfill more than 1500000 elements");
}

#[test]
fn current_date() {
    check(
        doc! { "$currentDate": { "a": true, "b": { "$type": "timestamp" } } },
        doc! { "_id": 1 },
        doc! { "_id": 1, "a": NOW.now, "b": NOW.timestamp },
        doc! { "$set": { "a": NOW.now, "b": NOW.timestamp } },
    );
    let int = "int is not valid type for $currentDate. Please use a boolean ('true') or a $type expression ({$type: 'timestamp/date'}).";
    fails(doc! { "$currentDate": { "a": 1 } }, doc! {}, 2, int);
    fails(doc! { "$currentDate": { "a": { "x": 1 } } }, doc! {}, 2, "Unrecognized $currentDate option: x");
}

#[test]
fn arithmetic() {
    check(
        doc! { "$inc": { "a": 2, "b": 1.5 } },
        doc! { "_id": 1, "a": 1 },
        doc! { "_id": 1, "a": 3, "b": 1.5 },
        doc! { "$set": { "a": 3, "b": 1.5 } },
    );
    let widened = doc! { "_id": 1, "a": 2_147_483_648_i64 };
    let logged = doc! { "$set": { "a": 2_147_483_648_i64 } };
    check(doc! { "$inc": { "a": 1 } }, doc! { "_id": 1, "a": i32::MAX }, widened, logged);
    check(doc! { "$inc": { "a": 0 } }, doc! { "_id": 1, "a": 1 }, doc! { "_id": 1, "a": 1 }, doc! {});
    check(
        doc! { "$mul": { "a": 2, "b": 5, "c": 2.5 } },
        doc! { "_id": 1, "a": 3 },
        doc! { "_id": 1, "a": 6, "b": 0, "c": 0.0 },
        doc! { "$set": { "a": 6, "b": 0, "c": 0.0 } },
    );
    check(doc! { "$bit": { "a": { "xor": 3 } } }, doc! { "a": 5 }, doc! { "a": 6 }, doc! { "$set": { "a": 6 } });
    check(doc! { "$bit": { "a": { "or": 3_i64 } } }, doc! {}, doc! { "a": 3_i64 }, doc! { "$set": { "a": 3_i64 } });
    let overflow =
        "Failed to apply $inc operations to current value ((NumberLong)9223372036854775807) for document {_id: 1}";
    fails(doc! { "$inc": { "a": 1 } }, doc! { "_id": 1, "a": i64::MAX }, 2, overflow);
    let text =
        "Cannot apply $inc to a value of non-numeric type. {_id: 1} has the field 'a' of non-numeric type string";
    fails(doc! { "$inc": { "a": 1 } }, doc! { "_id": 1, "a": "x" }, 14, text);
    fails(doc! { "$inc": { "a": "x" } }, doc! {}, 14, "Cannot increment with non-numeric argument: {a: \"x\"}");
    fails(doc! { "$mul": { "a": "x" } }, doc! {}, 14, "Cannot multiply with non-numeric argument: {a: \"x\"}");
    let double = "Cannot apply $bit to a value of non-integral type._id: 1 has the field a of non-integer type double";
    fails(doc! { "$bit": { "a": { "or": 1 } } }, doc! { "_id": 1, "a": 1.5 }, 2, double);
    let nand =
        "The $bit modifier only supports 'and', 'or', and 'xor', not 'nand' which is an unknown operator: {nand: 1}";
    fails(doc! { "$bit": { "a": { "nand": 1 } } }, doc! {}, 2, nand);
}

#[test]
fn min_and_max() {
    check(
        doc! { "$min": { "a": 3 }, "$max": { "b": 9, "c": 1 } },
        doc! { "_id": 1, "a": 5, "b": 5 },
        doc! { "_id": 1, "a": 3, "b": 9, "c": 1 },
        doc! { "$set": { "a": 3, "b": 9, "c": 1 } },
    );
    check(doc! { "$min": { "a": "x" } }, doc! { "a": 5 }, doc! { "a": 5 }, doc! {});
    check(doc! { "$max": { "a": 5.0 } }, doc! { "a": 5 }, doc! { "a": 5 }, doc! {});
}

#[test]
fn rename() {
    check(
        doc! { "$rename": { "a": "c.d" } },
        doc! { "_id": 1, "a": 1, "b": 2 },
        doc! { "_id": 1, "b": 2, "c": { "d": 1 } },
        doc! { "$set": { "c.d": 1 }, "$unset": { "a": true } },
    );
    check(
        doc! { "$rename": { "a": "b" } },
        doc! { "_id": 1, "a": 1, "b": 2 },
        doc! { "_id": 1, "b": 1 },
        doc! { "$set": { "b": 1 }, "$unset": { "a": true } },
    );
    check(doc! { "$rename": { "x": "b" } }, doc! { "b": 2 }, doc! { "b": 2 }, doc! {});
    let same = "The source and target field for $rename must differ: a: \"a\"";
    fails(doc! { "$rename": { "a": "a" } }, doc! {}, 2, same);
    let path = "The source and target field for $rename must not be on the same path: a: \"a.b\"";
    fails(doc! { "$rename": { "a": "a.b" } }, doc! {}, 2, path);
    fails(doc! { "$rename": { "a": 1 } }, doc! {}, 2, "The 'to' field for $rename must be a string: a: 1");
    let array = "The source field cannot be an array element, 'a.0' in doc with _id: 1 has an array field called 'a'";
    fails(doc! { "$rename": { "a.0": "b" } }, doc! { "_id": 1, "a": [1] }, 2, array);
}

#[test]
fn push() {
    check(
        doc! { "$push": { "a": 2, "b": 1 } },
        doc! { "_id": 1, "a": [1] },
        doc! { "_id": 1, "a": [1, 2], "b": [1] },
        doc! { "$set": { "a.1": 2, "b": [1] } },
    );
    let each = |modifiers: Document, want: Bson| {
        let applied = apply_with(&bson!({ "$push": { "a": modifiers.clone() } }), &[], &doc! { "a": [5, 1] }, None);
        assert_eq!(applied.unwrap().document.get("a"), Some(&want), "{modifiers}");
    };
    each(doc! { "$each": [3, 9], "$sort": 1, "$slice": -3 }, bson!([3, 5, 9]));
    each(doc! { "$each": [3], "$position": 0 }, bson!([3, 5, 1]));
    each(doc! { "$each": [3], "$position": -1 }, bson!([5, 3, 1]));
    each(doc! { "$each": [3], "$slice": 2 }, bson!([5, 1]));
    each(doc! { "$each": [], "$slice": 0 }, bson!([]));
    each(doc! { "$each": [{ "x": 2 }, { "x": 1 }], "$sort": { "x": -1 } }, bson!([{ "x": 2 }, { "x": 1 }, 5, 1]));
    check(
        doc! { "$push": { "a": { "$each": [9], "$slice": -1 } } },
        doc! { "a": [1] },
        doc! { "a": [9] },
        doc! { "$set": { "a": [9] } },
    );
    let scalar = "The field 'a' must be an array but is of type int in document {_id: 1}";
    fails(doc! { "$push": { "a": 2 } }, doc! { "_id": 1, "a": 1 }, 2, scalar);
    let not_array = "The argument to $each in $push must be an array but it was of type: int";
    fails(doc! { "$push": { "a": { "$each": 2 } } }, doc! {}, 2, not_array);
    fails(doc! { "$push": { "a": { "$each": [], "$foo": 1 } } }, doc! {}, 2, "Unrecognized clause in $push: $foo");
    let sort = "The $sort element value must be either 1 or -1";
    fails(doc! { "$push": { "a": { "$each": [], "$sort": 2 } } }, doc! {}, 2, sort);
}

#[test]
fn sets_and_pops() {
    let logged = doc! { "$set": { "a": [1, 2, 3] } };
    let added = doc! { "a": [1, 2, 3] };
    check(doc! { "$addToSet": { "a": { "$each": [2, 3, 3] } } }, doc! { "a": [1, 2] }, added, logged);
    check(doc! { "$addToSet": { "a": 1.0 } }, doc! { "a": [1] }, doc! { "a": [1] }, doc! {});
    check(doc! { "$pop": { "a": -1 } }, doc! { "a": [1, 2] }, doc! { "a": [2] }, doc! { "$set": { "a": [2] } });
    check(doc! { "$pop": { "a": 1 } }, doc! { "a": [] }, doc! { "a": [] }, doc! {});
    fails(doc! { "$pop": { "a": 2 } }, doc! {}, 9, "$pop expects 1 or -1, found: 2");
    fails(doc! { "$pop": { "a": "x" } }, doc! {}, 9, "Expected a number in: a: \"x\"");
    fails(doc! { "$pop": { "a": 1 } }, doc! { "a": 1 }, 14, "Path 'a' contains an element of non-array type 'int'");
    let text = "Cannot apply $addToSet to non-array field. Field named 'a' has non-array type int";
    fails(doc! { "$addToSet": { "a": 1 } }, doc! { "a": 1 }, 2, text);
}

#[test]
fn pulls() {
    let pull = |condition: Bson, before: Bson, after: Bson| {
        let applied = apply_with(&bson!({ "$pull": { "a": condition } }), &[], &doc! { "a": before }, None).unwrap();
        assert_eq!(applied.document.get("a"), Some(&after));
    };
    pull(bson!({ "x": 1 }), bson!([{ "x": 1 }, { "x": 2 }]), bson!([{ "x": 2 }]));
    pull(bson!({ "$gt": 2 }), bson!([1, 3, "x"]), bson!([1, "x"]));
    pull(bson!({ "$in": [1, 2] }), bson!([1, 2, 3]), bson!([3]));
    pull(bson!(1), bson!([1, 1.0, 2]), bson!([2]));
    pull(bson!([1]), bson!([[1], 1]), bson!([1]));
    pull(bson!({ "x": { "$gt": 1 } }), bson!([{ "x": 1 }, { "x": 2 }, 5]), bson!([{ "x": 1 }, 5]));
    pull(bson!({ "$or": [{ "x": 1 }] }), bson!([{ "x": 1 }, 5]), bson!([5]));
    let logged = doc! { "$set": { "a": [2] } };
    check(doc! { "$pullAll": { "a": [1] } }, doc! { "a": [1, 2, 1] }, doc! { "a": [2] }, logged);
    fails(doc! { "$pull": { "a": 1 } }, doc! { "a": 1 }, 2, "Cannot apply $pull to a non-array value");
    fails(doc! { "$pullAll": { "a": 1 } }, doc! {}, 2, "$pullAll requires an array argument but was given a int");
}

#[test]
fn positions_and_filters() {
    check(
        doc! { "$set": { "a.$.x": 9 } },
        doc! { "a": [{ "x": 1 }, { "x": 2 }] },
        doc! { "a": [{ "x": 1 }, { "x": 9 }] },
        doc! { "$set": { "a.1.x": 9 } },
    );
    check(
        doc! { "$inc": { "a.$[]": 1 } },
        doc! { "a": [1, 2] },
        doc! { "a": [2, 3] },
        doc! { "$set": { "a": [2, 3] } },
    );
    let filters = [doc! { "e.x": { "$gt": 1 } }, doc! { "f": { "$lt": 5 } }];
    let update = bson!({ "$set": { "a.$[e].y": 0, "b.$[f]": 7 } });
    let document = doc! { "a": [{ "x": 1 }, { "x": 2 }], "b": [4, 6, 3] };
    let applied = apply_with(&update, &filters, &document, None).unwrap();
    let want = doc! { "a": [{ "x": 1 }, { "x": 2, "y": 0 }], "b": [7, 6, 7] };
    assert_eq!(applied.document.to_string(), want.to_string());
    assert_eq!(oplog_of(&applied), doc! { "$v": 1, "$set": { "a.1.y": 0, "b": [7, 6, 7] } });

    let fails_with = |filters: &[Document], update: Bson, document: Document, code: i32, message: &str| {
        let error = apply_with(&update, filters, &document, None).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, message));
    };
    let unused = "The array filter for identifier 'x' was not used in the update { $set: { a.0: 0 } }";
    fails_with(&[doc! { "x": 1 }], bson!({ "$set": { "a.0": 0 } }), doc! {}, 9, unused);
    let unknown = "No array filter found for identifier 'x' in path 'a.$[x]'";
    fails_with(&[], bson!({ "$set": { "a.$[x]": 0 } }), doc! {}, 2, unknown);
    let two = "Found multiple array filters with the same top-level field name x";
    fails_with(&[doc! { "x": 1 }, doc! { "x": 2 }], bson!({ "$set": { "a.$[x]": 0 } }), doc! {}, 9, two);
    let mixed = "Error parsing array filter :: caused by :: Expected a single top-level field name, found 'x' and 'y'";
    fails_with(&[doc! { "x": 1, "y": 2 }], bson!({ "$set": { "a.$[x]": 0 } }), doc! {}, 9, mixed);
    let none = "The path 'a' must exist in the document in order to apply array updates.";
    fails_with(&[], bson!({ "$set": { "a.$[]": 0 } }), doc! {}, 2, none);
    let scalar = "Cannot apply array updates to non-array element a: 1";
    fails_with(&[], bson!({ "$set": { "a.$[]": 0 } }), doc! { "a": 1 }, 2, scalar);
    let no_match = "The positional operator did not find the match needed from the query.";
    fails_with(&[], bson!({ "$set": { "a.$": 0 } }), doc! { "a": [1] }, 2, no_match);
}

#[test]
fn refused_updates() {
    let fails = |update: Document, code: i32, message: &str| fails(update, doc! { "_id": 1 }, code, message);
    let empty = "'$set' is empty. You must specify a field like so: {$set: {<field>: ...}}";
    fails(doc! { "$set": {} }, 9, empty);
    let scalar =
        "Modifiers operate on fields but we found type int instead. For example: {$mod: {<field>: ...}} not {$set: 1}";
    fails(doc! { "$set": 1 }, 9, scalar);
    let expected = "Expected a valid update modifier or pipeline-style update specified as an array";
    fails(doc! { "$foo": { "a": 1 } }, 9, &format!("Unknown modifier: $foo. {expected}"));
    fails(doc! { "$set": { "a": 1 }, "b": 1 }, 9, &format!("Unknown modifier: b. {expected}"));
    fails(doc! { "$set": { "": 1 } }, 56, "An empty update path is not valid.");
    fails(doc! { "$set": { "a.": 1 } }, 56, "The update path 'a.' contains an empty field name, which is not allowed.");
    fails(doc! { "$set": { "$a": 1 } }, 52, "The dollar ($) prefixed field '$a' in '$a' is not valid for storage.");
    let deep = "The dollar ($) prefixed field '$b' in 'a.$b' is not valid for storage.";
    fails(doc! { "$set": { "a": { "$b": 1 } } }, 52, deep);
    let conflict = "Updating the path 'a.b' would create a conflict at 'a'";
    fails(doc! { "$set": { "a": 1, "a.b": 1 } }, 40, conflict);
    fails(
        doc! { "$set": { "a.b": 1 }, "$inc": { "a": 1 } },
        40,
        "Updating the path 'a' would create a conflict at 'a'",
    );
    fails(doc! { "$set": { "a.$[]": 1, "a.0": 1 } }, 40, "Updating the path 'a.0' would create a conflict at 'a'");
    fails(
        doc! { "$rename": { "a": "b" }, "$set": { "a": 1 } },
        40,
        "Updating the path 'a' would create a conflict at 'a'",
    );
    let twice = "Too many positional (i.e. '$') elements found in path 'a.$.$'";
    fails(doc! { "$set": { "a.$.$": 1 } }, 2, twice);
    let first = "Cannot have positional (i.e. '$') element in the first position in path '$'";
    fails(doc! { "$set": { "$": 1 } }, 2, first);
    let id = "Performing an update on the path '_id' would modify the immutable field '_id'";
    fails(doc! { "$set": { "_id": 2 } }, 66, id);
    fails(doc! { "$unset": { "_id": 2 } }, 66, id);
    let reference = "Found $id field without a $ref before it, which is invalid.";
    fails(doc! { "$set": { "a": { "$id": 1 } } }, 55, reference);
}

#[test]
fn document_references_are_stored() {
    let reference = doc! { "$ref": "c", "$id": 1, "$db": "d" };
    check(
        doc! { "$set": { "a": reference.clone() } },
        doc! {},
        doc! { "a": reference.clone() },
        doc! { "$set": { "a": reference } },
    );
}

#[test]
fn replacements() {
    let check = |update: Document, document: Document, want: Document, changed: bool| {
        let applied = apply_with(&Bson::Document(update), &[], &document, None).unwrap();
        assert_eq!(applied.document.to_string(), want.to_string());
        assert_eq!(applied.changed, changed);
        assert_eq!(
            oplog_of(&applied),
            if changed {
                want
            } else {
                doc! {}
            }
        );
    };
    check(doc! { "c": 3 }, doc! { "_id": 1, "a": 1 }, doc! { "_id": 1, "c": 3 }, true);
    check(doc! {}, doc! { "_id": 1, "a": 1 }, doc! { "_id": 1 }, true);
    check(doc! { "a": 1 }, doc! { "_id": 1, "a": 1 }, doc! { "_id": 1, "a": 1 }, false);
    check(doc! { "a": 1, "_id": 1 }, doc! { "_id": 1, "a": 1 }, doc! { "_id": 1, "a": 1 }, false);
    let zero = Timestamp { time: 0, increment: 0 };
    check(doc! { "t": zero }, doc! { "_id": 1 }, doc! { "_id": 1, "t": NOW.timestamp }, true);
    let altered = "After applying the update, the (immutable) field '_id' was found to have been altered to _id: 2";
    fails(doc! { "_id": 2, "c": 3 }, doc! { "_id": 1 }, 66, altered);
    let context = context();
    let options = UpdateOptions { multi: true, array_filters: &[], context: &context, empty_operators: false };
    let error = Update::parse(&bson!({ "a": 1 }), &options).unwrap_err();
    assert_eq!(error.message, "multi update is not supported for replacement-style update");
}

/// A replacement by its bytes; `None`: it is taken apart.
fn by_its_bytes(replacement: &Document, before: Option<&Document>) -> Option<Document> {
    let update = parse(&Bson::Document(replacement.clone()), &[]).unwrap();
    let before = before.map(|before| to_raw(before).unwrap());
    let Kind::Replacement(replacement) = &update.kind else { panic!("{update:?}") };
    let made = whole::document(replacement, before.as_deref(), Some(ObjectId::from_bytes([7; 12])))?;
    Some(to_document(&made).unwrap())
}

#[test]
fn a_replacement_by_its_bytes() {
    let check = |replacement: Document, before: Option<Document>, want: Option<Document>| {
        let made = by_its_bytes(&replacement, before.as_ref());
        assert_eq!(made.map(|made| made.to_string()), want.map(|want| want.to_string()), "{replacement}");
    };
    let before = || Some(doc! { "_id": 1, "a": 1 });
    check(doc! { "c": 3 }, before(), Some(doc! { "_id": 1, "c": 3 }));
    check(doc! { "c": 3, "_id": 1 }, before(), Some(doc! { "_id": 1, "c": 3 }));
    check(doc! { "_id": 1 }, None, Some(doc! { "_id": 1 }));
    check(doc! { "c": [{ "d": 3 }] }, None, Some(doc! { "_id": ObjectId::from_bytes([7; 12]), "c": [{ "d": 3 }] }));
    for taken_apart in [
        doc! { "_id": 2, "c": 3 },
        doc! { "_id": 1.0, "c": 3 },
        doc! { "c": { "$d": 3 } },
        doc! { "c": [{ "$d": 3 }] },
        doc! { "c": Timestamp { time: 0, increment: 0 } },
        doc! { "_id": [1] },
    ] {
        check(taken_apart, before(), None);
    }
}

#[test]
fn pipelines() {
    let update = bson!([{ "$set": { "c": { "$add": ["$a", "$b"] } } }, { "$unset": ["b"] }]);
    let applied = apply_with(&update, &[], &doc! { "_id": 1, "a": 1, "b": 5 }, None).unwrap();
    assert_eq!(applied.document.to_string(), doc! { "_id": 1, "a": 1, "c": 6 }.to_string());
    let update = bson!([{ "$replaceWith": { "old": "$$ROOT" } }]);
    let applied = apply_with(&update, &[], &doc! { "_id": 1 }, None).unwrap();
    assert_eq!(applied.document.to_string(), doc! { "_id": 1, "old": { "_id": 1 } }.to_string());
    let fails = |update: Bson, code: i32, message: &str| {
        let error = apply_with(&update, &[], &doc! { "_id": 1 }, None).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, message));
    };
    fails(bson!([{ "$match": {} }]), 72, "$match is not allowed to be used within an update");
    fails(bson!([{ "$foo": {} }]), 40324, "Unrecognized pipeline stage name: '$foo'");
    let altered = "After applying the update, the (immutable) field '_id' was found to have been altered to _id: 2";
    fails(bson!([{ "$set": { "_id": 2 } }]), 66, altered);
}

#[test]
fn upserts() {
    let insert = |filter: Document, update: Bson| {
        let filter = Matcher::parse_view((&filter).into(), &context())?;
        parse(&update, &[])?.insert_document(&filter, Bson::Int32(99), &NOW)
    };
    let check = |filter: Document, update: Bson, want: Document| {
        assert_eq!(insert(filter, update).unwrap().to_string(), want.to_string());
    };
    check(
        doc! { "a": 1, "b.c": 2, "d": { "$gt": 5 } },
        bson!({ "$set": { "z": 1 } }),
        doc! { "_id": 99, "a": 1, "b": { "c": 2 }, "z": 1 },
    );
    check(
        doc! { "$and": [{ "a": 1 }, { "b": { "$eq": 2 } }] },
        bson!({ "$setOnInsert": { "z": 1 } }),
        doc! { "_id": 99, "a": 1, "b": 2, "z": 1 },
    );
    check(doc! { "_id": 3, "a": 1 }, bson!({ "z": 1 }), doc! { "_id": 3, "z": 1 });
    check(doc! { "$or": [{ "a": 1 }] }, bson!({ "$inc": { "n": 1 } }), doc! { "_id": 99, "a": 1, "n": 1 });
    check(doc! { "a": 1 }, bson!({ "$set": { "_id": 5 } }), doc! { "_id": 5, "a": 1 });
    check(doc! { "a": 1 }, bson!([{ "$set": { "b": "$a" } }]), doc! { "_id": 99, "a": 1, "b": 1 });
    let fails = |filter: Document, update: Bson, code: i32| assert_eq!(insert(filter, update).unwrap_err().code, code);
    fails(doc! { "_id": 3 }, bson!({ "$set": { "_id": 4 } }), 66);
    fails(doc! { "_id": 3 }, bson!({ "_id": 4 }), 66);
    fails(doc! {}, bson!({ "_id": [1] }), 53);
}

fn any_update() -> impl Strategy<Value = Document> {
    let operator = prop_oneof![
        Just("$set"),
        Just("$unset"),
        Just("$inc"),
        Just("$mul"),
        Just("$min"),
        Just("$max"),
        Just("$push"),
        Just("$pull"),
        Just("$pullAll"),
        Just("$pop"),
        Just("$addToSet"),
        Just("$bit"),
        Just("$rename"),
        Just("$currentDate"),
        Just("$setOnInsert"),
    ];
    let path = prop_oneof![
        Just("a"),
        Just("a.b"),
        Just("a.0"),
        Just("b"),
        Just("b.a.c"),
        Just("a.$[]"),
        Just("c"),
        Just("a.1.b"),
        Just("b.$"),
        Just("10"),
        Just("b.9"),
    ];
    let operand = prop_oneof![any_bson(), Just(Bson::Int32(1)), Just(Bson::String("d".into()))];
    prop::collection::vec((operator, path, operand), 1..4).prop_map(|entries| {
        let mut update = Document::new();
        for (operator, path, operand) in entries {
            let fields = update.entry(operator.to_owned()).or_insert(Bson::Document(Document::new()));
            if let Bson::Document(fields) = fields {
                fields.insert(path, operand);
            }
        }
        update
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Playing the oplog form on the document before gives the document after.
    #[test]
    fn the_oplog_form_replays(update in any_update(), a in any_bson(), b in any_bson()) {
        let before = doc! { "_id": 1, "a": a, "b": b };
        let update = Bson::Document(update);
        let Ok(applied) = apply_with(&update, &[], &before, Some(0)) else { return Ok(()) };
        let mut replay = oplog_of(&applied);
        replay.remove("$v");
        let after = if replay.is_empty() {
            before
        } else {
            apply_with(&Bson::Document(replay), &[], &before, None).unwrap().document
        };
        prop_assert!(
            crate::value::equal((&sorted(&after)).into(), (&sorted(&applied.document)).into(), None),
            "{} {} {}", update, after, applied.document
        );
    }

    #[test]
    fn arbitrary_updates_never_panic(update in any_bson(), operand in any_bson(), document in any_bson()) {
        let document = doc! { "a": document };
        let pipeline = bson!([{ "$set": operand.clone() }, { "$replaceWith": operand.clone() }]);
        let filters = [doc! { "x": operand.clone() }];
        for update in [update, bson!({ "$set": operand.clone() }), bson!({ "$push": { "a": { "$each": operand } } }), pipeline] {
            let _ = apply_with(&update, &[], &document, Some(0));
            let _ = apply_with(&update, &filters, &document, None);
        }
    }
}

/// New fields may stand in another order after a replay.
fn sorted(document: &Document) -> Document {
    let mut fields: Vec<_> = document.iter().map(|(name, value)| (name.clone(), sorted_value(value))).collect();
    fields.sort_by(|left, right| left.0.cmp(&right.0));
    fields.into_iter().collect()
}

fn sorted_value(value: &Bson) -> Bson {
    match value {
        Bson::Document(document) => Bson::Document(sorted(document)),
        Bson::Array(values) => Bson::Array(values.iter().map(sorted_value).collect()),
        other => other.clone(),
    }
}

proptest! {
    /// What is not taken apart comes out as it does otherwise.
    #[test]
    fn a_replacement_by_its_bytes_is_the_same(
        values in prop::collection::vec(any_bson(), 0..5),
        id in prop::option::of(any_bson()),
        id_at in 0_usize..5,
        before in prop::option::of(any_bson()),
        is_same_id: bool,
    ) {
        let before = before.map(|value| doc! { "_id": value, "a": 1 });
        let id = if is_same_id { before.as_ref().and_then(|before| before.get("_id").cloned()) } else { id };
        let mut replacement: Document =
            values.into_iter().enumerate().map(|(at, value)| (format!("f{at}"), value)).collect();
        if let Some(id) = id {
            let mut fields: Vec<(String, Bson)> = replacement.into_iter().collect();
            fields.insert(id_at.min(fields.len()), ("_id".to_owned(), id));
            replacement = fields.into_iter().collect();
        }
        if let Some(made) = by_its_bytes(&replacement, before.as_ref()) {
            let generated = Bson::ObjectId(ObjectId::from_bytes([7; 12]));
            let applied = replace(before.as_ref().unwrap_or(&Document::new()), replacement, &NOW).unwrap().document;
            prop_assert_eq!(made.to_string(), storage::with_id_first(applied, generated).to_string());
        }
    }
}
