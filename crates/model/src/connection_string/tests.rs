//! Messages, places and masking; the reports R29 and R62 to R65; the laws of reading and writing.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> ConnectionString {
    ConnectionString::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The string is refused at this piece of it, for this reason. `place` is `before<piece>after` with the piece in
/// angle brackets.
#[track_caller]
fn check_error(place: &str, part: Part, problem: Problem, message: &str) {
    let (text, span) = marked(place);
    let error = ConnectionString::parse(&text).expect_err(&text);
    let first = error.first();
    assert_eq!((first.part, first.problem, first.to_string().as_str()), (part, problem, message), "{text}");
    assert_eq!(first.span, span, "{text}");
}

/// The string is accepted with exactly one warning.
#[track_caller]
fn check_warning(place: &str, problem: Problem, message: &str) -> ConnectionString {
    let (text, span) = marked(place);
    let parsed = read(&text);
    let warnings: Vec<&Diagnostic> = parsed.warnings().collect();
    assert_eq!(warnings.iter().map(|w| w.to_string()).collect::<Vec<_>>(), [message], "{text}");
    assert_eq!((warnings[0].problem, warnings[0].span.clone()), (problem, span), "{text}");
    parsed
}

fn marked(place: &str) -> (String, Range<usize>) {
    let (start, end) = (place.find('<').unwrap(), place.find('>').unwrap());
    (place.replace(['<', '>'], ""), start..end - 1)
}

fn accepted(text: &str) -> ConnectionString {
    let parsed = read(text);
    assert_eq!(parsed.warnings().map(ToString::to_string).collect::<Vec<_>>(), [""; 0], "{text}");
    parsed
}

// --- R62: special characters in user name and password

#[test]
fn r62_an_unescaped_character_names_its_field_and_its_escape() {
    use Part::{Password, User};
    let check = |place: &str, part: Part, message: &str| {
        check_error(place, part, Problem::UnescapedCharacter, message);
    };
    check("mongodb://u:p<@>ss@h/", Password, "the password holds an unescaped '@'; write %40");
    check("mongodb://alice<@>@h", User, "the user name holds an unescaped '@'; write %40");
    check("mongodb://alice<@>foo:bar@h", User, "the user name holds an unescaped '@'; write %40");
    check("mongodb://alice:foo<:>bar@h", Password, "the password holds an unescaped ':'; write %3A");
    let cut = |escape: &str| format!("write {escape}; if no password is meant, the host or port before it is wrong");
    let message = format!("the password holds an unescaped '?'; {}", cut("%3F"));
    check("mongodb://alice:foo<?>bar@h/db", Password, &message);
    let message = format!("the password holds an unescaped '/'; {}", cut("%2F"));
    check("mongodb://alice:foo</>?bar@h", Password, &message);
    let slash =
        |part: &str| format!("the {part} holds an unescaped '/'; write %2F; for an '@' in a database name write %40");
    check("mongodb://alice:foo</>bar@h/db", Password, &slash("password"));
    check("mongodb://alice:12</>bar@h/db", Password, &slash("password"));
    check("mongodb://alice</>bob:foo@h/db", User, &slash("user name"));
}

#[test]
fn r62_a_percent_sign_needs_its_two_digits() {
    let message = |part: &str| {
        format!("the {part} holds a '%' that two hexadecimal digits do not follow; write %25 for the character '%'")
    };
    check_error("mongodb://u:pa<%>@h", Part::Password, Problem::BadEscape, &message("password"));
    check_error("mongodb://u:p<%>4@h", Part::Password, Problem::BadEscape, &message("password"));
    check_error("mongodb://u<%>w:p@h", Part::User, Problem::BadEscape, &message("user name"));
    check_error("mongodb://h/?appName=<%>x", Part::OptionValue, Problem::BadEscape, &message("option value"));
    let text = "the password is no UTF-8 once its escapes are decoded";
    check_error("mongodb://u:<%ff>@h", Part::Password, Problem::NotUtf8, text);
}

