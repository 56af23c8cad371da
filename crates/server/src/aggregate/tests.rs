//! Tests of expressions, stages and pipelines.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, DateTime, Document, bson, doc};
use proptest::prelude::*;

use super::*;
use crate::error::{CommandError, Result};
use crate::query::{Collation, QueryContext};
use crate::update::ApplyContext;
use crate::value::key_string::tests::any_bson;
use crate::value::view::{to_document, to_raw};

/// 2020-01-02T03:04:05.006Z
const DATE_MS: i64 = 1_577_934_245_006;

struct Collections(BTreeMap<String, Vec<Document>>);

impl Environment for Collections {
    fn documents(&self, _: &str, collection: &str) -> Result<Documents> {
        let documents = self.0.get(collection).cloned().unwrap_or_default();
        Ok(Box::new(documents.into_iter().map(|document| to_raw(&document))))
    }

    fn source(&self, stage: &SourceStage) -> Result<Documents> {
        let document = doc! { "source": format!("{stage:?}").split(['(', ' ']).next().unwrap_or_default() };
        Ok(Box::new(std::iter::once(to_raw(&document))))
    }
}

fn context() -> PipelineContext {
    PipelineContext {
        query: QueryContext::new(DateTime::from_millis(DATE_MS)),
        database: "test".into(),
        collection: Some("q".into()),
        allow_disk_use: false,
    }
}

fn run_in(context: &PipelineContext, stages: &Bson, others: &[(&str, Vec<Document>)]) -> Result<Vec<Document>> {
    let Bson::Array(stages) = stages else { panic!("stages are an array") };
    let pipeline = Pipeline::parse(stages, context)?;
    let others = others.iter().map(|(name, documents)| ((*name).to_owned(), documents.clone())).collect();
    let environment: Arc<dyn Environment> = Arc::new(Collections(others));
    let input = environment.documents("test", "q")?;
    pipeline.run(input, environment)?.map(|document| to_document(&document?)).collect()
}

fn run(stages: Bson, documents: &[Document]) -> Result<Vec<Document>> {
    run_in(&context(), &stages, &[("q", documents.to_vec())])
}

fn check(stages: Bson, documents: &[Document], want: &[Document]) {
    let got = run(stages.clone(), documents).unwrap();
    assert_eq!(Bson::from(got).to_string(), Bson::from(want.to_vec()).to_string(), "{stages}");
}

fn fails(stages: Bson, code: i32, message: &str) {
    let error = run(stages.clone(), &[doc! { "_id": 1, "s": "apple" }]).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (code, message), "{stages}");
}

/// The sample documents of the recordings, as far as they are needed.
fn samples() -> Vec<Document> {
    vec![
        doc! { "_id": 1, "a": 1, "s": "apple", "arr": [1, 2, 3], "d": { "x": 1 } },
        doc! { "_id": 2, "a": 2.5, "s": "Banana", "arr": [], "n": null },
        doc! { "_id": 3, "a": 3_i64, "arr": [{ "k": 1, "v": 5 }, { "k": 2, "v": 7 }] },
        doc! { "_id": 4, "a": "4", "s": "apricot", "arr": [[1, 2], 3] },
        doc! { "_id": 5, "a": null, "d": { "x": 2, "y": 3 } },
        doc! { "_id": 6, "a": [1, 5], "s": "", "b": true },
    ]
}

mod expressions {
    use super::*;

    fn eval(expression: &Bson) -> Result<Bson, CommandError> {
        let stages = bson!([{ "$replaceWith": { "r": expression.clone() } }]);
        let document = doc! {
            "_id": 1, "a": 1, "s": "apple", "arr": [1, 2, 3], "d": { "x": 1 }, "t": DateTime::from_millis(DATE_MS),
            "objects": [{ "x": 1 }, { "x": 2 }, 5], "null": null,
        };
        let mut results = run(stages, &[document])?;
        Ok(results.pop().and_then(|mut document| document.remove("r")).unwrap_or(Bson::String("missing".into())))
    }

