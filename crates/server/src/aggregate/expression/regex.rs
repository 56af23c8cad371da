//! `$regexFind`, `$regexFindAll`, `$regexMatch`.

use std::sync::Arc;

use bson::{Bson, doc};

use super::Expression;
use super::lent::nullish;
use super::table::{Operator, Parameters, named, optional};
use super::variables::Frame;
use crate::error::{Result, fail};
use crate::query::regex::{Captures, Refusal, Regex};

macro_rules! parameters {
    ($name:literal) => {
        Parameters {
            names: &["input", "regex", "options"],
            required: &[
                ("input", 31022, concat!($name, " requires 'input' parameter")),
                ("regex", 31023, concat!($name, " requires 'regex' parameter")),
            ],
            not_object: (51103, concat!($name, " expects an object of named arguments but found: {}")),
            unknown: (31024, concat!($name, " found an unknown argument: {}")),
        }
    };
}

static FIND: Parameters = parameters!("$regexFind");
static FIND_ALL: Parameters = parameters!("$regexFindAll");
static MATCH: Parameters = parameters!("$regexMatch");

/// The operators of this family.
pub(crate) const OPERATORS: &[Operator] = &[
    named("$regexFind", &FIND, |name, arguments, frame| {
        let Some((text, regex)) = operands(name, arguments, frame)? else { return Ok(Some(Bson::Null)) };
        Ok(Some(regex.find_from(&text, 0).map_or(Bson::Null, |found| found_document(&text, &found))))
    }),
    named("$regexFindAll", &FIND_ALL, |name, arguments, frame| {
        let Some((text, regex)) = operands(name, arguments, frame)? else { return Ok(Some(Bson::Array(Vec::new()))) };
        Ok(Some(Bson::Array(find_all(&text, &regex))))
    }),
    named("$regexMatch", &MATCH, |name, arguments, frame| {
        let found = operands(name, arguments, frame)?;
        Ok(Some(Bson::Boolean(found.is_some_and(|(text, regex)| regex.is_match(&text)))))
    }),
];

fn found_document(text: &str, found: &Captures) -> Bson {
    let group = |range: &Option<std::ops::Range<usize>>| {
        range.clone().map_or(Bson::Null, |range| Bson::String(text[range].to_owned()))
    };
    Bson::Document(doc! {
        "match": &text[found.whole.clone()],
        "idx": text[..found.whole.start].chars().count() as i32,
        "captures": found.groups.iter().map(group).collect::<Vec<_>>(),
    })
}

fn find_all(text: &str, regex: &Regex) -> Vec<Bson> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(found) = regex.find_from(text, from) {
        all.push(found_document(text, &found));
        from = found.whole.end;
        if found.whole.is_empty() {
            // step over one character, or stop at the end
            match text[from..].chars().next() {
                Some(letter) => from += letter.len_utf8(),
                None => break,
            }
        }
    }
    all
}

/// The input and the compiled expression; `None` when the input or the expression is null.
fn operands(
    name: &str,
    arguments: &[Option<Expression>],
    frame: &mut Frame<'_>,
) -> Result<Option<(String, Arc<Regex>)>> {
    let input = optional(arguments.first(), frame)?;
    let regex = optional(arguments.get(1), frame)?;
    let options = optional(arguments.get(2), frame)?;
    if !nullish(&input) && !matches!(input, Some(Bson::String(_))) {
        return fail(51104, format!("{name} needs 'input' to be of type string"));
    }
    let (pattern, own) = match &regex {
        Some(Bson::String(pattern)) => (pattern.as_str(), ""),
        Some(Bson::RegularExpression(regex)) => (regex.pattern.as_str(), regex.options.as_str()),
        value if nullish(value) => ("", ""),
        _ => return fail(51105, format!("{name} needs 'regex' to be of type string or regex")),
    };
    let letters = match &options {
        Some(Bson::String(letters)) => letters.as_str(),
        value if nullish(value) => own,
        _ => return fail(51106, format!("{name} needs 'options' to be of type string")),
    };
    if !own.is_empty() && !nullish(&options) {
        return fail(51107, format!("{name}: found regex option(s) specified in both 'regex' and 'option' fields"));
    }
    if pattern.contains('\0') {
        return fail(51109, format!("{name}: regular expression cannot contain an embedded null byte"));
    }
    let Some(Bson::String(text)) = input else { return Ok(None) };
    if nullish(&regex) {
        return Ok(None);
    }
    match frame.globals.regex(pattern, letters) {
        Ok(regex) => Ok(Some((text, regex))),
        Err(Refusal::Pattern(why)) => fail(51111, format!("Invalid Regex in {name}: {why}")),
        Err(Refusal::Option(letter)) => fail(51108, format!("{name} invalid flag in regex options: {letter}")),
    }
}
