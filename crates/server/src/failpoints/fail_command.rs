//! The data of `failCommand`: which commands it catches and what it does to them (facts/server.md 4.1, 4.2).

use std::time::Duration;

use bson::{Bson, Document};

use crate::error::{CommandError, Result};

/// What a command shows of itself to the predicate.
#[derive(Debug, Clone, Copy)]
pub struct Victim<'a> {
    /// The command's name and aliases.
    pub names: &'a [&'a str],
    /// `db.collection`, or `None` when the command names no valid namespace.
    pub namespace: Option<&'a str>,
    /// The client's application name.
    pub app_name: Option<&'a str>,
    /// The connection's description, such as `conn12`.
    pub thread_name: &'a str,
}

/// Where the fail point is evaluated; it is evaluated twice per command (facts/server.md 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Before the command: `closeConnection`, `blockConnection`, `errorCode`.
    BeforeCommand,
    /// Instead of the wait for the write concern: `writeConcernError`.
    WriteConcern,
}

/// Whether the configuration `data` catches `victim` at `place`.
pub fn matches(data: &Document, victim: &Victim<'_>, place: Place, knows_fail_all: bool) -> bool {
    let acts = match place {
        Place::BeforeCommand => {
            flag(data, "closeConnection") || flag(data, "blockConnection") || data.contains_key("errorCode")
        }
        Place::WriteConcern => data.contains_key("writeConcernError"),
    };
    acts && names(data, victim, knows_fail_all)
        && filter(data, "appName", victim.app_name)
        && filter(data, "threadName", Some(victim.thread_name))
        && filter(data, "namespace", victim.namespace)
}

fn names(data: &Document, victim: &Victim<'_>, knows_fail_all: bool) -> bool {
    // Never the command that could turn it off (facts/server.md 4.1).
    if victim.names.contains(&"configureFailPoint") {
        return false;
    }
    if knows_fail_all && flag(data, "failAllCommands") {
        return true;
    }
    let Some(Bson::Array(commands)) = data.get("failCommands") else { return false };
    commands.iter().filter_map(Bson::as_str).any(|name| victim.names.contains(&name))
}

fn filter(data: &Document, key: &str, actual: Option<&str>) -> bool {
    data.get(key).and_then(Bson::as_str).is_none_or(|wanted| Some(wanted) == actual)
}

fn flag(data: &Document, key: &str) -> bool {
    data.get(key).is_some_and(|value| crate::value::View::from(value).is_true())
}

/// What happens to a command that was caught before it ran.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// Close the connection without a reply.
    pub close_connection: bool,
    /// Sleep this long first.
    pub block: Option<Duration>,
    /// Fail with this code, and these extra fields.
    pub error: Option<(i32, Option<Document>)>,
    /// Replaces the labels the server would add; empty: none.
    pub labels: Option<Vec<String>>,
}

impl Action {
    /// Reads the action from the fail point's data.
    ///
    /// # Errors
    /// Bad values are reported to the command that was caught, not to `configureFailPoint` (facts/server.md 4.2).
    pub fn parse(data: &Document) -> Result<Self> {
        let block = if flag(data, "blockConnection") {
            let time = data
                .get("blockTimeMS")
                .and_then(number)
                .ok_or_else(|| CommandError::new(72, "must specify 'blockTimeMS' when 'blockConnection' is true"))?;
            let time = u64::try_from(time).map_err(|_| CommandError::new(72, "'blockTimeMS' must be non-negative"))?;
            Some(Duration::from_millis(time))
        } else {
            None
        };
        let error = data
            .get("errorCode")
            .and_then(number)
            .map(|code| (code as i32, data.get("errorExtraInfo").and_then(Bson::as_document).cloned()));
        Ok(Self { close_connection: flag(data, "closeConnection"), block, error, labels: labels(data) })
    }
}

/// The `errorLabels` of a configuration.
pub fn labels(data: &Document) -> Option<Vec<String>> {
    let labels = data.get("errorLabels")?.as_array()?;
    Some(labels.iter().filter_map(Bson::as_str).map(str::to_owned).collect())
}

fn number(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        Bson::Double(number) => Some(*number as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    const INSERT: Victim<'static> =
        Victim { names: &["insert"], namespace: Some("db.a"), app_name: Some("lab"), thread_name: "conn1" };

    #[test]
    fn filters_narrow_what_is_caught() {
        for (data, place, caught) in [
            (doc! {"failCommands": ["insert"], "errorCode": 1}, Place::BeforeCommand, true),
            (doc! {"failCommands": ["find"], "errorCode": 1}, Place::BeforeCommand, false),
            (doc! {"failCommands": ["insert"]}, Place::BeforeCommand, false),
            (doc! {"failCommands": ["insert"], "closeConnection": false}, Place::BeforeCommand, false),
            (doc! {"failCommands": ["insert"], "closeConnection": true, "appName": "lab"}, Place::BeforeCommand, true),
            (doc! {"failCommands": ["insert"], "closeConnection": true, "appName": "x"}, Place::BeforeCommand, false),
            (doc! {"failCommands": ["insert"], "errorCode": 1, "namespace": "db.a"}, Place::BeforeCommand, true),
            (doc! {"failCommands": ["insert"], "errorCode": 1, "namespace": "db.b"}, Place::BeforeCommand, false),
            (doc! {"failCommands": ["insert"], "errorCode": 1, "threadName": "conn2"}, Place::BeforeCommand, false),
            (doc! {"failAllCommands": true, "errorCode": 1}, Place::BeforeCommand, true),
            (doc! {"failCommands": ["insert"], "writeConcernError": {"code": 91}}, Place::BeforeCommand, false),
            (doc! {"failCommands": ["insert"], "writeConcernError": {"code": 91}}, Place::WriteConcern, true),
        ] {
            assert_eq!(matches(&data, &INSERT, place, true), caught, "{data} at {place:?}");
        }
        assert!(!matches(&doc! {"failAllCommands": true, "errorCode": 1}, &INSERT, Place::BeforeCommand, false));
        let configure = Victim { names: &["configureFailPoint"], ..INSERT };
        assert!(!matches(&doc! {"failAllCommands": true, "errorCode": 1}, &configure, Place::BeforeCommand, true));
    }

    #[test]
    fn bad_values_are_told_to_the_victim() {
        for (data, text) in [
            (doc! {"blockConnection": true}, "must specify 'blockTimeMS' when 'blockConnection' is true"),
            (doc! {"blockConnection": true, "blockTimeMS": -5}, "'blockTimeMS' must be non-negative"),
        ] {
            let error = Action::parse(&data).unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (72, text));
        }
    }
}
