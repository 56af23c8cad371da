//! Variables: the names known while parsing, and their values while running.

use std::sync::Arc;

use bson::{Bson, DateTime, Timestamp};
use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::lent::Val;
use crate::error::{CommandError, Result, fail};
use crate::query::regex::{Refusal, Regex};
use crate::value::{Collation, DocView};

/// The variable names in scope, each with its place among the values.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    names: Vec<(Box<str>, usize)>,
    slots: usize,
    /// Stages, operators and accumulators that the server's version does not have.
    missing: &'static [&'static [&'static str]],
}

/// What a variable name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variable {
    /// The document of the stage.
    Root,
    /// Nothing: a field set to it is left out.
    Remove,
    /// The time of the command.
    Now,
    /// The logical time of the command.
    ClusterTime,
    /// A value bound by `$let`, `$map` and the like.
    Slot(usize),
}

impl Scope {
    /// The same without these stages, operators and accumulators.
    pub fn without(self, missing: &'static [&'static [&'static str]]) -> Self {
        Self { missing, ..self }
    }

    /// Whether the server's version has a stage, an operator or an accumulator, if this server has it.
    pub(crate) fn has(&self, name: &str) -> bool {
        !self.missing.iter().any(|names| names.contains(&name))
    }

    /// Adds a name; it hides an earlier one. Returns the place of its value.
    pub fn define(&mut self, name: &str) -> usize {
        let slot = self.slots;
        self.names.push((name.into(), slot));
        self.slots += 1;
        slot
    }

    fn slot(&self, name: &str) -> Option<usize> {
        self.names.iter().rev().find(|(known, _)| **known == *name).map(|(_, slot)| *slot)
    }

    /// What `$$name` stands for.
    pub(crate) fn resolve(&self, name: &str) -> Result<Variable> {
        if let Some(slot) = self.slot(name) {
            return Ok(Variable::Slot(slot));
        }
        match name {
            "ROOT" | "CURRENT" => Ok(Variable::Root),
            "REMOVE" => Ok(Variable::Remove),
            "NOW" => Ok(Variable::Now),
            "CLUSTER_TIME" => Ok(Variable::ClusterTime),
            _ => fail(17276, format!("Use of undefined variable: {name}")),
        }
    }

    /// What a path without a variable (`$a`) starts from.
    pub(crate) fn current(&self) -> Variable {
        self.slot("CURRENT").map_or(Variable::Root, Variable::Slot)
    }
}

fn valid_tail(name: &str) -> Result<()> {
    match name.chars().skip(1).find(|letter| !(letter.is_ascii_alphanumeric() || *letter == '_' || !letter.is_ascii()))
    {
        Some(letter) => fail(16871, format!("'{name}' contains an invalid character for a variable name: '{letter}'")),
        None => Ok(()),
    }
}

/// Checks the name of a variable that is read.
///
/// # Errors
/// 16869, 16870, 16871.
pub(crate) fn check_read(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else { return fail(16869, "empty variable names are not allowed") };
    if first.is_ascii() && !first.is_ascii_alphabetic() {
        return fail(16870, format!("'{name}' starts with an invalid character for a variable name"));
    }
    valid_tail(name)
}

/// Checks the name of a variable that a user binds: it starts with a lower-case letter, or it is `CURRENT`.
///
/// # Errors
/// 16866, 16867, 16868.
pub(crate) fn check_write(name: &str) -> Result<()> {
    if name == "CURRENT" {
        return Ok(());
    }
    let Some(first) = name.chars().next() else { return fail(16866, "empty variable names are not allowed") };
    if first.is_ascii() && !first.is_ascii_lowercase() {
        return fail(16867, format!("'{name}' starts with an invalid character for a user variable name"));
    }
    valid_tail(name).map_err(|error| CommandError { code: 16868, ..error })
}

/// What expressions read besides the document and its variables.
#[derive(Debug)]
pub struct Globals {
    /// `$$NOW`.
    pub now: DateTime,
    /// `$$CLUSTER_TIME`, on a member of a replica set.
    pub cluster_time: Option<Timestamp>,
    /// Collation of comparisons.
    pub collation: Option<Collation>,
    random: Arc<Random>,
    /// The regular expressions used last, compiled.
    regexes: Mutex<Vec<Arc<Regex>>>,
}

/// What `$rand` and `$sample` draw from. Few commands do, so the generator is made when it is asked for the first time.
#[derive(Debug)]
struct Random {
    seed: u64,
    generator: Mutex<Option<Box<ChaCha8Rng>>>,
}

/// How many compiled regular expressions are kept.
const MAX_REGEXES: usize = 8;

impl Globals {
    /// Values for one command. `seed` starts the generator behind `$rand` and `$sample`.
    pub fn new(now: DateTime, cluster_time: Option<Timestamp>, collation: Option<Collation>, seed: u64) -> Self {
        Self {
            now,
            cluster_time,
            collation,
            random: Arc::new(Random { seed, generator: Mutex::default() }),
            regexes: Mutex::default(),
        }
    }

    /// The same time and chance with another collation.
    pub(crate) fn with_collation(&self, collation: Option<Collation>) -> Self {
        Self {
            now: self.now,
            cluster_time: self.cluster_time,
            collation,
            random: Arc::clone(&self.random),
            regexes: Mutex::default(),
        }
    }

    /// A compiled regular expression; the ones used last are kept.
    ///
    /// # Errors
    /// What of it was refused.
    pub(crate) fn regex(&self, pattern: &str, options: &str) -> std::result::Result<Arc<Regex>, Refusal> {
        let mut kept = self.regexes.lock();
        let known = kept.iter().find(|regex| regex.pattern() == pattern && regex.options() == options);
        if let Some(regex) = known {
            return Ok(Arc::clone(regex));
        }
        let regex = Arc::new(Regex::compile(pattern, options)?);
        if kept.len() >= MAX_REGEXES {
            kept.remove(0);
        }
        kept.push(Arc::clone(&regex));
        Ok(regex)
    }

    /// A number at least 0 and below 1.
    pub fn random(&self) -> f64 {
        use rand_chacha::rand_core::Rng;
        // 53 random bits
        let mut generator = self.random.generator.lock();
        let generator = generator.get_or_insert_with(|| Box::new(ChaCha8Rng::seed_from_u64(self.random.seed)));
        (generator.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// One evaluation: the document and the values of variables.
pub struct Frame<'d> {
    /// `$$ROOT`.
    pub root: DocView<'d>,
    slots: Vec<Val>,
    /// What all evaluations of a command share.
    pub globals: &'d Globals,
}

impl<'d> Frame<'d> {
    /// A frame with the values of the variables that are already bound.
    pub fn new(root: DocView<'d>, slots: Vec<Val>, globals: &'d Globals) -> Self {
        Self { root, slots, globals }
    }

    /// Binds a variable.
    pub(crate) fn set(&mut self, slot: usize, value: Val) {
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, None);
        }
        self.slots[slot] = value;
    }

    /// The value of a bound variable.
    pub(crate) fn get(&self, slot: usize) -> Option<&Bson> {
        self.slots.get(slot)?.as_ref()
    }

    /// The values of the first `count` variables.
    pub fn slots(&self) -> &[Val] {
        &self.slots
    }

    /// The collation of comparisons.
    pub(crate) fn collation(&self) -> Option<&'d Collation> {
        self.globals.collation.as_ref()
    }
}
