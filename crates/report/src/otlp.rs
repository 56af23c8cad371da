//! `--format otlp`: OpenTelemetry spans in the JSON encoding of OTLP (<https://opentelemetry.io/docs/specs/otlp/>, *JSON Protobuf
//! Encoding*), as the file exporter of a collector writes it: one object with `resourceSpans`.
//!
//! A logical write is a trace. Its root span is the write; below it are executions, below these the client's sends, below these the
//! operations at the server with a child span for each wait. A resend links to the first send of its copy. Ids are made from the
//! place in the stream, so the same stream gives the same spans.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::input::Recording;
use crate::story::Story;
use crate::story::state::State;
use crate::story::write::{ClientEnd, Fate, SendKind, SendStory, WriteStory};
use crate::text::clean;
use backfire_model::event::Outcome;

/// Kinds of spans, as the protocol numbers them.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
const CONSUMER: u8 = 5;

/// The recording as spans.
pub fn render(recording: &Recording) -> String {
    let story = Story::of(recording);
    let context = &recording.context;
    let scenario = context.scenario.as_deref().map_or_else(|| "recording".to_owned(), clean);
    let mut spans = Spans {
        began_ms: context.began_at_unix_ms.unwrap_or(0),
        ends_ms: story.duration_ms,
        client: Vec::new(),
        server: Vec::new(),
    };
    for (number, write) in story.writes.iter().enumerate() {
        spans.write(write, number);
    }
    let of = |service: &str, spans: Vec<Value>| {
        json!({
            "resource": {"attributes": [attribute("service.name", service), attribute("backfire.scenario", &*scenario)]},
            "scopeSpans": [{"scope": {"name": "backfire"}, "spans": spans}],
        })
    };
    let document = json!({ "resourceSpans": [of("application", spans.client), of("mongod", spans.server)] });
    document.to_string() + "\n"
}

struct Spans {
    began_ms: u64,
    ends_ms: u64,
    client: Vec<Value>,
    server: Vec<Value>,
}

/// A span that is put together.
struct Span<'a> {
    trace: &'a str,
    id: &'a str,
    parent: Option<&'a str>,
    name: &'a str,
    kind: u8,
    /// From and to.
    times_ms: (u64, u64),
    attributes: Vec<Value>,
    /// What it failed with.
    error: Option<String>,
}

impl Spans {
    fn time(&self, at_ms: u64) -> String {
        // 64-bit numbers are texts in this encoding.
        (u128::from(self.began_ms.saturating_add(at_ms)) * 1_000_000).min(u128::from(u64::MAX)).to_string()
    }

    fn span(&self, span: Span) -> Value {
        let status = match span.error {
            None => json!({ "code": 0 }),
            Some(message) => json!({ "code": 2, "message": message }),
        };
        let mut value = json!({
            "traceId": span.trace, "spanId": span.id, "name": span.name, "kind": span.kind,
            "startTimeUnixNano": self.time(span.times_ms.0), "endTimeUnixNano": self.time(span.times_ms.1),
            "attributes": span.attributes, "status": status,
        });
        if let Some(parent) = span.parent {
            value["parentSpanId"] = json!(parent);
        }
        value
    }

