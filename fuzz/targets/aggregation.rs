//! A pipeline, over documents that a new server has stored: it is answered, and the server goes on.

#![no_main]

use backfire_fuzz::{replies, values};
use bson::{Bson, Document, doc};
use libfuzzer_sys::fuzz_target;

/// Documents of one input.
const DOCUMENTS_MAX: usize = 20;

fuzz_target!(|input: &[u8]| {
    let values = values(input);
    let [Bson::Array(pipeline), rest @ ..] = &values[..] else { return };
    let documents: Vec<Document> = rest.iter().take(DOCUMENTS_MAX).filter_map(Bson::as_document).cloned().collect();
    let mut commands = Vec::new();
    if !documents.is_empty() {
        commands.push(doc! { "insert": "c", "documents": documents, "ordered": false, "$db": "test" });
    }
    let aggregate = doc! { "aggregate": "c", "pipeline": pipeline.clone(), "cursor": {}, "$db": "test" };
    commands.push(doc! { "explain": { "aggregate": "c", "pipeline": pipeline.clone(), "cursor": {} }, "$db": "test" });
    commands.push(aggregate);
    commands.push(doc! { "ping": 1, "$db": "test" });
    let bodies: Option<Vec<_>> = commands.iter().map(|command| command.to_vec().ok()).collect();
    let Some(bodies) = bodies else { return };
    let replies = replies(&bodies);
    assert_eq!(replies.len(), bodies.len());
    assert_eq!(replies.last().and_then(|reply| reply.get_f64("ok").ok()), Some(1.0));
});
