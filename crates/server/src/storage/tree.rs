//! An ordered map from keys to values that can be copied at the cost of a pointer: what a table is in memory.
//!
//! A tree whose nodes are shared by its copies. Who changes a copy makes the nodes on the way to the key its own first.
//! Keys most often come in at the end, because record ids and the drivers' `_id`s grow: a full node at the end is left full,
//! and a new one begun. Halving it, as any other full node, would leave all nodes half empty for good.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::{Direction, Key};

/// How many entries or children a node has at most.
const NODE_MAX: usize = 64;
/// A node that has become this small is put together with one beside it, if both fill no more than half of a node.
const NODE_SMALL: usize = NODE_MAX / 4;

type Entry<V> = (Key, V);

/// The map.
#[derive(Debug, Clone)]
pub struct Tree<V> {
    root: Node<V>,
    len: usize,
}

/// All leaves are equally far from the root.
#[derive(Debug, Clone)]
enum Node<V> {
    Leaf(Arc<Vec<Entry<V>>>),
    Branch(Arc<Vec<Child<V>>>),
}

#[derive(Debug, Clone)]
struct Child<V> {
    /// No key in the node is smaller; of the first child of a node, nobody asks.
    from: Key,
    node: Node<V>,
}

impl<V> Default for Tree<V> {
    fn default() -> Self {
        Self { root: Node::default(), len: 0 }
    }
}

impl<V> Default for Node<V> {
    fn default() -> Self {
        Node::Leaf(Arc::default())
    }
}

/// What came of an insertion.
enum Inserted<V> {
    /// The key was there.
    Replaced,
    Added,
    /// The node was full: this one is to stand behind it.
    Split(Child<V>),
}

impl<V: Clone> Tree<V> {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        let mut node = &self.root;
        loop {
            match node {
                Node::Branch(children) => node = &children[child_of(children, key)].node,
                Node::Leaf(entries) => return find(entries, key).ok().map(|at| &entries[at].1),
            }
        }
    }

    /// Sets the value of a key.
    pub fn insert(&mut self, key: Key, value: V) {
        match self.root.insert(key, value, true) {
            Inserted::Replaced => return,
            Inserted::Added => {}
            Inserted::Split(right) => {
                let left = Child { from: Key::default(), node: std::mem::take(&mut self.root) };
                self.root = Node::Branch(Arc::new(vec![left, right]));
            }
        }
        self.len += 1;
    }

    /// Removes a key, if it is there.
    pub fn remove(&mut self, key: &[u8]) {
        // Looked for first, so that a key that is not there copies no nodes.
        if self.get(key).is_none() {
            return;
        }
        self.root.remove(key);
        self.len -= 1;
        while let Node::Branch(children) = &self.root
            && children.len() <= 1
        {
            self.root = children.first().map(|only| only.node.clone()).unwrap_or_default();
        }
    }

    /// Gives away all entries, in order.
    pub fn take_apart(self, mut take: impl FnMut(Key, V)) {
        self.root.take_apart(&mut take);
    }

    /// Shows the entries within the bounds, in `direction`, until `see` breaks off.
    pub fn range<B>(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        mut see: impl FnMut(&Key, &V) -> ControlFlow<B>,
    ) -> Option<B> {
        self.root.range(lower, upper, direction, &mut see).break_value()
    }
}

/// Where a key is among entries, or where it would be.
fn find<V>(entries: &[Entry<V>], key: &[u8]) -> Result<usize, usize> {
    // Most come in at the end.
    if entries.last().is_none_or(|(last, _)| last.as_slice() < key) {
        return Err(entries.len());
    }
    entries.binary_search_by(|(known, _)| known.as_slice().cmp(key))
}

/// The child in which a key is, if it is anywhere.
fn child_of<V>(children: &[Child<V>], key: &[u8]) -> usize {
    if children.last().is_some_and(|last| last.from.as_slice() <= key) {
        return children.len() - 1;
    }
    children.partition_point(|child| child.from.as_slice() <= key).saturating_sub(1)
}

/// A node's own contents, with room for one more.
fn with_room<T: Clone>(shared: &mut Arc<Vec<T>>) -> &mut Vec<T> {
    let own = Arc::make_mut(shared);
    if own.len() == own.capacity() && own.len() < NODE_MAX {
        own.reserve_exact(own.len().max(4).min(NODE_MAX - own.len()));
    }
    own
}

/// Inserts into a node. Of a full one, what then stands on the right side is returned.
fn insert_at<T>(own: &mut Vec<T>, at: usize, new: T, is_last: bool) -> Option<Vec<T>> {
    if own.len() < NODE_MAX {
        own.insert(at, new);
        return None;
    }
    let middle = if is_last && at == NODE_MAX { NODE_MAX } else { NODE_MAX / 2 };
    let mut right = own.split_off(middle);
    match at.checked_sub(middle) {
        Some(at) => right.insert(at, new),
        None => own.insert(at, new),
    }
    Some(right)
}