    fn is(expression: Bson, want: impl Into<Bson>) {
        let got = eval(&expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        assert_eq!(got.to_string(), want.into().to_string(), "{expression}");
    }

    fn fails(expression: Bson, code: i32, message: &str) {
        let error = eval(&expression).unwrap_err();
        let text = error.message.strip_prefix("Failed to optimize pipeline :: caused by :: ").unwrap_or(&error.message);
        assert_eq!((error.code, text), (code, message), "{expression}");
    }

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().unwrap())
    }

    #[test]
    fn paths_and_variables() {
        is(bson!("$d.x"), 1);
        is(bson!("$objects.x"), bson!([1, 2]));
        is(bson!("$a.x"), "missing");
        is(bson!("$$ROOT.a"), 1);
        is(bson!("$$CURRENT.a"), 1);
        is(bson!("$$NOW"), DateTime::from_millis(DATE_MS));
        is(bson!("$$REMOVE"), "missing");
        is(bson!({ "x": "$a", "y": "$nothing" }), bson!({ "x": 1 }));
        is(bson!(["$a", "$nothing"]), bson!([1, null]));
        is(bson!({ "$literal": "$a" }), "$a");
        fails(bson!("$"), 16872, "'$' by itself is not a valid FieldPath");
        fails(bson!("$a."), 40353, "FieldPath must not end with a '.'.");
        fails(bson!("$a..b"), 15998, "FieldPath field names may not be empty strings.");
        fails(bson!("$$x"), 17276, "Use of undefined variable: x");
        fails(bson!("$$"), 16869, "empty variable names are not allowed");
        fails(bson!({ "$foo": 1 }), 168, "Unrecognized expression '$foo'");
        fails(bson!({ "a.b": 1 }), 16412, "FieldPath field names may not contain '.'.");
        let two = "An object representing an expression must have exactly one field: { $add: 1, $b: 2 }";
        fails(bson!({ "$add": 1, "$b": 2 }), 15983, two);
    }

    #[test]
    fn arithmetic() {
        is(bson!({ "$add": [1, 2.5] }), 3.5);
        is(bson!({ "$add": [i32::MAX, 1] }), 2_147_483_648_i64);
        is(bson!({ "$add": ["$t", 1000] }), DateTime::from_millis(DATE_MS + 1000));
        is(bson!({ "$add": [] }), 0);
        is(bson!({ "$subtract": ["$a", 3] }), -2);
        is(bson!({ "$subtract": ["$t", "$t"] }), 0_i64);
        is(bson!({ "$multiply": [2_i64, 3] }), 6_i64);
        is(bson!({ "$divide": [7, 2] }), 3.5);
        is(bson!({ "$mod": [-7, 3] }), -1);
        is(bson!({ "$mod": [7.5, 2] }), 1.5);
        is(bson!({ "$abs": -3 }), 3);
        is(bson!({ "$ceil": 1.2 }), 2.0);
        is(bson!({ "$floor": -1.2 }), -2.0);
        is(bson!({ "$pow": [2, 10] }), 1024);
        is(bson!({ "$pow": [2, 40] }), 1_099_511_627_776_i64);
        is(bson!({ "$pow": [2, -1] }), 0.5);
        is(bson!({ "$sqrt": 16 }), 4.0);
        is(bson!({ "$exp": 0 }), 1.0);
        is(bson!({ "$log10": 100 }), 2.0);
        is(bson!({ "$log": [8, 2] }), 8_f64.ln() / 2_f64.ln());
        is(bson!({ "$round": [2.5] }), 2.0);
        is(bson!({ "$round": [1234.567, 2] }), 1234.57);
        is(bson!({ "$round": [1250, -2] }), 1200);
        is(bson!({ "$trunc": [-7.89, 1] }), -7.8);
        is(bson!({ "$add": [decimal("1.1"), 1] }), decimal("2.1"));
        is(bson!({ "$divide": [decimal("1"), 3] }), decimal("0.3333333333333333333333333333333333"));
        is(bson!({ "$add": ["$null", 1] }), Bson::Null);
        fails(bson!({ "$add": ["$s"] }), 16554, "$add only supports numeric or date types, not string");
        fails(bson!({ "$subtract": ["$s", 1] }), 16556, "cant $subtract a int from a string");
        fails(bson!({ "$divide": [1, 0] }), 16608, "can't $divide by zero");
        fails(bson!({ "$mod": [1, 0] }), 16610, "can't $mod by zero");
        fails(bson!({ "$abs": "$s" }), 28765, "$abs only supports numeric types, not string");
        fails(bson!({ "$ln": 0 }), 28766, "$ln's argument must be a positive number, but is 0");
        fails(bson!({ "$sqrt": -1 }), 28714, "$sqrt's argument must be greater than or equal to 0");
        fails(bson!({ "$subtract": [1] }), 16020, "Expression $subtract takes exactly 2 arguments. 1 were passed in.");
        fails(
            bson!({ "$round": [1, 200] }),
            51083,
            "cannot apply $round with precision value 200 value must be in [-20, 100]",
        );
    }

    #[test]
    fn trigonometry() {
        is(bson!({ "$sin": 0 }), 0.0);
        is(bson!({ "$atan2": [0, 1] }), 0.0);
        is(bson!({ "$degreesToRadians": 180 }), std::f64::consts::PI);
        fails(bson!({ "$acos": 2 }), 50989, "cannot apply $acos to 2, value must in [-1,1]");
        fails(bson!({ "$cos": f64::INFINITY }), 50989, "cannot apply $cos to inf, value must in (-inf,inf)");
    }

    #[test]
    fn comparison_and_logic() {
        is(bson!({ "$cmp": ["$a", "x"] }), -1);
        is(bson!({ "$eq": [1, 1.0] }), true);
        is(bson!({ "$gt": ["$nothing", Bson::Null] }), false);
        is(bson!({ "$lt": ["$nothing", Bson::Null] }), true);
        is(bson!({ "$and": [1, "x", Bson::Null] }), false);
        is(bson!({ "$or": [0, "$a"] }), true);
        is(bson!({ "$and": [] }), true);
        is(bson!({ "$not": [0] }), true);
        is(bson!({ "$cond": [{ "$gt": ["$a", 0] }, "y", "n"] }), "y");
        is(bson!({ "$cond": { "if": false, "then": 1, "else": 2 } }), 2);
        is(bson!({ "$ifNull": ["$nothing", 7] }), 7);
        is(bson!({ "$switch": { "branches": [{ "case": false, "then": 1 }], "default": 2 } }), 2);
        is(bson!({ "$or": [true, { "$divide": ["$a", 0] }] }), true);
        fails(bson!({ "$cond": [1] }), 16020, "Expression $cond takes exactly 3 arguments. 1 were passed in.");
        fails(bson!({ "$cond": { "if": 1, "then": 2 } }), 17082, "Missing 'else' parameter to $cond");
        fails(bson!({ "$switch": { "branches": [] } }), 40068, "$switch requires at least one branch.");
        let none = "$switch could not find a matching branch for an input, and no default was specified.";
        fails(bson!({ "$switch": { "branches": [{ "case": false, "then": 1 }] } }), 40066, none);
    }

    #[test]
    fn arrays() {
        is(bson!({ "$arrayElemAt": ["$arr", -1] }), 3);
        is(bson!({ "$arrayElemAt": ["$arr", 9] }), "missing");
        is(bson!({ "$first": "$arr" }), 1);
        is(bson!({ "$last": "$arr" }), 3);
        is(bson!({ "$slice": ["$arr", 2] }), bson!([1, 2]));
        is(bson!({ "$slice": ["$arr", -2] }), bson!([2, 3]));
        is(bson!({ "$slice": ["$arr", 1, 1] }), bson!([2]));
        is(bson!({ "$concatArrays": ["$arr", [9]] }), bson!([1, 2, 3, 9]));
        is(bson!({ "$filter": { "input": "$arr", "as": "x", "cond": { "$gt": ["$$x", 1] } } }), bson!([2, 3]));
        is(bson!({ "$map": { "input": "$arr", "as": "x", "in": { "$multiply": ["$$x", 2] } } }), bson!([2, 4, 6]));
        is(
            bson!({ "$map": { "input": "$arr", "in": { "$map": { "input": "$arr", "in": "$$this" } } } }),
            bson!([[1, 2, 3], [1, 2, 3], [1, 2, 3]]),
        );
        is(bson!({ "$reduce": { "input": "$arr", "initialValue": 0, "in": { "$add": ["$$value", "$$this"] } } }), 6);
        is(bson!({ "$let": { "vars": { "v": 5 }, "in": { "$add": ["$$v", 1] } } }), 6);
        is(bson!({ "$range": [0, 5, 2] }), bson!([0, 2, 4]));
        is(bson!({ "$range": [3, 0, -1] }), bson!([3, 2, 1]));
        is(bson!({ "$reverseArray": "$arr" }), bson!([3, 2, 1]));
        is(bson!({ "$in": [2, "$arr"] }), true);
        is(bson!({ "$indexOfArray": ["$arr", 3] }), 2);
        is(bson!({ "$indexOfArray": ["$arr", 1, 1] }), -1);
        is(bson!({ "$isArray": "$arr" }), true);
        is(bson!({ "$size": "$arr" }), 3);
        is(bson!({ "$zip": { "inputs": [[1, 2], ["a", "b"]] } }), bson!([[1, "a"], [2, "b"]]));
        is(
            bson!({ "$zip": { "inputs": [[1, 2], ["a"]], "useLongestLength": true, "defaults": [0, "z"] } }),
            bson!([[1, "a"], [2, "z"]]),
        );
        is(bson!({ "$arrayToObject": [[["k", 1]]] }), bson!({ "k": 1 }));
        is(bson!({ "$objectToArray": "$d" }), bson!([{ "k": "x", "v": 1 }]));
        is(bson!({ "$mergeObjects": ["$d", { "y": 2 }] }), bson!({ "x": 1, "y": 2 }));
        is(bson!({ "$sum": "$arr" }), 6);
        is(bson!({ "$avg": [1, 2] }), 1.5);
        is(bson!({ "$max": ["$arr"] }), 3);
        is(bson!({ "$stdDevPop": [1, 3] }), 1.0);
        is(bson!({ "$sortArray": { "input": "$objects", "sortBy": { "x": -1 } } }), bson!([{ "x": 2 }, { "x": 1 }, 5]));
        is(bson!({ "$firstN": { "n": 2, "input": "$arr" } }), bson!([1, 2]));
        fails(bson!({ "$size": "$s" }), 17124, "The argument to $size must be an array, but was of type: string");
        let first = "$arrayElemAt's first argument must be an array, but is string";
        fails(bson!({ "$arrayElemAt": ["$s", 0] }), 28689, first);
        fails(bson!({ "$concatArrays": ["$s"] }), 28664, "$concatArrays only supports arrays, not string");
        fails(bson!({ "$map": { "input": "$s", "in": 1 } }), 16883, "input to $map must be an array not string");
        fails(bson!({ "$filter": { "input": "$arr" } }), 28650, "Missing 'cond' parameter to $filter");
        fails(bson!({ "$range": [0, 1, 0] }), 34449, "$range requires a non-zero step value");
        fails(bson!({ "$in": [1, "$s"] }), 40081, "$in requires an array as a second argument, found: string");
        let upper = "'X' starts with an invalid character for a user variable name";
        fails(bson!({ "$let": { "vars": { "X": 1 }, "in": 1 } }), 16867, upper);
    }

    #[test]
    fn sets() {
        is(bson!({ "$setUnion": [[3, 1], [1.0, 2]] }), bson!([1, 2, 3]));
        is(bson!({ "$setIntersection": [[3, 1], [1.0, 2]] }), bson!([1]));
        is(bson!({ "$setDifference": [[3, 1, 3], [1]] }), bson!([3]));
        is(bson!({ "$setEquals": [[1, 2], [2, 1, 1]] }), true);
        is(bson!({ "$setIsSubset": [[1], [1, 2]] }), true);
        is(bson!({ "$anyElementTrue": [[0, false, 1]] }), true);
        is(bson!({ "$allElementsTrue": [[1, Bson::Null]] }), false);
        let text = "All operands of $setUnion must be arrays. One argument is of type: string";
        fails(bson!({ "$setUnion": ["$s"] }), 17043, text);
    }

    #[test]
    fn strings() {
        is(bson!({ "$concat": ["$s", "!"] }), "apple!");
        is(bson!({ "$toUpper": "$s" }), "APPLE");
        is(bson!({ "$toLower": 5 }), "5");
        is(bson!({ "$substrCP": ["$s", 1, 3] }), "ppl");
        is(bson!({ "$substrBytes": ["héé", 0, 3] }), "hé");
        is(bson!({ "$strLenCP": "héé" }), 3);
        is(bson!({ "$strLenBytes": "héé" }), 5);
        is(bson!({ "$indexOfCP": ["héé", "é", 2] }), 2);
        is(bson!({ "$indexOfBytes": ["abcb", "b", 2] }), 3);
        is(bson!({ "$split": ["a-b-c", "-"] }), bson!(["a", "b", "c"]));
        is(bson!({ "$trim": { "input": "  x " } }), "x");
        is(bson!({ "$ltrim": { "input": "xxyx", "chars": "x" } }), "yx");
        is(bson!({ "$strcasecmp": ["A", "a"] }), 0);
        is(bson!({ "$replaceAll": { "input": "$s", "find": "p", "replacement": "q" } }), "aqqle");
        is(bson!({ "$replaceOne": { "input": "$s", "find": "p", "replacement": "q" } }), "aqple");
        is(bson!({ "$regexMatch": { "input": "$s", "regex": "ppl" } }), true);
        is(
            bson!({ "$regexFind": { "input": "$s", "regex": "(p)(x)?" } }),
            bson!({ "match": "p", "idx": 1, "captures": ["p", null] }),
        );
        is(bson!({ "$size": { "$regexFindAll": { "input": "$s", "regex": "" } } }), 6);
        fails(bson!({ "$concat": [1] }), 16702, "$concat only supports strings, not int");
        fails(
            bson!({ "$regexMatch": { "input": "$s", "regex": "(" } }),
            51111,
            "Invalid Regex in $regexMatch: missing )",
        );
        fails(bson!({ "$strLenCP": 1 }), 34471, "$strLenCP requires a string argument, found: int");
        let continuation = "$substrBytes:  Invalid range, starting index is a UTF-8 continuation byte.";
        fails(bson!({ "$substrBytes": ["é", 1, 1] }), 28656, continuation);
    }

    #[test]
    fn conversions() {
        is(bson!({ "$type": "$a" }), "int");
        is(bson!({ "$type": "$nothing" }), "missing");
        is(bson!({ "$isNumber": "$a" }), true);
        is(bson!({ "$toString": "$a" }), "1");
        is(bson!({ "$toString": 2.5 }), "2.5");
        is(bson!({ "$toString": "$t" }), "2020-01-02T03:04:05.006Z");
        is(bson!({ "$toInt": "12" }), 12);
        is(bson!({ "$toInt": 1.9 }), 1);
        is(bson!({ "$toLong": "$t" }), DATE_MS);
        is(bson!({ "$toDouble": "1.5" }), 1.5);
        is(bson!({ "$toDecimal": 2.5 }), decimal("2.50000000000000"));
        is(bson!({ "$toBool": "false" }), true);
        is(bson!({ "$toDate": "2020-01-02T03:04:05.006Z" }), DateTime::from_millis(DATE_MS));
        is(bson!({ "$convert": { "input": "x", "to": "int", "onError": "e" } }), "e");
        is(bson!({ "$convert": { "input": Bson::Null, "to": "int", "onNull": "n" } }), "n");
        fails(
            bson!({ "$toInt": "$arr" }),
            241,
            "Unsupported conversion from array to int in $convert with no onError value",
        );
        let overflow = "Conversion would overflow target type in $convert with no onError value: 1e+10";
        fails(bson!({ "$toInt": 1e10 }), 241, overflow);
        let unparsed = "Failed to parse number 'x' in $convert with no onError value: Did not consume whole string.";
        fails(bson!({ "$toInt": "x" }), 241, unparsed);
        fails(bson!({ "$convert": { "input": 1, "to": "foo" } }), 2, "Unknown type name: foo");
        let error = eval(&bson!({ "$toDate": "nope" })).unwrap_err();
        let nope = "Failed to optimize pipeline :: caused by :: Error parsing date string 'nope'; 0: passing a time zone identifier as part of the string is not allowed 'n'";
        assert_eq!((error.code, error.message.as_str()), (241, nope));
    }

    #[test]
    fn dates() {
        is(bson!({ "$year": "$t" }), 2020);
        is(bson!({ "$month": ["$t"] }), 1);
        is(bson!({ "$hour": { "date": "$t", "timezone": "America/New_York" } }), 22);
        is(bson!({ "$dayOfWeek": "$t" }), 5);
        is(bson!({ "$isoWeek": "$t" }), 1);
        is(bson!({ "$millisecond": "$t" }), 6);
        is(bson!({ "$dateToString": { "date": "$t" } }), "2020-01-02T03:04:05.006Z");
        is(
            bson!({ "$dateToString": { "date": "$t", "format": "%d/%m/%Y %j %u %V %z", "timezone": "+02" } }),
            "02/01/2020 002 4 01 +0200",
        );
        is(bson!({ "$dateFromString": { "dateString": "2020-01-02T03:04:05.006Z" } }), DateTime::from_millis(DATE_MS));
        is(
            bson!({ "$dateFromParts": { "year": 2020, "month": 14, "day": 1 } }),
            DateTime::from_millis(1_612_137_600_000),
        );
        is(
            bson!({ "$dateFromParts": { "isoWeekYear": 2020, "isoWeek": 1, "isoDayOfWeek": 4 } }),
            DateTime::from_millis(1_577_923_200_000),
        );
        is(
            bson!({ "$dateToParts": { "date": "$t" } }),
            bson!({ "year": 2020, "month": 1, "day": 2, "hour": 3, "minute": 4, "second": 5, "millisecond": 6 }),
        );
        is(
            bson!({ "$dateAdd": { "startDate": "$t", "unit": "month", "amount": 1 } }),
            DateTime::from_millis(DATE_MS + 31 * 86_400_000),
        );
        is(
            bson!({ "$dateDiff": { "startDate": "$t", "endDate": { "$add": ["$t", 86_400_000] }, "unit": "day" } }),
            1_i64,
        );
        is(bson!({ "$dateTrunc": { "date": "$t", "unit": "year" } }), DateTime::from_millis(1_577_836_800_000));
        is(bson!({ "$year": "$null" }), Bson::Null);
        fails(bson!({ "$year": "$s" }), 16006, "can't convert from BSON type string to Date");
        let zone = "unrecognized time zone identifier: \"Nowhere\"";
        fails(bson!({ "$hour": { "date": "$t", "timezone": "Nowhere" } }), 40485, zone);
        fails(bson!({ "$dateToString": 1 }), 18629, "$dateToString only supports an object as its argument");
    }

    #[test]
    fn javascript_and_metadata() {
        let engine = "Cannot run server-side javascript without the javascript engine enabled";
        fails(bson!({ "$function": { "body": "x", "args": [], "lang": "js" } }), 31264, engine);
        fails(bson!({ "$meta": "textScore" }), 40218, "query requires text score metadata, but it is not available");
        is(bson!({ "$bsonSize": "$d" }), 12);
        is(bson!({ "$binarySize": "abc" }), 3);
        is(bson!({ "$lt": [{ "$rand": {} }, 1] }), true);
    }

    #[test]
    fn deep_nesting_is_handled_or_refused() {
        let wraps: [fn(Bson) -> Bson; 3] = [
            |inner| bson!({ "$add": [inner, 1] }),
            |inner| bson!({ "x": inner }),
            |inner| bson!({ "$let": { "vars": { "v": inner }, "in": "$$v" } }),
        ];
        for (wrap, depth) in wraps.into_iter().zip([90, 180, 60]) {
            let _ = eval(&(0..depth).fold(bson!(1), |inner, _| wrap(inner)));
        }
        let deep = (0..90).fold(bson!(1), |inner, _| bson!({ "$add": [inner, 1] }));
        is(deep, 91);
    }

    #[test]
    fn fields_by_name_of_later_releases() {
        is(bson!({ "$getField": "a" }), 1);
        is(bson!({ "$setField": { "field": "a.b", "input": "$d", "value": 2 } }), bson!({ "x": 1, "a.b": 2 }));
        is(bson!({ "$unsetField": { "field": "x", "input": "$d" } }), bson!({}));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn arbitrary_operands_never_panic(a in any_bson(), b in any_bson(), c in any_bson()) {
            for operator in super::expression::table::names() {
                let _ = eval(&bson!({ operator: a.clone() }));
                let _ = eval(&bson!({ operator: [{ "$literal": a.clone() }, { "$literal": b.clone() }] }));
                let _ = eval(&bson!({ operator: ["$arr", { "$literal": b.clone() }, { "$literal": c.clone() }] }));
                let _ = eval(&bson!({ operator: { "input": { "$literal": a.clone() }, "date": "$t", "to": b.clone(),
                    "regex": "$s", "cond": true, "in": "$$this", "initialValue": 1 } }));
            }
        }
    }
}

