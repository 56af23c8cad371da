//! The heads of plain Java methods: modifiers, a type, a name, parameters, `throws`.
//!
//! Most methods have no more than that, and reading it here costs a small part of what the grammar takes. Annotations, type
//! parameters and all that is rare are left to the grammar.

use crate::scan::{Token, Tokens};
use crate::span::Range;
use crate::tree::{Method, Param, Type};

/// How deep types may nest.
const DEPTH_MAX: u32 = 20;

/// Words that are no type and no name.
const KEYWORDS: &[&str] = &[
    "abstract",
    "assert",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "default",
    "do",
    "else",
    "enum",
    "extends",
    "final",
    "finally",
    "for",
    "goto",
    "if",
    "implements",
    "import",
    "instanceof",
    "interface",
    "native",
    "new",
    "non",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "sealed",
    "static",
    "strictfp",
    "super",
    "switch",
    "synchronized",
    "this",
    "throw",
    "throws",
    "transient",
    "try",
    "volatile",
    "while",
    "_",
    "true",
    "false",
    "null",
    "permits",
    "record",
    "yield",
    "var",
    "when",
    "module",
    "open",
    "exports",
    "requires",
];

/// Types that are no classes.
const PRIMITIVES: &[&str] = &["void", "boolean", "byte", "char", "short", "int", "long", "float", "double"];

/// Reads the head that stands in these bytes of a text; the method has no body yet. `None`: it is not a plain one.
pub(crate) fn read(text: &str, begin: usize, end: usize) -> Option<Method<'_>> {
    let mut head = Head { text, tokens: tokens(text, begin, end)?, at: 0 };
    let mut is_static = false;
    while let Some(word) = head.word() {
        match word {
            "static" => is_static = true,
            "public" | "protected" | "private" | "final" | "synchronized" | "default" | "strictfp" => {}
            _ => break,
        }
        head.at += 1;
    }
    let ret = head.ty(0)?;
    let (name, name_at) = head.name()?;
    head.mark(b'(')?;
    let mut params = Vec::new();
    while !head.is_mark(b')') {
        if !params.is_empty() {
            head.mark(b',')?;
        }
        params.push(head.param()?);
    }
    head.mark(b')')?;
    if head.word() == Some("throws") {
        head.at += 1;
        head.ty(0)?;
        while head.is_mark(b',') {
            head.at += 1;
            head.ty(0)?;
        }
    }
    (head.at == head.tokens.len()).then_some(Method {
        name,
        annotations: Vec::new(),
        receiver: None,
        params,
        ret: Some(ret),
        body: None,
        is_expression: false,
        is_static,
        suspend: false,
        name_at,
    })
}

/// The words and marks with their places. `None`: there is something else than blanks between them.
fn tokens(text: &str, begin: usize, end: usize) -> Option<Vec<(Token<'_>, Range)>> {
    let head = text.get(begin..end)?;
    let mut tokens = Tokens::java(head);
    let (mut found, mut behind) = (Vec::new(), 0);
    while let Some(token) = tokens.next() {
        let stop = tokens.position();
        let start = stop - if let Token::Word(word) = token { word.len() } else { 1 };
        head.get(behind..start)?.trim_ascii().is_empty().then_some(())?;
        behind = stop;
        let at = Range { start: u32::try_from(begin + start).ok()?, end: u32::try_from(begin + stop).ok()? };
        found.push((token, at));
    }
    head.get(behind..)?.trim_ascii().is_empty().then_some(found)
}

struct Head<'a> {
    text: &'a str,
    tokens: Vec<(Token<'a>, Range)>,
    at: usize,
}

