//! How a list of writes is cut into commands (facts/client.md A5). Plain data: nothing here does I/O.

use std::collections::VecDeque;

use bytes::Bytes;

use super::model::WriteKind;

/// A write, encoded for its command.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    /// Its position in the caller's list.
    pub(crate) index: usize,
    pub(crate) kind: WriteKind,
    pub(crate) multi: bool,
    pub(crate) document: Bytes,
}

/// What a server takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_statements: usize,
    pub(crate) max_message_bytes: usize,
    pub(crate) max_document_bytes: usize,
}

/// What an update or delete may be larger than a document: its own fields around it.
const STATEMENT_HEADROOM_BYTES: usize = 16 * 1024;

/// The statements of one command.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) kind: WriteKind,
    pub(crate) statements: Vec<Statement>,
}

/// The writes that are still to be sent.
#[derive(Debug)]
pub(crate) struct Planner {
    ordered: bool,
    /// The rest of the group that is being sent: all of one kind.
    group: VecDeque<Statement>,
    /// What comes after the group.
    rest: VecDeque<Statement>,
}

/// A write that no command can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge {
    pub(crate) index: usize,
    pub(crate) size_bytes: usize,
    pub(crate) max_bytes: usize,
}

impl Planner {
    pub(crate) fn new(statements: Vec<Statement>, ordered: bool) -> Self {
        Self { ordered, group: VecDeque::new(), rest: statements.into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.group.is_empty() && self.rest.is_empty()
    }

    /// The size of all writes that are still to be sent.
    pub(crate) fn left_bytes(&self) -> usize {
        self.group.iter().chain(&self.rest).map(|statement| statement.document.len()).sum()
    }

    /// The kind of the next command.
    pub(crate) fn next_kind(&self) -> Option<WriteKind> {
        self.group.front().or(self.rest.front()).map(|statement| statement.kind)
    }

    /// Fills the group: in an ordered bulk the run of the next kind, in an unordered one all of that kind.
    fn fill_group(&mut self) {
        let Some(kind) = self.next_kind().filter(|_| self.group.is_empty()) else { return };
        let mut later = VecDeque::new();
        while let Some(statement) = self.rest.pop_front() {
            if statement.kind == kind {
                self.group.push_back(statement);
            } else {
                later.push_back(statement);
                if self.ordered {
                    break;
                }
            }
        }
        later.append(&mut self.rest);
        self.rest = later;
    }

    /// Takes the statements of the next command. `overhead_bytes` is the message without them.
    ///
    /// # Errors
    /// When the first of them is too large for any command.
    pub(crate) fn next_batch(&mut self, limits: Limits, overhead_bytes: usize) -> Result<Option<Batch>, TooLarge> {
        self.fill_group();
        let Some(kind) = self.next_kind() else { return Ok(None) };
        let max_bytes = match kind {
            WriteKind::Insert => limits.max_document_bytes,
            WriteKind::Update | WriteKind::Replace | WriteKind::Delete => {
                limits.max_document_bytes + STATEMENT_HEADROOM_BYTES
            }
        };
        let (mut statements, mut message_bytes) = (Vec::new(), overhead_bytes);
        while let Some(statement) = self.group.front() {
            let size_bytes = statement.document.len();
            message_bytes += size_bytes;
            let is_first = statements.is_empty();
            let is_too_large = size_bytes > max_bytes || message_bytes > limits.max_message_bytes;
            if is_first && is_too_large {
                return Err(TooLarge { index: statement.index, size_bytes, max_bytes });
            }
            let is_full = statements.len() == limits.max_statements || message_bytes > limits.max_document_bytes;
            if !is_first && (is_full || is_too_large) {
                break;
            }
            statements.extend(self.group.pop_front());
        }
        Ok(Some(Batch { kind, statements }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WIDE: Limits = Limits { max_statements: 1000, max_message_bytes: 100_000, max_document_bytes: 50_000 };

    /// One letter per write: i(nsert), u(pdate), r(eplace), d(elete).
    fn statements(kinds: &str, size_bytes: usize) -> Vec<Statement> {
        let kind = |letter| match letter {
            'i' => WriteKind::Insert,
            'u' => WriteKind::Update,
            'r' => WriteKind::Replace,
            _ => WriteKind::Delete,
        };
        let one = |(index, letter)| Statement {
            index,
            kind: kind(letter),
            multi: false,
            document: Bytes::from(vec![0; size_bytes]),
        };
        kinds.chars().enumerate().map(one).collect()
    }

    fn batches(planner: &mut Planner, limits: Limits) -> Vec<Vec<usize>> {
        let mut all = Vec::new();
        while let Some(batch) = planner.next_batch(limits, 0).unwrap() {
            assert!(batch.statements.iter().all(|statement| statement.kind == batch.kind));
            all.push(batch.statements.iter().map(|statement| statement.index).collect());
        }
        assert!(planner.is_empty());
        all
    }

    fn check(kinds: &str, ordered: bool, limits: Limits, expected: &[&[usize]]) {
        assert_eq!(batches(&mut Planner::new(statements(kinds, 10), ordered), limits), expected, "{kinds} {ordered}");
    }

    #[test]
    fn ordered_bulks_become_runs_and_unordered_ones_groups() {
        check("iudi", true, WIDE, &[&[0], &[1], &[2], &[3]]);
        check("iiuui", true, WIDE, &[&[0, 1], &[2, 3], &[4]]);
        check("iurdi", false, WIDE, &[&[0, 4], &[1], &[2], &[3]]);
        check("uru", true, WIDE, &[&[0], &[1], &[2]]);
        check("uru", false, WIDE, &[&[0, 2], &[1]]);
        check("", true, WIDE, &[]);
    }

    #[test]
    fn groups_are_split_by_the_servers_limits() {
        check("iiiii", true, Limits { max_statements: 2, ..WIDE }, &[&[0, 1], &[2, 3], &[4]]);
        check("iiiii", true, Limits { max_message_bytes: 25, ..WIDE }, &[&[0, 1], &[2, 3], &[4]]);
        check("iiii", true, Limits { max_document_bytes: 30, ..WIDE }, &[&[0, 1, 2], &[3]]);
        check("iuiui", false, Limits { max_statements: 2, ..WIDE }, &[&[0, 2], &[4], &[1, 3]]);
    }

    #[test]
    fn a_document_over_the_limit_is_refused_and_an_update_has_headroom() {
        let limits = Limits { max_document_bytes: 9, ..WIDE };
        let refused = Planner::new(statements("i", 10), true).next_batch(limits, 0).unwrap_err();
        assert_eq!(refused, TooLarge { index: 0, size_bytes: 10, max_bytes: 9 });
        check("u", true, limits, &[&[0]]);
    }

    proptest! {
        #[test]
        fn every_write_is_sent_once_and_in_order_of_its_kind(
            kinds in "[iurd]{0,40}", ordered: bool, max_statements in 1_usize..5, size in 1_usize..40,
        ) {
            let limits = Limits { max_statements, max_message_bytes: 120, max_document_bytes: 60 };
            let all = batches(&mut Planner::new(statements(&kinds, size), ordered), limits);
            let flat: Vec<usize> = all.iter().flatten().copied().collect();
            let mut sorted = flat.clone();
            sorted.sort_unstable();
            prop_assert_eq!(&sorted, &(0..kinds.len()).collect::<Vec<_>>());
            if ordered {
                prop_assert_eq!(flat, sorted);
            }
            for batch in all {
                prop_assert!(batch.len() <= max_statements && batch.is_sorted());
                prop_assert!(batch.len() == 1 || batch.len() * size <= 60);
            }
        }
    }
}
