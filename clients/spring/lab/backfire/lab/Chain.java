package backfire.lab;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.springframework.boot.SpringBootVersion;

/** The worked timeline, the stalls that a mongod was measured with, and the ways in which executions have no end. */
final class Chain {
    private final Broker broker;
    private final List<String> lines = new ArrayList<>();
    private boolean same = true;

    private Chain(Broker broker) {
        this.broker = broker;
    }

    private interface Part {
        void run(Chain chain) throws Exception;
    }

    static boolean run(Broker broker, List<String> lines) throws Exception {
        lines.add("### Spring Boot " + SpringBootVersion.getVersion());
        lines.add("");
        lines.add("| what | measured |");
        lines.add("| --- | --- |");
        List<Part> parts = List.of(
                Chain::timeline,
                chain -> chain.stalled("fixed", 3, 0, Combination.FAIL_POINT, 0),
                chain -> chain.stalled("fixed", 3, 0, Combination.ENGINE, 4),
                chain -> chain.stalled("fixed", 9, 0, Combination.ENGINE, 10),
                chain -> chain.stalled("exponential", 3, 150, Combination.ENGINE, 4),
                chain -> chain.deadline(Combination.FAIL_POINT, 4, 4),
                chain -> chain.deadline(Combination.HANG, 4, 0),
                chain -> chain.deadline(Combination.INTERRUPTIBLE, 0, 0),
                Chain::handOver,
                Chain::alternating,
                Chain::noDeadLetters);
        List<Callable<Chain>> tasks = new ArrayList<>();
        for (Part part : parts) {
            tasks.add(() -> {
                Chain chain = new Chain(broker);
                part.run(chain);
                return chain;
            });
        }
        boolean same = true;
        for (Chain chain : Matrix.inParallel(tasks)) {
            lines.addAll(chain.lines);
            same &= chain.same;
        }
        Lab.say("Spring Boot %s: the chain is %s", SpringBootVersion.getVersion(), same ? "as expected" : "DIFFERENT");
        return same;
    }

    /** A bulk, four executions, a server that stands still throughout: the timeline of the scenario store-inventory. */
    private void timeline() throws Exception {
        Combination combination = new Combination(
                "4.4", true, "fixed", 3, 0, "socketTimeoutMS=" + Combination.TIMEOUT_MS, "bulk", Combination.ENGINE);
        Run run = Run.of(combination, broker);
        row("The worked timeline", run);
        expect("the prediction holds", true, run.isSame());
        expect("copies", 4L, run.seen().copies());
        expect("copies in the engine", 4L, run.inEngine());
        expect("waiting resends", 4L, run.waiting());
        expect("documents, two for each copy", 8L, run.documents());
        expect("the committed offset", 1L, run.committed());
        waits(run);
        headers(run);
    }

    private void headers(Run run) {
        expect("dead letters", 1, run.deadLetters().size());
        if (run.deadLetters().isEmpty()) {
            return;
        }
        ConsumerRecord<String, String> letter = run.deadLetters().get(0);
        expect("the dead letter", List.of(0, "1", "7"), List.of(letter.partition(), letter.key(), letter.value()));
        expect("original-topic", run.topic(), text(letter, "original-topic"));
        expect("original-partition", 0, ByteBuffer.wrap(header(letter, "original-partition")).getInt());
        expect("original-offset", 0L, ByteBuffer.wrap(header(letter, "original-offset")).getLong());
        expect("original-timestamp-type", "CreateTime", text(letter, "original-timestamp-type"));
        expect("original-timestamp has 8 bytes", 8, header(letter, "original-timestamp").length);
        expect("original-consumer-group", run.topic(), text(letter, "original-consumer-group"));
        expect("exception-fqcn", "org.springframework.kafka.listener.ListenerExecutionFailedException",
                text(letter, "exception-fqcn"));
        expect("exception-cause-fqcn", "org.springframework.dao.DataAccessResourceFailureException",
                text(letter, "exception-cause-fqcn"));
        expect("exception-message is there", true, header(letter, "exception-message").length > 0);
        expect("exception-stacktrace names the read timeout", true,
                text(letter, "exception-stacktrace").contains("MongoSocketReadTimeoutException"));
    }

