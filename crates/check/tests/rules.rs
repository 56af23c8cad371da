//! Each rule on a service that it is about, and on one that is right.

use std::fs;

use backfire_check::{Report, Request, check};

fn run(files: &[(&str, &str)]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    check(&Request { paths: vec![folder.path().to_path_buf()], ..Request::default() })
        .unwrap_or_else(|error| panic!("{error}\n{files:?}"))
}

fn has(report: &Report, rule: &str) -> bool {
    report.findings.iter().any(|finding| finding.rule == rule)
}

const RIGHT: &str = "mongodb://h/?replicaSet=r&timeoutMS=10000";

/// A service of one listener; `write` and `listener` are lines of TOML.
fn stated(uri: &str, top: &str, listener: &str, write: &str) -> Report {
    let text =
        format!("client.uri = \"{uri}\"\n{top}\n[[listener]]\nname = \"a\"\n{listener}\n[[listener.write]]\n{write}\n");
    run(&[("backfire.toml", &text)])
}

#[test]
fn a_rule_finds_what_it_is_about_and_leaves_alone_what_is_right() {
    let fixed = "back_off = { kind = \"fixed\", interval_ms = 1000, max_retries = 3 }";
    let socket = "mongodb://h/?replicaSet=r&socketTimeoutMS=30000";
    let java = |version: &str| format!("driver = {{ family = \"java\", version = \"{version}\" }}");
    let update = "op = \"update\"\nguarded = true";
    let cases: Vec<(&str, Report, Report)> = vec![
        ("BF001", stated("mongodb://h/", "", fixed, update), stated(RIGHT, "", fixed, update)),
        ("BF002", stated(socket, "", fixed, update), stated(RIGHT, "", fixed, update)),
        (
            "BF003",
            stated(socket, "", fixed, "op = \"find-and-modify\"\nmax_time_ms = 30000"),
            stated(socket, "", fixed, "op = \"find-and-modify\"\nmax_time_ms = 20000"),
        ),
        (
            "BF004",
            stated(
                "mongodb://h/?socketTimeoutMS=5",
                "driver = { family = \"go\", version = \"2.1.0\" }",
                fixed,
                update,
            ),
            stated(
                "mongodb://h/?socketTimeoutMS=5",
                "driver = { family = \"go\", version = \"1.17.1\" }",
                fixed,
                update,
            ),
        ),
        ("BF005", stated(RIGHT, &java("5.1.4"), fixed, update), stated(RIGHT, &java("5.2.0"), fixed, update)),
        ("BF006", stated(&format!("{socket}&retryWrites=false"), "", fixed, update), stated(socket, "", fixed, update)),
        ("BF008", stated(RIGHT, "", &fixed.replace("1000", "0"), update), stated(RIGHT, "", fixed, update)),
        ("BF009", stated(RIGHT, "", "back_off = { kind = \"fixed\" }", update), stated(RIGHT, "", fixed, update)),
        (
            "BF010",
            stated(RIGHT, "kafka.spring_kafka = \"2.9.0\"", fixed, update),
            stated(RIGHT, "kafka.spring_kafka = \"2.8.11\"", fixed, update),
        ),
        (
            "BF011",
            stated(RIGHT, "", &format!("{fixed}\nrecoverer = \"dead-letter\""), update),
            stated(RIGHT, "", &format!("{fixed}\nrecoverer = \"log\""), update),
        ),
        (
            "BF014",
            stated(socket, "kafka.max_poll_interval_ms = 60000", fixed, update),
            stated(socket, "kafka = { max_poll_interval_ms = 600000, max_poll_records = 2 }", fixed, update),
        ),
        (
            "BF015",
            stated(
                socket,
                "kafka.max_poll_interval_ms = 100000",
                &format!("{fixed}\nrecoverer = \"dead-letter\""),
                update,
            ),
            stated(
                socket,
                "kafka.max_poll_interval_ms = 300000",
                &format!("{fixed}\nrecoverer = \"dead-letter\""),
                update,
            ),
        ),
        ("BF016", stated(RIGHT, "", &format!("{fixed}\nkind = \"batch\""), update), stated(RIGHT, "", fixed, update)),
        (
            "BF017",
            stated(RIGHT, "", fixed, "op = \"insert\"\nid = \"generated\""),
            stated(RIGHT, "", fixed, "op = \"insert\"\nid = \"own\""),
        ),
        (
            "BF018",
            stated(RIGHT, "", fixed, "op = \"update-many\""),
            stated(RIGHT, "", "executions = 1", "op = \"update-many\""),
        ),
        (
            "BF019",
            stated(RIGHT, "", fixed, "op = \"bulk\"\nmodels = [\"insert\", \"delete-many\"]"),
            stated(RIGHT, "", fixed, "op = \"bulk\"\nmodels = [\"insert\", \"delete\"]"),
        ),
        (
            "BF020",
            stated(RIGHT, "", &format!("{fixed}\ninner_executions = 3"), update),
            stated(RIGHT, "", "executions = 1\ninner_executions = 3", update),
        ),
        (
            "BF021",
            stated(RIGHT, "", fixed, update),
            stated(RIGHT, "", &format!("{fixed}\nnot_retryable = [\"x.DuplicateKeyException\"]"), update),
        ),
        (
            "BF023",
            stated("mongodb://h/?replicaSet=r&socketTimeoutMS=5000", "", fixed, update),
            stated("mongodb://h/?replicaSet=r&socketTimeoutMS=5000&serverSelectionTimeoutMS=8000", "", fixed, update),
        ),
        (
            "BF025",
            stated(RIGHT, "", fixed, "op = \"insert\"\ntransaction = true"),
            stated(RIGHT, "", "executions = 1", "op = \"insert\"\ntransaction = true"),
        ),
        (
            "BF026",
            stated(socket, "kafka = { consumers = 8, concurrency = 4 }", fixed, update),
            stated(socket, "kafka = { consumers = 8, concurrency = 3 }", fixed, update),
        ),
        (
            "BF027",
            stated(&format!("{socket}&maxPoolSize=3"), "", fixed, update),
            stated(&format!("{socket}&maxPoolSize=30"), "", fixed, update),
        ),
        (
            "BF029",
            stated(RIGHT, "", fixed, "op = \"upsert\""),
            stated(RIGHT, "", fixed, "op = \"upsert\"\nguarded = true"),
        ),
        (
            "BF030",
            stated("mongodb://h/?replicaSet=r&timeoutMS=400000", "", fixed, update),
            stated("mongodb://h/?replicaSet=r&timeoutMS=40000", "", fixed, update),
        ),
        ("BF031", stated("mongodb://h/?socketTimout=1", "", fixed, update), stated(RIGHT, "", fixed, update)),
        (
            "BF040",
            stated(RIGHT, "", "back_off = { kind = \"exponential-max-retries\", max_retries = 0 }", update),
            stated(RIGHT, "", "back_off = { kind = \"exponential-max-retries\", max_retries = 1 }", update),
        ),
        (
            "BF013",
            stated(RIGHT, "", "back_off = { kind = \"exponential\", max_attempts = 3, jitter_ms = 5 }", update),
            stated(RIGHT, "", "back_off = { kind = \"exponential\", max_attempts = 3 }", update),
        ),
        (
            "BF043",
            stated(RIGHT, "", "back_off = { kind = \"exponential\", multiplier = 0.5 }", update),
            stated(RIGHT, "", "back_off = { kind = \"exponential\", max_attempts = 3 }", update),
        ),
    ];
    for (rule, wrong, right) in &cases {
        assert!(
            has(wrong, rule),
            "{rule} is not found: {:?}",
            wrong.findings.iter().map(|f| f.rule).collect::<Vec<_>>()
        );
        assert!(!has(right, rule), "{rule} is found where all is right: {:?}", right.findings);
    }
}

