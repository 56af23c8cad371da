//! The values that a filter fixes: the start of an upserted document.
//!
//! Equalities at the top, below `$and`, below an `$or` of one branch, below `$all` of one value, and an `$in` of one
//! value count.

use bson::Bson;

use super::comparison::Operator;
use super::node::{Node, Test};
use crate::error::{Result, fail};

/// The equalities of a filter, in order.
pub(crate) fn collect(root: &Node) -> Result<Vec<(String, Bson)>> {
    let mut found = Vec::new();
    visit(root, &mut found)?;
    Ok(found)
}

/// Whether the filter asks for nothing but equalities.
pub(crate) fn is_all(root: &Node) -> bool {
    match root {
        Node::And(children) => children.iter().all(is_all),
        Node::Or(children) => children.len() == 1 && is_all(&children[0]),
        Node::Leaf { test: Test::Compare { operator: Operator::Equal, .. }, .. } => true,
        Node::Leaf { test: Test::In(list), .. } => list.regexes().is_empty() && list.values().len() == 1,
        _ => false,
    }
}

fn visit(node: &Node, found: &mut Vec<(String, Bson)>) -> Result<()> {
    match node {
        Node::And(children) => children.iter().try_for_each(|child| visit(child, found)),
        Node::Or(children) if children.len() == 1 => visit(&children[0], found),
        Node::Leaf { path, test: Test::Compare { operator: Operator::Equal, operand, .. } } => {
            add(path.dotted(), operand, found)
        }
        Node::Leaf { path, test: Test::In(list) } if list.regexes().is_empty() => match list.values() {
            [one] => add(path.dotted(), one, found),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn add(path: &str, value: &Bson, found: &mut Vec<(String, Bson)>) -> Result<()> {
    for (earlier, _) in found.iter() {
        if earlier == path {
            return fail(54, format!("cannot infer query fields to set, path '{path}' is matched twice"));
        }
        let below = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'));
        if below(earlier, path) || below(path, earlier) {
            let text = format!("cannot infer query fields to set, both paths '{path}' and '{earlier}' are matched");
            return fail(54, text);
        }
    }
    found.push((path.to_owned(), value.clone()));
    Ok(())
}
