//! `$setWindowFields` (of release 5.0): fields over the neighbours of each document.

mod bounds;
mod filling;
mod function;
mod numeric;

use std::sync::Arc;

use bson::Bson;
use bson::raw::RawDocumentBuf;

use self::function::{Function, is_single, too_large};
use super::unwind::set;
use super::{Documents, Parsing, Run, Stage, check_memory, deferred, listed};
use crate::aggregate::expression::{Expression, FieldPath, Frame};
use crate::error::{Result, fail};
use crate::query::Sort;
use crate::value::View;
use crate::value::key_string::encode;
use crate::value::view::{to_document, to_raw};

/// A stage that computes fields over the neighbours of each document.
#[derive(Debug, Clone)]
pub(super) struct Window {
    partition: Option<Expression>,
    sort: Option<Sort>,
    /// The expression of the one sort field, for ranges.
    sort_value: Option<Expression>,
    outputs: Vec<Output>,
}

#[derive(Debug, Clone)]
struct Output {
    path: FieldPath,
    function: Function,
}

/// A document of a partition.
struct Member {
    partition: Vec<u8>,
    key: Vec<u8>,
    document: RawDocumentBuf,
}

impl Window {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let scope = &parsing.query().scope;
        let View::Document(spec) = operand else {
            let text = "the $setWindowFields stage specification must be an object, found";
            return fail(9, format!("{text} {}", operand.type_name()));
        };
        let mut window = Self { partition: None, sort: None, sort_value: None, outputs: Vec::new() };
        for (name, value) in spec.iter() {
            match (name, value) {
                ("partitionBy", value) => window.partition = Some(Expression::parse(value, scope)?),
                ("sortBy", View::Document(pattern)) => {
                    let sort = Sort::parse_view(pattern, parsing.query().collation().cloned())?;
                    if let [(path, _)] = sort.fields() {
                        let path = format!("${path}");
                        window.sort_value = Some(Expression::parse(View::String(&path), scope)?);
                    }
                    window.sort = Some(sort);
                }
                ("output", View::Document(fields)) => {
                    for (path, value) in fields.iter() {
                        let View::Document(function) = value else {
                            let kind = value.type_name();
                            return fail(9, format!("The field '{path}' must be an object, but found type: {kind}"));
                        };
                        let path = FieldPath::parse(path)?;
                        window.outputs.push(Output { path, function: Function::parse(function, parsing)? });
                    }
                }
                ("sortBy" | "output", other) => {
                    let text =
                        format!("BSON field '$setWindowFields.{name}' is the wrong type '{}'", other.type_name());
                    return fail(14, format!("{text}, expected type 'object'"));
                }
                _ => return fail(40415, format!("BSON field '$setWindowFields.{name}' is an unknown field.")),
            }
        }
        if spec.get("output").is_none() {
            return fail(40414, "BSON field '$setWindowFields.output' is missing but a required field");
        }
        window.check_sort()?;
        Ok(window)
    }

    fn check_sort(&self) -> Result<()> {
        let is_single = is_single(self.sort.as_ref());
        self.outputs.iter().try_for_each(|output| output.function.check_sort(self.sort.is_some(), is_single))
    }

    fn compute(&self, input: Documents, run: &Run) -> Result<Documents> {
        let collation = run.globals.collation.as_ref();
        let mut documents: Vec<Member> = Vec::new();
        let mut bytes = 0;
        for document in input {
            let document = document?;
            bytes += document.as_bytes().len();
            check_memory(run, bytes, |limit| too_large(bytes, limit))?;
            let mut frame = Frame::new((&document).into(), run.slots.clone(), &run.globals);
            let partition = match &self.partition {
                None => Vec::new(),
                Some(partition) => match partition.eval(&mut frame)? {
                    Some(Bson::Array(_)) => {
                        return fail(14, "An expression used to partition cannot evaluate to value of type array");
                    }
                    value => encode(value.as_ref().map_or(View::Null, Into::into), collation),
                },
            };
            let key = match &self.sort {
                None => Vec::new(),
                Some(sort) => sort.key(&document)?,
            };
            documents.push(Member { partition, key, document });
        }
        documents.sort_by(|left, right| (&left.partition, &left.key).cmp(&(&right.partition, &right.key)));
        let mut results = Vec::with_capacity(documents.len());
        for partition in documents.chunk_by(|left, right| left.partition == right.partition) {
            self.partition(partition, run, &mut results)?;
        }
        Ok(listed(results))
    }

    fn partition(&self, members: &[Member], run: &Run, results: &mut Vec<RawDocumentBuf>) -> Result<()> {
        let mut decoded = members.iter().map(|member| to_document(&member.document)).collect::<Result<Vec<_>>>()?;
        for output in &self.outputs {
            let values = output.function.values(members, self.sort_value.as_ref(), run)?;
            for (document, value) in decoded.iter_mut().zip(values) {
                set(document, output.path.parts(), value);
            }
        }
        for document in &decoded {
            results.push(to_raw(document)?);
        }
        Ok(())
    }
}

impl Stage for Window {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let run = run.clone();
        deferred(move || self.compute(input, &run))
    }
}
