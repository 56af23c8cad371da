//! Error handlers, back-offs and recoverers.

use backfire_jvm::Value;
use backfire_model::back_off::BackOff;

use crate::describe::{analyze, check};

#[track_caller]
fn java(made: &str, expected: &str) {
    let text = format!("class C {{ @Bean DefaultErrorHandler h() {{ {made} }} }}");
    check(&["handler h"], &text, &format!("handler h default{expected}"));
}

#[track_caller]
fn kotlin(made: &str, expected: &str) {
    check(&["handler h"], &format!("class C {{ @Bean fun h() = {made} }}"), &format!("handler h default{expected}"));
}

#[test]
fn back_offs_in_java() {
    java("return new DefaultErrorHandler();", "");
    java("return new DefaultErrorHandler(new FixedBackOff(1000L, 3));", " [fixed initial=1000 retries=3]");
    java("return new DefaultErrorHandler(new FixedBackOff());", " [fixed]");
    java(
        "return new DefaultErrorHandler(new FixedBackOff(0, FixedBackOff.UNLIMITED_ATTEMPTS));",
        " [fixed initial=0 retries=MAX]",
    );
    java(
        "var b = new ExponentialBackOffWithMaxRetries(2 * 3); b.setInitialInterval(500); b.setMultiplier(2.0); \
         b.setMaxInterval(Duration.ofSeconds(10).toMillis()); return new DefaultErrorHandler((r, e) -> log(r), b);",
        " [exponential-max-retries initial=500 multiplier=2.0 max=10000 retries=6] recoverer(custom {(r, e) -> log(r)})",
    );
    java(
        "ExponentialBackOff b = new ExponentialBackOff(1000, 2); b.setMaxElapsedTime(60_000L); b.setJitter(100); \
         return new DefaultErrorHandler(b);",
        " [exponential initial=1000 multiplier=2 elapsed=60000 jitter=100]",
    );
    java("return new DefaultErrorHandler(() -> new Mine());", " [custom {() -> new Mine()}]");
    java(
        "return new DefaultErrorHandler(null, fast ? new FixedBackOff(0, 1) : new FixedBackOff(9, 9));",
        " [fixed initial=0 retries=1 | fixed initial=9 retries=9]",
    );
    java(
        "FixedBackOff b = new FixedBackOff(1, 1); if (slow) { b.setInterval(5); } return new DefaultErrorHandler(b);",
        " [fixed initial=5 if retries=1]",
    );
}

#[test]
fn back_offs_in_kotlin() {
    kotlin("DefaultErrorHandler(FixedBackOff(0, 3))", " [fixed initial=0 retries=3]");
    kotlin(
        "DefaultErrorHandler(ExponentialBackOffWithMaxRetries(4).apply { initialInterval = 1_000L; multiplier = 2.0 })",
        " [exponential-max-retries initial=1000 multiplier=2.0 retries=4]",
    );
    kotlin(
        "ExponentialBackOff().let { it.maxAttempts = 5; it.maxInterval = 10.seconds.inWholeMilliseconds; \
         DefaultErrorHandler({ r, e -> log(r) }, it) }",
        " [exponential max=10000 retries=5] recoverer(custom {{ r, e -> log(r) }})",
    );
}

#[test]
fn settings() {
    java(
        "var h = new DefaultErrorHandler(new FixedBackOff(0, 1)); h.setSeekAfterError(false); h.setAckAfterHandle(false); \
         h.setCommitRecovered(true); h.setResetStateOnExceptionChange(false); h.setResetStateOnRecoveryFailure(false); \
         h.setRetryListeners((r, e, n) -> {}); return h;",
        " [fixed initial=0 retries=1] seekAfterError=false ackAfterHandle=false commitRecovered=true \
         resetStateOnExceptionChange=false resetStateOnRecoveryFailure=false",
    );
    java(
        "var h = new DefaultErrorHandler(null, new FixedBackOff(0, 1), new ContainerPausingBackOffHandler(pauser)); \
         h.addNotRetryableExceptions(DuplicateKeyException.class, a.b.OtherException.class); \
         h.addRetryableExceptions(IllegalStateException.class); h.removeClassification(ClassCastException.class); \
         h.defaultFalse(); h.setBackOffFunction((r, e) -> null); return h;",
        " [fixed initial=0 retries=1] not=DuplicateKeyException+OtherException retry=IllegalStateException \
         unclassified=ClassCastException by-default=false back-off-function waits-by=ContainerPausingBackOffHandler",
    );
    kotlin(
        "DefaultErrorHandler(FixedBackOff(0, 1)).apply { addNotRetryableExceptions(A::class.java, B::class.java); \
         isAckAfterHandle = false; setClassifications(mapOf(C::class.java to true), false) }",
        " [fixed initial=0 retries=1] not=A+B retry=C by-default=false ackAfterHandle=false",
    );
}

