//! The filters behind `$[identifier]`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use bson::Document;

use super::UpdateOptions;
use crate::error::{Result, fail};
use crate::query::Matcher;
use crate::value::{DocView, View, text};

/// The array filters of one update.
#[derive(Debug, Clone, Default)]
pub(super) struct ArrayFilters {
    filters: BTreeMap<String, Matcher>,
    used: RefCell<BTreeSet<String>>,
}

/// Parses the array filters of an update.
pub(super) fn parse(options: &UpdateOptions<'_>) -> Result<ArrayFilters> {
    let mut filters = BTreeMap::new();
    for filter in options.array_filters {
        let context = options.context.without_features();
        let context_text = "Error parsing array filter";
        let matcher = Matcher::parse_view(filter.into(), &context).map_err(|error| error.caused_by(context_text))?;
        let mut names = Vec::new();
        collect_names(filter.into(), &mut names, 0);
        let Some(first) = names.first() else {
            return fail(9, "Cannot use an expression without a top-level field name in arrayFilters");
        };
        if let Some(other) = names.iter().find(|name| *name != first) {
            let text = format!("Expected a single top-level field name, found '{first}' and '{other}'");
            return fail(9, format!("{context_text} :: caused by :: {text}"));
        }
        let valid = first.starts_with(|letter: char| letter.is_ascii_lowercase())
            && first.chars().all(|letter| letter.is_ascii_alphanumeric());
        if !valid {
            let text = "The top-level field name must be an alphanumeric string beginning with a lowercase letter";
            return fail(2, format!("{context_text} :: caused by :: {text}, found '{first}'"));
        }
        if filters.insert(first.clone(), matcher).is_some() {
            return fail(9, format!("Found multiple array filters with the same top-level field name {first}"));
        }
    }
    Ok(ArrayFilters { filters, used: RefCell::default() })
}

/// The first parts of all paths in a filter.
fn collect_names(filter: DocView<'_>, names: &mut Vec<String>, depth: usize) {
    for (name, value) in filter.iter() {
        match (name, value) {
            ("$and" | "$or" | "$nor", View::Array(array)) if depth < 200 => {
                for inner in array.iter().filter_map(View::as_document) {
                    collect_names(inner, names, depth + 1);
                }
            }
            (name, _) if name.starts_with('$') => {}
            (name, _) => names.push(name.split('.').next().unwrap_or_default().to_owned()),
        }
    }
}

impl ArrayFilters {
    /// The filter of an identifier; marks it as used.
    pub(super) fn find(&self, identifier: &str) -> Option<&Matcher> {
        let filter = self.filters.get(identifier)?;
        self.used.borrow_mut().insert(identifier.to_owned());
        Some(filter)
    }

    /// Refuses a filter that no path of the update used.
    pub(super) fn refuse_unused(&self, update: &Document) -> Result<()> {
        let used = self.used.borrow();
        match self.filters.keys().find(|identifier| !used.contains(*identifier)) {
            None => Ok(()),
            Some(identifier) => {
                let text = format!("The array filter for identifier '{identifier}' was not used in the update");
                fail(9, format!("{text} {}", text::document(update)))
            }
        }
    }
}