#[test]
fn r62_what_is_legal_is_read_as_it_is() {
    let password = |text: &str| accepted(text).password().map(|password| password.expose().to_owned());
    assert_eq!(password("mongodb://u:p%40ss@h").as_deref(), Some("p@ss"));
    assert_eq!(password("mongodb://u:p=x@h").as_deref(), Some("p=x"));
    assert_eq!(password("mongodb://u:!$&'()*+,;=@h").as_deref(), Some("!$&'()*+,;="));
    assert_eq!(password("mongodb://u:@h").as_deref(), Some(""));
    assert_eq!(password("mongodb://u@h"), None);
    assert_eq!(accepted("mongodb://a,b:c,d@h,g").hosts().len(), 2);
    assert_eq!(accepted("mongodb://u:p@h/?replicaset=my@rs").replica_set(), Some("my@rs"));
}

#[test]
fn r62_doubtful_passwords_warn() {
    let message = "the password looks as if it was escaped twice: an escape remains once it is decoded; escape it once";
    check_warning("mongodb://u:<p%2540ss>@h", Problem::EscapedTwice, message);
    let message = "the password holds '#', which should be escaped; write %23; some drivers refuse it";
    check_warning("mongodb://u:p<#>x@h", Problem::UnescapedCharacter, message);
}

#[test]
fn r62_an_empty_user_name_is_refused() {
    let message = "there is no user name before the '@'; write the user name, or leave out all up to the '@'";
    check_error("mongodb://<:p>@h", Part::User, Problem::EmptyUser, message);
    check_error("mongodb://<>@h", Part::User, Problem::EmptyUser, message);
}

// --- R63: Unix sockets

#[test]
fn r63_sockets_are_escaped_and_keep_their_case() {
    let message = "the hosts hold an unescaped '/'; the path of a Unix socket has to be escaped; \
                   write %2Ftmp%2Fmongodb-27017.sock";
    check_error("mongodb://</tmp/mongodb-27017.sock/db>", Part::Host, Problem::SocketSlash, message);
    let parsed = accepted("mongodb://%2Ftmp%2FMongoDB-27017.sock/db?replicaSet=rs");
    assert_eq!((parsed.hosts()[0].kind(), parsed.hosts()[0].name()), (HostKind::Unix, "/tmp/MongoDB-27017.sock"));
    assert_eq!((parsed.hosts()[0].port_or_default(), parsed.database()), (None, Some("db")));
    let message = "a Unix socket has no port; leave the port out";
    check_error("mongodb://%2Ftmp%2Fa.sock<:27017>", Part::Port, Problem::SocketPort, message);
    let message = "the path of a Unix socket has to end in .sock";
    check_error("mongodb://<%2Ftmp%2Fx>", Part::Host, Problem::SocketSuffix, message);
    let message = "the host holds an unescaped ':'; write %3A";
    check_error("mongodb://%2Ftmp%2Fa<:>b.sock", Part::Host, Problem::UnescapedCharacter, message);
}

// --- R64: SRV

#[test]
fn r64_srv_is_read_without_dns() {
    let parsed = accepted("mongodb+srv://a.b.example.com/?srvServiceName=other");
    assert!(parsed.needs_dns() && parsed.tls());
    let notes: Vec<String> = parsed.notes().map(ToString::to_string).collect();
    let note = "needs DNS, which is not asked here: the SRV record of _other._tcp.a.b.example.com names the hosts, and \
                a TXT record could add authSource, replicaSet or loadBalanced";
    assert_eq!(notes, [note]);
    assert!(!accepted("mongodb+srv://a.b.c/?tls=false").tls());
    assert!(accepted("mongodb+srv://a.b").notes().any(|note| note.message == "the host has fewer than three parts"));
    assert!(!accepted("mongodb://h").needs_dns());
}

#[test]
fn r64_srv_has_its_own_conflicts() {
    let check = |place: &str, message: &str| {
        let part = if place.contains("<h") { Part::Host } else { Part::OptionName };
        check_error(place, part, Problem::Conflict, message);
    };
    check("mongodb+srv://<h.x.y:27017>", "mongodb+srv:// takes no port; the DNS record has it");
    check("mongodb+srv://<h.x.y,g.x.y>", "mongodb+srv:// takes one host, whose DNS record names the others");
    let message = "directConnection=true does not go with mongodb+srv://, which may name several hosts";
    check("mongodb+srv://h.x.y/?<directConnection=true>", message);
    let message = "srvMaxHosts above 0 and replicaSet do not go together";
    check("mongodb+srv://h.x.y/?<srvMaxHosts=2>&replicaSet=r", message);
    check("mongodb://h/?<srvServiceName=x>", "srvServiceName is for mongodb+srv:// only");
    check("mongodb://h/?<srvMaxHosts=0>", "srvMaxHosts is for mongodb+srv:// only");
    assert!(ConnectionString::parse("mongodb+srv://127.0.0.1").is_err());
}

