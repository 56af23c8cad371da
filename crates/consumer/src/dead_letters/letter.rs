//! How a dead letter is made from a record and the failure it is given up for.

use crate::dead_letters::Destination;
use crate::failure::Failure;
use crate::headers;
use crate::record::Record;

/// The longest text of one header about the failure. What is longer is cut: a dead letter must not be too large to be
/// stored.
pub const MAX_HEADER_BYTES: usize = 16 * 1024;

/// The dead letter, as Spring Kafka's `DeadLetterPublishingRecoverer` builds it: key, value and headers as they were;
/// headers about the failure replace older ones, those about the origin are added behind them.
pub fn dead_letter(record: &Record, failure: &Failure, destination: &Destination) -> Record {
    let failure = failure.clone().of_listener();
    let mut letter = Record { topic: destination.topic_for(&record.topic).into(), ..record.clone() };
    let message = format!("{}; {}", failure.outer().message, failure.root().message);
    let names = match failure.is_about_key() {
        false => [headers::EXCEPTION_FQCN, headers::EXCEPTION_MESSAGE, headers::EXCEPTION_STACKTRACE],
        true => [headers::KEY_EXCEPTION_FQCN, headers::KEY_EXCEPTION_MESSAGE, headers::KEY_EXCEPTION_STACKTRACE],
    };
    let exception = [
        (names[0], failure.outer().class.name().to_owned()),
        (headers::EXCEPTION_CAUSE_FQCN, failure.root().class.name().to_owned()),
        (names[1], message),
        (names[2], stack_trace(&failure)),
        (headers::HOPS, (hops(record) + 1).to_string()),
    ];
    for (name, value) in exception {
        letter.headers.retain(|(key, _)| key != name);
        letter.headers.push((name.to_owned(), cut(value).into_bytes()));
    }
    let mut add = |name: &str, value: &[u8]| letter.headers.push((name.to_owned(), value.to_vec()));
    add(headers::ORIGINAL_TOPIC, record.topic.as_bytes());
    add(headers::ORIGINAL_PARTITION, &record.partition.to_be_bytes());
    add(headers::ORIGINAL_OFFSET, &record.offset.to_be_bytes());
    add(headers::ORIGINAL_TIMESTAMP, &record.timestamp_ms.to_be_bytes());
    add(headers::ORIGINAL_TIMESTAMP_TYPE, record.timestamp_type.to_string().as_bytes());
    if let Some(group) = &destination.consumer_group {
        add(headers::ORIGINAL_CONSUMER_GROUP, group.as_bytes());
    }
    letter
}

/// How often the record was a dead letter before: by the header that says so, or where another program made them, by
/// the number of origins.
pub(super) fn hops(record: &Record) -> u32 {
    let said = record.header(headers::HOPS).and_then(|value| std::str::from_utf8(value).ok()?.parse::<u32>().ok());
    let origins = record.headers.iter().filter(|(name, _)| name == headers::ORIGINAL_TOPIC).count();
    said.unwrap_or(0).max(u32::try_from(origins).unwrap_or(u32::MAX))
}

/// The chain as Java's `printStackTrace` writes it; there are no frames.
fn stack_trace(failure: &Failure) -> String {
    let lines = failure.chain().enumerate();
    lines.map(|(index, link)| format!("{}{link}\n", if index == 0 { "" } else { "Caused by: " })).collect()
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_HEADER_BYTES {
        let end = (0..=MAX_HEADER_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::ErrorClass;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let failure = Failure::new(ErrorClass::new("a.B"), "ü".repeat(MAX_HEADER_BYTES));
        let letter = dead_letter(&Record::default(), &failure, &Destination::default());
        for name in [headers::EXCEPTION_MESSAGE, headers::EXCEPTION_STACKTRACE] {
            let value = letter.header(name).unwrap();
            assert!(value.len() <= MAX_HEADER_BYTES && std::str::from_utf8(value).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_failure_of_the_key_has_headers_of_its_own() {
        let failure = Failure::new(ErrorClass::new("a.B"), "no number").about_key();
        let letter = dead_letter(&Record::default(), &failure, &Destination::default());
        assert!(letter.header(headers::KEY_EXCEPTION_FQCN).is_some());
        assert!(letter.header(headers::KEY_EXCEPTION_MESSAGE).is_some());
        assert!(letter.header(headers::KEY_EXCEPTION_STACKTRACE).is_some());
        assert_eq!(letter.header(headers::EXCEPTION_FQCN), None);
    }

    #[test]
    fn hops_are_counted_by_header_or_by_origins() {
        let failure = Failure::new(ErrorClass::new("a.B"), "");
        let mut record = Record::default();
        for expected in 1..4 {
            record = dead_letter(&record, &failure, &Destination::default());
            assert_eq!(hops(&record), expected);
        }
        record.headers.retain(|(name, _)| name != headers::HOPS);
        assert_eq!(hops(&record), 3);
        record.headers.push((headers::HOPS.to_owned(), b"many".to_vec()));
        assert_eq!(hops(&record), 3);
    }
}
