//! Applying a tree of operators to a document.

use bson::{Bson, Document};

use super::log::{Log, Oplog};
use super::operators::{At, Change, id_shown};
use super::parse::{ArrayNode, Node, ObjectNode, Tree, merge};
use super::{Applied, ApplyContext, storage};
use crate::error::{Result, fail};
use crate::value::text;

/// An array is not padded with more nulls than this.
const MAX_PADDING: usize = 1_500_000;

/// Applies an update to a document that exists.
pub(super) fn apply(
    tree: &Tree,
    document: Document,
    array_position: Option<usize>,
    context: &ApplyContext,
) -> Result<Applied> {
    let mut run = Run::new(tree, &document, array_position, context, false)?;
    let mut root = Bson::Document(document);
    run.object(&tree.root, &mut root, "")?;
    run.finish(tree, root)
}

/// Applies an update to the document that an upsert is about to insert.
pub(super) fn apply_to_insert(tree: &Tree, document: Document, context: &ApplyContext) -> Result<Document> {
    let mut run = Run::new(tree, &document, None, context, true)?;
    let mut root = Bson::Document(document);
    run.object(&tree.root, &mut root, "")?;
    run.finish(tree, root).map(|applied| applied.document)
}

struct Run<'u> {
    context: &'u ApplyContext,
    array_position: Option<usize>,
    insert: bool,
    /// `_id`, for error texts.
    id: Option<Bson>,
    /// The value of each rename's source.
    renamed: Vec<Option<Bson>>,
    log: Log,
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn last_name(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// A position in an array: digits without a leading zero.
fn position(name: &str) -> Option<usize> {
    let plain = name == "0" || !name.starts_with('0');
    (plain && !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())).then(|| name.parse().ok())?
}

impl<'u> Run<'u> {
    fn new(
        tree: &Tree,
        document: &Document,
        array_position: Option<usize>,
        context: &'u ApplyContext,
        insert: bool,
    ) -> Result<Self> {
        let id = document.get("_id").cloned();
        let mut run = Self { context, array_position, insert, id, renamed: Vec::new(), log: Log::default() };
        for rename in &tree.renames {
            let source = run.plain_value(document, &rename.from, "source")?.cloned();
            if source.is_some() {
                run.plain_value(document, &rename.to, "destination")?;
            }
            run.renamed.push(source);
        }
        Ok(run)
    }