// --- R29 and R65: options

#[test]
fn r29_names_have_no_case_and_values_do() {
    assert!(!accepted("mongodb://h/?retrywrites=false").retry_writes());
    assert!(!accepted("mongodb://h/?RETRYWRITES=false").retry_writes());
    let message = "retryWrites=\"False\" is neither true nor false; it is ignored; the default applies: true; allowed: \
                   true or false; the Java driver 5.4 reads it as false all the same";
    let parsed = check_warning("mongodb://h/?RETRYWRITES=<False>", Problem::BadValue, message);
    assert!(parsed.retry_writes() && parsed.value(OptionName::RetryWrites).is_none());
}

#[test]
fn r65_a_repeated_option() {
    let message = "retryWrites is given 2 times; the last one applies; give it once; the Java driver takes the last; \
                   the Node driver 6 and later refuses the connection string";
    let place = "mongodb://h/?retryWrites=true&<retrywrites=false>";
    let parsed = check_warning(place, Problem::Repeated, message);
    assert!(!parsed.retry_writes());
    let names: Vec<&str> = parsed.occurrences().iter().map(Occurrence::name).collect();
    assert_eq!(names, ["retryWrites", "retrywrites"]);
    let tags = "mongodb://h/?readPreference=nearest&readPreferenceTags=a:1&readPreferenceTags=";
    assert_eq!(accepted(tags).read_preference_tags(), [vec![("a".to_owned(), "1".to_owned())], vec![]]);
    assert!(accepted("mongodb://h/?tls=true&ssl=true").tls());
    let message = "tls and ssl contradict each other";
    check_error("mongodb://h/?tls=true&<ssl=false>", Part::OptionValue, Problem::Conflict, message);
    check_error("mongodb://h/?ssl=true&<ssl=false>", Part::OptionValue, Problem::Conflict, message);
}

#[test]
fn r65_an_option_without_name_or_value() {
    let message = "an option has no '=' and no value; write name=value; for an '&' in a value write %26";
    check_error("mongodb://h/?<w>", Part::OptionName, Problem::OptionWithoutValue, message);
    let message = "an option has no name before its '='";
    check_error("mongodb://h/?<=1>", Part::OptionName, Problem::OptionWithoutName, message);
    let message = "maxPoolSize has no value and is ignored; the default applies: 100; allowed: a whole number, 0 or \
                   more; the Java driver 5.4 refuses the whole connection string";
    check_warning("mongodb://h/?<maxPoolSize=>", Problem::EmptyValue, message);
    check_error("mongodb://h/?<authSource=>", Part::OptionValue, Problem::EmptyValue, "authSource must not be empty");
}

#[test]
fn r65_values_and_names_that_are_almost_right() {
    let message = "socketTimeoutMS=\"5s\" is no whole number; it is ignored; the default applies: 0 (waits for ever); \
                   write the number alone: 5000; the Java driver 5.4 refuses the whole connection string";
    let parsed = check_warning("mongodb://h/?socketTimeoutMS=<5s>", Problem::BadValue, message);
    assert_eq!(parsed.socket_timeout_ms(), 0);
    assert_eq!(accepted("mongodb://h/?sockettimeoutms=5").socket_timeout_ms(), 5);
    let message = "the option \"socketTimeout\" is not known and is ignored; did you mean socketTimeoutMS?";
    check_warning("mongodb://h/?<socketTimeout>=5", Problem::UnknownOption, message);
    let message = "the option \"tls_ca_certs\" is not known and is ignored";
    check_warning("mongodb://h/?<tls_ca_certs>=5", Problem::UnknownOption, message);
    let message = "wtimeout is an old name of wTimeoutMS and is ignored, as that one is given too; write wTimeoutMS";
    let parsed = check_warning("mongodb://h/?<wtimeout>=5&wtimeoutMS=10", Problem::DeprecatedName, message);
    assert_eq!(parsed.w_timeout_ms(), 10);
    let message = "serverMonitoringMode=\"Poll\" is not one of the values allowed; it is ignored; the default applies: \
                   auto; write poll";
    check_warning("mongodb://h/?serverMonitoringMode=<Poll>", Problem::BadValue, message);
    let message = "compressors=\"lz4,zlib\" names one that is not allowed; that part is ignored; allowed: some of \
                   snappy, zlib, zstd, with commas between; the Java driver 5.4 refuses the whole connection string";
    let parsed = check_warning("mongodb://h/?compressors=<lz4,zlib>", Problem::BadValue, message);
    assert_eq!(parsed.compressors(), ["zlib"]);
}

