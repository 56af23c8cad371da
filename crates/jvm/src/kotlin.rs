//! Reads Kotlin into the common tree.
//!
//! The grammar has five known gaps that are closed here: a class on one line must end its last member with a semicolon, the body
//! of a class behind `by x` is read as a function for `x`, the name of a function that extends a plain type is read as part of
//! that type, `$name` inside a text is read as text, and `f<T>(x)` with one argument is read as two comparisons.

use std::borrow::Cow;

use tree_sitter::Node;

use crate::kotlin_outline;
use crate::outline;
use crate::scan::{Token, Tokens};
use crate::span::Range;
use crate::syntax::{Reader, child_of_kind, field, kids, named, number, other, parse, parse_from, range, unescape};
use crate::tree::*;

/// Reads a Kotlin file. Never fails: what cannot be read is a problem of the tree.
pub(crate) fn read(text: &str) -> Tree<'_> {
    let (readable, delegates) = readable(text);
    match kotlin_outline::bodies(text) {
        Some(bodies) if !bodies.is_empty() => {
            read_without(text, &readable, &delegates, bodies).unwrap_or_else(|| read_whole(text, &readable, delegates))
        }
        _ => read_whole(text, &readable, delegates),
    }
}

fn read_whole<'a>(text: &'a str, readable: &str, delegates: Vec<Delegate>) -> Tree<'a> {
    let mut reader = Kotlin::new(text, delegates);
    let mut tree = Tree::default();
    match parse(readable, &tree_sitter_kotlin_ng::LANGUAGE.into(), &[]) {
        Some(parsed) => {
            reader.file(parsed.root_node(), &mut tree);
            reader.note_errors(parsed.root_node());
        }
        None => reader.reader.problem(Range::default(), "too hard to parse: this file is not read".to_owned()),
    }
    tree.problems = reader.reader.problems;
    tree
}

/// Reads a file without the inside of these bodies. `None`: the rest is not understood, or something else had those braces.
fn read_without<'a>(text: &'a str, readable: &str, delegates: &[Delegate], bodies: Vec<Range>) -> Option<Tree<'a>> {
    let rest = outline::rest(&bodies, &[], u32::try_from(text.len()).ok()?);
    let parsed = parse(readable, &tree_sitter_kotlin_ng::LANGUAGE.into(), &rest)?;
    let mut reader = Kotlin::new(text, delegates.to_vec());
    reader.note_errors(parsed.root_node());
    if !reader.reader.problems.is_empty() {
        return None;
    }
    reader.reader.left = bodies;
    let mut tree = Tree::default();
    reader.file(parsed.root_node(), &mut tree);
    let reader = reader.reader;
    tree.left_out = u32::try_from(reader.left.len()).ok()?;
    tree.problems = reader.problems;
    (reader.left.len() == reader.left_found as usize).then_some(tree)
}

/// Reads a body that was left out, and says what is wrong with it.
pub(crate) fn read_body(text: &str, body: LeftOut) -> (Expr<'_>, Vec<(Range, String)>) {
    let part = Range { start: body.from, end: body.at.end };
    let base = part.start as usize;
    let (readable, mut delegates) = readable(text.get(base..part.end as usize).unwrap_or_default());
    for delegate in &mut delegates {
        (delegate.by, delegate.from, delegate.to) = (delegate.by + base, delegate.from + base, delegate.to + base);
    }
    let mut reader = Kotlin::new(text, delegates);
    reader.reader.depth = body.depth;
    let Some(parsed) = parse_from(&readable, base, &tree_sitter_kotlin_ng::LANGUAGE.into(), &[part]) else {
        reader.reader.problem(body.at, "too hard to parse: this function is not read".to_owned());
        return (other(body.at), reader.reader.problems);
    };
    let root = parsed.root_node();
    let function = child_of_kind(root, "function_declaration").and_then(|it| child_of_kind(it, "function_body"));
    let block = function.and_then(|it| child_of_kind(it, "block"));
    // Where the block itself is broken, its statements are the root's.
    let expr = reader.block(block.unwrap_or(root));
    reader.note_errors(root);
    (expr, reader.reader.problems)
}

/// What stands behind `by` in the head of a class, and where the `by` is.
#[derive(Clone)]
struct Delegate {
    by: usize,
    from: usize,
    to: usize,
}

/// The text as the grammar can read it; all places stay the same. The blank in front of a brace that closes a class on its last
/// member's line becomes a semicolon. `by x` in a class's head becomes blank, since the class's body would be read as a
/// function that `x` is given.
fn readable(text: &str) -> (Cow<'_, str>, Vec<Delegate>) {
    let bytes = text.as_bytes();
    let mut changed: Option<Vec<u8>> = None;
    let mut delegates: Vec<Delegate> = Vec::new();
    // Whether each open brace opens a class.
    let mut open = Vec::new();
    let mut head = false;
    let mut parentheses = 0_u32;
    let mut by: Option<usize> = None;
    let mut before = Token::Mark(b';');
    let mut end_before = 0;
    let mut tokens = Tokens::new(text);
    while let Some(token) = tokens.next() {
        let end = tokens.position();
        match token {
            Token::Word("class" | "interface" | "object") if !matches!(before, Token::Mark(b':' | b'.')) => {
                (head, parentheses, by) = (true, 0, None);
            }
            Token::Word("fun" | "val" | "var") if parentheses == 0 => (head, by) = (false, None),
            Token::Mark(b'(') => parentheses += 1,
            Token::Mark(b')') => parentheses = parentheses.saturating_sub(1),
            Token::Word("by") if head && parentheses == 0 => by = Some(end - 2),
            Token::Mark(mark @ (b'{' | b',')) if head && parentheses == 0 => {
                if let Some(by) = by.take() {
                    let text = changed.get_or_insert_with(|| bytes.to_vec());
                    text[by..end - 1].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
                    delegates.push(Delegate { by, from: by + 2, to: end - 1 });
                }
                if mark == b'{' {
                    open.push(true);
                    head = false;
                }
            }
            Token::Mark(b'{') => {
                open.push(false);
                head = false;
            }
            Token::Mark(b'}') => {
                let in_class = open.pop().unwrap_or(false);
                let between = bytes.get(end_before..end - 1).unwrap_or_default();
                let one_line = matches!(between.last(), Some(b' ' | b'\t')) && !between.contains(&b'\n');
                // Numbers and texts are no tokens.
                let literal = !between.trim_ascii().is_empty();
                let after_member = literal || !matches!(before, Token::Mark(b'{' | b';' | b',' | b'>'));
                if in_class && one_line && after_member {
                    changed.get_or_insert_with(|| bytes.to_vec())[end - 2] = b';';
                }
            }
            _ => {}
        }
        before = token;
        end_before = end;
    }
    match changed.map(String::from_utf8) {
        Some(Ok(changed)) => (Cow::Owned(changed), delegates),
        _ => (Cow::Borrowed(text), delegates),
    }
}

