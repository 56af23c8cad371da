//! An update of operators as a tree of paths.
//!
//! Every path leads to one operator; two paths of which one is the other or lies below it are a conflict. `$` stands for
//! the position at which the filter matched, `$[]` for every element, `$[id]` for those that an array filter matches.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, Document};

use super::UpdateOptions;
use super::array_filters::{self, ArrayFilters};
use super::operators::{self, Operator};
use crate::error::{Result, fail};
use crate::query::Matcher;
use crate::value::View;

/// A parsed update.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) root: ObjectNode,
    pub(super) renames: Vec<Rename>,
}

/// One `$rename`.
#[derive(Debug, Clone)]
pub(super) struct Rename {
    pub(super) from: String,
    pub(super) to: String,
}

/// A node of the tree.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Object(ObjectNode),
    Array(ArrayNode),
    Operator(Arc<dyn Operator>),
    /// The target of the rename with this number.
    RenameTarget(usize),
    /// The source of a rename: nothing else may touch it.
    RenameSource,
}

/// Fields of a document (or positions of an array).
#[derive(Debug, Clone, Default)]
pub(super) struct ObjectNode {
    pub(super) children: BTreeMap<String, Node>,
    pub(super) positional: Option<Box<Node>>,
}

/// Elements of an array, by identifier; the empty one stands for all.
#[derive(Debug, Clone, Default)]
pub(super) struct ArrayNode {
    pub(super) children: BTreeMap<String, (Option<Matcher>, Node)>,
}

impl Tree {
    /// Whether some path has the positional operator.
    pub(super) fn has_positional(&self) -> bool {
        fn object(node: &ObjectNode) -> bool {
            node.positional.is_some() || node.children.values().any(any)
        }
        fn any(node: &Node) -> bool {
            match node {
                Node::Object(node) => object(node),
                Node::Array(node) => node.children.values().any(|(_, child)| any(child)),
                _ => false,
            }
        }
        object(&self.root)
    }
}

/// Parses an update of operators.
pub(super) fn parse(update: &Document, options: &UpdateOptions<'_>) -> Result<Tree> {
    let filters = array_filters::parse(options)?;
    let mut tree = Tree { root: ObjectNode::default(), renames: Vec::new() };
    for (name, fields) in update {
        let known = name == "$rename" || operators::find(name).is_some();
        if !known {
            let text = "Expected a valid update modifier or pipeline-style update specified as an array";
            return fail(9, format!("Unknown modifier: {name}. {text}"));
        }
        let Bson::Document(fields) = fields else {
            let found = View::from(fields).type_name();
            let text = format!("Modifiers operate on fields but we found type {found} instead.");
            return fail(9, format!("{text} For example: {{$mod: {{<field>: ...}}}} not {{{}}}", shown(name, update)));
        };
        if fields.is_empty() && !options.empty_operators {
            return fail(
                9,
                format!("'{name}' is empty. You must specify a field like so: {{{name}: {{<field>: ...}}}}"),
            );
        }
        for (path, operand) in fields {
            if name == "$rename" {
                rename(&mut tree, path, operand, &filters)?;
                continue;
            }
            check_path(path)?;
            let Some(parse) = operators::find(name) else { continue };
            let operator = parse(path, operand, options.context)?;
            add(&mut tree.root, path, &filters, Node::Operator(operator))?;
        }
    }
    filters.refuse_unused(update)?;
    Ok(tree)
}

fn shown(name: &str, update: &Document) -> String {
    update.get(name).map_or_else(String::new, |value| crate::value::text::element(name, value.into()))
}

/// Checks that a path may be updated.
fn check_path(path: &str) -> Result<()> {
    if path.is_empty() {
        return fail(56, "An empty update path is not valid.");
    }
    if path.split('.').any(str::is_empty) {
        return fail(56, format!("The update path '{path}' contains an empty field name, which is not allowed."));
    }
    let positions = || path.split('.').enumerate().filter(|(_, part)| *part == "$");
    if positions().count() > 1 {
        return fail(2, format!("Too many positional (i.e. '$') elements found in path '{path}'"));
    }
    if positions().any(|(at, _)| at == 0) {
        let text = "Cannot have positional (i.e. '$') element in the first position in path";
        return fail(2, format!("{text} '{path}'"));
    }
    Ok(())
}

fn identifier(part: &str) -> Option<&str> {
    part.strip_prefix("$[")?.strip_suffix(']')
}

fn is_dynamic(path: &str) -> bool {
    path.split('.').any(|part| part == "$" || identifier(part).is_some())
}

fn rename(tree: &mut Tree, from: &str, operand: &Bson, filters: &ArrayFilters) -> Result<()> {
    let shown = || crate::value::text::element(from, operand.into());
    let Bson::String(to) = operand else {
        return fail(2, format!("The 'to' field for $rename must be a string: {}", shown()));
    };
    if to.contains('\0') {
        return fail(2, format!("The 'to' field for $rename cannot contain an embedded null byte: {}", shown()));
    }
    check_path(from)?;
    check_path(to)?;
    if from == to {
        return fail(2, format!("The source and target field for $rename must differ: {}", shown()));
    }
    let below = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'));
    if below(from, to) || below(to, from) {
        return fail(2, format!("The source and target field for $rename must not be on the same path: {}", shown()));
    }
    if is_dynamic(from) {
        return fail(2, format!("The source field for $rename may not be dynamic: {from}"));
    }
    if is_dynamic(to) {
        return fail(2, format!("The destination field for $rename may not be dynamic: {to}"));
    }
    add(&mut tree.root, to, filters, Node::RenameTarget(tree.renames.len()))?;
    add(&mut tree.root, from, filters, Node::RenameSource)?;
    tree.renames.push(Rename { from: from.to_owned(), to: to.clone() });
    Ok(())
}

