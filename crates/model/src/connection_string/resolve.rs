//! From occurrences to settings: which occurrence of an option applies, and with what value.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Occurrence;
use super::diagnostic::{Draft, Part, Problem, quote};
use super::options::{self, JavaSupport, OPTIONS, OptionName, OptionSpec, Repeat};
use super::parse::{Parts, of_option};
use super::value::{JAVA_REFUSES, Value, ValueKind};

/// The parts of a string together with the values that apply.
#[derive(Debug)]
pub(super) struct Resolved<'a> {
    pub(super) parts: &'a Parts,
    pub(super) settings: BTreeMap<OptionName, Value>,
}

impl Resolved<'_> {
    /// Where the option stands the last time: its name and value; nowhere, if it does not occur.
    pub(super) fn span_of(&self, option: OptionName) -> Range<usize> {
        of_option(&self.parts.occurrences, option).last().map_or(0..0, Occurrence::span)
    }

    /// Whether a Boolean option is set and true.
    pub(super) fn is_true(&self, option: OptionName) -> bool {
        self.settings.get(&option) == Some(&Value::Bool(true))
    }

    /// The text of an option that is set.
    pub(super) fn text(&self, option: OptionName) -> Option<&str> {
        match self.settings.get(&option) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The number of an option that is set.
    pub(super) fn int(&self, option: OptionName) -> Option<i64> {
        match self.settings.get(&option) {
            Some(Value::Int(value)) => Some(*value),
            _ => None,
        }
    }
}

/// Works out what each option is set to. Warnings, and errors about repetition, go to `drafts`.
pub(super) fn resolve<'a>(parts: &'a Parts, drafts: &mut Vec<Draft>) -> Resolved<'a> {
    unknown_options(parts, drafts);
    let settings = OPTIONS.iter().filter_map(|spec| Some((spec.id, setting(spec, parts, drafts)?))).collect();
    Resolved { parts, settings }
}

fn unknown_options(parts: &Parts, drafts: &mut Vec<Draft>) {
    for occurrence in parts.occurrences.iter().filter(|occurrence| occurrence.option.is_none()) {
        let name = &occurrence.name;
        let may_name = occurrence.may_show_name;
        let what = if may_name { format!("the option {name:?}") } else { "an option".to_owned() };
        let message = format!("{what} is not known and is ignored");
        let draft = Draft::warning(Problem::UnknownOption, Part::OptionName, occurrence.name_span.clone(), message);
        drafts.push(match options::nearest(name).filter(|_| may_name) {
            Some(nearest) => draft.help(format!("did you mean {nearest}?")),
            None => draft,
        });
    }
}

/// The value of one option, if it is set.
fn setting(spec: &'static OptionSpec, parts: &Parts, drafts: &mut Vec<Draft>) -> Option<Value> {
    let all: Vec<&Occurrence> = of_option(&parts.occurrences, spec.id).collect();
    let (old, present): (Vec<_>, Vec<_>) = all.iter().copied().partition(|occurrence| occurrence.is_deprecated_name);
    for occurrence in &old {
        let written = &occurrence.name;
        let message = match present.is_empty() {
            true => format!("{written} is an old name of {}", spec.name),
            false => format!("{written} is an old name of {} and is ignored, as that one is given too", spec.name),
        };
        let draft = Draft::warning(Problem::DeprecatedName, Part::OptionName, occurrence.name_span.clone(), message);
        drafts.push(draft.option(spec.id).help(format!("write {}", spec.name)));
    }
    let applying = if present.is_empty() { old } else { present };
    let values: Vec<Option<Value>> = applying.iter().map(|occurrence| value(spec, occurrence, parts, drafts)).collect();
    if applying.len() > 1 {
        repeated(spec, &applying, &values, drafts);
    }
    match spec.repeat {
        Repeat::List => {
            let sets: Vec<_> = values
                .into_iter()
                .flatten()
                .flat_map(|value| match value {
                    Value::TagSets(sets) => sets,
                    _ => Vec::new(),
                })
                .collect();
            (!sets.is_empty()).then_some(Value::TagSets(sets))
        }
        Repeat::LastWins | Repeat::MustAgree | Repeat::Refused => values.into_iter().next_back().flatten(),
    }
}

