//! Which keys go with which stall and which operation, and where a key stands in the file.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ScenarioError, nearest};

/// Keys of `[stall]` beside `kind`, and the kinds that have them.
const STALL_KEYS: &[(&str, &[&str])] = &[
    ("hold_ms", &["fail-command"]),
    ("times", &["fail-command", "lost-reply", "reset", "overload"]),
    ("takes_ms", &["slow"]),
    ("distribution", &["slow"]),
];

/// Every kind of stall.
const STALL_KINDS: &[&str] = &[
    "none",
    "fail-command",
    "engine",
    "interruptible",
    "lost-reply",
    "tickets",
    "lock",
    "sessions",
    "slow",
    "reset",
    "step-down",
    "overload",
    "freeze",
];

/// Keys of `[workload]` that belong to some operations only.
const WORKLOAD_KEYS: &[(&str, &[&str])] = &[
    ("document", &["insert-one"]),
    ("documents", &["insert-many", "bulk-insert"]),
    ("models", &["bulk-write"]),
    ("ordered", &["bulk-write"]),
    ("filter", &["update-one", "update-many", "find-one-and-update"]),
    ("update", &["update-one", "update-many", "find-one-and-update"]),
    ("upsert", &["update-one", "find-one-and-update"]),
];

/// A scenario file as text, with the places of its keys.
pub(super) struct Source<'t> {
    text: &'t str,
    table: Spanned<DeTable<'t>>,
}

impl<'t> Source<'t> {
    /// `None` for text that is no TOML.
    pub(super) fn new(text: &'t str) -> Option<Self> {
        Some(Self { text, table: DeTable::parse(text).ok()? })
    }

    /// Refuses keys that would do nothing beside the `kind` or `operation` they stand with.
    ///
    /// # Errors
    /// The first of them, with its place.
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        self.check_table("stall", "kind", STALL_KEYS, Some(STALL_KINDS))?;
        self.check_table("workload", "operation", WORKLOAD_KEYS, None)
    }

    /// `kinds`: with them, every key has to be in `keys`.
    fn check_table(
        &self,
        name: &str,
        selector: &str,
        keys: &[(&str, &[&str])],
        kinds: Option<&[&str]>,
    ) -> Result<(), ScenarioError> {
        let Some(DeValue::Table(table)) = self.table.get_ref().get(name).map(Spanned::get_ref) else { return Ok(()) };
        let Some(kind) = table.get(selector).and_then(|kind| kind.get_ref().as_str()) else { return Ok(()) };
        // What is no kind at all is refused by its reader, which knows them.
        if kinds.is_some_and(|kinds| !kinds.contains(&kind)) {
            return Ok(());
        }
        for key in table.keys().filter(|key| key.get_ref() != selector) {
            let found = key.get_ref().as_ref();
            let message = match keys.iter().find(|(known, _)| *known == found) {
                Some((_, kinds)) if kinds.contains(&kind) => continue,
                Some((_, kinds)) => {
                    format!("{name}.{found} does nothing with {selector} = \"{kind}\"; it goes with {}", either(kinds))
                }
                None if kinds.is_none() => continue,
                None => {
                    let own = keys.iter().filter(|(_, kinds)| kinds.contains(&kind)).map(|(known, _)| *known);
                    let near = nearest(found, own).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                    format!("{name}.{found} is not known{near}")
                }
            };
            return Err(ScenarioError::at(self.text, key.span().start, message));
        }
        Ok(())
    }

    /// Where the value of a key such as `client.uri` stands, or else the nearest table around it.
    pub(super) fn offset(&self, path: &str) -> Option<usize> {
        let mut table = self.table.get_ref();
        let mut found = None;
        for part in path.split('.') {
            let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == part) else { break };
            found = Some(key.span().start);
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
                _ => break,
            }
        }
        found
    }
}

/// `"a"`, `"a" or "b"`, `"a", "b" or "c"`.
fn either(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::Stall;
    use crate::scenario::Operation;

    #[test]
    fn every_kind_and_operation_is_one() {
        for kind in STALL_KINDS {
            let keys = STALL_KEYS.iter().filter(|(key, kinds)| kinds.contains(kind) && *key != "distribution");
            let keys: String = keys.map(|(key, _)| format!("{key} = 1\n")).collect();
            let stall: Result<Stall, _> = toml::from_str(&format!("kind = \"{kind}\"\n{keys}"));
            assert!(stall.is_ok(), "{kind}: {stall:?}");
        }
        let kinds = STALL_KEYS.iter().flat_map(|(_, kinds)| kinds.iter());
        assert!(kinds.clone().all(|kind| STALL_KINDS.contains(kind)));
        for name in WORKLOAD_KEYS.iter().flat_map(|(_, names)| names.iter()) {
            assert!(toml::Value::String((*name).to_owned()).try_into::<Operation>().is_ok(), "{name}");
        }
    }

    #[test]
    fn keys_that_do_nothing_are_refused_with_their_place() {
        let check = |text: &str| {
            Source::new(text).unwrap().check().map_err(|error| error.to_string().lines().next().unwrap().to_owned())
        };
        for (text, expected) in [
            (
                "[stall]\nkind = \"engine\"\ntimes = 3",
                "line 3, column 1: stall.times does nothing with kind = \"engine\"; it goes with \"fail-command\", \"lost-reply\", \"reset\" or \"overload\"",
            ),
            (
                "stall = { kind = \"lock\", hold_ms = 3 }",
                "line 1, column 26: stall.hold_ms does nothing with kind = \"lock\"; it goes with \"fail-command\"",
            ),
            (
                "[stall]\nkind = \"slow\"\ntake_ms = 3",
                "line 3, column 1: stall.take_ms is not known; did you mean takes_ms?",
            ),
            (
                "[workload]\noperation = \"bulk-insert\"\nupsert = true",
                "line 3, column 1: workload.upsert does nothing with operation = \"bulk-insert\"; it goes with \"update-one\" or \"find-one-and-update\"",
            ),
        ] {
            assert_eq!(check(text).unwrap_err(), expected);
        }
        for text in [
            "[stall]\nkind = \"slow\"\ntakes_ms = 3\ndistribution = \"fixed\"",
            "[stall]\nkind = \"another\"\ntimes = 3",
            "[workload]\noperation = \"insert-one\"\ndocument = {}\nnamespace = \"a.b\"",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn keys_are_found() {
        let text = "a = 1\n[client]\nuri = \"x\"\n[retry]\nback_off = { kind = \"none\" }\n";
        let source = Source::new(text).unwrap();
        let line = |path: &str| source.offset(path).map(|offset| text[..offset].matches('\n').count() + 1);
        for (path, expected) in
            [("client.uri", Some(3)), ("client.other", Some(2)), ("retry.back_off.kind", Some(5)), ("workload", None)]
        {
            assert_eq!(line(path), expected, "{path}");
        }
    }
}