/// A listener in Java whose body is `body`, with `beans` beside it.
fn java(beans: &str, body: &str) -> Report {
    let text = format!(
        "class C {{ MongoTemplate template; MongoCollection<Document> collection; ExecutorService executor; {beans}\n\
         @KafkaListener(topics = \"t\") void on(Order order) {{ {body} }} }}\n\
         class Order {{ @Id String id; Order(String id) {{ this.id = id; }} }}"
    );
    let yaml = "spring.data.mongodb.uri: mongodb://h/?replicaSet=r&socketTimeoutMS=1000";
    run(&[("pom.xml", "<project/>"), ("src/main/java/C.java", &text), ("src/main/resources/application.yml", yaml)])
}

#[test]
fn rules_about_what_sources_show() {
    let handler = "@Bean DefaultErrorHandler h() { return new DefaultErrorHandler(new FixedBackOff(1000, 2)); }";
    let query = "Query.query(Criteria.where(\"_id\").is(order.id))";
    let cases: Vec<(&str, Report, Report)> = vec![
        ("BF007", java("", "template.save(order);"), java(handler, "template.save(order);")),
        ("BF007", run(&[("pom.xml", "<project/>"), ("application.yml", "spring.kafka.a: 1")]), java(handler, "")),
        (
            "BF024",
            java(
                handler,
                &format!("template.findAndModify({query}.maxTime(Duration.ofSeconds(1)), new Update(), Order.class);"),
            ),
            java(handler, &format!("template.findAndModify({query}, new Update(), Order.class);")),
        ),
        (
            "BF028",
            java(
                handler,
                &format!("template.bulkOps(BulkMode.ORDERED, Order.class).insert(order).remove({query}).execute();"),
            ),
            java(handler, "collection.bulkWrite(List.of(new InsertOneModel<>(d), new DeleteOneModel<>(f)));"),
        ),
        (
            "BF044",
            java(handler, "try { template.save(order); } catch (Exception e) { log.warn(e); }"),
            java(handler, "try { template.save(order); } catch (Exception e) { log.warn(e); throw e; }"),
        ),
        (
            "BF045",
            java(handler, "executor.submit(() -> template.save(order));"),
            java(handler, "executor.submit(() -> template.save(order)).get();"),
        ),
        (
            "BF046",
            java(handler, &format!("template.updateFirst({query}, new Update().push(\"a\", 1), Order.class);")),
            java(handler, &format!("template.updateFirst({query}, new Update().addToSet(\"a\", 1), Order.class);")),
        ),
        ("BF047", java(handler, "template.save(order;"), java(handler, "template.save(order);")),
    ];
    for (rule, wrong, right) in &cases {
        assert!(has(wrong, rule), "{rule} is not found: {:?}", wrong.findings);
        assert!(!has(right, rule), "{rule} is found where all is right: {:?}", right.findings);
    }
}

