//! What people ran into, as cases; each names its report.

use std::fs;

use backfire_check::{Amount, Prediction, Report, Request, check, output};

/// Checks a service of these files.
fn run(files: &[(&str, &str)]) -> Report {
    with(files, |_| {})
}

fn with(files: &[(&str, &str)], change: impl FnOnce(&mut Request)) -> Report {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut request = Request { paths: vec![folder.path().to_path_buf()], ..Request::default() };
    change(&mut request);
    check(&request).unwrap_or_else(|error| panic!("{error}"))
}

fn stated(text: &str) -> Report {
    run(&[("backfire.toml", text)])
}

fn of_uri(uri: &str) -> Report {
    check(&Request { uri: Some(uri.to_owned()), ..Request::default() }).unwrap()
}

fn first(report: &Report) -> &Prediction {
    &report.services[0].predictions[0]
}

/// Whether a finding of the rule has this text in its message or its fix.
fn says(report: &Report, rule: &str, part: &str) -> bool {
    report.findings.iter().any(|finding| {
        finding.rule == rule
            && (finding.message.contains(part) || finding.fix.as_ref().is_some_and(|fix| fix.contains(part)))
    })
}

fn has(report: &Report, rule: &str) -> bool {
    report.findings.iter().any(|finding| finding.rule == rule)
}

#[test]
fn r11_a_transaction_on_a_standalone() {
    let text = "[client]\nuri = \"mongodb://h/?retryWrites=false&socketTimeoutMS=1\"\n[[listener]]\nname = \"a\"\n[[listener.write]]\nop = \"insert\"\ntransaction = true\n";
    assert!(says(&stated(text), "BF042", "needs a replica set"));
    assert!(!has(&stated(&text.replace("h/?", "h/?replicaSet=r&")), "BF042"));
}

#[test]
fn r13_an_engine_without_retryable_writes() {
    let report = run(&[
        ("pom.xml", "<project/>"),
        ("src/main/resources/application.yml", "spring.mongodb.embedded.storage.engine: ephemeralForTest\n"),
    ]);
    assert!(says(&report, "BF041", "wiredTiger"));
}

#[test]
fn r29_and_r93_services_that_emulate_mongodb() {
    for (uri, rule, part) in [
        (
            "mongodb://c.x.docdb.amazonaws.com:27017/?socketTimeoutMS=1",
            Some("BF032"),
            "DocumentDB has no retryable writes",
        ),
        ("mongodb://c.documents.azure.com:10255/", Some("BF032"), "Cosmos DB has no"),
        ("mongodb://c.mongo.cosmos.azure.com/?retryWrites=true", Some("BF032"), "server feature"),
        ("mongodb://c.docdb.amazonaws.com/?retrywrites=false", None, ""),
        ("mongodb://h/?RETRYWRITES=False", Some("BF031"), "is neither true nor false"),
    ] {
        let report = of_uri(uri);
        match rule {
            Some(rule) => assert!(says(&report, rule, part), "{uri}: {:?}", report.findings),
            None => assert!(!has(&report, "BF032") && !has(&report, "BF006"), "{uri}"),
        }
    }
}

#[test]
fn r32_an_unordered_bulk_is_retryable_unless_it_holds_a_multi_write() {
    let of = |models: &str, family: &str| {
        let text = format!(
            "[driver]\nfamily = \"{family}\"\n[client]\nuri = \"mongodb://h/?socketTimeoutMS=1000\"\n[[listener]]\nname = \"a\"\nexecutions = 1\n[[listener.write]]\nop = \"bulk\"\nordered = false\nmodels = {models}\n"
        );
        let report = stated(&text);
        (first(&report).sends.clone(), has(&report, "BF019"))
    };
    assert_eq!(of("[\"insert\", \"insert\"]", "java"), (Amount::Exact(2), false));
    let (sends, found) = of("[\"insert\", \"insert\", \"update-many\"]", "java");
    assert!(found && sends.least() == Some(1) && sends.most() == Some(2), "{sends:?}");
    // Other drivers judge each command: the insert is resent.
    let (sends, found) = of("[\"insert\", \"update-many\"]", "node");
    assert!(!found && sends.least() == Some(2), "{sends:?}");
}

#[test]
fn r34_a_socket_timeout_is_no_deadline_and_timeout_ms_is() {
    let report = of_uri("mongodb://h/?socketTimeoutMS=30000");
    assert!(says(&report, "BF002", "the client gives up after 30 s, the server does not"));
    assert!(!has(&of_uri("mongodb://h/?timeoutMS=30000"), "BF002"));
}

