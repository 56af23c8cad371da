//! The writes of a bulk, and how a driver cuts them into commands (facts/client.md A5, F7, F8).

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::predict::{Command, CommandName, Effect, Statement};

/// What a write of a bulk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    /// `insertOne`: `document`.
    InsertOne,
    /// `updateOne`: `filter`, `update`, `upsert`.
    UpdateOne,
    /// `updateMany`: `filter`, `update`.
    UpdateMany,
    /// `replaceOne`: `filter`, `document`, `upsert`.
    ReplaceOne,
    /// `deleteOne`: `filter`.
    DeleteOne,
    /// `deleteMany`: `filter`.
    DeleteMany,
}

impl ModelKind {
    /// Whether it may touch more than one document, so that it is never resent.
    pub fn is_multi(self) -> bool {
        matches!(self, ModelKind::UpdateMany | ModelKind::DeleteMany)
    }

    /// Its name in a file.
    fn name(self) -> &'static str {
        match self {
            ModelKind::InsertOne => "insert-one",
            ModelKind::UpdateOne => "update-one",
            ModelKind::UpdateMany => "update-many",
            ModelKind::ReplaceOne => "replace-one",
            ModelKind::DeleteOne => "delete-one",
            ModelKind::DeleteMany => "delete-many",
        }
    }

    fn command(self) -> CommandName {
        match self {
            ModelKind::InsertOne => CommandName::Insert,
            ModelKind::UpdateOne | ModelKind::UpdateMany | ModelKind::ReplaceOne => CommandName::Update,
            ModelKind::DeleteOne | ModelKind::DeleteMany => CommandName::Delete,
        }
    }

    /// Whether the drivers put both kinds into one command. For Java a replacement is a kind of its own (A5).
    fn goes_with(self, other: Self, rules: &Rules) -> bool {
        let replaces = |kind| kind == ModelKind::ReplaceOne;
        let apart = rules.replace_is_own_command && replaces(self) != replaces(other);
        self.command() == other.command() && !apart
    }
}

/// One write of a bulk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// What it is.
    pub kind: ModelKind,
    /// What is inserted, or the replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Table>,
    /// Which document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Table>,
    /// How it is updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Table>,
    /// Whether it is inserted where it is not there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upsert: bool,
}

/// What decides how a bulk is cut and resent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) is_ordered: bool,
    pub(super) retry_writes: bool,
    pub(super) max_batch: usize,
    pub(super) replace_is_own_command: bool,
    pub(super) multi_write_spoils_bulk: bool,
}

impl Model {
    /// What it leaves behind.
    pub(super) fn effect(&self) -> Effect {
        match self.kind {
            ModelKind::InsertOne => Effect::NewDocuments(1),
            ModelKind::DeleteOne | ModelKind::DeleteMany => Effect::Removal,
            _ if self.upsert => Effect::SameDocument,
            _ => Effect::NoDocument,
        }
    }

    fn id(&self) -> Option<&Value> {
        self.filter.as_ref().and_then(|filter| filter.get("_id"))
    }

    /// The document that it inserts, unless it is none.
    pub(super) fn inserted(&self) -> Option<&Table> {
        self.document.as_ref().filter(|_| self.kind == ModelKind::InsertOne)
    }

    fn check(&self) -> Result<(), String> {
        let name = self.kind.name();
        let needs_filter = self.kind != ModelKind::InsertOne;
        let needs_update = matches!(self.kind, ModelKind::UpdateOne | ModelKind::UpdateMany);
        let needs_document = matches!(self.kind, ModelKind::InsertOne | ModelKind::ReplaceOne);
        let fields = [
            ("filter", needs_filter, self.filter.is_some()),
            ("update", needs_update, self.update.is_some()),
            ("document", needs_document, self.document.is_some()),
        ];
        for (field, needed, given) in fields {
            match (needed, given) {
                (true, false) => return Err(format!("a \"{name}\" needs {field}")),
                (false, true) => return Err(format!("{field} does nothing with kind = \"{name}\"")),
                _ => {}
            }
        }
        if self.upsert && !matches!(self.kind, ModelKind::UpdateOne | ModelKind::ReplaceOne) {
            return Err(format!(
                "upsert does nothing with kind = \"{name}\"; it goes with \"update-one\" or \"replace-one\""
            ));
        }
        match (needs_filter, self.id()) {
            (true, None) => {
                Err(format!("the filter of a \"{name}\" needs an _id, so that it is known which document it is about"))
            }
            (true, Some(Value::Table(_))) => Err(format!(
                "the _id in the filter of a \"{name}\" must be a value, not a condition: it names one document"
            )),
            _ => Ok(()),
        }
    }
}