#[test]
fn r65_ports_and_ipv6() {
    let check = |place: &str, message: &str| check_error(place, Part::Port, Problem::BadPort, message);
    check("mongodb://h:<0>", "the port is not from 1 to 65535");
    check("mongodb://h:<65536>", "the port is not from 1 to 65535");
    check("mongodb://h:<>", "there is no port after the ':'; leave the ':' out for 27017");
    let message = |fix: &str| format!("an IPv6 address has to be in brackets; write {fix}");
    for (place, fix) in [
        ("<::1:27017>", "[::1]:27017"),
        ("<::1>", "[::1]"),
        ("<fe80::a:1>", "[fe80::a:1]"),
        ("<::1:8080>", "[::1]:8080, or [::1:8080]"),
    ] {
        check_error(&format!("mongodb://{place}"), Part::Host, Problem::Ipv6Brackets, &message(fix));
    }
    let host = &accepted("mongodb://[::1]:27017").hosts()[0].clone();
    assert_eq!((host.name(), host.port(), host.kind()), ("::1", Some(27_017), HostKind::IpLiteral));
    assert_eq!(accepted("mongodb://[fe80::1%25eth0]").hosts()[0].to_string(), "[fe80::1%25eth0]");
    assert_eq!(accepted("mongodb://h").hosts()[0].port_or_default(), Some(DEFAULT_PORT));
    let message = "\"::g\" is no IPv6 address";
    check_error("mongodb://<[::g]:1>", Part::Host, Problem::BadHost, message);
}

// --- More of the syntax

#[test]
fn a_scheme_that_is_none() {
    let check = |place: &str, help: &str| {
        let message = format!("a connection string begins with mongodb:// or mongodb+srv://{help}");
        check_error(place, Part::Scheme, Problem::Scheme, &message);
    };
    check("<>", "; the text is empty");
    check("<mongo://>h", "");
    check("<\"mongodb://>h\"", "; remove the spaces or quotation marks before it");
    check("<MongoDB://>h", "; write the scheme in small letters");
    check("<>localhost:27017", "");
}

#[test]
fn a_long_string_is_refused_unread() {
    let text = format!("mongodb://{}", "h,".repeat(MAX_LENGTH_BYTES));
    assert_eq!(ConnectionString::parse(&text).unwrap_err().first().problem, Problem::TooLong);
    let with_options = |count: usize| ConnectionString::parse(&format!("mongodb://h/?{}", "x=1&".repeat(count)));
    assert_eq!(with_options(MAX_OPTIONS).unwrap().warnings().count(), MAX_OPTIONS);
    assert_eq!(with_options(MAX_OPTIONS + 1).unwrap_err().first().problem, Problem::TooLong);
}

#[test]
fn a_database_has_forbidden_characters() {
    assert_eq!(accepted("mongodb://h/my%3Ddb").database(), Some("my=db"));
    assert_eq!(accepted("mongodb://h/db.coll").database(), Some("db.coll"));
    assert_eq!(accepted("mongodb://h/").database(), None);
    let message = "a database name cannot hold '$'";
    check_error("mongodb://h/<a$b>", Part::Database, Problem::BadDatabase, message);
    let message = "there is no database name before the '.'";
    check_error("mongodb://h/<.coll>", Part::Database, Problem::BadDatabase, message);
    let message = "a database name cannot hold '/'; in the path of a Unix socket write %2F for each '/'";
    check_error("mongodb://rel/<sub/x.sock>", Part::Database, Problem::BadDatabase, message);
}

