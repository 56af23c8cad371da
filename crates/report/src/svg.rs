//! `--format svg`: the chart. Above, copies, sends and waits over time; below, a row for each execution and each send, or for each
//! write where there are too many of those. All rows share one time axis.

use std::fmt::Write;

use crate::headline;
use crate::input::Recording;
use crate::palette::{self, Fill};
use crate::story::state::State;
use crate::story::steps::Level;
use crate::story::write::{ClientEnd, Fate, SendKind, SendStory, WriteStory};
use crate::story::{SERIES, Story};
use crate::text::{data, escape, grouped, many, span};
use backfire_model::event::Outcome;

/// More rows of executions and sends than this are not drawn; where there would be more, writes have one row each.
pub const ROWS_MAX: usize = 150;
/// More rows of writes than this are not drawn.
pub const WRITE_ROWS_MAX: usize = 25;

const WIDTH: f64 = 1160.0;
/// The part that holds the names of rows.
const NAMES: f64 = 190.0;
const RIGHT: f64 = 24.0;
const PLOT: f64 = WIDTH - NAMES - RIGHT;
const ROW: f64 = 26.0;
const CHART: f64 = 96.0;
const TOP: f64 = 26.0;

/// A chart that stands alone.
pub fn render(recording: &Recording) -> String {
    let story = Story::of(recording);
    let headline = headline::headline(&story);
    let lines = wrapped(&headline, 82);
    let head = 66.0 + 26.0 * lines.len() as f64;
    let (body, height) = body(recording, &story);
    let verdict = headline::verdict(&story, recording).map(|(_, text)| text);
    let scenario = recording.context.scenario.as_deref().map(data);
    let subtitle: Vec<String> = scenario
        .into_iter()
        .chain(verdict)
        .chain([span(story.duration_ms), many(story.writes_total, "write")])
        .collect();
    let title = escape(&headline);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {total}\" width=\"{WIDTH}\" height=\"{total}\" \
         role=\"img\" aria-label=\"{title}\"><title>{title}</title><style>svg{{{light}}}\
         @media (prefers-color-scheme:dark){{svg{{{dark}}}}}{STYLE}</style><defs>{patterns}</defs>\
         <rect width=\"{WIDTH}\" height=\"{total}\" fill=\"var(--panel)\"/>\
         {head_lines}<text class=\"sub\" x=\"20\" y=\"{}\">{subtitle}</text>\
         <g transform=\"translate(0 {head})\">{body}</g></svg>\n",
        number(head - 30.0),
        total = number(height + head + 12.0),
        light = palette::declarations(false),
        dark = palette::declarations(true),
        patterns = patterns(),
        subtitle = subtitle.join(" · "),
        head_lines = lines
            .iter()
            .enumerate()
            .map(|(at, line)| {
                format!(
                    "<text class=\"head\" x=\"20\" y=\"{}\">{}</text>",
                    number(38.0 + 26.0 * at as f64),
                    escape(line)
                )
            })
            .collect::<String>(),
    )
}

/// The words of a text in lines of at most `chars_max` characters; a longer word has a line of its own.
fn wrapped(text: &str, chars_max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= chars_max => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The chart as a part of a page that has the colours, [`STYLE`] and the [`patterns`].
pub fn figure(recording: &Recording, story: &Story) -> String {
    let (body, height) = body(recording, story);
    format!("<svg viewBox=\"0 0 {WIDTH} {}\" aria-hidden=\"true\">{body}</svg>", number(height))
}

/// How the chart's texts and lines look.
pub const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:var(--ink)}.head{font-size:21px;font-weight:650}\
    .sub,.tick,.key{fill:var(--muted)}.tick,.key{font-size:11px}.grid{stroke:var(--line)}.name{font-weight:600}\
    .plate{fill:var(--panel);opacity:.9}.in{font-size:10.5px}.beside{paint-order:stroke;stroke:var(--panel);stroke-width:3px;stroke-linejoin:round}.wait{stroke:var(--client);stroke-width:2;fill:none}";

