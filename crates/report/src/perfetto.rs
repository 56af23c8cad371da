//! `--format perfetto`: a trace that <https://ui.perfetto.dev> opens, in the Trace Event Format (JSON).
//!
//! A logical write is a process. Its executions are threads, with the client's waits for replies inside them; so are its operations
//! at the server, with what each was doing inside. An arrow leads from a send to the operation that it became. Copies, sends and
//! waits over time are counters. The format: *Trace Event Format*, Google, 2016 (times are in microseconds).

use serde_json::{Value, json};

use crate::headline;
use crate::input::Recording;
use crate::story::Story;
use crate::story::write::{ClientEnd, SendStory, WriteStory};
use crate::text::clean;

/// The process of the counters.
const COUNTERS: usize = 1;
/// The process of the first write.
const FIRST_WRITE: usize = 2;
/// The thread of the first operation; executions have the ones below.
const FIRST_OPERATION: usize = 100_000;
/// The most points over time.
const POINTS_MAX: usize = 20_000;

/// The recording as a trace.
pub fn render(recording: &Recording) -> String {
    let story = Story::of(recording);
    let mut trace = Trace::default();
    trace.name(COUNTERS, None, "over time", 0);
    counters(&mut trace, &story);
    for (number, write) in story.writes.iter().enumerate() {
        trace.name(FIRST_WRITE + number, None, &write.label, number + 1);
        of_write(&mut trace, write, FIRST_WRITE + number, story.duration_ms);
    }
    let document = json!({
        "displayTimeUnit": "ms",
        "otherData": {
            "headline": headline::headline(&story),
            "scenario": recording.context.scenario.as_deref().map(clean),
            "notes": crate::page::notes(&story, recording),
        },
        "traceEvents": trace.events,
    });
    document.to_string() + "\n"
}

#[derive(Default)]
struct Trace {
    events: Vec<Value>,
    arrows: u64,
}

impl Trace {
    /// Names a process or a thread, and gives its place among its like.
    fn name(&mut self, pid: usize, tid: Option<usize>, name: &str, place: usize) {
        let (kind, tid) = tid.map_or(("process", 0), |tid| ("thread", tid));
        let name = clean(name);
        self.events
            .push(json!({"ph": "M", "pid": pid, "tid": tid, "name": format!("{kind}_name"), "args": {"name": name}}));
        let sort = json!({ "sort_index": place });
        self.events
            .push(json!({"ph": "M", "pid": pid, "tid": tid, "name": format!("{kind}_sort_index"), "args": sort}));
    }

    fn slice(&mut self, place: (usize, usize), name: &str, times_ms: (u64, u64), args: Value) {
        let (from_ms, to_ms) = times_ms;
        self.events.push(json!({
            "ph": "X", "pid": place.0, "tid": place.1, "name": clean(name), "cat": "backfire",
            "ts": from_ms * 1_000, "dur": to_ms.saturating_sub(from_ms) * 1_000, "args": args,
        }));
    }

    fn instant(&mut self, place: (usize, usize), name: &str, at_ms: u64, args: Value) {
        self.events.push(json!({
            "ph": "i", "s": "t", "pid": place.0, "tid": place.1, "name": clean(name), "cat": "backfire", "ts": at_ms * 1_000,
            "args": args,
        }));
    }

    fn arrow(&mut self, from: (usize, usize), from_ms: u64, to: (usize, usize), to_ms: u64) {
        self.arrows += 1;
        let end = |ph: &str, place: (usize, usize), at_ms: u64| {
            json!({
                "ph": ph, "bp": "e", "id": self.arrows, "name": "send", "cat": "send", "pid": place.0, "tid": place.1,
                "ts": at_ms * 1_000,
            })
        };
        let (start, finish) = (end("s", from, from_ms), end("f", to, to_ms));
        self.events.extend([start, finish]);
    }
}

fn counters(trace: &mut Trace, story: &Story) {
    let names = ["copies that run", "sends at the server", "waiting for a session", "waiting for a ticket"];
    let mut count = |at_ms: u64, numbers: [u64; 4]| {
        for (name, number) in names.iter().zip(numbers) {
            trace.events.push(json!({
                "ph": "C", "pid": COUNTERS, "tid": 0, "name": name, "ts": at_ms * 1_000, "args": { "number": number },
            }));
        }
    };
    for point in &story.over_time.fitted(POINTS_MAX).points {
        count(point.at_ms, point.max);
        if point.last != point.max {
            count(point.at_ms, point.last);
        }
    }
}