mod stages {
    use super::*;

    #[test]
    fn filters_and_fields() {
        check(
            bson!([{ "$match": { "_id": { "$lt": 4 } } }, { "$project": { "y": { "$add": ["$_id", 10] }, "s": 1 } }]),
            &samples(),
            &[
                doc! { "_id": 1, "s": "apple", "y": 11 },
                doc! { "_id": 2, "s": "Banana", "y": 12 },
                doc! { "_id": 3, "y": 13 },
            ],
        );
        let one = [doc! { "_id": 1, "a": { "b": 1 }, "c": [1, { "d": 2 }] }];
        check(
            bson!([{ "$addFields": { "a.z": 5, "c.e": "$_id", "n": 1 } }]),
            &one,
            &[doc! { "_id": 1, "a": { "b": 1, "z": 5 }, "c": [{ "e": 1 }, { "d": 2, "e": 1 }], "n": 1 }],
        );
        check(bson!([{ "$set": { "a": "$$REMOVE" } }, { "$unset": "c" }]), &one, &[doc! { "_id": 1 }]);
        check(
            bson!([{ "$replaceRoot": { "newRoot": { "$ifNull": ["$d", { "none": true }] } } }, { "$limit": 2 }]),
            &samples(),
            &[doc! { "x": 1 }, doc! { "none": true }],
        );
        check(
            bson!([{ "$skip": 4 }, { "$limit": 1 }, { "$project": { "d.y": 1 } }]),
            &samples(),
            &[doc! { "_id": 5, "d": { "y": 3 } }],
        );
        fails(bson!([{ "$match": 1 }]), 15959, "the match filter must be an expression in an object");
        let empty = "Invalid $project :: caused by :: projection specification must have at least one field";
        fails(bson!([{ "$project": {} }]), 51272, empty);
        let mixed = "Invalid $project :: caused by :: Cannot do exclusion on field b in inclusion projection";
        fails(bson!([{ "$project": { "a": 1, "b": 0 } }]), 31254, mixed);
        fails(bson!([{ "$addFields": 1 }]), 40272, "$addFields specification stage must be an object, got int");
        let conflict = "Invalid $set :: caused by :: specification contains two conflicting paths. Cannot specify both";
        for (spec, found) in [
            (bson!({ "a": { "b": 1 }, "a.b": 2 }), "'a.b' and 'a.b': { a: { b: 1 }, a.b: 2 }"),
            (bson!({ "a": 1, "ab": 1, "a.b": 2 }), "'a.b' and 'a': { a: 1, ab: 1, a.b: 2 }"),
            (bson!({ "a.c": 1, "a": { "$abs": 1 } }), "'a' and 'a.c': { a.c: 1, a: { $abs: 1 } }"),
        ] {
            fails(bson!([{ "$set": spec }]), 40176, &format!("{conflict} {found}"));
        }
        let dotted =
            "Invalid $addFields :: caused by :: cannot use dotted field name 'b.c' in a sub object: { a: { b.c: 1 } }";
        fails(bson!([{ "$addFields": { "a": { "b.c": 1 } } }]), 40183, dotted);
        let folded = "Failed to optimize pipeline :: caused by :: Failed to optimize expression :: caused by :: can't $divide by zero";
        fails(bson!([{ "$match": { "$expr": { "$divide": [1, 0] } } }]), 16608, folded);
        fails(bson!([{ "$skip": -1 }]), 15956, "Argument to $skip cannot be negative");
        fails(bson!([{ "$limit": 0 }]), 15958, "the limit must be positive");
        let root = "'newRoot' expression must evaluate to an object, but resulting value was: \"apple\". Type of resulting value: 'string'. Input document: {s: \"apple\"}";
        fails(bson!([{ "$replaceRoot": { "newRoot": "$s" } }]), 40228, root);
    }