/// Whether these are the models of one bulk. `seed`: the documents that are there before.
///
/// # Errors
/// What is wrong, and with which of them.
pub(super) fn check(models: &[Model], seed: &[Table]) -> Result<(), String> {
    for (number, model) in models.iter().enumerate() {
        let at = format!("workload.models, number {}", number + 1);
        model.check().map_err(|message| format!("{at}: {message}"))?;
        let Some(id) = model.id() else { continue };
        if models[..number].iter().any(|before| before.id() == Some(id)) {
            return Err(format!(
                "{at}: another write of the bulk is about the same _id; give each a document of its own"
            ));
        }
        if model.effect() != Effect::SameDocument && !is_seeded(id, seed) {
            return Err(format!("{at}: workload.seed has no document with this _id, so that it would do nothing"));
        }
    }
    Ok(())
}

/// Whether a document with this `_id` is there before. A rehearsal's record is `0-0`.
fn is_seeded(id: &Value, seed: &[Table]) -> bool {
    let plain = |value: &Value| match value {
        Value::String(text) if text == super::RECORD_PLACEHOLDER => Value::String("0-0".to_owned()),
        other => other.clone(),
    };
    let id = plain(id);
    seed.iter().filter_map(|document| document.get("_id")).any(|own| plain(own) == id)
}

/// The documents, by their place among the models, that are there before.
pub(super) fn seeded(models: &[Model], seed: &[Table]) -> Vec<usize> {
    let is_there = |model: &Model| model.id().is_some_and(|id| is_seeded(id, seed));
    models.iter().enumerate().filter(|(_, model)| is_there(model)).map(|(place, _)| place).collect()
}

