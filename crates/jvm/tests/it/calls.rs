//! The ways from a listener to a write.

use crate::describe::check;

#[test]
fn interfaces_inheritance_and_helpers() {
    check(
        &["write"],
        "class L { private final Port port; L(Port port) { this.port = port; }
            @KafkaListener(topics = \"t\") void on(Order o) { port.store(o); Helper.log(o); } }
         interface Port { void store(Order o); default void twice(Order o) { store(o); store(o); } }
         @Service class Adapter extends Base implements Port { public void store(Order o) { super.keep(o); keep(o); } }
         abstract class Base { @Autowired MongoTemplate t; void keep(Order o) { t.insert(o); } }
         class Helper { static void log(Order o) { new Writer().write(o); } }
         class Writer { MongoTemplate t; void write(Order o) { t.save(o); } }
         class Order { @Id String id; }",
        "write insert insert id=carried of=Order @5 via L.on > Adapter.store > Base.keep
         write insert insert id=carried of=Order @5 via L.on > Adapter.store > Base.keep
         write save save id=carried of=Order upsert @7 via L.on > Helper.log > Writer.write",
    );
}

#[test]
fn several_implementations_are_all_followed() {
    check(
        &["write"],
        "class L { @Autowired List<Port> all; @Autowired Port one;
            @KafkaListener(topics = \"t\") void on(String s) { all.forEach(p -> p.store(s)); } }
         interface Port { void store(String s); }
         @Component class A implements Port { @Autowired MongoTemplate t; public void store(String s) { t.insert(new X(s)); } }
         @Component class B implements Port { @Autowired MongoTemplate t; public void store(String s) { t.save(new X(s)); } }
         record X(@Id String id) { }",
        "write insert insert id=own of=X loop(forEach) @4 via L.on > A.store
         write save save id=own of=X upsert loop(forEach) @5 via L.on > B.store",
    );
}

#[test]
fn lambdas_and_method_references() {
    check(
        &["write"],
        "class L { @Autowired MongoTemplate t; private final Consumer<X> sink = x -> t.insert(x);
            @KafkaListener(topics = \"t\") void on(Event e) {
                e.lines().stream().map(this::convert).filter(x -> x.n() > 0).forEach(t::insert);
                Optional.of(e).map(X::of).ifPresent(sink);
                run(() -> t.save(X.of(e)));
                Supplier<X> made = () -> convert(e.lines().get(0));
                t.insert(made.get());
            }
            private X convert(Line l) { return new X(l.sku(), 1); }
            private void run(Runnable r) { r.run(); } }
         record Event(String id, List<Line> lines) { } record Line(String sku) { }
         record X(@Id String id, int n) { static X of(Event e) { return new X(UUID.randomUUID().toString(), 2); } }",
        "write insert insert id=own of=X loop(forEach) @3 via L.on
         write insert insert id=fresh of=X @1 via L.on
         write save save id=fresh of=X upsert @5 via L.on > L.run
         write insert insert id=own of=X @7 via L.on",
    );
}

#[test]
fn kotlins_functions() {
    check(
        &["write"],
        "== a/L.kt
         package a
         import b.toDoc
         import b.*
         class L(private val t: MongoTemplate, private val store: Store) : Sink by store {
            @KafkaListener(topics = [\"t\"]) fun on(e: Event) {
                e.also { t.insert(it.toDoc()) }.let(::keep)
                t.run { save(Doc(\"a\")) }
                with(e) { lines.mapNotNull { l -> l.sku?.let { Doc(it) } }.forEach(t::insert) }
                sink(e)
                fun local(x: Event) { t.remove(Query(Criteria.where(\"a\").`is`(1)), Doc::class.java) }
                local(e)
                for ((i, l) in e.lines.withIndex()) { t.save(Doc(l.sku!!)) }
            }
            private fun keep(e: Event) = t.save(e.toDoc(fresh = true))
         }
         == b/B.kt
         package b
         data class Event(val id: String, val lines: List<Line>)
         data class Line(val sku: String?)
         data class Doc(@Id val id: String? = null)
         fun Event.toDoc(fresh: Boolean = false) = if (fresh) Doc(UUID.randomUUID().toString()) else Doc(id)
         interface Sink { fun sink(e: Event) }
         @Service class Store(private val t: MongoTemplate) : Sink { override fun sink(e: Event) { t.insert(Doc()) } }",
        "write insert insert id=own of=Doc @6 via L.on
         write save save id=fresh of=Doc upsert @14 via L.on > L.keep
         write save save id=own of=Doc upsert @7 via L.on
         write insert insert id=own of=Doc loop(forEach) @8 via L.on
         write insert insert id=generated of=Doc @7 via L.on > Store.sink
         write remove delete-many id=by-filter of=Doc where=a @10 via L.on
         write save save id=own of=Doc upsert loop(e.lines.withIndex()) @12 via L.on",
    );
}

#[test]
fn recursion_and_conditions() {
    check(
        &["write"],
        "class L { @Autowired MongoTemplate t; boolean off = false;
            @KafkaListener(topics = \"t\") void on(Node n) {
                if (n == null) { return; }
                t.insert(new X(n.id()));
                if (n.left() != null) { on(n.left()); t.save(new X(n.id())); }
                if (off) { t.insert(new X(\"never\")); }
                switch (n.id()) { case \"a\": t.remove(new X(\"r\")); break; default: break; }
            } }
         record Node(String id, Node left) { } record X(@Id String id) { }",
        "write insert insert id=own of=X @4 via L.on
         write save save id=own of=X upsert if @5 via L.on
         write remove delete id=by-filter of=X if @7 via L.on",
    );
}

#[test]
fn generic_handlers() {
    check(
        &["write"],
        "abstract class Handler<E, T> { protected abstract T map(E e); @Autowired Store<T> store;
            void handle(E e) { store.put(map(e)); } }
         class OrderHandler extends Handler<Event, Order> { protected Order map(Event e) { return new Order(e.id()); } }
         interface Store<T> { void put(T t); }
         @Component class MongoStore<T> implements Store<T> { @Autowired MongoOperations o; public void put(T t) { o.save(t); } }
         class L { @Autowired OrderHandler h; @KafkaListener(topics = \"t\") void on(Event e) { h.handle(e); } }
         record Event(String id) { } record Order(@Id String id) { }",
        "write save save id=own of=Order upsert @5 via L.on > Handler.handle > MongoStore.put",
    );
}
