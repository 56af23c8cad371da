//! Commands on a new server. Input that begins with `{` is extended JSON, one command after another; other input is the
//! bytes of one body. Every reply is a document with `ok`.

#![no_main]

use backfire_fuzz::{documents, replies};
use libfuzzer_sys::fuzz_target;

/// Commands of one input.
const COMMANDS_MAX: usize = 8;

fuzz_target!(|input: &[u8]| {
    let bodies = match input.first() {
        Some(b'{') => documents(input).iter().take(COMMANDS_MAX).filter_map(|command| command.to_vec().ok()).collect(),
        _ => vec![input.to_vec()],
    };
    for reply in replies(&bodies) {
        assert!(reply.contains_key("ok") || reply.contains_key("$err"), "{reply}");
    }
});