#[test]
fn semicolons_separate_options_as_in_the_java_driver() {
    let parsed = accepted("mongodb://h/?w=1;journal=true&;");
    assert_eq!((parsed.w(), parsed.journal()), (Some(&W::Nodes(1)), Some(true)));
    assert!(parsed.notes().any(|note| note.problem == Problem::LegacySeparator));
    assert_eq!(parsed.to_uri_string(), "mongodb://h/?w=1&journal=true");
}

// --- Conflicts and credentials

#[test]
fn options_that_do_not_go_together_are_all_named() {
    let conflicts = |query: &str| {
        let text = format!("mongodb://h/?{query}");
        let error = ConnectionString::parse(&text).expect_err(&text);
        error.errors().map(|error| error.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        conflicts("minPoolSize=200&w=0&journal=true"),
        [
            "minPoolSize is 200 and maxPoolSize is 100; the least must not be more than the most",
            "w=0 asks for no acknowledgement and journal=true for one",
        ]
    );
    assert_eq!(conflicts("proxyPort=1"), ["proxyPort needs proxyHost too"]);
    assert_eq!(conflicts("proxyHost=p&proxyPassword=x"), ["proxyPassword needs proxyUsername too"]);
    assert_eq!(
        conflicts("tlsInsecure=false&sslInvalidHostNameAllowed=false"),
        ["tlsAllowInvalidHostnames and tlsInsecure must not be given together, whatever their values"]
    );
    for option in ["readPreferenceTags=a:1", "maxStalenessSeconds=90"] {
        let message = format!("{} needs a readPreference other than primary", option.split('=').next().unwrap());
        assert_eq!(conflicts(option), std::slice::from_ref(&message));
        assert_eq!(conflicts(&format!("readPreference=primary&{option}")), [message]);
    }
    assert_eq!(conflicts(&format!("appName={}", "x".repeat(129))), ["appName is longer than 128 bytes"]);
    accepted("mongodb://h/?minPoolSize=200&maxPoolSize=0");
    accepted("mongodb://h/?readPreferenceTags=&maxStalenessSeconds=-1");
    accepted(&format!("mongodb://h/?appName={}", "x".repeat(128)));
}

/// `user`, `source`, mechanism and properties of the credential, or the errors.
fn credential(text: &str) -> Result<Option<String>, String> {
    let parsed = ConnectionString::parse(text).map_err(|error| error.to_string())?;
    Ok(parsed.credential().map(|credential| {
        let properties = credential.properties.iter().map(|p| format!(" {}:{}", p.name, p.value.expose()));
        format!(
            "{} in {} by {}{}",
            credential.user.as_deref().unwrap_or("-"),
            credential.source,
            credential.mechanism.map_or("default", AuthMechanism::name),
            properties.collect::<String>()
        )
    }))
}

#[test]
fn a_credential_follows_its_mechanism() {
    let cases = [
        ("u:p@h", Some("u in admin by default")),
        ("u:p@h/db", Some("u in db by default")),
        ("u:p@h/db?authSource=s", Some("u in s by default")),
        ("h/db", None),
        ("h/?authSource=s", None),
        ("u:p@h/db?authMechanism=SCRAM-SHA-256", Some("u in db by SCRAM-SHA-256")),
        ("u:p@h/?authMechanism=SCRAM-SHA-1", Some("u in admin by SCRAM-SHA-1")),
        ("u:p@h/?authMechanism=PLAIN", Some("u in $external by PLAIN")),
        ("u:p@h/db?authMechanism=PLAIN", Some("u in db by PLAIN")),
        ("h/db?authMechanism=MONGODB-X509", Some("- in $external by MONGODB-X509")),
        ("u@h/db?authMechanism=GSSAPI", Some("u in $external by GSSAPI SERVICE_NAME:mongodb")),
        ("u@h/?authMechanism=GSSAPI&gssapiServiceName=s", Some("u in $external by GSSAPI SERVICE_NAME:s")),
        ("h/?authMechanism=MONGODB-AWS", Some("- in $external by MONGODB-AWS")),
        ("h/?authMechanism=MONGODB-OIDC", Some("- in $external by MONGODB-OIDC")),
    ];
    for (text, expected) in cases {
        assert_eq!(credential(&format!("mongodb://{text}")), Ok(expected.map(str::to_owned)), "{text}");
    }
    let oidc = "mongodb://h/?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:azure,TOKEN_RESOURCE:a:b";
    let parsed = accepted(oidc);
    let property = parsed.credential().and_then(|credential| credential.property("token_resource")).map(Secret::expose);
    assert_eq!(property, Some("a:b"));
}

#[test]
fn a_credential_that_contradicts_its_mechanism_is_refused() {
    let cases = [
        ("h/?authMechanism=SCRAM-SHA-1", "authMechanism SCRAM-SHA-1 needs a user name"),
        ("u@h/?authMechanism=SCRAM-SHA-256", "authMechanism SCRAM-SHA-256 needs a password"),
        ("u@h/?authMechanism=PLAIN", "authMechanism PLAIN needs a password"),
        ("h/?authMechanism=MONGODB-CR", "authMechanism MONGODB-CR needs a user name"),
        ("h/?authMechanism=GSSAPI", "authMechanism GSSAPI needs a user name"),
        (
            "u:p@h/?authMechanism=MONGODB-X509",
            "authMechanism MONGODB-X509 takes no password; remove the ':' and what follows it up to the '@'",
        ),
        ("u@h/?authMechanism=MONGODB-AWS", "authMechanism MONGODB-AWS needs a password where it has a user name"),
        ("u@h/?authMechanism=GSSAPI&authSource=x", "authSource must be $external with GSSAPI"),
        ("h/?authMechanism=MONGODB-X509&authSource=x", "authSource must be $external with MONGODB-X509"),
        (
            "u:p@h/?authMechanism=PLAIN&authMechanismProperties=A:b",
            "authMechanismProperties names a property that the mechanism does not have; PLAIN has no properties",
        ),
        (
            "u@h/?authMechanism=GSSAPI&authMechanismProperties=CANONICALIZE_HOST_NAME:x",
            "CANONICALIZE_HOST_NAME has a value that is not allowed; allowed: none, forward, forwardAndReverse, true, \
             false",
        ),
        (
            "h/?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:x",
            "ENVIRONMENT has a value that is not allowed; allowed: azure, gcp, k8s, test",
        ),
        (
            "u@h/?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:test",
            "ENVIRONMENT test takes no user name",
        ),
        (
            "h/?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:gcp",
            "ENVIRONMENT gcp needs TOKEN_RESOURCE too",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(credential(&format!("mongodb://{text}")), Err(message.to_owned()), "{text}");
    }
}

// --- Notes

#[test]
fn a_timeout_that_another_replaces_is_noted() {
    let parsed = accepted("mongodb://h/?timeoutMS=0&socketTimeoutMS=5&maxAdaptiveRetries=2&tlsCAFile=f");
    let notes: Vec<String> = parsed.notes().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "socketTimeoutMS has no effect, because timeoutMS is set",
            "the Java driver 5.4 ignores maxAdaptiveRetries; 5.12 and later know it",
            "the Java driver ignores tlsCAFile",
        ]
    );
}