/// The patterns of all states, to be referred to as `#p-name`.
pub fn patterns() -> String {
    let mut svg = String::new();
    for state in State::ALL {
        let fill = palette::fill(state);
        if !fill.path().is_empty() {
            let _ = write!(
                svg,
                "<pattern id=\"p-{name}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path d=\"{}\" \
                 stroke=\"var(--{name})\" stroke-width=\"1.2\" fill=\"none\"/></pattern>",
                fill.path(),
                name = state.name(),
            );
        }
    }
    svg
}

/// The mark for a fate: what became of a write.
fn fate_mark(fate: Fate) -> (&'static str, &'static str) {
    match fate {
        Fate::Succeeded => ("✓", "good"),
        Fate::DeadLetter => ("✗ dead letter", "bad"),
        Fate::Failed => ("✗", "bad"),
        Fate::HungUp => ("✗ hung up", "bad"),
        Fate::UnderWay => ("…", "muted"),
        Fate::Unseen => ("", "muted"),
    }
}

/// Maps times to the plot.
#[derive(Clone, Copy)]
struct Scale {
    duration_ms: f64,
}

impl Scale {
    fn x(self, at_ms: u64) -> f64 {
        NAMES + PLOT * at_ms as f64 / self.duration_ms
    }
}

/// A row of the chart.
enum Row {
    Write(usize),
    Execution(usize, usize),
    Send(usize, usize),
}

/// The rows, and how many there would be.
fn rows(story: &Story) -> (Vec<Row>, usize) {
    let full: usize = story.writes.iter().map(|write| write.executions.len() + write.sends.len() + 1).sum();
    if full > ROWS_MAX && story.writes.len() > 1 {
        // Those that are worth looking at, in the order in which they began.
        let mut worst: Vec<usize> = (0..story.writes.len()).collect();
        worst.sort_by_key(|at| {
            let measured = &story.writes[*at].measured;
            std::cmp::Reverse((measured.overlapping_copies_max, measured.copies, measured.sends))
        });
        worst.truncate(WRITE_ROWS_MAX);
        worst.sort_unstable();
        return (worst.into_iter().map(Row::Write).collect(), story.writes.len());
    }
    let mut rows = Vec::new();
    for (number, write) in story.writes.iter().enumerate() {
        if story.writes.len() > 1 {
            rows.push(Row::Write(number));
        }
        let of = |execution: Option<usize>| {
            let sends = write.sends.iter().enumerate().filter(move |(_, send)| send.execution == execution);
            sends.map(move |(at, _)| Row::Send(number, at))
        };
        for execution in 0..write.executions.len() {
            rows.push(Row::Execution(number, execution));
            rows.extend(of(Some(execution)));
        }
        rows.extend(of(None));
    }
    let all = rows.len();
    rows.truncate(ROWS_MAX);
    (rows, all)
}

/// The chart and its height.
fn body(recording: &Recording, story: &Story) -> (String, f64) {
    let scale = Scale { duration_ms: story.duration_ms.max(1) as f64 };
    let mut svg = String::new();
    let (rows, rows_all) = rows(story);
    let is_glance = rows_all > rows.len() && matches!(rows.first(), Some(Row::Write(_)));
    let glance_top = TOP + CHART + 22.0;
    let rows_top = if is_glance { glance_top + GLANCE + 22.0 } else { glance_top };
    let bottom = rows_top + ROW * rows.len() as f64;
    axis(&mut svg, scale, story.duration_ms, bottom);
    over_time(&mut svg, scale, story, recording.context.tickets);
    let most = story.copies_of_one_max.max(1);
    if is_glance {
        glance(&mut svg, scale, story, most, glance_top);
    }
    for (at, row) in rows.iter().enumerate() {
        let y = rows_top + ROW * at as f64;
        match row {
            Row::Write(write) => write_row(&mut svg, scale, &story.writes[*write], most, y),
            Row::Execution(write, at) => execution_row(&mut svg, scale, story, &story.writes[*write], *at, y),
            Row::Send(write, at) => {
                send_row(&mut svg, scale, &story.writes[*write].sends[*at], story.duration_ms, y);
            }
        }
    }
    let mut y = bottom + 20.0;
    if rows_all > rows.len() {
        let (shown, all) = (grouped(rows.len() as u64), grouped(rows_all as u64));
        let says = match is_glance {
            true => format!("{shown} of {all} writes: those with the most copies at the same time"),
            false => format!("the first {shown} of {all} rows"),
        };
        let _ = write!(svg, "<text class=\"sub\" x=\"{NAMES}\" y=\"{y}\">{says}</text>");
        y += 20.0;
    }
    legend(&mut svg, story, &mut y);
    (svg, y)
}