#[test]
fn jitter_with_a_maximum_of_retries() {
    let pom = "<project><parent><groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-parent</artifactId><version>4.1.2</version></parent></project>";
    let toml = format!(
        "client.uri = \"{RIGHT}\"\n[[listener]]\nname = \"a\"\nback_off = {{ kind = \"exponential-max-retries\", max_retries = 10, initial_interval_ms = 1000, multiplier = 2.0, max_interval_ms = 10000, jitter_ms = 500 }}\n"
    );
    let report = run(&[("pom.xml", pom), ("backfire.toml", &toml)]);
    let finding = report.findings.iter().find(|finding| finding.rule == "BF012").unwrap();
    assert!(finding.message.contains(" to ") && finding.message.contains("in place of 11"), "{}", finding.message);
}

#[test]
fn keys_of_another_version_of_boot() {
    let pom = |version: &str| {
        format!(
            "<project><parent><groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-parent</artifactId><version>{version}</version></parent></project>"
        )
    };
    let old = "spring:\n  data:\n    mongodb:\n      uri: mongodb://h/?timeoutMS=1\n      auto-index-creation: true\n";
    let new = "spring:\n  mongodb:\n    uri: mongodb://h/?timeoutMS=1\n";
    for (version, yaml, expected) in [("4.1.2", old, 1), ("3.5.0", old, 0), ("4.1.2", new, 0), ("3.5.0", new, 1)] {
        let report = run(&[("pom.xml", &pom(version)), ("src/main/resources/application.yml", yaml)]);
        let count = report.findings.iter().filter(|finding| finding.rule == "BF022").count();
        assert_eq!(count, expected, "{version} {yaml}");
    }
}

#[test]
fn what_is_not_known_is_said_once() {
    let yaml = "spring:\n  data.mongodb.uri: ${MONGO_URI}\n  kafka.consumer.max-poll-records: ${RECORDS}\n";
    let report = run(&[("pom.xml", "<project/>"), ("src/main/resources/application.yml", yaml)]);
    let said: Vec<_> =
        report.findings.iter().filter(|finding| finding.rule == "BF037").map(|f| f.fix.clone().unwrap()).collect();
    assert_eq!(said, ["--set MONGO_URI=VALUE", "--set RECORDS=VALUE"]);
}

