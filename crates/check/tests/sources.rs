//! What Java and Kotlin sources say: each case is a service of a few files, and the settings and findings that come of it.

use std::fmt::Write as _;
use std::fs;

use backfire_check::{Report, Request, check};

/// Parts of a service: `== path` before each file; what stands before the first is `A.java`, or `A.kt` where it has a `fun`.
fn run_with(text: &str, boot: &str, change: impl FnOnce(&mut Request)) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let pom = format!(
        "<project><parent><groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-parent</artifactId>\
         <version>{boot}</version></parent><dependencies><dependency><groupId>org.springframework.kafka</groupId>\
         <artifactId>spring-kafka</artifactId></dependency></dependencies></project>"
    );
    let mut files: Vec<(String, String)> = vec![("pom.xml".to_owned(), pom)];
    let name = if text.contains("fun ") { "A.kt" } else { "A.java" };
    let mut current = (format!("src/main/java/{name}"), String::new());
    for line in text.lines() {
        match line.trim().strip_prefix("== ") {
            Some(path) => files.push(std::mem::replace(&mut current, (path.to_owned(), String::new()))),
            None => {
                // YAML is indented as it is written, below the indentation of the case.
                let _ = writeln!(current.1, "{}", line.strip_prefix("         ").unwrap_or(line));
            }
        }
    }
    files.push(current);
    for (path, text) in files.iter().filter(|(_, text)| !text.trim().is_empty()) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut request = Request { paths: vec![folder.path().to_path_buf()], ..Request::default() };
    change(&mut request);
    check(&request).unwrap_or_else(|error| panic!("{error}"))
}

fn run(text: &str) -> Report {
    run_with(text, "3.5.16", |_| {})
}

/// The last part of a path, with the line.
fn short(source: &str) -> String {
    source.split([' ', ';']).map(|word| word.rsplit('/').next().unwrap_or(word)).collect::<Vec<_>>().join(" ")
}

/// The rows of some names, one line each: `name: value @ source`.
fn rows(report: &Report, names: &[&str]) -> String {
    let mut text = String::new();
    for row in report.services.iter().flat_map(|service| &service.settings) {
        if names.iter().any(|name| row.name == *name || row.name.ends_with(&format!(": {name}"))) {
            let source = short(&row.source.to_string());
            let _ = writeln!(text, "{}: {} @ {source}", row.name, row.value);
        }
    }
    text
}

/// Executions, sends and copies at once of each listener.
fn counts(report: &Report) -> String {
    let mut text = String::new();
    for one in report.services.iter().flat_map(|service| &service.predictions) {
        let _ = writeln!(text, "{} {} {} {}", one.listener, one.executions, one.sends, one.overlapping_copies_max);
    }
    text
}

