//! Retries inside listeners.

use crate::describe::check;

#[track_caller]
fn case(service: &str, expected: &str) {
    let text = format!(
        "class L {{ @Autowired S s; @KafkaListener(topics = \"t\") void on(Order o) {{ s.store(o); }} }}
         class Order {{ @Id String id; }}
         class S {{ @Autowired MongoTemplate t; @Autowired RetryRegistry registry; {service} }}"
    );
    check(&["write"], &text, expected);
}

#[test]
fn annotations() {
    case(
        "@Retryable void store(Order o) { t.save(o); }",
        "write save save id=carried of=Order upsert retry(spring-retry) @3 via L.on > S.store",
    );
    case(
        "@Retryable(retryFor = A.class, noRetryFor = {B.class}, maxAttempts = 5, backoff = @Backoff(delay = 10, multiplier = 2, \
         maxDelay = 100)) void store(Order o) { t.save(o); }",
        "write save save id=carried of=Order upsert \
         retry(spring-retry attempts=5 delay=10 multiplier=2 max=100 for=A not=B) @3 via L.on > S.store",
    );
    case(
        "@Retryable(maxRetries = 4, delayString = \"${d:1s}\", jitter = 10, excludes = B.class) void store(Order o) { t.save(o); }",
        "write save save id=carried of=Order upsert retry(framework retries=4 delay=${d:1000ms} jitter=10 not=B) @3 \
         via L.on > S.store",
    );
    case(
        "@Retry(name = \"mongo\") void store(Order o) { t.save(o); }",
        "write save save id=carried of=Order upsert retry(resilience4j mongo) @3 via L.on > S.store",
    );
}

#[test]
fn a_call_on_this_does_not_go_through_springs_proxy() {
    case(
        "void store(Order o) { inner(o); this.inner(o); } @Retryable @Transactional void inner(Order o) { t.insert(o); }",
        "write insert insert id=carried of=Order @3 via L.on > S.store > S.inner
         write insert insert id=carried of=Order @3 via L.on > S.store > S.inner",
    );
}

#[test]
fn templates() {
    let set = "RetryTemplate r = new RetryTemplate(); { }";
    case(
        &format!(
            "{set} S() {{ r.setRetryPolicy(new SimpleRetryPolicy(6)); var b = new FixedBackOffPolicy(); \
         b.setBackOffPeriod(20); r.setBackOffPolicy(b); }} void store(Order o) {{ r.execute(c -> t.insert(o)); }}"
        ),
        "write insert insert id=carried of=Order retry(template attempts=6 delay=20) @3 via L.on > S.store",
    );
    case(
        "RetryTemplate r = RetryTemplate.builder().maxAttempts(3).fixedBackoff(50).notRetryOn(B.class).build(); \
         void store(Order o) { r.execute(c -> { t.insert(o); return null; }); }",
        "write insert insert id=carried of=Order retry(template attempts=3 delay=50 not=B) @3 via L.on > S.store",
    );
    case(
        "RetryTemplate r = new RetryTemplate(RetryPolicy.builder().maxRetries(2).delay(Duration.ofMillis(5)).build()); \
         void store(Order o) { r.execute(() -> t.insert(o)); }",
        "write insert insert id=carried of=Order retry(template retries=2 delay=5ms) @3 via L.on > S.store",
    );
    case(
        "void store(Order o) { Retry.of(\"x\", RetryConfig.custom().maxAttempts(7).build()).executeRunnable(() -> t.insert(o)); }",
        "write insert insert id=carried of=Order retry(resilience4j x attempts=7) @3 via L.on > S.store",
    );
}

#[test]
fn reactors_operators() {
    case(
        "@Autowired ReactiveMongoTemplate rx; void store(Order o) { rx.insert(o).retry(3).block(); }",
        "write insert insert id=carried of=Order retry(reactor retries=3) @3 via L.on > S.store",
    );
    case(
        "@Autowired ReactiveMongoTemplate rx; \
         void store(Order o) { rx.insert(o).retryWhen(Retry.backoff(2, Duration.ofMillis(10)).jitter(0.5)).block(); }",
        "write insert insert id=carried of=Order retry(reactor retries=2 delay=10ms jitter=0.5) @3 via L.on > S.store",
    );
}
