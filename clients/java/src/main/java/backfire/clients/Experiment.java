package backfire.clients;

import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.bson.Document;

/**
 * {@code Experiment CONTROL_URI LAB_URI BLOCK_TIME_MS}: arms the fail point, runs the application, counts its copies.
 */
final class Experiment {
    private static final long POLL_EVERY_MS = 100;
    private static final long PATIENCE_MS = 30_000;

    private Experiment() {}

    public static void main(String[] arguments) throws InterruptedException, ExecutionException {
        String controlUri = arguments[0];
        String labUri = arguments[1];
        int blockTimeMs = Integer.parseInt(arguments[2]);
        // Its socket timeout is not the application's: it watches for as long as the writes are held.
        MongoClientSettings settings = MongoClientSettings.builder()
                .applicationName("retry-lab-control")
                .applyConnectionString(new ConnectionString(controlUri))
                .build();
        try (MongoClient control = MongoClients.create(settings)) {
            MongoDatabase admin = control.getDatabase("admin");
            MongoCollection<Document> retryLab = Attempts.database(control, controlUri).getCollection("retry_lab");
            retryLab.deleteMany(new Document());
            admin.runCommand(new Document("configureFailPoint", "failCommand")
                    .append("mode", new Document("times", 8))
                    .append("data", new Document("failCommands", List.of("insert"))
                            .append("blockConnection", true)
                            .append("blockTimeMS", blockTimeMs)
                            .append("appName", "retry-lab")));

            FutureTask<Attempts.Result> application = new FutureTask<>(application(labUri));
            Thread thread = new Thread(application, "application");
            thread.setDaemon(true);
            thread.start();
            List<Integer> largest = watch(admin, application, blockTimeMs);
            long documents = retryLab.countDocuments(new Document("productId", 1));
            admin.runCommand(new Document("configureFailPoint", "failCommand").append("mode", "off"));

            Document result = application.get().toDocument().append("groups", largest).append("documents", (int) documents);
            System.out.println(result.toJson());
            Document expected = new Attempts.Result(4, Collections.nCopies(4, "MongoSocketReadTimeoutException"))
                    .toDocument()
                    .append("groups", List.of(2, 2, 2, 2))
                    .append("documents", 4);
            if (!result.equals(expected)) {
                System.err.println("expected " + expected.toJson());
                System.exit(1);
            }
        }
    }

    private static Callable<Attempts.Result> application(String uri) {
        return () -> {
            try (MongoClient client = MongoClients.create(uri)) {
                MongoDatabase db = Attempts.database(client, uri);
                db.runCommand(new Document("ping", 1));
                return Attempts.run(db);
            }
        };
    }

    /** Polls until the application has ended and nothing of it runs any more; the largest set of groups seen. */
    private static List<Integer> watch(MongoDatabase admin, FutureTask<?> application, int blockTimeMs)
            throws InterruptedException {
        List<Integer> largest = List.of();
        long deadlineMs = Long.MAX_VALUE;
        while (true) {
            boolean ended = application.isDone();
            List<Integer> now = groups(admin);
            if (sum(now) > sum(largest)) {
                largest = now;
            }
            if (ended && now.isEmpty()) {
                return largest;
            }
            long clockMs = System.nanoTime() / 1_000_000;
            if (ended && deadlineMs == Long.MAX_VALUE) {
                deadlineMs = clockMs + blockTimeMs + PATIENCE_MS;
            }
            if (clockMs > deadlineMs) {
                throw new IllegalStateException("still running after all that time: " + now);
            }
            Thread.sleep(POLL_EVERY_MS);
        }
    }

    /** How many operations each (lsid, txnNumber) has now: one number per copy, in order. */
    private static List<Integer> groups(MongoDatabase admin) {
        Document copy = new Document("lsid", "$command.lsid.id").append("txn", "$command.txnNumber");
        Document reply = admin.runCommand(new Document("aggregate", 1)
                .append("pipeline", List.of(
                        new Document("$currentOp", new Document("allUsers", true)),
                        new Document("$match", new Document("command.insert", "retry_lab")),
                        new Document("$group", new Document("_id", copy).append("n", new Document("$sum", 1)))))
                .append("cursor", new Document()));
        return reply.get("cursor", Document.class).getList("firstBatch", Document.class).stream()
                .map(group -> group.get("n", Number.class).intValue())
                .sorted()
                .toList();
    }

    private static int sum(List<Integer> counts) {
        return counts.stream().mapToInt(Integer::intValue).sum();
    }
}