fn rules(report: &Report) -> String {
    let mut rules: Vec<&str> = report.findings.iter().map(|finding| finding.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules.join(" ")
}

/// Each case, and what comes of it.
fn all(cases: &[&str], of: impl Fn(&str) -> String) -> String {
    cases.iter().fold(String::new(), |mut text, case| {
        let case_lines = case.lines().map(str::trim).collect::<Vec<_>>().join("\n  ");
        let result = of(case);
        let result = result.trim_end().lines().collect::<Vec<_>>().join("\n    ");
        let _ = write!(text, "{case_lines}\n    {result}\n\n");
        text
    })
}

/// The retries that a handler gives, and how often a record runs with them.
fn handler(beans: &str) -> String {
    let text = format!(
        "class C {{ {beans}
         @KafkaListener(topics = \"t\") void on(Order order) {{ template.save(order); }} MongoTemplate template; }}
         class Order {{ @Id String id; }}
         == application.yml
         spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000
         app: {{ retries: 5, wait: 2s }}
         "
    );
    let report = run(&text);
    rows(&report, &["retries", "after the retries"]) + &counts(&report)
}

#[test]
fn error_handlers_and_their_back_offs() {
    let cases = [
        "@Bean DefaultErrorHandler h() { return new DefaultErrorHandler(new FixedBackOff(1000, 2)); }",
        "@Bean DefaultErrorHandler h() { return new DefaultErrorHandler(); }",
        "@Bean DefaultErrorHandler h() { return new DefaultErrorHandler(new FixedBackOff()); }",
        "@Bean DefaultErrorHandler h(KafkaTemplate<?, ?> t) {
            var b = new ExponentialBackOffWithMaxRetries(3); b.setInitialInterval(500); b.setMultiplier(2);
            return new DefaultErrorHandler(new DeadLetterPublishingRecoverer(t), b); }",
        "@Bean DefaultErrorHandler h() {
            var b = new ExponentialBackOff(1000, 2); b.setMaxAttempts(4); return new DefaultErrorHandler(b); }",
        // Constants, arithmetic and configuration.
        "static final int MINUTES = 2; @Value(\"${app.retries}\") long retries;
         @Bean DefaultErrorHandler h(@Value(\"${app.wait}\") Duration wait) {
            return new DefaultErrorHandler((r, e) -> log(r), new FixedBackOff(wait.toMillis() * MINUTES, retries - 1)); }",
        "@Bean DefaultErrorHandler h(AppProperties p) {
            return new DefaultErrorHandler(new FixedBackOff(p.getWait().toMillis(), p.getRetries())); }
         @ConfigurationProperties(\"app\") static class AppProperties {
            Duration wait; int retries = 1; Duration getWait() { return wait; } int getRetries() { return retries; } }",
        "@Bean DefaultErrorHandler h(@Value(\"${none}\") long n) { return new DefaultErrorHandler(new FixedBackOff(0, n)); }",
        "@Bean DefaultErrorHandler h(@Value(\"${none:3}\") long n) { return new DefaultErrorHandler(new FixedBackOff(0, n)); }",
        "@Bean DefaultErrorHandler h() { return new DefaultErrorHandler(new FixedBackOff(0, Limits.of(3))); }",
        // Others.
        "@Bean CommonErrorHandler h() { return new CommonContainerStoppingErrorHandler(); }",
        "@Bean CommonErrorHandler h() { return new CommonLoggingErrorHandler(); }",
        "@Bean CommonErrorHandler h() { return new Own(); }
         static class Own implements CommonErrorHandler { public boolean handleOne(Exception e) { return true; } }",
        "@Bean CommonDelegatingErrorHandler h() {
            var h = new CommonDelegatingErrorHandler(new DefaultErrorHandler(new FixedBackOff(0, 1)));
            h.addDelegate(DataAccessException.class, new DefaultErrorHandler(new FixedBackOff(0, 2))); return h; }",
        "@Bean DefaultErrorHandler a() { return new DefaultErrorHandler(new FixedBackOff(0, 1)); }
         @Bean DefaultErrorHandler b() { return new DefaultErrorHandler(new FixedBackOff(0, 2)); }",
        // What is retried.
        "@Bean DefaultErrorHandler h() { var h = new DefaultErrorHandler(new FixedBackOff(0, 5));
            h.addNotRetryableExceptions(DataAccessException.class); return h; }",
        "@Bean DefaultErrorHandler h() { var h = new DefaultErrorHandler(new FixedBackOff(0, 5));
            h.addNotRetryableExceptions(DuplicateKeyException.class); return h; }",
        "@Bean DefaultErrorHandler h() { var h = new DefaultErrorHandler(new FixedBackOff(0, 5));
            h.defaultFalse(); h.addRetryableExceptions(SocketTimeoutException.class); return h; }",
        "@Bean DefaultErrorHandler h() { var h = new DefaultErrorHandler(new FixedBackOff(0, 5));
            h.setClassifications(Map.of(TransientDataAccessException.class, true), false); return h; }",
    ];
    insta::assert_snapshot!("handlers", all(&cases, handler));
}