/// What is said about an option that occurs more than once.
fn repeated(spec: &OptionSpec, applying: &[&Occurrence], values: &[Option<Value>], drafts: &mut Vec<Draft>) {
    let Some(last) = applying.last() else { return };
    let name = spec.name;
    let draft = match spec.repeat {
        Repeat::List => return,
        Repeat::Refused => {
            Draft::error(Problem::Repeated, Part::OptionName, last.span(), format!("{name} may be given only once"))
        }
        Repeat::MustAgree if values.iter().flatten().any(|value| Some(value) != values.iter().flatten().next()) => {
            let names: Vec<&str> = std::iter::once(name).chain(spec.aliases.iter().map(|alias| alias.name)).collect();
            let message = format!("{} contradict each other", names.join(" and "));
            Draft::error(Problem::Conflict, Part::OptionValue, last.span(), message)
        }
        Repeat::MustAgree | Repeat::LastWins => {
            let is_same_name = |other: &&Occurrence| other.name.eq_ignore_ascii_case(&last.name);
            if applying.iter().filter(|other| is_same_name(other)).count() < 2 {
                return;
            }
            let message = format!("{name} is given {} times; the last one applies", applying.len());
            Draft::warning(Problem::Repeated, Part::OptionName, last.span(), message)
                .help("give it once")
                .drivers("the Java driver takes the last; the Node driver 6 and later refuses the connection string")
        }
    };
    drafts.push(draft.option(spec.id));
}

/// The value of one occurrence, if it can be used.
fn value(spec: &'static OptionSpec, occurrence: &Occurrence, parts: &Parts, drafts: &mut Vec<Draft>) -> Option<Value> {
    let text = occurrence.value.expose();
    let name = spec.name;
    if text.is_empty() && spec.kind != ValueKind::Tags {
        if spec.id == OptionName::AuthSource {
            let message = "authSource must not be empty";
            drafts
                .push(Draft::error(Problem::EmptyValue, Part::OptionValue, occurrence.span(), message).option(spec.id));
            return None;
        }
        let message = format!("{name} has no value and is ignored; {}", applies(spec));
        let draft = Draft::warning(Problem::EmptyValue, Part::OptionValue, occurrence.span(), message)
            .option(spec.id)
            .help(format!("allowed: {}", spec.kind));
        let is_refused = matches!(spec.kind, ValueKind::Int { .. }) && spec.java == JavaSupport::Yes;
        drafts.push(if is_refused { draft.drivers(JAVA_REFUSES) } else { draft });
        return None;
    }
    let parsed = spec.kind.parse(text);
    if let Some(bad) = parsed.bad {
        let may_quote = !spec.hides_value() && !parts.is_suspect && !text.contains('@');
        let what = if may_quote { format!("{name}={}", quote(text)) } else { format!("the value of {name}") };
        let then = match parsed.value {
            Some(_) => "that part is ignored".to_owned(),
            None => format!("it is ignored; {}", applies(spec)),
        };
        let message = format!("{what} {}; {then}", bad.why);
        let draft = Draft::warning(Problem::BadValue, Part::OptionValue, occurrence.value_span.clone(), message)
            .option(spec.id)
            .help(bad.help);
        drafts.push(match bad.drivers.filter(|_| spec.java == JavaSupport::Yes) {
            Some(drivers) => draft.drivers(drivers),
            None => draft,
        });
    }
    parsed.value
}

/// What applies when the option is ignored.
fn applies(spec: &OptionSpec) -> String {
    format!("the default applies: {}", spec.default_text())
}