impl<'a> Head<'a> {
    fn word(&self) -> Option<&'a str> {
        match self.tokens.get(self.at) {
            Some((Token::Word(word), _)) => Some(word),
            _ => None,
        }
    }

    fn is_mark(&self, mark: u8) -> bool {
        self.tokens.get(self.at).is_some_and(|(token, _)| *token == Token::Mark(mark))
    }

    /// Goes behind a mark that has to be here; its place.
    fn mark(&mut self, mark: u8) -> Option<Range> {
        let (token, at) = *self.tokens.get(self.at)?;
        self.at += 1;
        (token == Token::Mark(mark)).then_some(at)
    }

    fn name(&mut self) -> Option<(&'a str, Range)> {
        let (name, at) = (self.word()?, self.tokens.get(self.at)?.1);
        self.at += 1;
        (!KEYWORDS.contains(&name) && !PRIMITIVES.contains(&name)).then_some((name, at))
    }

    fn param(&mut self) -> Option<Param<'a>> {
        let start = self.tokens.get(self.at)?.1.start;
        if self.word() == Some("final") {
            self.at += 1;
        }
        let ty = self.ty(0)?;
        let (name, at) = self.name()?;
        let at = Range { start, end: at.end };
        Some(Param { name, ty: Some(ty), annotations: Vec::new(), default: None, vararg: false, at })
    }

    fn ty(&mut self, depth: u32) -> Option<Type<'a>> {
        (depth < DEPTH_MAX).then_some(())?;
        let (word, mut at) = (self.word()?, self.tokens.get(self.at)?.1);
        self.at += 1;
        (!KEYWORDS.contains(&word)).then_some(())?;
        let mut args = Vec::new();
        let mut name = word;
        if !PRIMITIVES.contains(&word) {
            // Without a blank in between, as nearly everybody writes it.
            while self.is_mark(b'.') && self.mark(b'.')?.start == at.end {
                let (_, part) = self.name()?;
                (part.start == at.end + 1).then_some(())?;
                at.end = part.end;
            }
            name = self.text.get(at.start as usize..at.end as usize)?;
            if self.is_mark(b'<') {
                self.at += 1;
                args.push(self.arg(depth + 1)?);
                while self.is_mark(b',') {
                    self.at += 1;
                    args.push(self.arg(depth + 1)?);
                }
                at.end = self.mark(b'>')?.end;
                (!self.is_mark(b'.')).then_some(())?;
            }
        }
        let mut array = false;
        while self.is_mark(b'[') {
            self.at += 1;
            at.end = self.mark(b']')?.end;
            array = true;
        }
        Some(Type { name, args, array, at })
    }

    /// A type in angle brackets; of a wildcard its bound counts.
    fn arg(&mut self, depth: u32) -> Option<Type<'a>> {
        if !self.is_mark(b'?') {
            return self.ty(depth);
        }
        let at = self.mark(b'?')?;
        if matches!(self.word(), Some("extends" | "super")) {
            self.at += 1;
            return self.ty(depth);
        }
        Some(Type { name: "Object", args: Vec::new(), array: false, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: Option<&str>) {
        let found = read(head, 0, head.len()).map(|method| {
            let ty = |ty: &Type<'_>| {
                let args = ty.args.iter().map(|arg| format!("<{}>", arg.name)).collect::<String>();
                format!("{}{args}{}", ty.name, if ty.array { "[]" } else { "" })
            };
            let ty = |given: &Option<Type<'_>>| given.as_ref().map_or("?".to_owned(), ty);
            let params = method.params.iter().map(|param| format!(" {}:{}", param.name, ty(&param.ty)));
            format!(
                "{}{} {}{}",
                if method.is_static { "static " } else { "" },
                ty(&method.ret),
                method.name,
                params.collect::<String>()
            )
        });
        assert_eq!(found.as_deref(), expected, "{head}");
    }

    #[test]
    fn plain_heads_are_read() {
        check("void a()", Some("void a"));
        check(
            "public static int[][] a(final int b, java.util.List<String> c) throws D, e.E",
            Some("static int[] a b:int c:java.util.List<String>"),
        );
        check(
            "Map<String, List<? extends B>> a(Class<?> c, D<? super E>[] d)",
            Some("Map<String><List> a c:Class<Object> d:D<E>[]"),
        );
    }

    #[test]
    fn the_rest_is_left_to_the_grammar() {
        for head in [
            "@A void a()",
            "<T> T a()",
            "void a(@B C c)",
            "void a(int... b)",
            "int a(int b[])",
            "int a()[]",
            "a()",
            "void a(/* b */)",
            "void 5 a()",
            "A<B>.C a()",
            "new A()",
            "void a(this)",
            "void a(,)",
            "void a(int b,)",
            "a . B c()",
        ] {
            check(head, None);
        }
    }
}