/// What a listener writes: `$` is its body, in a service with a repository, a template and a driver's collection.
fn writes(body: &str) -> String {
    let text = format!(
        "class C {{ MongoTemplate template; OrderRepository repository; ReactiveMongoTemplate reactive; MongoCollection<Document> collection;
         @Bean DefaultErrorHandler h() {{ return new DefaultErrorHandler(new FixedBackOff(1000, 3)); }}
         @KafkaListener(topics = \"t\") void on(Order order) throws Exception {{ {body} }} }}
         interface OrderRepository extends MongoRepository<Order, String> {{ void deleteByName(String name); }}
         @Document class Order {{ @Id String id; String name; long version; Order(String id) {{ this.id = id; }} }}
         @Document class Entry {{ @Id String id; String of; Entry(String of) {{ this.of = of; }} }}
         @Document class Versioned {{ @Id String id; @Version Long version; }}
         == application.yml
         spring.data.mongodb.uri: mongodb://h/?replicaSet=r&socketTimeoutMS=1000
         "
    );
    let report = run(&text);
    let wanted = |rule: &&str| !matches!(*rule, "BF002" | "BF014" | "BF010" | "BF021" | "BF023");
    let rules = rules(&report);
    let rules: Vec<&str> = rules.split(' ').filter(wanted).collect();
    format!("{}{}{}", rows(&report, &["write"]), counts(&report), rules.join(" "))
}

#[test]
fn writes_of_listeners() {
    let cases = [
        "template.insert(new Entry(order.name));",
        "template.insert(new Order(order.name));",
        "template.insert(new Order(UUID.randomUUID().toString()));",
        "template.save(order);",
        "template.save(new Versioned());",
        "repository.insert(order);",
        "repository.saveAll(List.of(order, order));",
        "repository.deleteById(order.id);",
        "repository.deleteByName(order.name);",
        "template.updateFirst(Query.query(Criteria.where(\"_id\").is(order.id)), new Update().set(\"a\", 1), Order.class);",
        "template.updateFirst(Query.query(Criteria.where(\"_id\").is(order.id)), new Update().inc(\"a\", 1), Order.class);",
        "template.updateFirst(Query.query(Criteria.where(\"_id\").is(order.id).and(\"version\").lt(order.version)), new Update().set(\"a\", 1), Order.class);",
        "template.upsert(Query.query(Criteria.where(\"_id\").is(order.id)), new Update().setOnInsert(\"a\", 1), Order.class);",
        "template.updateMulti(new Query(), new Update().set(\"a\", 1), Order.class);",
        "template.remove(Query.query(Criteria.where(\"_id\").is(order.id)), Order.class);",
        "template.findAndModify(Query.query(Criteria.where(\"_id\").is(order.id)).maxTime(Duration.ofMillis(500)), new Update().set(\"a\", 1), Order.class);",
        "collection.findOneAndUpdate(Filters.eq(\"_id\", order.id), Updates.set(\"a\", 1), new FindOneAndUpdateOptions().maxTime(2, TimeUnit.SECONDS));",
        "var bulk = template.bulkOps(BulkOperations.BulkMode.ORDERED, Order.class);
         bulk.insert(order); bulk.updateOne(new Query(), new Update().set(\"a\", 1)); bulk.remove(new Query()); bulk.execute();",
        "collection.bulkWrite(List.of(new InsertOneModel<>(new Document(\"a\", 1)), new UpdateManyModel<>(Filters.eq(\"a\", 1), Updates.set(\"a\", 2))));",
        "collection.insertOne(new Document(\"a\", 1));",
        "collection.insertOne(new Document(\"_id\", order.id));",
        "reactive.save(order).block();",
        "reactive.save(order).subscribe();",
        "for (String part : order.name.split(\",\")) { template.insert(new Order(part)); }",
        "try { template.save(order); } catch (Exception e) { log.warn(\"lost\", e); }",
        "try { template.insert(order); } catch (DuplicateKeyException e) { log.info(\"known\"); }",
        "try { template.save(order); } catch (Exception e) { throw new IllegalStateException(e); }",
        "CompletableFuture.runAsync(() -> template.save(order));",
        "template.executeCommand(new Document(\"update\", \"orders\"));",
        "template.insert(order); repository.save(order);",
        "log.info(order);",
    ];
    insta::assert_snapshot!("writes", all(&cases, writes));
}

/// A listener in a class `C` with its set-up, in Java; `yaml` is what the configuration has beside a connection string.
fn listener_with(boot: &str, java: &str, yaml: &str, names: &[&str]) -> String {
    let text = format!(
        "{java}
         class Order {{ @Id String id; String name; }}
         == application.yml
         spring.{}mongodb.uri: mongodb://h/?replicaSet=r&socketTimeoutMS=1000
         {yaml}
         ",
        if boot.starts_with('4') { "" } else { "data." }
    );
    let report = run_with(&text, boot, |_| {});
    let notes: Vec<&str> = report.services[0].notes.iter().map(String::as_str).collect();
    let interesting: Vec<&str> =
        ["BF005", "BF009", "BF012", "BF013", "BF016", "BF020", "BF037", "BF040", "BF043", "BF044", "BF045"]
            .into_iter()
            .filter(|rule| report.findings.iter().any(|finding| finding.rule == *rule))
            .collect();
    format!("{}{}{}{}", rows(&report, names), counts(&report), interesting.join(" "), notes.join("\n"))
}

const POLLS: &[&str] = &["listener", "retries", "max.poll.records", "max.poll.interval.ms", "concurrency"];

#[test]
fn containers_and_polls() {
    let on = "@KafkaListener(topics = \"t\") void on(Order o) { template.save(o); } MongoTemplate template;";
    let cases = [
        format!("class C {{ {on} }}"),
        "class C { @KafkaListener(topics = \"t\", concurrency = \"${threads:4}\", properties = {\"max.poll.records=7\", \"max.poll.interval.ms: 60000\"})
            void on(Order o) { template.save(o); } MongoTemplate template; }"
            .to_owned(),
        "class C { @KafkaListener(topics = \"t\", batch = \"true\") void on(List<Order> o) { template.insertAll(o); } MongoTemplate template; }"
            .to_owned(),
        format!(
            "class C {{ @Bean ConcurrentKafkaListenerContainerFactory<?, ?> kafkaListenerContainerFactory(ConsumerFactory<?, ?> c) {{
                var f = new ConcurrentKafkaListenerContainerFactory<>(); f.setConsumerFactory(c); f.setConcurrency(6); f.setBatchListener(true);
                f.setCommonErrorHandler(new DefaultErrorHandler(new FixedBackOff(10, 2))); return f; }}
             {on} }}"
        ),
        format!(
            "class C {{ @Bean ConcurrentKafkaListenerContainerFactory<?, ?> kafkaListenerContainerFactory() {{
                var f = new ConcurrentKafkaListenerContainerFactory<>();
                f.setConsumerFactory(new DefaultKafkaConsumerFactory<>(Map.of(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 20)));
                f.getContainerProperties().getKafkaConsumerProperties().put(\"max.poll.interval.ms\", \"90000\"); return f; }}
             {on} }}"
        ),
        format!(
            "class C {{ @Bean ConcurrentKafkaListenerContainerFactory<?, ?> kafkaListenerContainerFactory(
                ConcurrentKafkaListenerContainerFactoryConfigurer configurer, ConsumerFactory<Object, Object> c) {{
                var f = new ConcurrentKafkaListenerContainerFactory<Object, Object>(); configurer.configure(f, c); return f; }}
             @Bean DefaultErrorHandler h() {{ return new DefaultErrorHandler(new FixedBackOff(5, 1)); }}
             {on} }}"
        ),
        "class C { @KafkaListener(topics = \"t\", containerFactory = \"special\") void on(Order o) { template.save(o); } MongoTemplate template; }"
            .to_owned(),
        "class C { @KafkaListener(topics = \"a\") void on(Order o) { template.save(o); } MongoTemplate template;
            @KafkaListener(topics = \"b\") void log(Order o) { log.info(o); } }"
            .to_owned(),
    ];
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    let yaml = "spring.kafka: { consumer: { max-poll-records: 50 }, listener: { concurrency: 2 } }";
    insta::assert_snapshot!("containers", all(&cases, |case| listener_with("3.5.16", case, yaml, POLLS)));
}

