//! Listeners and their annotations.

use crate::describe::check;

#[test]
fn attributes() {
    check(
        &["listener"],
        "class C {
            @KafkaListener(topics = {\"a\", \"${b}\"}, groupId = \"g\", id = \"x\", concurrency = \"3\", batch = \"true\",
                errorHandler = \"eh\", autoStartup = \"${on:true}\", properties = \"max.poll.records=5\", clientIdPrefix = \"p\")
            void on(@Payload String s, @Header(\"h\") int h, Acknowledgment ack) { }
            @KafkaListener(topicPattern = \"a.*\") void pattern(ConsumerRecord<String, String> r) { }
            @KafkaListeners({@KafkaListener(topics = \"one\"), @KafkaListener(topics = \"two\")}) void two(String s) { }
            void none(String s) { }
        }",
        "listener C.on method record ack id='x' topics=['a', ${b}] group='g' concurrency=3 batch=true autoStartup=${on:true} \
         errorHandler='eh' properties='max.poll.records=5' clientIdPrefix='p' -> boot, default
         listener C.pattern method record pattern='a.*' -> boot, default
         listener C.two method record topics='one' -> boot, default
         listener C.two method record topics='two' -> boot, default",
    );
}

#[test]
fn what_a_listener_takes_and_gives_back() {
    let case = |signature: &str, expected: &str| {
        let text = format!("class C {{ @KafkaListener(topics = \"t\") {signature} {{ return null; }} }}");
        check(&["listener"], &text, &format!("listener C.on method {expected} topics='t' -> boot, default"));
    };
    case("void on(List<String> s)", "list");
    case("void on(ConsumerRecords<String, String> s)", "records");
    case("void on(String[] s)", "list");
    case("Mono<Void> on(String s)", "record async");
    case("void on(Message<String> s)", "record");
    case("void on(Acknowledgment a)", "none ack");
    let text = "class C { @KafkaListener(topics = [\"t\"]) suspend fun on(records: List<String>) { } }";
    check(&["listener"], text, "listener C.on method list async topics=['t'] -> boot, default");
}

#[test]
fn class_level_listeners_and_inherited_methods() {
    check(
        &["listener"],
        "@KafkaListener(topics = \"t\") class C extends Base<Order> {
            @KafkaHandler void order(Order o) { }
            @KafkaHandler(isDefault = true) void other(Object o) { }
         }
         abstract class Base<T> { @KafkaListener(topics = \"base\") void base(T t) { } }
         class Order {}",
        "listener C.order handler record topics='t' -> boot, default
         listener C.other handler record topics='t' -> boot, default
         listener C.base method record topics='base' -> boot, default",
    );
}

#[test]
fn annotations_of_the_project() {
    check(
        &["listener"],
        "== a/Orders.java
         package a;
         @KafkaListener(groupId = \"orders\", containerFactory = \"f\") public @interface Orders {
            @AliasFor(annotation = KafkaListener.class, attribute = \"topics\") String[] topics() default {};
            @AliasFor(annotation = KafkaListener.class, attribute = \"concurrency\") String threads() default \"1\"; }
         == b/C.java
         package b; import a.Orders;
         class C { @Orders(topics = \"t\", threads = \"4\") void on(String s) { } }",
        "listener C.on method record topics='t' group='orders' containerFactory='f' concurrency=4 threads='4' -> missing f, \
         unknown (its container factory is not known)",
    );
}

#[test]
fn retry_topics() {
    let case = |annotation: &str, expected: &str| {
        let text = format!("class C {{ {annotation} @KafkaListener(topics = \"t\") void on(String s) {{ }} }}");
        check(&["retry-topic"], &text, &format!("retry-topic{expected}"));
    };
    case("@RetryableTopic", "");
    case(
        "@RetryableTopic(attempts = \"5\", backoff = @Backoff(delay = 1000, multiplier = 2, maxDelay = 9000, random = true), \
         include = {A.class, B.class}, dltStrategy = DltStrategy.NO_DLT, \
         sameIntervalTopicReuseStrategy = SameIntervalTopicReuseStrategy.MULTIPLE_TOPICS)",
        " attempts=5 delay=1000 multiplier=2 max=9000 random=true dlt=DltStrategy.NO_DLT for=A+B \
         sameIntervalTopicReuseStrategy=SameIntervalTopicReuseStrategy.MULTIPLE_TOPICS",
    );
    case(
        "@RetryableTopic(backOff = @BackOff(value = 500, jitter = 50), exclude = C.class, timeout = \"1000\")",
        " delay=500 jitter=50 not=C timeout='1000'",
    );
    case(
        "@RetryableTopic(backoff = @Backoff(delayExpression = \"${d:2000}\"), attempts = \"${n}\")",
        " attempts=${n} delay=${d:2000ms}",
    );
}

#[test]
fn retry_topic_beans() {
    check(
        &["retry-topic"],
        "class C { @Bean RetryTopicConfiguration r(KafkaTemplate<String, String> t) {
            return RetryTopicConfigurationBuilder.newInstance().maxAttempts(4).exponentialBackoff(1000, 2, 8000)
                .notRetryOn(List.of(A.class, B.class)).dltProcessingFailureStrategy(DltStrategy.FAIL_ON_ERROR)
                .excludeTopic(\"x\").create(t); } }",
        "retry-topic-bean attempts=4 delay=1000 multiplier=2 max=8000 dlt=DltStrategy.FAIL_ON_ERROR not=A+B excludeTopic='x'",
    );
}

#[test]
fn stream_functions_and_listeners_of_containers() {
    check(
        &["listener", "write"],
        "class C {
            @Bean java.util.function.Consumer<List<Order>> orders(MongoTemplate t) { return batch -> batch.forEach(t::save); }
            @Bean Consumer<String> nothing() { return s -> { }; }
            @Bean ConcurrentMessageListenerContainer<String, String> c(ConsumerFactory<String, String> cf, Own own) {
                var p = new ContainerProperties(\"raw\");
                p.setMessageListener(own);
                return new ConcurrentMessageListenerContainer<>(cf, p);
            }
         }
         @Component class Own implements AcknowledgingMessageListener<String, String> {
            @Autowired MongoTemplate t;
            public void onMessage(ConsumerRecord<String, String> r, Acknowledgment a) { t.insert(new Order(r.key())); } }
         record Order(@Id String id) {}",
        "listener orders stream-binding list -> unknown (Spring Cloud Stream's binder makes it), \
         unknown (its container factory is not known)
         write save save id=carried of=Order upsert records(forEach) @2 via
         listener Own.onMessage container record ack topics='raw' -> c, default
         write insert insert id=own of=Order @12 via Own.onMessage",
    );
}
