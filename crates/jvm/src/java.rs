//! Reads Java into the common tree.

use std::borrow::Cow;
use std::sync::LazyLock;

use tree_sitter::{Language, Node};

use crate::outline::{self, Outline};
use crate::span::Range;
use crate::syntax::{Reader, child_of_kind, kids, named, number, other, parse, range, unescape};
use crate::tree::*;

/// The child that a node has under a name. The grammar itself would look its numbers up among all names each time.
fn field<'t>(node: Node<'t>, name: &str) -> Option<Node<'t>> {
    static NUMBERS: LazyLock<Vec<(String, u16)>> = LazyLock::new(|| {
        let language: Language = tree_sitter_java::LANGUAGE.into();
        let all = (1..=language.field_count()).filter_map(|number| u16::try_from(number).ok());
        let name = |number| Some((language.field_name_for_id(number)?.to_owned(), number));
        let mut names: Vec<_> = all.filter_map(name).collect();
        names.sort_unstable();
        names
    });
    let at = NUMBERS.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
    node.child_by_field_id(NUMBERS[at].1)
}

/// Reads a Java file. Never fails: what cannot be read is a problem of the tree.
pub(crate) fn read(text: &str) -> Tree<'_> {
    match outline::outline(text) {
        Some(outline) if !outline.bodies.is_empty() || !outline.whole.is_empty() => {
            read_without(text, outline).unwrap_or_else(|| read_whole(text))
        }
        _ => read_whole(text),
    }
}

fn read_whole(text: &str) -> Tree<'_> {
    let mut reader = Reader::new(text);
    let mut tree = Tree::default();
    match parse(text, &tree_sitter_java::LANGUAGE.into(), &[]) {
        Some(parsed) => {
            reader.note_errors(parsed.root_node());
            reader.file(parsed.root_node(), &mut tree);
        }
        None => reader.problem(Range::default(), "too hard to parse: this file is not read".to_owned()),
    }
    tree.problems = reader.problems;
    tree
}

/// Reads a file without what its outline has. `None`: the rest is not understood, or the outline is not what it seemed.
fn read_without<'a>(text: &'a str, outline: Outline<'a>) -> Option<Tree<'a>> {
    let parsed = parse(text, &tree_sitter_java::LANGUAGE.into(), &outline.rest(u32::try_from(text.len()).ok()?))?;
    if parsed.root_node().has_error() {
        return None;
    }
    let mut reader = Reader::new(text);
    reader.left = outline.bodies;
    reader.methods = outline.methods;
    let mut tree = Tree::default();
    reader.file(parsed.root_node(), &mut tree);
    tree.left_out = u32::try_from(reader.left.len() + outline.whole.len()).ok()?;
    tree.problems = reader.problems;
    (reader.left.len() == reader.left_found as usize && reader.methods.is_empty()).then_some(tree)
}

/// Reads a body that was left out, and says what is wrong with it.
pub(crate) fn read_body(text: &str, body: LeftOut) -> (Expr<'_>, Vec<(Range, String)>) {
    let mut reader = Reader::new(text);
    reader.depth = body.depth;
    let Some(parsed) = parse(text, &tree_sitter_java::LANGUAGE.into(), &[body.at]) else {
        reader.problem(body.at, "too hard to parse: this method is not read".to_owned());
        return (other(body.at), reader.problems);
    };
    let root = parsed.root_node();
    reader.note_errors(root);
    // Where the block itself is broken, its statements are the root's.
    let expr = reader.block(child_of_kind(root, "block").unwrap_or(root));
    (expr, reader.problems)
}

impl<'a> Reader<'a> {
    fn file(&mut self, root: Node<'_>, tree: &mut Tree<'a>) {
        for node in kids(root) {
            match node.kind() {
                "package_declaration" => {
                    tree.package = named(node).last().map_or("", |name| self.text(*name));
                }
                "import_declaration" => {
                    let path = named(node).first().map_or("", |name| self.text(*name));
                    let star = child_of_kind(node, "asterisk").is_some();
                    tree.imports.push(Import { path, name: last_part(path), star });
                }
                // What follows broken text can still hold declarations.
                "ERROR" => {
                    let found: Vec<_> = kids(node).into_iter().filter_map(|kid| self.class(kid)).collect();
                    tree.classes.extend(found);
                }
                _ => tree.classes.extend(self.class(node)),
            }
        }
    }

