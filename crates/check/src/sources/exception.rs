//! Exception classes: which is which's superclass, and what a stall raises.

use crate::service::{Client, Patience};

/// A class and its superclass, of what a write can raise: Spring's data access exceptions and the driver's (facts/client.md E, A9).
const SUPERCLASSES: &[(&str, &str)] = &[
    ("ListenerExecutionFailedException", "KafkaException"),
    ("BatchListenerFailedException", "KafkaException"),
    ("KafkaException", "NestedRuntimeException"),
    ("DataAccessResourceFailureException", "NonTransientDataAccessResourceException"),
    ("NonTransientDataAccessResourceException", "NonTransientDataAccessException"),
    ("UncategorizedMongoDbException", "UncategorizedDataAccessException"),
    ("UncategorizedDataAccessException", "NonTransientDataAccessException"),
    ("DuplicateKeyException", "DataIntegrityViolationException"),
    ("BulkOperationException", "DataAccessException"),
    ("DataIntegrityViolationException", "NonTransientDataAccessException"),
    ("OptimisticLockingFailureException", "ConcurrencyFailureException"),
    ("ConcurrencyFailureException", "TransientDataAccessException"),
    ("QueryTimeoutException", "TransientDataAccessException"),
    ("TransientDataAccessResourceException", "TransientDataAccessException"),
    ("TransientDataAccessException", "DataAccessException"),
    ("NonTransientDataAccessException", "DataAccessException"),
    ("DataAccessException", "NestedRuntimeException"),
    ("NestedRuntimeException", "RuntimeException"),
    ("MongoSocketReadTimeoutException", "MongoSocketException"),
    ("MongoSocketReadException", "MongoSocketException"),
    ("MongoSocketWriteException", "MongoSocketException"),
    ("MongoSocketOpenException", "MongoSocketException"),
    ("MongoSocketException", "MongoException"),
    ("MongoOperationTimeoutException", "MongoTimeoutException"),
    ("MongoTimeoutException", "MongoClientException"),
    ("MongoClientException", "MongoException"),
    ("MongoExecutionTimeoutException", "MongoException"),
    ("MongoWriteException", "MongoServerException"),
    ("MongoBulkWriteException", "MongoServerException"),
    ("MongoCommandException", "MongoServerException"),
    ("MongoServerException", "MongoException"),
    ("MongoException", "RuntimeException"),
    ("ConstraintViolationException", "ValidationException"),
    ("ValidationException", "RuntimeException"),
    ("RuntimeException", "Exception"),
    ("Exception", "Throwable"),
];

/// The class and its superclasses, nearest first. Simple names; a package before the name does not matter.
fn lineage(class: &str) -> impl Iterator<Item = &str> {
    let simple = |name: &'_ str| -> usize { name.rfind(['.', '$']).map_or(0, |at| at + 1) };
    let first = &class[simple(class)..];
    std::iter::successors(Some(first), |class| {
        SUPERCLASSES.iter().find(|(known, _)| known == class).map(|(_, superclass)| *superclass)
    })
}

/// Whether a class is another or a subclass of it, as far as these classes are known.
pub fn is_a(class: &str, other: &str) -> bool {
    let other = lineage(other).next().unwrap_or_default();
    lineage(class).any(|class| class == other)
}

/// What the application sees when its client gives up on a stalled write, from the outermost to the cause; empty: nothing that
/// is known.
pub fn of_stall(client: &Client, by_spring_data: bool) -> Vec<&'static str> {
    let (translated, own): (_, &[&str]) = match client.patience() {
        Patience::Socket(_) => ("DataAccessResourceFailureException", &["MongoSocketReadTimeoutException"]),
        Patience::Operation(_) => {
            ("UncategorizedMongoDbException", &["MongoOperationTimeoutException", "MongoSocketReadTimeoutException"])
        }
        Patience::Forever | Patience::Unknown => return Vec::new(),
    };
    let outer = by_spring_data.then_some(translated);
    outer.into_iter().chain(own.iter().copied()).collect()
}

/// Whether what a stall raises is retried, by classes that are and that are not; the nearest class counts, and the outermost
/// exception first. `None`: neither names it.
pub fn is_retried(raised: &[&str], retried: &[String], not_retried: &[String]) -> Option<bool> {
    raised.iter().find_map(|class| {
        lineage(class).find_map(|class| {
            let names = |list: &[String]| list.iter().any(|name| lineage(name).next() == Some(class));
            match (names(not_retried), names(retried)) {
                (true, _) => Some(false),
                (false, true) => Some(true),
                (false, false) => None,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_their_superclasses() {
        assert!(is_a("DuplicateKeyException", "org.springframework.dao.DataIntegrityViolationException"));
        assert!(is_a("com.mongodb.MongoSocketReadTimeoutException", "Exception"));
        assert!(!is_a("DataAccessException", "DuplicateKeyException"));
        assert!(is_a("MyException", "a.b.MyException"));
    }

    #[test]
    fn the_nearest_class_decides() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let raised = ["DataAccessResourceFailureException", "MongoSocketReadTimeoutException"];
        let cases: [(&[&str], &[&str], _); 5] = [
            (&[], &["DuplicateKeyException"], None),
            (&[], &["RuntimeException"], Some(false)),
            (&["DataAccessException"], &["RuntimeException"], Some(true)),
            (&["MongoSocketException"], &[], Some(true)),
            (&[], &["MongoException"], Some(false)),
        ];
        for (retried, not_retried, expected) in cases {
            assert_eq!(
                is_retried(&raised, &list(retried), &list(not_retried)),
                expected,
                "{retried:?} {not_retried:?}"
            );
        }
    }
}
