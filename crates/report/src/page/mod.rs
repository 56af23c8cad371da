//! `--format html`: the page. It is one file that needs nothing else: no network, no server, no other file.
//!
//! The page says everything that matters without its script: headline, numbers, settings, findings, a chart and the list of events.
//! The script replaces the chart by one that can be zoomed, opened and walked through. Assets are in `templates/`.

mod data;

use askama::Template;
use backfire_model::counts::Extras;

use crate::context::{Finding, Prediction, Setting};
use crate::explain::explanations;
use crate::headline;
use crate::input::Recording;
use crate::palette;
use crate::story::state::State;
use crate::story::told::Who;
use crate::story::write::Fate;
use crate::story::{EVENTS_MAX, Story, predicted};
use crate::svg;
use crate::text::{clean, grouped, json_in_html, many, moment, span};

#[derive(Template)]
#[template(path = "page.html")]
struct Page {
    title: String,
    eyebrow: Vec<String>,
    headline: String,
    verdict: Option<(bool, String)>,
    sentences: Vec<String>,
    chain: Vec<Link>,
    rows: Vec<Row>,
    has_prediction: bool,
    fates: Vec<(&'static str, String)>,
    settings: Vec<Setting>,
    findings: Vec<FindingView>,
    predictions: Vec<PredictionView>,
    most_of_one: [String; 4],
    figure_label: String,
    is_many: bool,
    states: Vec<State>,
    has_commits: bool,
    has_replays: bool,
    chart: String,
    events: Vec<Event>,
    events_label: String,
    notes: Vec<String>,
    patterns: String,
    css: String,
    script: &'static str,
    data: String,
    colours_light: String,
    colours_dark: String,
}

/// A link of the chain from executions to copies.
struct Link {
    /// Where the number is in the JSON report.
    path: &'static str,
    number: String,
    label: String,
    /// What the settings promise.
    predicted: Option<String>,
    differs: bool,
}

/// A row of the comparison.
struct Row {
    /// Where the number is in the JSON report, below `measured` and `predicted` or below `extras`.
    measured_path: String,
    predicted_path: String,
    label: &'static str,
    predicted: String,
    measured: String,
    difference: String,
    differs: bool,
}

/// A finding, clean.
struct FindingView {
    class: &'static str,
    rule: String,
    level: String,
    message: String,
    about: Option<String>,
    place: Option<String>,
    source_line: Option<String>,
    fix: Option<String>,
}

/// What the settings of a listener promise, clean.
struct PredictionView {
    listener: String,
    executions: String,
    sends: String,
    copies: String,
    overlapping_copies_max: String,
    dead_letter: String,
}

/// An event in the list.
struct Event {
    at: String,
    side: &'static str,
    write: String,
    who: String,
    text: String,
}

/// The page of a recording.
pub fn render(recording: &Recording) -> String {
    let story = Story::of(recording);
    let context = &recording.context;
    let scenario = context.scenario.as_deref().map(clean);
    let mut eyebrow = vec![scenario.clone().unwrap_or_else(|| "recording".to_owned())];
    if let Some(scale) = context.scale.filter(|scale| *scale != 1.0) {
        eyebrow.push(format!("every time × {scale}"));
    }
    eyebrow.extend(context.namespace.as_deref().map(|namespace| format!("writes to {}", clean(namespace))));
    eyebrow.push(span(story.duration_ms));
    eyebrow.push(many(recording.events.len() as u64, "event"));
    let headline = headline::headline(&story);
    let listed = story.events.len();
    let page = Page {
        title: scenario.map_or_else(|| headline.clone(), |name| format!("{name}: {headline}")),
        eyebrow,
        verdict: headline::verdict(&story, recording),
        sentences: headline::sentences(&story),
        chain: chain(&story, recording),
        rows: rows(&story, recording),
        has_prediction: predicted(recording).is_some(),
        fates: fates(&story),
        settings: context.settings.iter().map(setting).collect(),
        findings: findings(&context.findings),
        predictions: context.predictions.iter().map(prediction).collect(),
        figure_label: figure_label(&story, context.tickets),
        most_of_one: {
            let [executions, sends, copies] = story.most_of_one;
            [executions, sends, copies, story.copies_of_one_max].map(grouped)
        },
        is_many: story.writes_total > 1,
        states: states(&story),
        has_commits: marks(&story, false),
        has_replays: marks(&story, true),
        chart: svg::figure(recording, &story),
        events: story.events.iter().map(|line| event(line, &story)).collect(),
        // Not everything is worth a line; where lines were cut, all events are what they were cut from.
        events_label: match story.events_of_writes + story.events_of_group {
            _ if listed < EVENTS_MAX => many(listed as u64, "event"),
            all => format!("the first {} of {} events", grouped(listed as u64), grouped(all)),
        },
        notes: notes(&story, recording),
        patterns: svg::patterns(),
        css: format!(
            "{}{}",
            include_str!("../../templates/page.css").replace("LIGHT", &palette::declarations(false)),
            svg::STYLE
        ),
        script: include_str!("../../templates/page.js"),
        // Numbers, texts and lists only: this cannot fail.
        data: json_in_html(&serde_json::to_string(&data::data(&story, context.tickets)).unwrap_or_default()),
        colours_light: palette::declarations(false),
        colours_dark: palette::declarations(true),
        headline,
    };
    // The template has no way to fail, and writing to a string has none either.
    page.render().unwrap_or_default()
}

fn chain(story: &Story, recording: &Recording) -> Vec<Link> {
    let m = &story.measured;
    let promised = predicted(recording).map(|(counts, _)| counts);
    let link = |path, number: u64, one: &str, promised: Option<u64>| Link {
        path,
        number: grouped(number),
        label: many(number, one).split_once(' ').map_or_else(String::new, |(_, label)| label.to_owned()),
        predicted: promised.map(grouped),
        differs: promised.is_some_and(|promised| promised != number),
    };
    let most = m.overlapping_copies_max;
    let mut chain = Vec::new();
    if story.writes_total > 1 {
        chain.push(link("writes_total", story.writes_total, "write", None));
    }
    chain.push(link("measured.executions", m.executions, "execution", promised.map(|counts| counts.executions)));
    chain.push(link("measured.sends", m.sends, "send", promised.map(|counts| counts.sends)));
    chain.push(link("measured.copies", m.copies, "copy", promised.map(|counts| counts.copies)));
    let at_once =
        link("measured.overlapping_copies_max", most, "", promised.map(|counts| counts.overlapping_copies_max));
    chain.push(Link { label: "at the same time".to_owned(), ..at_once });
    chain
}

fn rows(story: &Story, recording: &Recording) -> Vec<Row> {
    let promised = predicted(recording);
    let m = &story.measured;
    let counts = promised.as_ref().map(|(counts, _)| counts.rows());
    let mut rows = Vec::new();
    for (at, (name, label, number)) in m.counts(0).rows().into_iter().enumerate() {
        let measured = if name == "documents" { m.documents } else { Some(number) };
        let promised = counts.as_ref().map(|rows| Some(rows[at].2));
        rows.push(row(["measured", "predicted"], name, label, promised, measured));
    }
    let extras = promised.as_ref().map(|(_, extras)| extras.rows());
    for (at, (name, label, number)) in m.extras.rows().into_iter().enumerate() {
        let promised = extras.as_ref().map(|rows| rows[at].2);
        if number.unwrap_or(0) != 0 || promised.flatten().unwrap_or(0) != 0 {
            rows.push(row(["extras.measured", "extras.predicted"], name, label, promised, Some(number.unwrap_or(0))));
        }
    }
    rows
}

/// `promised`: `None` without a prediction, `Some(None)` for *any*.
fn row(paths: [&str; 2], name: &str, label: &'static str, promised: Option<Option<u64>>, measured: Option<u64>) -> Row {
    let difference = match (promised.flatten(), measured) {
        (Some(promised), Some(measured)) => Some(i128::from(measured) - i128::from(promised)),
        _ => None,
    };
    Row {
        measured_path: format!("{}.{name}", paths[0]),
        predicted_path: format!("{}.{name}", paths[1]),
        label,
        predicted: match promised {
            None => String::new(),
            Some(None) => "any".to_owned(),
            Some(Some(number)) => grouped(number),
        },
        measured: measured.map_or_else(|| "not counted".to_owned(), grouped),
        difference: match difference {
            None | Some(0) => "–".to_owned(),
            Some(difference @ 1..) => format!("+{}", grouped(difference as u64)),
            Some(difference) => format!("−{}", grouped(difference.unsigned_abs() as u64)),
        },
        differs: difference.is_some_and(|difference| difference != 0),
    }
}

fn setting(setting: &Setting) -> Setting {
    Setting {
        name: clean(&setting.name),
        value: clean(&setting.value),
        source: clean(&setting.source),
        note: setting.note.as_deref().map(clean),
    }
}

/// The findings, the worst first.
fn findings(findings: &[Finding]) -> Vec<FindingView> {
    let class = |level: &str| match level {
        "error" => "error",
        "warning" => "warning",
        _ => "note",
    };
    let view = |one: &Finding| FindingView {
        class: class(&one.level),
        rule: clean(&one.rule),
        level: clean(&one.level),
        message: clean(&one.message),
        about: one.about.as_deref().map(clean),
        place: one.place().as_deref().map(clean),
        source_line: one.source_line.as_deref().map(str::trim_end).filter(|line| !line.is_empty()).map(clean),
        fix: one.fix.as_deref().map(clean_lines),
    };
    let mut views: Vec<_> = findings.iter().map(view).collect();
    views.sort_by_key(|view| ["error", "warning", "note"].iter().position(|class| *class == view.class));
    views
}

/// A text of several lines, each of them clean.
fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

fn prediction(one: &Prediction) -> PredictionView {
    PredictionView {
        listener: clean(&one.listener),
        executions: clean(&one.executions),
        sends: clean(&one.sends),
        copies: clean(&one.copies),
        overlapping_copies_max: clean(&one.overlapping_copies_max),
        dead_letter: times(&one.dead_letter_ms),
    }
}

/// An amount of milliseconds, or from one to another and why, with its numbers as times.
fn times(amount: &str) -> String {
    let (numbers, why) = amount.split_once(" (").unwrap_or((amount, ""));
    let times: Option<Vec<String>> = numbers.split(" to ").map(|number| number.parse().ok().map(span)).collect();
    match times {
        Some(times) if why.is_empty() => clean(&times.join(" to ")),
        Some(times) => clean(&format!("{} ({why}", times.join(" to "))),
        None => clean(amount),
    }
}

fn fates(story: &Story) -> Vec<(&'static str, String)> {
    if story.writes_total <= 1 {
        return Vec::new();
    }
    let all = Fate::ALL.into_iter().zip(story.fates).filter(|(_, number)| *number > 0);
    all.map(|(fate, number)| (fate.label(), grouped(number))).collect()
}

/// The states that occur, for the legend.
fn states(story: &Story) -> Vec<State> {
    let mut occurs = [false; State::ALL.len()];
    for send in story.writes.iter().flat_map(|write| &write.sends) {
        for segment in send.server.iter().flat_map(|server| &server.segments) {
            occurs[segment.state.number()] = true;
        }
    }
    State::ALL.into_iter().filter(|state| occurs[state.number()]).collect()
}

/// Whether there is a mark of this kind in the chart.
fn marks(story: &Story, is_replay: bool) -> bool {
    let sends = story.writes.iter().flat_map(|write| &write.sends);
    sends
        .filter_map(|send| send.server.as_ref())
        .any(|server| server.marks.iter().any(|mark| mark.is_replay == is_replay))
}

fn figure_label(story: &Story, tickets: Option<u64>) -> String {
    let [copies, sends, session, ticket] = story.over_time.max();
    let mut label = format!(
        "Over {}, at most {} ran at the same time, and at most {} were at the server.",
        span(story.duration_ms),
        many(copies, "copy"),
        many(sends, "send"),
    );
    for (number, what) in [(session, "session"), (ticket, "ticket")] {
        if number > 0 {
            label.push_str(&format!(" At most {} waited for a {what}.", grouped(number)));
        }
    }
    if let Some(tickets) = tickets {
        label.push_str(&format!(" The server has {}.", many(tickets, "write ticket")));
    }
    label
}

fn event(line: &crate::story::Line, story: &Story) -> Event {
    let (side, who) = match line.told.who {
        Who::Client => ("client", "client".to_owned()),
        Who::Execution(number) => ("client", format!("execution {number}")),
        Who::Copy(number) => ("server", format!("copy {number}")),
        Who::Resend(number) => ("server", format!("resend of copy {number}")),
        Who::Read => ("server", "read".to_owned()),
        Who::Consumer(None) => ("client", "consumer".to_owned()),
        Who::Consumer(Some(number)) => ("client", format!("consumer {number}")),
    };
    let write =
        line.write.and_then(|write| story.writes.get(write)).map(|write| clean(&write.label)).unwrap_or_default();
    Event { at: moment(line.at_ms), side, write, who, text: line.told.text.clone() }
}

/// What was left out, and what the numbers do not say.
pub(crate) fn notes(story: &Story, recording: &Recording) -> Vec<String> {
    let mut notes = recording.context.cut.clone();
    let drawn = story.writes.len() as u64;
    if drawn < story.writes_total {
        notes.push(format!(
            "{} of {} writes are drawn: those with the most events. All of them are counted.",
            grouped(drawn),
            grouped(story.writes_total)
        ));
    }
    if story.sends_left_out > 0 {
        let sends = many(story.sends_left_out, "send");
        notes.push(format!("{sends} of the drawn writes are not drawn. All of them are counted."));
    }
    if recording.dropped_events > 0 {
        let events = many(recording.dropped_events, "event");
        let were = if recording.dropped_events == 1 { "was" } else { "were" };
        notes.push(format!("{events} of the run {were} not kept: what is shown and counted here is its beginning."));
    }
    if recording.skipped_lines > 0 {
        let first = recording.first_skipped.as_ref();
        let first =
            first.map_or_else(String::new, |(line, why)| format!(" The first was line {line}: {}.", clean(why)));
        notes.push(format!(
            "{} of the stream were no events and passed over.{first}",
            many(recording.skipped_lines, "line")
        ));
    }
    if story.writes_total > 1 {
        notes.push("Copies at the same time are those of all writes together.".to_owned());
    }
    if story.measured.executions > 0 && story.fates[Fate::Unseen.number()] == story.writes_total {
        notes.push("Nobody saw the application: each distinct write that arrived counts as one execution.".to_owned());
    }
    if matches!(recording.context.extras.predicted, Some(Extras { late_copies: None, .. })) {
        notes.push(
            "Which copy ends last was not predicted: it depends on the order in which they happen to end.".to_owned(),
        );
    }
    notes.extend(explanations(&recording.events));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_milliseconds_are_times() {
        let cases = [
            ("240000", "4 min 0 s"),
            ("300000 to 600000 (a race)", "5 min 0 s to 10 min 0 s (a race)"),
            ("no bound (never gives up)", "no bound (never gives up)"),
            ("", ""),
        ];
        for (amount, shown) in cases {
            assert_eq!(times(amount), shown);
        }
    }
}