#[test]
fn retry_topics_and_inner_retries() {
    let save = "{ template.save(o); } MongoTemplate template;";
    let cases = [
        format!("class C {{ @RetryableTopic @KafkaListener(topics = \"t\") void on(Order o) {save} }}"),
        format!(
            "class C {{ @RetryableTopic(attempts = \"${{tries:5}}\", backoff = @Backoff(delay = 500, multiplier = 2, maxDelay = 1000),
                exclude = DuplicateKeyException.class, dltStrategy = DltStrategy.NO_DLT)
             @KafkaListener(topics = \"t\") void on(Order o) {save} }}"
        ),
        format!(
            "class C {{ @RetryableTopic(include = SocketTimeoutException.class) @KafkaListener(topics = \"t\") void on(Order o) {save} }}"
        ),
        format!(
            "class C {{ @Bean RetryTopicConfiguration r(KafkaTemplate<?, ?> t) {{
                return RetryTopicConfigurationBuilder.newInstance().fixedBackOff(3000).maxAttempts(2).includeTopic(\"t\").create(t); }}
             @KafkaListener(topics = \"t\") void on(Order o) {save} }}"
        ),
        "@EnableRetry class C { @KafkaListener(topics = \"t\") void on(Order o) { s.store(o); } S s; }
         @Service class S { MongoTemplate template; @Retryable void store(Order o) { template.save(o); } }"
            .to_owned(),
        "@EnableRetry class C { @KafkaListener(topics = \"t\") void on(Order o) { s.store(o); } S s; }
         @Service class S { MongoTemplate template;
            @Retryable(retryFor = OptimisticLockingFailureException.class) void store(Order o) { template.save(o); } }"
            .to_owned(),
        "@EnableRetry class C { @RetryableTopic(attempts = \"2\") @KafkaListener(topics = \"t\") void on(Order o) { s.store(o); } S s; }
         @Service class S { MongoTemplate template;
            @Retryable(maxAttempts = 4, backoff = @Backoff(delay = 100, multiplier = 2)) void store(Order o) { template.save(o); } }"
            .to_owned(),
        "class C { @KafkaListener(topics = \"t\") void on(Order o) {
            RetryTemplate.builder().maxAttempts(2).fixedBackoff(50).build().execute(c -> template.save(o)); } MongoTemplate template; }"
            .to_owned(),
        "class C { @Retry(name = \"orders\") void store(Order o) { template.save(o); } MongoTemplate template; }
         class L { @KafkaListener(topics = \"t\") void on(Order o) { c.store(o); } C c; }"
            .to_owned(),
        "class C { @KafkaListener(topics = \"t\") void on(Order o) { template.save(o).retry(2).block(); } ReactiveMongoTemplate template; }"
            .to_owned(),
        "class C { @KafkaListener(topics = \"t\") void on(Order o) { own.execute(c -> template.save(o)); } MongoTemplate template;
            RetryTemplate own = RetryTemplate.builder().customPolicy(new Mine()).build(); }"
            .to_owned(),
    ];
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    let yaml = "resilience4j.retry.instances.orders: { max-attempts: 4, wait-duration: 250ms }";
    let names = [
        "listener",
        "retries",
        "after the retries",
        "@Retryable",
        "@Retryable, if a library has @EnableRetry",
        "RetryTemplate",
        "resilience4j retry",
        "retry of Reactor",
    ];
    insta::assert_snapshot!("retries", all(&cases, |case| listener_with("3.5.16", case, yaml, &names)));
}

#[test]
fn clients_that_code_sets_up() {
    let on = "@KafkaListener(topics = \"t\") void on(Order o) { template.save(o); } MongoTemplate template;";
    let cases = [
        format!(
            "class C {{ @Bean MongoClientSettingsBuilderCustomizer m() {{
                return b -> b.applyToSocketSettings(s -> s.readTimeout(7, TimeUnit.SECONDS)).retryWrites(false); }} {on} }}"
        ),
        format!(
            "class C {{ @Bean MongoClientSettingsBuilderCustomizer m(@Value(\"${{app.timeout}}\") Duration t) {{
                return b -> b.timeout(t.toMillis(), TimeUnit.MILLISECONDS).applyToConnectionPoolSettings(p -> p.maxSize(5)); }} {on} }}"
        ),
        format!(
            "class C {{ @Bean MongoClient m(@Value(\"${{other.uri}}\") String uri) {{ return MongoClients.create(uri); }} {on} }}"
        ),
        format!(
            "class C {{ @Bean MongoClient m() {{ return MongoClients.create(MongoClientSettings.builder()
                .applyConnectionString(new ConnectionString(\"mongodb://x/?socketTimeoutMS=250&retryWrites=false\")).build()); }} {on} }}"
        ),
        format!("class C {{ @Bean MongoClient m() {{ return MongoClients.create(); }} {on} }}"),
        format!("class C {{ @Bean MongoClient m(Secrets s) {{ return MongoClients.create(s.uri()); }} {on} }}"),
        format!(
            "class C {{ @Bean MongoClientSettings m() {{ return MongoClientSettings.builder().timeout(2, TimeUnit.SECONDS).build(); }} {on} }}"
        ),
        format!(
            "class C {{ @Bean MongoClient a() {{ return MongoClients.create(\"mongodb://a/?socketTimeoutMS=1\"); }}
             @Bean MongoClient b() {{ return MongoClients.create(\"mongodb://b/?socketTimeoutMS=2\"); }} {on} }}"
        ),
    ];
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    let yaml = "app.timeout: 4s\nother.uri: mongodb://${USER}:${PW}@o/?socketTimeoutMS=3000";
    let names = ["connection string", "socketTimeoutMS", "timeoutMS", "retryWrites"];
    insta::assert_snapshot!("clients", all(&cases, |case| listener_with("3.5.16", case, yaml, &names)));
}

/// A whole service of several files.
fn service(files: &str) -> String {
    let report = run(files);
    let names = ["listener", "retries", "after the retries", "write", "@Retryable"];
    let places: String = report
        .findings
        .iter()
        .filter(|finding| {
            matches!(finding.rule, "BF007" | "BF017" | "BF018" | "BF020" | "BF028" | "BF039" | "BF044" | "BF047")
        })
        .map(|finding| {
            let place = finding.place.as_ref().map(|place| short(&place.to_string())).unwrap_or_default();
            format!("{} {place}\n", finding.rule)
        })
        .collect();
    let notes = report.services.iter().flat_map(|service| &service.notes).map(|note| format!("note: {note}\n"));
    format!(
        "{}{}{places}ignored {}\n{}",
        rows(&report, &names),
        counts(&report),
        report.ignored,
        notes.collect::<String>().replace(&report.services[0].name, "")
    )
}

#[test]
fn services() {
    let cases = [
        // Kotlin: constructor injection, an extension function, a properties class, constants of an object.
        "class OrderListener(private val store: OrderStore) {
            @KafkaListener(topics = [Topics.ORDERS]) fun on(record: ConsumerRecord<String, Order>) = store.keep(record.value()) }
         object Topics { const val ORDERS = \"orders\"; const val TRIES = 4L }
         @ConfigurationProperties(\"shop\") data class ShopProperties(val wait: Duration = Duration.ofSeconds(3))
         @Configuration class Setup {
            @Bean fun errorHandler(p: ShopProperties) = DefaultErrorHandler(FixedBackOff(p.wait.toMillis(), Topics.TRIES - 1)).apply {
                addNotRetryableExceptions(DuplicateKeyException::class.java) } }
         interface OrderStore { fun keep(order: Order) }
         @Service class MongoOrderStore(private val orders: OrderRepository) : OrderStore {
            override fun keep(order: Order) { orders.insert(order.entity()) } }
         fun Order.entity() = OrderEntity(name = name)
         data class Order(val name: String)
         @Document data class OrderEntity(@Id val id: String? = null, val name: String)
         interface OrderRepository : MongoRepository<OrderEntity, String>
         == src/main/resources/application.yml
         spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000
         shop.wait: 5s
         ",
        // Comments leave findings out, in both languages.
        "class C { MongoTemplate template;
            // backfire-ignore: BF007 one record a day
            @KafkaListener(topics = \"t\") void on(Order o) {
                template.insert(new Entry()); /* backfire-ignore: BF017 counted elsewhere */
                template.updateMulti(new Query(), new Update().set(\"a\", 1), Entry.class); // backfire-ignore: BF018
            } }
         class Entry { @Id String id; }
         == src/main/resources/application.yml
         spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000
         ",
        // Code that cannot be read or followed is named.
        "class C { MongoTemplate template; @KafkaListener(topics = \"t\") void on(Order o) { template.save(o; } }
         == src/main/resources/application.yml
         spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000
         ",
        // What the sources leave open can be stated.
        "class C { MongoTemplate template; @KafkaListener(topics = \"t\", containerFactory = \"lib\") void on(Order o) { template.save(o); }
            @KafkaListener(topics = \"u\") void quiet(Order o) { library.send(o); } }
         == src/main/resources/application.yml
         spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000
         == backfire.toml
         [[listener]]
         name = \"C.on\"
         executions = 2
         [[listener]]
         name = \"C.quiet\"
         executions = 3
         [[listener.write]]
         op = \"update\"
         ",
        // A bulk with a remove, and the default handler.
        "class C { MongoTemplate template; @KafkaListener(topics = \"t\") void on(List<Order> orders) {
            var bulk = template.bulkOps(BulkMode.UNORDERED, Order.class);
            orders.forEach(o -> bulk.remove(Query.query(Criteria.where(\"_id\").is(o.id)))); bulk.insert(orders); bulk.execute(); } }
         class Order { @Id String id; }
         == src/main/resources/application.yml
         spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000
         ",
        // An application that only has sources.
        "class C { MongoTemplate template; @KafkaListener(topics = \"t\") void on(Order o) { template.save(o); } }",
    ];
    insta::assert_snapshot!("services", all(&cases, service));
}

/// Files below a folder, and the report.
fn modules(files: &[(&str, &str)]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    check(&Request { paths: vec![folder.path().to_path_buf()], ..Request::default() }).unwrap()
}

#[test]
fn writes_in_other_modules_are_followed() {
    let listener = "package a;\nimport b.Store;\nclass L { Store store; @KafkaListener(topics = \"t\") void on(String s) { store.keep(s); } }";
    let store = "package b;\nimport c.Entry;\npublic class Store { MongoTemplate template; public void keep(String s) { template.insert(new Entry(s)); } }";
    let entry = "package c;\npublic class Entry { String of; public Entry(String of) { this.of = of; } }";
    let yaml = "spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000";
    // Maven by artifact, Gradle by path and by accessor, and nothing but an import.
    let dependency = |artifact: &str| {
        format!(
            "<project><artifactId>x</artifactId><dependencies><dependency><groupId>g</groupId><artifactId>{artifact}</artifactId></dependency></dependencies></project>"
        )
    };
    for (build, app, lib, model) in [
        (
            "pom.xml",
            dependency("shop-store"),
            "<project><artifactId>shop-store</artifactId></project>".to_owned(),
            "<project/>",
        ),
        ("build.gradle", "dependencies { implementation project(':store') }".to_owned(), String::new(), ""),
        ("build.gradle.kts", "dependencies { implementation(projects.store) }".to_owned(), String::new(), ""),
    ] {
        let report = modules(&[
            (&format!("app/{build}"), &app),
            (&format!("store/{build}"), &lib),
            (&format!("model/{build}"), model),
            ("app/src/main/java/a/L.java", listener),
            ("store/src/main/java/b/Store.java", store),
            ("model/src/main/java/c/Entry.java", entry),
            ("app/src/main/resources/application.yml", yaml),
        ]);
        assert_eq!(report.services.len(), 1, "{build}");
        let write = rows(&report, &["write"]);
        assert_eq!(write.trim(), "write: insert, a new _id each time @ Store.java:3", "{build}");
    }
}

#[test]
fn a_module_that_listens_without_configuration_is_a_service() {
    let listener = "class L { MongoTemplate t; @KafkaListener(topics = \"t\") void on(String s) { t.save(s); } }";
    let report = modules(&[
        ("one/pom.xml", "<project><artifactId>one</artifactId></project>"),
        ("one/src/main/java/one/L.java", &format!("package one; {listener}")),
        ("two/pom.xml", "<project><artifactId>two</artifactId></project>"),
        ("two/src/main/java/two/L.java", &format!("package two; {listener}")),
        ("two/src/main/resources/application.yml", "spring.kafka.listener.concurrency: 7"),
    ]);
    let names: Vec<_> = report.services.iter().map(|service| service.name.rsplit('/').next().unwrap()).collect();
    assert_eq!(names, ["one", "two"]);
    assert!(rows(&report, &["concurrency"]).contains("7"));
}

#[test]
fn functions_of_spring_cloud_stream() {
    let java = "class C { MongoTemplate t; @Bean Consumer<Order> orders() { return o -> t.insert(new Entry()); } } class Entry { }";
    let gradle = "plugins { id 'org.springframework.boot' version '3.5.16' }\ndependencies { implementation 'org.springframework.cloud:spring-cloud-stream-binder-kafka' }";
    let yaml = "spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000\nspring.cloud.stream.bindings.orders-in-0: { destination: o, consumer: { max-attempts: 2 } }";
    for yaml in [yaml, "spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000"] {
        let report = modules(&[
            ("build.gradle", gradle),
            ("src/main/java/C.java", java),
            ("src/main/resources/application.yml", yaml),
        ]);
        let inner = if yaml.contains("attempts") { 2 } else { 3 };
        assert_eq!(counts(&report).trim(), format!("orders-in-0 {} {} {}", 10 * inner, 20 * inner, 10 * inner));
        assert!(rules(&report).contains("BF017"));
    }
}

#[test]
fn values_given_with_set_reach_the_sources() {
    let text = "class C { MongoTemplate t; @KafkaListener(topics = \"t\") void on(Order o) { t.save(o); }
            @Bean DefaultErrorHandler h(@Value(\"${tries}\") long n) { return new DefaultErrorHandler(new FixedBackOff(0, n)); } }
         == application.yml
         spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000
         ";
    assert!(run(text).findings.iter().any(|f| f.rule == "BF037" && f.fix.as_deref() == Some("--set tries=VALUE")));
    let report = run_with(text, "3.5.16", |request| request.set = vec![("tries".to_owned(), "6".to_owned())]);
    assert_eq!(counts(&report).trim(), "C.on 7 14 7");
}

#[test]
fn a_connection_string_in_code_is_never_shown_with_its_password() {
    let text =
        "class C { @Bean MongoClient m() { return MongoClients.create(\"mongodb://app:s3cret@h/?socketTimeutMS=1\"); }
            MongoTemplate t; @KafkaListener(topics = \"t\") void on(Order o) { t.save(o); } }";
    let report = run(text);
    assert!(rules(&report).contains("BF031"));
    let shown = backfire_check::output::text::report(&report);
    assert!(shown.contains("A.java:1") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn a_set_up_as_it_is_often_written_in_kotlin() {
    let text = "class KafkaConfig(private val properties: ConsumerSettings) {
            @Bean fun kafkaErrorHandler(): CommonErrorHandler {
                val recoverer = { record: ConsumerRecord<*, *>, exception: Exception -> log.error(\"failed {}\", record, exception) }
                val backOff = FixedBackOff(properties.retry.intervalMillis, properties.retry.maxAttempts)
                return DefaultErrorHandler(recoverer, backOff).apply { setAckAfterHandle(true) } }
            @Bean fun orders(kafka: KafkaProperties): ConsumerFactory<String, Order> {
                val map = kafka.buildConsumerProperties().toMutableMap().apply { put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 12) }
                return DefaultKafkaConsumerFactory(map, StringDeserializer(), JsonDeserializer(Order::class.java)) }
            @Bean fun orderFactory(orders: ConsumerFactory<String, Order>, kafkaErrorHandler: CommonErrorHandler) =
                ConcurrentKafkaListenerContainerFactory<String, Order>().apply {
                    consumerFactory = orders
                    setCommonErrorHandler(kafkaErrorHandler)
                    setConcurrency(properties.listener.concurrency) } }
         @ConfigurationProperties(prefix = \"settings\") data class ConsumerSettings(val retry: Retry, val listener: Listener = Listener()) {
            data class Retry(val intervalMillis: Long = 1000, val maxAttempts: Long = 2)
            data class Listener(val concurrency: Int = 3) }
         @Repository class Orders(private val inner: OrderRepository) { fun place(order: Order) { inner.save(order) } }
         interface OrderRepository : MongoRepository<Order, String>
         data class Order(@Id val id: String)
         class OrderListener(private val orders: Orders) {
            @KafkaListener(topics = [\"o\"], containerFactory = \"orderFactory\") fun on(order: Order, ack: Acknowledgment) {
                orders.place(order); ack.acknowledge() } }
         == application.yml
         spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000
         spring.kafka.consumer.properties.max.poll.interval.ms: 70000
         settings.retry.max-attempts: 4
         ";
    let names = [
        "listener",
        "retries",
        "after the retries",
        "write",
        "max.poll.records",
        "max.poll.interval.ms",
        "concurrency",
    ];
    insta::assert_snapshot!("kotlin_set_up", rows(&run(text), &names));
}

#[test]
fn polls_go_on_while_a_listener_has_given_back_a_future() {
    let of = |ret: &str| {
        let text = format!(
            "class C {{ ReactiveMongoTemplate t; @KafkaListener(topics = \"t\") {ret} }}
         == application.yml
         spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=200000
         "
        );
        run(&text)
    };
    let waits = of("void on(Order o) { t.save(o).block(); }");
    assert!(rules(&waits).contains("BF030"), "{}", rules(&waits));
    let given_back = of("Mono<Order> on(Order o) { return t.save(o); }");
    assert!(!rules(&given_back).contains("BF030"), "{}", rules(&given_back));
    assert_eq!(counts(&given_back).trim(), "C.on 10 20 10");
}

#[test]
fn a_stated_inner_retry_takes_the_place_of_those_that_were_found() {
    let text = |stated: &str| {
        format!(
            "@EnableRetry class C {{ S s; @KafkaListener(topics = \"t\") void on(Order o) {{ s.store(o); }} }}
         class S {{ MongoTemplate t; @Retryable void store(Order o) {{ t.save(o); }} }}
         == application.yml
         spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000
         == backfire.toml
         {stated}
         "
        )
    };
    assert_eq!(counts(&run(&text(""))).trim(), "C.on 30 60 30");
    let stated = "[[listener]]\n         name = \"C.on\"\n         inner_executions = 2";
    assert_eq!(counts(&run(&text(stated))).trim(), "C.on 20 40 20");
}

/// What `check` says of handlers and listeners under conditions.
fn conditions(text: &str) -> String {
    let text = format!(
        "class L {{ MongoTemplate template;
         @KafkaListener(topics = \"t\") void on(Order order) {{ template.save(order); }} }}
         class Order {{ @Id String id; }}
         {text}
         == application.yml
         spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=1000
         app: {{ retry: 'on', off: false, from-outside: '${{OUTSIDE}}' }}
         "
    );
    let report = run_with(&text, "3.5.16", |request| request.profiles = vec!["prod".to_owned()]);
    let mut result = rows(&report, &["retries"]) + &counts(&report);
    for finding in report.findings.iter().filter(|finding| finding.message.contains("whether it is there")) {
        let _ = writeln!(result, "{}: {}", finding.rule, finding.message);
    }
    result
}

#[test]
fn beans_under_conditions() {
    let bean = |condition: &str, retries: u32| {
        format!(
            "@Configuration class C{retries} {{ {condition} @Bean DefaultErrorHandler h{retries}() {{ \
             return new DefaultErrorHandler(new FixedBackOff(0, {retries})); }} }}"
        )
    };
    let property = |arguments: &str| format!("@ConditionalOnProperty({arguments})");
    let cases = [
        // (of the first handler, with 1 retry; of the second, with 2)
        (property("\"app.retry\""), property("\"app.off\"")),
        (
            property("name = \"retry\", prefix = \"app\", havingValue = \"ON\""),
            property("name = \"app.retry\", havingValue = \"no\""),
        ),
        (property("value = \"app.none\", matchIfMissing = true"), property("\"app.none\"")),
        (property("name = {\"app.retry\", \"app.off\"}"), property("name = {\"app.retry\", \"app.retry\"}")),
        ("@Profile(\"prod & !eu\")".to_owned(), "@Profile({\"dev\", \"!prod\"})".to_owned()),
        ("@Profile(\"dev\")".to_owned(), "@Profile(\"dev\")".to_owned()),
        (property("\"app.from-outside\""), property("\"app.off\"")),
        (property("KEY"), property("\"app.off\"")),
    ];
    let cases: Vec<String> = cases.iter().map(|(one, two)| bean(one, 1) + "\n         " + &bean(two, 2)).collect();
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    insta::assert_snapshot!(all(&cases, conditions));
}

#[test]
fn listeners_under_conditions() {
    let cases = [
        "@Profile(\"prod\") @Component class M { MongoTemplate template;
         @KafkaListener(topics = \"m\") void on(Order order) { template.save(order); } }",
        "@Profile(\"!prod\") @Component class M { MongoTemplate template;
         @KafkaListener(topics = \"m\") void on(Order order) { template.save(order); } }",
        "@ConditionalOnProperty(\"app.off\") class Outer { static class M { MongoTemplate template;
         @KafkaListener(topics = \"m\") void on(Order order) { template.save(order); } } }",
        "@ConditionalOnProperty(\"app.from-outside\") class M { MongoTemplate template;
         @KafkaListener(topics = \"m\") void on(Order order) { template.save(order); } }",
    ];
    insta::assert_snapshot!(all(&cases, conditions));
}

#[test]
fn what_all_listeners_but_the_first_share_is_shown() {
    let listener = |name: &str, properties: &str| {
        format!(
            "class {name} {{ MongoTemplate template; @KafkaListener(topics = \"t\"{properties}) \
             void on(Order order) {{ template.save(order); }} }}\n"
        )
    };
    let text = format!(
        "{}{}{}class Order {{ @Id String id; }}",
        listener("A", ", properties = \"max.poll.records=5\""),
        listener("B", ""),
        listener("C", "")
    );
    let shown = rows(&run(&text), &["max.poll.records", "max.poll.interval.ms"]);
    let lines: Vec<&str> = shown.lines().map(|line| line.split(" @").next().unwrap_or(line)).collect();
    let expected = [
        "max.poll.interval.ms: 300000",
        "A.on: max.poll.records: 5",
        "B.on: max.poll.records: 500",
        "C.on: max.poll.records: 500",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn customizers_of_the_consumer_factory() {
    let of = |customizer: &str| {
        let text = format!(
            "class L {{ MongoTemplate template;
         @KafkaListener(topics = \"t\") void on(Order order) {{ template.save(order); }} }}
         class Order {{ @Id String id; }}
         {customizer}
         == application.yml
         spring.kafka.consumer.max-poll-records: 40
         "
        );
        rows(&run(&text), &["max.poll.records", "max.poll.interval.ms"])
    };
    let cases = [
        "@Configuration class C { @Bean DefaultKafkaConsumerFactoryCustomizer c() {
         return factory -> factory.updateConfigs(Map.of(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 7)); } }",
        "@Component class C implements DefaultKafkaConsumerFactoryCustomizer {
         public void customize(DefaultKafkaConsumerFactory<?, ?> factory) {
         factory.updateConfigs(Map.of(\"max.poll.interval.ms\", 60000)); } }",
        "@Configuration class C { @Profile(\"prod\") @Bean DefaultKafkaConsumerFactoryCustomizer c() {
         return factory -> factory.updateConfigs(Map.of(\"max.poll.records\", 7)); } }",
        "@Configuration class C { @Bean DefaultKafkaConsumerFactoryCustomizer c(Map<String, Object> given) {
         return factory -> factory.updateConfigs(given); } }",
        "@Configuration class C { @Bean DefaultKafkaConsumerFactoryCustomizer c() {
         return factory -> factory.addListener(new Metrics()); } }",
    ];
    insta::assert_snapshot!(all(&cases, of));
}