/// Steps between the lines of an axis of time.
const STEPS_MS: [u64; 24] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    1_800_000, 3_600_000, 10_800_000, 43_200_000, 86_400_000,
];

fn step_ms(duration_ms: u64) -> u64 {
    let wanted = duration_ms / 9;
    STEPS_MS.into_iter().find(|step| *step >= wanted).unwrap_or_else(|| wanted.div_ceil(86_400_000) * 86_400_000).max(1)
}

fn tick(at_ms: u64, step: u64) -> String {
    match step {
        0..1_000 => format!("{} s", at_ms as f64 / 1_000.0),
        1_000..60_000 => format!("{} s", grouped(at_ms / 1_000)),
        60_000..3_600_000 => format!("{} min", grouped(at_ms / 60_000)),
        _ => format!("{} h", grouped(at_ms / 3_600_000)),
    }
}

fn axis(svg: &mut String, scale: Scale, duration_ms: u64, bottom: f64) {
    let step = step_ms(duration_ms);
    for at_ms in (0..=duration_ms).step_by(step as usize) {
        let x = number(scale.x(at_ms));
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{x} {}V{}\"/><text class=\"tick\" x=\"{x}\" y=\"14\" text-anchor=\"middle\">{}</text>",
            TOP - 4.0,
            number(bottom),
            tick(at_ms, step)
        );
    }
}

/// The path of one series as steps, from the left end to the right.
fn steps(level: &Level<SERIES>, series: usize, scale: Scale, duration_ms: u64, y: impl Fn(u64) -> f64) -> String {
    let mut path = format!("M{} {}", number(scale.x(0)), number(y(0)));
    for (at, point) in level.points.iter().enumerate() {
        let _ = write!(path, "H{}V{}", number(scale.x(point.at_ms)), number(y(point.max[series])));
        let next_ms = level.points.get(at + 1).map_or(duration_ms, |next| next.at_ms);
        if point.last[series] != point.max[series] {
            let until_ms = (point.at_ms + level.width_ms).min(next_ms);
            let _ = write!(path, "H{}V{}", number(scale.x(until_ms)), number(y(point.last[series])));
        }
    }
    let _ = write!(path, "H{}", number(scale.x(duration_ms)));
    path
}