    #[test]
    fn unwind() {
        check(
            bson!([{ "$unwind": "$arr" }, { "$project": { "arr": 1 } }, { "$limit": 4 }]),
            &samples(),
            &[
                doc! { "_id": 1, "arr": 1 },
                doc! { "_id": 1, "arr": 2 },
                doc! { "_id": 1, "arr": 3 },
                doc! { "_id": 3, "arr": { "k": 1, "v": 5 } },
            ],
        );
        let options = bson!({ "path": "$arr", "preserveNullAndEmptyArrays": true, "includeArrayIndex": "i" });
        check(
            bson!([{ "$match": { "_id": { "$in": [2, 4, 5] } } }, { "$unwind": options }, { "$project": { "arr": 1, "i": 1 } }]),
            &samples(),
            &[
                doc! { "_id": 2, "i": null },
                doc! { "_id": 4, "arr": [1, 2], "i": 0_i64 },
                doc! { "_id": 4, "arr": 3, "i": 1_i64 },
                doc! { "_id": 5, "i": null },
            ],
        );
        fails(bson!([{ "$unwind": "arr" }]), 28818, "path option to $unwind stage should be prefixed with a '$': arr");
    }

    #[test]
    fn group() {
        check(
            bson!([{ "$group": { "_id": "$s", "n": { "$sum": 1 } } }, { "$sort": { "_id": 1 } }]),
            &samples(),
            &[
                doc! { "_id": null, "n": 2 },
                doc! { "_id": "", "n": 1 },
                doc! { "_id": "Banana", "n": 1 },
                doc! { "_id": "apple", "n": 1 },
                doc! { "_id": "apricot", "n": 1 },
            ],
        );
        check(
            bson!([{ "$group": { "_id": null, "sum": { "$sum": "$a" }, "avg": { "$avg": "$_id" }, "min": { "$min": "$a" },
                "max": { "$max": "$a" }, "first": { "$first": "$s" }, "last": { "$last": "$s" }, "push": { "$push": "$d.x" },
                "set": { "$addToSet": "$b" }, "merge": { "$mergeObjects": "$d" }, "dev": { "$stdDevSamp": "$_id" } } }]),
            &samples(),
            &[doc! { "_id": null, "sum": 6.5, "avg": 3.5, "min": 1, "max": [1, 5], "first": "apple", "last": "",
            "push": [1, 2], "set": [true], "merge": { "x": 2, "y": 3 }, "dev": 3.5_f64.sqrt() }],
        );
        check(
            bson!([{ "$group": { "_id": { "k": "$d.x" }, "n": { "$sum": 1 } } }, { "$sort": { "_id": 1 } }]),
            &samples(),
            &[
                doc! { "_id": { "k": null }, "n": 4 },
                doc! { "_id": { "k": 1 }, "n": 1 },
                doc! { "_id": { "k": 2 }, "n": 1 },
            ],
        );
        check(bson!([{ "$group": { "_id": { "$type": "$arr" } } }, { "$count": "n" }]), &samples(), &[doc! { "n": 2 }]);
        check(bson!([{ "$count": "n" }]), &[], &[]);
        fails(bson!([{ "$group": { "n": { "$sum": 1 } } }]), 15955, "a group specification must include an _id");
        fails(bson!([{ "$group": { "_id": 1, "n": { "$foo": 1 } } }]), 15952, "unknown group operator '$foo'");
        for field in [bson!(1), bson!({})] {
            let text = "The field 'n' must be an accumulator object";
            fails(bson!([{ "$group": { "_id": 1, "n": field } }]), 40234, text);
        }
        fails(
            bson!([{ "$group": { "_id": 1, "n": { "$sum": [1, 2] } } }]),
            40237,
            "The $sum accumulator is a unary operator",
        );
        fails(bson!([{ "$count": "" }]), 40157, "the count field must be a non-empty string");
        fails(bson!([{ "$count": "a.b" }]), 40160, "the count field cannot contain '.'");
    }