#[test]
fn r38_drivers_differ() {
    let sends = |family: &str, version: &str, options: &str| {
        let text = format!(
            "[driver]\nfamily = \"{family}\"\nversion = \"{version}\"\n[client]\nuri = \"mongodb://h/?{options}\"\n[server]\nstall_ms = 6000\n[[listener]]\nname = \"a\"\nexecutions = 2\n[[listener.write]]\nop = \"insert\"\n"
        );
        let report = stated(&text);
        (first(&report).sends_per_execution.clone(), report.findings.iter().map(|f| f.rule).collect::<Vec<_>>())
    };
    // facts/client.md B, row by row.
    for (family, version, options, expected, rule) in [
        ("java", "5.4.0", "socketTimeoutMS=1000", 2, None),
        ("java", "5.4.0", "socketTimeoutMS=1000&retryWrites=false", 1, Some("BF006")),
        ("java", "5.4.0", "timeoutMS=1000", 1, None),
        ("java", "5.4.0", "timeoutMS=3000&socketTimeoutMS=500", 1, Some("BF004")),
        ("java", "5.1.4", "timeoutMS=1000", 1, Some("BF005")),
        ("java", "5.4.0", "w=1", 1, Some("BF001")),
        ("node", "6.21.0", "socketTimeoutMS=1000", 2, None),
        ("node", "6.21.0", "timeoutMS=1000", 1, None),
        ("node", "6.22.0", "timeoutMS=1000", 1, Some("BF005")),
        ("node", "7.7.0", "timeoutMS=1000", 1, None),
        ("node", "7.8.0", "timeoutMS=1000", 1, Some("BF005")),
        ("python", "4.20.1", "socketTimeoutMS=1000", 2, None),
        ("rust", "3.9.1", "socketTimeoutMS=1000", 1, Some("BF004")),
        ("go", "1.17.10", "socketTimeoutMS=1000", 2, None),
        ("go", "2.10.0", "socketTimeoutMS=1000", 1, Some("BF004")),
    ] {
        let (sends, rules) = sends(family, version, options);
        assert_eq!(sends, Amount::Exact(expected), "{family} {version} {options}");
        if let Some(rule) = rule {
            assert!(rules.contains(&rule), "{family} {version} {options}: {rules:?}");
        }
    }
}

#[test]
fn r39_too_little_time_left_sends_nothing() {
    let text = "[client]\nuri = \"mongodb://h/?timeoutMS=100\"\nrtt_ms = 120\n[[listener]]\nname = \"a\"\nexecutions = 2\n[[listener.write]]\nop = \"insert\"\n";
    assert_eq!(first(&stated(text)).sends, Amount::Exact(0));
    assert_eq!(first(&stated(&text.replace("120", "20"))).sends, Amount::Exact(2));
}

#[test]
fn r62_to_r65_connection_strings() {
    for (uri, part) in [
        ("mongodb://u:s3cret@ss@h/", "@"),
        ("mongodb://u:s3cret%@h/", "%"),
        ("mongodb://u:s3cret%2540@h/", "twice"),
        ("mongodb:///tmp/mongodb-27017.sock/db", "%2F"),
        ("mongodb://h/?tls=true&ssl=false", "contradict"),
        ("mongodb://h/?socketTimeout=5", "socketTimeoutMS"),
        ("mongodb://h/?socketTimeoutMS=5s", "is no whole number"),
        ("mongodb://h:65536/", "port"),
        ("mongodb+srv://h.x.y:27017/", "port"),
        ("mongodb://h/?retryWrites=true&retryWrites=false", "2 times"),
    ] {
        let report = of_uri(uri);
        assert!(says(&report, "BF031", part), "{uri}: {:?}", report.findings);
        assert!(!output::text::report(&report).contains("s3cret"), "{uri}");
    }
    for uri in [
        "mongodb://u:!$&'()*+,;=@h/?timeoutMS=1",
        "mongodb://alice:@h/?timeoutMS=1",
        "mongodb://h/?replicaset=my@rs&timeoutMS=1",
    ] {
        assert!(!has(&of_uri(uri), "BF031"), "{uri}");
    }
}