fn over_time(svg: &mut String, scale: Scale, story: &Story, tickets: Option<u64>) {
    let [_, sends, ..] = story.over_time.max();
    // A limit that is far above or below everything else would be a line at the edge.
    let tickets = tickets.filter(|tickets| *tickets <= sends.max(4) * 3 && *tickets * 12 >= sends);
    let top = sends.max(tickets.unwrap_or(0)).max(1);
    let base = TOP + CHART;
    let y = |number: u64| base - CHART * number as f64 / top as f64;
    let level = story.over_time.fitted(800);
    let (left, right) = (number(NAMES), number(NAMES + PLOT));
    for (label, at) in [(grouped(top), top), ("0".to_owned(), 0)] {
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{label}</text>",
            number(NAMES - 8.0),
            number(y(at) + 4.0)
        );
    }
    let path = |series| steps(&level, series, scale, story.duration_ms, y);
    let closed = |series| format!("{}V{base}H{left}Z", path(series));
    let _ = write!(
        svg,
        "<path d=\"{}\" fill=\"var(--client)\" opacity=\".16\"/><path d=\"{}\" fill=\"none\" stroke=\"var(--client)\"/>\
         <path d=\"{}\" fill=\"var(--running)\" opacity=\".42\"/>\
         <path d=\"{}\" fill=\"none\" stroke=\"var(--running)\" stroke-width=\"1.8\"/>",
        closed(1),
        path(1),
        closed(0),
        path(0),
    );
    let [.., session, ticket] = story.over_time.max();
    for (series, most, colour, dash) in [(2, session, "session", "4 3"), (3, ticket, "ticket", "2 2")] {
        if most > 0 {
            let _ = write!(
                svg,
                "<path d=\"{}\" fill=\"none\" stroke=\"var(--{colour})\" stroke-width=\"1.6\" stroke-dasharray=\"{dash}\"/>",
                path(series)
            );
        }
    }
    if let Some(tickets) = tickets {
        let at = number(y(tickets));
        let _ = write!(
            svg,
            "<path d=\"M{left} {at}H{right}\" stroke=\"var(--ticket)\" stroke-dasharray=\"8 4\"/>\
             <text class=\"tick beside\" x=\"{}\" y=\"{}\">{}</text>",
            number(NAMES + 4.0),
            number(y(tickets) - 4.0),
            many(tickets, "ticket")
        );
    }
    let _ = write!(
        svg,
        "<path d=\"M{left} {base}H{right}\" stroke=\"var(--edge)\"/><text class=\"name\" x=\"20\" y=\"{}\">over time</text>",
        number(TOP + 14.0)
    );
    let mut lost = String::new();
    for at_ms in &story.losses_ms {
        let _ = write!(lost, "M{} {}l-5 -8h10z", number(scale.x(*at_ms)), number(TOP + 6.0));
    }
    if !lost.is_empty() {
        let _ = write!(svg, "<path d=\"{lost}\" fill=\"var(--bad)\"/>");
    }
    let keys = [
        ("running", "copies that run"),
        ("client", "sends at the server"),
        ("session", "waiting for a session"),
        ("ticket", "waiting for a ticket"),
        ("bad", "partitions lost"),
    ];
    let shown = keys.iter().zip([true, true, session > 0, ticket > 0, !lost.is_empty()]).filter(|(_, shown)| *shown);
    for (at, ((colour, label), _)) in shown.enumerate() {
        let y = TOP + 32.0 + 16.0 * at as f64;
        let _ = write!(
            svg,
            "<rect x=\"20\" y=\"{}\" width=\"10\" height=\"10\" rx=\"2\" fill=\"var(--{colour})\"/>\
             <text class=\"key\" x=\"36\" y=\"{}\">{label}</text>",
            number(y - 9.0),
            number(y)
        );
    }
}

/// The height of all writes at a glance, and the width of one of its cells.
const GLANCE: f64 = 120.0;
const CELL: f64 = 2.0;

/// Every write at a glance: a line for each, or for several, darker where more copies of one write ran.
fn glance(svg: &mut String, scale: Scale, story: &Story, most: u64, top: f64) {
    let columns = (PLOT / CELL) as usize;
    let lines = story.writes.len().clamp(1, GLANCE as usize);
    let mut cells = vec![0_u64; columns * lines];
    let column = |at_ms: u64| (((scale.x(at_ms) - NAMES) / CELL) as usize).min(columns - 1);
    for (number, write) in story.writes.iter().enumerate() {
        let row = number * lines / story.writes.len() * columns;
        let points = write.running.points();
        for (at, point) in points.iter().enumerate() {
            let until_ms = points.get(at + 1).map_or(write.ended_ms, |next| next.at_ms);
            let (from, to) = (column(point.at_ms), column(until_ms));
            cells[row + from] = cells[row + from].max(point.max[0]);
            for cell in &mut cells[row + from..=row + to.max(from)] {
                *cell = (*cell).max(point.last[0]);
            }
        }
    }
    let height = GLANCE / lines as f64;
    let _ = write!(
        svg,
        "<text class=\"name\" x=\"20\" y=\"{}\">all writes</text><text class=\"key\" x=\"20\" y=\"{}\">darker: more \
         copies of one</text><g fill=\"var(--running)\">",
        number(top + 12.0),
        number(top + 28.0),
    );
    for (line, cells) in cells.chunks(columns).enumerate() {
        let mut from = 0;
        for run in cells.chunk_by(|one, next| one == next) {
            if run[0] > 0 {
                let _ = write!(
                    svg,
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill-opacity=\"{:.2}\"/>",
                    number(NAMES + from as f64 * CELL),
                    number(top + line as f64 * height),
                    number(run.len() as f64 * CELL),
                    number(height),
                    0.16 + 0.84 * run[0] as f64 / most as f64,
                );
            }
            from += run.len();
        }
    }
    svg.push_str("</g>");
}

