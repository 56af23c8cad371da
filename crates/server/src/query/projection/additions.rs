//! Parsing the operand of `$addFields`: its shape is checked as a whole, and then its expressions are read.

use std::collections::BTreeSet;

use super::parse::{MAX_NESTING, add, finish, inner_at};
use super::{Child, Mode, Projection, Tree, scope_of};
use crate::aggregate::expression::field_path::check_name;
use crate::aggregate::expression::{Expression, FieldPath};
use crate::error::{Result, fail};
use crate::query::QueryContext;
use crate::query::matcher::too_deep;
use crate::value::{DocView, View, text};

/// Parses the operand of `$addFields`.
pub(super) fn parse(spec: DocView<'_>, context: &QueryContext) -> Result<Projection> {
    if too_deep(View::Document(spec), MAX_NESTING) {
        return fail(15, format!("specification exceeds the nesting limit of {MAX_NESTING}"));
    }
    if spec.is_empty() {
        return fail(40177, "specification must have at least one field");
    }
    let mut shape = Shape { spec, seen: BTreeSet::new() };
    for (name, value) in spec.iter() {
        shape.field(FieldPath::parse(name)?.dotted(), value)?;
    }
    let mut tree = Tree::default();
    for (name, value) in spec.iter() {
        addition(&mut tree, &FieldPath::parse(name)?, value, context)?;
    }
    Ok(finish(Mode::Addition, tree, Vec::new(), context))
}

/// The check of the shape: which paths are set, and that no two of them conflict.
struct Shape<'s> {
    spec: DocView<'s>,
    /// The paths, with NUL for the dots.
    seen: BTreeSet<String>,
}

impl Shape<'_> {
    fn field(&mut self, path: String, value: View<'_>) -> Result<()> {
        let View::Document(document) = value else { return self.see(path) };
        if document.is_empty() {
            let text = "an empty object is not a valid value. Found empty object at path";
            return fail(40180, format!("{text} {path}"));
        }
        let spec = self.spec;
        let whole = || text::document(spec);
        for (name, value) in document.iter() {
            if name.starts_with('$') {
                let count = document.iter().count();
                if count != 1 {
                    let text =
                        "an expression specification must contain exactly one field, the name of the expression.";
                    let (shown, whole) = (text::document(document), whole());
                    let found = format!("Found {count} fields in {shown}, while parsing object {whole}");
                    return fail(40181, format!("{text} {found}"));
                }
                return self.see(path);
            }
            if name.contains('.') {
                return fail(40183, format!("cannot use dotted field name '{name}' in a sub object: {}", whole()));
            }
            self.field(format!("{path}.{name}"), value)?;
        }
        Ok(())
    }

    /// Notes a path that is set.
    fn see(&mut self, path: String) -> Result<()> {
        // With the dots as the lowest character, a path stands right before those below it.
        let key = path.replace('.', "\0");
        let before = self.seen.range(..=key.clone()).next_back();
        let after = self.seen.range(key.clone()..).next();
        let within = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('\0'));
        let conflict = (before.filter(|seen| **seen == key || within(&key, seen)))
            .or_else(|| after.filter(|seen| within(seen, &key)))
            .map(|seen| seen.replace('\0', "."));
        if let Some(conflict) = conflict {
            let text = "specification contains two conflicting paths. Cannot specify both";
            let whole = text::document(self.spec);
            return fail(40176, format!("{text} '{path}' and '{conflict}': {whole}"));
        }
        self.seen.insert(key);
        Ok(())
    }
}

/// Adds a field to the tree: an expression, or the fields of a nested object.
fn addition(tree: &mut Tree, path: &FieldPath, value: View<'_>, context: &QueryContext) -> Result<()> {
    match value {
        View::Document(document) if document.iter().all(|(name, _)| !name.starts_with('$')) => {
            let inner = inner_at(tree, path)?;
            for (name, value) in document.iter() {
                check_name(name)?;
                addition(inner, &FieldPath::parse(name)?, value, context)?;
            }
            Ok(())
        }
        _ => {
            let expression = Expression::operand(value, scope_of(context))?;
            add(tree, path, path.parts(), Child::Compute(expression))
        }
    }
}
