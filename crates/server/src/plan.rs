//! Where to look for the documents that a filter matches: by `_id`, through an index, or everywhere.

use std::collections::{HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::{Bson, Document};

use crate::cursors::Step;
use crate::error::{CommandError, Result, fail};
use crate::net::request::raw;
use crate::ops::Op;
use crate::query::bounds::{KeyRange, Predicate};
use crate::query::{Matcher, Sort};
use crate::storage::collection::{Collection, Index};
use crate::storage::record::RecordId;
use crate::storage::{Direction, Key, Snapshot, Value};
use crate::value::{View, key_string, text, wildcard};

/// How many entries are read from storage at a time.
const READ_AHEAD: usize = 64;

/// The way that was chosen.
#[derive(Debug, Clone)]
enum Access {
    /// One record, or none, as it was when the scan was planned.
    Record(Option<(RecordId, Option<Value>)>),
    /// Ranges of an index, one after another.
    Index { index: Arc<Index>, ranges: VecDeque<KeyRange> },
    /// All records.
    Collection,
}

/// The documents that match, one step at a time, as of one snapshot.
#[derive(Debug)]
pub struct Scan {
    /// What it reads. One record has been read already: while a snapshot lives, a commit copies what it changes.
    snapshot: Option<Box<dyn Snapshot>>,
    collection: Arc<Collection>,
    matcher: Arc<Matcher>,
    access: Access,
    direction: Direction,
    /// The last key that was read, within the current range.
    position: Option<Key>,
    ahead: VecDeque<(Key, Value)>,
    /// Records already seen: an index has several entries for a document with an array.
    seen: HashSet<RecordId>,
    examined: Examined,
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Examined {
    /// Keys of an index.
    pub keys: u64,
    /// Documents.
    pub documents: u64,
}

/// The way that was chosen, for `explain`.
#[derive(Debug, Clone)]
pub enum Chosen {
    /// One record, by its `_id`.
    Record,
    /// An index.
    Index(Arc<Index>),
    /// All records.
    Collection,
}

/// Which index the client wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Hint {
    /// By name.
    Name(String),
    /// By key pattern.
    Key(Document),
    /// `{$natural: ±1}`: none.
    Natural(Direction),
}

impl Hint {
    /// Reads a `hint` field; an empty one is none.
    ///
    /// # Errors
    /// 9 when it is neither a name nor a pattern.
    pub fn parse(value: Option<View<'_>>) -> Result<Option<Self>> {
        match value {
            None => Ok(None),
            Some(View::String("")) => Ok(None),
            Some(View::String(name)) => Ok(Some(Hint::Name(name.to_owned()))),
            Some(View::Document(pattern)) if pattern.is_empty() => Ok(None),
            Some(View::Document(pattern)) => {
                let pattern = pattern.to_document()?;
                match pattern.get("$natural").and_then(|order| View::from(order).number()) {
                    Some(order) if order.to_f64() < 0.0 => Ok(Some(Hint::Natural(Direction::Backward))),
                    Some(_) => Ok(Some(Hint::Natural(Direction::Forward))),
                    None => Ok(Some(Hint::Key(pattern))),
                }
            }
            Some(_) => Err(CommandError::failed_to_parse("Hint must be a string or an object")),
        }
    }
}

impl Scan {
    /// Plans a scan of `collection` as of now.
    ///
    /// # Errors
    /// 2 when the hint names an index that does not exist.
    pub fn new(op: &Op, collection: Arc<Collection>, matcher: Arc<Matcher>, hint: Option<&Hint>) -> Result<Self> {
        let snapshot = op.snapshot();
        let mut direction = Direction::Forward;
        let access = match hint {
            Some(Hint::Natural(order)) => {
                direction = *order;
                Access::Collection
            }
            Some(hint) => hinted(&collection, &matcher, hint)?,
            None => choose(&*snapshot, &collection, &matcher),
        };
        Ok(Self::with(op, snapshot, collection, matcher, access, direction))
    }

    /// Plans a scan whose documents come in the order of `sort` if an index can give it; says whether they do.
    ///
    /// # Errors
    /// As [`Scan::new`].
    pub fn in_order(
        op: &Op,
        collection: Arc<Collection>,
        matcher: Arc<Matcher>,
        hint: Option<&Hint>,
        sort: &Sort,
    ) -> Result<(Self, bool)> {
        let mut scan = Self::new(op, Arc::clone(&collection), matcher, hint)?;
        let order = match &scan.access {
            Access::Index { index, .. } => order_of(index, &scan.matcher, sort),
            Access::Record(_) => Some(Direction::Forward),
            Access::Collection if hint.is_none() => {
                let usable = |index: &&Arc<Index>| {
                    is_complete(index, &scan.matcher) && order_of(index, &scan.matcher, sort).is_some()
                };
                let found = collection.indexes().iter().find(usable).cloned();
                found.and_then(|index| {
                    let order = order_of(&index, &scan.matcher, sort);
                    scan.access = Access::Index { index, ranges: VecDeque::from([everything()]) };
                    op.view().plan_summary = Some("IXSCAN");
                    order
                })
            }
            Access::Collection => None,
        };
        if let Some(direction) = order {
            scan.turn(direction);
        }
        Ok((scan, order.is_some()))
    }

    /// Plans a scan of the part of an index that `min` (inclusive) and `max` (exclusive) leave.
    ///
    /// # Errors
    /// 51173 without a hint; 51174 when the limits do not have the index's fields.
    pub fn bounded(
        op: &Op,
        collection: Arc<Collection>,
        matcher: Arc<Matcher>,
        hint: Option<&Hint>,
        (min, max): (Option<&Document>, Option<&Document>),
    ) -> Result<Self> {
        let Some(hint @ (Hint::Name(_) | Hint::Key(_))) = hint else {
            return fail(51173, "When using min()/max() a hint of which index to use must be provided");
        };
        let mut scan = Self::new(op, collection, matcher, Some(hint))?;
        let Access::Index { index, ranges } = &mut scan.access else {
            return fail(51174, "The index chosen is not compatible with min/max");
        };
        let mut whole = everything();
        let limit = |given: Option<&Document>, at: &mut Vec<u8>| match given {
            None => Ok(()),
            Some(given) if given.keys().eq(index.pattern.fields().iter().map(|(path, _)| path)) => {
                *at = index.pattern.encode(&given.values().cloned().collect::<Vec<_>>());
                Ok(())
            }
            Some(_) => fail(51174, "The index chosen is not compatible with min/max"),
        };
        limit(min, &mut whole.start)?;
        limit(max, &mut whole.end)?;
        *ranges = VecDeque::from([whole]);
        Ok(scan)
    }

    fn with(
        op: &Op,
        snapshot: Box<dyn Snapshot>,
        collection: Arc<Collection>,
        matcher: Arc<Matcher>,
        access: Access,
        direction: Direction,
    ) -> Self {
        op.view().plan_summary = Some(match &access {
            Access::Record(_) => "IDHACK",
            Access::Index { .. } => "IXSCAN",
            Access::Collection => "COLLSCAN",
        });
        let snapshot = Some(snapshot).filter(|_| !matches!(access, Access::Record(_)));
        Self {
            snapshot,
            collection,
            matcher,
            access,
            direction,
            position: None,
            ahead: VecDeque::new(),
            seen: HashSet::new(),
            examined: Examined::default(),
        }
    }

    /// The way that was chosen, and in which direction it is gone.
    pub fn chosen(&self) -> (Chosen, Direction) {
        let chosen = match &self.access {
            Access::Record(_) => Chosen::Record,
            Access::Index { index, .. } => Chosen::Index(Arc::clone(index)),
            Access::Collection => Chosen::Collection,
        };
        (chosen, self.direction)
    }

    /// How much was looked at so far.
    pub fn examined(&self) -> Examined {
        self.examined
    }

    /// Reads an index in this direction.
    fn turn(&mut self, direction: Direction) {
        if let (Access::Index { ranges, .. }, Direction::Backward) = (&mut self.access, direction) {
            ranges.make_contiguous().reverse();
        }
        self.direction = direction;
    }

    /// The index that is read.
    pub fn index(&self) -> Option<&Arc<Index>> {
        match &self.access {
            Access::Index { index, .. } => Some(index),
            Access::Record(_) | Access::Collection => None,
        }
    }

    /// Whether it knows without another step that there is nothing more.
    pub fn is_at_end(&self) -> bool {
        matches!(self.access, Access::Record(None)) && self.ahead.is_empty()
    }

    /// Does a bounded amount of work: looks at one candidate.
    ///
    /// # Errors
    /// When the filter fails on a document.
    pub fn step(&mut self) -> Result<Step<(RecordId, Value)>> {
        let Some((record, value)) = self.candidate() else { return Ok(Step::End) };
        self.examined.documents += u64::from(value.is_some());
        match value {
            Some(value) if self.matcher.matches(raw(&value))? => Ok(Step::Found((record, value))),
            _ => Ok(Step::Nothing),
        }
    }

    /// The next match, looking for interrupts on the way and letting others run.
    ///
    /// # Errors
    /// Those of an interrupt, or of the filter.
    pub async fn next(&mut self, op: &Op) -> Result<Option<(RecordId, Value)>> {
        for steps in 1_u32.. {
            match self.step()? {
                Step::Found(found) => return Ok(Some(found)),
                Step::End => return Ok(None),
                Step::Nothing if steps % 128 == 0 => {
                    op.check_interrupt()?;
                    tokio::task::yield_now().await;
                }
                Step::Nothing => {}
            }
        }
        Ok(None)
    }

    /// The next record to look at, with its document if it is still there.
    fn candidate(&mut self) -> Option<(RecordId, Option<Value>)> {
        if let Access::Record(record) = &mut self.access {
            let found = record.take()?;
            self.examined.keys += 1;
            return Some(found);
        }
        loop {
            if let Some((key, value)) = self.ahead.pop_front() {
                let Access::Index { index, .. } = &self.access else {
                    let record = RecordId::from_bytes(&key)?;
                    return Some((record, Some(value)));
                };
                let record = index.record_of(&key, &value)?;
                self.examined.keys += 1;
                if self.seen.insert(record) {
                    return Some((record, self.snapshot.as_ref()?.get(self.collection.records, &record.key())));
                }
                continue;
            }
            if !self.read_ahead() {
                return None;
            }
        }
    }

    /// Reads the next entries; false at the end.
    fn read_ahead(&mut self) -> bool {
        let Some(snapshot) = &self.snapshot else { return false };
        let mut batch = Vec::with_capacity(READ_AHEAD);
        loop {
            let (table, range) = match &self.access {
                Access::Record(_) => return false,
                Access::Collection => (self.collection.records, None),
                Access::Index { index, ranges } => match ranges.front() {
                    Some(range) => (index.table, Some(range)),
                    None => return false,
                },
            };
            let (mut lower, mut upper) = match range {
                Some(range) => (Bound::Included(range.start.as_slice()), Bound::Excluded(range.end.as_slice())),
                None => (Bound::Unbounded, Bound::Unbounded),
            };
            if let Some(position) = &self.position {
                match self.direction {
                    Direction::Forward => lower = Bound::Excluded(position.as_slice()),
                    Direction::Backward => upper = Bound::Excluded(position.as_slice()),
                }
            }
            snapshot.scan(table, lower, upper, self.direction, READ_AHEAD, &mut batch);
            if let Some((last, _)) = batch.last() {
                self.position = Some(last.clone());
                self.ahead.extend(batch);
                return true;
            }
            self.position = None;
            match &mut self.access {
                Access::Index { ranges, .. } => drop(ranges.pop_front()),
                Access::Record(_) | Access::Collection => {
                    self.access = Access::Record(None);
                    return false;
                }
            }
        }
    }
}

fn choose(snapshot: &dyn Snapshot, collection: &Collection, matcher: &Matcher) -> Access {
    if let (Some(id), Some(index)) = (matcher.id_equality(), collection.id_index())
        && index.pattern.collation() == matcher.collation()
    {
        let record = by_id(snapshot, &index, id);
        return Access::Record(record.map(|record| (record, snapshot.get(collection.records, &record.key()))));
    }
    if matcher.is_empty() {
        return Access::Collection;
    }
    let mut best: Option<(usize, Access)> = None;
    for index in collection.indexes().iter().filter(|index| is_complete(index, matcher)) {
        if let Some((worth, ranges)) = ranges_of(index, matcher)
            && best.as_ref().is_none_or(|(most, _)| worth > *most)
        {
            best = Some((worth, Access::Index { index: Arc::clone(index), ranges }));
        }
    }
    best.map_or(Access::Collection, |(_, access)| access)
}

/// All keys of an index.
fn everything() -> KeyRange {
    KeyRange { start: Vec::new(), end: vec![0xff; 2] }
}

/// Whether every document that matches is in the index.
fn is_complete(index: &Index, matcher: &Matcher) -> bool {
    let flag = |name: &str| index.spec.get(name).is_some_and(|value| View::from(value).is_true());
    index.partial.is_none() && !flag("sparse") && !flag("hidden") && index.pattern.collation() == matcher.collation()
}

/// In which direction an index gives documents in the order of `sort`, if it does. Leading fields that the filter fixes to
/// one value do not matter. An index with arrays has a document in several places, and then does not.
fn order_of(index: &Index, matcher: &Matcher, sort: &Sort) -> Option<Direction> {
    let (mut fields, wanted) = (index.pattern.fields(), sort.fields());
    let is_fixed = |path: &str| {
        let predicates = matcher.bounds_on(path);
        predicates.iter().any(|one| matches!(one, Predicate::Points(values) if values.len() == 1))
    };
    while let [(path, _), rest @ ..] = fields
        && wanted.first().is_some_and(|(first, _)| first != path)
        && is_fixed(path)
    {
        fields = rest;
    }
    if index.multikey.load(Ordering::Relaxed)
        || wanted.len() > fields.len()
        || index.pattern.collation() != sort.collation()
    {
        return None;
    }
    let pairs = || fields.iter().zip(wanted);
    if !pairs().all(|((path, _), (wanted, _))| path == wanted) {
        return None;
    }
    if pairs().all(|((_, one), (_, other))| one == other) {
        Some(Direction::Forward)
    } else {
        pairs().all(|((_, one), (_, other))| one != other).then_some(Direction::Backward)
    }
}

fn by_id(snapshot: &dyn Snapshot, index: &Index, id: &Bson) -> Option<RecordId> {
    let key = key_string::encode(View::from(id), index.pattern.collation());
    RecordId::from_bytes(&snapshot.get(index.table, &key)?)
}

/// What a filter says of the leading fields of an index, as far as the index can use it: values for each field, and limits
/// for the last of them. Where a document may have several keys, each condition may hold for another of them, so only
/// one condition is used.
pub fn used(index: &Index, matcher: &Matcher) -> Vec<Vec<Predicate>> {
    let multikey = index.multikey.load(Ordering::Relaxed);
    let mut used = Vec::new();
    for (path, _) in index.pattern.fields() {
        let mut predicates = matcher.bounds_on(path);
        let points = predicates.iter().position(|predicate| matches!(predicate, Predicate::Points(_)));
        match points {
            Some(at) => used.push(vec![predicates.swap_remove(at)]),
            None if predicates.is_empty() => break,
            None => {
                predicates.truncate(if multikey { 1 } else { usize::MAX });
                used.push(predicates);
                break;
            }
        }
        if multikey {
            break;
        }
    }
    used
}

/// How many ranges of an index are read at most because of its second and further fields.
const MAX_RANGES: usize = 200;

/// The ranges that an index can give, and how much they are worth: more for a value than for a limit.
fn ranges_of(index: &Index, matcher: &Matcher) -> Option<(usize, VecDeque<KeyRange>)> {
    if index.pattern.wildcard().is_some() {
        return wildcard_ranges(index, matcher);
    }
    let (mut prefixes, mut worth): (Vec<Vec<u8>>, usize) = (vec![Vec::new()], 0);
    let joined = |prefix: &Vec<u8>, bytes: &[u8]| [prefix, bytes].concat();
    for (predicates, (_, direction)) in used(index, matcher).iter().zip(index.pattern.fields()) {
        let mut ranges = predicates.iter().map(|predicate| predicate.key_ranges(*direction, index.pattern.collation()));
        if let [Predicate::Points(_)] = predicates.as_slice() {
            let points = ranges.next().unwrap_or_default();
            if worth > 0 && prefixes.len() * points.len() > MAX_RANGES {
                break;
            }
            let with_points = |prefix| points.iter().map(move |point| joined(prefix, &point.start));
            prefixes = prefixes.iter().flat_map(with_points).collect();
            worth += 2;
            continue;
        }
        // All limits hold for the one key of a document.
        let both = |one: KeyRange, other: KeyRange| KeyRange {
            start: one.start.max(other.start),
            end: one.end.min(other.end),
        };
        let limits = ranges.flatten().reduce(both)?;
        let within = |prefix| KeyRange { start: joined(prefix, &limits.start), end: joined(prefix, &limits.end) };
        let ranges = prefixes.iter().map(within).filter(|range| range.start < range.end);
        return Some((worth + 1, ordered(ranges.collect())));
    }
    let whole = |prefix: Vec<u8>| KeyRange { end: joined(&prefix, &[0xff]), start: prefix };
    (worth > 0).then(|| (worth, ordered(prefixes.into_iter().map(whole).collect())))
}

/// The path of a filter that a wildcard index is read for, and the condition on it: one that only values can meet which are
/// in the index, so nothing about documents, or about null, which what is missing is as well.
pub fn used_of_wildcard(index: &Index, matcher: &Matcher) -> Option<(String, Predicate)> {
    let wildcard = index.pattern.wildcard()?;
    let is_usable = |predicate: &Predicate| match predicate {
        Predicate::Points(values) => !values.iter().any(|value| matches!(value, Bson::Null | Bson::Document(_))),
        Predicate::Range(_) => true,
    };
    let of_path = |path: &str| {
        let predicates = matcher.bounds_on(path).into_iter().filter(is_usable);
        predicates.map(|predicate| (path.to_owned(), predicate)).collect::<Vec<_>>()
    };
    let covered = matcher.bounded_paths().into_iter().filter(|path| wildcard.covers(path));
    let mut found: Vec<_> = covered.flat_map(of_path).collect();
    let best = found.iter().position(|(_, predicate)| matches!(predicate, Predicate::Points(_))).unwrap_or(0);
    (best < found.len()).then(|| found.swap_remove(best))
}

fn wildcard_ranges(index: &Index, matcher: &Matcher) -> Option<(usize, VecDeque<KeyRange>)> {
    let (path, predicate) = used_of_wildcard(index, matcher)?;
    let prefix = wildcard::prefix(&path);
    let at_path = |range: KeyRange| KeyRange {
        start: [&prefix[..], &range.start].concat(),
        end: [&prefix[..], &range.end].concat(),
    };
    let ranges = predicate.key_ranges(key_string::Direction::Ascending, index.pattern.collation());
    // Worth a little less than an index on the path itself.
    Some((1, ordered(ranges.into_iter().map(at_path).collect())))
}

fn ordered(mut ranges: Vec<KeyRange>) -> VecDeque<KeyRange> {
    ranges.sort_by(|left, right| left.start.cmp(&right.start));
    ranges.dedup();
    ranges.into()
}

fn hinted(collection: &Collection, matcher: &Matcher, hint: &Hint) -> Result<Access> {
    let indexes = collection.indexes();
    let found = indexes.iter().find(|index| match hint {
        Hint::Name(name) => index.name == *name,
        Hint::Key(pattern) => index.key_pattern() == *pattern,
        Hint::Natural(_) => false,
    });
    let Some(index) = found else {
        let hint = match hint {
            Hint::Name(name) => format!("\"{name}\""),
            Hint::Key(pattern) => text::document(pattern),
            Hint::Natural(_) => "$natural".to_owned(),
        };
        return Err(CommandError::bad_value(format!(
            "error processing query: ns={} hint provided does not correspond to an existing index: {hint}",
            collection.ns
        )));
    };
    let same_collation = index.pattern.collation() == matcher.collation();
    if index.pattern.wildcard().is_some() && (!same_collation || used_of_wildcard(index, matcher).is_none()) {
        let text = "planner returned error :: caused by :: No query solutions";
        return fail(291, format!("error processing query: ns={} {text}", collection.ns));
    }
    let ranges = ranges_of(index, matcher)
        .filter(|_| same_collation)
        .map_or_else(|| VecDeque::from([everything()]), |(_, ranges)| ranges);
    Ok(Access::Index { index: Arc::clone(index), ranges })
}
