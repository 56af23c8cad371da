package backfire.lab;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * One way to configure the service and to stall the server.
 *
 * @param profile the server version to behave like
 * @param backOff {@code fixed} or {@code exponential}
 * @param deadline the connection string's option that ends a wait
 * @param write a listener of the service: {@code insert}, {@code upsert}, {@code bulk}, {@code multi}, {@code several},
 *     {@code mixed} or {@code batch}
 * @param stall {@code fail point} (before the session), {@code engine} (after it, and nothing ends what is there),
 *     {@code hang} (the same for inserts, with the fail point that a mongod has for that), {@code interruptible}
 *     (inserts, where a deadline ends them) or {@code fail point, second command} (of a bulk: updates only)
 */
record Combination(
        String profile,
        boolean retryWrites,
        String backOff,
        int retries,
        long intervalMs,
        String deadline,
        String write,
        String stall) {
    /** All times are scaled down: what the mission calls 30 s is this. */
    static final long TIMEOUT_MS = 300;

    static final String FAIL_POINT = "fail point";
    static final String ENGINE = "engine";
    static final String HANG = "hang";
    static final String INTERRUPTIBLE = "interruptible";
    static final String SECOND = "fail point, second command";
    private static final List<String> WRITES = List.of("insert", "upsert", "bulk", "multi");
    private static final List<String> STALLS = List.of(FAIL_POINT, ENGINE);

    /** Every combination, or those with an even sum of positions, in which every two values still meet. */
    static List<Combination> all(String profile, boolean half) {
        List<Combination> all = new ArrayList<>();
        for (int retryWrites = 0; retryWrites < 2; retryWrites++) {
            for (int backOff = 0; backOff < 3; backOff++) {
                for (int deadline = 0; deadline < 2; deadline++) {
                    for (int write = 0; write < WRITES.size(); write++) {
                        for (int stall = 0; stall < STALLS.size(); stall++) {
                            if (half && (retryWrites + backOff + deadline + write + stall) % 2 != 0) {
                                continue;
                            }
                            all.add(new Combination(
                                    profile,
                                    retryWrites == 0,
                                    backOff == 2 ? "exponential" : "fixed",
                                    backOff == 1 ? 9 : 3,
                                    backOff == 2 ? 50 : 0,
                                    (deadline == 0 ? "socketTimeoutMS=" : "timeoutMS=") + TIMEOUT_MS,
                                    WRITES.get(write),
                                    STALLS.get(stall)));
                        }
                    }
                }
            }
        }
        return all;
    }

    boolean hasSession() {
        return !stall.equals(FAIL_POINT) && !stall.equals(SECOND);
    }

    /** Whether the listener takes what a poll gives, and not one record. */
    boolean isBatch() {
        return write.equals("batch");
    }

    /** How many records there are. */
    int records() {
        return isBatch() ? 3 : 1;
    }

    /** A record's value. */
    String value() {
        return isBatch() ? "{\"amount\": 7}" : "7";
    }

    /** The back-off as Spring writes it. */
    String series() {
        return backOff.equals("fixed")
                ? "FixedBackOff(" + intervalMs + ", " + retries + ")"
                : "ExponentialBackOffWithMaxRetries(" + retries + "), " + intervalMs + " ms x2";
    }

    /** The listener's name in {@code backfire check}. */
    String listener() {
        return Character.toUpperCase(write.charAt(0)) + write.substring(1) + "Listener.on";
    }

    /** The options of the connection string. */
    String options() {
        return "retryWrites=" + retryWrites + "&" + deadline;
    }

    /** The service's properties. */
    Map<String, String> properties(String uri, String brokers, String topic) {
        Map<String, String> properties = new LinkedHashMap<>();
        properties.put("INVENTORY_URI", uri);
        properties.put("INVENTORY_BROKERS", brokers);
        properties.put("inventory.topic", topic);
        properties.put("inventory.group", topic);
        properties.put("inventory.write", write);
        properties.put("inventory.back-off", backOff);
        properties.put("inventory.interval-ms", Long.toString(intervalMs));
        properties.put("inventory.retries", Integer.toString(retries));
        if (isBatch()) {
            properties.put("spring.kafka.consumer.max-poll-records", "500");
        }
        return properties;
    }
}
