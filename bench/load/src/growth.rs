//! Whether an operation costs the same in a large collection as in a small one, and among many collections; and what a
//! stored document weighs. By the server's processor time, which the rest of the machine touches least.

use mongodb::bson::{Document, doc};

use crate::Bars;
use crate::args::Args;
use crate::peer::Peer;
use crate::wire::{Connection, message};

/// Documents per insert while a collection is filled.
const BATCH: usize = 1000;
/// Operations that one figure is made of: long enough for the 10 ms steps of `/proc`.
const OPERATIONS: usize = 40_000;
/// How much more an operation may cost in the largest than in the smallest.
const GROWTH_MAX: f64 = 2.0;
/// Memory of a stored 200-byte document.
const DOCUMENT_MAX_BYTES: f64 = 400.0;

/// A document of 200 bytes with this `_id`.
fn document(id: usize) -> Document {
    doc! { "_id": id as i32, "n": 0_i64, "s": "x".repeat(167) }
}

/// An `_id` among `documents`, far from the one before.
fn scattered(number: usize, documents: usize) -> i32 {
    (number.wrapping_mul(2_654_435_761) % documents) as i32
}

/// Over both kinds of growth.
pub async fn measure(args: &Args, bars: &mut Bars) {
    by_documents(args, bars).await;
    by_collections(args, bars).await;
}

fn growth(bars: &mut Bars, what: &str, figures: &[f64]) {
    let (first, last) = (figures.first().copied().unwrap_or(f64::NAN), figures.last().copied().unwrap_or(f64::NAN));
    let growth = last / first;
    bars.row(&format!("{what}: growth"), format!("{growth:.2}x"), &format!("<= {GROWTH_MAX}x"), growth <= GROWTH_MAX);
}

async fn by_documents(args: &Args, bars: &mut Bars) {
    let server = Peer::backfire(&args.backfire);
    let mut link = Connection::open(&server.address).await;
    println!("\ncost by documents in the collection, server µs/op");
    println!("  {:>10} {:>10} {:>10} {:>10}", "documents", "insert", "update", "find");
    let (mut inserts, mut updates, mut finds) = (Vec::new(), Vec::new(), Vec::new());
    let (mut have, mut next) = (0, 0);
    let empty_bytes = server.resident_bytes();
    let mut size = 1000;
    while size <= args.most_documents {
        while have < size {
            let documents: Vec<Document> = (0..BATCH).map(|one| document(next + one)).collect();
            link.run(&doc! { "insert": "grown", "documents": documents, "$db": "bench" }).await;
            have += BATCH;
            next += BATCH;
        }
        if size == args.most_documents {
            let each = (server.resident_bytes() - empty_bytes) / size as f64;
            bars.row(
                &format!("memory per 200-byte document, {size} stored"),
                format!("{each:.0} B"),
                &format!("<= {DOCUMENT_MAX_BYTES:.0} B"),
                each <= DOCUMENT_MAX_BYTES,
            );
        }
        updates.push(
            each(&server, &mut link, |number| {
                let q = doc! { "_id": scattered(number, size) };
                doc! { "update": "grown", "updates": [{ "q": q, "u": { "$inc": { "n": 1_i64 } } }], "$db": "bench" }
            })
            .await,
        );
        finds.push(
            each(&server, &mut link, |number| {
                let filter = doc! { "_id": scattered(number, size) };
                doc! { "find": "grown", "filter": filter, "limit": 1_i64, "singleBatch": true, "$db": "bench" }
            })
            .await,
        );
        // Into a copy of the same size would be another collection: these few documents are taken out again.
        let from = next;
        inserts.push(
            each(&server, &mut link, |number| {
                doc! { "insert": "grown", "documents": [document(from + number)], "$db": "bench" }
            })
            .await,
        );
        let gone = doc! { "q": { "_id": { "$gte": from as i32 } }, "limit": 0 };
        link.run(&doc! { "delete": "grown", "deletes": [gone], "$db": "bench" }).await;
        let (insert, update, find) = (inserts[inserts.len() - 1], updates[updates.len() - 1], finds[finds.len() - 1]);
        println!("  {size:>10} {insert:>10.1} {update:>10.1} {find:>10.1}");
        size *= 10;
    }
    growth(bars, "insert, by documents", &inserts);
    growth(bars, "update, by documents", &updates);
    growth(bars, "find, by documents", &finds);
}

async fn by_collections(args: &Args, bars: &mut Bars) {
    println!("\ncost by collections, server µs/op");
    println!("  {:>11} {:>10} {:>10}", "collections", "insert", "find");
    let (mut inserts, mut finds) = (Vec::new(), Vec::new());
    for collections in [1, 10, 100, 1000] {
        let server = Peer::backfire(&args.backfire);
        let mut link = Connection::open(&server.address).await;
        for number in 0..collections {
            let documents: Vec<Document> = (0..10).map(document).collect();
            link.run(&doc! { "insert": format!("c{number}"), "documents": documents, "$db": "bench" }).await;
        }
        let insert = each(&server, &mut link, |number| {
            let documents = vec![document(10 + number / collections)];
            doc! { "insert": format!("c{}", number % collections), "documents": documents, "$db": "bench" }
        })
        .await;
        let find = each(&server, &mut link, |number| {
            let filter = doc! { "_id": (number % 10) as i32 };
            let collection = format!("c{}", number % collections);
            doc! { "find": collection, "filter": filter, "limit": 1_i64, "singleBatch": true, "$db": "bench" }
        })
        .await;
        println!("  {collections:>11} {insert:>10.1} {find:>10.1}");
        inserts.push(insert);
        finds.push(find);
    }
    growth(bars, "insert, by collections", &inserts);
    growth(bars, "find, by collections", &finds);
}

/// The server's processor time for one of these commands, in µs.
async fn each(server: &Peer, link: &mut Connection, command: impl Fn(usize) -> Document) -> f64 {
    let frames: Vec<Vec<u8>> = (0..OPERATIONS).map(|number| message(&command(number))).collect();
    link.run(&command(OPERATIONS)).await;
    let before = server.cpu_s();
    for frame in &frames {
        link.exchange(frame).await;
    }
    (server.cpu_s() - before) * 1e6 / OPERATIONS as f64
}
