//! An update (a document or a pipeline), a document, a filter: what is changed keeps its `_id` and can be stored; the same
//! replacement twice changes nothing the second time.

#![no_main]

use backfire_fuzz::values;
use backfire_server::query::{Matcher, QueryContext};
use backfire_server::update::{ApplyContext, Update, UpdateOptions};
use bson::raw::{RawDocumentBuf, cstr};
use bson::{Bson, DateTime, Document, RawDocument, Timestamp};
use libfuzzer_sys::fuzz_target;

/// A document of the `_id` alone, where there is one.
fn id_bytes(document: &RawDocument) -> Option<Vec<u8>> {
    let id = document.get("_id").ok().flatten()?;
    let mut alone = RawDocumentBuf::new();
    alone.append(cstr!("_id"), id);
    Some(alone.into_bytes())
}

fuzz_target!(|input: &[u8]| {
    let values = values(input);
    let [update, Bson::Document(document), rest @ ..] = &values[..] else { return };
    let Ok(document) = RawDocumentBuf::try_from(document) else { return };
    let filter = rest.first().and_then(Bson::as_document).cloned().unwrap_or_default();
    let array_filters: Vec<Document> = rest.iter().skip(1).filter_map(Bson::as_document).cloned().collect();
    let context = QueryContext::new(DateTime::from_millis(0));
    let Ok(filter) = RawDocumentBuf::try_from(&filter) else { return };
    let Ok(matcher) = Matcher::parse(&filter, &context) else { return };
    let options =
        UpdateOptions { multi: false, array_filters: &array_filters, context: &context, empty_operators: true };
    let Ok(update) = Update::parse(update, &options) else { return };
    let apply = ApplyContext {
        now: DateTime::from_millis(0),
        timestamp: Timestamp { time: 1, increment: 1 },
        stores_dollar_fields: true,
    };
    let position = matcher.find_match(&document).ok().flatten().unwrap_or_default().array_position;
    if let Ok(applied) = update.apply(&document, position, &apply) {
        let after = RawDocumentBuf::try_from(&applied.document).expect("what is stored can be encoded");
        // Every stored document has an `_id`; what comes of one without is only not to panic.
        if let Some(before) = id_bytes(&document) {
            // As bytes: of values, one that is not a number would differ from itself.
            assert_eq!(id_bytes(&after), Some(before), "{document:?} became {after:?}");
            if update.is_replacement()
                && let Ok(again) = update.apply(&after, None, &apply)
            {
                assert!(!again.changed, "{:?}", applied.document);
            }
        }
    }
    let _ = update.insert_document(&matcher, Bson::Int32(1), &apply);
});