    #[test]
    fn sort() {
        let ids = |stages: Bson| -> Vec<i32> {
            run(stages, &samples()).unwrap().iter().map(|document| document.get_i32("_id").unwrap()).collect()
        };
        assert_eq!(ids(bson!([{ "$sort": { "_id": -1 } }])), [6, 5, 4, 3, 2, 1]);
        assert_eq!(ids(bson!([{ "$sort": { "s": 1, "_id": -1 } }, { "$limit": 3 }])), [5, 3, 6]);
        assert_eq!(ids(bson!([{ "$sort": { "s": 1, "_id": -1 } }])), [5, 3, 6, 2, 1, 4]);
        fails(bson!([{ "$sort": {} }]), 15976, "$sort stage must have at least one sort key");
        fails(bson!([{ "$sort": 1 }]), 15973, "the $sort key specification must be an object");
        let large = vec![doc! { "x": "y".repeat(1 << 20) }; 101];
        let error = run(bson!([{ "$sort": { "z": 1 } }]), &large).unwrap_err();
        let text = "Sort exceeded memory limit of 104857600 bytes, but did not opt in to external sorting.";
        assert_eq!((error.code, error.message.as_str()), (292, text));
        assert_eq!(run(bson!([{ "$sort": { "z": 1 } }, { "$limit": 2 }]), &large).unwrap().len(), 2);
        let relaxed = PipelineContext { allow_disk_use: true, ..context() };
        assert_eq!(run_in(&relaxed, &bson!([{ "$sort": { "z": 1 } }]), &[("q", large)]).unwrap().len(), 101);
    }

    #[test]
    fn buckets() {
        check(
            bson!([{ "$bucket": { "groupBy": "$_id", "boundaries": [0, 3, 6], "default": "other" } }]),
            &samples(),
            &[doc! { "_id": 0, "count": 2 }, doc! { "_id": 3, "count": 3 }, doc! { "_id": "other", "count": 1 }],
        );
        check(
            bson!([{ "$bucketAuto": { "groupBy": "$_id", "buckets": 4 } }]),
            &samples(),
            &[
                doc! { "_id": { "min": 1, "max": 3 }, "count": 2 },
                doc! { "_id": { "min": 3, "max": 5 }, "count": 2 },
                doc! { "_id": { "min": 5, "max": 6 }, "count": 2 },
            ],
        );
        check(
            bson!([{ "$bucketAuto": { "groupBy": "$_id", "buckets": 2, "granularity": "POWERSOF2" } }]),
            &samples(),
            &[
                doc! { "_id": { "min": 0.5, "max": 4.0 }, "count": 3 },
                doc! { "_id": { "min": 4.0, "max": 8.0 }, "count": 3 },
            ],
        );
        check(
            bson!([{ "$sortByCount": { "$type": "$s" } }]),
            &samples(),
            &[doc! { "_id": "string", "count": 4 }, doc! { "_id": "missing", "count": 2 }],
        );
        let few = "The $bucket 'boundaries' field must have at least 2 values, but found 1 value(s).";
        fails(bson!([{ "$bucket": { "groupBy": "$_id", "boundaries": [0] } }]), 40192, few);
        let order = "The 'boundaries' option to $bucket must be sorted, but elements 0 and 1 are not in ascending order (3 is not less than 1).";
        fails(bson!([{ "$bucket": { "groupBy": "$_id", "boundaries": [3, 1] } }]), 40194, order);
    }

    #[test]
    fn facets() {
        check(
            bson!([{ "$facet": { "a": [{ "$count": "n" }], "b": [{ "$match": { "_id": 1 } }, { "$project": { "_id": 1 } }] } }]),
            &samples(),
            &[doc! { "a": [{ "n": 6 }], "b": [{ "_id": 1 }] }],
        );
        let out = "$out is not allowed to be used within a $facet stage";
        fails(bson!([{ "$facet": { "a": [{ "$out": "x" }] } }]), 40600, out);
        fails(bson!([{ "$facet": {} }]), 40169, "the $facet specification must be a non-empty object");
        fails(bson!([{ "$facet": { "a": 1 } }]), 40170, "arguments to $facet must be arrays, a is type int");
    }

    #[test]
    fn lookups() {
        let orders = || {
            vec![
                doc! { "_id": 1, "k": 1 },
                doc! { "_id": 2, "k": [2, 3] },
                doc! { "_id": 3 },
                doc! { "_id": 4, "k": "x" },
            ]
        };
        let stock = || {
            vec![
                doc! { "_id": 10, "of": 1 },
                doc! { "_id": 11, "of": [3, 1.0] },
                doc! { "_id": 12, "of": null },
                doc! { "_id": 13 },
            ]
        };
        let join = |stages: Bson| run_in(&context(), &stages, &[("q", orders()), ("stock", stock())]).unwrap();
        let ids = |documents: &[Document]| {
            let each = |document: &Document| {
                let partners = document.get_array("r").unwrap().iter();
                Bson::Array(
                    partners.map(|partner| partner.as_document().unwrap().get("_id").unwrap().clone()).collect(),
                )
            };
            Bson::Array(documents.iter().map(each).collect())
        };
        let plain =
            join(bson!([{ "$lookup": { "from": "stock", "localField": "k", "foreignField": "of", "as": "r" } }]));
        assert_eq!(ids(&plain), bson!([[10, 11], [11], [12, 13], []]));
        let piped = join(bson!([{ "$lookup": { "from": "stock", "let": { "k": "$k" }, "as": "r",
            "pipeline": [{ "$match": { "$expr": { "$eq": ["$of", "$$k"] } } }] } }]));
        assert_eq!(ids(&piped), bson!([[10], [], [13], []]));
        let united = join(
            bson!([{ "$unionWith": { "coll": "stock", "pipeline": [{ "$match": { "_id": 13 } }] } }, { "$count": "n" }]),
        );
        assert_eq!(united, [doc! { "n": 5 }]);
        let tree = vec![doc! { "_id": "a", "boss": "b" }, doc! { "_id": "b", "boss": "c" }, doc! { "_id": "c" }];
        let graph = bson!([{ "$graphLookup": { "from": "q", "startWith": "$boss", "connectFromField": "boss",
            "connectToField": "_id", "as": "r", "depthField": "depth" } }, { "$match": { "_id": "a" } }]);
        let want = doc! { "_id": "a", "boss": "b", "r": [{ "_id": "b", "boss": "c", "depth": 0_i64 }, { "_id": "c", "depth": 1_i64 }] };
        check(graph, &tree, &[want]);
        let both = "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified";
        fails(bson!([{ "$lookup": { "from": "x", "as": "y" } }]), 9, both);
        fails(bson!([{ "$lookup": { "from": "x", "foo": 1 } }]), 9, "unknown argument to $lookup: foo");
    }

    #[test]
    fn redact_and_sample() {
        let documents =
            [doc! { "_id": 1, "level": 1, "in": { "level": 5, "x": 1 }, "list": [{ "level": 1 }, { "level": 9 }] }];
        let keep = bson!({ "$cond": [{ "$gt": ["$level", 3] }, "$$PRUNE", "$$DESCEND"] });
        check(bson!([{ "$redact": keep }]), &documents, &[doc! { "_id": 1, "level": 1, "list": [{ "level": 1 }] }]);
        let wrong = "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and $$PRUNE, but returned 1";
        fails(bson!([{ "$redact": 1 }]), 17053, wrong);
        assert_eq!(run(bson!([{ "$sample": { "size": 3 } }]), &samples()).unwrap().len(), 3);
        assert_eq!(run(bson!([{ "$sample": { "size": 0 } }]), &samples()).unwrap().len(), 0);
        assert_eq!(run(bson!([{ "$sample": { "size": 99 } }]), &samples()).unwrap().len(), 6);
    }

