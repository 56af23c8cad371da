//! What the page's script draws, as compact JSON: arrays instead of objects, texts once, times relative to their write.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::story::state::State;
use crate::story::steps::{Level, Steps};
use crate::story::write::{Fate, SendKind, SendStory, ServerEnd, WriteStory};
use crate::story::{SERIES, Story};
use crate::text::clean;

/// The most points of the finest level of the numbers over time.
const POINTS_MAX: usize = 4_000;
/// The most points of the running copies of one write.
const WRITE_POINTS_MAX: usize = 48;

/// Everything that is drawn. `templates/page.js` reads it; the order of the fields in an array is the contract of the two.
#[derive(Debug, Serialize)]
pub struct Data {
    duration: u64,
    tickets: Option<u64>,
    /// When consumers lost their partitions.
    losses: Vec<u64>,
    /// The states by number: name and label.
    states: Vec<(&'static str, &'static str)>,
    /// The fates by number.
    fates: Vec<&'static str>,
    /// The texts that arrays refer to by their place.
    texts: Vec<String>,
    writes: Vec<Write>,
    levels: Vec<Points>,
}

/// Numbers over time: the width of a bin, and `[at, most…, after…]` per point.
#[derive(Debug, Serialize)]
struct Points(u64, Vec<Vec<u64>>);

/// `[label, began, ended, fate, most copies, counts, executions, sends, running]`; counts are executions, sends, resends, copies.
#[derive(Debug, Serialize)]
struct Write(String, u64, u64, usize, u64, [u64; 4], Vec<Execution>, Vec<Send>, Points);

/// `[number, consumer, began, ended, error, back-off began, back-off, dead letter, hung up]`; -1 is *never*. Times are relative to the write.
#[derive(Debug, Serialize)]
struct Execution(u32, i64, i64, i64, i64, i64, u64, i64, i64);

/// `[kind, execution, copy, is a copy, identity, command, client, server]`; `execution` is a place or -1, `copy` is 0 for none.
#[derive(Debug, Serialize)]
struct Send(u8, i64, u32, bool, usize, usize, Option<Client>, Option<Server>);

/// `[sent, ended, how]`; how is `r` for a reply, `e` for an error of the server, `t` for the rest; and its text.
#[derive(Debug, Serialize)]
struct Client(i64, i64, char, i64);

/// `[operation, connection, arrived, ended, is an error, text, was heard, segments, marks]`. Segments are `state, from` in turns,
/// marks `at, is an answer from the history, count`.
#[derive(Debug, Serialize)]
struct Server(i32, i64, i64, i64, bool, i64, bool, Vec<i64>, Vec<i64>);

/// Each text once.
#[derive(Debug, Default)]
struct Texts {
    all: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Texts {
    fn number(&mut self, text: &str) -> usize {
        let text = clean(text);
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        self.all.push(text.clone());
        self.numbers.insert(text, self.all.len() - 1);
        self.all.len() - 1
    }
}

/// The data of a story.
pub fn data(story: &Story, tickets: Option<u64>) -> Data {
    let mut texts = Texts::default();
    let writes = story.writes.iter().map(|one| write(one, &mut texts)).collect();
    Data {
        duration: story.duration_ms,
        tickets,
        losses: story.losses_ms.clone(),
        states: State::ALL.iter().map(|state| (state.name(), state.label())).collect(),
        fates: Fate::ALL.iter().map(|fate| fate.label()).collect(),
        texts: texts.all,
        writes,
        levels: story.over_time.levels(POINTS_MAX).iter().map(points::<SERIES>).collect(),
    }
}

fn points<const N: usize>(level: &Level<N>) -> Points {
    let point = |point: &crate::story::steps::Point<N>| {
        std::iter::once(point.at_ms).chain(point.max).chain(point.last).collect()
    };
    Points(level.width_ms, level.points.iter().map(point).collect())
}

fn running(steps: &Steps<1>, began_ms: u64) -> Points {
    let mut points = points(&steps.fitted(WRITE_POINTS_MAX));
    for point in &mut points.1 {
        if let Some(at) = point.first_mut() {
            *at = at.saturating_sub(began_ms);
        }
    }
    points
}

fn write(write: &WriteStory, texts: &mut Texts) -> Write {
    let began = write.began_ms;
    let m = &write.measured;
    let at = |at_ms: u64| at_ms as i64 - began as i64;
    let maybe = |at_ms: Option<u64>| at_ms.map_or(-1, at);
    let executions = write
        .executions
        .iter()
        .map(|one| {
            let error = one.error.as_deref().map_or(-1, |error| texts.number(error) as i64);
            let (waits_from, wait_ms) = one.back_off.map_or((-1, 0), |(from, wait_ms)| (at(from), wait_ms));
            let (dead, gone) = (maybe(one.dead_letter_ms), maybe(one.hung_up_ms));
            let consumer = one.consumer.map_or(-1, |consumer| i64::from(consumer.0));
            Execution(
                one.number,
                consumer,
                at(one.began_ms),
                maybe(one.ended_ms),
                error,
                waits_from,
                wait_ms,
                dead,
                gone,
            )
        })
        .collect();
    let sends = write.sends.iter().map(|one| send(one, began, texts)).collect();
    let counts = [m.executions, m.sends, m.resends, m.copies];
    Write(
        clean(&write.label),
        began,
        write.ended_ms,
        write.fate.number(),
        m.overlapping_copies_max,
        counts,
        executions,
        sends,
        running(&write.running, began),
    )
}

fn send(send: &SendStory, began: u64, texts: &mut Texts) -> Send {
    use crate::story::write::ClientEnd;
    use backfire_model::event::{Outcome, SendError};
    let at = |at_ms: u64| at_ms as i64 - began as i64;
    let client = send.client.as_ref().map(|client| match &client.end {
        None => Client(at(client.sent_ms), -1, 'r', -1),
        Some((ended_ms, end)) => {
            let how = match end {
                ClientEnd::Reply => 'r',
                ClientEnd::Failed(SendError::Server { .. }) => 'e',
                ClientEnd::Failed(_) | ClientEnd::HungUp => 't',
            };
            Client(at(client.sent_ms), at(*ended_ms), how, texts.number(&end.label()) as i64)
        }
    });
    let server = send.server.as_ref().map(|server| {
        let segments = server.segments.iter().flat_map(|one| [one.state.number() as i64, at(one.from_ms)]).collect();
        let marks = server
            .marks
            .iter()
            .flat_map(|mark| [at(mark.at_ms), i64::from(mark.is_replay), mark.count as i64])
            .collect();
        let end = server.end.as_ref();
        Server(
            server.op.0,
            server.connection,
            at(server.arrived_ms),
            end.map_or(-1, |end| at(end.at_ms)),
            end.is_some_and(|end| end.outcome != Outcome::Ok),
            end.map_or(-1, |end| texts.number(&ServerEnd::label(end)) as i64),
            end.is_none_or(|end| end.client_there),
            segments,
            marks,
        )
    });
    let kind = match send.kind {
        SendKind::First => 0,
        SendKind::Resend => 1,
        SendKind::Read => 2,
    };
    Send(
        kind,
        send.execution.map_or(-1, |at| at as i64),
        send.copy.unwrap_or(0),
        send.is_copy,
        texts.number(&send.identity),
        texts.number(&send.command),
        client,
        server,
    )
}