fn of_write(trace: &mut Trace, write: &WriteStory, pid: usize, ends_ms: u64) {
    for (at, execution) in write.executions.iter().enumerate() {
        let place = (pid, at + 1);
        let consumer = execution.consumer.map_or_else(String::new, |consumer| format!(", consumer {consumer}"));
        let name = format!("execution {}{consumer}", execution.number);
        trace.name(pid, Some(place.1), &name, place.1);
        let to_ms = execution.ended_ms.or(execution.hung_up_ms).unwrap_or(ends_ms);
        let error = execution.error.as_deref().map(clean);
        trace.slice(place, &name, (execution.began_ms, to_ms), json!({ "error": error }));
        if let Some((from_ms, wait_ms)) = execution.back_off.filter(|(_, wait_ms)| *wait_ms > 0) {
            trace.slice(
                place,
                "back-off",
                (from_ms, from_ms.saturating_add(wait_ms).min(ends_ms)),
                json!({ "wait_ms": wait_ms }),
            );
        }
        let marks = [(execution.dead_letter_ms, "dead letter"), (execution.hung_up_ms, "the client hung up")];
        for (at_ms, what) in marks.into_iter().filter_map(|(at_ms, what)| Some((at_ms?, what))) {
            trace.instant(place, what, at_ms, json!({}));
        }
    }
    for (at, send) in write.sends.iter().enumerate() {
        of_send(trace, write, send, (pid, FIRST_OPERATION + at), ends_ms);
    }
}

fn of_send(trace: &mut Trace, write: &WriteStory, send: &SendStory, place: (usize, usize), ends_ms: u64) {
    let client = send.client.as_ref().map(|client| {
        let at = (place.0, send.execution.map_or(0, |at| at + 1));
        let end = client.end.as_ref();
        // A slice lies within the one that holds it, whatever the stream says.
        let execution = send.execution.and_then(|at| write.executions.get(at));
        let holds_ms = execution.map_or((0, ends_ms), |one| {
            (one.began_ms, one.ended_ms.or(one.hung_up_ms).unwrap_or(ends_ms).max(one.began_ms))
        });
        let within = |at_ms: u64| at_ms.clamp(holds_ms.0, holds_ms.1);
        let times_ms = (within(client.sent_ms), within(end.map_or(ends_ms, |(at_ms, _)| *at_ms)));
        let name =
            format!("{} {} ({})", if client.attempt > 1 { "resends" } else { "sends" }, send.command, send.identity);
        let args = json!({ "attempt": client.attempt, "end": end.map(|(_, end)| clean(&ClientEnd::label(end))) });
        trace.slice(at, &name, times_ms, args);
        (at, times_ms.0)
    });
    let Some(server) = &send.server else { return };
    trace.name(place.0, Some(place.1), &format!("server: {}", send.name()), place.1);
    let server_ends_ms = server.end.as_ref().map_or(ends_ms, |end| end.at_ms);
    let args = json!({
        "op": server.op, "connection": server.connection, "lsid": send.write.lsid, "txnNumber": send.write.txn_number,
        "app_name": server.app_name.as_deref().map(clean), "end": server.end.as_ref().map(|end| clean(&end.label())),
        "client_there": server.end.as_ref().map(|end| end.client_there),
    });
    trace.slice(place, &send.name(), (server.arrived_ms, server_ends_ms), args);
    for (at, segment) in server.segments.iter().enumerate() {
        let to_ms = server.segments.get(at + 1).map_or(server_ends_ms, |next| next.from_ms);
        trace.slice(place, segment.state.label(), (segment.from_ms, to_ms), json!({}));
    }
    for mark in &server.marks {
        let what = if mark.is_replay { "answered from the retry history" } else { "commit" };
        trace.instant(place, what, mark.at_ms, json!({ "count": mark.count }));
    }
    if let Some((at, sent_ms)) = client {
        trace.arrow(at, sent_ms, place, server.arrived_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::collections::BTreeMap;

    fn events(recording: &Recording) -> Vec<Value> {
        let trace: Value = serde_json::from_str(&render(recording)).unwrap();
        trace["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn every_operation_is_a_slice_and_every_send_an_arrow() {
        let recording = sample::many_writes(10, 200);
        let (story, events) = (Story::of(&recording), events(&recording));
        let count = |ph: &str| events.iter().filter(|event| event["ph"] == ph).count() as u64;
        assert_eq!((count("s"), count("f")), (story.measured.sends, story.measured.sends));
        let top = |prefix: &str| {
            events
                .iter()
                .filter(|event| event["ph"] == "X" && event["name"].as_str().unwrap().starts_with(prefix))
                .count()
        };
        assert_eq!(top("execution ") as u64, story.measured.executions);
        assert_eq!((top("copy ") + top("resend of copy ")) as u64, story.measured.sends);
        assert_eq!(count("C") % 4, 0);
    }

    /// Slices of one thread must lie within or beside each other: the viewer drops what overlaps.
    #[test]
    fn slices_of_a_thread_nest() {
        let mut threads: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
        for event in events(&sample::many_writes(10, 200)).iter().filter(|event| event["ph"] == "X") {
            let number = |key: &str| event[key].as_u64().unwrap();
            let slice = (number("ts"), number("ts") + number("dur"));
            threads.entry((number("pid"), number("tid"))).or_default().push(slice);
        }
        assert!(threads.len() > 20);
        for slices in threads.values() {
            for one in slices {
                for other in slices {
                    let crosses = one.0 < other.0 && other.0 < one.1 && one.1 < other.1;
                    assert!(!crosses, "{one:?} {other:?}");
                }
            }
        }
    }
}