    #[test]
    fn windows() {
        let spec = bson!({ "sortBy": { "_id": 1 }, "partitionBy": { "$mod": ["$_id", 2] }, "output": {
            "running": { "$sum": "$_id", "window": { "documents": ["unbounded", "current"] } },
            "near": { "$push": "$_id", "window": { "range": [-2, 0] } },
            "rank": { "$rank": {} },
            "before": { "$shift": { "output": "$_id", "by": -1 } },
        } });
        check(
            bson!([{ "$project": { "_id": 1 } }, { "$setWindowFields": spec }, { "$match": { "_id": { "$gt": 3 } } }]),
            &samples(),
            &[
                doc! { "_id": 4, "running": 6, "near": [2, 4], "rank": 2, "before": 2 },
                doc! { "_id": 6, "running": 12, "near": [4, 6], "rank": 3, "before": 4 },
                doc! { "_id": 5, "running": 9, "near": [3, 5], "rank": 3, "before": 3 },
            ],
        );
    }

    /// The field `r` of each document after `$setWindowFields` with one output.
    fn window(documents: &[Document], sort: Bson, function: Bson) -> std::result::Result<Vec<Bson>, (i32, String)> {
        let spec = bson!({ "sortBy": sort, "output": { "r": function } });
        let documents =
            run(bson!([{ "$setWindowFields": spec }]), documents).map_err(|error| (error.code, error.message))?;
        Ok(documents.into_iter().map(|mut document| document.remove("r").unwrap_or(bson!("missing"))).collect())
    }

    fn hours(values: &[(i64, Bson)]) -> Vec<Document> {
        let at = |hour: i64| DateTime::from_millis(DATE_MS + hour * 3_600_000);
        values.iter().map(|(hour, value)| doc! { "t": at(*hour), "v": value.clone() }).collect()
    }

    fn numbers(values: &[(i32, Bson)]) -> Vec<Document> {
        values.iter().map(|(x, value)| doc! { "t": *x, "v": value.clone() }).collect()
    }

    #[test]
    fn windows_of_numbers() {
        let documents = numbers(&[(1, bson!(10)), (2, bson!(14)), (4, bson!(20)), (5, bson!(null))]);
        let by = || bson!({ "t": 1 });
        let two = || bson!({ "documents": [-1, 0] });
        let decimal = |text: &str| Bson::Decimal128(text.parse().expect("a decimal"));
        for (function, want) in [
            (bson!({ "$derivative": { "input": "$v" }, "window": two() }), bson!([null, 4.0, 3.0, null])),
            (bson!({ "$integral": { "input": "$t" }, "window": two() }), bson!([0.0, 1.5, 6.0, 4.5])),
            (bson!({ "$integral": { "input": "$t" } }), bson!([12.0, 12.0, 12.0, 12.0])),
            (bson!({ "$expMovingAvg": { "input": "$v", "N": 3 } }), bson!([10.0, 12.0, 16.0, 16.0])),
            (bson!({ "$expMovingAvg": { "input": "$v", "alpha": 0.25 } }), bson!([10.0, 11.0, 13.25, 13.25])),
            (bson!({ "$covariancePop": ["$t", "$v"], "window": two() }), bson!([0.0, 1.0, 3.0, 0.0])),
            (bson!({ "$covarianceSamp": ["$t", "$v"], "window": two() }), bson!([null, 2.0, 6.0, null])),
            (
                bson!({ "$covarianceSamp": ["$t", decimal("1")] }),
                bson!([decimal("0"), decimal("0"), decimal("0"), decimal("0")]),
            ),
            (bson!({ "$documentNumber": {} }), bson!([1, 2, 3, 4])),
            (
                bson!({ "$topN": { "n": 2, "sortBy": { "v": -1 }, "output": "$v" }, "window": two() }),
                bson!([[10], [14, 10], [20, 14], [20, null]]),
            ),
            (
                bson!({ "$firstN": { "n": 1, "input": "$t" }, "window": { "range": [1, 2] } }),
                bson!([[2], [4], [5], []]),
            ),
            (bson!({ "$max": "$v", "window": { "range": [-2, "current"] } }), bson!([10, 14, 20, 20])),
            (bson!({ "$sum": 1, "window": { "range": ["unbounded", -1] } }), bson!([0, 1, 2, 3])),
            (bson!({ "$shift": { "output": "$v", "by": 1, "default": "none" } }), bson!([14, 20, null, "none"])),
            (bson!({ "$locf": "$v" }), bson!([10, 14, 20, 20])),
        ] {
            let got = window(&documents, by(), function.clone()).map(Bson::Array);
            assert_eq!(got.map(|got| got.to_string()), Ok(want.to_string()), "{function}");
        }
    }

    #[test]
    fn windows_of_time() {
        let documents = hours(&[(0, bson!(10)), (1, bson!(13)), (3, bson!(15)), (27, bson!(16))]);
        let by = || bson!({ "t": 1 });
        for (function, want) in [
            (
                bson!({ "$derivative": { "input": "$v", "unit": "hour" }, "window": { "range": [-3, 0], "unit": "hour" } }),
                bson!([null, 3.0, (5.0 / 3.0), null]),
            ),
            (
                bson!({ "$integral": { "input": "$v", "unit": "hour" }, "window": { "documents": [-1, 0] } }),
                bson!([0.0, 11.5, 28.0, 372.0]),
            ),
            (
                bson!({ "$push": "$v", "window": { "range": [-1, 0], "unit": "day" } }),
                bson!([[10], [10, 13], [10, 13, 15], [15, 16]]),
            ),
            (bson!({ "$sum": "$v", "window": { "range": ["unbounded", -1], "unit": "month" } }), bson!([0, 0, 0, 0])),
        ] {
            let got = window(&documents, by(), function.clone()).map(Bson::Array);
            assert_eq!(got.map(|got| got.to_string()), Ok(want.to_string()), "{function}");
        }
    }

    #[test]
    fn lines_between_values() {
        let filled = |documents: &[Document]| window(documents, bson!({ "t": 1 }), bson!({ "$linearFill": "$v" }));
        let documents = numbers(&[
            (0, bson!(null)),
            (1, bson!(10)),
            (2, bson!(null)),
            (5, bson!(null)),
            (9, bson!(26)),
            (10, bson!(null)),
        ]);
        assert_eq!(
            filled(&documents),
            Ok(vec![bson!(null), bson!(10), bson!(12.0), bson!(18.0), bson!(26), bson!(null)])
        );
        assert_eq!(
            filled(&hours(&[(0, bson!(1)), (1, bson!(null)), (4, bson!(3))])),
            Ok(vec![bson!(1), bson!(1.5), bson!(3)])
        );
        assert_eq!(filled(&[]), Ok(vec![]));
        let code = |documents: &[Document]| filled(documents).map_err(|(code, _)| code);
        assert_eq!(code(&numbers(&[(1, bson!(1)), (1, bson!(2))])), Err(6050106));
        assert_eq!(code(&numbers(&[(1, bson!("x"))])), Err(6050105));
        assert_eq!(code(&[doc! { "t": "x", "v": 1 }]), Err(605001));
    }