impl<V: Clone> Node<V> {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Branch(children) => children.len(),
        }
    }

    /// `is_last`: no node stands behind this one.
    fn insert(&mut self, key: Key, value: V, is_last: bool) -> Inserted<V> {
        let right = match self {
            Node::Leaf(entries) => {
                let at = match find(entries, &key) {
                    Ok(at) => {
                        Arc::make_mut(entries)[at].1 = value;
                        return Inserted::Replaced;
                    }
                    Err(at) => at,
                };
                let Some(right) = insert_at(with_room(entries), at, (key, value), is_last) else {
                    return Inserted::Added;
                };
                Child { from: right[0].0.clone(), node: Node::Leaf(Arc::new(right)) }
            }
            Node::Branch(children) => {
                let at = child_of(children, &key);
                let is_last = is_last && at + 1 == children.len();
                let children = with_room(children);
                let new = match children[at].node.insert(key, value, is_last) {
                    Inserted::Split(new) => new,
                    done => return done,
                };
                let Some(right) = insert_at(children, at + 1, new, is_last) else { return Inserted::Added };
                Child { from: right[0].from.clone(), node: Node::Branch(Arc::new(right)) }
            }
        };
        Inserted::Split(right)
    }

    /// Removes a key that is there.
    fn remove(&mut self, key: &[u8]) {
        match self {
            Node::Leaf(entries) => {
                if let Ok(at) = find(entries, key) {
                    Arc::make_mut(entries).remove(at);
                }
            }
            Node::Branch(children) => {
                let children = Arc::make_mut(children);
                let at = child_of(children, key);
                children[at].node.remove(key);
                match children[at].node.len() {
                    0 => drop(children.remove(at)),
                    1..=NODE_SMALL if join(children, at) => {}
                    1..=NODE_SMALL if at > 0 => {
                        join(children, at - 1);
                    }
                    _ => {}
                }
            }
        }
    }

    fn take_apart(self, take: &mut impl FnMut(Key, V)) {
        match self {
            Node::Leaf(entries) => {
                Arc::unwrap_or_clone(entries).into_iter().for_each(|(key, value)| take(key, value));
            }
            Node::Branch(children) => {
                Arc::unwrap_or_clone(children).into_iter().for_each(|child| child.node.take_apart(take));
            }
        }
    }

    fn range<B>(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        see: &mut impl FnMut(&Key, &V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match self {
            Node::Leaf(entries) => {
                let from = entries.partition_point(|(key, _)| is_below(key, lower));
                let to = from + entries[from..].partition_point(|(key, _)| !is_above(key, upper));
                let mut within = entries[from..to].iter();
                match direction {
                    Direction::Forward => within.try_for_each(|(key, value)| see(key, value)),
                    Direction::Backward => within.rev().try_for_each(|(key, value)| see(key, value)),
                }
            }
            Node::Branch(children) => {
                let from = match lower {
                    Bound::Included(key) | Bound::Excluded(key) => child_of(children, key),
                    Bound::Unbounded => 0,
                };
                let to = match upper {
                    Bound::Included(key) | Bound::Excluded(key) => child_of(children, key) + 1,
                    Bound::Unbounded => children.len(),
                };
                let mut within = children.get(from..to).unwrap_or_default().iter();
                match direction {
                    Direction::Forward => within.try_for_each(|child| child.node.range(lower, upper, direction, see)),
                    Direction::Backward => {
                        within.rev().try_for_each(|child| child.node.range(lower, upper, direction, see))
                    }
                }
            }
        }
    }
}

fn is_below(key: &[u8], lower: Bound<&[u8]>) -> bool {
    match lower {
        Bound::Included(lower) => key < lower,
        Bound::Excluded(lower) => key <= lower,
        Bound::Unbounded => false,
    }
}

fn is_above(key: &[u8], upper: Bound<&[u8]>) -> bool {
    match upper {
        Bound::Included(upper) => key > upper,
        Bound::Excluded(upper) => key >= upper,
        Bound::Unbounded => false,
    }
}