    private static byte[] header(ConsumerRecord<String, String> letter, String name) {
        Header header = letter.headers().lastHeader("kafka_dlt-" + name);
        return header == null ? new byte[8] : header.value();
    }

    private static String text(ConsumerRecord<String, String> letter, String name) {
        return new String(header(letter, name), StandardCharsets.UTF_8);
    }

    /** A row of what was measured with a real mongod: {@code running}: how many have their session. */
    private void stalled(String backOff, int retries, long intervalMs, String stall, long running) throws Exception {
        Combination combination = new Combination("4.4", true, backOff, retries, intervalMs,
                "socketTimeoutMS=" + Combination.TIMEOUT_MS, "insert", stall);
        Run run = Run.of(combination, broker);
        row("insert, " + combination.series() + ", " + stall, run);
        long executions = retries + 1;
        expect("the prediction holds", true, run.isSame());
        expect("executions", executions, (long) run.executions().size());
        expect("sends", 2 * executions, run.sends());
        expect("copies", executions, run.seen().copies());
        expect("copies in the engine", running, run.inEngine());
        expect("documents", executions, run.documents());
        expect("dead letters", 1, run.deadLetters().size());
        waits(run);
    }

    /**
     * With {@code timeoutMS} each execution sends once, and the stall decides what becomes of the copies.
     *
     * @param left how many are still there at the end
     * @param documents how many of them write
     */
    private void deadline(String stall, long left, long documents) throws Exception {
        Combination combination = new Combination(
                "4.4", true, "fixed", 3, 0, "timeoutMS=" + Combination.TIMEOUT_MS, "insert", stall);
        Run run = Run.of(combination, broker);
        String what = "insert, timeoutMS, " + combination.series() + ", " + stall;
        row(what, run);
        expect("the prediction holds", true, run.isSame());
        expect("sends", 4L, run.sends());
        expect("copies", 4L, run.seen().copies());
        expect("copies at the end", left, run.waiting() + run.inEngine());
        expect("documents", documents, run.documents());
        expect("exception-cause-fqcn under timeoutMS", "org.springframework.data.mongodb.UncategorizedMongoDbException",
                text(run.deadLetters().get(0), "exception-cause-fqcn"));
    }

    /** No execution begins before the timeouts of the one before it and the wait are over. */
    private void waits(Run run) {
        Combination combination = run.combination();
        long waitMs = combination.intervalMs();
        for (int i = 1; i < run.executions().size(); i++) {
            long tookMs = (run.executions().get(i).beginNs() - run.executions().get(i - 1).beginNs()) / 1_000_000;
            expect("execution " + (i + 1) + " waited", true, tookMs >= 2 * Combination.TIMEOUT_MS + waitMs - 1);
            waitMs = combination.backOff().equals("fixed") ? waitMs : 2 * waitMs;
        }
    }

    /**
     * An execution takes longer than {@code max.poll.interval.ms}: the partition goes to the other consumer while the
     * first is still in its call, and no offset is ever committed.
     */
    private void handOver() throws Exception {
        Combination combination = new Combination(
                "4.4", true, "fixed", 3, 0, "socketTimeoutMS=1000", "insert", Combination.ENGINE);
        String topic = Run.name("handover");
        broker.create(topic, topic + "-dlt");
        try (LabServer server = new LabServer("4.4")) {
            Map<String, String> properties =
                    combination.properties(server.uri(combination.options()), broker.brokers, topic);
            properties.put("inventory.consumers", "2");
            properties.put("inventory.max-poll-interval-ms", "1500");
            Check check = Check.of(combination.listener(), properties);
            // So that the other consumer hears of it soon, and not with its next heartbeat after 3 s.
            properties.put("spring.kafka.consumer.heartbeat-interval", "200ms");
            server.stallInEngine();
            try (Service service = new Service(properties)) {
                broker.send(topic, "1", "7");
                List<ConsumerRecord<String, String>> letters =
                        broker.read(topic + "-dlt", 2, Duration.ofSeconds(90));
                int executions = service.probe.executions().size();
                expect("executions beyond the four of the back-off", true, executions > 4);
                expect("copies, one for each execution that got so far", true,
                        server.live().copies().size() >= executions - 1);
                expect("dead letters of one record", 2, letters.size());
                expect("in both consumers at once", true, service.probe.overlapped());
                if (!same) {
                    service.probe.executions().forEach(execution -> Lab.say("  %s", execution));
                }
                expect("committed offset", -1L, broker.committed(topic, topic).orElse(-1L));
                expect("check predicts no bound", true, check.number("executions").isUnbounded());
                expect("check names BF030", true, check.rules.contains("BF030"));
                // What the containers wait for as they stop.
                server.release();
            }
        }
        lines.add("| max.poll.interval.ms exceeded, two consumers, cut off at 2 dead letters "
                + "| more than 4 executions, in both consumers at once; 2 dead letters; no offset committed; "
                + "predicted: no bound (BF030) |");
    }

