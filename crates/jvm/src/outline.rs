//! Which methods of a Java file, or bodies of methods, can be left out when it is parsed.
//!
//! Most of a file is bodies, and most methods are never run by what the analysis follows. This finds them by their words and
//! marks; the reader holds the result against the grammar and reads the whole file where the two do not agree.

use std::collections::BTreeMap;

use crate::header;
use crate::scan::{Token, Tokens};
use crate::span::Range;
use crate::tree::{Body, LeftOut, Method};

/// A shorter body is read with its file: that costs less than reading it later.
pub(crate) const LEFT_BYTES_MIN: usize = 48;

/// What of a Java file the grammar need not see.
#[derive(Debug, Default)]
pub(crate) struct Outline<'a> {
    /// Bodies whose methods the grammar reads, braces included, in their order.
    pub bodies: Vec<Range>,
    /// Plain methods, by the place of the brace that opens their class, in the order of those.
    pub methods: BTreeMap<u32, Vec<Method<'a>>>,
    /// Where those methods stand, in their order.
    pub whole: Vec<Range>,
}

impl Outline<'_> {
    /// The rest of the text.
    pub(crate) fn rest(&self, end: u32) -> Vec<Range> {
        rest(&self.bodies, &self.whole, end)
    }
}

/// A text that ends there without these bodies, whose braces stay, and without what is left out as a whole.
pub(crate) fn rest(bodies: &[Range], whole: &[Range], end: u32) -> Vec<Range> {
    let inside = |body: &Range| Range { start: body.start + 1, end: body.end - 1 };
    let mut gaps: Vec<Range> = bodies.iter().map(inside).chain(whole.iter().copied()).collect();
    gaps.sort_unstable();
    let mut rest = Vec::with_capacity(gaps.len() + 1);
    let mut start = 0;
    for gap in gaps {
        rest.push(Range { start, end: gap.start });
        start = gap.end;
    }
    rest.push(Range { start, end });
    rest
}

/// Looks at the methods of top-level and nested classes. `None`: the braces do not match.
pub(crate) fn outline(text: &str) -> Option<Outline<'_>> {
    let mut tokens = Tokens::java(text);
    let mut found = Outline::default();
    let mut plain: Vec<(u32, Method<'_>)> = Vec::new();
    let mut classes: Vec<u32> = Vec::new();
    let mut head = Head::default();
    while let Some(token) = tokens.next() {
        match token {
            Token::Mark(b'{') if head.is_class() => {
                classes.push(u32::try_from(tokens.position() - 1).ok()?);
                head = Head::default();
            }
            Token::Mark(b'{') => {
                let start = tokens.position() - 1;
                skip_block(&mut tokens)?;
                let at = Range { start: u32::try_from(start).ok()?, end: u32::try_from(tokens.position()).ok()? };
                if head.is_method() {
                    let begin = head.begin.unwrap_or(start);
                    match (header::read(text, begin, start), classes.last()) {
                        (Some(mut method), Some(class)) => {
                            let depth = u32::try_from(classes.len()).ok()?;
                            method.body = Some(Body::Left(LeftOut { number: 0, at, from: at.start, depth }));
                            plain.push((*class, method));
                            found.whole.push(Range { start: u32::try_from(begin).ok()?, end: at.end });
                        }
                        _ if tokens.position() - start >= LEFT_BYTES_MIN => found.bodies.push(at),
                        _ => {}
                    }
                }
                // Values in braces are a part of what they stand in: annotations' and fields'.
                if head.parens == 0 && !head.has_value {
                    head = Head::default();
                }
            }
            Token::Mark(b'}') => {
                classes.pop()?;
                head = Head::default();
            }
            Token::Mark(b';') if head.parens == 0 => head = Head::default(),
            token => {
                let length = if let Token::Word(word) = token { word.len() } else { 1 };
                head.begin.get_or_insert(tokens.position() - length);
                head.take(token);
            }
        }
    }
    // The grammar's come first.
    for (number, (class, mut method)) in (found.bodies.len() as u32..).zip(plain) {
        if let Some(Body::Left(left)) = &mut method.body {
            left.number = number;
        }
        found.methods.entry(class).or_default().push(method);
    }
    classes.is_empty().then_some(found)
}

/// Goes behind the brace that ends a block; `None`: there is none.
pub(crate) fn skip_block(tokens: &mut Tokens<'_>) -> Option<()> {
    let mut open = 1_u32;
    for token in tokens.by_ref() {
        match token {
            Token::Mark(b'{') => open += 1,
            Token::Mark(b'}') => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(());
        }
    }
    None
}