fn name(svg: &mut String, text: &str, indent: f64, y: f64, class: &str) {
    let _ = write!(
        svg,
        "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>",
        number(20.0 + indent),
        number(y + 17.0),
        data(text)
    );
}

fn write_row(svg: &mut String, scale: Scale, write: &WriteStory, most: u64, y: f64) {
    name(svg, &write.label, 0.0, y, "name");
    let from = write.executions.first().map_or(write.began_ms, |one| one.began_ms);
    let client_ends = write.executions.iter().filter_map(|one| one.ended_ms.or(one.hung_up_ms)).max();
    if let Some(to) = client_ends {
        let _ = write!(
            svg,
            "<path class=\"wait\" d=\"M{} {}H{}\"/>",
            number(scale.x(from)),
            number(y + 4.0),
            number(scale.x(to))
        );
    }
    let base = y + 23.0;
    let height = |copies: u64| base - 10.0 * copies as f64 / most as f64;
    let mut path = format!("M{} {base}", number(scale.x(write.began_ms)));
    for point in &write.running.fitted(200).points {
        let _ = write!(path, "H{}V{}", number(scale.x(point.at_ms)), number(height(point.max[0].max(point.last[0]))));
        if point.last[0] < point.max[0] {
            let _ = write!(path, "V{}", number(height(point.last[0])));
        }
    }
    let end = number(scale.x(write.ended_ms));
    let _ = write!(svg, "<path d=\"{path}H{end}V{base}Z\" fill=\"var(--running)\" opacity=\".8\"/>");
    let (mark, colour) = fate_mark(write.fate);
    if let Some(to) = client_ends {
        beside(svg, mark, (scale.x(from), scale.x(to)), y + 10.0, colour);
    }
}

fn execution_row(svg: &mut String, scale: Scale, story: &Story, write: &WriteStory, at: usize, y: f64) {
    let execution = &write.executions[at];
    let consumer = execution.consumer.map_or_else(String::new, |consumer| format!(", consumer {consumer}"));
    name(svg, &format!("execution {}{consumer}", execution.number), 0.0, y, "name");
    let to_ms = execution.ended_ms.or(execution.hung_up_ms).unwrap_or(story.duration_ms);
    let (from, to) = (scale.x(execution.began_ms), scale.x(to_ms));
    let _ = write!(
        svg,
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"10\" rx=\"3\" fill=\"var(--client)\" fill-opacity=\".28\" \
         stroke=\"var(--client)\"/>",
        number(from),
        number(y + 8.0),
        number((to - from).max(1.5)),
    );
    if let Some((from_ms, wait_ms)) = execution.back_off.filter(|(_, wait_ms)| *wait_ms > 0) {
        let until = scale.x(from_ms.saturating_add(wait_ms).min(story.duration_ms));
        let _ = write!(
            svg,
            "<path d=\"M{} {y}H{}\" stroke=\"var(--client)\" stroke-dasharray=\"2 3\"/>",
            number(to),
            number(until),
            y = number(y + 13.0)
        );
    }
    let end = match execution {
        _ if execution.dead_letter_ms.is_some() => Some(("✗ dead letter", "bad")),
        _ if execution.hung_up_ms.is_some() => Some(("✗ the client hung up", "bad")),
        _ if execution.error.is_some() => Some(("✗", "bad")),
        _ if execution.ended_ms.is_some() => Some(("✓", "good")),
        _ => None,
    };
    if let Some((text, colour)) = end {
        beside(svg, text, (from, to), y + 17.0, colour);
    }
}

