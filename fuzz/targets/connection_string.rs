//! A connection string: what is understood can be written, and is understood the same again; what is not has a reason with
//! a place in the text.

#![no_main]

use backfire_model::connection_string::ConnectionString;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match ConnectionString::parse(text) {
        Ok(parsed) => {
            let again = ConnectionString::parse(&parsed.to_uri_string()).expect("what was written here");
            assert_eq!(again, parsed);
            drop(format!("{parsed} {parsed:?}"));
        }
        Err(error) => drop(error.to_string()),
    }
});