    #[test]
    fn windows_that_are_none() {
        let none = || bson!({});
        let one = || bson!({ "t": 1 });
        let two = || bson!({ "t": 1, "v": 1 });
        let range = || bson!({ "range": [-1, 0] });
        for (sort, function, code) in [
            (none(), bson!({ "$rank": {} }), 5371602),
            (two(), bson!({ "$denseRank": {} }), 5371602),
            (one(), bson!({ "$rank": { "x": 1 } }), 5371603),
            (one(), bson!({ "$rank": {}, "window": range() }), 5371601),
            (two(), bson!({ "$sum": 1, "window": range() }), 5339902),
            (one(), bson!({ "$sum": 1, "window": { "documents": [1, 0] } }), 5339900),
            (one(), bson!({ "$sum": 1, "window": { "documents": [1] } }), 9),
            (one(), bson!({ "$sum": 1, "window": { "documents": [0, 1], "unit": "day" } }), 9),
            (one(), bson!({ "$sum": 1, "window": { "range": [0, 1.5], "unit": "day" } }), 9),
            (one(), bson!({ "$sum": 1, "window": { "range": [0, 1], "unit": "eon" } }), 9),
            (one(), bson!({ "$sum": 1, "window": { "range": [0, 1], "unit": "day" } }), 5429513),
            (one(), bson!({ "$derivative": { "input": "$v" } }), 9),
            (one(), bson!({ "$derivative": { "input": "$v", "unit": "month" }, "window": range() }), 5490704),
            (one(), bson!({ "$integral": { "input": "$v", "unit": "day" } }), 5624900),
            (one(), bson!({ "$expMovingAvg": { "input": "$v", "N": 0 } }), 9),
            (one(), bson!({ "$expMovingAvg": { "input": "$v", "alpha": 1 } }), 9),
            (one(), bson!({ "$expMovingAvg": { "input": "$v" } }), 9),
            (one(), bson!({ "$shift": { "output": "$v", "by": 1, "default": "$v" } }), 9),
            (one(), bson!({ "$locf": "$v", "window": range() }), 9),
            (one(), bson!({ "$foo": 1 }), 9),
        ] {
            let got = window(&numbers(&[(1, bson!(1))]), sort, function.clone()).map_err(|(code, _)| code);
            assert_eq!(got, Err(code), "{function}");
        }
        let large: Vec<_> = (0..200).map(|at| doc! { "t": at, "v": "x".repeat(10_000) }).collect();
        for bounds in [bson!(["unbounded", "current"]), bson!([-150, 0])] {
            let all = bson!({ "$push": "$v", "window": { "documents": bounds } });
            assert_eq!(window(&large, one(), all).map_err(|(code, _)| code), Err(5643011));
        }
        let dates = window(&hours(&[(0, bson!(1))]), one(), bson!({ "$sum": 1, "window": range() }));
        assert_eq!(dates.map_err(|(code, _)| code), Err(5429413));
    }

    /// The documents after a stage, without their `_id`.
    fn after(stage: Bson, documents: &[Document]) -> std::result::Result<String, i32> {
        let sorted = bson!([stage, { "$unset": "_id" }]);
        run(sorted, documents).map(|got| Bson::from(got).to_string()).map_err(|error| error.code)
    }

    #[test]
    fn densified() {
        let documents =
            [doc! { "a": 1, "p": "x" }, doc! { "a": 4, "p": "x" }, doc! { "a": 3, "p": "y" }, doc! { "p": "y" }];
        let densify =
            |range: Bson, by: Bson| bson!({ "$densify": { "field": "a", "range": range, "partitionByFields": by } });
        let range = |step: Bson, bounds: Bson| bson!({ "step": step, "bounds": bounds });
        for (stage, want) in [
            (
                densify(range(bson!(1), bson!("full")), bson!([])),
                bson!([{ "p": "y" }, { "a": 1, "p": "x" }, { "a": 2 }, { "a": 3, "p": "y" }, { "a": 4, "p": "x" }]),
            ),
            (
                densify(range(bson!(2), bson!("partition")), bson!(["p"])),
                bson!([{ "a": 1, "p": "x" }, { "p": "x", "a": 3 }, { "a": 4, "p": "x" }, { "p": "y" }, { "a": 3, "p": "y" }]),
            ),
            (
                densify(range(bson!(2), bson!("full")), bson!(["p"])),
                bson!([{ "a": 1, "p": "x" }, { "p": "x", "a": 3 }, { "a": 4, "p": "x" }, { "p": "y" }, { "p": "y", "a": 1 }, { "a": 3, "p": "y" }]),
            ),
            (
                densify(range(bson!(1.5), bson!([3, 6])), bson!([])),
                bson!([{ "p": "y" }, { "a": 1, "p": "x" }, { "a": 3, "p": "y" }, { "a": 4, "p": "x" }, { "a": 4.5 }]),
            ),
        ] {
            assert_eq!(after(stage.clone(), &documents), Ok(want.to_string()), "{stage}");
        }
        let empty = densify(range(bson!(1), bson!([0, 2])), bson!([]));
        assert_eq!(after(empty, &[]), Ok(bson!([{ "a": 0 }, { "a": 1 }]).to_string()));
        let days = bson!({ "$densify": { "field": "t", "range": { "step": 1, "unit": "month", "bounds": "full" } } });
        let month = |month: &str| DateTime::parse_rfc3339_str(format!("2024-{month}T00:00:00Z")).expect("a date");
        let want = bson!([{ "t": month("01-31") }, { "t": month("02-29") }, { "t": month("03-31") }]);
        assert_eq!(after(days, &[doc! { "t": month("01-31") }, doc! { "t": month("03-31") }]), Ok(want.to_string()));
        for (stage, code) in [
            (bson!({ "$densify": 1 }), 5733402),
            (bson!({ "$densify": { "field": "a" } }), 40414),
            (bson!({ "$densify": { "field": "a", "foo": 1 } }), 40415),
            (densify(range(bson!(0), bson!("full")), bson!([])), 5733401),
            (densify(range(bson!(1), bson!("all")), bson!([])), 5946802),
            (densify(range(bson!(1), bson!("partition")), bson!([])), 5733408),
            (densify(range(bson!(1), bson!([1])), bson!([])), 5733403),
            (densify(range(bson!(1), bson!([2, 1])), bson!([])), 5733402),
            (densify(range(bson!(1), bson!([1, month("01-01")])), bson!([])), 5733406),
            (densify(range(bson!(1), bson!([month("01-01"), month("01-02")])), bson!([])), 5733501),
            (densify(bson!({ "step": 1, "unit": "day", "bounds": "full" }), bson!([])), 6053600),
            (densify(bson!({ "step": 0.5, "unit": "day", "bounds": "full" }), bson!([])), 6586400),
            (densify(range(bson!(1), bson!("full")), bson!(["a"])), 8993000),
            (densify(range(bson!(0.001), bson!([0, 1000])), bson!([])), 5897900),
        ] {
            assert_eq!(after(stage.clone(), &documents), Err(code), "{stage}");
        }
        assert_eq!(after(densify(range(bson!(1), bson!("full")), bson!([])), &[doc! { "a": "x" }]), Err(5733201));
        let far = [doc! { "a": 1e300 }, doc! { "a": 2e300 }];
        assert_eq!(after(densify(range(bson!(1), bson!("full")), bson!([])), &far), Err(5733401));
        let large = [doc! { "a": 0, "p": "x".repeat(1 << 20) }, doc! { "a": 1000, "p": "y" }];
        assert_eq!(after(densify(range(bson!(1), bson!("full")), bson!(["p"])), &large), Err(6007200));
    }

    #[test]
    fn filled() {
        let documents = [
            doc! { "t": 1, "v": 1, "p": "x" },
            doc! { "t": 3, "v": 5, "p": "x" },
            doc! { "t": 2, "p": "x" },
            doc! { "t": 2, "v": null, "p": "y" },
        ];
        let fill = |spec: Bson| bson!({ "$fill": spec });
        for (spec, want) in [
            (
                bson!({ "output": { "v": { "value": { "$add": ["$t", 7] } } } }),
                bson!([{ "t": 1, "v": 1, "p": "x" }, { "t": 3, "v": 5, "p": "x" }, { "t": 2, "p": "x", "v": 9 }, { "t": 2, "v": 9, "p": "y" }]),
            ),
            (
                bson!({ "sortBy": { "t": 1 }, "partitionByFields": ["p"], "output": { "v": { "method": "linear" } } }),
                bson!([{ "t": 1, "v": 1, "p": "x" }, { "t": 2, "p": "x", "v": 3.0 }, { "t": 3, "v": 5, "p": "x" }, { "t": 2, "v": null, "p": "y" }]),
            ),
            (
                bson!({ "sortBy": { "t": -1 }, "partitionBy": "$p", "output": { "v": { "method": "locf" }, "w": { "value": 0 } } }),
                bson!([{ "t": 3, "v": 5, "p": "x", "w": 0 }, { "t": 2, "p": "x", "v": 5, "w": 0 }, { "t": 1, "v": 1, "p": "x", "w": 0 }, { "t": 2, "v": null, "p": "y", "w": 0 }]),
            ),
        ] {
            assert_eq!(after(fill(spec.clone()), &documents), Ok(want.to_string()), "{spec}");
        }
        for (spec, code) in [
            (bson!(1), 9),
            (bson!({}), 40414),
            (bson!({ "output": {}, "foo": 1 }), 40415),
            (bson!({ "output": { "v": { "method": "best" } } }), 6050202),
            (bson!({ "output": { "v": { "method": "linear" } } }), 605001),
            (bson!({ "output": { "v": 1 } }), 40604),
            (bson!({ "output": {}, "partitionByFields": ["$p"] }), 16410),
            (bson!({ "output": {}, "partitionByFields": ["p"], "partitionBy": "$p" }), 6050204),
        ] {
            assert_eq!(after(fill(spec.clone()), &documents), Err(code), "{spec}");
        }
    }

