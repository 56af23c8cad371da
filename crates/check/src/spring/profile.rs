//! Profiles: expressions such as `prod & !eu`, and groups.

/// The longest expression, and how deep its parentheses may be.
const LENGTH_MAX: usize = 2_000;
const DEPTH_MAX: usize = 50;

/// Whether a document is for the active profiles. `None`: the expression is no expression; such a document applies to
/// nobody.
pub fn matches(expression: &str, active: &[String]) -> Option<bool> {
    if expression.len() > LENGTH_MAX {
        return None;
    }
    let mut any = false;
    for alternative in expression.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let mut reader = Reader { rest: alternative, active };
        any |= reader.or(0)?;
        reader.rest.trim().is_empty().then_some(())?;
    }
    Some(any)
}

struct Reader<'a> {
    rest: &'a str,
    active: &'a [String],
}

impl Reader<'_> {
    fn next_is(&mut self, character: char) -> bool {
        match self.rest.trim_start().strip_prefix(character) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn or(&mut self, depth: usize) -> Option<bool> {
        let mut value = self.and(depth)?;
        while self.next_is('|') {
            value |= self.and(depth)?;
        }
        Some(value)
    }

    fn and(&mut self, depth: usize) -> Option<bool> {
        let mut value = self.one(depth)?;
        while self.next_is('&') {
            value &= self.one(depth)?;
        }
        Some(value)
    }

    fn one(&mut self, depth: usize) -> Option<bool> {
        if depth > DEPTH_MAX {
            return None;
        }
        if self.next_is('!') {
            return self.one(depth + 1).map(|value| !value);
        }
        if self.next_is('(') {
            let value = self.or(depth + 1)?;
            return self.next_is(')').then_some(value);
        }
        let text = self.rest.trim_start();
        let end = text.find(|c: char| c.is_whitespace() || "!()&|".contains(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        self.rest = rest;
        (!name.is_empty()).then(|| self.active.iter().any(|active| active == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let active = ["prod".to_owned(), "eu".to_owned()];
        let cases = [
            ("prod", Some(true)),
            ("dev", Some(false)),
            ("dev,eu", Some(true)),
            ("!dev", Some(true)),
            ("prod & !eu", Some(false)),
            ("(dev | prod) & eu", Some(true)),
            ("", Some(false)),
            ("(prod", None),
            ("prod eu", None),
            ("&", None),
        ];
        for (expression, expected) in cases {
            assert_eq!(matches(expression, &active), expected, "{expression}");
        }
        assert_eq!(matches(&"(".repeat(1_000), &active), None);
    }
}
