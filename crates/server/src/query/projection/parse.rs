//! Parsing projections.

use bson::Document;

use super::{Child, Mode, Projection, Tree, scope_of};
use crate::aggregate::expression::{Expression, FieldPath, table};
use crate::error::{Result, fail};
use crate::query::QueryContext;
use crate::query::matcher::{Matcher, too_deep};
use crate::value::{DocView, View, text};

/// What a place allows in a projection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// `$slice`, `$elemMatch` and the positional operator of `find`.
    find: bool,
}

impl Policy {
    pub(super) const FIND: Self = Self { find: true };
    pub(super) const PROJECT: Self = Self { find: false };
}

struct Parser<'c> {
    context: &'c QueryContext,
    policy: Policy,
    mode: Option<Mode>,
    id_named: bool,
    id_included: bool,
    id_excluded: bool,
    has_slice: bool,
    has_element_match: bool,
    has_position: bool,
    late: Vec<(Vec<String>, Child)>,
}

/// Nesting beyond this is refused.
pub(super) const MAX_NESTING: usize = 200;

/// Parses a projection that includes or excludes.
pub(super) fn parse(spec: DocView<'_>, context: &QueryContext, policy: Policy) -> Result<Projection> {
    if spec.is_empty() {
        return fail(51272, "projection specification must have at least one field");
    }
    if too_deep(View::Document(spec), MAX_NESTING) {
        return fail(15, format!("projection exceeds the nesting limit of {MAX_NESTING}"));
    }
    let mut parser = Parser {
        context,
        policy,
        mode: None,
        id_named: false,
        id_included: false,
        id_excluded: false,
        has_slice: false,
        has_element_match: false,
        has_position: false,
        late: Vec::new(),
    };
    let mut tree = Tree::default();
    for (name, value) in spec.iter() {
        parser.id_named |= name == "_id" || name.starts_with("_id.");
        parser.element(&mut tree, &[], name, value)?;
    }
    let mode = parser.mode.unwrap_or(match () {
        () if parser.has_slice && parser.id_included => Mode::Inclusion,
        () if parser.has_slice => Mode::Exclusion,
        () if parser.has_element_match => Mode::Inclusion,
        () if parser.id_included => Mode::Inclusion,
        () => Mode::Exclusion,
    });
    if mode == Mode::Inclusion && !parser.id_named {
        tree.children.insert(0, ("_id".to_owned(), Child::Include));
    }
    if mode == Mode::Exclusion && parser.id_included {
        tree.children.retain(|(name, _)| name != "_id");
    }
    // late fields keep their values until the end
    if mode == Mode::Inclusion {
        for (path, child) in &parser.late {
            if !matches!(child, Child::ElementMatch(_)) {
                include_path(&mut tree, path);
            }
        }
    }
    Ok(finish(mode, tree, parser.late, context))
}

pub(super) fn finish(
    mode: Mode,
    mut tree: Tree,
    late: Vec<(Vec<String>, Child)>,
    context: &QueryContext,
) -> Projection {
    mark_computed(&mut tree);
    Projection { mode, tree, late, slots: context.slots.clone(), globals: context.globals() }
}

fn mark_computed(tree: &mut Tree) -> bool {
    let mut computed = false;
    for (_, child) in &mut tree.children {
        computed |= match child {
            Child::Compute(_) => true,
            Child::Inner(inner) => mark_computed(inner),
            _ => false,
        };
    }
    tree.computed = computed;
    computed
}

fn include_path(tree: &mut Tree, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    let at = match tree.children.iter().position(|(name, _)| name == first) {
        Some(at) => at,
        None => {
            let child = if rest.is_empty() { Child::Include } else { Child::Inner(Tree::default()) };
            tree.children.push((first.clone(), child));
            tree.children.len() - 1
        }
    };
    if let (_, Child::Inner(inner)) = &mut tree.children[at] {
        include_path(inner, rest);
    }
}

/// Adds a node; parts of the path that exist already must be inner nodes.
pub(super) fn add(tree: &mut Tree, path: &FieldPath, parts: &[Box<str>], child: Child) -> Result<()> {
    let Some((first, rest)) = parts.split_first() else { return Ok(()) };
    let at = tree.children.iter().position(|(name, _)| **name == **first);
    if rest.is_empty() {
        if at.is_some() {
            return fail(31250, format!("Path collision at {}", path.dotted()));
        }
        tree.children.push((first.to_string(), child));
        return Ok(());
    }
    let at = at.unwrap_or_else(|| {
        tree.children.push((first.to_string(), Child::Inner(Tree::default())));
        tree.children.len() - 1
    });
    match &mut tree.children[at].1 {
        Child::Inner(inner) => add(inner, path, rest, child),
        _ => {
            let whole = path.dotted();
            let tail = path.parts()[1..].join(".");
            fail(31249, format!("Path collision at {whole} remaining portion {tail}"))
        }
    }
}

