//! A filter and documents: raw and decoded documents match alike. A third document is a projection, a fourth a sort.

#![no_main]

use backfire_fuzz::documents;
use backfire_server::query::{Match, Matcher, Projection, QueryContext, Sort};
use bson::{DateTime, RawDocumentBuf};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let documents = documents(input);
    let [filter, document, rest @ ..] = &documents[..] else { return };
    let raw = |document| RawDocumentBuf::try_from(document);
    let (Ok(filter), Ok(document_raw)) = (raw(filter), raw(document)) else { return };
    let context = QueryContext::new(DateTime::from_millis(0));
    if let Ok(matcher) = Matcher::parse(&filter, &context) {
        let (one, other) = (matcher.matches(&document_raw), matcher.matches_view(document.into()));
        assert_eq!(one.is_ok(), other.is_ok());
        assert_eq!(one.ok(), other.ok());
        // What an upsert and an index read of it.
        let _ = (matcher.equalities(), matcher.id_equality(), matcher.bounds_on("a"), matcher.bounds_on("a.b"));
    }
    if let Some(Ok(projection)) = rest.first().map(raw)
        && let Ok(Some(projection)) = Projection::parse(&projection, &context)
    {
        let _ = projection.apply(&document_raw, Match::default());
    }
    if let Some(Ok(sort)) = rest.get(1).map(raw)
        && let Ok(sort) = Sort::parse(&sort, None)
        && let (Ok(one), Ok(other)) = (sort.key(&document_raw), sort.key_of(document.into()))
    {
        assert_eq!(one, other);
    }
});