struct Kotlin<'a> {
    reader: Reader<'a>,
    /// Calls with type arguments whose argument is read as a part of a comparison: the argument's node, what is called, and the
    /// type.
    generic_calls: Vec<(usize, Expr<'a>, Type<'a>)>,
    delegates: Vec<Delegate>,
}

const TYPES: [&str; 5] = ["user_type", "nullable_type", "function_type", "non_nullable_type", "parenthesized_type"];

fn is_type(node: &Node<'_>) -> bool {
    TYPES.contains(&node.kind())
}

/// What follows a token such as `=` or `->`.
fn after<'t>(parts: &[Node<'t>], token: &str) -> Option<Node<'t>> {
    let at = parts.iter().position(|part| part.kind() == token)?;
    parts.get(at + 1).copied()
}

#[derive(Default)]
struct Modifiers<'a> {
    annotations: Vec<Annotation<'a>>,
    words: Vec<&'a str>,
}

impl Modifiers<'_> {
    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }
}

impl<'a> Kotlin<'a> {
    fn new(text: &'a str, delegates: Vec<Delegate>) -> Self {
        Self { reader: Reader::new(text), generic_calls: Vec::new(), delegates }
    }

    /// Notes the regions that the grammar could not read.
    fn note_errors(&mut self, root: Node<'_>) {
        self.reader.note_errors(root);
        // A missing name of an extension function is the grammar's gap, not the file's fault.
        let text = self.reader.text;
        let text_at = |at: Range| text.get(at.start as usize..at.end as usize).unwrap_or_default();
        let is_gap = |at: Range, what: &str| text_at(at).is_empty() && what.contains("identifier is missing");
        self.reader.problems.retain(|(at, what)| !is_gap(*at, what));
    }

    fn text(&self, node: Node<'_>) -> &'a str {
        self.reader.text(node).trim_matches('`')
    }

    fn deeper<T>(&mut self, node: Node<'_>, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.reader.depth >= crate::syntax::DEPTH_MAX {
            self.reader.deeper(node, |_| ());
            return None;
        }
        self.reader.depth += 1;
        let result = read(self);
        self.reader.depth -= 1;
        Some(result)
    }

    fn file(&mut self, root: Node<'_>, tree: &mut Tree<'a>) {
        for node in kids(root) {
            match node.kind() {
                "package_header" => tree.package = named(node).first().map_or("", |name| self.text(*name)),
                "import" => {
                    let parts = kids(node);
                    let Some(path) = child_of_kind(node, "qualified_identifier").map(|path| self.text(path)) else {
                        continue;
                    };
                    let name = after(&parts, "as").map_or(last_part(path), |name| self.text(name));
                    tree.imports.push(Import { path, name, star: parts.iter().any(|part| part.kind() == "*") });
                }
                "ERROR" => {
                    for kid in kids(node) {
                        self.top_level(kid, tree);
                    }
                }
                _ => self.top_level(node, tree),
            }
        }
    }

    fn top_level(&mut self, node: Node<'_>, tree: &mut Tree<'a>) {
        match node.kind() {
            "class_declaration" | "object_declaration" => tree.classes.extend(self.class(node)),
            "function_declaration" => tree.functions.extend(self.function(node)),
            "property_declaration" => {
                let fields = self.property(node);
                tree.fields.extend(fields);
            }
            _ => {}
        }
    }