    fn class(&mut self, node: Node<'_>) -> Option<Class<'a>> {
        let kind = match node.kind() {
            "class_declaration" => ClassKind::Class,
            "interface_declaration" => ClassKind::Interface,
            "record_declaration" => ClassKind::Record,
            "enum_declaration" => ClassKind::Enum,
            "annotation_type_declaration" => ClassKind::Annotation,
            _ => return None,
        };
        let name = field(node, "name")?;
        let mut class = self.empty_class(self.text(name), kind, range(name));
        let is_abstract;
        (class.annotations, is_abstract, _, _) = self.modifiers(node);
        class.is_abstract = is_abstract || kind == ClassKind::Interface;
        class.type_params = self.type_params(node);
        for kid in named(node) {
            match kid.kind() {
                "superclass" => class.supers.extend(named(kid).into_iter().map(|ty| self.sup(ty))),
                "super_interfaces" | "extends_interfaces" => {
                    for list in named(kid) {
                        class.supers.extend(named(list).into_iter().map(|ty| self.sup(ty)));
                    }
                }
                "formal_parameters" => {
                    let params = self.params(kid);
                    class.fields.extend(params.into_iter().map(component));
                    let params = self.params(kid);
                    class.constructors.push(Constructor {
                        params,
                        annotations: Vec::new(),
                        delegates: None,
                        body: None,
                        primary: true,
                    });
                }
                _ => {}
            }
        }
        if let Some(body) = field(node, "body") {
            self.deeper(body, |reader| reader.class_body(body, &mut class));
        }
        Some(class)
    }

    fn empty_class(&self, name: &'a str, kind: ClassKind, name_at: Range) -> Class<'a> {
        Class {
            name,
            kind,
            is_abstract: false,
            annotations: Vec::new(),
            type_params: Vec::new(),
            supers: Vec::new(),
            fields: Vec::new(),
            methods: Vec::new(),
            constructors: Vec::new(),
            inits: Vec::new(),
            constants: Vec::new(),
            nested: Vec::new(),
            name_at,
        }
    }

    fn sup(&mut self, node: Node<'_>) -> Super<'a> {
        Super { ty: self.ty(node), args: None, by: None }
    }

    fn class_body(&mut self, body: Node<'_>, class: &mut Class<'a>) {
        for node in kids(body) {
            match node.kind() {
                "field_declaration" | "constant_declaration" => self.field_declaration(node, class),
                "method_declaration" | "annotation_type_element_declaration" => {
                    class.methods.extend(self.method(node));
                }
                "constructor_declaration" => class.constructors.extend(self.constructor(node)),
                "compact_constructor_declaration" => {
                    if let Some(body) = field(node, "body") {
                        let body = self.block(body);
                        if let Some(primary) = class.constructors.iter_mut().find(|it| it.primary) {
                            primary.body = Some(body);
                        }
                    }
                }
                "block" => {
                    let block = self.block(node);
                    class.inits.push(block);
                }
                "static_initializer" => {
                    if let Some(block) = child_of_kind(node, "block") {
                        let block = self.block(block);
                        class.inits.push(block);
                    }
                }
                "enum_constant" => {
                    if let Some(name) = field(node, "name") {
                        let args = field(node, "arguments").map(|args| self.args(args)).unwrap_or_default();
                        class.constants.push(EnumConstant { name: self.text(name), args });
                    }
                }
                "enum_body_declarations" | "ERROR" => {
                    self.deeper(node, |reader| reader.class_body(node, class));
                }
                _ => class.nested.extend(self.class(node)),
            }
        }
        if let Some(methods) = self.methods.remove(&(body.start_byte() as u32)) {
            class.methods.extend(methods);
            class.methods.sort_by_key(|method| method.name_at);
        }
    }

    /// The annotations, and whether `abstract`, `static` and `final` are there.
    fn modifiers(&mut self, node: Node<'_>) -> (Vec<Annotation<'a>>, bool, bool, bool) {
        let (mut is_abstract, mut is_static, mut is_final) = (false, false, false);
        let mut annotations = Vec::new();
        if let Some(modifiers) = child_of_kind(node, "modifiers") {
            for kid in kids(modifiers) {
                match kid.kind() {
                    "abstract" => is_abstract = true,
                    "static" => is_static = true,
                    "final" => is_final = true,
                    "annotation" | "marker_annotation" => annotations.extend(self.annotation(kid)),
                    _ => {}
                }
            }
        }
        (annotations, is_abstract, is_static, is_final)
    }

    fn annotation(&mut self, node: Node<'_>) -> Option<Annotation<'a>> {
        let name = self.text(field(node, "name")?);
        let mut args = Vec::new();
        if let Some(list) = field(node, "arguments") {
            for kid in named(list) {
                if kid.kind() == "element_value_pair" {
                    if let (Some(key), Some(value)) = (field(kid, "key"), field(kid, "value")) {
                        args.push(Arg { name: Some(self.text(key)), value: self.expr(value) });
                    }
                } else {
                    args.push(Arg { name: None, value: self.expr(kid) });
                }
            }
        }
        Some(Annotation { name, args, at: range(node) })
    }

    fn type_params(&mut self, node: Node<'_>) -> Vec<TypeParam<'a>> {
        let Some(list) = child_of_kind(node, "type_parameters") else { return Vec::new() };
        let mut params = Vec::new();
        for kid in named(list) {
            let name = child_of_kind(kid, "type_identifier").map_or("", |name| self.text(name));
            let bound = child_of_kind(kid, "type_bound").and_then(|bound| named(bound).first().copied());
            params.push(TypeParam { name, bound: bound.map(|bound| self.ty(bound)) });
        }
        params
    }

    fn ty(&mut self, node: Node<'_>) -> Type<'a> {
        let at = range(node);
        let plain = |name| Type { name, args: Vec::new(), array: false, at };
        self.deeper(node, |reader| match node.kind() {
            "generic_type" => {
                let parts = named(node);
                let name = parts.first().map_or("", |name| reader.text(*name));
                let args = parts.iter().find(|part| part.kind() == "type_arguments");
                let args = args.map(|args| named(*args).into_iter().map(|arg| reader.ty(arg)).collect());
                Type { args: args.unwrap_or_default(), ..plain(name) }
            }
            "array_type" => match field(node, "element") {
                Some(element) => Type { array: true, at, ..reader.ty(element) },
                None => plain(reader.text(node)),
            },
            "annotated_type" => match named(node).last() {
                Some(inner) => reader.ty(*inner),
                None => plain(reader.text(node)),
            },
            "wildcard" => match named(node).iter().rev().find(|kid| !kid.kind().ends_with("annotation")) {
                Some(bound) if bound.kind() != "super" => reader.ty(*bound),
                _ => plain("Object"),
            },
            _ => plain(reader.text(node)),
        })
        .unwrap_or_else(|| plain(""))
    }

    fn params(&mut self, list: Node<'_>) -> Vec<Param<'a>> {
        let mut params = Vec::new();
        for kid in named(list) {
            let vararg = kid.kind() == "spread_parameter";
            if kid.kind() != "formal_parameter" && !vararg {
                continue;
            }
            let (annotations, ..) = self.modifiers(kid);
            let declared = if vararg {
                named(kid).into_iter().find(|part| !matches!(part.kind(), "modifiers" | "variable_declarator"))
            } else {
                field(kid, "type")
            };
            let name = match child_of_kind(kid, "variable_declarator") {
                Some(declarator) => field(declarator, "name"),
                None => field(kid, "name"),
            };
            let mut ty = declared.map(|ty| self.ty(ty));
            if vararg && let Some(ty) = &mut ty {
                ty.array = true;
            }
            params.push(Param {
                name: name.map_or("", |name| self.text(name)),
                ty,
                annotations,
                default: None,
                vararg,
                at: range(kid),
            });
        }
        params
    }

    fn field_declaration(&mut self, node: Node<'_>, class: &mut Class<'a>) {
        let (_, _, is_static, is_final) = self.modifiers(node);
        let is_static = is_static || node.kind() == "constant_declaration";
        for declarator in named(node).into_iter().filter(|kid| kid.kind() == "variable_declarator") {
            let Some(name) = field(declarator, "name") else { continue };
            let value = field(declarator, "value").map(|value| self.expr(value));
            class.fields.push(Field {
                name: self.text(name),
                ty: field(node, "type").map(|ty| self.ty(ty)),
                annotations: self.modifiers(node).0,
                value,
                getter: None,
                is_static,
                is_final: is_final || node.kind() == "constant_declaration",
                in_constructor: false,
                at: Range { start: node.start_byte() as u32, end: declarator.end_byte() as u32 },
            });
        }
    }

    fn method(&mut self, node: Node<'_>) -> Option<Method<'a>> {
        let name = field(node, "name")?;
        let (annotations, _, is_static, _) = self.modifiers(node);
        let params = field(node, "parameters").map(|params| self.params(params)).unwrap_or_default();
        // The default of an annotation's element is kept as its body.
        let body = field(node, "body").or_else(|| field(node, "value"));
        let body = body.map(|body| match body.kind() {
            "block" => match self.left_out(range(body), body.start_byte()) {
                Some(left) => Body::Left(left),
                None => Body::Read(self.block(body)),
            },
            _ => Body::Read(self.expr(body)),
        });
        Some(Method {
            name: self.text(name),
            annotations,
            receiver: None,
            params,
            ret: field(node, "type").map(|ty| self.ty(ty)),
            is_expression: node.kind() != "method_declaration",
            body,
            is_static,
            suspend: false,
            name_at: range(name),
        })
    }

    fn constructor(&mut self, node: Node<'_>) -> Option<Constructor<'a>> {
        let (annotations, ..) = self.modifiers(node);
        let params = field(node, "parameters").map(|params| self.params(params)).unwrap_or_default();
        let body = field(node, "body")?;
        let delegates = child_of_kind(body, "explicit_constructor_invocation").map(|call| {
            let to_this = field(call, "constructor").is_some_and(|which| which.kind() == "this");
            let args = field(call, "arguments").map(|args| self.args(args)).unwrap_or_default();
            (to_this, args)
        });
        let body = self.block(body);
        Some(Constructor { params, annotations, delegates, body: Some(body), primary: false })
    }

    fn block(&mut self, node: Node<'_>) -> Expr<'a> {
        let at = range(node);
        self.deeper(node, |reader| {
            let mut statements = Vec::new();
            for kid in kids(node) {
                reader.statement(kid, &mut statements);
            }
            Expr { kind: ExprKind::Block(statements), at }
        })
        .unwrap_or_else(|| other(at))
    }

    fn statement(&mut self, node: Node<'_>, into: &mut Vec<Expr<'a>>) {
        if !node.is_named() {
            return;
        }
        match node.kind() {
            "local_variable_declaration" => {
                for declarator in named(node).into_iter().filter(|kid| kid.kind() == "variable_declarator") {
                    let Some(name) = field(declarator, "name") else { continue };
                    let value = field(declarator, "value").map(|value| Box::new(self.expr(value)));
                    let ty = field(node, "type").map(|ty| self.ty(ty)).filter(|ty| ty.name != "var");
                    let kind = ExprKind::Local { names: vec![self.text(name)], ty, value };
                    into.push(Expr { kind, at: range(declarator) });
                }
            }
            "ERROR" => {
                for kid in named(node) {
                    self.deeper(kid, |reader| reader.statement(kid, into));
                }
            }
            "explicit_constructor_invocation" | "type_arguments" => {}
            _ => {
                let statement = self.expr(node);
                into.push(statement);
            }
        }
    }

    fn boxed(&mut self, node: Node<'_>, name: &str) -> Box<Expr<'a>> {
        Box::new(match field(node, name) {
            Some(part) => self.expr(part),
            None => other(range(node)),
        })
    }

    fn args(&mut self, list: Node<'_>) -> Vec<Arg<'a>> {
        named(list).into_iter().map(|arg| Arg { name: None, value: self.expr(arg) }).collect()
    }

    fn first(&mut self, node: Node<'_>) -> Box<Expr<'a>> {
        Box::new(match named(node).first() {
            Some(part) => self.expr(*part),
            None => other(range(node)),
        })
    }

    fn expr(&mut self, node: Node<'_>) -> Expr<'a> {
        let at = range(node);
        let kind = self.deeper(node, |reader| reader.expr_kind(node)).unwrap_or(ExprKind::Other);
        // Parentheses leave no trace, but the span of what they hold.
        match kind {
            ExprKind::Block(mut inner) if node.kind() == "parenthesized_expression" && inner.len() == 1 => {
                inner.pop().unwrap_or_else(|| other(at))
            }
            kind => Expr { kind, at },
        }
    }

    fn expr_kind(&mut self, node: Node<'_>) -> ExprKind<'a> {
        match node.kind() {
            "decimal_integer_literal"
            | "hex_integer_literal"
            | "octal_integer_literal"
            | "binary_integer_literal"
            | "decimal_floating_point_literal" => number(self.text(node)).unwrap_or(ExprKind::Other),
            "true" => ExprKind::Bool(true),
            "false" => ExprKind::Bool(false),
            "null_literal" => ExprKind::Null,
            "string_literal" => self.string(node),
            "character_literal" => {
                let inner = self.text(node).trim_matches('\'');
                ExprKind::Text(match unescape(inner) {
                    Some(c) => Cow::Owned(c.to_string()),
                    None => Cow::Borrowed(inner),
                })
            }
            "identifier" | "type_identifier" => ExprKind::Name(self.text(node)),
            "scoped_identifier" | "scoped_type_identifier" => self.dotted(node),
            "this" => ExprKind::This,
            "super" => ExprKind::Super,
            "parenthesized_expression" => ExprKind::Block(vec![*self.first(node)]),
            "expression_statement" => self.first(node).kind,
            "field_access" => match field(node, "field") {
                Some(name) if name.kind() == "this" => ExprKind::This,
                Some(name) => ExprKind::Select { target: self.boxed(node, "object"), name: self.text(name) },
                None => ExprKind::Other,
            },
            "method_invocation" => self.call(node),
            "object_creation_expression" => self.creation(node),
            "array_creation_expression" => match field(node, "value") {
                Some(value) => self.expr_kind(value),
                None => ExprKind::List(Vec::new()),
            },
            "array_initializer" | "element_value_array_initializer" => {
                ExprKind::List(named(node).into_iter().map(|item| self.expr(item)).collect())
            }
            "annotation" | "marker_annotation" => match self.annotation(node) {
                Some(annotation) => ExprKind::Annotation(Box::new(annotation)),
                None => ExprKind::Other,
            },
            "class_literal" => match named(node).first() {
                Some(ty) => ExprKind::ClassRef(self.ty(*ty)),
                None => ExprKind::Other,
            },
            "lambda_expression" => self.lambda(node),
            "method_reference" => self.method_reference(node),
            "array_access" => ExprKind::Index { target: self.boxed(node, "array"), index: self.boxed(node, "index") },
            "cast_expression" => match field(node, "type") {
                Some(ty) => ExprKind::Cast { ty: self.ty(ty), value: self.boxed(node, "value") },
                None => ExprKind::Other,
            },
            "instanceof_expression" => ExprKind::Test(vec![*self.boxed(node, "left")]),
            "unary_expression" => {
                let operand = self.boxed(node, "operand");
                match field(node, "operator").map(|op| self.text(op)) {
                    Some("!") => ExprKind::Not(operand),
                    Some("-") => ExprKind::Neg(operand),
                    Some("+") => operand.kind,
                    _ => ExprKind::Test(vec![*operand]),
                }
            }
            "update_expression" => {
                let target = self.first(node);
                let one = Box::new(Expr { kind: ExprKind::Int(1), at: range(node) });
                let op = if self.text(node).contains("--") { Op::Sub } else { Op::Add };
                ExprKind::Assign { target, op: Some(op), value: one }
            }
            "binary_expression" => {
                let op = field(node, "operator").map_or(Op::Other, |op| operator(op.kind()));
                ExprKind::Binary { op, left: self.boxed(node, "left"), right: self.boxed(node, "right") }
            }
            "assignment_expression" => {
                let op = field(node, "operator").map_or("=", |op| op.kind());
                let op = op.strip_suffix('=').filter(|op| !op.is_empty()).map(operator);
                ExprKind::Assign { target: self.boxed(node, "left"), op, value: self.boxed(node, "right") }
            }
            "ternary_expression" => ExprKind::If {
                cond: self.boxed(node, "condition"),
                then: self.boxed(node, "consequence"),
                other: Some(self.boxed(node, "alternative")),
            },
            "if_statement" => ExprKind::If {
                cond: self.boxed(node, "condition"),
                then: self.boxed(node, "consequence"),
                other: field(node, "alternative").map(|part| Box::new(self.expr(part))),
            },
            "block" | "constructor_body" => self.block(node).kind,
            "local_variable_declaration" => {
                let mut parts = Vec::new();
                self.statement(node, &mut parts);
                ExprKind::Block(parts)
            }
            "return_statement" | "yield_statement" => {
                let value = named(node).first().map(|value| Box::new(self.expr(*value)));
                // `yield` gives the value of a switch; the switch takes the last value of its arm.
                match value {
                    Some(value) if node.kind() == "yield_statement" => value.kind,
                    value => ExprKind::Return { value, from_lambda: false },
                }
            }
            "throw_statement" => ExprKind::Throw(self.first(node)),
            "break_statement" | "continue_statement" => ExprKind::Jump,
            "labeled_statement" => match named(node).last() {
                Some(statement) => self.expr(*statement).kind,
                None => ExprKind::Other,
            },
            "synchronized_statement" => self.boxed(node, "body").kind,
            "enhanced_for_statement" => ExprKind::ForEach {
                names: field(node, "name").map(|name| self.text(name)).into_iter().collect(),
                ty: field(node, "type").map(|ty| self.ty(ty)).filter(|ty| ty.name != "var"),
                over: self.boxed(node, "value"),
                body: self.boxed(node, "body"),
            },
            "for_statement" => self.counting_loop(node),
            "while_statement" | "do_statement" => ExprKind::Loop {
                init: Vec::new(),
                repeated: vec![*self.boxed(node, "condition"), *self.boxed(node, "body")],
            },
            "try_statement" | "try_with_resources_statement" => self.try_statement(node),
            "switch_expression" => self.switch(node),
            "assert_statement" => ExprKind::Test(Vec::new()),
            "class_declaration" | "record_declaration" | "enum_declaration" | "interface_declaration" => {
                match self.class(node) {
                    Some(class) => ExprKind::LocalClass(Box::new(class)),
                    None => ExprKind::Other,
                }
            }
            _ => ExprKind::Other,
        }
    }

    fn counting_loop(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let mut init = Vec::new();
        let mut repeated = Vec::new();
        let mut cursor = node.walk();
        let parts: Vec<_> = ["init", "condition", "body", "update"]
            .into_iter()
            .flat_map(|name| {
                let found: Vec<_> = node.children_by_field_name(name, &mut cursor).collect();
                found.into_iter().map(move |part| (name, part))
            })
            .collect();
        for (name, part) in parts {
            self.statement(part, if name == "init" { &mut init } else { &mut repeated });
        }
        ExprKind::Loop { init, repeated }
    }

    /// `a.b.C` as selections.
    fn dotted(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let parts = named(node);
        match parts.as_slice() {
            [scope, .., name] => ExprKind::Select { target: Box::new(self.expr(*scope)), name: self.text(*name) },
            _ => ExprKind::Name(self.text(node)),
        }
    }

    fn string(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let whole = self.text(node);
        if let Some(inner) = whole.strip_prefix("\"\"\"") {
            return ExprKind::Text(Cow::Owned(text_block(inner.strip_suffix("\"\"\"").unwrap_or(inner))));
        }
        let inner = whole.strip_prefix('"').unwrap_or(whole);
        let inner = inner.strip_suffix('"').unwrap_or(inner);
        if !inner.contains('\\') {
            return ExprKind::Text(Cow::Borrowed(inner));
        }
        let mut result = String::new();
        for kid in named(node) {
            match kid.kind() {
                "escape_sequence" => result.extend(unescape(self.text(kid))),
                _ => result.push_str(self.text(kid)),
            }
        }
        ExprKind::Text(Cow::Owned(result))
    }

    fn call(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let Some(name) = field(node, "name") else { return ExprKind::Other };
        let target = field(node, "object").map(|target| Box::new(self.expr(target)));
        let types = field(node, "type_arguments").map(|list| named(list).into_iter().map(|ty| self.ty(ty)).collect());
        let args = field(node, "arguments").map(|args| self.args(args)).unwrap_or_default();
        ExprKind::Call { target, name: self.text(name), name_at: range(name), types: types.unwrap_or_default(), args }
    }

    fn creation(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let Some(ty) = field(node, "type") else { return ExprKind::Other };
        let ty = self.ty(ty);
        let args = field(node, "arguments").map(|args| self.args(args)).unwrap_or_default();
        let body = child_of_kind(node, "class_body").and_then(|body| {
            let mut class = self.empty_class("", ClassKind::Anonymous, ty.at);
            class.supers.push(Super { ty: ty.clone(), args: None, by: None });
            self.deeper(body, |reader| reader.class_body(body, &mut class))?;
            Some(Box::new(class))
        });
        ExprKind::New { ty, args, body }
    }

    fn lambda(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let mut params = Vec::new();
        if let Some(list) = field(node, "parameters") {
            match list.kind() {
                "formal_parameters" => {
                    for param in self.params(list) {
                        params
                            .push(LambdaParam { names: vec![param.name], ty: param.ty.filter(|ty| ty.name != "var") });
                    }
                }
                "inferred_parameters" => {
                    let names = named(list).into_iter().map(|name| self.text(name));
                    params.extend(names.map(|name| LambdaParam { names: vec![name], ty: None }));
                }
                _ => params.push(LambdaParam { names: vec![self.text(list)], ty: None }),
            }
        }
        let body = *self.boxed(node, "body");
        ExprKind::Lambda(Box::new(Lambda { params, implicit_it: false, own_return: true, body, at: range(node) }))
    }

    fn method_reference(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let parts = kids(node);
        let name = parts.last().map_or("", |name| self.text(*name));
        let target = parts.first().map(|target| {
            Box::new(match target.kind() {
                "generic_type" | "array_type" => {
                    let ty = self.ty(*target);
                    Expr { at: ty.at, kind: ExprKind::ClassRef(ty) }
                }
                _ => self.expr(*target),
            })
        });
        ExprKind::MethodRef { target, name }
    }

    fn try_statement(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let mut resources = Vec::new();
        if let Some(list) = field(node, "resources") {
            for resource in named(list) {
                let Some(value) = field(resource, "value") else { continue };
                let value = Some(Box::new(self.expr(value)));
                let names = field(resource, "name").map(|name| self.text(name)).into_iter().collect();
                let ty = field(resource, "type").map(|ty| self.ty(ty)).filter(|ty| ty.name != "var");
                resources.push(Expr { kind: ExprKind::Local { names, ty, value }, at: range(resource) });
            }
        }
        let body = *self.boxed(node, "body");
        let mut catches = Vec::new();
        let mut finally = None;
        for kid in named(node) {
            match kid.kind() {
                "catch_clause" => {
                    let param = child_of_kind(kid, "catch_formal_parameter");
                    let types = param.and_then(|param| child_of_kind(param, "catch_type"));
                    let types = types.map(|types| named(types).into_iter().map(|ty| self.ty(ty)).collect());
                    let name = param.and_then(|param| field(param, "name")).map_or("", |name| self.text(name));
                    let body = *self.boxed(kid, "body");
                    catches.push(Catch { types: types.unwrap_or_default(), name, body, at: range(kid) });
                }
                "finally_clause" => {
                    finally = child_of_kind(kid, "block").map(|block| self.block(block));
                }
                _ => {}
            }
        }
        ExprKind::Try(Box::new(Try { resources, body, catches, finally }))
    }

    fn switch(&mut self, node: Node<'_>) -> ExprKind<'a> {
        let subject = field(node, "condition").map(|condition| Box::new(self.expr(condition)));
        let mut arms = Vec::new();
        for group in field(node, "body").map(named).unwrap_or_default() {
            let falls_through = group.kind() == "switch_block_statement_group";
            let mut conditions = Vec::new();
            let mut statements = Vec::new();
            for kid in named(group) {
                if kid.kind() == "switch_label" {
                    conditions.extend(named(kid).into_iter().map(|label| self.expr(label)));
                } else {
                    self.statement(kid, &mut statements);
                }
            }
            let body = match statements.len() {
                1 if !falls_through => statements.pop().unwrap_or_else(|| other(range(group))),
                _ => Expr { kind: ExprKind::Block(statements), at: range(group) },
            };
            arms.push(Arm { conditions, body, falls_through });
        }
        ExprKind::Switch { subject, arms }
    }
}

fn component(param: Param<'_>) -> Field<'_> {
    Field {
        name: param.name,
        ty: param.ty,
        annotations: param.annotations,
        value: None,
        getter: None,
        is_static: false,
        is_final: true,
        in_constructor: true,
        at: param.at,
    }
}

fn operator(text: &str) -> Op {
    match text {
        "+" => Op::Add,
        "-" => Op::Sub,
        "*" => Op::Mul,
        "/" => Op::Div,
        "%" => Op::Rem,
        "<<" => Op::Shl,
        ">>" => Op::Shr,
        "&&" => Op::And,
        "||" => Op::Or,
        "==" => Op::Eq,
        "!=" => Op::Ne,
        "<" => Op::Lt,
        "<=" => Op::Le,
        ">" => Op::Gt,
        ">=" => Op::Ge,
        _ => Op::Other,
    }
}

/// The text of a text block: without the indentation that all lines share.
fn text_block(inner: &str) -> String {
    let lines: Vec<&str> = inner.split('\n').skip(1).collect();
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let shared = lines.iter().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    let lines: Vec<_> = lines.iter().map(|line| line.get(shared..).unwrap_or("").trim_end()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: [&str; 3] = [
        include_str!("../tests/it/samples/stock-java.txt"),
        include_str!("../tests/it/samples/legacy-java.txt"),
        include_str!("../tests/it/samples/billing-mixed.txt"),
    ];

    /// Reads the bodies that were left out.
    fn filled<'a>(text: &'a str, mut tree: Tree<'a>) -> Tree<'a> {
        let mut open: Vec<&mut Class<'a>> = tree.classes.iter_mut().collect();
        while let Some(class) = open.pop() {
            for body in class.methods.iter_mut().flat_map(|method| &mut method.body) {
                if let Body::Left(left) = *body {
                    let (expr, problems) = read_body(text, left);
                    assert!(problems.is_empty(), "{problems:?}");
                    *body = Body::Read(expr);
                }
            }
            open.extend(&mut class.nested);
        }
        tree.left_out = 0;
        tree
    }

    /// Whether reading in parts gives what reading the whole gives; says how many bodies were read later.
    fn check(text: &str) -> u32 {
        let whole = read_whole(text);
        let parts = read(text);
        let left_out = parts.left_out;
        assert_eq!(format!("{:#?}", filled(text, parts)), format!("{whole:#?}"));
        left_out
    }

    #[test]
    fn a_file_that_is_read_in_parts_is_the_same() {
        let heads = [
            "void a()",
            "public static int[][] a(final int b, java.util.List<String> c) throws D, e.E",
            "private Map<String, List<? extends B>> a(Class<?> c, D<? super E>[] d)",
            "@A @B(x = {1, 2}) protected final synchronized Optional<byte[]> a(@C(\"{\") D d, int... e)",
            "<T extends Comparable<T>> T a(T b)",
            "a.b.C<D>.E a(int b[])",
            "record a(record record)",
            "int a(/* { */ int b) // }\n",
        ];
        for head in heads {
            let body =
                "{ if (b) { return new X() { int y() { return 1; } }; } run(() -> { z('}', \"}\"); }); throw c; }";
            check(&format!(
                "package p; class K extends L {{ int f = 1; {head} {body} K() {body} class M {{ {head} {body} }} {head} {body} }}"
            ));
            check(&format!(
                "enum K {{ A, B {{ {head} {body} }}; {head} {body} }} interface I {{ {head} {body} {head}; }}"
            ));
            check(&format!("record R(int a) {{ R {body} {head} {body} }} @interface N {{ int[] v() default {{}}; }}"));
        }
        assert!(
            check(
                "class K { int a(int b) { return b; } @X void b() { call(a(1)); call(a(2)); call(a(3)); call(a(4)); } }"
            ) == 2
        );
        let files = SAMPLES
            .iter()
            .flat_map(|sample| sample.split("\n=="))
            .map(|part| part.split_once('\n').unwrap_or((part, "")).1);
        assert!(files.filter(|text| read_whole(text).problems.is_empty()).map(check).sum::<u32>() > 20);
    }
}