/// Puts a child together with the next one, if there is one and both are small; says whether it did.
fn join<V: Clone>(children: &mut Vec<Child<V>>, at: usize) -> bool {
    let fits = |next: &Child<V>| children[at].node.len() + next.node.len() <= NODE_MAX / 2;
    if !children.get(at + 1).is_some_and(fits) {
        return false;
    }
    let Child { from, node: next } = children.remove(at + 1);
    match (&mut children[at].node, next) {
        (Node::Leaf(entries), Node::Leaf(next)) => Arc::make_mut(entries).extend(Arc::unwrap_or_clone(next)),
        (Node::Branch(children), Node::Branch(next)) => {
            let mut next = Arc::unwrap_or_clone(next);
            // As the first of its node it had all the keys from there on.
            next[0].from = from;
            Arc::make_mut(children).extend(next);
        }
        // All leaves are equally far from the root.
        (Node::Leaf(_), Node::Branch(_)) | (Node::Branch(_), Node::Leaf(_)) => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::Value;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key(number: u16) -> Key {
        Key::from_slice(&number.to_be_bytes())
    }

    fn value(number: u16) -> Value {
        Value::from(&number.to_be_bytes()[..])
    }

    fn contents(tree: &Tree<Value>) -> Vec<Entry<Value>> {
        let mut all = Vec::new();
        let broken_off = tree.range::<()>(Bound::Unbounded, Bound::Unbounded, Direction::Forward, |key, value| {
            all.push((key.clone(), value.clone()));
            ControlFlow::Continue(())
        });
        assert_eq!(broken_off, None);
        let mut given = Vec::new();
        tree.clone().take_apart(|key, value| given.push((key, value)));
        assert_eq!(given, all);
        all
    }

    /// (leaves, depth) after checking that keys are where they are looked for and all leaves equally deep.
    fn check(node: &Node<Value>, from: &[u8]) -> (usize, usize) {
        match node {
            Node::Leaf(entries) => {
                assert!(entries.is_sorted_by(|left, right| left.0 < right.0) && entries.len() <= NODE_MAX);
                assert!(entries.iter().all(|(key, _)| key.as_slice() >= from));
                (1, 1)
            }
            Node::Branch(children) => {
                assert!(!children.is_empty() && children.len() <= NODE_MAX);
                let below: Vec<_> = children
                    .iter()
                    .enumerate()
                    .map(|(at, child)| check(&child.node, if at == 0 { from } else { &child.from }))
                    .collect();
                assert!(below.iter().all(|(_, depth)| *depth == below[0].1));
                (below.iter().map(|(leaves, _)| leaves).sum(), below[0].1 + 1)
            }
        }
    }

    #[test]
    fn growing_keys_fill_their_nodes() {
        let mut tree = Tree::default();
        for number in 0..10_000 {
            tree.insert(key(number), value(number));
        }
        assert_eq!(tree.len(), 10_000);
        assert_eq!(check(&tree.root, &[]), (10_000_usize.div_ceil(NODE_MAX), 3));
    }

    #[test]
    fn removed_keys_leave_no_empty_nodes() {
        let mut tree = Tree::default();
        for number in 0..10_000 {
            tree.insert(key(number), value(number));
        }
        for number in (0..10_000).filter(|number| number % 100 != 0) {
            tree.remove(&key(number));
        }
        assert_eq!(contents(&tree).len(), 100);
        let (leaves, _) = check(&tree.root, &[]);
        assert!(leaves <= 100 / (NODE_SMALL / 2), "{leaves} leaves");
        for number in 0..10_000 {
            tree.remove(&key(number));
        }
        assert_eq!((tree.len(), tree.root.len()), (0, 0));
    }

    proptest! {
        /// Whatever is inserted and removed, in whatever order: the tree is a plain ordered map, and its copies stay as
        /// they were.
        #[test]
        fn it_is_an_ordered_map(
            steps in proptest::collection::vec((0..3_u8, 0..700_u16), 1..1500), copy_at in 0..1500_usize,
            (lower, upper) in (0..700_u16, 0..700_u16),
        ) {
            let (mut tree, mut model, mut copied) = (Tree::default(), BTreeMap::new(), None);
            for (at, (action, number)) in steps.into_iter().enumerate() {
                if at == copy_at {
                    copied = Some((tree.clone(), model.clone()));
                }
                match action {
                    0 => { tree.remove(&key(number)); model.remove(&key(number)); }
                    _ => { tree.insert(key(number), value(at as u16)); model.insert(key(number), value(at as u16)); }
                }
            }
            for (tree, model) in copied.into_iter().chain([(tree, model)]) {
                check(&tree.root, &[]);
                prop_assert_eq!(tree.len(), model.len());
                prop_assert_eq!(contents(&tree), model.clone().into_iter().collect::<Vec<_>>());
                for number in 0..700 {
                    prop_assert_eq!(tree.get(&key(number)), model.get(&key(number)));
                }
                let (low, high) = (key(lower), key(upper));
                let bounds = (Bound::Excluded(low.as_slice()), Bound::Included(high.as_slice()));
                let first = |direction| tree.range(bounds.0, bounds.1, direction, |key, _| ControlFlow::Break(key.clone()));
                let mut within = model.keys().filter(|key| **key > low && **key <= high).cloned();
                prop_assert_eq!(first(Direction::Forward), within.clone().next());
                prop_assert_eq!(first(Direction::Backward), within.next_back());
            }
        }
    }
}
