//! Settings of MongoDB clients.

use crate::describe::check;

#[test]
fn customizers() {
    check(
        &["client"],
        "class C {
            @Bean MongoClientSettingsBuilderCustomizer a(@Value(\"${mongo.timeout:5s}\") Duration timeout) {
                return builder -> builder
                    .applyToSocketSettings(s -> s.readTimeout((int) timeout.toMillis(), TimeUnit.MILLISECONDS))
                    .applyToConnectionPoolSettings(p -> { p.maxSize(20); p.maxWaitTime(2, TimeUnit.SECONDS); })
                    .applyToClusterSettings(c -> c.serverSelectionTimeout(7, TimeUnit.SECONDS))
                    .retryWrites(false).retryReads(true).timeout(9, TimeUnit.SECONDS);
            }
            @Bean MongoClientSettingsBuilderCustomizer b() { return this::change; }
            private void change(MongoClientSettings.Builder b) { if (x) { b.retryWrites(false); } }
         }
         @Component class D implements MongoClientSettingsBuilderCustomizer {
            public void customize(MongoClientSettings.Builder b) { b.writeConcern(WriteConcern.MAJORITY); } }",
        "client a customizer socket.readTimeout=duration-of-ms(to-ms(${mongo.timeout:5000ms})) pool.maxSize=20 \
         pool.maxWaitTime=2000ms cluster.serverSelectionTimeout=7000ms retryWrites=false retryReads=true timeout=9000ms
         client b customizer retryWrites=false if
         client  customizer writeConcern=WriteConcern.MAJORITY",
    );
}

#[test]
fn customizers_in_kotlin() {
    check(
        &["client"],
        "class C { @Bean fun a() = MongoClientSettingsBuilderCustomizer { b ->
            b.applyToSocketSettings { it.connectTimeout(3, TimeUnit.SECONDS) }
            b.timeout(4, TimeUnit.SECONDS) } }",
        "client a customizer socket.connectTimeout=3000ms timeout=4000ms",
    );
}

#[test]
fn settings_and_clients() {
    check(
        &["client"],
        "class C extends AbstractMongoClientConfiguration {
            @Bean MongoClient one(@Value(\"${uri}\") String uri) { return MongoClients.create(uri); }
            @Bean MongoClient two() { return MongoClients.create(MongoClientSettings.builder()
                .applyConnectionString(new ConnectionString(\"mongodb://h/?retryWrites=false\")).retryWrites(true).build()); }
            @Bean MongoClientSettings three() { return MongoClientSettings.builder().timeout(1, TimeUnit.SECONDS).build(); }
            @Override protected void configureClientSettings(MongoClientSettings.Builder b) { b.retryReads(false); }
         }",
        "client  configuration retryReads=false
         client one create uri=${uri}
         client two create uri='mongodb://h/?retryWrites=false' retryWrites=true
         client three settings timeout=1000ms",
    );
}