/// A text after the end of a shape, or before its start where there is no room.
fn beside(svg: &mut String, text: &str, (from, to): (f64, f64), y: f64, colour: &str) {
    let width = 7.0 * text.chars().count() as f64;
    let (x, anchor) = match to + width > WIDTH - 4.0 {
        false => (to + 5.0, "start"),
        true if from - width > NAMES => (from - 5.0, "end"),
        true => (WIDTH - 4.0, "end"),
    };
    let _ = write!(
        svg,
        "<text class=\"beside\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" style=\"fill:var(--{colour})\">{text}</text>",
        number(x),
        number(y)
    );
}

fn send_row(svg: &mut String, scale: Scale, send: &SendStory, duration_ms: u64, y: f64) {
    name(svg, &format!("{} ({})", send.name(), send.identity), 12.0, y, "sub");
    let top = y + 9.0;
    if let Some(server) = &send.server {
        let ends_ms = server.end.as_ref().map_or(duration_ms, |end| end.at_ms);
        let mut longest: Option<(f64, f64, State, u64)> = None;
        for (at, segment) in server.segments.iter().enumerate() {
            let to_ms = server.segments.get(at + 1).map_or(ends_ms, |next| next.from_ms);
            let (from, to) = (scale.x(segment.from_ms), scale.x(to_ms));
            bar(svg, segment.state, from, top, (to - from).max(1.5), send.kind == SendKind::Read);
            if longest.is_none_or(|(from, to, ..)| to - from < scale.x(to_ms) - scale.x(segment.from_ms)) {
                longest = Some((from, to, segment.state, to_ms.saturating_sub(segment.from_ms)));
            }
        }
        if let Some((from, to, state, lasts_ms)) = longest {
            let text = format!("{} {}", state.label(), span(lasts_ms));
            let width = 5.7 * text.chars().count() as f64 + 8.0;
            if width < to - from - 6.0 {
                let _ = write!(
                    svg,
                    "<rect class=\"plate\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"11\" rx=\"2\"/>\
                     <text class=\"in\" x=\"{}\" y=\"{}\">{text}</text>",
                    number(from + 5.0),
                    number(top + 1.5),
                    number(width),
                    number(from + 9.0),
                    number(top + 10.5),
                );
            }
        }
        if let Some(end) = server.end.as_ref().filter(|end| end.outcome != Outcome::Ok) {
            let ends = (scale.x(server.arrived_ms), scale.x(end.at_ms));
            beside(svg, &data(&end.label()), ends, y + 20.0, "bad");
        }
        for mark in &server.marks {
            let x = scale.x(mark.at_ms);
            let fill = if mark.is_replay { "var(--panel)" } else { "var(--ink)" };
            let _ = write!(
                svg,
                "<path d=\"M{x} {}l4 4-4 4-4-4z\" fill=\"{fill}\" stroke=\"var(--ink)\"/>",
                number(top + 3.0),
                x = number(x)
            );
        }
    }
    if let Some(client) = &send.client {
        let line = y + 5.0;
        let ends_ms = client.end.as_ref().map_or(duration_ms, |(at_ms, _)| *at_ms);
        let (from, to) = (scale.x(client.sent_ms), scale.x(ends_ms));
        let _ = write!(svg, "<path class=\"wait\" d=\"M{} {}v-3 3H{}\"/>", number(from), number(line), number(to));
        let cross = |colour: &str| {
            format!(
                "<path d=\"M{} {}l6 6m0-6l-6 6\" stroke=\"var(--{colour})\" stroke-width=\"1.8\"/>",
                number(to - 3.0),
                number(line - 3.0)
            )
        };
        match client.end.as_ref().map(|(_, end)| end) {
            None => {}
            Some(ClientEnd::Reply) => {
                let _ =
                    write!(svg, "<circle cx=\"{}\" cy=\"{}\" r=\"3\" fill=\"var(--good)\"/>", number(to), number(line));
            }
            Some(ClientEnd::Failed(_) | ClientEnd::HungUp) => svg.push_str(&cross("bad")),
        }
    }
}