    fn write(&mut self, write: &WriteStory, number: usize) {
        let trace = format!("{:016x}{:016x}", mixed(1, number as u64), mixed(2, number as u64));
        let id = |kind: u64, at: usize| format!("{:016x}", mixed(kind, ((number as u64) << 24) + at as u64));
        let root = id(3, 0);
        let m = &write.measured;
        let numbers = [("executions", m.executions), ("sends", m.sends), ("resends", m.resends), ("copies", m.copies)];
        let mut attributes: Vec<Value> =
            numbers.into_iter().map(|(name, number)| attribute(&format!("backfire.{name}"), number)).collect();
        attributes.push(attribute("backfire.overlapping_copies_max", m.overlapping_copies_max));
        attributes.push(attribute("backfire.fate", write.fate.label()));
        let is_bad = matches!(write.fate, Fate::Failed | Fate::DeadLetter | Fate::HungUp);
        let span = Span {
            trace: &trace,
            id: &root,
            parent: None,
            name: &clean(&write.label),
            kind: CONSUMER,
            times_ms: (write.began_ms, write.ended_ms),
            attributes,
            error: is_bad.then(|| write.fate.label().to_owned()),
        };
        let span = self.span(span);
        self.client.push(span);
        let executions: Vec<String> = (0..write.executions.len()).map(|at| id(4, at)).collect();
        for (execution, own) in write.executions.iter().zip(&executions) {
            let to_ms = execution.ended_ms.or(execution.hung_up_ms).unwrap_or(self.ends_ms);
            let error = execution.error.as_deref().map(clean);
            let hung_up = execution.hung_up_ms.map(|_| "the client hung up".to_owned());
            let span = Span {
                trace: &trace,
                id: own,
                parent: Some(&root),
                name: &format!("execution {}", execution.number),
                kind: INTERNAL,
                times_ms: (execution.began_ms, to_ms),
                attributes: [
                    ("backfire.execution", Some(execution.number)),
                    ("backfire.consumer", execution.consumer.map(|one| one.0)),
                ]
                .into_iter()
                .filter_map(|(name, number)| Some(attribute(name, u64::from(number?))))
                .collect(),
                error: error.or(hung_up),
            };
            let span = self.span(span);
            self.client.push(span);
        }
        // Of each copy, the span that stands for its first send.
        let mut firsts: BTreeMap<u32, String> = BTreeMap::new();
        for (at, send) in write.sends.iter().enumerate() {
            let parent = send.execution.and_then(|at| executions.get(at)).unwrap_or(&root);
            let (client, server) = (id(5, at), id(6, at));
            let own = if send.client.is_some() { &client } else { &server };
            let link = match (send.kind, send.copy) {
                (SendKind::Resend, Some(copy)) => firsts.get(&copy).cloned(),
                (_, Some(copy)) => {
                    firsts.entry(copy).or_insert_with(|| own.clone());
                    None
                }
                _ => None,
            };
            let links = link.map_or_else(|| json!([]), |link| json!([{ "traceId": trace, "spanId": link }]));
            if let Some(mut span) = self.of_client(send, &trace, &client, parent) {
                span["links"] = links.clone();
                self.client.push(span);
            }
            let parent = if send.client.is_some() { &client } else { parent };
            let waits: Vec<String> = (0..state_count(send)).map(|wait| id(7, at * 128 + wait)).collect();
            self.of_server(send, &trace, (&server, parent), &waits, links);
        }
    }

    fn of_client(&self, send: &SendStory, trace: &str, id: &str, parent: &str) -> Option<Value> {
        let client = send.client.as_ref()?;
        let end = client.end.as_ref();
        let error = end.filter(|(_, end)| *end != ClientEnd::Reply).map(|(_, end)| clean(&end.label()));
        Some(
            self.span(Span {
                trace,
                id,
                parent: Some(parent),
                name: &clean(&send.command),
                kind: CLIENT,
                times_ms: (client.sent_ms, end.map_or(self.ends_ms, |(at_ms, _)| *at_ms)),
                attributes: of_command(send)
                    .into_iter()
                    .chain([attribute("backfire.attempt", u64::from(client.attempt))])
                    .collect(),
                error,
            }),
        )
    }

