//! `$lookup`: by two fields, by a pipeline, or by both.
//!
//! The join by fields reads the other collection once and finds partners by the bytes of their values, with the meaning
//! of an equality filter: a missing field is null, an array counts by its elements.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document};

use super::unwind::set;
use super::{Documents, Parsing, Place, Run, Stage, deferred};
use crate::aggregate::expression::variables::check_write;
use crate::aggregate::expression::{Expression, FieldPath, Frame};
use crate::aggregate::pipeline::{Pipeline, PipelineContext};
use crate::error::{CommandError, Result, fail};
use crate::query::path::{AtArray, Path};
use crate::value::key_string::encode;
use crate::value::view::{to_document, to_raw};
use crate::value::{Collation, DocView, View};

/// A stage that joins another collection.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    database: String,
    from: String,
    output: FieldPath,
    fields: Option<(FieldPath, Path)>,
    variables: Vec<(usize, Expression)>,
    pipeline: Option<Pipeline>,
}

fn string<'a>(name: &str, value: View<'a>) -> Result<&'a str> {
    match value {
        View::String(text) => Ok(text),
        other => {
            let shown = crate::value::text::element(name, other);
            fail(9, format!("$lookup argument '{shown}' must be a string, is type {}", other.type_name()))
        }
    }
}

impl Lookup {
    /// Parses the stage.
    pub(super) fn parse(operand: View<'_>, parsing: &Parsing<'_>) -> Result<Self> {
        let View::Document(spec) = operand else {
            return fail(9, "the $lookup stage specification must be an object");
        };
        let (mut from, mut output, mut local, mut foreign, mut lets, mut stages) = (None, None, None, None, None, None);
        let mut database = parsing.context.database.clone();
        for (name, value) in spec.iter() {
            match name {
                "from" => match value {
                    View::Document(namespace) => {
                        let part = |name| namespace.get(name).and_then(View::as_str);
                        database = part("db").unwrap_or(&database).to_owned();
                        from = part("coll").map(str::to_owned);
                    }
                    value => from = Some(string(name, value)?.to_owned()),
                },
                "as" => output = Some(FieldPath::parse(string(name, value)?)?),
                "localField" => local = Some(FieldPath::parse(string(name, value)?)?),
                "foreignField" => {
                    FieldPath::parse(string(name, value)?)?;
                    foreign = Some(Path::new(string(name, value)?));
                }
                "let" => match value {
                    View::Document(document) => lets = Some(document),
                    other => {
                        let shown = crate::value::text::element(name, other);
                        let text = format!("$lookup argument '{shown}' must be an object, is type");
                        return fail(9, format!("{text} {}", other.type_name()));
                    }
                },
                "pipeline" => match value {
                    View::Array(array) => stages = Some(array.iter().map(View::to_bson).collect::<Result<Vec<_>>>()?),
                    _ => return fail(14, "'pipeline' option must be specified as an array"),
                },
                other => return fail(9, format!("unknown argument to $lookup: {other}")),
            }
        }
        let Some(from) = from else {
            let shown = crate::value::text::document(spec);
            return fail(9, format!("missing 'from' option to $lookup stage specification: {shown}"));
        };
        let Some(output) = output else { return fail(9, "must specify 'as' field for a $lookup") };
        let fields = match (local, foreign) {
            (Some(local), Some(foreign)) => Some((local, foreign)),
            (None, None) if stages.is_some() => None,
            _ if stages.is_some() => {
                let text = "$lookup with 'pipeline' may not specify 'localField' or 'foreignField'";
                return fail(9, text);
            }
            _ => {
                let text = "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified";
                return fail(9, text);
            }
        };
        let mut variables = Vec::new();
        let mut query = parsing.query().clone();
        if let Some(lets) = lets {
            if stages.is_none() {
                return fail(9, "$lookup with a 'let' argument must also specify 'pipeline'");
            }
            for (name, value) in lets.iter() {
                check_write(name)?;
                let value = Expression::parse(value, &parsing.query().scope)?;
                variables.push((query.scope.define(name), value));
            }
        }
        let context = PipelineContext {
            query,
            database: database.clone(),
            collection: Some(from.clone()),
            ..parsing.context.clone()
        };
        let pipeline = stages
            .map(|stages| Pipeline::parse_inside(&stages, &context, Place::Other, parsing.depth + 1))
            .transpose()?;
        Ok(Self { database, from, output, fields, variables, pipeline })
    }