/// A part of a send's life at the server.
fn bar(svg: &mut String, state: State, x: f64, y: f64, width: f64, is_read: bool) {
    let name = state.name();
    let (x, y, width) = (number(x), number(y), number(width));
    let opacity = if palette::fill(state) == Fill::Solid && !is_read { ".85" } else { ".14" };
    let dash =
        if palette::fill(state) == Fill::Empty && state != State::Received { " stroke-dasharray=\"4 2\"" } else { "" };
    let _ = write!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"14\" fill=\"var(--{name})\" fill-opacity=\"{opacity}\" \
         stroke=\"var(--{name})\"{dash}/>"
    );
    if !palette::fill(state).path().is_empty() {
        let _ = write!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"14\" fill=\"url(#p-{name})\"/>");
    }
}

/// What shapes and marks mean: the states that occur, and the marks.
fn legend(svg: &mut String, story: &Story, y: &mut f64) {
    let mut occurs = [false; State::ALL.len()];
    for segment in story
        .writes
        .iter()
        .flat_map(|write| &write.sends)
        .filter_map(|send| send.server.as_ref())
        .flat_map(|server| &server.segments)
    {
        occurs[segment.state.number()] = true;
    }
    let mut x = 20.0;
    *y += 4.0;
    let mut place = |text: &str, svg: &mut String, y: &mut f64, shape: &dyn Fn(f64, f64, &mut String)| {
        let width = 34.0 + 6.4 * text.chars().count() as f64 + 14.0;
        if x + width > WIDTH {
            x = 20.0;
            *y += 20.0;
        }
        shape(x, *y, svg);
        let _ = write!(svg, "<text class=\"key\" x=\"{}\" y=\"{}\">{text}</text>", number(x + 32.0), number(*y + 11.0));
        x += width;
    };
    for state in State::ALL.into_iter().filter(|state| occurs[state.number()]) {
        place(state.label(), svg, y, &|x, y, svg| bar(svg, state, x, y, 24.0, false));
    }
    place("the client waits", svg, y, &|x, y, svg| {
        let _ = write!(svg, "<path class=\"wait\" d=\"M{} {}h24\"/>", number(x), number(y + 7.0));
    });
    place("the client gives up", svg, y, &|x, y, svg| {
        let _ = write!(
            svg,
            "<path d=\"M{} {}l6 6m0-6l-6 6\" stroke=\"var(--bad)\" stroke-width=\"1.8\"/>",
            number(x + 9.0),
            number(y + 4.0)
        );
    });
    place("commit", svg, y, &|x, y, svg| {
        let _ = write!(svg, "<path d=\"M{} {}l4 4-4 4-4-4z\" fill=\"var(--ink)\"/>", number(x + 12.0), number(y + 3.0));
    });
    place("answered from history", svg, y, &|x, y, svg| {
        let _ = write!(
            svg,
            "<path d=\"M{} {}l4 4-4 4-4-4z\" fill=\"var(--panel)\" stroke=\"var(--ink)\"/>",
            number(x + 12.0),
            number(y + 3.0)
        );
    });
    *y += 28.0;
}

/// A coordinate with at most one decimal.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible", 7), ["incomprehensible"]);
    }

    #[test]
    fn times_have_a_step_that_fits() {
        for (duration_ms, steps) in [(0, 1), (24_000, 5_000), (240_000, 30_000), (3_600_000, 600_000)] {
            assert_eq!(step_ms(duration_ms), steps);
        }
        assert!(u64::MAX / step_ms(u64::MAX) <= 10);
    }

    #[test]
    fn many_writes_are_drawn_at_a_glance_and_the_worst_of_them_one_by_one() {
        let svg = render(&sample::many_writes(400, 200));
        assert!(svg.contains("25 of 400 writes"), "{svg}");
        assert!(svg.contains("all writes") && svg.len() < 400_000, "{}", svg.len());
        let few = render(&sample::many_writes(3, 200));
        assert!(!few.contains("all writes") && few.contains("resend of copy 1"));
    }
}
