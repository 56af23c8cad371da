package backfire.lab;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.bson.Document;

/** What {@code backfire check} says of the service's files with these properties. */
final class Check {
    private final Document prediction;
    /** The rules that it finds broken, for the listener or for the whole service. */
    final Set<String> rules;

    private Check(Document prediction, Set<String> rules) {
        this.prediction = prediction;
        this.rules = rules;
    }

    static Check of(String listener, Map<String, String> properties) throws Exception {
        List<String> command = new ArrayList<>(List.of(
                System.getProperty("backfire.bin"), "check", "--format", "json",
                System.getProperty("backfire.service")));
        properties.forEach((name, value) -> {
            command.add("--set");
            command.add(name + "=" + value);
        });
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (process.waitFor() > 1) {
            throw new IllegalStateException("backfire check ended with status " + process.exitValue());
        }
        Document result = Document.parse(output);
        Document prediction = result.getList("predictions", Document.class).stream()
                .filter(found -> found.getString("listener").equals(listener))
                .findFirst()
                .orElseThrow(() -> new IllegalStateException("backfire check found no listener " + listener));
        Set<String> rules = result.getList("findings", Document.class).stream()
                .filter(found -> {
                    String message = found.getString("message");
                    return message.contains(listener) || !message.contains("Listener.");
                })
                .map(found -> found.getString("rule"))
                .collect(Collectors.toSet());
        return new Check(prediction, rules);
    }

    /** A number that is predicted: exactly, within bounds, or without a bound. */
    Predicted number(String name) {
        Object value = prediction.get(name);
        if (value instanceof Number number) {
            return new Predicted(number.longValue(), number.longValue());
        }
        if (value instanceof Document range) {
            if (range.getBoolean("unbounded", false)) {
                return new Predicted(0, Long.MAX_VALUE);
            }
            return new Predicted(((Number) range.get("from")).longValue(), ((Number) range.get("to")).longValue());
        }
        throw new IllegalStateException("backfire check says nothing of " + name + ": " + value);
    }

    /** From here to there; {@code to} is {@link Long#MAX_VALUE} where there is no bound. */
    record Predicted(long from, long to) {
        boolean holds(long measured) {
            return from <= measured && measured <= to;
        }

        boolean isUnbounded() {
            return to == Long.MAX_VALUE;
        }

        @Override
        public String toString() {
            if (isUnbounded()) {
                return "no bound";
            }
            return from == to ? Long.toString(from) : from + " to " + to;
        }
    }
}
