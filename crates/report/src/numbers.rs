//! `--format json`: the numbers of the page, for machines.

use backfire_model::counts::{Counts, Difference, Extras};
use serde::Serialize;

use crate::context::{Context, Finding, Prediction, Setting};
use crate::headline;
use crate::input::Recording;
use crate::page;
use crate::story::measured::{Measured, More};
use crate::story::steps::{Level, Point};
use crate::story::write::{SendKind, SendStory, ServerEnd, WriteStory};
use crate::story::{GroupCounts, SERIES, Story, predicted};

/// The most points over time.
pub const POINTS_MAX: usize = 1_000;

/// Everything that the page says in numbers. `docs/report.md` describes each field.
#[derive(Debug, Serialize)]
pub struct Numbers<'a> {
    scenario: Option<&'a str>,
    scale: Option<f64>,
    namespace: Option<&'a str>,
    tickets: Option<u64>,
    headline: String,
    sentences: Vec<String>,
    notes: Vec<String>,
    duration_ms: u64,
    events: u64,
    skipped_lines: u64,
    predicted: Option<Counts>,
    measured: Measured,
    differences: Option<Vec<Difference>>,
    extras: BothExtras,
    #[serde(flatten)]
    more: More,
    group: GroupCounts,
    copies_of_one_write_max: u64,
    writes_total: u64,
    writes: Vec<WriteNumbers<'a>>,
    over_time: OverTime,
    settings: &'a [Setting],
    findings: &'a [Finding],
    predictions: &'a [Prediction],
}

#[derive(Debug, Serialize)]
struct BothExtras {
    predicted: Option<Extras>,
    measured: Extras,
}

/// One logical write.
#[derive(Debug, Serialize)]
struct WriteNumbers<'a> {
    label: &'a str,
    began_ms: u64,
    ended_ms: u64,
    fate: &'static str,
    #[serde(flatten)]
    measured: Measured,
    extras: Extras,
    #[serde(flatten)]
    more: More,
    rows: Vec<SendNumbers<'a>>,
}

/// One send.
#[derive(Debug, Serialize)]
struct SendNumbers<'a> {
    execution: Option<u32>,
    copy: Option<u32>,
    kind: &'static str,
    identity: &'a str,
    op: Option<i32>,
    sent_ms: Option<u64>,
    client_ended_ms: Option<u64>,
    client: Option<String>,
    arrived_ms: Option<u64>,
    ended_ms: Option<u64>,
    server: Option<String>,
}

/// Numbers over time. In a bin of `width_ms` (0: a moment) each is the most that it was.
#[derive(Debug, Serialize)]
struct OverTime {
    width_ms: u64,
    points: Vec<PointNumbers>,
}

#[derive(Debug, Serialize)]
struct PointNumbers {
    at_ms: u64,
    copies: u64,
    sends: u64,
    waiting_for_session: u64,
    waiting_for_ticket: u64,
}

/// The numbers of a recording.
pub fn numbers<'a>(recording: &'a Recording, story: &'a Story) -> Numbers<'a> {
    let Context { scenario, scale, namespace, tickets, settings, findings, predictions, .. } = &recording.context;
    let predicted = predicted(recording);
    Numbers {
        scenario: scenario.as_deref(),
        scale: *scale,
        namespace: namespace.as_deref(),
        tickets: *tickets,
        headline: headline::headline(story),
        sentences: headline::sentences(story),
        notes: page::notes(story, recording),
        duration_ms: story.duration_ms,
        events: recording.events.len() as u64,
        skipped_lines: recording.skipped_lines,
        predicted: predicted.map(|(counts, _)| counts),
        measured: story.measured,
        differences: story.differences(recording),
        extras: BothExtras { predicted: predicted.map(|(_, extras)| extras), measured: story.measured.extras },
        more: story.more,
        group: story.group,
        copies_of_one_write_max: story.copies_of_one_max,
        writes_total: story.writes_total,
        writes: story.writes.iter().map(write).collect(),
        over_time: over_time(&story.over_time.fitted(POINTS_MAX)),
        settings,
        findings,
        predictions,
    }
}

fn write(write: &WriteStory) -> WriteNumbers<'_> {
    WriteNumbers {
        label: &write.label,
        began_ms: write.began_ms,
        ended_ms: write.ended_ms,
        fate: write.fate.label(),
        measured: write.measured,
        extras: write.measured.extras,
        more: write.more,
        rows: write.sends.iter().map(|one| send(one, write)).collect(),
    }
}

fn send<'a>(send: &'a SendStory, write: &'a WriteStory) -> SendNumbers<'a> {
    let (client, server) = (send.client.as_ref(), send.server.as_ref());
    let client_end = client.and_then(|client| client.end.as_ref());
    let server_end = server.and_then(|server| server.end.as_ref());
    SendNumbers {
        execution: send.execution.and_then(|at| write.executions.get(at)).map(|execution| execution.number),
        copy: send.copy,
        kind: match send.kind {
            SendKind::First => "send",
            SendKind::Resend => "resend",
            SendKind::Read => "read",
        },
        identity: &send.identity,
        op: server.map(|server| server.op.0),
        sent_ms: client.map(|client| client.sent_ms),
        client_ended_ms: client_end.map(|(at_ms, _)| *at_ms),
        client: client_end.map(|(_, end)| end.label()),
        arrived_ms: server.map(|server| server.arrived_ms),
        ended_ms: server_end.map(|end| end.at_ms),
        server: server_end.map(ServerEnd::label),
    }
}

fn over_time(level: &Level<SERIES>) -> OverTime {
    let point = |point: &Point<SERIES>| {
        let [copies, sends, waiting_for_session, waiting_for_ticket] = point.max;
        PointNumbers { at_ms: point.at_ms, copies, sends, waiting_for_session, waiting_for_ticket }
    };
    OverTime { width_ms: level.width_ms, points: level.points.iter().map(point).collect() }
}

/// The numbers of a recording as one JSON object; of one write pretty-printed, of many on one line.
pub fn render(recording: &Recording) -> String {
    let story = Story::of(recording);
    let numbers = numbers(recording, &story);
    // Numbers, strings and lists only: this cannot fail.
    let json = match story.writes_total {
        0 | 1 => serde_json::to_string_pretty(&numbers),
        _ => serde_json::to_string(&numbers),
    };
    json.unwrap_or_default() + "\n"
}