/// What stands before a brace: the words and marks since the last member.
#[derive(Default)]
struct Head<'a> {
    /// Its first byte.
    begin: Option<usize>,
    /// The last three.
    last: [Option<Token<'a>>; 3],
    parens: u32,
    /// `class A`, `interface A`, `record A(`.
    declares: bool,
    /// `enum A`: its constants look like methods, so it is not looked into.
    declares_enum: bool,
    /// A type and a name stand before the list in round brackets.
    has_name: bool,
    /// The list of parameters is closed.
    has_list: bool,
    /// Behind `throws`.
    throws: bool,
    /// Behind `=`.
    has_value: bool,
}

impl<'a> Head<'a> {
    fn take(&mut self, token: Token<'a>) {
        let [first, second, _] = self.last;
        match token {
            Token::Mark(b'(') => {
                if self.parens == 0 && !self.has_list {
                    self.has_name = self.is_name();
                }
                self.parens += 1;
            }
            Token::Mark(b')') => {
                self.parens = self.parens.saturating_sub(1);
                self.has_list |= self.parens == 0 && self.has_name;
            }
            Token::Mark(b'=') if self.parens == 0 => self.has_value = true,
            Token::Word("throws") if self.parens == 0 => self.throws = true,
            Token::Word("class" | "interface") if self.parens == 0 && first != Some(Token::Mark(b'.')) => {
                self.declares = true;
            }
            Token::Word("enum") if self.parens == 0 => self.declares_enum = true,
            // `record A(..)`; a field or a parameter may have that name.
            Token::Word(_)
                if self.parens == 0
                    && first == Some(Token::Word("record"))
                    && !matches!(second, Some(Token::Mark(b'.' | b'='))) =>
            {
                self.declares = true;
            }
            _ => {}
        }
        self.last = [Some(token), first, second];
    }

    /// Whether the last two are a type and a name, as before a method's parameters.
    fn is_name(&self) -> bool {
        let [Some(Token::Word(_)), Some(ty), before] = self.last else { return false };
        match ty {
            Token::Mark(b'>' | b']') => true,
            Token::Word("public" | "protected" | "private" | "static" | "final" | "new") => false,
            Token::Word(_) => before != Some(Token::Mark(b'@')),
            Token::Mark(_) => false,
        }
    }

    fn is_class(&self) -> bool {
        self.parens == 0 && self.declares && !self.declares_enum && !self.has_value
    }

    fn is_method(&self) -> bool {
        let ends = self.throws || self.last[0] == Some(Token::Mark(b')'));
        self.parens == 0 && self.has_list && ends && !self.has_value && !self.declares && !self.declares_enum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The methods that are left out, and the first words of the bodies that are.
    fn check(text: &str, expected: Option<&str>) {
        let text = text.replace("...", &"call(); ".repeat(8));
        let found = outline(&text).map(|found| {
            let first = |at: &Range| text[at.start as usize + 1..at.end as usize - 1].split_whitespace().next();
            let bodies = found.bodies.iter().map(|at| first(at).unwrap_or(""));
            let methods = found.methods.values().flatten().map(|method| method.name);
            format!("{}|{}", methods.collect::<Vec<_>>().join(" "), bodies.collect::<Vec<_>>().join(" "))
        });
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    #[test]
    fn methods_of_classes_are_left_out_and_nothing_else() {
        check(
            "class A { void a() { a1 ... } @X({\"{\", '}'}) <T> List<T> b(int[] c) throws D, E { b1 ... } }",
            Some("a|b1"),
        );
        check("class A { class B { int x() { if (a) { } } } record C(int a) { int y() { y1 ... } } }", Some("x y|"));
        check("class A { A(B b) { ... } @Inject A() { ... } static { ... } { ... } }", Some("|"));
        check(
            "class A { B b = new B() { void c() { ... } }; int[] d = { 1 }; Runnable r = () -> { ... }; }",
            Some("|"),
        );
        check("enum A { B(1) { void c() { ... } }; void d() { ... } }", Some("|"));
        check("class A { @X void a() { short(); } void b() { b1 \"}\" /* } */ // }\n ... } }", Some("b|"));
        check("interface A { default String a() { a1 ... } String b(); }", Some("a|"));
        check("class A { String a() { a1 \"${\" ... \"}\" } }", Some("a|"));
        check("class A { Class<?> k = B.class; void a() { a1 ... } }", Some("a|"));
    }

    #[test]
    fn braces_that_do_not_match_leave_nothing_out() {
        check("class A { void a() { ... }", None);
        check("class A { void a() { ... } } }", None);
        check("class A { void a() { ... ", None);
    }
}