// --- Variations

#[test]
fn with_hosts_points_a_string_elsewhere() {
    let hosts: Vec<Host> = vec!["127.0.0.1:4000".parse().unwrap(), "[::1]".parse().unwrap()];
    let changed = read("mongodb://u:p@a,b/db?w=1").with_hosts(&hosts).unwrap();
    assert_eq!(changed.to_uri_string(), "mongodb://u:p@127.0.0.1:4000,[::1]/db?w=1");
    let srv = read("mongodb+srv://a.b.c/?srvMaxHosts=2&w=1");
    assert_eq!(srv.with_hosts(&hosts[..1]).unwrap().to_uri_string(), "mongodb://127.0.0.1:4000/?w=1&tls=true");
    let message = "directConnection=true needs exactly one host";
    let error = read("mongodb://h/?directConnection=true").with_hosts(&hosts).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert!(read("mongodb://h").with_hosts(&[]).is_err());
    assert_eq!("a b".parse::<Host>().unwrap_err().first().problem, Problem::BadHost);
}

#[test]
fn with_option_replaces_every_occurrence() {
    let string = read("mongodb://h/?ssl=true&w=1&tls=true");
    assert_eq!(string.with_option("TLS", "false").unwrap().to_uri_string(), "mongodb://h/?w=1&tls=false");
    assert_eq!(string.with_option("appName", "a&b").unwrap().app_name(), Some("a&b"));
    assert_eq!(string.without_option("ssl").unwrap().to_uri_string(), "mongodb://h/?w=1");
    let error = string.with_option("socketTimeout", "5").unwrap_err().to_string();
    assert_eq!(error, "there is no option \"socketTimeout\"; did you mean socketTimeoutMS?");
    let error = string.with_option("socketTimeoutMS", "-1").unwrap_err();
    assert_eq!(error.first().severity, Severity::Error);
    assert!(error.to_string().starts_with("socketTimeoutMS=\"-1\" is less than 0;"), "{error}");
    assert!(string.with_option("loadBalanced", "true").unwrap().with_option("replicaSet", "r").is_err());
}

