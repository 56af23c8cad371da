//! Raw frames with commands that were encoded before, against the lab server and a bare echo.

use std::time::Instant;

use mongodb::bson::{Document, doc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::Bars;
use crate::args::Args;
use crate::peer::Peer;
use crate::stats::median;
use crate::wire::{Connection, HEADER_BYTES, message};

const CONNECTIONS: usize = 16;
/// Frames that each connection has ready.
const FRAMES: usize = 1000;

/// A request tells the echo in this field of its header (`responseTo`) how long the reply shall be.
const REPLY_BYTES_AT: usize = 8;

/// `echo PORT`: answers each frame with as many bytes as it asks for, and knows nothing else.
pub fn echo(port: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("a free port");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(echo_one(stream));
        }
    });
}

async fn echo_one(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let (mut request, mut reply) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut have = 0;
    loop {
        let Ok(read @ 1..) = stream.read(&mut request[have..]).await else { return };
        have += read;
        let number = |at: usize| i32::from_le_bytes([request[at], request[at + 1], request[at + 2], request[at + 3]]);
        if have < HEADER_BYTES || have < number(0) as usize {
            continue;
        }
        let wanted = (number(REPLY_BYTES_AT) as usize).min(reply.len());
        reply[..4].copy_from_slice(&(wanted as i32).to_le_bytes());
        have = 0;
        if stream.write_all(&reply[..wanted]).await.is_err() {
            return;
        }
    }
}

/// The frames of one connection.
fn frames(operation: &str, connection: usize) -> Vec<Vec<u8>> {
    let filler = "x".repeat(167);
    (0..FRAMES as i32)
        .map(|number| {
            let id = number + connection as i32 * FRAMES as i32;
            message(&match operation {
                "insert" => {
                    // The server makes the `_id`, so that a frame can be sent again.
                    let documents = vec![doc! { "n": i64::from(id), "s": "x".repeat(176) }];
                    doc! { "insert": "inserted", "documents": documents, "$db": "bench" }
                }
                "update" => {
                    let updates = vec![doc! { "q": { "_id": id }, "u": { "$inc": { "n": 1_i64 } } }];
                    doc! { "update": "known", "updates": updates, "$db": "bench" }
                }
                "find" => doc! { "find": "known", "filter": { "_id": id }, "limit": 1_i64, "singleBatch": true, "$db": "bench" },
                _ => doc! { "insert": "known", "documents": [{ "_id": id, "n": 0_i64, "s": &filler }], "$db": "bench" },
            })
        })
        .collect()
}

/// Each operation: the lab server and the echo in turn.
pub async fn measure(args: &Args, bars: &mut Bars) {
    let (server, echo) = (Peer::backfire(&args.backfire), Peer::echo());
    println!("\nraw frames, {CONNECTIONS} connections");
    println!(
        "  {:<10} {:>12} {:>12} {:>14} {:>12}",
        "operation", "backfire/s", "echo/s", "backfire µs/op", "echo µs/op"
    );
    for connection in 0..CONNECTIONS {
        let mut link = Connection::open(&server.address).await;
        for frame in frames("fill", connection) {
            link.exchange(&frame).await;
        }
    }
    for operation in ["insert", "update", "find"] {
        let reply_bytes = {
            let mut link = Connection::open(&server.address).await;
            let reply = link.exchange(&frames(operation, 0)[0]).await;
            let document = Document::from_reader(&reply[HEADER_BYTES + 5..]).expect("a document");
            assert_eq!(document.get_f64("ok").ok(), Some(1.0), "{document}");
            reply.len()
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..=args.rounds {
            let our = run(&server, operation, reply_bytes, args).await;
            let their = run(&echo, operation, reply_bytes, args).await;
            if round > 0 {
                ours.push(our);
                theirs.push(their);
            }
            let mut link = Connection::open(&server.address).await;
            if operation == "insert" {
                link.run(&doc! { "drop": "inserted", "$db": "bench" }).await;
            }
        }
        let of = |figures: &[(f64, f64)], what: fn(&(f64, f64)) -> f64| median(figures.iter().map(what).collect());
        println!(
            "  {operation:<10} {:>12.0} {:>12.0} {:>14.1} {:>12.1}",
            of(&ours, |figure| figure.0),
            of(&theirs, |figure| figure.0),
            of(&ours, |figure| figure.1),
            of(&theirs, |figure| figure.1)
        );
        let ratio = median(ours.iter().zip(&theirs).map(|(our, their)| our.0 / their.0).collect());
        bars.row(&format!("raw {operation}: rate beside the echo"), format!("{ratio:.2}x"), ">= 0.6x", ratio >= 0.6);
    }
}

/// (operations per second, server's processor time per operation in µs).
async fn run(peer: &Peer, operation: &str, reply_bytes: usize, args: &Args) -> (f64, f64) {
    let mut links = Vec::new();
    for connection in 0..CONNECTIONS {
        let mut frames = frames(operation, connection);
        for frame in &mut frames {
            // To the server it says nothing: a request's responseTo is not looked at.
            frame[REPLY_BYTES_AT..REPLY_BYTES_AT + 4].copy_from_slice(&(reply_bytes as i32).to_le_bytes());
        }
        links.push((Connection::open(&peer.address).await, frames));
    }
    let (cpu_before, began) = (peer.cpu_s(), Instant::now());
    let until = began + args.time;
    let tasks: Vec<_> = links
        .into_iter()
        .map(|(mut link, frames)| {
            tokio::spawn(async move {
                let mut sent = 0_u64;
                loop {
                    for frame in &frames {
                        link.exchange(frame).await;
                        sent += 1;
                        if sent % 16 == 0 && Instant::now() >= until {
                            return sent;
                        }
                    }
                }
            })
        })
        .collect();
    let mut sent = 0;
    for task in tasks {
        sent += task.await.expect("the load goes on");
    }
    let (took_s, cpu_s) = (began.elapsed().as_secs_f64(), peer.cpu_s() - cpu_before);
    (sent as f64 / took_s, cpu_s * 1e6 / sent as f64)
}
