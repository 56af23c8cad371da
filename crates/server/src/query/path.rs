//! Dotted paths: the values they lead to, arrays included.
//!
//! A path runs through arrays: `a.b` leads to the `b` of every document in the array `a`, and a number in a path is a
//! field name or an array position. Which values an operator sees of an array at the end of its path is [`AtArray`].

use crate::value::{ArrayView, DocView, View};

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    dotted: Box<str>,
    /// For each part but the first, where it starts.
    starts: Box<[usize]>,
}

/// What an operator sees when its path ends at an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtArray {
    /// Each element, then the array.
    Elements,
    /// Only the array.
    Whole,
}

/// A value found, and the position in the outermost array that the path ran through unasked.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The value; `None` for a missing one.
    pub value: Option<View<'a>>,
    /// The array position, if an array was run through.
    pub position: Option<usize>,
}

impl Path {
    /// Parses `a.b.c`.
    pub fn new(dotted: &str) -> Self {
        let starts = dotted.match_indices('.').map(|(at, _)| at + 1).collect();
        Self { dotted: dotted.into(), starts }
    }

    /// The path as written.
    pub fn dotted(&self) -> &str {
        &self.dotted
    }

    /// The number of parts.
    fn count(&self) -> usize {
        self.starts.len() + 1
    }

    fn part(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.starts[at - 1] };
        let end = self.starts.get(at).map_or(self.dotted.len(), |next| next - 1);
        &self.dotted[start..end]
    }

    /// Calls `visit` for the values that the path leads to until it returns true; returns whether it did.
    #[inline]
    pub fn any<'a>(&self, document: DocView<'a>, at: AtArray, mut visit: impl FnMut(Found<'a>) -> bool) -> bool {
        Walk { path: self, at, visit: &mut visit }.document(document, 0, None)
    }
}

struct Walk<'p, 'a, 'f> {
    path: &'p Path,
    at: AtArray,
    visit: &'f mut dyn FnMut(Found<'a>) -> bool,
}

impl<'a> Walk<'_, 'a, '_> {
    fn document(&mut self, document: DocView<'a>, from: usize, position: Option<usize>) -> bool {
        let mut document = document;
        let last = self.path.count() - 1;
        for at in from..=last {
            let value = document.get(self.path.part(at));
            if at == last {
                return self.end(value, position);
            }
            match value {
                Some(View::Document(inner)) => document = inner,
                Some(View::Array(array)) => return self.array(array, at + 1, position),
                _ => return (self.visit)(Found { value: None, position }),
            }
        }
        false
    }

    fn end(&mut self, value: Option<View<'a>>, position: Option<usize>) -> bool {
        if let (Some(View::Array(array)), AtArray::Elements) = (value, self.at) {
            for (index, element) in array.iter().enumerate() {
                if (self.visit)(Found { value: Some(element), position: position.or(Some(index)) }) {
                    return true;
                }
            }
        }
        (self.visit)(Found { value, position })
    }

    /// The path goes on below an array.
    fn array(&mut self, array: ArrayView<'a>, from: usize, position: Option<usize>) -> bool {
        let part = self.path.part(from);
        let asked = part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<usize>().ok()).flatten();
        // "00" is a field name, not a position
        let asked = asked.filter(|_| part == "0" || !part.starts_with('0'));
        let ends = from + 1 == self.path.count();
        for (index, element) in array.iter().enumerate() {
            if let View::Document(inner) = element
                && self.document(inner, from, position.or(Some(index)))
            {
                return true;
            }
            if asked == Some(index) {
                let found = match element {
                    _ if ends => (self.visit)(Found { value: Some(element), position }),
                    View::Document(inner) => self.document(inner, from + 1, position),
                    View::Array(inner) => self.array(inner, from + 1, position),
                    _ => false,
                };
                if found {
                    return true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, Document, bson, doc};

    fn check(path: &str, at: AtArray, document: Document, want: Bson) {
        let path = Path::new(path);
        let mut found = Vec::new();
        path.any((&document).into(), at, |each| {
            let value = each.value.map_or(Bson::String("missing".into()), |value| value.to_bson().unwrap());
            found.push(bson!([value, each.position.map_or(Bson::Null, |position| Bson::Int64(position as i64))]));
            false
        });
        assert_eq!(Bson::Array(found), want, "{} {document}", path.dotted());
    }

    #[test]
    fn values_of_paths() {
        use AtArray::{Elements, Whole};
        check("a", Elements, doc! { "a": 5 }, bson!([[5, null]]));
        check("a", Elements, doc! { "a": [5, [6]] }, bson!([[5, 0_i64], [[6], 1_i64], [[5, [6]], null]]));
        check("a", Whole, doc! { "a": [5] }, bson!([[[5], null]]));
        check("a", Elements, doc! { "b": 5 }, bson!([["missing", null]]));
        check("a.b", Elements, doc! { "a": 5 }, bson!([["missing", null]]));
        check("a.b", Elements, doc! { "a": [] }, bson!([]));
        check("a.b", Elements, doc! { "a": [5, [{ "b": 1 }]] }, bson!([]));
        check("a.b", Elements, doc! { "a": [{ "b": 1 }, 7, { "c": 2 }] }, bson!([[1, 0_i64], ["missing", 2_i64]]));
        check("a.b", Elements, doc! { "a": [{ "b": [1, 2] }] }, bson!([[1, 0_i64], [2, 0_i64], [[1, 2], 0_i64]]));
        check("a.1", Elements, doc! { "a": [5, [2, 4]] }, bson!([[[2, 4], null]]));
        check("a.0.b", Elements, doc! { "a": [{ "b": 3 }] }, bson!([["missing", 0_i64], [3, null]]));
        check("a.0.b", Elements, doc! { "a": [[{ "b": 3 }]] }, bson!([[3, 0_i64]]));
        check("a.0.0", Elements, doc! { "a": [[7, 8]] }, bson!([[7, null]]));
        check("a.00", Elements, doc! { "a": [7] }, bson!([]));
    }
}