    /** Each execution fails with another class of exception than the one before: the back-off starts over each time. */
    private void alternating() throws Exception {
        endless("alternating exceptions, 3 retries", "BF010", true, (server, executions) ->
                server.fail(executions % 2 == 0 ? 11000 : 50));
    }

    /** There is no dead-letter topic: the series starts over each time it is exhausted. */
    private void noDeadLetters() throws Exception {
        endless("dead letters cannot be published, 3 retries", "BF011", false, (server, executions) -> {});
    }

    private interface Change {
        void after(LabServer server, int executions);
    }

    private void endless(String what, String rule, boolean deadLetters, Change change) throws Exception {
        int cutOff = 20;
        Combination combination = new Combination("4.4", false, "fixed", 3, deadLetters ? 100 : 0,
                "socketTimeoutMS=10000", "insert", "error");
        String topic = Run.name("endless");
        broker.create(topic);
        if (deadLetters) {
            broker.create(topic + "-dlt");
        }
        try (LabServer server = new LabServer("4.4")) {
            Map<String, String> properties =
                    combination.properties(server.uri(combination.options()), broker.brokers, topic);
            properties.put("inventory.max-block-ms", "200");
            Check check = Check.of(combination.listener(), properties);
            server.fail(50);
            try (Service service = new Service(properties)) {
                broker.send(topic, "1", "7");
                int seen = 0;
                long endNs = System.nanoTime() + Duration.ofSeconds(60).toNanos();
                while (seen < cutOff && System.nanoTime() < endNs) {
                    int executions = service.probe.ended();
                    if (executions != seen) {
                        change.after(server, executions);
                        seen = executions;
                    }
                    Thread.sleep(5);
                }
                expect(what + ": executions go on", true, seen >= cutOff);
                if (!same) {
                    service.probe.executions().forEach(execution -> Lab.say("  %s", execution));
                }
                expect(what + ": committed offset", -1L, broker.committed(topic, topic).orElse(-1L));
                if (deadLetters) {
                    expect(what + ": dead letters", 0, broker.readAll(topic + "-dlt").size());
                }
            }
            expect(what + ": check names " + rule, true, check.rules.contains(rule));
        }
        lines.add("| " + what + ", cut off at " + cutOff + " executions | " + cutOff
                + " executions and no end; no offset committed; " + rule + " |");
    }

    private void row(String what, Run run) {
        lines.add("| " + what + " | " + run.executions().size() + " executions, " + run.sends() + " sends, "
                + run.seen().copies() + " copies: at the end " + run.inEngine() + " in the engine and "
                + run.waiting()
                + (run.combination().hasSession() ? " waiting resends; " : " held before their session; ")
                + run.documents() + " documents, " + run.deadLetters().size() + " dead letter |");
    }

    private <T> void expect(String name, T expected, T measured) {
        if (!expected.equals(measured)) {
            same = false;
            lines.add("| DIFFERENT: " + name + " | expected " + expected + ", measured " + measured + " |");
            Lab.say("DIFFER  %s: expected %s, measured %s", name, expected, measured);
        }
    }
}