#[test]
fn r67_five_spellings_of_the_poll_interval() {
    let interval = |boot: &str, yaml: &str| {
        let pom = format!(
            "<project><parent><groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-parent</artifactId><version>{boot}</version></parent></project>"
        );
        let yaml = format!("spring:\n  kafka:\n    consumer:\n{yaml}");
        let report = run(&[("pom.xml", &pom), ("src/main/resources/application.yml", &yaml)]);
        (first(&report).exact_budget.allowed_ms.unwrap(), has(&report, "BF033"))
    };
    let below = |text: &str| format!("      properties:\n{text}");
    assert_eq!(interval("3.4.0", &below("        max.poll.interval.ms: 120000\n")), (120_000, false));
    assert_eq!(interval("3.4.0", &below("        \"[max.poll.interval.ms]\": 120000\n")), (120_000, false));
    let nested = "        max:\n          poll:\n            interval:\n              ms: 120000\n";
    assert_eq!(interval("3.4.0", &below(nested)), (120_000, false));
    assert_eq!(interval("3.4.0", &below("        max-poll-interval-ms: 120000\n")), (300_000, true));
    assert_eq!(interval("3.4.0", "      max-poll-interval: 2m\n"), (300_000, true));
    assert_eq!(interval("3.5.0", "      max-poll-interval: 2m\n"), (120_000, false));
    assert_eq!(interval("3.5.0", "      max-poll-interval-ms: 120000\n"), (300_000, true));
}

#[test]
fn r68_the_largest_safe_number_of_records() {
    let text = "[client]\nuri = \"mongodb://h/?socketTimeoutMS=100\"\n[kafka]\nmax_poll_records = 500\nmax_poll_interval_ms = 300000\n[[listener]]\nname = \"a\"\nexecutions = 1\nrecord_ms = 700\n[[listener.write]]\nop = \"update\"\n";
    let report = stated(text);
    assert_eq!(first(&report).exact_budget.needed_ms, Amount::Exact(350_000));
    assert_eq!(first(&report).largest_poll_records, Some(428));
    assert!(says(&report, "BF014", "max.poll.records=428"), "{:?}", report.findings);
}

#[test]
fn r69_a_batch_waits_differently_in_each_version() {
    let gap = |kind: &str, version: &str| {
        let text = format!(
            "[client]\nuri = \"mongodb://h/?timeoutMS=3000\"\n[kafka]\nspring_kafka = \"{version}\"\nmax_poll_interval_ms = 10000\n[[listener]]\nname = \"a\"\nkind = \"{kind}\"\nback_off = {{ kind = \"fixed\", interval_ms = 8000, max_retries = 2 }}\n[[listener.write]]\nop = \"update\"\n"
        );
        let report = stated(&text);
        first(&report).exact_budget.needed_ms.most().unwrap()
    };
    assert_eq!((gap("batch", "2.8.0"), gap("batch", "2.9.4"), gap("batch", "3.0.1")), (11_000, 11_000, 11_000));
    assert_eq!((gap("batch", "2.9.5"), gap("batch", "3.0.2"), gap("batch", "3.3.0")), (8_000, 8_000, 8_000));
    assert_eq!((gap("batch", "3.3.16"), gap("batch", "4.0.8"), gap("batch", "4.1.2")), (3_000, 3_000, 3_000));
    for version in ["2.8.0", "3.0.2", "3.3.16", "4.1.2"] {
        assert_eq!(gap("single", version), 11_000, "{version}");
    }
}

#[test]
fn r75_back_offs_without_an_end() {
    let of = |back_off: &str| {
        stated(&format!(
            "[client]\nuri = \"mongodb://h/?socketTimeoutMS=1000\"\n[[listener]]\nname = \"a\"\nback_off = {back_off}\n"
        ))
    };
    for (back_off, steps) in [
        ("{ kind = \"exponential\", initial_interval_ms = 1000, multiplier = 2.0 }", "16 s, 30 s, 30 s"),
        ("{ kind = \"fixed\" }", "5 s, 5 s"),
        ("{ kind = \"fixed\", interval_ms = 1000, max_retries = 9223372036854775807 }", "1 s, 1 s"),
    ] {
        let report = of(back_off);
        assert!(says(&report, "BF009", steps), "{back_off}: {:?}", report.findings);
        assert!(first(&report).executions.is_unbounded());
    }
    let limited = "{ kind = \"exponential-max-retries\", max_retries = 6, initial_interval_ms = 1000, multiplier = 2.0, max_interval_ms = 10000 }";
    let report = of(limited);
    assert!(!has(&report, "BF009"));
    // 1 + 2 + 4 + 8 + 10 + 10 s, and 7 executions of 1 or 2 s.
    assert_eq!(first(&report).dead_letter_ms.most(), Some(35_000 + 7 * 2_000));
}

