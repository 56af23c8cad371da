//! Which commands carry secrets and are shown without content
//! (<https://github.com/mongodb/specifications/blob/master/source/command-logging-and-monitoring/command-logging-and-monitoring.md#security>).

use bson::Document;

const SENSITIVE: [&str; 9] = [
    "authenticate",
    "saslStart",
    "saslContinue",
    "getnonce",
    "createUser",
    "updateUser",
    "copydbgetnonce",
    "copydbsaslstart",
    "copydb",
];

/// Whether neither command nor reply may be shown. A `hello` is only sensitive when it authenticates on the side.
pub(crate) fn is_sensitive(name: &str, body: &Document) -> bool {
    let is_hello = name.eq_ignore_ascii_case("hello") || name.eq_ignore_ascii_case("isMaster");
    SENSITIVE.iter().any(|sensitive| sensitive.eq_ignore_ascii_case(name))
        || (is_hello && body.contains_key("speculativeAuthenticate"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn secrets_are_known() {
        for (body, sensitive) in [
            (doc! {"saslStart": 1}, true),
            (doc! {"createUser": "a"}, true),
            (doc! {"hello": 1, "speculativeAuthenticate": {}}, true),
            (doc! {"ismaster": 1, "speculativeAuthenticate": {}}, true),
            (doc! {"isMaster": 1}, false),
            (doc! {"insert": "a", "speculativeAuthenticate": {}}, false),
        ] {
            let name = body.keys().next().unwrap().clone();
            assert_eq!(is_sensitive(&name, &body), sensitive, "{body}");
        }
    }
}
