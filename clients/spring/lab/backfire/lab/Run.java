package backfire.lab;

import backfire.lab.Check.Predicted;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * One combination, measured: its records go to the service while the server stands still, until they are dead letters.
 *
 * @param executions as the listener's container saw them
 * @param seen what was seen at the server
 * @param sends the server's own count of the write commands that arrived and that the stall is about
 * @param earlier commands of bulks that were executed before the one that stands still: each made a document
 * @param waiting what had not begun at the end: resends that wait for their session, or what the fail point holds
 * @param inEngine what had begun at the end
 * @param documents after the stall, when nothing runs any more
 * @param committed the offset that the group has committed; -1: none
 */
record Run(
        Combination combination,
        Check check,
        String topic,
        List<Probe.Execution> executions,
        Watch.Seen seen,
        long sends,
        long earlier,
        long waiting,
        long inEngine,
        long documents,
        List<ConsumerRecord<String, String>> deadLetters,
        long committed) {
    private static final AtomicInteger NUMBER = new AtomicInteger();
    /** What an execution takes beside its timeouts, on a machine that does much else. */
    private static final long OVERHEAD_MS = 400;

    /** A name that no other run has. */
    static String name(String kind) {
        return kind + "-" + ProcessHandle.current().pid() + "-" + NUMBER.incrementAndGet();
    }

    static Run of(Combination combination, Broker broker) throws Exception {
        String topic = name("inventory");
        String deadLetterTopic = topic + "-dlt";
        broker.create(topic, deadLetterTopic);
        try (LabServer server = new LabServer(combination.profile())) {
            Map<String, String> properties =
                    combination.properties(server.uri(combination.options()), broker.brokers, topic);
            Check check = Check.of(combination.listener(), properties);
            long expectedMs = check.number("dead_letter_ms").to()
                    + check.number("executions").to() * OVERHEAD_MS;
            if (combination.write().equals("multi")) {
                server.seed("1");
            }
            List<Probe.Execution> executions;
            Watch.Seen seen;
            LabServer.Live live;
            long sends;
            long earlier;
            if (combination.isBatch()) {
                // All of them are there when the service polls first.
                begin(combination, server, broker, topic, expectedMs);
            }
            try (Service service = new Service(properties); Watch watch = new Watch(server)) {
                if (!combination.isBatch()) {
                    begin(combination, server, broker, topic, expectedMs);
                }
                broker.read(deadLetterTopic, combination.records(), Duration.ofMillis(expectedMs + 20_000));
                live = watch.look();
                seen = watch.seen();
                earlier = combination.stall().equals(Combination.SECOND) ? server.documents() : 0;
                sends = server.release();
                executions = service.probe.executions();
            }
            server.drain(expectedMs + 20_000);
            long waiting = live.sends().size() - live.inEngine();
            // The offset of a dead letter is committed as the service stops, if not before.
            long committed = broker.committed(topic, topic).orElse(-1L);
            var deadLetters = broker.readAll(deadLetterTopic);
            return new Run(combination, check, topic, executions, seen, sends, earlier, waiting, live.inEngine(),
                    server.documents(), deadLetters, committed);
        }
    }

    /** The server stands still, and the records come. */
    private static void begin(
            Combination combination, LabServer server, Broker broker, String topic, long expectedMs) throws Exception {
        switch (combination.stall()) {
            case Combination.ENGINE -> server.stallInEngine();
            case Combination.HANG -> server.hang();
            case Combination.INTERRUPTIBLE -> server.hangInterruptibly();
            case Combination.SECOND -> server.holdUpdates(expectedMs + 2_000);
            default -> server.hold(expectedMs + 2_000);
        }
        for (int number = 1; number <= combination.records(); number++) {
            broker.send(topic, Integer.toString(number), combination.value());
        }
    }

    /** A count: what it is called, what was predicted, and what was measured. */
    record Count(String name, Predicted predicted, long measured) {
        boolean isSame() {
            return predicted.holds(measured);
        }

        /** The number alone where it was predicted exactly. */
        @Override
        public String toString() {
            if (!isSame()) {
                return measured + " (predicted " + predicted + ")";
            }
            return predicted.from() == predicted.to() ? Long.toString(measured) : measured + " (" + predicted + ")";
        }
    }

    /** What {@code backfire check} predicts, and what was counted. */
    List<Count> counts() {
        long records = combination.records();
        return List.of(
                new Count("executions", check.number("executions"), executions.size()),
                new Count("sends", check.number("sends"), sends + earlier),
                new Count("copies", check.number("copies"), seen.copies() + earlier),
                new Count("at once", check.number("overlapping_copies_max"), seen.atOnce()),
                new Count("dead letters", new Predicted(records, records), deadLetters.size()));
    }

    /** The server's own count agrees with the operations that were seen. */
    boolean isConsistent() {
        return sends == seen.sends();
    }

    boolean isSame() {
        return isConsistent() && counts().stream().allMatch(Count::isSame);
    }
}