    /// The value at a path that must not run through an array.
    fn plain_value<'d>(&self, document: &'d Document, path: &str, which: &str) -> Result<Option<&'d Bson>> {
        let mut at = document;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            let value = at.get(part);
            if parts.peek().is_none() {
                return Ok(value);
            }
            match value {
                Some(Bson::Document(inner)) => at = inner,
                Some(Bson::Array(_)) => {
                    let text = format!("The {which} field cannot be an array element, '{path}' in doc with");
                    return fail(
                        2,
                        format!("{text} {} has an array field called '{part}'", id_shown(self.id.as_ref())),
                    );
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    fn finish(mut self, tree: &Tree, root: Bson) -> Result<Applied> {
        let Bson::Document(mut document) = root else { return fail(1, "an update lost its document") };
        for (rename, value) in tree.renames.iter().zip(&self.renamed) {
            if value.is_some() {
                remove_path(&mut document, &rename.from);
                self.check_immutable(&rename.from)?;
                self.log.unset(&rename.from);
            }
        }
        let changed = self.log.len() > 0;
        if changed && super::too_deep((&document).into(), 181) {
            return fail(15, "Document exceeds maximum nested object depth");
        }
        Ok(Applied { document, changed, oplog: Oplog::Changes(self.log) })
    }

    fn check_immutable(&self, path: &str) -> Result<()> {
        if path == "_id" || path.starts_with("_id.") {
            let text = format!("Performing an update on the path '{path}' would modify the immutable field '_id'");
            return fail(66, text);
        }
        Ok(())
    }

    /// The children of a node with the positional one in its place.
    fn children<'n>(&self, node: &'n ObjectNode, path: &str) -> Result<Vec<(String, std::borrow::Cow<'n, Node>)>> {
        use std::borrow::Cow;
        let mut children: Vec<_> =
            node.children.iter().map(|(name, child)| (name.clone(), Cow::Borrowed(child))).collect();
        if let Some(positional) = &node.positional {
            let Some(at) = self.array_position else {
                return fail(2, "The positional operator did not find the match needed from the query.");
            };
            let name = at.to_string();
            match children.iter_mut().find(|(known, _)| *known == name) {
                Some((_, child)) => *child = Cow::Owned(merge(child, positional, &join(path, &name))?),
                None => children.push((name, Cow::Borrowed(positional))),
            }
            children.sort_by(|left, right| left.0.cmp(&right.0));
        }
        Ok(children)
    }

    /// Applies the children of a node to a value that exists.
    fn object(&mut self, node: &ObjectNode, target: &mut Bson, path: &str) -> Result<()> {
        for (name, child) in self.children(node, path)? {
            let here = join(path, &name);
            match &mut *target {
                Bson::Document(document) => match document.get_mut(&name) {
                    Some(value) => {
                        if self.existing(&child, value, &here)? {
                            document.remove(&name);
                        }
                    }
                    None => {
                        if let Some(value) = self.missing(&child, &here)? {
                            if !path.is_empty() {
                                self.check_immutable(path)?;
                            }
                            document.insert(name, value);
                        }
                    }
                },
                Bson::Array(values) => match position(&name) {
                    Some(at) if at < values.len() => {
                        if self.existing(&child, &mut values[at], &here)? {
                            // the other elements keep their positions
                            values[at] = Bson::Null;
                        }
                    }
                    at => {
                        if let Some(value) = self.missing(&child, &here)? {
                            let Some(at) = at else { return not_viable(&name, path, target) };
                            if at - values.len() > MAX_PADDING {
                                return fail(34, format!("can't backfill more than {MAX_PADDING} elements"));
                            }
                            values.resize(at, Bson::Null);
                            values.push(value);
                        }
                    }
                },
                _ => {
                    if self.missing(&child, &here)?.is_some() {
                        return not_viable(&name, path, target);
                    }
                }
            }
        }
        Ok(())
    }

    /// Applies a node to a value that exists; `true` when the value goes away.
    fn existing(&mut self, node: &Node, value: &mut Bson, path: &str) -> Result<bool> {
        match node {
            Node::Object(node) => self.object(node, value, path).map(|()| false),
            Node::Array(node) => self.array(node, value, path).map(|()| false),
            Node::RenameSource => Ok(false),
            Node::RenameTarget(number) => {
                if let Some(new) = self.renamed.get(*number).cloned().flatten() {
                    if !storage::identical(value, &new) {
                        self.check_immutable(path)?;
                    }
                    storage::check_value(&new, path, self.context.dollars())?;
                    self.log.set(path, new.clone());
                    *value = new;
                }
                Ok(false)
            }
            Node::Operator(operator) => {
                let at = self.at(path);
                let change = operator.update(value, &at)?;
                if !matches!(change, Change::None) {
                    self.check_immutable(path)?;
                }
                match change {
                    Change::None => return Ok(false),
                    Change::Removed => {
                        self.log.unset(path);
                        return Ok(true);
                    }
                    Change::Set => {
                        storage::check_value(value, path, self.context.dollars())?;
                        self.log.set(path, value.clone());
                    }
                    Change::Appended(from) => {
                        storage::check_value(value, path, self.context.dollars())?;
                        let Bson::Array(values) = &*value else { return Ok(false) };
                        for (at, value) in values.iter().enumerate().skip(from) {
                            self.log.set(&format!("{path}.{at}"), value.clone());
                        }
                    }
                }
                Ok(false)
            }
        }
    }

    fn at<'a>(&'a self, path: &'a str) -> At<'a> {
        At { path, name: last_name(path), id: self.id.as_ref(), context: self.context, insert: self.insert }
    }

    /// What a node makes where nothing is.
    fn missing(&mut self, node: &Node, path: &str) -> Result<Option<Bson>> {
        let made = match node {
            Node::Object(node) => {
                let mut document = Document::new();
                for (name, child) in self.children(node, path)? {
                    if let Some(value) = self.missing(&child, &join(path, &name))? {
                        document.insert(name, value);
                    }
                }
                return Ok((!document.is_empty()).then_some(Bson::Document(document)));
            }
            Node::Array(_) => {
                let text = format!("The path '{path}' must exist in the document in order to apply array updates.");
                return fail(2, text);
            }
            Node::RenameSource => return Ok(None),
            Node::RenameTarget(number) => self.renamed.get(*number).cloned().flatten(),
            Node::Operator(operator) => operator.create(&self.at(path))?,
        };
        if let Some(value) = &made {
            storage::check_value(value, path, self.context.dollars())?;
            self.log.set(path, value.clone());
        }
        Ok(made)
    }

    /// Applies a node to the elements of an array.
    fn array(&mut self, node: &ArrayNode, value: &mut Bson, path: &str) -> Result<()> {
        let Bson::Array(values) = &mut *value else {
            let shown = text::element(last_name(path), (&*value).into());
            return fail(2, format!("Cannot apply array updates to non-array element {shown}"));
        };
        let start = self.log.len();
        let mut changed = 0;
        for (at, element) in values.iter_mut().enumerate() {
            let mut chosen: Option<Node> = None;
            for (identifier, (filter, child)) in &node.children {
                let matches = match filter {
                    None => true,
                    Some(filter) => filter.matches_as_field(identifier, (&*element).into())?,
                };
                if matches {
                    chosen = Some(match chosen {
                        None => child.clone(),
                        Some(earlier) => merge(&earlier, child, &join(path, &at.to_string()))?,
                    });
                }
            }
            let Some(child) = chosen else { continue };
            let before = self.log.len();
            if self.existing(&child, element, &join(path, &at.to_string()))? {
                *element = Bson::Null;
            }
            changed += usize::from(self.log.len() > before);
        }
        if changed > 1 {
            // one entry for the array is shorter than one for each element
            self.log.truncate(start);
            let whole = value.clone();
            self.log.set(path, whole);
        }
        Ok(())
    }
}

fn not_viable<T>(name: &str, path: &str, element: &Bson) -> Result<T> {
    let shown = text::element(last_name(path), element.into());
    fail(28, format!("Cannot create field '{name}' in element {{{shown}}}"))
}

fn remove_path(document: &mut Document, path: &str) {
    match path.split_once('.') {
        None => {
            document.remove(path);
        }
        Some((head, rest)) => {
            if let Some(Bson::Document(inner)) = document.get_mut(head) {
                remove_path(inner, rest);
            }
        }
    }
}
