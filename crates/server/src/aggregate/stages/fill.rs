//! `$fill` (of release 5.3): values in the place of those that are null or missing.
//!
//! A mongod makes a `$setWindowFields` and an `$addFields` of it, and so does this.

use std::sync::Arc;

use bson::{Bson, Document, bson, doc};

use super::chain::Chain;
use super::project::Project;
use super::window::Window;
use super::{Parsed, Parsing, Stage};
use crate::error::{Result, fail};
use crate::value::View;

/// What `$fill` is made of.
#[derive(Default)]
struct Fill {
    partition: Option<Bson>,
    sort: Option<Document>,
    /// Fields that are filled from their neighbours, with the window function.
    methods: Document,
    /// Fields that are filled with the value of an expression.
    values: Document,
}

/// Parses the stage.
pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Parsed> {
    let View::Document(spec) = operand else {
        return fail(9, format!("the $fill stage specification must be an object, found {}", operand.type_name()));
    };
    let mut fill = Fill::default();
    for (name, value) in spec.iter() {
        match (name, value) {
            ("partitionBy", View::String(_) | View::Document(_)) => fill.partition = Some(value.to_bson()?),
            ("partitionBy", _) => {
                let text = "BSON field '$fill.partitionBy' is the wrong type";
                return fail(14, format!("{text} '{}', expected types '[string, object]'", value.type_name()));
            }
            ("partitionByFields", View::Array(fields)) => {
                let fields = fields.iter().map(field).collect::<Result<Vec<_>>>()?;
                // A document, because a partition cannot be told by an array.
                let numbered =
                    fields.iter().enumerate().map(|(at, path)| (format!("f{at}"), Bson::from(format!("${path}"))));
                fill.partition = Some(Bson::Document(numbered.collect()));
            }
            ("sortBy", View::Document(sort)) => fill.sort = Some(sort.to_document()?),
            ("output", View::Document(output)) => {
                for (path, value) in output.iter() {
                    fill.output(path, value)?;
                }
            }
            ("partitionByFields" | "sortBy" | "output", other) => {
                let expected = if name == "partitionByFields" { "array" } else { "object" };
                let text = format!("BSON field '$fill.{name}' is the wrong type '{}'", other.type_name());
                return fail(14, format!("{text}, expected type '{expected}'"));
            }
            _ => return fail(40415, format!("BSON field '$fill.{name}' is an unknown field.")),
        }
    }
    if spec.get("output").is_none() {
        return fail(40414, "BSON field '$fill.output' is missing but a required field");
    }
    if spec.get("partitionBy").is_some() && spec.get("partitionByFields").is_some() {
        return fail(6050204, "Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'");
    }
    fill.stages(parsing)
}

fn field(value: View<'_>) -> Result<&str> {
    match value {
        View::String(path) if path.starts_with('$') => fail(
            16410,
            format!("FieldPath field names may not start with '$'. Consider using $getField or $setField. : {path}"),
        ),
        View::String(path) => Ok(path),
        other => {
            let text = "BSON field '$fill.partitionByFields' has an element of the wrong type";
            fail(14, format!("{text} '{}', expected type 'string'", other.type_name()))
        }
    }
}

impl Fill {
    /// Takes in one field of `output`.
    fn output(&mut self, path: &str, value: View<'_>) -> Result<()> {
        let wrong =
            || fail(40604, "Each fill output field must be an object with exactly one argument: 'value' or 'method'");
        let View::Document(spec) = value else { return wrong() };
        let mut arguments = spec.iter();
        let (Some((argument, value)), None) = (arguments.next(), arguments.next()) else { return wrong() };
        match (argument, value) {
            ("method", View::String("linear")) => {
                self.methods.insert(path, doc! { "$linearFill": format!("${path}") });
            }
            ("method", View::String("locf")) => {
                self.methods.insert(path, doc! { "$locf": format!("${path}") });
            }
            ("method", _) => return fail(6050202, "Method must be either locf or linear"),
            ("value", value) => {
                self.values.insert(path, bson!({ "$ifNull": [format!("${path}"), value.to_bson()?] }));
            }
            _ => return fail(40415, format!("BSON field '$fill.output.{path}.{argument}' is an unknown field.")),
        }
        Ok(())
    }

    fn stages(self, parsing: &Parsing<'_>) -> Result<Parsed> {
        let mut stages: Vec<Arc<dyn Stage>> = Vec::new();
        if !self.methods.is_empty() {
            let mut window = doc! { "output": self.methods };
            window.extend(self.partition.map(|partition| ("partitionBy".to_owned(), partition)));
            window.extend(self.sort.map(|sort| ("sortBy".to_owned(), Bson::Document(sort))));
            stages.push(Arc::new(Window::parse((&Bson::Document(window)).into(), parsing)?));
        }
        if !self.values.is_empty() {
            let values = Bson::Document(self.values);
            stages.push(Arc::new(Project::parse_additions("$addFields", (&values).into(), parsing.query())?));
        }
        super::stage(Chain(stages))
    }
}
