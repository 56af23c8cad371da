//! Container factories, consumer factories and what links listeners to them.

use crate::describe::check;

#[test]
fn a_factory_in_java() {
    check(
        &["factory", "consumer", "listener"],
        "class C {
            @Bean ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory() {
                ConcurrentKafkaListenerContainerFactory<String, String> f = new ConcurrentKafkaListenerContainerFactory<>();
                f.setConsumerFactory(consumers());
                f.setBatchListener(true);
                f.setConcurrency(3);
                f.setAutoStartup(false);
                f.getContainerProperties().setAckMode(ContainerProperties.AckMode.MANUAL_IMMEDIATE);
                f.getContainerProperties().setPollTimeout(1000L);
                f.getContainerProperties().getKafkaConsumerProperties().put(\"max.poll.records\", \"10\");
                f.setCommonErrorHandler(new DefaultErrorHandler(new FixedBackOff(0, 2)));
                return f;
            }
            ConsumerFactory<String, String> consumers() {
                Map<String, Object> props = new HashMap<>();
                props.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 50);
                props.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
                if (cooperative) { props.put(\"group.protocol\", \"consumer\"); }
                return new DefaultKafkaConsumerFactory<>(props);
            }
            @KafkaListener(topics = \"t\") void on(String s) { }
        }",
        "listener C.on method record topics='t' -> kafkaListenerContainerFactory, DefaultErrorHandler@11
         factory kafkaListenerContainerFactory batch=true concurrency=3 autoStartup=false ackMode=AckMode.MANUAL_IMMEDIATE \
         pollTimeout=1000 kafkaConsumerProperties.max.poll.records='10' consumer=@19 handler=DefaultErrorHandler@11
         consumer  max.poll.records=50 value.deserializer=StringDeserializer.class group.protocol='consumer' if",
    );
}

#[test]
fn a_factory_in_kotlin() {
    check(
        &["factory", "consumer"],
        "class C {
            @Bean fun f(handler: CommonErrorHandler) = ConcurrentKafkaListenerContainerFactory<String, String>().apply {
                consumerFactory = DefaultKafkaConsumerFactory(mapOf(\"max.poll.interval.ms\" to 5 * 60_000))
                setConcurrency(2)
                isBatchListener = true
                containerProperties.apply { ackMode = AckMode.BATCH; idleBetweenPolls = 100 }
                setCommonErrorHandler(handler)
            }
            @Bean fun handler() = DefaultErrorHandler()
        }",
        "factory f batch=true concurrency=2 ackMode=AckMode.BATCH idleBetweenPolls=100 consumer=@3 handler=handler
         consumer  max.poll.interval.ms=300000",
    );
}

#[test]
fn boots_configurer_and_its_single_handler_bean() {
    check(
        &["factory", "listener"],
        "class C {
            @Bean ConcurrentKafkaListenerContainerFactory<?, ?> own(
                    ConcurrentKafkaListenerContainerFactoryConfigurer configurer, ConsumerFactory<Object, Object> cf) {
                var f = new ConcurrentKafkaListenerContainerFactory<Object, Object>();
                configurer.configure(f, cf);
                return f;
            }
            @Bean DefaultErrorHandler handler() { return new DefaultErrorHandler(); }
            @KafkaListener(topics = \"a\", containerFactory = \"own\") void a(String s) { }
            @KafkaListener(topics = \"b\") void b(String s) { }
            @KafkaListener(topics = \"c\", containerFactory = \"none\") void c(String s) { }
        }",
        "listener C.a method record topics='a' containerFactory='own' -> own, handler
         listener C.b method record topics='b' -> boot, handler
         listener C.c method record topics='c' containerFactory='none' -> missing none, \
         unknown (its container factory is not known)
         factory own boot consumer=boot handler=default",
    );
}

#[test]
fn several_handler_beans_are_ambiguous_unless_one_is_primary() {
    let case = |second: &str, expected: &str| {
        let text = format!(
            "class C {{
                @Bean DefaultErrorHandler a() {{ return new DefaultErrorHandler(); }}
                {second} @Bean DefaultErrorHandler b() {{ return new DefaultErrorHandler(); }}
                @KafkaListener(topics = \"t\") void on(String s) {{ }}
            }}"
        );
        check(&["listener"], &text, &format!("listener C.on method record topics='t' -> boot, {expected}"));
    };
    case("", "one of a/b");
    case("@Primary", "b");
}

#[test]
fn injected_beans_are_told_apart_by_qualifier_and_name() {
    check(
        &["factory"],
        "class C {
            @Bean DefaultErrorHandler slow() { return new DefaultErrorHandler(new FixedBackOff(9, 9)); }
            @Bean(\"quick\") DefaultErrorHandler fast() { return new DefaultErrorHandler(new FixedBackOff(0, 1)); }
            @Bean ConcurrentKafkaListenerContainerFactory<?, ?> x(@Qualifier(\"quick\") CommonErrorHandler h) {
                var f = new ConcurrentKafkaListenerContainerFactory<>(); f.setCommonErrorHandler(h); return f; }
            @Bean ConcurrentKafkaListenerContainerFactory<?, ?> y(CommonErrorHandler slow) {
                var f = new ConcurrentKafkaListenerContainerFactory<>(); f.setCommonErrorHandler(slow); return f; }
            @Bean ConcurrentKafkaListenerContainerFactory<?, ?> z(ObjectProvider<CommonErrorHandler> h) {
                var f = new ConcurrentKafkaListenerContainerFactory<>(); h.ifAvailable(f::setCommonErrorHandler); return f; }
        }",
        "factory x consumer=default handler=quick
         factory y consumer=default handler=slow
         factory z consumer=default handler=one of slow/quick",
    );
}

#[test]
fn consumer_properties_from_maps_of_all_kinds() {
    let case = |map: &str, expected: &str| {
        let text = format!(
            "class C {{ @Bean ConsumerFactory<String, String> c(KafkaProperties kafka) {{
                return new DefaultKafkaConsumerFactory<>({map}); }} }}"
        );
        check(&["consumer"], &text, &format!("consumer c{expected}"));
    };
    case("Map.of(\"a\", 1, \"b\", \"2\")", " a=1 b='2'");
    case("Map.ofEntries(Map.entry(\"a\", 1))", " a=1");
    case("kafka.buildConsumerProperties()", " boot ");
    case("unknown()", " incomplete ");
    case("new HashMap<>(Map.of(ConsumerConfig.GROUP_ID_CONFIG, \"g\"))", " group.id='g'");
}
