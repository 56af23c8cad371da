//! The operations that write, and what is known of them.

use crate::describe::check;

const ENTITIES: &str = "
@Document(\"orders\") class Order { @Id private String id; private String sku; @Version Long v;
    Order() { } Order(String id, String sku) { this.id = id; this.sku = sku; } void setId(String id) { this.id = id; } }
record Event(String id, String sku, List<Event> more) { }
interface Orders extends MongoRepository<Order, String> {
    long deleteBySku(String sku); Order removeById(String id); List<Order> deleteAllByV(Long v);
    @Query(value = \"{}\", delete = true) void purge(); @Query(\"{}\") @Update(\"{}\") void touch(); Optional<Order> findBySku(String sku);
    @Aggregation(pipeline = {\"{$match: {}}\", \"{$merge: 'x'}\"}) void roll(); }
interface Rx extends ReactiveMongoRepository<Order, String> { }
interface Jpa extends CrudRepository<Row, String> { } @Entity class Row { @Id String id; }
";

#[track_caller]
fn java(body: &str, expected: &str) {
    let text = format!(
        "class L {{ @Autowired MongoTemplate t; @Autowired ReactiveMongoTemplate rx; @Autowired Orders orders; @Autowired Rx rxo; \
         @Autowired Jpa jpa; @Autowired MongoDatabase db; @Autowired ObjectMapper json; @KafkaListener(topics = \"t\") void on(Event e) {{\n{body} }} }}{ENTITIES}"
    );
    let expected: Vec<_> = expected
        .lines()
        .map(|line| format!("write {} @2 via L.on", line.trim()))
        .filter(|line| !line.contains("write  @"))
        .collect();
    check(&["write"], &text, &expected.join("\n"));
}

#[test]
fn template() {
    java("t.insert(new Order(e.id(), e.sku()));", "insert insert id=own of=Order in='orders' versioned");
    java("t.insert(new Order(), \"other\");", "insert insert id=generated of=Order in='other' versioned");
    java(
        "t.insert(List.of(new Order()), Order.class);",
        "insert insert-many id=generated of=Order in='orders' versioned",
    );
    java(
        "t.insertAll(List.of(new Order(\"1\", \"\")));",
        "insertAll insert-many id=own of=Order in='orders' versioned",
    );
    java("t.save(new Order());", "save save id=generated of=Order in='orders' versioned");
    java("t.save(new Order(\"1\", \"\"));", "save save id=own of=Order in='orders' upsert versioned");
    java(
        "t.updateFirst(new Query(Criteria.where(\"sku\").is(1).and(\"v\").lt(2)), Update.update(\"a\", 1).inc(\"b\", 2), Order.class);",
        "updateFirst update id=by-filter of=Order in='orders' where=sku+v with=set+inc versioned",
    );
    java("t.updateMulti(q, u, Order.class);", "updateMulti update-many id=by-filter of=Order in='orders' versioned");
    java(
        "t.upsert(Query.query(Criteria.where(\"id\").is(e.id())), new Update().set(\"a\", 1).setOnInsert(\"b\", 2), \"raw\");",
        "upsert update id=own in='raw' upsert where=_id with=set+setOnInsert",
    );
    java("t.remove(new Order(\"1\", \"\"));", "remove delete id=by-filter of=Order in='orders' versioned");
    java(
        "t.remove(Query.query(Criteria.where(\"a\").is(1)), Order.class);",
        "remove delete-many id=by-filter of=Order in='orders' where=a versioned",
    );
    java(
        "t.findAndModify(new Query().maxTime(Duration.ofSeconds(1)), new Update().inc(\"n\", 1), FindAndModifyOptions.options().returnNew(true).upsert(true), Order.class);",
        "findAndModify find-and-modify id=by-filter of=Order in='orders' upsert with=inc versioned max-time=1000ms dropped",
    );
    java(
        "t.findAndReplace(q, new Order(), Order.class);",
        "findAndReplace find-and-modify id=by-filter of=Order in='orders' versioned",
    );
    java(
        "t.findAndRemove(q, Order.class); t.findAllAndRemove(q, Order.class);",
        "findAndRemove find-and-modify id=by-filter of=Order in='orders' versioned\nfindAllAndRemove delete-many id=by-filter of=Order in='orders' versioned",
    );
    java(
        "t.executeCommand(new Document(\"update\", \"x\").append(\"maxTimeMS\", 500));",
        "executeCommand run-command(update) id=unknown max-time=500",
    );
    java("t.executeCommand(\"{ ping: 1 }\"); t.find(q, Order.class); t.count(q, Order.class);", "");
}

#[test]
fn fluent_template() {
    java(
        "t.update(Order.class).matching(Criteria.where(\"a\").is(1)).apply(new Update().set(\"b\", 1)).first();",
        "update.first update id=by-filter of=Order in='orders' where=a with=set versioned",
    );
    java(
        "t.update(Order.class).inCollection(\"x\").matching(q).apply(u).all();",
        "update.all update-many id=by-filter of=Order in='x' versioned",
    );
    java(
        "t.update(Order.class).matching(q).apply(u).upsert();",
        "update.upsert update id=by-filter of=Order in='orders' upsert versioned",
    );
    java(
        "t.update(Order.class).matching(q).apply(u).findAndModifyValue();",
        "update.findAndModifyValue find-and-modify id=by-filter of=Order in='orders' versioned",
    );
    java("t.insert(Order.class).one(new Order());", "insert.one insert id=generated of=Order in='orders' versioned");
    java(
        "t.remove(Order.class).matching(q).all();",
        "remove.all delete-many id=by-filter of=Order in='orders' versioned",
    );
}

#[test]
fn bulks_of_the_template() {
    java(
        "BulkOperations b = t.bulkOps(BulkOperations.BulkMode.ORDERED, Order.class); b.insert(new Order()); b.updateOne(q, u); b.remove(q); b.execute();",
        "bulkOps.execute bulk id=generated of=Order in='orders' versioned bulk(ordered=true: insert insert id=generated, updateOne update id=by-filter, remove delete-many id=by-filter)",
    );
    java(
        "var b = t.bulkOps(BulkMode.UNORDERED, \"raw\"); for (Event m : e.more()) { b.upsert(Query.query(Criteria.where(\"_id\").is(m.id())), u); } b.execute();",
        "bulkOps.execute bulk id=own in='raw' upsert bulk(ordered=false: upsert update id=own upsert repeated)",
    );
    java(
        "rx.bulkOps(BulkMode.ORDERED, Order.class).updateMulti(q, u).execute().block();",
        "bulkOps.execute bulk id=by-filter of=Order in='orders' versioned bulk(ordered=true: updateMulti update-many id=by-filter)",
    );
}

#[test]
fn repositories() {
    java("orders.save(new Order());", "save save id=generated of=Order in='orders' versioned");
    java("orders.saveAll(List.of(new Order()));", "saveAll save-all id=generated of=Order in='orders' versioned");
    java(
        "orders.insert(new Order()); orders.insert(List.of(new Order()));",
        "insert insert id=generated of=Order in='orders' versioned\ninsert insert-many id=generated of=Order in='orders' versioned",
    );
    java(
        "orders.delete(new Order()); orders.deleteById(\"1\"); orders.deleteAll();",
        "delete delete id=by-filter of=Order in='orders' versioned\ndeleteById delete-many id=by-filter of=Order in='orders' versioned\ndeleteAll delete-many id=by-filter of=Order in='orders' versioned",
    );
    java(
        "orders.deleteBySku(\"\"); orders.removeById(\"\"); orders.deleteAllByV(1L);",
        "deleteBySku delete-many id=by-filter of=Order in='orders' versioned\nremoveById find-and-modify id=by-filter of=Order in='orders' versioned\ndeleteAllByV delete-many id=by-filter of=Order in='orders' versioned",
    );
    java(
        "orders.purge(); orders.touch(); orders.roll();",
        "purge delete-many id=by-filter of=Order in='orders' versioned\ntouch update-many id=by-filter of=Order in='orders' versioned\nroll aggregate id=by-filter of=Order in='orders' versioned",
    );
    java("orders.findBySku(\"\"); orders.findAll(); orders.count(); jpa.save(new Row());", "");
    java(
        "rxo.save(new Order()).then(rxo.deleteById(\"1\")).block();",
        "save save id=generated of=Order in='orders' versioned\ndeleteById delete-many id=by-filter of=Order in='orders' versioned",
    );
}

#[test]
fn driver() {
    java(
        "db.getCollection(\"c\").insertOne(new Document(\"_id\", e.id()).append(\"a\", 1));",
        "insertOne insert id=own in='c'",
    );
    java("db.getCollection(\"c\").insertOne(new Document(\"a\", 1));", "insertOne insert id=generated in='c'");
    java("db.getCollection(\"c\").insertMany(List.of(new Document()));", "insertMany insert-many id=generated in='c'");
    java(
        "db.getCollection(\"c\").updateOne(Filters.eq(\"_id\", 1), Updates.set(\"a\", 2), new UpdateOptions().upsert(true));",
        "updateOne update id=own in='c' upsert where=_id with=set",
    );
    java(
        "db.getCollection(\"c\").updateMany(Filters.and(Filters.eq(\"a\", 1), Filters.lt(\"b\", 2)), Updates.combine(Updates.inc(\"n\", 1), Updates.set(\"a\", 2)));",
        "updateMany update-many id=by-filter in='c' where=a+b with=inc+set",
    );
    java(
        "db.getCollection(\"c\").replaceOne(new Document(\"_id\", 1), d); db.getCollection(\"c\").deleteOne(f); db.getCollection(\"c\").deleteMany(f);",
        "replaceOne replace id=own in='c' where=_id\ndeleteOne delete id=by-filter in='c'\ndeleteMany delete-many id=by-filter in='c'",
    );
    java(
        "t.getCollection(\"c\").findOneAndUpdate(f, Updates.inc(\"n\", 1), new FindOneAndUpdateOptions().maxTime(3, TimeUnit.SECONDS));",
        "findOneAndUpdate find-and-modify id=by-filter in='c' with=inc max-time=3000",
    );
    java(
        "var models = new ArrayList<WriteModel<Document>>(); models.add(new InsertOneModel<>(new Document())); \
         e.more().forEach(m -> models.add(new DeleteManyModel<>(Filters.eq(\"a\", m.id())))); \
         db.getCollection(\"c\").bulkWrite(models, new BulkWriteOptions().ordered(false));",
        "bulkWrite bulk id=generated in='c' bulk(ordered=false: InsertOneModel insert id=generated, DeleteManyModel delete-many id=by-filter repeated)",
    );
    java("db.getCollection(\"c\").bulkWrite(given);", "bulkWrite bulk id=unknown in='c' bulk(ordered=true: , ...)");
    java(
        "db.runCommand(new Document(\"insert\", \"c\")); t.execute(\"c\", c -> { c.insertOne(new Document()); return 1; });",
        "runCommand run-command(insert) id=unknown\ninsertOne insert id=generated in='c'",
    );
}

#[test]
fn where_an_id_comes_from() {
    java(
        "Order o = new Order(); o.setId(UUID.randomUUID().toString()); t.insert(o);",
        "insert insert id=fresh of=Order in='orders' versioned",
    );
    java(
        "Order o = new Order(new ObjectId().toHexString(), \"\"); t.insert(o);",
        "insert insert id=fresh of=Order in='orders' versioned",
    );
    java("t.insert(new Order(\"order-\" + e.id(), \"\"));", "insert insert id=own of=Order in='orders' versioned");
    java("t.insert(new Order(null, \"\"));", "insert insert id=generated of=Order in='orders' versioned");
    java(
        "Order o = orders.findBySku(\"\").orElseThrow(); o.setSku(\"\"); orders.save(o);",
        "save save id=loaded of=Order in='orders' upsert versioned",
    );
    java(
        "Order o = json.convertValue(e, Order.class); orders.save(o);",
        "save save id=carried of=Order in='orders' upsert versioned",
    );
    java(
        "Order o = new Order(); if (e.sku() != null) { o.setId(e.id()); } t.save(o);",
        "save save id=own of=Order in='orders' upsert versioned",
    );
}

#[test]
fn builders_and_kotlin_entities() {
    check(
        &["write"],
        "class L { @Autowired MongoTemplate t; @KafkaListener(topics = \"t\") void on(String s) {
            t.insert(B.builder().name(s).build()); t.insert(B.builder().id(s).build()); t.insert(B.of(s, \"n\")); } }
         @Builder @AllArgsConstructor(staticName = \"of\") class B { @MongoId private String id; private String name; }",
        "write insert insert id=generated of=B @2 via L.on
         write insert insert id=own of=B @2 via L.on
         write insert insert id=own of=B @2 via L.on",
    );
    check(
        &["write"],
        "class L(val t: MongoTemplate) { @KafkaListener(topics = [\"t\"]) fun on(s: String) {
            t.insert(K(name = s)); t.insert(K(s, s)); t.insert(K(name = s).copy(id = s)); t.insert(F(s)) } }
         data class K(@Id val id: String? = null, val name: String)
         class F(val name: String) { @Id var id: ObjectId = ObjectId.get() }",
        "write insert insert id=generated of=K @2 via L.on
         write insert insert id=own of=K @2 via L.on
         write insert insert id=own of=K @2 via L.on
         write insert insert id=fresh of=F @2 via L.on",
    );
}

#[test]
fn kotlins_extensions_of_the_template() {
    check(
        &["write"],
        "class L(val t: MongoTemplate) { @KafkaListener(topics = [\"t\"]) fun on(s: String) {
            t.updateFirst<K>(Query(), Update().set(\"a\", 1))
            t.findAndModify<K>(Query(Criteria.where(\"id\").`is`(s)), Update().inc(\"n\", 1))
            t.remove<K>(Query())
            t.bulkOps<K>(BulkMode.ORDERED).insert(K(s)).execute()
            t.update<K>().matching(Query()).apply(Update()).first() } }
         data class K(@Id val id: String)",
        "write updateFirst update id=by-filter of=K with=set @2 via L.on
         write findAndModify find-and-modify id=own of=K where=_id with=inc @3 via L.on
         write remove delete-many id=by-filter of=K @4 via L.on
         write bulkOps.execute bulk id=own of=K bulk(ordered=true: insert insert id=own) @5 via L.on
         write update.first update id=by-filter of=K @6 via L.on",
    );
}