#[test]
fn r78_and_r89_stacked_retries_multiply() {
    let text = "[client]\nuri = \"mongodb://h/?socketTimeoutMS=1000\"\n[[listener]]\nname = \"a\"\nback_off = { kind = \"fixed\", interval_ms = 0, max_retries = 3 }\ninner_executions = 3\n[[listener.write]]\nop = \"update\"\n";
    let report = stated(text);
    assert_eq!((&first(&report).executions, &first(&report).sends), (&Amount::Exact(12), &Amount::Exact(24)));
    assert!(says(&report, "BF020", "12 executions in all"));
}

#[test]
fn a_timeout_that_is_longer_than_the_poll_interval_leaves_no_bound() {
    let text = "[client]\nuri = \"mongodb://h/?socketTimeoutMS=3000\"\n[kafka]\nmax_poll_interval_ms = 4000\nconsumers = 2\n[[listener]]\nname = \"a\"\nback_off = { kind = \"fixed\", interval_ms = 0, max_retries = 3 }\n[[listener.write]]\nop = \"insert\"\n";
    let report = stated(text);
    assert!(has(&report, "BF030") && first(&report).executions.is_unbounded());
}

/// R11, https://github.com/Automattic/mongoose/issues/7073 and others: which of the causes applies is in the code.
#[test]
fn r11_transactions_of_the_sources() {
    let java = |around: &str| {
        format!(
            "class C {{ MongoTemplate t; @Bean MongoTransactionManager m(MongoDatabaseFactory f) {{ return new MongoTransactionManager(f); }}\n\
             {around} @KafkaListener(topics = \"t\") public void on(String s) {{ t.insert(new D(s)); }} }} class D {{ @Id String id; D(String id) {{ this.id = id; }} }}"
        )
    };
    let yaml = "spring.data.mongodb.uri: mongodb://h/?retryWrites=false&socketTimeoutMS=1000\n";
    let of = |around: &str| {
        run(&[
            ("pom.xml", "<project/>"),
            ("src/main/java/C.java", &java(around)),
            ("src/main/resources/application.yml", yaml),
        ])
    };
    assert!(says(&of("@Transactional"), "BF042", "needs a replica set"));
    assert!(!has(&of(""), "BF042"));
}

/// R35, https://github.com/mongodb/docs-node/pull/643: the rule of thumb for a socket timeout, and what it does not do.
#[test]
fn r35_the_rule_of_thumb_is_on_the_page() {
    let page = backfire_check::rules::explain(backfire_check::rules::find("BF001").unwrap());
    assert!(page.contains("two to three times") && page.contains("the server goes on with the write"), "{page}");
}

/// R67, https://github.com/spring-projects/spring-kafka/pull/976: what an annotation sets is stronger than the configuration.
#[test]
fn r67_properties_of_an_annotation() {
    let java = "class C { MongoTemplate t; @KafkaListener(topics = \"t\", properties = \"max.poll.interval.ms=120000\") void on(O o) { t.save(o); } }";
    let report = run(&[
        ("pom.xml", "<project/>"),
        ("src/main/java/C.java", java),
        ("src/main/resources/application.yml", "spring.kafka.properties.max.poll.interval.ms: 5000\n"),
    ]);
    assert_eq!(first(&report).exact_budget.allowed_ms, Some(120_000));
}

/// R82, https://github.com/openimsdk/open-im-server/issues/3799: a handler that logs a failed write and goes on loses it.
#[test]
fn r82_a_failure_that_is_only_logged() {
    let java = |catch: &str| {
        format!(
            "class C {{ MongoTemplate t; @KafkaListener(topics = \"t\") void on(O o) {{ try {{ t.save(o); }} catch (DataAccessException e) {{ {catch} }} }} }}"
        )
    };
    let of = |catch: &str| {
        let yaml = "spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000\n";
        run(&[
            ("pom.xml", "<project/>"),
            ("src/main/java/C.java", &java(catch)),
            ("src/main/resources/application.yml", yaml),
        ])
    };
    let lost = of("log.error(\"not stored\", e);");
    assert!(says(&lost, "BF044", "a failed save ends here"));
    // No retry follows, whatever the error handler says.
    assert_eq!(first(&lost).executions, Amount::Exact(1));
    let thrown = of("log.error(\"not stored\", e); throw e;");
    assert!(!has(&thrown, "BF044"));
    assert_eq!(first(&thrown).executions, Amount::Exact(10));
}