// --- Secrets

#[test]
fn what_is_shown_is_masked() {
    let shown = |text: &str| read(text).to_string();
    assert_eq!(shown("mongodb://u:secret@h:1/db?w=1"), "mongodb://u:***@h:1/db?w=1");
    assert_eq!(format!("{:?}", read("mongodb://u:secret@h")), "ConnectionString(mongodb://u:***@h/)");
    assert_eq!(
        shown("mongodb://h/?tlsCertificateKeyFilePassword=secret"),
        "mongodb://h/?tlsCertificateKeyFilePassword=***"
    );
    let aws = "mongodb://u:s@h/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:";
    let masked = "mongodb://u:***@h/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:***";
    assert_eq!(shown(&format!("{aws}secret")), masked);
    // A misspelled name may stand before a password.
    assert_eq!(shown("mongodb://h/?proxyPasswort=secret"), "mongodb://h/?proxyPasswort=***");
    // `&` in a password: what follows is a piece of it.
    let proxy = "mongodb://h/?proxyHost=p&proxyUsername=u&proxyPassword=sec&ret=x";
    assert_eq!(shown(proxy), "mongodb://h/?proxyHost=p&proxyUsername=u&proxyPassword=***&***=***");
    // `?` in a password: the hosts are a piece of it.
    assert_eq!(shown("mongodb://alice:12?secret=x@h"), "mongodb://alice***");
}

#[test]
fn a_snippet_marks_the_place_in_the_masked_string() {
    let snippet = |text: &str| ConnectionString::parse(text).unwrap_err().first().snippet();
    let expected = "mongodb://u:***@h,,g\n                  ^";
    assert_eq!(snippet("mongodb://u:secret@h,,g"), expected);
    assert_eq!(snippet("mongodb://u:sec@ret@h"), "mongodb://u:***@h\n            ^^^");
    assert_eq!(snippet("mongodb://alice:secret"), "mongodb://alice:***\n                ^^^");
    assert_eq!(snippet("mongodb://h\u{7}\n:x"), "mongodb://h??:***\n              ^^^");
}

/// Everything that may be shown of reading a text.
fn all_output(text: &str) -> String {
    let diagnostic = |diagnostic: &Diagnostic| format!("{diagnostic}\n{diagnostic:?}\n{}\n", diagnostic.snippet());
    match ConnectionString::parse(text) {
        Ok(parsed) => {
            let diagnostics = parsed.warnings().chain(parsed.notes()).map(diagnostic).collect::<String>();
            format!("{parsed}\n{parsed:?}\n{:?}\n{:?}\n{diagnostics}", parsed.occurrences(), parsed.credential())
        }
        Err(error) => format!("{error}\n{error:?}\n{}", error.errors().map(diagnostic).collect::<String>()),
    }
}

/// Texts that are near to a connection string.
fn near_miss() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("mongodb://".to_owned()),
        Just("mongodb+srv://".to_owned()),
        "[:@/?#&=;,%.\\[\\] +]{1,3}",
        "[a-zA-Z0-9é\u{7}]{1,6}",
        Just("%2F".to_owned()),
        Just("%40".to_owned()),
        Just(".sock".to_owned()),
        Just("[::1]".to_owned()),
        Just("27017".to_owned()),
        proptest::sample::select(OPTIONS).prop_map(|spec| format!("{}=", spec.name)),
        Just("true".to_owned()),
    ];
    (any::<bool>(), proptest::collection::vec(piece, 0..14))
        .prop_map(|(begins_well, pieces)| format!("{}{}", if begins_well { "mongodb://" } else { "" }, pieces.concat()))
}