/// The inner node at a path, made if it is not there.
pub(super) fn inner_at<'t>(tree: &'t mut Tree, path: &FieldPath) -> Result<&'t mut Tree> {
    let exists = {
        let mut at = Some(&*tree);
        for part in path.parts() {
            at = at.and_then(|tree| match tree.child(part) {
                Some(Child::Inner(inner)) => Some(inner),
                _ => None,
            });
        }
        at.is_some()
    };
    if !exists {
        add(tree, path, path.parts(), Child::Inner(Tree::default()))?;
    }
    let mut at = tree;
    for part in path.parts() {
        let found = at.children.iter_mut().find(|(name, _)| **name == **part);
        at = match found {
            Some((_, Child::Inner(inner))) => inner,
            _ => return fail(31250, format!("Path collision at {}", path.dotted())),
        };
    }
    Ok(at)
}

impl Parser<'_> {
    /// One field of a projection. `parents` are the names above it.
    fn element(&mut self, tree: &mut Tree, parents: &[String], name: &str, value: View<'_>) -> Result<()> {
        let positional = name.ends_with(".$");
        if positional && !self.policy.find {
            return fail(31324, "Cannot use positional projection in aggregation projection");
        }
        if name.contains(".$.") {
            let text = "As of 4.4, it's illegal to specify positional operator in the middle of a path.\
                Positional projection may only be used at the end, for example: a.b.$. If the query \
                previously used a form like a.b.$.d, remove the parts following the '$' and the \
                results will be equivalent.";
            return fail(31394, text);
        }
        match value {
            View::Document(document) => {
                if positional {
                    return fail(31271, "positional projection cannot be used with an expression or sub object");
                }
                self.object(tree, parents, name, document)
            }
            View::Bool(_) | View::Int32(_) | View::Int64(_) | View::Double(_) | View::Decimal(_) => {
                if value.is_true() {
                    self.inclusion(tree, parents, name, positional)
                } else if positional {
                    fail(31395, "positional projection cannot be used with exclusion")
                } else {
                    self.exclusion(tree, parents, name)
                }
            }
            _ if positional => fail(31308, "positional projection cannot be used with a literal"),
            literal => {
                let expression = Expression::operand(literal, scope_of(self.context))?;
                let path = FieldPath::parse(name)?;
                add(tree, &path, path.parts(), Child::Compute(expression))?;
                if self.mode == Some(Mode::Exclusion) {
                    let shown = text::element(name, literal);
                    return fail(31310, format!("Cannot use an expression {shown} in an exclusion projection"));
                }
                self.mode = Some(Mode::Inclusion);
                Ok(())
            }
        }
    }

    fn inclusion(&mut self, tree: &mut Tree, parents: &[String], name: &str, positional: bool) -> Result<()> {
        let whole_id = name == "_id" && parents.is_empty();
        if positional {
            if self.has_position {
                return fail(31276, "Cannot specify more than one positional projection per query.");
            }
            if self.has_element_match {
                return fail(31256, "Cannot specify positional operator and $elemMatch.");
            }
            let path = FieldPath::parse(&name[..name.len() - 2])?;
            self.has_position = true;
            self.push_late(parents, &path, Child::Position);
        } else {
            let path = FieldPath::parse(name)?;
            add(tree, &path, path.parts(), Child::Include)?;
        }
        if whole_id {
            self.id_included = true;
            return Ok(());
        }
        if self.mode == Some(Mode::Exclusion) {
            return fail(31253, format!("Cannot do inclusion on field {name} in exclusion projection"));
        }
        self.mode = Some(Mode::Inclusion);
        Ok(())
    }

    fn push_late(&mut self, parents: &[String], path: &FieldPath, child: Child) {
        let parts = parents.iter().cloned().chain(path.parts().iter().map(|part| part.to_string())).collect();
        self.late.push((parts, child));
    }

    fn exclusion(&mut self, tree: &mut Tree, parents: &[String], name: &str) -> Result<()> {
        let path = FieldPath::parse(name)?;
        add(tree, &path, path.parts(), Child::Exclude)?;
        if name == "_id" && parents.is_empty() {
            self.id_excluded = true;
            return Ok(());
        }
        if self.mode == Some(Mode::Inclusion) {
            return fail(31254, format!("Cannot do exclusion on field {name} in inclusion projection"));
        }
        self.mode = Some(Mode::Exclusion);
        Ok(())
    }

    fn object(&mut self, tree: &mut Tree, parents: &[String], name: &str, object: DocView<'_>) -> Result<()> {
        let Some((first, operand)) = object.iter().next() else {
            return fail(51270, format!("Invalid empty sub-projection: {name}"));
        };
        let path = FieldPath::parse(name)?;
        let lone = object.iter().nth(1).is_none();
        if lone && first.starts_with('$') {
            if self.operator(tree, parents, &path, first, operand, object)? {
                return Ok(());
            }
            let field = first.strip_suffix(".$").unwrap_or(first);
            if FieldPath::parse(field).is_err() {
                return fail(31325, format!("Unknown expression {first}"));
            }
        }
        let full: Vec<String> =
            parents.iter().cloned().chain(path.parts().iter().map(|part| part.to_string())).collect();
        let inner = inner_at(tree, &path)?;
        for (name, value) in object.iter() {
            self.element(inner, &full, name, value)?;
        }
        Ok(())
    }

    /// A document with one operator; `false` when it is none.
    fn operator(
        &mut self,
        tree: &mut Tree,
        parents: &[String],
        path: &FieldPath,
        name: &str,
        operand: View<'_>,
        object: DocView<'_>,
    ) -> Result<bool> {
        if !self.policy.find {
            if name == "$elemMatch" {
                return fail(168, "Cannot use $elemMatch in this context");
            }
            return self.expression(tree, path, name, object);
        }
        match name {
            "$slice" => match find_slice(operand) {
                Ok(slice) => {
                    self.has_slice = true;
                    self.reserve(tree, path)?;
                    self.push_late(parents, path, slice);
                    Ok(true)
                }
                Err(error) => self.expression(tree, path, name, object).map_err(|other| {
                    let shown = text::document(object);
                    let why = format!("Location{}: {}", error.code, error.message);
                    other.caused_by(&format!(
                        "Invalid $slice syntax. The given syntax {shown} did not match the find() syntax because :: \
                         {why} :: The given syntax did not match the expression $slice syntax."
                    ))
                }),
            },
            "$elemMatch" => {
                if operand.as_document().is_none() {
                    let kind = operand.type_name();
                    return fail(31274, format!("elemMatch: Invalid argument, object required, but got {kind}"));
                }
                if self.has_position {
                    return fail(31255, "Cannot specify positional operator and $elemMatch.");
                }
                if !parents.is_empty() || path.parts().len() > 1 {
                    return fail(31275, "Cannot use $elemMatch projection on a nested field.");
                }
                let filter = Document::from_iter([(path.dotted(), View::Document(object).to_bson()?)]);
                let context = self.context.without_features();
                let matcher = Matcher::parse_view((&filter).into(), &context)?;
                self.has_element_match = true;
                self.reserve(tree, path)?;
                self.push_late(parents, path, Child::ElementMatch(Box::new(matcher)));
                Ok(true)
            }
            _ => self.expression(tree, path, name, object),
        }
    }

    /// Checks that nothing else was said about a path whose value is changed late.
    fn reserve(&self, tree: &mut Tree, path: &FieldPath) -> Result<()> {
        let mut probe = tree.clone();
        add(&mut probe, path, path.parts(), Child::Include)
    }

    fn expression(&mut self, tree: &mut Tree, path: &FieldPath, name: &str, object: DocView<'_>) -> Result<bool> {
        if table::find(name).is_none() {
            return Ok(false);
        }
        let meta = name == "$meta";
        if self.mode == Some(Mode::Exclusion) && !meta {
            return fail(31252, "Cannot use expression other than $meta in exclusion projection");
        }
        if !meta {
            self.mode = Some(Mode::Inclusion);
        }
        let expression = Expression::object(object, scope_of(self.context))?;
        add(tree, path, path.parts(), Child::Compute(expression))?;
        Ok(true)
    }
}

fn find_slice(operand: View<'_>) -> Result<Child> {
    if let Some(number) = operand.number() {
        return Ok(Child::Slice { skip: None, limit: number.to_i64_saturating() });
    }
    let View::Array(array) = operand else {
        return fail(31273, "$slice only supports numbers and [skip, limit] arrays");
    };
    let (Some(skip), Some(limit), None) = (array.get(0), array.get(1), array.get(2)) else {
        return fail(31272, "$slice array argument should be of form [skip, limit]");
    };
    let Some(skip_number) = skip.number() else {
        return fail(31257, format!("$slice expects the skip argument to be a number, got {}", skip.type_name()));
    };
    let Some(limit_number) = limit.number() else {
        return fail(31258, format!("$slice expects the limit argument to be a number, got {}", limit.type_name()));
    };
    let limit = limit_number.to_i64_saturating();
    if limit <= 0 {
        return fail(31259, format!("$slice limit must be positive, got {limit}"));
    }
    Ok(Child::Slice { skip: Some(skip_number.to_i64_saturating()), limit })
}
