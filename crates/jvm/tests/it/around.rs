//! What stands around a write.

use crate::describe::check;

#[track_caller]
fn java(body: &str, expected: &str) {
    let text = format!(
        "class L {{ @Autowired MongoTemplate t; @Autowired TransactionTemplate tx; @Autowired Executor executor; @Autowired A a;
         @KafkaListener(topics = \"t\") void on(List<X> xs) {{ X x = new X(\"1\"); {body} }} }}
         record X(@Id String id) {{ }}
         class A {{ @Autowired MongoTemplate t; @Async void later(X x) {{ t.insert(x); }} @Transactional void tx(X x) {{ t.insert(x); }} }}"
    );
    let expected =
        if expected.is_empty() { String::new() } else { format!("write insert insert id=own of=X{expected}") };
    check(&["write"], &text, &expected);
}

#[test]
fn exceptions_that_end_in_the_listener() {
    java("try { t.insert(x); } catch (Exception e) { log.warn(e); }", " swallow(Exception) @2 via L.on");
    java("try { t.insert(x); } catch (Exception e) { throw new RuntimeException(e); }", " @2 via L.on");
    java(
        "try { t.insert(x); } catch (DataAccessException e) { if (fatal(e)) throw e; }",
        " swallow(DataAccessException maybe) @2 via L.on",
    );
    java("try { t.insert(x); } catch (IOException e) { }", " @2 via L.on");
    java(
        "try { t.insert(x); } catch (DuplicateKeyException e) { }",
        " swallow(DuplicateKeyException some) @2 via L.on",
    );
    java(
        "try { t.insert(x); } catch (IllegalStateException | MongoException e) { ack.nack(Duration.ZERO); }",
        " @2 via L.on",
    );
    java("try { t.insert(x); } finally { close(); }", " @2 via L.on");
    java("try (var s = open()) { t.insert(x); } catch (Throwable e) { return; }", " swallow(Throwable) @2 via L.on");
}

#[test]
fn loops() {
    java("for (X each : xs) { t.insert(new X(each.id())); }", " records(xs) @2 via L.on");
    java("for (int i = 0; i < 3; i++) t.insert(x);", " loop(for (int i = 0; i < 3; i++) t.insert(x);) @2 via L.on");
    java("while (go()) { t.insert(x); }", " loop(while (go()) { t.insert(x); }) @2 via L.on");
    java("xs.stream().map(e -> new X(e.id())).forEach(t::insert);", " records(forEach) @2 via L.on");
}

#[test]
fn transactions_and_threads() {
    java("tx.execute(s -> t.insert(x));", " transaction(TransactionTemplate) @2 via L.on");
    java("tx.executeWithoutResult(s -> { t.insert(x); });", " transaction(TransactionTemplate) @2 via L.on");
    java("a.tx(x);", " transaction(@Transactional) @4 via L.on > A.tx");
    java("a.later(x);", " detached(@Async) @4 via L.on > A.later");
    java("executor.execute(() -> t.insert(x));", " detached(Executor) @2 via L.on");
    java("CompletableFuture.runAsync(() -> t.insert(x));", " detached(CompletableFuture) @2 via L.on");
    java("executor.submit(() -> t.insert(x)).get();", " @2 via L.on");
    java("var f = CompletableFuture.runAsync(() -> t.insert(x)); f.join();", " @2 via L.on");
    java(
        "var f = CompletableFuture.supplyAsync(() -> t.insert(x)); CompletableFuture.allOf(f).join();",
        " @2 via L.on",
    );
    java("new Thread(() -> t.insert(x)).start();", " detached(Thread) @2 via L.on");
}

#[test]
fn in_kotlin() {
    let case = |body: &str, expected: &str| {
        let text = format!(
            "class L(private val t: MongoTemplate, private val rx: ReactiveMongoTemplate, private val op: TransactionalOperator) {{
             @KafkaListener(topics = [\"t\"]) suspend fun on(s: String) {{ {body} }} }}
             data class X(@Id val id: String)"
        );
        check(&["write"], &text, &format!("write insert insert id=own of=X{expected}"));
    };
    case("runCatching { t.insert(X(s)) }", " swallow(Throwable maybe) @2 via L.on");
    case("runCatching { t.insert(X(s)) }.getOrThrow()", " @2 via L.on");
    case("try { t.insert(X(s)) } catch (e: Exception) { error(\"x\") }", " @2 via L.on");
    case("val r = try { t.insert(X(s)) } catch (e: Exception) { null }", " swallow(Exception) @2 via L.on");
    case("scope.launch { t.insert(X(s)) }", " detached(coroutine) @2 via L.on");
    case("withContext(Dispatchers.IO) { t.insert(X(s)) }", " @2 via L.on");
    case("op.executeAndAwait { rx.insert(X(s)).awaitSingle() }", " transaction(executeAndAwait) @2 via L.on");
    case("rx.insert(X(s)).subscribe()", " detached(subscribe) @2 via L.on");
    case("rx.insert(X(s)).onErrorResume { Mono.empty() }.awaitSingle()", " swallow(Throwable) @2 via L.on");
    case("repeat(3) { t.insert(X(s)) }", " loop(repeat(3) { t.insert(X(s)) }) @2 via L.on");
}