    /// The partners of one document.
    fn partners(&self, document: &RawDocumentBuf, join: Option<&Join>, run: &Run) -> Result<Vec<Bson>> {
        let decoded = |document: &RawDocumentBuf| to_document(document).map(Bson::Document);
        let joined = match (join, &self.fields) {
            (Some(join), Some((local, _))) => Some(join.find(document.into(), local)?),
            _ => None,
        };
        let Some(pipeline) = &self.pipeline else {
            return joined.unwrap_or_default().into_iter().map(decoded).collect();
        };
        let mut frame = Frame::new(document.into(), run.slots.clone(), &run.globals);
        let values = self
            .variables
            .iter()
            .map(|(slot, value)| Ok((*slot, value.eval(&mut frame)?)))
            .collect::<Result<Vec<_>>>()?;
        values.into_iter().for_each(|(slot, value)| frame.set(slot, value));
        let input = match joined {
            Some(documents) => super::listed(documents.into_iter().cloned().collect()),
            None if pipeline.reads_collection() => run.environment.documents(&self.database, &self.from)?,
            None => super::listed(Vec::new()),
        };
        let slots = frame.slots().to_vec();
        let output = pipeline.run_with(input, Arc::clone(&run.environment), slots)?;
        output.map(|document| decoded(&document?)).collect()
    }
}

/// The other collection by the values of one field.
pub(super) struct Join {
    documents: Vec<RawDocumentBuf>,
    places: HashMap<Vec<u8>, Vec<usize>>,
    collation: Option<Collation>,
}

impl Join {
    /// Reads the collection.
    pub(super) fn read(documents: Documents, path: &Path, collation: Option<Collation>) -> Result<Self> {
        let documents = documents.collect::<Result<Vec<_>>>()?;
        let mut places: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
        for (at, document) in documents.iter().enumerate() {
            let mut keys = BTreeSet::new();
            path.any(document.into(), AtArray::Elements, |found| {
                let value = found.value.filter(|value| !value.is_nullish()).unwrap_or(View::Null);
                keys.insert(encode(value, collation.as_ref()));
                false
            });
            for key in keys {
                places.entry(key).or_default().push(at);
            }
        }
        Ok(Self { documents, places, collation })
    }

    /// The places of the documents whose field equals `value`.
    pub(super) fn places_of(&self, value: View<'_>) -> &[usize] {
        let value = if value.is_nullish() { View::Null } else { value };
        self.places.get(&encode(value, self.collation.as_ref())).map_or(&[], Vec::as_slice)
    }

    /// A document by its place.
    pub(super) fn document(&self, place: usize) -> Option<&RawDocumentBuf> {
        self.documents.get(place)
    }

    /// The documents that a local document has for partners, in their order.
    fn find(&self, document: DocView<'_>, local: &FieldPath) -> Result<Vec<&RawDocumentBuf>> {
        let value = local.get(document);
        let mut places = BTreeSet::new();
        match value.view() {
            Some(View::Array(array)) => {
                for element in array.iter() {
                    places.extend(self.places_of(element));
                }
            }
            other => places.extend(self.places_of(other.unwrap_or(View::Null))),
        }
        Ok(places.into_iter().filter_map(|place| self.document(place)).collect())
    }
}

impl Stage for Lookup {
    fn run(self: Arc<Self>, input: Documents, run: &Run) -> Documents {
        let run = run.clone();
        deferred(move || {
            let join = match &self.fields {
                None => None,
                Some((_, foreign)) => {
                    let documents = run.environment.documents(&self.database, &self.from)?;
                    Some(Join::read(documents, foreign, run.globals.collation.clone())?)
                }
            };
            Ok(super::map(input, move |document| {
                let partners = self.partners(&document, join.as_ref(), &run)?;
                let mut result = to_document(&document)?;
                set(&mut result, self.output.parts(), Some(Bson::Array(partners)));
                check_size(&result)?;
                to_raw(&result)
            }))
        })
    }

    fn optimized(&self) -> Result<Option<Arc<dyn Stage>>> {
        let variable = |(slot, value): &(usize, Expression)| Ok((*slot, value.clone().optimize()?));
        let variables = self.variables.iter().map(variable).collect::<Result<_>>()?;
        let pipeline = self.pipeline.clone().map(Pipeline::optimize).transpose()?;
        Ok(Some(Arc::new(Self { variables, pipeline, ..self.clone() })))
    }
}

/// What a document may take while it is in a pipeline.
const MAX_DOCUMENT_BYTES: usize = 64 * 1024 * 1024;

/// Checks that a document with its partners is not beyond all bounds.
pub(super) fn check_size(document: &Document) -> Result<()> {
    let bytes = crate::aggregate::accumulator::approximate_bytes(&Bson::Document(document.clone()));
    if bytes > 4 * MAX_DOCUMENT_BYTES {
        return Err(CommandError::new(
            4568,
            "Total size of documents matching pipeline's $lookup stage exceeds maximum document size",
        ));
    }
    Ok(())
}