    fn of_server(&mut self, send: &SendStory, trace: &str, (id, parent): (&str, &str), waits: &[String], links: Value) {
        let Some(server) = &send.server else { return };
        let ends_ms = server.end.as_ref().map_or(self.ends_ms, |end| end.at_ms);
        let mut attributes = of_command(send);
        attributes.push(attribute("backfire.op", server.op.0.to_string().as_str()));
        attributes.push(attribute("backfire.name", send.name().as_str()));
        if let Some(end) = &server.end {
            attributes.push(json!({ "key": "backfire.client_there", "value": { "boolValue": end.client_there } }));
        }
        let error = server.end.as_ref().filter(|end| end.outcome != Outcome::Ok).map(|end| clean(&end.label()));
        let mut span = self.span(Span {
            trace,
            id,
            parent: Some(parent),
            name: &clean(&send.command),
            kind: SERVER,
            times_ms: (server.arrived_ms, ends_ms),
            attributes,
            error,
        });
        span["links"] = links;
        let event = |mark: &crate::story::write::Mark| {
            let name = if mark.is_replay { "answered from the retry history" } else { "commit" };
            json!({ "timeUnixNano": self.time(mark.at_ms), "name": name, "attributes": [attribute("count", mark.count)] })
        };
        span["events"] = server.marks.iter().map(event).collect();
        let mut spans = vec![span];
        for ((at, segment), own) in server.segments.iter().enumerate().zip(waits) {
            let State::Waits(_) = segment.state else { continue };
            let to_ms = server.segments.get(at + 1).map_or(ends_ms, |next| next.from_ms);
            spans.push(self.span(Span {
                trace,
                id: own,
                parent: Some(id),
                name: segment.state.label(),
                kind: INTERNAL,
                times_ms: (segment.from_ms, to_ms),
                attributes: Vec::new(),
                error: None,
            }));
        }
        self.server.extend(spans);
    }
}

fn state_count(send: &SendStory) -> usize {
    send.server.as_ref().map_or(0, |server| server.segments.len())
}

fn of_command(send: &SendStory) -> Vec<Value> {
    let mut attributes =
        vec![attribute("db.system.name", "mongodb"), attribute("db.operation.name", clean(&send.command).as_str())];
    attributes.extend(send.write.lsid.map(|lsid| attribute("backfire.lsid", lsid.to_string().as_str())));
    attributes.extend(send.write.txn_number.map(|number| attribute("backfire.txn_number", number.0)));
    attributes
}

/// The value of an attribute.
enum Typed {
    Text(String),
    Number(i128),
}

impl From<&str> for Typed {
    fn from(text: &str) -> Self {
        Typed::Text(text.to_owned())
    }
}

impl From<u64> for Typed {
    fn from(number: u64) -> Self {
        Typed::Number(number.into())
    }
}

impl From<i64> for Typed {
    fn from(number: i64) -> Self {
        Typed::Number(number.into())
    }
}

fn attribute(key: &str, value: impl Into<Typed>) -> Value {
    let value = match value.into() {
        Typed::Text(text) => json!({ "stringValue": text }),
        Typed::Number(number) => json!({ "intValue": number.to_string() }),
    };
    json!({ "key": key, "value": value })
}

/// A number that looks random, is never 0 and is the same for the same input (SplitMix64).
fn mixed(kind: u64, number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(8).wrapping_add(kind).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn every_span_has_an_id_of_its_own_and_a_parent_that_is_there() {
        let recording = sample::many_writes(20, 200);
        let story = Story::of(&recording);
        let document: Value = serde_json::from_str(&render(&recording)).unwrap();
        let spans: Vec<&Value> = document["resourceSpans"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|resource| resource["scopeSpans"][0]["spans"].as_array().unwrap())
            .collect();
        let ids: BTreeSet<_> = spans.iter().map(|span| span["spanId"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), spans.len());
        for span in &spans {
            let (id, trace) = (span["spanId"].as_str().unwrap(), span["traceId"].as_str().unwrap());
            assert!(id.len() == 16 && trace.len() == 32, "{span}");
            let is_fine = span["parentSpanId"].as_str().is_none_or(|parent| ids.contains(parent));
            assert!(is_fine, "{span}");
            let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
            assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
        }
        let mut kinds: BTreeMap<u64, u64> = BTreeMap::new();
        for span in &spans {
            *kinds.entry(span["kind"].as_u64().unwrap()).or_default() += 1;
        }
        let m = &story.measured;
        assert_eq!((kinds[&5], kinds[&3], kinds[&2]), (story.writes_total, m.sends, m.sends));
        let links = spans.iter().filter(|span| span["links"].as_array().is_some_and(|links| !links.is_empty())).count();
        assert_eq!(links as u64, 2 * m.resends, "on both sides of each resend");
    }
}
