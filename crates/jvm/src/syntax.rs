//! What the readers of Java and Kotlin share: walking a tree-sitter tree with a limit on depth and on work.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tree_sitter::{Language, Node, ParseOptions, Parser, Point};

use crate::span::Range;
use crate::tree::{Expr, ExprKind, LeftOut, Method};

/// Deeper parts of a file are not read; a problem says so.
pub(crate) const DEPTH_MAX: u32 = 400;
/// More problems of one file are counted only.
pub(crate) const PROBLEMS_MAX: usize = 10;
/// How often the parser may ask whether to go on; it asks after about 100 steps, and a well-formed file takes about one
/// step for each byte.
const PARSE_ASKS_MAX: usize = 20_000;

/// Reads one file.
pub(crate) struct Reader<'a> {
    pub text: &'a str,
    pub depth: u32,
    /// Bodies that were left out of the parsed text, braces included, in their order.
    pub left: Vec<Range>,
    /// How many of them were come upon.
    pub left_found: u32,
    /// Methods that were left out of it, by the place of their class's brace, until that is come upon.
    pub methods: BTreeMap<u32, Vec<Method<'a>>>,
    pub problems: Vec<(Range, String)>,
}

pub(crate) fn range(node: Node<'_>) -> Range {
    Range { start: node.start_byte() as u32, end: node.end_byte() as u32 }
}

/// All children, without comments.
pub(crate) fn kids<'t>(node: Node<'t>) -> Vec<Node<'t>> {
    let mut found = Vec::with_capacity(node.child_count() as usize);
    let mut cursor = node.walk();
    if cursor.goto_first_child() {
        loop {
            let child = cursor.node();
            // Looking at the kind costs more.
            if !child.is_extra() || !matches!(child.kind(), "line_comment" | "block_comment") {
                found.push(child);
            }
            if !cursor.goto_next_sibling() {
                break;
            }
        }
    }
    found
}

/// The named children, without comments and without regions that could not be read.
pub(crate) fn named<'t>(node: Node<'t>) -> Vec<Node<'t>> {
    let mut found = kids(node);
    found.retain(|child| child.is_named() && !child.is_error());
    found
}

pub(crate) fn field<'t>(node: Node<'t>, name: &str) -> Option<Node<'t>> {
    node.child_by_field_name(name)
}

pub(crate) fn child_of_kind<'t>(node: Node<'t>, kind: &str) -> Option<Node<'t>> {
    let mut cursor = node.walk();
    if !cursor.goto_first_child() {
        return None;
    }
    loop {
        if cursor.node().kind() == kind {
            return Some(cursor.node());
        }
        if !cursor.goto_next_sibling() {
            return None;
        }
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, depth: 0, left: Vec::new(), left_found: 0, methods: BTreeMap::new(), problems: Vec::new() }
    }

    pub(crate) fn text(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.start_byte()..node.end_byte()).unwrap_or_default()
    }

    /// A body that was left out of the parsed text, if this is one; `from`: see [`LeftOut::from`].
    pub(crate) fn left_out(&mut self, at: Range, from: usize) -> Option<LeftOut> {
        self.left.binary_search(&at).ok()?;
        self.left_found += 1;
        Some(LeftOut { number: self.left_found - 1, at, from: from as u32, depth: self.depth })
    }

    /// Goes one level down, or says that the file is nested too deeply.
    pub(crate) fn deeper<T>(&mut self, node: Node<'_>, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= DEPTH_MAX {
            self.problem(range(node), "nested too deeply: this part is not read".to_owned());
            return None;
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        Some(result)
    }

    pub(crate) fn problem(&mut self, at: Range, text: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push((at, text));
        }
    }

    /// Notes the regions that the grammar could not read.
    pub(crate) fn note_errors(&mut self, root: Node<'_>) {
        if !root.has_error() {
            return;
        }
        let mut cursor = root.walk();
        let mut more = 0_usize;
        'nodes: loop {
            let node = cursor.node();
            let wrong = node.is_error() || node.is_missing();
            if wrong {
                if self.problems.len() < PROBLEMS_MAX - 1 {
                    let what = if node.is_missing() {
                        format!("cannot be read: {} is missing", node.kind())
                    } else {
                        "cannot be read: not understood from here".to_owned()
                    };
                    self.problems.push((range(node), what));
                } else {
                    more += 1;
                }
            }
            if !wrong && node.has_error() && cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    break 'nodes;
                }
            }
        }
        if more > 0 {
            self.problems.push((range(root), format!("{more} more places of this file cannot be read")));
        }
    }
}

pub(crate) fn other<'a>(at: Range) -> Expr<'a> {
    Expr { kind: ExprKind::Other, at }
}

/// Parses a text, or those parts of it, with a limit on the work; `None` says that the limit was reached.
pub(crate) fn parse(text: &str, language: &Language, parts: &[Range]) -> Option<tree_sitter::Tree> {
    parse_from(text, 0, language, parts)
}

/// The same of a text that begins at a byte of its file: places are those of the file, and so are the parts.
pub(crate) fn parse_from(text: &str, base: usize, language: &Language, parts: &[Range]) -> Option<tree_sitter::Tree> {
    let mut parser = Parser::new();
    parser.set_language(language).ok()?;
    // Nobody asks for lines and columns of nodes.
    let (start_point, end_point) = (Point::default(), Point::default());
    let part = |part: &Range| tree_sitter::Range {
        start_byte: part.start as usize,
        end_byte: part.end as usize,
        start_point,
        end_point,
    };
    parser.set_included_ranges(&parts.iter().map(part).collect::<Vec<_>>()).ok()?;
    let mut asks = 0_usize;
    let asks_max = PARSE_ASKS_MAX + text.len();
    let mut go_on = |_: &tree_sitter::ParseState| {
        asks += 1;
        if asks > asks_max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut go_on);
    parser.parse_with_options(
        &mut |at, _| at.checked_sub(base).and_then(|at| text.as_bytes().get(at..)).unwrap_or_default(),
        None,
        Some(options),
    )
}

/// A number as Java and Kotlin write it.
pub(crate) fn number(text: &str) -> Option<ExprKind<'static>> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let lower = plain.to_ascii_lowercase();
    let whole = lower.trim_end_matches(['l', 'u']);
    let radix = |digits: &str, radix| i64::from_str_radix(digits, radix).ok().map(ExprKind::Int);
    if let Some(digits) = whole.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = whole.strip_prefix("0b") {
        return radix(digits, 2);
    }
    if whole.len() > 1 && whole.starts_with('0') && whole.bytes().all(|b| b.is_ascii_digit()) {
        return radix(whole.trim_start_matches("0o"), 8);
    }
    if let Ok(number) = whole.parse() {
        return Some(ExprKind::Int(number));
    }
    lower.trim_end_matches(['f', 'd']).parse().ok().map(ExprKind::Float)
}

/// The character that an escape stands for; `None` stands for none (a line's end that is skipped) or one not known.
pub(crate) fn unescape(escape: &str) -> Option<char> {
    let mut chars = escape.strip_prefix('\\')?.chars();
    Some(match chars.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        's' => ' ',
        'u' => char::from_u32(u32::from_str_radix(chars.as_str(), 16).ok()?)?,
        digit @ '0'..='7' => char::from_u32(u32::from_str_radix(&format!("{digit}{}", chars.as_str()), 8).ok()?)?,
        '\n' | '\r' => return None,
        other => other,
    })
}
