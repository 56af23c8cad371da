//! `$graphLookup`.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::{Bson, Document};

use super::lookup::{Join, check_size};
use super::unwind::set;
use super::{Documents, Parsing, Run, Stage, deferred};
use crate::aggregate::expression::{Expression, FieldPath, Frame};
use crate::error::{Result, fail};
use crate::query::Matcher;
use crate::query::path::Path;
use crate::value::View;
use crate::value::view::{to_document, to_raw};

/// A stage that follows references from document to document.
#[derive(Debug, Clone)]
pub(super) struct GraphLookup {
    database: String,
    from: String,
    output: FieldPath,
    start: Expression,
    connect_from: FieldPath,
    connect_to: Path,
    max_depth: Option<i64>,
    depth_field: Option<FieldPath>,
    restrict: Option<Matcher>,
}

impl GraphLookup {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let View::Document(spec) = operand else {
            let text = "the $graphLookup stage specification must be an object, but found";
            return fail(40327, format!("{text} {}", operand.type_name()));
        };
        let (mut from, mut output, mut start, mut connect_from, mut connect_to) = (None, None, None, None, None);
        let (mut max_depth, mut depth_field, mut restrict) = (None, None, None);
        for (name, value) in spec.iter() {
            match name {
                "startWith" => start = Some(Expression::parse(value, &parsing.query().scope)?),
                "maxDepth" => {
                    let Some(number) = value.number() else {
                        return fail(40100, format!("maxDepth requires numeric argument, found {}", value.type_name()));
                    };
                    let shown = crate::value::text::plain_number(number);
                    match number.as_exact_i64() {
                        Some(depth @ 0..) => max_depth = Some(depth),
                        Some(_) => {
                            return fail(40101, format!("maxDepth requires a nonnegative argument, found {shown}"));
                        }
                        None => {
                            return fail(40102, format!("maxDepth could not be represented as a long long: {shown}"));
                        }
                    }
                }
                "restrictSearchWithMatch" => {
                    let View::Document(filter) = value else {
                        let text = "restrictSearchWithMatch must be an object, found";
                        return fail(40185, format!("{text} {}", value.type_name()));
                    };
                    restrict = Some(Matcher::parse_view(filter, parsing.query())?);
                }
                "from" | "as" | "connectFromField" | "connectToField" | "depthField" => {
                    let View::String(text) = value else {
                        let kind = value.type_name();
                        return fail(40103, format!("expected string as argument for {name}, found: {kind}"));
                    };
                    match name {
                        "from" => from = Some(text.to_owned()),
                        "as" => output = Some(FieldPath::parse(text)?),
                        "connectFromField" => connect_from = Some(FieldPath::parse(text)?),
                        "connectToField" => {
                            FieldPath::parse(text)?;
                            connect_to = Some(Path::new(text));
                        }
                        _ => depth_field = Some(FieldPath::parse(text)?),
                    }
                }
                _ => return fail(40104, format!("Unknown argument to $graphLookup: {name}")),
            }
        }
        let (Some(from), Some(output), Some(start), Some(connect_from), Some(connect_to)) =
            (from, output, start, connect_from, connect_to)
        else {
            let text =
                "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be";
            return fail(40105, format!("{text} specified."));
        };
        let database = parsing.context.database.clone();
        Ok(Self { database, from, output, start, connect_from, connect_to, max_depth, depth_field, restrict })
    }

    /// The documents that can be reached from `start`, with the number of steps.
    fn reach(&self, start: Option<View<'_>>, join: &Join, run: &Run) -> Result<Vec<Bson>> {
        let mut frontier = Vec::new();
        spread(start, &mut frontier)?;
        let mut seen = BTreeSet::new();
        let mut reached = Vec::new();
        let mut depth = 0;
        while !frontier.is_empty() && self.max_depth.is_none_or(|limit| depth <= limit) {
            let mut places = BTreeSet::new();
            for value in &frontier {
                places.extend(join.places_of(value.into()));
            }
            frontier.clear();
            for place in places {
                if !seen.insert(place) {
                    continue;
                }
                let Some(document) = join.document(place) else { continue };
                if let Some(filter) = &self.restrict
                    && !filter.matches_with(document.into(), &run.slots)?
                {
                    continue;
                }
                spread(self.connect_from.get(document.into()).view(), &mut frontier)?;
                let mut decoded = to_document(document)?;
                if let Some(field) = &self.depth_field {
                    set(&mut decoded, field.parts(), Some(Bson::Int64(depth)));
                }
                reached.push(Bson::Document(decoded));
            }
            depth += 1;
        }
        Ok(reached)
    }
}

/// Adds a value, or the elements of an array; a missing value leads nowhere.
fn spread(value: Option<View<'_>>, frontier: &mut Vec<Bson>) -> Result<()> {
    match value {
        None => {}
        Some(View::Array(array)) => {
            for element in array.iter() {
                frontier.push(element.to_bson()?);
            }
        }
        Some(one) => frontier.push(one.to_bson()?),
    }
    Ok(())
}

impl Stage for GraphLookup {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let run = run.clone();
        deferred(move || {
            let documents = run.environment.documents(&self.database, &self.from)?;
            let join = Join::read(documents, &self.connect_to, run.globals.collation.clone())?;
            Ok(super::map(input, move |document| {
                let mut frame = Frame::new((&document).into(), run.slots.clone(), &run.globals);
                let start = self.start.eval_view(&mut frame)?;
                let reached = self.reach(start.view(), &join, &run)?;
                let mut result: Document = to_document(&document)?;
                set(&mut result, self.output.parts(), Some(Bson::Array(reached)));
                check_size(&result)?;
                to_raw(&result)
            }))
        })
    }

    fn optimized(&self) -> Result<Option<Arc<dyn Stage>>> {
        Ok(Some(Arc::new(Self { start: self.start.clone().optimize()?, ..self.clone() })))
    }
}