    fn modifiers(&mut self, node: Node<'_>) -> Modifiers<'a> {
        child_of_kind(node, "modifiers").map(|list| self.modifier_list(list)).unwrap_or_default()
    }

    fn modifier_list(&mut self, list: Node<'_>) -> Modifiers<'a> {
        let mut modifiers = Modifiers::default();
        for kid in kids(list) {
            match kid.kind() {
                "annotation" => {
                    let found = self.annotation(kid);
                    modifiers.annotations.extend(found);
                }
                _ => modifiers.words.push(self.text(kid)),
            }
        }
        modifiers
    }

    fn annotation(&mut self, node: Node<'_>) -> Vec<Annotation<'a>> {
        let mut found = Vec::new();
        for kid in named(node) {
            let at = Range { start: range(node).start, end: range(kid).end };
            match kid.kind() {
                "user_type" => found.push(Annotation { name: self.text(kid), args: Vec::new(), at }),
                "constructor_invocation" => {
                    let Some(name) = named(kid).first().map(|ty| self.ty(*ty).name) else { continue };
                    let args = child_of_kind(kid, "value_arguments").map(|args| self.args(args)).unwrap_or_default();
                    let args = args.into_iter().map(|arg| Arg { value: inner_annotations(arg.value), ..arg }).collect();
                    found.push(Annotation { name, args, at });
                }
                _ => {}
            }
        }
        found
    }

    fn class(&mut self, node: Node<'_>) -> Option<Class<'a>> {
        let modifiers = self.modifiers(node);
        let parts = kids(node);
        let has = |token: &str| parts.iter().any(|part| part.kind() == token);
        let kind = match node.kind() {
            "object_declaration" | "companion_object" => ClassKind::Object,
            "object_literal" => ClassKind::Anonymous,
            "class_declaration" if has("interface") => ClassKind::Interface,
            "class_declaration" if modifiers.has("enum") => ClassKind::Enum,
            "class_declaration" if modifiers.has("annotation") => ClassKind::Annotation,
            "class_declaration" => ClassKind::Class,
            _ => return None,
        };
        let name = field(node, "name");
        let no_name = if node.kind() == "companion_object" { "Companion" } else { "" };
        let mut class = Class {
            name: name.map_or(no_name, |name| self.text(name)),
            kind,
            is_abstract: kind == ClassKind::Interface || modifiers.has("abstract") || modifiers.has("sealed"),
            annotations: modifiers.annotations,
            type_params: self.type_params(node),
            supers: Vec::new(),
            fields: Vec::new(),
            methods: Vec::new(),
            constructors: Vec::new(),
            inits: Vec::new(),
            constants: Vec::new(),
            nested: Vec::new(),
            name_at: name.map_or(range(node), range),
        };
        for part in parts {
            match part.kind() {
                "primary_constructor" => self.primary_constructor(part, &mut class),
                "delegation_specifiers" => {
                    for specifier in named(part) {
                        class.supers.extend(self.sup(specifier));
                    }
                }
                "class_body" | "enum_class_body" => {
                    self.deeper(part, |reader| reader.class_body(part, &mut class));
                }
                _ => {}
            }
        }
        Some(class)
    }

    fn sup(&mut self, specifier: Node<'_>) -> Option<Super<'a>> {
        let inner = *named(specifier).iter().rev().find(|kid| kid.kind() != "annotation")?;
        let parts = named(inner);
        Some(match inner.kind() {
            "constructor_invocation" => {
                let args = child_of_kind(inner, "value_arguments").map(|args| self.args(args));
                Super { ty: self.ty(*parts.first()?), args, by: None }
            }
            "explicit_delegation" => {
                let by = Some(self.expr(*parts.last()?));
                Super { ty: self.ty(*parts.first()?), args: None, by }
            }
            _ => Super { ty: self.ty(inner), args: None, by: self.delegate(specifier) },
        })
    }

    /// What a supertype is delegated to; only a plain name is of use.
    fn delegate(&self, specifier: Node<'_>) -> Option<Expr<'a>> {
        let text = self.reader.text;
        let found = self
            .delegates
            .iter()
            .find(|it| text.get(specifier.end_byte()..it.by).is_some_and(|between| between.trim().is_empty()))?;
        let written = text.get(found.from..found.to)?;
        let name = written.trim();
        let at = Range { start: found.from as u32, end: found.to as u32 };
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        Some(if is_name { Expr { kind: ExprKind::Name(name), at } } else { other(at) })
    }

    fn primary_constructor(&mut self, node: Node<'_>, class: &mut Class<'a>) {
        let annotations = self.modifiers(node).annotations;
        let mut params = Vec::new();
        for kid in child_of_kind(node, "class_parameters").map(named).unwrap_or_default() {
            if kid.kind() != "class_parameter" {
                continue;
            }
            let parts = kids(kid);
            let Some(name) = parts.iter().find(|part| part.kind() == "identifier") else { continue };
            let param = |reader: &mut Self| {
                let modifiers = reader.modifiers(kid);
                Param {
                    name: reader.text(*name),
                    ty: parts.iter().find(|part| is_type(part)).map(|ty| reader.ty(*ty)),
                    vararg: modifiers.has("vararg"),
                    annotations: modifiers.annotations,
                    default: after(&parts, "=").map(|value| reader.expr(value)),
                    at: range(kid),
                }
            };
            if parts.iter().any(|part| matches!(part.kind(), "val" | "var")) {
                let param = param(self);
                class.fields.push(Field {
                    name: param.name,
                    ty: param.ty,
                    annotations: param.annotations,
                    value: param.default,
                    getter: None,
                    is_static: false,
                    is_final: parts.iter().any(|part| part.kind() == "val"),
                    in_constructor: true,
                    at: param.at,
                });
            }
            params.push(param(self));
        }
        let primary = Constructor { params, annotations, delegates: None, body: None, primary: true };
        class.constructors.push(primary);
    }

    fn class_body(&mut self, body: Node<'_>, class: &mut Class<'a>) {
        for node in kids(body) {
            match node.kind() {
                "class_declaration" | "object_declaration" | "companion_object" => {
                    class.nested.extend(self.class(node));
                }
                "function_declaration" => class.methods.extend(self.function(node)),
                "property_declaration" => {
                    let fields = self.property(node);
                    class.fields.extend(fields);
                }
                "anonymous_initializer" => {
                    if let Some(block) = child_of_kind(node, "block") {
                        let block = self.block(block);
                        class.inits.push(block);
                    }
                }
                "secondary_constructor" => class.constructors.extend(self.secondary_constructor(node)),
                "enum_entry" => {
                    if let Some(name) = child_of_kind(node, "identifier") {
                        let args = child_of_kind(node, "value_arguments").map(|args| self.args(args));
                        class.constants.push(EnumConstant { name: self.text(name), args: args.unwrap_or_default() });
                    }
                }
                "ERROR" => {
                    self.deeper(node, |reader| reader.class_body(node, class));
                }
                _ => {}
            }
        }
    }

    fn secondary_constructor(&mut self, node: Node<'_>) -> Option<Constructor<'a>> {
        let params = child_of_kind(node, "function_value_parameters").map(|list| self.params(list));
        let delegates = child_of_kind(node, "constructor_delegation_call").map(|call| {
            let to_this = child_of_kind(call, "this").is_some();
            let args = child_of_kind(call, "value_arguments").map(|args| self.args(args));
            (to_this, args.unwrap_or_default())
        });
        Some(Constructor {
            params: params?,
            annotations: self.modifiers(node).annotations,
            delegates,
            body: child_of_kind(node, "block").map(|block| self.block(block)),
            primary: false,
        })
    }

    fn type_params(&mut self, node: Node<'_>) -> Vec<TypeParam<'a>> {
        let mut params = Vec::new();
        for kid in child_of_kind(node, "type_parameters").map(named).unwrap_or_default() {
            let name = child_of_kind(kid, "identifier").map_or("", |name| self.text(name));
            let bound = named(kid).into_iter().find(is_type).map(|bound| self.ty(bound));
            params.push(TypeParam { name, bound });
        }
        params
    }

    fn ty(&mut self, node: Node<'_>) -> Type<'a> {
        let at = range(node);
        let plain = |name| Type { name, args: Vec::new(), array: false, at };
        self.deeper(node, |reader| match node.kind() {
            "user_type" => {
                let names: Vec<_> = named(node).into_iter().filter(|kid| kid.kind() == "identifier").collect();
                let name = match (names.first(), names.last()) {
                    (Some(first), Some(last)) => reader
                        .reader
                        .text
                        .get(first.start_byte()..last.end_byte())
                        .unwrap_or_default()
                        .trim_matches('`'),
                    _ => reader.text(node),
                };
                let mut args = Vec::new();
                for list in named(node).into_iter().filter(|kid| kid.kind() == "type_arguments") {
                    for projection in named(list) {
                        match named(projection).into_iter().find(is_type) {
                            Some(ty) => args.push(reader.ty(ty)),
                            None => args.push(plain("Any")),
                        }
                    }
                }
                let array = matches!(name, "Array" | "ByteArray");
                match (array, args.pop()) {
                    (true, Some(element)) => Type { array, at, ..element },
                    (_, last) => {
                        args.extend(last);
                        Type { args, array, ..plain(name) }
                    }
                }
            }
            "nullable_type" | "parenthesized_type" | "non_nullable_type" => {
                match named(node).into_iter().find(is_type) {
                    Some(inner) => reader.ty(inner),
                    None => plain(reader.text(node)),
                }
            }
            "function_type" => Type {
                args: named(node).into_iter().rfind(is_type).map(|ret| reader.ty(ret)).into_iter().collect(),
                ..plain("Function")
            },
            _ => plain(reader.text(node)),
        })
        .unwrap_or_else(|| plain(""))
    }

    fn params(&mut self, list: Node<'_>) -> Vec<Param<'a>> {
        let mut params = Vec::new();
        let mut modifiers = Modifiers::default();
        let parts = kids(list);
        for (at, kid) in parts.iter().enumerate() {
            match kid.kind() {
                "parameter_modifiers" => modifiers = self.modifier_list(*kid),
                "parameter" => {
                    let Some(name) = child_of_kind(*kid, "identifier") else { continue };
                    let modifiers = std::mem::take(&mut modifiers);
                    let has_default = parts.get(at + 1).is_some_and(|next| next.kind() == "=");
                    let default = parts.get(at + 2).filter(|_| has_default).map(|value| self.expr(*value));
                    params.push(Param {
                        name: self.text(name),
                        ty: named(*kid).into_iter().find(is_type).map(|ty| self.ty(ty)),
                        vararg: modifiers.has("vararg"),
                        annotations: modifiers.annotations,
                        default,
                        at: range(*kid),
                    });
                }
                _ => {}
            }
        }
        params
    }

    fn function(&mut self, node: Node<'_>) -> Option<Method<'a>> {
        let modifiers = self.modifiers(node);
        let list = child_of_kind(node, "function_value_parameters")?;
        let types: Vec<_> = kids(node).into_iter().filter(is_type).collect();
        let mut receiver =
            types.iter().find(|ty| ty.end_byte() <= list.start_byte()).map(|receiver| self.ty(*receiver));
        let ret = types.iter().find(|ty| ty.start_byte() >= list.end_byte()).map(|ret| self.ty(*ret));
        let name = field(node, "name");
        let mut name_at = name.map_or(range(list), range);
        let mut name = name.map_or("", |name| self.text(name));
        if name.is_empty()
            && let Some(ty) = &mut receiver
            && let Some((extended, last)) = ty.name.rsplit_once('.')
        {
            name = last;
            let end = ty.at.start + ty.name.len() as u32;
            name_at = Range { start: end.saturating_sub(last.len() as u32), end };
            ty.name = extended;
        }
        let params = self.params(list);
        let body = child_of_kind(node, "function_body");
        let is_expression = body.is_some_and(|body| child_of_kind(body, "=").is_some());
        Some(Method {
            name,
            receiver,
            params,
            ret,
            body: body.map(|body| self.function_body(node, body)),
            is_expression,
            is_static: modifiers.annotations.iter().any(|it| it.name == "JvmStatic"),
            suspend: modifiers.has("suspend"),
            annotations: modifiers.annotations,
            name_at,
        })
    }

    /// The body of a function, which may have been left out of the parsed text.
    fn function_body(&mut self, function: Node<'_>, body: Node<'_>) -> Body<'a> {
        let from = child_of_kind(function, "fun").map_or(function.start_byte(), |word| word.start_byte());
        match self.reader.left_out(range(body), from) {
            Some(left) => Body::Left(left),
            None => Body::Read(self.body(body)),
        }
    }

    fn body(&mut self, body: Node<'_>) -> Expr<'a> {
        match named(body).first() {
            Some(block) if block.kind() == "block" => self.block(*block),
            Some(value) => self.expr(*value),
            None => other(range(body)),
        }
    }

    fn property(&mut self, node: Node<'_>) -> Vec<Field<'a>> {
        let parts = kids(node);
        let mut fields = Vec::new();
        let declared = child_of_kind(node, "variable_declaration");
        let many = child_of_kind(node, "multi_variable_declaration").map(named).unwrap_or_default();
        for variable in declared.into_iter().chain(many) {
            let Some(name) = child_of_kind(variable, "identifier") else { continue };
            let value = match child_of_kind(node, "property_delegate") {
                Some(delegate) => named(delegate).first().map(|value| self.expr(*value)),
                None => after(&parts, "=").map(|value| self.expr(value)),
            };
            let getter = child_of_kind(node, "getter").and_then(|getter| child_of_kind(getter, "function_body"));
            let modifiers = self.modifiers(node);
            fields.push(Field {
                name: self.text(name),
                ty: named(variable).into_iter().find(is_type).map(|ty| self.ty(ty)),
                annotations: modifiers.annotations,
                value,
                getter: getter.map(|body| self.body(body)),
                is_static: false,
                is_final: parts.iter().any(|part| part.kind() == "val"),
                in_constructor: false,
                at: range(node),
            });
        }
        fields
    }

    fn block(&mut self, node: Node<'_>) -> Expr<'a> {
        let at = range(node);
        self.deeper(node, |reader| {
            let statements = kids(node).into_iter().filter(|kid| kid.is_named());
            let statements = statements.map(|kid| reader.expr(kid)).collect();
            Expr { kind: ExprKind::Block(statements), at }
        })
        .unwrap_or_else(|| other(at))
    }

    fn args(&mut self, list: Node<'_>) -> Vec<Arg<'a>> {
        let mut args = Vec::new();
        for kid in named(list).into_iter().filter(|kid| kid.kind() == "value_argument") {
            let parts = kids(kid);
            let named_argument = parts.iter().any(|part| part.kind() == "=");
            let name = parts.first().filter(|_| named_argument).map(|name| self.text(*name));
            let Some(value) = parts.iter().rev().find(|part| part.is_named()) else { continue };
            args.push(Arg { name, value: self.expr(*value) });
        }
        args
    }

    fn first(&mut self, node: Node<'_>) -> Box<Expr<'a>> {
        self.at_place(node, 0)
    }

    fn at_place(&mut self, node: Node<'_>, place: usize) -> Box<Expr<'a>> {
        Box::new(match named(node).get(place) {
            Some(part) => self.expr(*part),
            None => other(range(node)),
        })
    }

    fn boxed(&mut self, node: Node<'_>, name: &str) -> Box<Expr<'a>> {
        Box::new(match field(node, name) {
            Some(part) => self.expr(part),
            None => other(range(node)),
        })
    }

    fn expr(&mut self, node: Node<'_>) -> Expr<'a> {
        let at = range(node);
        let kind = self.deeper(node, |reader| reader.expr_kind(node)).unwrap_or(ExprKind::Other);
        match kind {
            ExprKind::Block(mut inner) if node.kind() == "parenthesized_expression" && inner.len() == 1 => {
                inner.pop().unwrap_or_else(|| other(at))
            }
            kind => Expr { kind, at },
        }
    }

    fn expr_kind(&mut self, node: Node<'_>) -> ExprKind<'a> {
        match node.kind() {
            "number_literal" | "float_literal" => number(self.text(node)).unwrap_or(ExprKind::Other),
            "string_literal" => self.string(node, "\"", true),
            "multiline_string_literal" => self.string(node, "\"\"\"", false),
            "character_literal" => {
                let inner = self.text(node).trim_matches('\'');
                ExprKind::Text(match unescape(inner) {
                    Some(c) => Cow::Owned(c.to_string()),
                    None => Cow::Borrowed(inner),
                })
            }
            "identifier" => match self.text(node) {
                "true" => ExprKind::Bool(true),
                "false" => ExprKind::Bool(false),
                "null" => ExprKind::Null,
                "break" | "continue" => ExprKind::Jump,
                name => ExprKind::Name(name),
            },
            "parenthesized_expression" | "lambda_literal"
                if self.generic_calls.last().is_some_and(|(id, ..)| *id == node.id()) =>
            {
                self.generic_call(node)
            }
            "parenthesized_expression" => ExprKind::Block(vec![*self.first(node)]),
            "collection_literal" => ExprKind::List(named(node).into_iter().map(|item| self.expr(item)).collect()),
            "navigation_expression" => self.navigation(node),
            "callable_reference" => {
                let receiver = named(node).into_iter().find(is_type).map(|ty| self.ty(ty));
                let name = kids(node).last().map_or("", |name| self.text(*name));
                match receiver {
                    Some(ty) if name == "class" => ExprKind::ClassRef(ty),
                    receiver => ExprKind::MethodRef {
                        target: receiver.map(|ty| Box::new(Expr { at: ty.at, kind: ExprKind::ClassRef(ty) })),
                        name,
                    },
                }
            }
            "call_expression" => self.call(node),
            "infix_expression" => {
                let parts = named(node);
                match parts.as_slice() {
                    [left, name, right] => ExprKind::Call {
                        target: Some(Box::new(self.expr(*left))),
                        name: self.text(*name),
                        name_at: range(*name),
                        types: Vec::new(),
                        args: vec![Arg { name: None, value: self.expr(*right) }],
                    },
                    _ => ExprKind::Other,
                }
            }
            "range_expression" => ExprKind::Call {
                target: Some(self.first(node)),
                name: "rangeTo",
                name_at: range(node),
                types: Vec::new(),
                args: vec![Arg { name: None, value: *self.at_place(node, 1) }],
            },
            "index_expression" => ExprKind::Index { target: self.first(node), index: self.at_place(node, 1) },
            "binary_expression" if comparisons_as_call(node).is_some() => self.comparisons(node),
            "binary_expression" => {
                let op = field(node, "operator").map_or(Op::Other, |op| operator(op.kind()));
                ExprKind::Binary { op, left: self.boxed(node, "left"), right: self.boxed(node, "right") }
            }
            "unary_expression" => {
                let argument = self.boxed(node, "argument");
                let one = || Box::new(Expr { kind: ExprKind::Int(1), at: range(node) });
                match field(node, "operator").map(|op| op.kind()) {
                    Some("!") => ExprKind::Not(argument),
                    Some("-") => ExprKind::Neg(argument),
                    Some("++") => ExprKind::Assign { target: argument, op: Some(Op::Add), value: one() },
                    Some("--") => ExprKind::Assign { target: argument, op: Some(Op::Sub), value: one() },
                    _ => argument.kind,
                }
            }
            "assignment" => {
                let op = field(node, "operator").map_or("=", |op| op.kind());
                let op = op.strip_suffix('=').filter(|op| !op.is_empty()).map(operator);
                ExprKind::Assign { target: self.boxed(node, "left"), op, value: self.boxed(node, "right") }
            }
            "as_expression" => match field(node, "right") {
                Some(ty) => ExprKind::Cast { ty: self.ty(ty), value: self.boxed(node, "left") },
                None => ExprKind::Other,
            },
            "in_expression" => ExprKind::Test(vec![*self.boxed(node, "left"), *self.boxed(node, "right")]),
            "is_expression" => ExprKind::Test(vec![*self.boxed(node, "left")]),
            "range_test" => ExprKind::Test(vec![*self.first(node)]),
            "type_test" => ExprKind::Test(Vec::new()),
            "spread_expression" => self.first(node).kind,
            "annotated_expression" | "labeled_expression" => match named(node).last() {
                Some(inner) if inner.kind() != "label" => self.expr(*inner).kind,
                _ => ExprKind::Jump,
            },
            "this_expression" => ExprKind::This,
            "super_expression" => ExprKind::Super,
            "if_expression" => self.if_expression(node),
            "when_expression" => self.when(node),
            "try_expression" => self.try_expression(node),
            "lambda_literal" => self.lambda(node),
            "anonymous_function" => {
                let params = child_of_kind(node, "function_value_parameters").map(|list| self.params(list));
                let params = params.unwrap_or_default().into_iter();
                let params = params.map(|param| LambdaParam { names: vec![param.name], ty: param.ty }).collect();
                let body = child_of_kind(node, "function_body").map(|body| self.body(body));
                let body = body.unwrap_or_else(|| other(range(node)));
                ExprKind::Lambda(Box::new(Lambda {
                    params,
                    implicit_it: false,
                    own_return: true,
                    body,
                    at: range(node),
                }))
            }
            "object_literal" => match self.class(node) {
                Some(class) => ExprKind::Object(Box::new(class)),
                None => ExprKind::Other,
            },
            "return_expression" => {
                let label = field(node, "label");
                let value = named(node).into_iter().find(|kid| Some(*kid) != label);
                let value = value.map(|value| Box::new(self.expr(value)));
                ExprKind::Return { value, from_lambda: label.is_some() }
            }
            "throw_expression" => ExprKind::Throw(self.first(node)),
            "block" => self.block(node).kind,
            "property_declaration" => {
                let many = child_of_kind(node, "multi_variable_declaration");
                let mut fields = self.property(node);
                match (many, fields.len()) {
                    (None, 1) => match fields.pop() {
                        Some(field) => {
                            ExprKind::Local { names: vec![field.name], ty: field.ty, value: field.value.map(Box::new) }
                        }
                        None => ExprKind::Other,
                    },
                    _ => {
                        let names = fields.iter().map(|field| field.name).collect();
                        let value = fields.pop().and_then(|field| field.value).map(Box::new);
                        ExprKind::Local { names, ty: None, value }
                    }
                }
            }
            "function_declaration" => match self.function(node) {
                Some(function) => ExprKind::LocalFunction(Box::new(function)),
                None => ExprKind::Other,
            },
            "class_declaration" | "object_declaration" => match self.class(node) {
                Some(class) => ExprKind::LocalClass(Box::new(class)),
                None => ExprKind::Other,
            },
            "for_statement" => self.for_statement(node),
            "while_statement" | "do_while_statement" => {
                let mut repeated: Vec<_> =
                    field(node, "condition").map(|condition| self.expr(condition)).into_iter().collect();
                let condition = field(node, "condition");
                for kid in named(node) {
                    if Some(kid) != condition && kid.kind() != "label" {
                        repeated.push(self.expr(kid));
                    }
                }
                ExprKind::Loop { init: Vec::new(), repeated }
            }
            _ => ExprKind::Other,
        }
    }

    /// Reads `a.f<T>(x)` that the grammar takes for `(a.f < T) > (x)`.
    fn comparisons(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let Some((callee, ty, argument)) = comparisons_as_call(node) else { return ExprKind::Other };
        let callee = self.expr(callee);
        let ty = self.as_type(ty);
        let depth = self.generic_calls.len();
        self.generic_calls.push((argument.id(), callee, ty));
        let kind = self.boxed(node, "right").kind;
        self.generic_calls.truncate(depth);
        kind
    }

    fn generic_call(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let Some((_, callee, ty)) = self.generic_calls.pop() else { return ExprKind::Other };
        let value = if node.kind() == "lambda_literal" { self.expr(node) } else { *self.first(node) };
        let args = vec![Arg { name: None, value }];
        match callee.kind {
            ExprKind::Name(name) => ExprKind::Call { target: None, name, name_at: callee.at, types: vec![ty], args },
            ExprKind::Select { target, name } => {
                let name_at = Range { start: callee.at.end.saturating_sub(name.len() as u32), end: callee.at.end };
                ExprKind::Call { target: Some(target), name, name_at, types: vec![ty], args }
            }
            _ => ExprKind::Other,
        }
    }

    fn navigation(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let parts = kids(node);
        let (Some(target), Some(name)) = (parts.first(), parts.last()) else { return ExprKind::Other };
        let name = self.text(*name);
        let reference = parts.get(1).is_some_and(|token| token.kind() == "::");
        if reference && name == "class" {
            return ExprKind::ClassRef(self.as_type(*target));
        }
        let target = self.expr(*target);
        if reference {
            return ExprKind::MethodRef { target: Some(Box::new(target)), name };
        }
        match target.kind {
            ExprKind::ClassRef(ty) if matches!(name, "java" | "javaObjectType") => ExprKind::ClassRef(ty),
            kind => ExprKind::Select { target: Box::new(Expr { kind, at: target.at }), name },
        }
    }

    /// An expression that stands for a type: `Foo` or `a.b.Foo`.
    fn as_type(&mut self, node: Node<'_>) -> Type<'a> {
        Type { name: self.text(node), args: Vec::new(), array: false, at: range(node) }
    }

    fn call(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let parts = named(node);
        let Some(callee) = parts.first() else { return ExprKind::Other };
        let mut types = Vec::new();
        let mut args = Vec::new();
        let mut only_a_lambda = true;
        for part in parts.iter().skip(1) {
            match part.kind() {
                "type_arguments" => {
                    for projection in named(*part) {
                        if let Some(ty) = named(projection).into_iter().find(is_type) {
                            types.push(self.ty(ty));
                        }
                    }
                }
                "value_arguments" => {
                    only_a_lambda = false;
                    args.extend(self.args(*part));
                }
                "annotated_lambda" => {
                    if let Some(lambda) = child_of_kind(*part, "lambda_literal") {
                        args.push(Arg { name: None, value: self.expr(lambda) });
                    }
                }
                _ => {}
            }
        }
        let callee = self.expr(*callee);
        match callee.kind {
            ExprKind::Name(name) => ExprKind::Call { target: None, name, name_at: callee.at, types, args },
            ExprKind::Select { target, name } => {
                let name_at = Range { start: callee.at.end.saturating_sub(name.len() as u32), end: callee.at.end };
                ExprKind::Call { target: Some(target), name, name_at, types, args }
            }
            // `f(a) { b }` is one call.
            ExprKind::Call { target, name, name_at, types, args: mut before } if only_a_lambda => {
                before.extend(args);
                ExprKind::Call { target, name, name_at, types, args: before }
            }
            kind => ExprKind::Invoke { callee: Box::new(Expr { kind, at: callee.at }), args },
        }
    }

    fn if_expression(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let cond = self.boxed(node, "condition");
        let parts = kids(node);
        let close = parts.iter().position(|part| part.kind() == ")").unwrap_or(parts.len());
        let mut behind_else = false;
        let (mut then, mut otherwise) = (None, None);
        for part in parts.iter().skip(close + 1) {
            match part.kind() {
                "else" => behind_else = true,
                _ if !part.is_named() || part.is_error() => {}
                _ if behind_else => otherwise = Some(Box::new(self.expr(*part))),
                _ => then = Some(Box::new(self.expr(*part))),
            }
        }
        let then = then.unwrap_or_else(|| Box::new(Expr { kind: ExprKind::Block(Vec::new()), at: range(node) }));
        ExprKind::If { cond, then, other: otherwise }
    }

    fn when(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let mut before = None;
        let mut subject = None;
        if let Some(head) = child_of_kind(node, "when_subject") {
            let value = named(head).last().map(|value| Box::new(self.expr(*value)));
            let name = child_of_kind(head, "variable_declaration").and_then(|it| child_of_kind(it, "identifier"));
            match name {
                Some(name) => {
                    let at = range(name);
                    let name = self.text(name);
                    before = Some(Expr { kind: ExprKind::Local { names: vec![name], ty: None, value }, at });
                    subject = Some(Box::new(Expr { kind: ExprKind::Name(name), at }));
                }
                None => subject = value,
            }
        }
        let mut arms = Vec::new();
        for entry in named(node).into_iter().filter(|kid| kid.kind() == "when_entry") {
            let parts = kids(entry);
            let arrow = parts.iter().position(|part| part.kind() == "->").unwrap_or(0);
            let conditions = parts.iter().take(arrow).filter(|part| part.is_named());
            let conditions = conditions.map(|condition| self.expr(*condition)).collect();
            let Some(body) = parts.get(arrow + 1) else { continue };
            arms.push(Arm { conditions, body: self.expr(*body), falls_through: false });
        }
        let switch = ExprKind::Switch { subject, arms };
        match before {
            Some(local) => ExprKind::Block(vec![local, Expr { kind: switch, at: range(node) }]),
            None => switch,
        }
    }

    fn try_expression(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let block = |reader: &mut Self, node: Node<'_>| match child_of_kind(node, "block") {
            Some(block) => reader.block(block),
            None => other(range(node)),
        };
        let body = block(self, node);
        let mut catches = Vec::new();
        let mut finally = None;
        for kid in named(node) {
            match kid.kind() {
                "catch_block" => {
                    let types = named(kid).into_iter().filter(is_type).map(|ty| self.ty(ty)).collect();
                    let name = child_of_kind(kid, "identifier").map_or("", |name| self.text(name));
                    catches.push(Catch { types, name, body: block(self, kid), at: range(kid) });
                }
                "finally_block" => finally = Some(block(self, kid)),
                _ => {}
            }
        }
        ExprKind::Try(Box::new(Try { resources: Vec::new(), body, catches, finally }))
    }

    fn variables(&mut self, node: Node<'_>) -> (Vec<&'a str>, Option<Type<'a>>) {
        let variables = match node.kind() {
            "multi_variable_declaration" => named(node),
            _ => vec![node],
        };
        let names = variables.iter().filter_map(|it| child_of_kind(*it, "identifier")).map(|name| self.text(name));
        let names = names.collect();
        let ty = named(node).into_iter().find(is_type).map(|ty| self.ty(ty));
        (names, ty)
    }

    fn lambda(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let list = child_of_kind(node, "lambda_parameters");
        let mut params = Vec::new();
        for param in list.map(named).unwrap_or_default() {
            let (names, ty) = self.variables(param);
            params.push(LambdaParam { names, ty });
        }
        let statements = named(node).into_iter().filter(|kid| kid.kind() != "lambda_parameters");
        let statements = statements.map(|statement| self.expr(statement)).collect();
        let implicit_it = list.is_none() && child_of_kind(node, "->").is_none();
        let body = Expr { kind: ExprKind::Block(statements), at: range(node) };
        ExprKind::Lambda(Box::new(Lambda { params, implicit_it, own_return: false, body, at: range(node) }))
    }

    fn for_statement(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let parts = kids(node);
        let variable = parts.iter().find(|part| part.kind().ends_with("variable_declaration"));
        let (names, ty) = variable.map(|variable| self.variables(*variable)).unwrap_or_default();
        let over = match after(&parts, "in") {
            Some(over) => self.expr(over),
            None => other(range(node)),
        };
        let close = parts.iter().position(|part| part.kind() == ")").unwrap_or(parts.len());
        let body = match parts.iter().skip(close + 1).find(|part| part.is_named()) {
            Some(body) => self.expr(*body),
            None => Expr { kind: ExprKind::Block(Vec::new()), at: range(node) },
        };
        ExprKind::ForEach { names, ty, over: Box::new(over), body: Box::new(body) }
    }

    fn string(&mut self, node: Node<'_>, quote: &str, escapes: bool) -> ExprKind<'a> {
        let from = node.start_byte() + quote.len();
        let to = node.end_byte().saturating_sub(quote.len()).max(from);
        let mut parts = Vec::new();
        let mut at = from;
        let holes: Vec<_> = named(node).into_iter().filter(|kid| kid.kind() == "interpolation").collect();
        for hole in holes {
            self.plain(at, hole.start_byte(), escapes, &mut parts);
            parts.push(*self.first(hole));
            at = hole.end_byte();
        }
        self.plain(at, to, escapes, &mut parts);
        match (parts.len(), parts.pop()) {
            (0, _) => ExprKind::Text(Cow::Borrowed("")),
            (1, Some(Expr { kind: kind @ ExprKind::Text(_), .. })) => kind,
            (_, last) => {
                parts.extend(last);
                ExprKind::Template(parts)
            }
        }
    }

    /// Text between two `${}`: its escapes, and the `$name`s that the grammar leaves in it.
    fn plain(&self, from: usize, to: usize, escapes: bool, parts: &mut Vec<Expr<'a>>) {
        let Some(text) = self.reader.text.get(from..to) else { return };
        if text.is_empty() {
            return;
        }
        let at = Range { start: from as u32, end: to as u32 };
        let begins_name = |rest: &str| rest.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if !text.contains(['\\', '$']) {
            parts.push(Expr { kind: ExprKind::Text(Cow::Borrowed(text)), at });
            return;
        }
        let mut plain = String::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let behind = &rest[next.len_utf8()..];
            if next == '\\' && escapes {
                let length =
                    if behind.starts_with('u') { 6 } else { 1 + behind.chars().next().map_or(0, char::len_utf8) };
                let escape = rest.get(..length).unwrap_or(rest);
                plain.extend(unescape(escape));
                rest = rest.get(length..).unwrap_or("");
            } else if next == '$' && begins_name(behind) {
                let end = behind.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(behind.len());
                if !plain.is_empty() {
                    parts.push(Expr { kind: ExprKind::Text(Cow::Owned(std::mem::take(&mut plain))), at });
                }
                parts.push(Expr { kind: ExprKind::Name(&behind[..end]), at });
                rest = &behind[end..];
            } else {
                plain.push(next);
                rest = behind;
            }
        }
        if !plain.is_empty() {
            parts.push(Expr { kind: ExprKind::Text(Cow::Owned(plain)), at });
        }
    }
}

/// The parts of `a.f<T>(x)`, if two comparisons are that: Kotlin's comparisons do not chain.
fn comparisons_as_call<'t>(node: Node<'t>) -> Option<(Node<'t>, Node<'t>, Node<'t>)> {
    let is = |node: Node<'t>, operator: &str| {
        node.kind() == "binary_expression" && field(node, "operator").is_some_and(|op| op.kind() == operator)
    };
    let inner = field(node, "left").filter(|inner| is(node, ">") && is(*inner, "<"))?;
    let (callee, ty) = (field(inner, "left")?, field(inner, "right")?);
    let named_type = matches!(ty.kind(), "identifier" | "navigation_expression");
    let named_callee = matches!(callee.kind(), "identifier" | "navigation_expression");
    // The argument stands first in what follows: `f<T>(x).g()`.
    let mut argument = field(node, "right")?;
    for _ in 0..crate::syntax::DEPTH_MAX {
        match argument.kind() {
            "parenthesized_expression" | "lambda_literal" => {
                return (named_type && named_callee).then_some((callee, ty, argument));
            }
            _ => argument = argument.child(0)?,
        }
    }
    None
}

/// Inside an annotation, what looks like a call is another annotation.
fn inner_annotations(expr: Expr<'_>) -> Expr<'_> {
    let kind = match expr.kind {
        ExprKind::Call { target: None, name, args, .. } if name.starts_with(char::is_uppercase) => {
            ExprKind::Annotation(Box::new(Annotation { name, args, at: expr.at }))
        }
        ExprKind::List(items) => ExprKind::List(items.into_iter().map(inner_annotations).collect()),
        kind => kind,
    };
    Expr { kind, at: expr.at }
}

fn operator(text: &str) -> Op {
    match text {
        "+" => Op::Add,
        "-" => Op::Sub,
        "*" => Op::Mul,
        "/" => Op::Div,
        "%" => Op::Rem,
        "&&" => Op::And,
        "||" => Op::Or,
        "==" | "===" => Op::Eq,
        "!=" | "!==" => Op::Ne,
        "<" => Op::Lt,
        "<=" => Op::Le,
        ">" => Op::Gt,
        ">=" => Op::Ge,
        "?:" => Op::Elvis,
        _ => Op::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: [&str; 2] =
        [include_str!("../tests/it/samples/orders-kotlin.txt"), include_str!("../tests/it/samples/billing-mixed.txt")];

    /// Whether reading in parts gives what reading the whole gives; says how many bodies were read later.
    fn check(text: &str) -> u32 {
        let (readable, delegates) = readable(text);
        let whole = read_whole(text, &readable, delegates);
        let mut parts = read(text);
        let left_out = std::mem::take(&mut parts.left_out);
        let mut open: Vec<&mut Class<'_>> = parts.classes.iter_mut().collect();
        let mut methods: Vec<&mut Method<'_>> = parts.functions.iter_mut().collect();
        while let Some(class) = open.pop() {
            methods.extend(&mut class.methods);
            open.extend(&mut class.nested);
        }
        for body in methods.into_iter().flat_map(|method| &mut method.body) {
            if let Body::Left(left) = *body {
                let (expr, problems) = read_body(text, left);
                assert!(problems.is_empty(), "{problems:?}");
                *body = Body::Read(expr);
            }
        }
        assert_eq!(format!("{parts:#?}"), format!("{whole:#?}"));
        left_out
    }

    #[test]
    fn a_file_that_is_read_in_parts_is_the_same() {
        let heads = [
            "fun a()",
            "@A(b = [\"{\"]) override suspend fun <T : C<T>> a(b: T, c: (D) -> E = { f(it) }): Map<G, List<H?>>?",
            "private fun B.a(vararg b: Int)",
            "fun <T> List<T>.a(): (T) -> Unit",
            "fun `a b`(c: D) // }\n",
            "internal inline fun a(crossinline b: () -> Unit) where C : D",
        ];
        let body = "{ class X(y: Y) : Z by y { val w = 1 }\n val e = object : F { override fun g() { h(\"${i(\"x\")} $j\") } }\n \
                    k.l<M>(1)\n if (n) { return o } else { p { q -> r(q, '}') } }\n throw s }";
        let mut left_out = 0;
        for head in heads {
            left_out += check(&format!(
                "package p\n{head} {body}\nclass K(val l: L) : M(l), N by l {{ val f = 1\n {head} {body}\n init {body}\n \
                 companion object {{ {head} {body} }}\n class O {{ {head} {body} }}\n {head} {body} }}\n"
            ));
            left_out +=
                check(&format!("enum class K {{ A, B; {head} {body} }}\ninterface I {{ {head}\n {head} {body} }}\n"));
            check(&format!(
                "object K {{ val l by lazy {body}\n val m get() {body}\n {head} {body} }}\nval n = run {body}\n"
            ));
        }
        assert!(left_out > 5, "{left_out}");
        let files = SAMPLES.iter().flat_map(|sample| sample.split("\n=="));
        let files = files.filter_map(|part| part.split_once('\n')).filter(|(name, _)| name.contains(".kt"));
        assert!(files.map(|(_, text)| check(text)).sum::<u32>() > 0);
    }
}