#[test]
fn recoverers() {
    java(
        "var d = new DeadLetterPublishingRecoverer(template, (r, e) -> new TopicPartition(\"x\", -1)); \
         d.setFailIfSendResultIsError(false); d.setWaitForSendResultTimeout(Duration.ofSeconds(3)); \
         return new DefaultErrorHandler(d, new FixedBackOff(0, 1));",
        " [fixed initial=0 retries=1] recoverer(dead-letter resolver failIfSendResultIsError=false \
         waitForSendResultTimeout=3000ms)",
    );
    java("return new DefaultErrorHandler(new DeadLetterPublishingRecoverer(template));", " recoverer(dead-letter)");
    java("return new DefaultErrorHandler(this::lost);", " recoverer(custom {this::lost})");
    check(
        &["handler h"],
        "class C { @Bean DefaultErrorHandler h(ConsumerRecordRecoverer r) { return new DefaultErrorHandler(r); }
          @Bean ConsumerRecordRecoverer r() { return new Own(); } }
         class Own implements ConsumerRecordRecoverer { public void accept(ConsumerRecord r, Exception e) {} }",
        "handler h default recoverer(custom {Own})",
    );
}

#[test]
fn handlers_before_2_8_and_others() {
    check(
        &["handler"],
        "class C {
            SeekToCurrentErrorHandler a() { return new SeekToCurrentErrorHandler(new FixedBackOff(1, 2)); }
            Object b() { var h = new SeekToCurrentBatchErrorHandler(); h.setBackOff(new FixedBackOff(3, 4)); return h; }
            Object c() { return new RecoveringBatchErrorHandler((r, e) -> {}, new FixedBackOff(5, 6)); }
            Object d() { return new CommonLoggingErrorHandler(); }
            Object e() { return new CommonContainerStoppingErrorHandler(); }
            Object f() { return new DefaultAfterRollbackProcessor<>((r, e) -> {}, new FixedBackOff(7, 8)); }
        }",
        "handler  seek-to-current [fixed initial=1 retries=2]
         handler  seek-to-current-batch [fixed initial=3 retries=4]
         handler  recovering-batch [fixed initial=5 retries=6] recoverer(custom {(r, e) -> {}})
         handler  logging
         handler  stopping
         handler  after-rollback [fixed initial=7 retries=8] recoverer(custom {(r, e) -> {}})",
    );
}

#[test]
fn classes_of_the_project() {
    check(
        &["handler"],
        "@Component class Mine extends DefaultErrorHandler {
            Mine() { super(new FixedBackOff(1, 2)); setAckAfterHandle(false); }
            @Override public void handleRemaining(Exception e) {}
         }
         @Component class Other implements CommonErrorHandler { public boolean handleOne(Exception e) { return true; } }",
        "handler mine custom-default [fixed initial=1 retries=2] ackAfterHandle=false overrides=handleRemaining
         handler other custom overrides=handleOne",
    );
}

#[test]
fn values_follow_helpers_fields_and_settings() {
    check(
        &["handler h"],
        "class C {
            private static final long WAIT = 2 * Times.SECOND;
            @Value(\"${app.retries:4}\") private int retries;
            @Bean DefaultErrorHandler h(Props props) { return make(WAIT + 500, props); }
            private DefaultErrorHandler make(long wait, Props props) {
                var h = new DefaultErrorHandler(new FixedBackOff(wait, retries - 1));
                h.setAckAfterHandle(props.ack());
                return h;
            }
         }
         class Times { static final long SECOND = TimeUnit.SECONDS.toMillis(1); }
         @ConfigurationProperties(\"app.kafka\") record Props(@DefaultValue(\"true\") boolean ack) {}",
        "handler h default [fixed initial=2500 retries=subtract(${app.retries:4}, 1)] ackAfterHandle=${app.kafka.ack:true}",
    );
}

#[test]
fn a_back_off_becomes_the_models_once_its_settings_are_known() {
    let analysis = analyze(
        "class C { @Bean DefaultErrorHandler h(@Value(\"${w}\") long wait, @Value(\"${n:2}\") int n) {
            return new DefaultErrorHandler(new FixedBackOff(wait, n)); } }",
    );
    let back_off = &analysis.error_handlers[0].back_offs[0];
    let open = back_off.to_model(&mut |_| None).expect_err("a wait that nothing gives");
    assert_eq!((open.len(), open[0].name), (1, "initialInterval"));
    assert!(matches!(&open[0].value, Value::Property(property) if property.key == "w"));
    let known = back_off.to_model(&mut |property| (property.key == "w").then(|| "250".to_owned()));
    assert_eq!(known, Ok(BackOff::fixed(250, 2)));
}
