package backfire.lab;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.springframework.boot.SpringBootVersion;

/** Many combinations, each predicted and measured. */
final class Matrix {
    private Matrix() {}

    static boolean run(Broker broker, String size, List<String> lines) throws Exception {
        List<Combination> combinations = switch (size) {
            case "sample" -> everyThird(Combination.all("4.4", true));
            case "half" -> Combination.all("4.4", true);
            case "all" -> Combination.all("4.4", false);
            case "bulks" -> bulks();
            case "full" -> {
                List<Combination> all = new ArrayList<>();
                for (String profile : List.of("4.4", "7.0", "8.0")) {
                    all.addAll(Combination.all(profile, false));
                }
                yield all;
            }
            default -> throw new IllegalArgumentException("no matrix '" + size + "'");
        };
        // Classes are loaded and compiled before anything is measured.
        Run.of(combinations.get(0), broker);
        List<Run> runs = inParallel(combinations.stream()
                .<Callable<Run>>map(combination -> () -> {
                    Run run = Run.of(combination, broker);
                    print(run);
                    return run;
                })
                .toList());
        lines.add("### Spring Boot " + SpringBootVersion.getVersion());
        lines.add("");
        lines.add("| server | retryWrites | back-off | deadline | write | stall "
                + "| executions | sends | copies | at once | dead letters | documents |");
        lines.add("| --- | --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
        runs.forEach(run -> lines.add(row(run)));
        lines.add("");
        long same = runs.stream().filter(Run::isSame).count();
        String summary = same + " of " + runs.size() + " combinations are as predicted.";
        lines.add(summary);
        Lab.say("Spring Boot %s: %s", SpringBootVersion.getVersion(), summary);
        return same == runs.size();
    }

    /** Bulks of several commands, which stand still at the first or the second, and batches. */
    private static List<Combination> bulks() {
        List<Combination> bulks = new ArrayList<>();
        for (boolean retryWrites : List.of(true, false)) {
            for (String write : List.of("several", "mixed")) {
                for (String stall : List.of(Combination.ENGINE, Combination.SECOND)) {
                    bulks.add(bulk(retryWrites, write, stall));
                }
            }
            bulks.add(bulk(retryWrites, "batch", Combination.FAIL_POINT));
            bulks.add(bulk(retryWrites, "batch", Combination.ENGINE));
        }
        return bulks;
    }

    private static Combination bulk(boolean retryWrites, String write, String stall) {
        String deadline = "socketTimeoutMS=" + Combination.TIMEOUT_MS;
        return new Combination("4.4", retryWrites, "fixed", 3, 0, deadline, write, stall);
    }

    /** Three has no divisor in common with the numbers of writes and stalls, so each of them is there. */
    private static List<Combination> everyThird(List<Combination> all) {
        List<Combination> some = new ArrayList<>();
        for (int i = 0; i < all.size(); i += 3) {
            some.add(all.get(i));
        }
        return some;
    }

    /** The results, in the order of the tasks; the first failure, if there is one. */
    static <T> List<T> inParallel(List<Callable<T>> tasks) throws Exception {
        ExecutorService executor = Executors.newFixedThreadPool(Integer.getInteger("backfire.jobs", 4));
        try {
            List<T> results = new ArrayList<>();
            for (Future<T> result : executor.invokeAll(tasks)) {
                results.add(result.get());
            }
            return results;
        } finally {
            executor.shutdown();
        }
    }

    private static void print(Run run) {
        Combination combination = run.combination();
        String counts = run.counts().stream()
                .map(count -> count.name() + " " + count)
                .collect(Collectors.joining(", "));
        Lab.say("%s  %s %s %s %s %s: %s%s", run.isSame() ? "same  " : "DIFFER", combination.profile(),
                combination.options(), combination.series(), combination.write(), combination.stall(), counts,
                run.isConsistent() ? "" : ", and " + run.seen().sends() + " sends were seen");
    }

    private static String row(Run run) {
        Combination combination = run.combination();
        List<String> cells = new ArrayList<>(List.of(
                combination.profile(),
                combination.retryWrites() ? "on" : "off",
                combination.series(),
                combination.deadline(),
                combination.write(),
                combination.stall()));
        run.counts().forEach(count -> cells.add(count.toString()));
        cells.add(Long.toString(run.documents()));
        return "| " + String.join(" | ", cells) + " |";
    }
}