/// A piece of a password that stands nowhere else.
const MARKER: &str = "sEcr3tX9";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// No text makes it panic, and every place lies within the text.
    #[test]
    fn any_text_is_read_or_refused(text in prop_oneof![near_miss(), any::<String>()]) {
        all_output(&text);
        let check = |diagnostic: &Diagnostic| text.get(diagnostic.span.clone()).is_some();
        match ConnectionString::parse(&text) {
            Ok(parsed) => prop_assert!(parsed.warnings().chain(parsed.notes()).all(check)),
            Err(error) => prop_assert!(error.errors().all(check)),
        }
    }

    /// What is written from a string is read back as the same.
    #[test]
    fn reading_what_is_written_gives_the_same(text in near_miss()) {
        if let Ok(parsed) = ConnectionString::parse(&text) {
            let written = parsed.to_uri_string();
            let again = ConnectionString::parse(&written);
            let again = again.map_err(|error| TestCaseError::fail(format!("{written}: {error}")))?;
            prop_assert_eq!(&again.settings, &parsed.settings, "{}", written);
            prop_assert_eq!(again, parsed, "{}", written);
        }
    }

    /// Any user name, password, database and option value can be written and read.
    #[test]
    fn any_parts_survive(
        user in "\\PC{1,12}",
        password in any::<String>(),
        database in "[^/\\\\ \"$\u{0}.]{1,12}",
        app in "\\PC{1,20}",
    ) {
        let text = format!(
            "mongodb://{}:{}@h/{}?appName={}",
            percent::encode_strict(&user),
            percent::encode_strict(&password),
            percent::encode_strict(&database),
            percent::encode_value(&app)
        );
        let parsed = ConnectionString::parse(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(parsed.user(), Some(user.as_str()));
        prop_assert_eq!(parsed.password().map(Secret::expose), Some(password.as_str()));
        prop_assert_eq!(parsed.database(), Some(database.as_str()));
        prop_assert_eq!(parsed.app_name(), Some(app.as_str()));
        prop_assert_eq!(ConnectionString::parse(&parsed.to_uri_string()), Ok(parsed));
    }

    /// No output holds a password, escaped or not, whatever else it holds and however wrong the string is.
    #[test]
    fn a_password_is_never_shown(
        before in "[:@/?#&=;,%.\\[\\] +0-9]{0,6}",
        after in "[:@/?#&=;,%.\\[\\] +0-9]{0,6}",
        rest in proptest::sample::select(vec!["", "/db", "/?w=x&foo=1", ":1/?socketTimeoutMS=5s", ",,", "?a"]),
    ) {
        let password = format!("{before}{MARKER}{after}");
        let escaped = percent::encode_strict(&password);
        let texts = [
            format!("mongodb://user:{password}@h{rest}"),
            format!("mongodb+srv://user:{password}@h{rest}"),
            format!("mongodb://user:{escaped}@h{rest}"),
            format!("mongo://user:{password}@h{rest}"),
            format!("user:{password}@h{rest}"),
            format!("mongodb://h/?proxyHost=p&proxyUsername=u&proxyPassword={password}"),
            format!("mongodb://h/?proxyHost=p&proxyUsername=u&proxyPassword={escaped}"),
            format!("mongodb://h/?proxyPassword={password}&tls=x"),
            format!("mongodb://h/?tlsCertificateKeyFilePassword={password}"),
            format!("mongodb://h/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:{password}"),
            format!("mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:{escaped},x"),
            format!("mongodb://h/?tlsCertificateKeyPassword={escaped}"),
        ];
        for text in texts {
            let output = all_output(&text);
            prop_assert!(!output.contains(MARKER), "{}\n{}", text, output);
        }
    }

    /// Changing an option changes what its accessor reads, and nothing else.
    #[test]
    fn with_option_sets_it(text in near_miss(), value in 0_u32..100_000) {
        if let Ok(parsed) = ConnectionString::parse(&text) {
            let changed = parsed.with_option("socketTimeoutMS", &value.to_string()).unwrap();
            prop_assert_eq!(changed.socket_timeout_ms(), u64::from(value));
            let mut expected = parsed.settings.clone();
            expected.insert(OptionName::SocketTimeoutMs, Value::Int(value.into()));
            prop_assert_eq!(&changed.settings, &expected);
            prop_assert_eq!(changed.hosts(), parsed.hosts());
        }
    }
}
