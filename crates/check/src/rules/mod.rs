//! The rules: each is one value of [`RULES`], from which the check, `--explain` and `docs/rules.md` are made.

mod client;
mod config;
mod connect;
mod poll;
mod retries;
mod writes;

use std::fmt::Write as _;

use crate::finding::{Finding, Level};
use crate::prediction::Prediction;
use crate::service::{Listener, Service};

/// A rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// `BF001`; it never changes its meaning.
    pub id: &'static str,
    /// Its name, for people.
    pub name: &'static str,
    /// How bad a finding of it is, unless the finding says otherwise.
    pub level: Level,
    /// What it finds, in one sentence.
    pub summary: &'static str,
    /// Why that matters, in two sentences.
    pub why: &'static str,
    /// What else its page says: how to set it right, what the number is, and where that is known from.
    pub page: &'static str,
    /// What it finds in a service.
    pub check: fn(&Context<'_>, &mut Vec<Finding>),
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The service.
    pub service: &'a Service,
    /// The prediction of each of its listeners, in their order.
    pub predictions: &'a [Prediction],
}

impl<'a> Context<'a> {
    /// Each listener with its prediction.
    fn listeners(&self) -> impl Iterator<Item = (&'a Listener, &'a Prediction)> {
        self.service.listeners.iter().zip(self.predictions)
    }

    /// Whether the service writes at all, as far as one can see: it has a connection string, or a driver.
    fn has_client(&self) -> bool {
        let uri = self.service.client.uri.as_ref();
        uri.is_some_and(|uri| uri.source.is_set())
            || self.service.versions.uses_mongodb
            || self.service.listeners.iter().any(|listener| !listener.writes.is_empty())
            || !self.service.sinks.is_empty()
    }
}

/// Every rule, in the order of its id.
pub const RULES: &[Rule] = &[
    client::NO_TIMEOUT,
    client::NO_DEADLINE,
    client::DEADLINE_TOO_LATE,
    client::SOCKET_TIMEOUT_UNUSED,
    client::TIMEOUT_UNUSED,
    client::RETRY_WRITES_OFF,
    retries::DEFAULT_HANDLER,
    retries::IMMEDIATE,
    retries::UNLIMITED,
    retries::EXCEPTION_CHANGE,
    retries::RECOVERY_FAILURE,
    retries::JITTER_INEXACT,
    retries::JITTER_UNKNOWN,
    poll::BUDGET,
    poll::DEAD_LETTER,
    retries::BATCH_FALLBACK,
    writes::GENERATED_ID,
    writes::MULTI_DOCUMENT,
    writes::BULK_WITH_MULTI,
    retries::STACKED,
    retries::NOT_DECLARED,
    config::NOT_BOUND,
    client::BELOW_SELECTION,
    writes::MAX_TIME_DROPPED,
    writes::TRANSACTION,
    writes::TICKETS,
    client::POOL_SIZE,
    writes::BULK_REMOVE,
    writes::LATE_COPY,
    poll::NO_BOUND,
    client::CONNECTION_STRING,
    client::EMULATION,
    config::KAFKA_NAME,
    connect::NEW_ID,
    connect::TOLERANCE,
    connect::OLD_RETRIES,
    config::UNKNOWN_VALUE,
    config::UNREADABLE,
    config::BAD_IGNORE,
    retries::ZERO_RETRIES,
    config::ENGINE,
    client::STANDALONE,
    retries::BAD_BACK_OFF,
    writes::SWALLOWED,
    writes::DETACHED,
    writes::COUNTS,
    config::NOT_FOLLOWED,
    poll::HEARTBEAT,
];

/// The rule with this id, in any case.
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id.eq_ignore_ascii_case(id) || rule.name.eq_ignore_ascii_case(id))
}

/// The known id that is most like another.
pub fn nearest(id: &str) -> Option<&'static str> {
    crate::stated::nearest(&id.to_ascii_uppercase(), RULES.iter().map(|rule| rule.id))
}

/// Everything the rules find in a service.
pub fn run(context: &Context<'_>) -> Vec<Finding> {
    let mut all = Vec::new();
    for rule in RULES {
        let mut found = Vec::new();
        (rule.check)(context, &mut found);
        for mut finding in found {
            finding.rule = rule.id;
            finding.level = finding.set_level.unwrap_or(rule.level);
            if finding.about.is_empty() {
                finding.about.clone_from(&context.service.name);
            }
            all.push(finding);
        }
    }
    all
}

/// The page of one rule, as Markdown.
pub fn explain(rule: &Rule) -> String {
    format!(
        "## {} {}\n\nLevel: {}\n\n{}\n\n**Why.** {}\n\n{}\n\nTo accept a finding, write `backfire-ignore: {} reason` on its line or the line above.\n",
        rule.id, rule.name, rule.level, rule.summary, rule.why, rule.page, rule.id
    )
}

/// `docs/rules.md`.
pub fn rules_markdown() -> String {
    let mut text = String::from(
        "# Rules of `backfire check`\n\nMade from the rules themselves; `backfire check --explain BF001` prints one page.\n\n\
         | id | name | level | what it finds |\n| --- | --- | --- | --- |\n",
    );
    for rule in RULES {
        let _ = writeln!(
            text,
            "| [{}](#{}-{}) | {} | {} | {} |",
            rule.id,
            rule.id.to_lowercase(),
            rule.name,
            rule.name,
            rule.level,
            rule.summary
        );
    }
    for rule in RULES {
        text.push('\n');
        text.push_str(&explain(rule));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_order_and_texts_are_whole() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!(rule.id, format!("BF{:03}", index + 1), "{}", rule.name);
            for text in [rule.summary, rule.why, rule.page] {
                assert!(text.ends_with(['.', '`']) && !text.contains("  "), "{}: {text}", rule.id);
            }
            assert!(rule.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", rule.name);
            assert_eq!(find(&rule.id.to_lowercase()).map(|found| found.id), Some(rule.id));
        }
        assert_eq!(nearest("bf01"), Some("BF001"));
    }
}
