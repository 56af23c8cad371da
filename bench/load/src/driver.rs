//! Load through the official driver.

use std::time::Instant;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection};

use crate::Bars;
use crate::args::Args;
use crate::peer::Peer;
use crate::stats::{median, percentile};

/// Documents there are to find and to update. Few: FerretDB looks at all of them for one.
const DOCUMENTS: i32 = 1000;
/// `insertMany` inserts so many.
const MANY: usize = 100;
/// How many connections send at once.
const CONNECTIONS: [usize; 2] = [16, 64];

/// The operations that are measured.
#[derive(Clone, Copy, PartialEq)]
enum Operation {
    InsertOne,
    UpdateOne,
    FindOne,
    InsertMany,
}

const OPERATIONS: [(Operation, &str); 4] = [
    (Operation::InsertOne, "insertOne"),
    (Operation::UpdateOne, "updateOne $inc"),
    (Operation::FindOne, "findOne"),
    (Operation::InsertMany, "insertMany 100"),
];

/// One measurement of one peer.
struct Figure {
    per_s: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us: f64,
}

/// A document of 200 bytes.
fn document(number: i64) -> Document {
    doc! { "_id": ObjectId::new(), "n": number, "s": "x".repeat(159) }
}

/// Every peer in turn, operation by operation, so that what else the machine does meets them all.
pub async fn measure(args: &Args, bars: &mut Bars) {
    let peers = Peer::all(args);
    for connections in CONNECTIONS {
        println!("\nthrough the official driver, {connections} connections, 200-byte documents");
        println!(
            "  {:<16} {:<20} {:>10} {:>9} {:>9} {:>12}",
            "operation", "server", "ops/s", "p50 µs", "p99 µs", "server µs/op"
        );
        let mut clients = Vec::new();
        for peer in &peers {
            clients.push(client(peer, connections).await);
        }
        for (operation, name) in OPERATIONS {
            let mut rounds: Vec<Vec<Figure>> = peers.iter().map(|_| Vec::new()).collect();
            // The first round warms up.
            for round in 0..=args.rounds {
                for ((peer, client), figures) in peers.iter().zip(&clients).zip(&mut rounds) {
                    let figure = run(peer, client, operation, connections, args).await;
                    if round > 0 {
                        figures.push(figure);
                    }
                }
            }
            let of = |figures: &[Figure], what: fn(&Figure) -> f64| median(figures.iter().map(what).collect());
            for (peer, figures) in peers.iter().zip(&rounds) {
                println!(
                    "  {name:<16} {:<20} {:>10.0} {:>9.0} {:>9.0} {:>12.1}",
                    peer.name,
                    of(figures, |figure| figure.per_s),
                    of(figures, |figure| figure.p50_us),
                    of(figures, |figure| figure.p99_us),
                    of(figures, |figure| figure.cpu_us),
                );
            }
            for (peer, theirs) in peers.iter().zip(&rounds).skip(1) {
                let ratio = |what: fn(&Figure) -> f64| {
                    median(rounds[0].iter().zip(theirs).map(|(our, their)| what(our) / what(their)).collect())
                };
                let what = |figure: &str| format!("{name}, {connections} connections: {figure} beside {}", peer.name);
                let throughput = ratio(|figure| figure.per_s);
                let wanted = match peer.name {
                    "mongo-java-server" => 1.25,
                    "mongod" => 1.0,
                    _ => 15.0,
                };
                bars.row(&what("rate"), format!("{throughput:.2}x"), &format!(">= {wanted}x"), throughput >= wanted);
                if peer.name == "mongod" {
                    continue;
                }
                let p99 = ratio(|figure| figure.p99_us);
                bars.row(&what("p99"), format!("{p99:.2}x"), "<= 0.33x", p99 <= 1.0 / 3.0);
                if peer.name == "mongo-java-server" {
                    let cpu = ratio(|figure| figure.cpu_us);
                    bars.row(&what("processor time"), format!("{cpu:.2}x"), "<= 0.25x", cpu <= 0.25);
                }
            }
        }
    }
}

async fn client(peer: &Peer, connections: usize) -> Client {
    let uri = format!(
        "mongodb://{}/?directConnection=true&maxPoolSize={connections}&minPoolSize={connections}",
        peer.address
    );
    Client::with_options(ClientOptions::parse(uri).await.expect("a connection string")).expect("a client")
}

async fn run(peer: &Peer, client: &Client, operation: Operation, connections: usize, args: &Args) -> Figure {
    let collection: Collection<Document> = client.database("bench").collection(&ObjectId::new().to_hex());
    let known = (0..DOCUMENTS).map(|id| doc! { "_id": id, "n": 0_i64, "s": "x".repeat(167) });
    collection.insert_many(known).await.unwrap_or_else(|error| panic!("{}: {error}", peer.name));
    let (cpu_before, began) = (peer.cpu_s(), Instant::now());
    let until = began + args.time;
    let tasks: Vec<_> = (0..connections)
        .map(|task| {
            let collection = collection.clone();
            tokio::spawn(async move {
                let (mut latencies_us, mut number) = (Vec::with_capacity(64 * 1024), task as i64 * 7919);
                loop {
                    let sent = Instant::now();
                    if sent >= until {
                        return latencies_us;
                    }
                    number += 1;
                    one(&collection, operation, number).await;
                    latencies_us.push(sent.elapsed().as_micros() as u32);
                }
            })
        })
        .collect();
    let mut latencies_us = Vec::new();
    for task in tasks {
        latencies_us.extend(task.await.expect("the load goes on"));
    }
    let (took_s, cpu_s) = (began.elapsed().as_secs_f64(), peer.cpu_s() - cpu_before);
    collection.drop().await.unwrap_or_else(|error| panic!("{}: {error}", peer.name));
    latencies_us.sort_unstable();
    let operations = latencies_us.len() as f64;
    Figure {
        per_s: operations / took_s,
        p50_us: percentile(&latencies_us, 0.5),
        p99_us: percentile(&latencies_us, 0.99),
        cpu_us: cpu_s * 1e6 / operations,
    }
}

async fn one(collection: &Collection<Document>, operation: Operation, number: i64) {
    let id = (number.wrapping_mul(48_271) % i64::from(DOCUMENTS)) as i32;
    match operation {
        Operation::InsertOne => {
            collection.insert_one(document(number)).await.expect("inserted");
        }
        Operation::UpdateOne => {
            let result = collection.update_one(doc! { "_id": id }, doc! { "$inc": { "n": 1_i64 } }).await;
            assert_eq!(result.expect("updated").matched_count, 1);
        }
        Operation::FindOne => {
            let found = collection.find_one(doc! { "_id": id }).await.expect("found");
            assert!(found.is_some());
        }
        Operation::InsertMany => {
            let many = (0..MANY as i64).map(|one| document(number + one));
            collection.insert_many(many).await.expect("inserted");
        }
    }
}
