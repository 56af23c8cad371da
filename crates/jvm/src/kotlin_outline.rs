//! Which bodies of a Kotlin file's functions can be left out when it is parsed.
//!
//! As for Java (see [`crate::outline`]): bodies are most of a file, and most are never run. The reader holds the result against
//! the grammar and reads the whole file where the two do not agree, so this may err.

use crate::outline::{LEFT_BYTES_MIN, skip_block};
use crate::scan::{Token, Tokens};
use crate::span::Range;

/// What a brace would open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    Class,
    Function,
    /// A lambda, an accessor, an `init` block.
    Other,
}

/// The bodies in braces of functions outside classes and in classes, braces included, in their order. `None`: the braces do not
/// match.
pub(crate) fn bodies(text: &str) -> Option<Vec<Range>> {
    let mut tokens = Tokens::new(text);
    let mut found = Vec::new();
    let mut classes = 0_u32;
    let mut head = Head::Other;
    let mut parentheses = 0_u32;
    let mut before = Token::Mark(b';');
    while let Some(token) = tokens.next() {
        match token {
            Token::Mark(b'(') => parentheses += 1,
            Token::Mark(b')') => parentheses = parentheses.saturating_sub(1),
            Token::Mark(b'{') if parentheses == 0 && head == Head::Class => {
                classes += 1;
                head = Head::Other;
            }
            Token::Mark(b'{') => {
                let start = tokens.position() - 1;
                skip_block(&mut tokens)?;
                let end = tokens.position();
                if parentheses == 0 {
                    if head == Head::Function && end - start >= LEFT_BYTES_MIN {
                        found.push(Range { start: u32::try_from(start).ok()?, end: u32::try_from(end).ok()? });
                    }
                    head = Head::Other;
                }
            }
            Token::Mark(b'}') => {
                classes = classes.checked_sub(1)?;
                head = Head::Other;
            }
            // The value of a function or a property.
            Token::Mark(b'=') if parentheses == 0 => head = Head::Other,
            Token::Word(word) if parentheses == 0 => head = head_from(head, before, word),
            _ => {}
        }
        before = token;
    }
    (classes == 0).then_some(found)
}

fn head_from(head: Head, before: Token<'_>, word: &str) -> Head {
    match word {
        // Not `Order::class`, and not a name behind a dot.
        _ if matches!(before, Token::Mark(b':' | b'.')) && head == Head::Other => head,
        "class" | "interface" if !matches!(before, Token::Mark(b':' | b'.')) => Head::Class,
        "fun" => Head::Function,
        "val" | "var" | "init" | "constructor" | "typealias" if head != Head::Class => Head::Other,
        // `companion object {`; without that word, an object without a name is a value.
        _ if before == Token::Word("object") => Head::Class,
        "object" if before == Token::Word("companion") => Head::Class,
        "object" => Head::Other,
        _ => head,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first words of the bodies that are left out.
    fn check(text: &str, expected: Option<&str>) {
        let text = text.replace("...", &"call(); ".repeat(8));
        let first =
            |at: &Range| text[at.start as usize + 1..at.end as usize - 1].split_whitespace().next().unwrap_or("");
        let found = bodies(&text).map(|found| found.iter().map(first).collect::<Vec<_>>().join(" "));
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    #[test]
    fn bodies_of_functions_are_left_out_and_nothing_else() {
        check(
            "fun a() { a1 ... }\nclass A(val b: B = c { d }) : E(f) { override fun g(h: I = { j }): K<L> { g1 ... } }",
            Some("a1 g1"),
        );
        check(
            "class A { companion object { fun a() { a1 ... } }\n object B : C { fun d() { d1 ... } } }",
            Some("a1 d1"),
        );
        check("class A { val b = object : C { fun d() { ... } }\n val e by lazy { ... }\n init { ... } }", Some(""));
        check(
            "class A { fun b() = run { ... }\n val c: D get() { ... }\n constructor(e: F) : this() { ... } }",
            Some(""),
        );
        check("interface A { fun b()\n val c get() { ... }\n fun d() { d1 ... } }", Some("d1"));
        check("enum class A { B { fun c() { ... } }, D; fun e() { e1 ... } }\nfun interface F { fun g() }", Some("e1"));
        check("fun a() { short() }\nfun b() { b1 \"${c(\"x\")}\" /* } */ // }\n ... }", Some("b1"));
        check("fun A.b(): (C) -> D { b1 ... }\nval e = A::class", Some("b1"));
    }

    #[test]
    fn braces_that_do_not_match_leave_nothing_out() {
        check("fun a() { ...", None);
        check("class A { fun a() { ... } } }", None);
        check("class A { fun a() { ... }", None);
    }
}