#[test]
fn files_that_cannot_be_read_are_findings() {
    let report = run(&[
        ("pom.xml", "<project><dependencies>"),
        ("src/main/resources/application.yml", "spring:\n  kafka: [\n"),
        ("src/main/resources/application-a.properties", "a=\\u12"),
        ("sink.json", "{\"connector.class\": \"x\""),
    ]);
    let files: Vec<_> = report
        .findings
        .iter()
        .filter(|f| f.rule == "BF038")
        .filter_map(|f| f.place.as_ref())
        .map(|p| p.path().rsplit('/').next().unwrap().to_owned())
        .collect();
    for name in ["pom.xml", "application.yml", "application-a.properties", "sink.json"] {
        assert!(files.iter().any(|file| file == name), "{name}: {:?}", report.findings);
    }
}

#[test]
fn comments_and_backfire_toml_ignore_findings() {
    let yaml = "# backfire-ignore: BF001 the driver is bounded elsewhere\nspring.data.mongodb.uri: mongodb://h/\nspring.kafka.consumer.group-id: x\n";
    let toml = "[[ignore]]\nrule = \"BF007\"\nreason = \"accepted\"\n[[ignore]]\nrule = \"BF777\"\nreason = \"x\"\n";
    let report =
        run(&[("pom.xml", "<project/>"), ("src/main/resources/application.yml", yaml), ("backfire.toml", toml)]);
    assert!(!has(&report, "BF001") && !has(&report, "BF007") && has(&report, "BF039"), "{:?}", report.findings);
    assert!(report.ignored >= 2);
}

#[test]
fn precedence_is_spring_boots() {
    let records = |files: &[(&str, &str)]| {
        let mut all = vec![("pom.xml", "<project/>")];
        all.extend_from_slice(files);
        let report = run(&all);
        let row = report.services[0].settings.iter().find(|row| row.name == "max.poll.records").unwrap().clone();
        row.value
    };
    let key = "spring.kafka.consumer.max-poll-records";
    let yml = |value: u32| format!("{key}: {value}\n");
    let properties = |value: u32| format!("{key}={value}\n");
    let base = "src/main/resources/";
    let at = |name: &str| format!("{base}{name}");
    assert_eq!(records(&[(&at("application.yml"), &yml(1)), (&at("application.properties"), &properties(2))]), "2");
    assert_eq!(
        records(&[(&at("application.properties"), &properties(1)), (&at("config/application.yml"), &yml(2))]),
        "2"
    );
    assert_eq!(records(&[(&at("config/application.yml"), &yml(1)), ("config/application.yml", &yml(2))]), "2");
    assert_eq!(records(&[(&at("bootstrap.yml"), &yml(1)), (&at("application.yml"), "spring.kafka.a: 1\n")]), "1");
    let profile = format!("{}---\nspring.config.activate.on-profile: a\n{}", yml(1), yml(2));
    assert_eq!(records(&[(&at("application.yml"), &profile)]), "1");
    let active = format!("spring.profiles.active: a\n{profile}");
    assert_eq!(records(&[(&at("application.yml"), &active)]), "2");
    let imports = format!("spring.config.import: classpath:more.yml\n{}", yml(1));
    assert_eq!(records(&[(&at("application.yml"), &imports), (&at("more.yml"), &yml(3))]), "3");
    // What a file does not see is a copy in another folder.
    assert_eq!(records(&[(&at("application.yml"), &yml(1)), ("deploy/application.yml", &yml(9))]), "1");
}

#[test]
fn heartbeats_and_their_session() {
    let kafka = "spring.data.mongodb.uri: mongodb://h/?timeoutMS=1000\nspring.kafka.consumer:\n";
    let check = |settings: &str, expected: &str| {
        let report = run(&[("src/main/resources/application.yml", &format!("{kafka}{settings}"))]);
        let found = report.findings.iter().find(|finding| finding.rule == "BF048");
        let found = found.map_or(String::new(), |finding| format!("{:?} {}", finding.level, finding.message));
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{settings}: {found}");
    };
    check("  group-id: a", "");
    check("  heartbeat-interval: 15s", "");
    check(
        "  heartbeat-interval: 16s",
        "Warning a heartbeat every 16 s: fewer than three fit into session.timeout.ms, 45 s",
    );
    check("  properties: { session.timeout.ms: 3000 }", "Error a heartbeat every 3 s: the consumer does not start");
    check("  properties: { session.timeout.ms: 6000, heartbeat.interval.ms: 2001 }", "Warning");
    check("  properties: { session.timeout.ms: 6000, heartbeat.interval.ms: '${BEAT}' }", "");
    check("  heartbeat-interval: 16s\n  properties: { group.protocol: consumer }", "");
}