    #[test]
    fn sources() {
        let admin = PipelineContext { database: "admin".into(), collection: None, ..context() };
        let run = |stages: Bson| run_in(&admin, &stages, &[]);
        assert_eq!(run(bson!([{ "$currentOp": { "allUsers": true } }])).unwrap(), [doc! { "source": "CurrentOp" }]);
        let fails = |stages: Bson, code: i32, message: &str| {
            let error = run_in(&admin, &stages, &[]).unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (code, message));
        };
        fails(bson!([{ "$currentOp": { "foo": 1 } }]), 9, "Unrecognized option 'foo' in $currentOp stage.");
        fails(bson!([{ "$currentOp": 1 }]), 14, "$currentOp options must be specified in an object, but found: int");
        let boolean = "The 'allUsers' parameter of the $currentOp stage must be a boolean value, but found: int";
        fails(bson!([{ "$currentOp": { "allUsers": 1 } }]), 14, boolean);
        let boolean = "The 'idleCursors' parameter of the $currentOp stage must be a boolean value, but found: int";
        fails(bson!([{ "$currentOp": { "idleCursors": 1 } }]), 9, boolean);
        let collection = "{aggregate: 1} is not valid for '$match'; a collection is required.";
        fails(bson!([{ "$match": {} }, { "$currentOp": {} }]), 73, collection);
        let place = "$currentOp must be run against the 'admin' database with {aggregate: 1}";
        super::fails(bson!([{ "$currentOp": {} }]), 73, place);
        check(bson!([{ "$collStats": { "count": {} } }]), &[], &[doc! { "source": "CollStats" }]);
        check(bson!([{ "$indexStats": {} }]), &[], &[doc! { "source": "IndexStats" }]);
        let first = "$indexStats is only valid as the first stage in a pipeline.";
        super::fails(bson!([{ "$match": {} }, { "$indexStats": {} }]), 40602, first);
        let listed = bson!([{ "$documents": [{ "x": 1 }, { "x": 2 }] }, { "$match": { "x": 2 } }]);
        assert_eq!(run(listed).unwrap(), [doc! { "x": 2 }]);
    }

    #[test]
    fn malformed_pipelines() {
        fails(bson!([{ "$foo": 1 }]), 40324, "Unrecognized pipeline stage name: '$foo'");
        fails(bson!([{}]), 40323, "A pipeline stage specification object must contain exactly one field.");
        fails(bson!([1]), 14, "Each element of the 'pipeline' array must be an object");
        let last = "$out can only be the final stage in the pipeline";
        fails(bson!([{ "$out": "x" }, { "$match": {} }]), 40601, last);
        fails(bson!([{ "$match": { "$where": "1" } }]), 2, "$where is not allowed in this context");
    }

    #[test]
    fn outputs() {
        let parse = |stages: Bson| {
            let Bson::Array(stages) = stages else { panic!("array") };
            Pipeline::parse(&stages, &context()).map(|pipeline| pipeline.output().cloned())
        };
        assert!(
            matches!(parse(bson!([{ "$out": "o" }])), Ok(Some(Output::Out { collection, .. })) if collection == "o")
        );
        let now = ApplyContext {
            now: DateTime::from_millis(0),
            timestamp: bson::Timestamp { time: 1, increment: 1 },
            stores_dollar_fields: false,
        };
        let combine = |spec: Bson| {
            let Ok(Some(Output::Merge(merge))) = parse(bson!([{ "$merge": spec }])) else { panic!("a merge") };
            merge.combine(&doc! { "_id": 1, "a": 1 }, &doc! { "_id": 1, "b": 2 }, &now).unwrap()
        };
        assert_eq!(combine(bson!("o")), Some(doc! { "_id": 1, "a": 1, "b": 2 }));
        assert_eq!(combine(bson!({ "into": "o", "whenMatched": "replace" })), Some(doc! { "_id": 1, "b": 2 }));
        assert_eq!(combine(bson!({ "into": "o", "whenMatched": "keepExisting" })), None);
        let pipeline = bson!([{ "$set": { "c": { "$add": ["$a", "$$new.b"] } } }]);
        assert_eq!(combine(bson!({ "into": "o", "whenMatched": pipeline })), Some(doc! { "_id": 1, "a": 1, "c": 3 }));
        let fails = |spec: Bson, code: i32| assert_eq!(parse(bson!([{ "$merge": spec }])).unwrap_err().code, code);
        fails(bson!(1), 51182);
        fails(bson!({}), 40414);
        fails(bson!({ "into": "o", "whenMatched": "x" }), 2);
        fails(bson!({ "into": "o", "foo": 1 }), 40415);
    }

    #[test]
    fn collation_reaches_every_stage() {
        let query = context().query.with_collation(Collation::parse(&doc! { "locale": "en", "strength": 2 }).unwrap());
        let context = PipelineContext { query, ..context() };
        let documents = vec![doc! { "s": "a" }, doc! { "s": "A" }, doc! { "s": "b" }];
        let count = |stages: Bson| run_in(&context, &stages, &[("q", documents.clone())]).unwrap().len();
        assert_eq!(count(bson!([{ "$match": { "s": "A" } }])), 2);
        assert_eq!(count(bson!([{ "$group": { "_id": "$s" } }])), 2);
        assert_eq!(count(bson!([{ "$match": { "$expr": { "$eq": ["$s", "B"] } } }])), 1);
        let join = bson!([{ "$lookup": { "from": "q", "localField": "s", "foreignField": "s", "as": "r" } }, { "$unwind": "$r" }]);
        assert_eq!(count(join), 5);
    }

    #[test]
    fn the_let_option_binds_values_of_expressions() {
        let bound = |variables: &Document| {
            let mut query = context().query;
            query.bind_all(variables).map(|()| PipelineContext { query, ..context() })
        };
        let context = bound(&doc! { "x": { "$add": [1, 2] }, "s": { "$literal": "$s" }, "none": "$$REMOVE" }).unwrap();
        let shown = bson!([{ "$limit": 1 }, { "$project": { "_id": 0, "x": "$$x", "s": "$$s", "none": "$$none" } }]);
        let documents = [("q", vec![doc! { "_id": 1 }])];
        assert_eq!(run_in(&context, &shown, &documents).unwrap(), [doc! { "x": 3, "s": "$s" }]);
        let code = |variables: Document| bound(&variables).unwrap_err().code;
        assert_eq!(code(doc! { "x": "$a" }), 4890500);
        assert_eq!(code(doc! { "x": "$$ROOT" }), 4890500);
        assert_eq!(code(doc! { "x": 1, "y": "$$x" }), 17276);
        assert_eq!(code(doc! { "X": 1 }), 16867);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn arbitrary_operands_never_panic(a in any_bson(), b in any_bson()) {
            let names: Vec<_> = super::super::stages::STAGES.iter().map(|(name, _)| *name).collect();
            for name in names {
                let _ = run(bson!([{ name: a.clone() }]), &samples());
                let _ = run(bson!([{ name: { "_id": a.clone(), "path": "$arr", "groupBy": "$a", "boundaries": [b.clone(), a.clone()],
                    "buckets": 2, "size": 1, "newRoot": b.clone(), "from": "q", "as": "x", "pipeline": [] } }]), &samples());
            }
        }

        #[test]
        fn a_limited_sort_is_the_start_of_a_full_one(values in prop::collection::vec(0..20, 0..40), limit in 1..10_i32) {
            let documents: Vec<_> = values.iter().enumerate().map(|(at, value)| doc! { "_id": at as i32, "v": *value }).collect();
            let mut full = run(bson!([{ "$sort": { "v": 1 } }]), &documents).unwrap();
            full.truncate(limit as usize);
            prop_assert_eq!(run(bson!([{ "$sort": { "v": 1 } }, { "$limit": limit }]), &documents).unwrap(), full);
        }
    }
}
