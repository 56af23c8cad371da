package backfire.lab;

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.bson.Document;

/** One {@code backfire serve}, for one combination alone: what arrives there is of that combination. */
final class LabServer implements AutoCloseable {
    static final String DATABASE = "shop";
    static final String COLLECTION = "store_inventory";
    private static final List<String> WRITES = List.of("insert", "update", "delete");
    private static final Set<Process> RUNNING = ConcurrentHashMap.newKeySet();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> RUNNING.forEach(Process::destroy)));
    }

    private final Process process;
    private final MongoClient control;
    /** Its connection string, with a replica set and no database. */
    final String uri;

    LabServer(String profile) throws Exception {
        process = new ProcessBuilder(System.getProperty("backfire.bin"), "serve", "--port", "0", "--profile", profile)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        RUNNING.add(process);
        var output = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        uri = Objects.requireNonNull(output.readLine(), "backfire serve ended before it listened");
        control = MongoClients.create(uri);
    }

    /** The connection string of an application. */
    String uri(String options) {
        return uri.replace("/?", "/" + DATABASE + "?") + "&" + options;
    }

    /** Writes stand still in the engine, whatever happens, until {@link #release}; each of them is counted. */
    void stallInEngine() {
        hold(0);
        set("stallInEngine", "alwaysOn");
    }

    /** Inserts hang with their locks, deaf to everything. */
    void hang() {
        hold(0);
        set("hangWithLockDuringBatchInsert", "alwaysOn");
    }

    /** Inserts hang where a deadline ends them. */
    void hangInterruptibly() {
        hold(0);
        set("hangDuringBatchInsert", "alwaysOn");
    }

    /** Writes are held before their session for so long, and then executed. */
    void hold(long holdMs) {
        failCommand(WRITES, new Document("blockConnection", true).append("blockTimeMS", holdMs));
    }

    /** The same for updates alone. */
    void holdUpdates(long holdMs) {
        failCommand(List.of("update"), new Document("blockConnection", true).append("blockTimeMS", holdMs));
    }

    /** Writes fail with this code. */
    void fail(int code) {
        failCommand(WRITES, new Document("errorCode", code));
    }

    private void failCommand(List<String> commands, Document data) {
        admin(new Document("configureFailPoint", "failCommand")
                .append("mode", "alwaysOn")
                .append("data", data.append("failCommands", commands)));
    }

    /** Ends the stall; gives back how many writes arrived since it began. */
    long release() {
        set("stallInEngine", "off");
        set("hangWithLockDuringBatchInsert", "off");
        set("hangDuringBatchInsert", "off");
        return ((Number) set("failCommand", "off").get("count")).longValue();
    }

    private Document set(String failPoint, String mode) {
        return admin(new Document("configureFailPoint", failPoint).append("mode", mode));
    }

    private Document admin(Document command) {
        return control.getDatabase("admin").runCommand(command);
    }

    /**
     * What is at the server now, or has been there.
     *
     * @param sends the ids of the operations of write commands
     * @param copies distinct {@code lsid} and {@code txnNumber}; without a {@code txnNumber} each send is one
     * @param inEngine how many have their session and have begun
     */
    record Live(Set<Object> sends, Set<Object> copies, long inEngine) {}

    Live live() {
        Set<Object> copies = new HashSet<>();
        Set<Object> sends = new HashSet<>();
        long inEngine = 0;
        var pipeline = List.of(
                new Document("$currentOp", new Document("allUsers", true)),
                new Document("$match", new Document("ns", new Document("$regex", "^" + DATABASE + "\\."))));
        for (Document operation : control.getDatabase("admin").aggregate(pipeline)) {
            Document command = operation.get("command", new Document());
            boolean isHeld = WRITES.stream().anyMatch(name -> COLLECTION.equals(command.get(name)));
            boolean isRunning = operation.getString("ns").equals(DATABASE + "." + COLLECTION);
            if (!isHeld && !isRunning) {
                continue;
            }
            sends.add(operation.get("opid"));
            inEngine += isRunning ? 1 : 0;
            Document transaction = operation.get("transaction", new Document());
            Object number = transaction.get("parameters", new Document()).get("txnNumber");
            number = number == null ? command.get("txnNumber") : number;
            // An operation that has just arrived is not known by its session yet; its command says which it is.
            Object session = operation.get("lsid", command.get("lsid", new Document())).get("id");
            copies.add(number == null ? operation.get("opid") : List.of(session, number));
        }
        return new Live(sends, copies, inEngine);
    }

    /** Waits until nothing that was sent runs any more. */
    void drain(long limitMs) throws InterruptedException {
        long endNs = System.nanoTime() + limitMs * 1_000_000;
        while (!live().sends().isEmpty()) {
            if (System.nanoTime() > endNs) {
                throw new IllegalStateException("writes still run " + limitMs + " ms after their release");
            }
            Thread.sleep(100);
        }
    }

    long documents() {
        return control.getDatabase(DATABASE).getCollection(COLLECTION).countDocuments();
    }

    /** A document that a write to many documents can change. */
    void seed(String productId) {
        control.getDatabase(DATABASE).getCollection(COLLECTION)
                .insertOne(new Document("productId", productId).append("amount", 0));
    }

    @Override
    public void close() {
        control.close();
        process.destroy();
        RUNNING.remove(process);
    }
}