fn conflict<T>(path: &str, at: &str) -> Result<T> {
    fail(40, format!("Updating the path '{path}' would create a conflict at '{at}'"))
}

/// Adds a node at a path.
fn add(root: &mut ObjectNode, path: &str, filters: &ArrayFilters, node: Node) -> Result<()> {
    let parts: Vec<&str> = path.split('.').collect();
    if identifier(parts[0]).is_some() {
        let text = "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path";
        return fail(2, format!("{text} '{path}'"));
    }
    for part in &parts {
        if let Some(name) = identifier(part)
            && !name.is_empty()
            && filters.find(name).is_none()
        {
            return fail(2, format!("No array filter found for identifier '{name}' in path '{path}'"));
        }
    }
    add_to_object(root, path, &parts, 0, filters, node)
}

/// A new chain of nodes for the parts from `at` on.
fn chain(parts: &[&str], at: usize, filters: &ArrayFilters, node: Node) -> Node {
    let Some(part) = parts.get(at) else { return node };
    let inner = chain(parts, at + 1, filters, node);
    match identifier(part) {
        Some(name) => {
            let filter = filters.find(name).cloned();
            Node::Array(ArrayNode { children: BTreeMap::from([(name.to_owned(), (filter, inner))]) })
        }
        None if *part == "$" => Node::Object(ObjectNode { positional: Some(Box::new(inner)), ..ObjectNode::default() }),
        None => Node::Object(ObjectNode { children: BTreeMap::from([((*part).to_owned(), inner)]), positional: None }),
    }
}

fn add_to_object(
    object: &mut ObjectNode,
    path: &str,
    parts: &[&str],
    at: usize,
    filters: &ArrayFilters,
    node: Node,
) -> Result<()> {
    let part = parts[at];
    if part == "$" {
        return match &mut object.positional {
            Some(existing) => add_to_node(existing, path, parts, at + 1, filters, node),
            slot => {
                *slot = Some(Box::new(chain(parts, at + 1, filters, node)));
                Ok(())
            }
        };
    }
    match object.children.get_mut(part) {
        Some(existing) => add_to_node(existing, path, parts, at + 1, filters, node),
        None => {
            object.children.insert(part.to_owned(), chain(parts, at + 1, filters, node));
            Ok(())
        }
    }
}

fn add_to_node(
    existing: &mut Node,
    path: &str,
    parts: &[&str],
    at: usize,
    filters: &ArrayFilters,
    node: Node,
) -> Result<()> {
    let here = || parts[..at].join(".");
    let Some(part) = parts.get(at) else { return conflict(path, &here()) };
    match (existing, identifier(part)) {
        (Node::Object(object), None) => add_to_object(object, path, parts, at, filters, node),
        (Node::Array(array), Some(name)) => match array.children.get_mut(name) {
            Some((_, inner)) => add_to_node(inner, path, parts, at + 1, filters, node),
            None => {
                let filter = filters.find(name).cloned();
                array.children.insert(name.to_owned(), (filter, chain(parts, at + 1, filters, node)));
                Ok(())
            }
        },
        _ => conflict(path, &here()),
    }
}

/// Merges two nodes that turn out to stand for the same place.
pub(super) fn merge(left: &Node, right: &Node, path: &str) -> Result<Node> {
    let pair = |left: Option<&Node>, right: Option<&Node>, path: &str| match (left, right) {
        (Some(left), Some(right)) => merge(left, right, path),
        (Some(one), None) | (None, Some(one)) => Ok(one.clone()),
        (None, None) => conflict(path, path),
    };
    match (left, right) {
        (Node::Object(left), Node::Object(right)) => {
            let mut merged = ObjectNode::default();
            for name in left.children.keys().chain(right.children.keys()) {
                if !merged.children.contains_key(name) {
                    let child = pair(left.children.get(name), right.children.get(name), &format!("{path}.{name}"))?;
                    merged.children.insert(name.clone(), child);
                }
            }
            if left.positional.is_some() || right.positional.is_some() {
                let child = pair(left.positional.as_deref(), right.positional.as_deref(), &format!("{path}.$"))?;
                merged.positional = Some(Box::new(child));
            }
            Ok(Node::Object(merged))
        }
        (Node::Array(left), Node::Array(right)) => {
            let mut merged = ArrayNode::default();
            for name in left.children.keys().chain(right.children.keys()) {
                if !merged.children.contains_key(name) {
                    let (l, r) = (left.children.get(name), right.children.get(name));
                    let place = format!("{path}.$[{name}]");
                    let child = pair(l.map(|(_, node)| node), r.map(|(_, node)| node), &place)?;
                    let filter = l.or(r).and_then(|(filter, _)| filter.clone());
                    merged.children.insert(name.clone(), (filter, child));
                }
            }
            Ok(Node::Array(merged))
        }
        _ => fail(40, format!("Update created a conflict at '{path}'")),
    }
}