/// The commands of a bulk: runs of one kind in an ordered one, one group per kind in an unordered one, each split where it
/// is longer than the server takes.
pub(super) fn commands(models: &[Model], rules: &Rules) -> Vec<Command> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (place, model) in models.iter().enumerate() {
        let fits = |group: &&mut Vec<usize>| {
            group.first().is_some_and(|first| models[*first].kind.goes_with(model.kind, rules))
        };
        let group = match rules.is_ordered {
            true => groups.last_mut().filter(fits),
            false => groups.iter_mut().find(|group| fits(group)),
        };
        match group {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    let spoiled = rules.multi_write_spoils_bulk && models.iter().any(|model| model.kind.is_multi());
    let parts = groups.iter().flat_map(|group| group.chunks(rules.max_batch.max(1)));
    parts
        .map(|part| {
            let is_multi = part.iter().any(|place| models[*place].kind.is_multi());
            let name = models[part[0]].kind.command();
            // The server inserts the documents of a command together.
            let statements = match name {
                CommandName::Insert => {
                    vec![Statement { effect: Effect::NewDocuments(part.len() as u64), document: part[0] }]
                }
                _ => {
                    let statement = |place: &usize| Statement { effect: models[*place].effect(), document: *place };
                    part.iter().map(statement).collect()
                }
            };
            Command { name, resends: rules.retry_writes && !spoiled && !is_multi, statements }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(kinds: &str) -> Vec<Model> {
        let one = |(place, letter): (usize, char)| {
            let kind = match letter {
                'i' => ModelKind::InsertOne,
                'u' => ModelKind::UpdateOne,
                'U' => ModelKind::UpdateMany,
                'r' => ModelKind::ReplaceOne,
                'd' => ModelKind::DeleteOne,
                _ => ModelKind::DeleteMany,
            };
            let table = |text: &str| Some(toml::from_str(text).expect("TOML"));
            Model {
                kind,
                document: table("a = 1").filter(|_| matches!(letter, 'i' | 'r')),
                filter: table(&format!("_id = {place}")).filter(|_| letter != 'i'),
                update: table("'$set' = { a = 1 }").filter(|_| matches!(letter, 'u' | 'U')),
                upsert: matches!(letter, 'u' | 'r'),
            }
        };
        kinds.chars().enumerate().map(one).collect()
    }

    const JAVA: Rules = Rules {
        is_ordered: true,
        retry_writes: true,
        max_batch: 100_000,
        replace_is_own_command: true,
        multi_write_spoils_bulk: true,
    };

    /// Each command as its letter and the places of its documents; in brackets where it is not resent.
    fn check(kinds: &str, rules: Rules, expected: &str) {
        let shown = |command: &Command| {
            let name = &command.name.as_str()[..1];
            let places = command.statements.iter().map(|statement| match statement.effect {
                Effect::NewDocuments(number) => format!("{}x{number}", statement.document),
                _ => statement.document.to_string(),
            });
            let text = format!("{name}{}", places.collect::<Vec<_>>().join(","));
            if command.resends { text } else { format!("({text})") }
        };
        let commands = commands(&models(kinds), &rules);
        assert_eq!(commands.iter().map(shown).collect::<Vec<_>>().join(" "), expected, "{kinds}");
    }

    #[test]
    fn bulks_are_cut_as_the_drivers_cut_them() {
        let unordered = Rules { is_ordered: false, ..JAVA };
        let specification = Rules { replace_is_own_command: false, multi_write_spoils_bulk: false, ..JAVA };
        // facts/client.md A5: ordered i,u,d,i gives 4 commands, unordered i,u,r,d,i gives 4.
        check("iudi", JAVA, "i0x1 u1 d2 i3x1");
        check("iurdi", unordered, "i0x2 u1 u2 d3");
        check("iiuur", JAVA, "i0x2 u2,3 u4");
        check("iiuur", specification, "i0x2 u2,3,4");
        check("iiiii", Rules { max_batch: 2, ..JAVA }, "i0x2 i2x2 i4x1");
        // One multi write spoils all for Java, and its own command for others.
        check("iUi", JAVA, "(i0x1) (u1) (i2x1)");
        check("iUi", specification, "i0x1 (u1) i2x1");
        check("iD", JAVA, "(i0x1) (d1)");
        check("iu", Rules { retry_writes: false, ..JAVA }, "(i0x1) (u1)");
    }

    #[test]
    fn models_that_make_no_sense_are_refused_by_number() {
        let seed: Vec<Table> = (0..9).map(|id| toml::from_str(&format!("_id = {id}")).expect("TOML")).collect();
        assert_eq!(super::check(&models("iurdUD"), &seed), Ok(()));
        let check = |change: fn(&mut Vec<Model>), expected: &str| {
            let mut all = models("iud");
            change(&mut all);
            let error = super::check(&all, &seed).expect_err(expected);
            assert!(error.starts_with("workload.models, number ") && error.contains(expected), "{error}");
        };
        check(|all| all[0].document = None, "number 1: a \"insert-one\" needs document");
        check(|all| all[1].update = None, "number 2: a \"update-one\" needs update");
        check(|all| all[2].update = Some(Table::new()), "number 3: update does nothing with kind = \"delete-one\"");
        check(|all| all[2].upsert = true, "number 3: upsert does nothing");
        check(|all| all[1].filter = Some(Table::new()), "number 2: the filter of a \"update-one\" needs an _id");
        check(|all| all[2].filter = all[1].filter.clone(), "number 3: another write of the bulk is about the same _id");
        check(
            |all| all[2].filter = toml::from_str("_id = 77").ok(),
            "number 3: workload.seed has no document with this _id",
        );
    }
}
