package backfire.clients;

import com.mongodb.ConnectionString;
import com.mongodb.MongoException;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import com.mongodb.internal.build.MongoDriverVersion;
import java.util.ArrayList;
import java.util.List;
import org.bson.Document;

/** The application: one logical write, run up to four times. */
final class Attempts {
    private Attempts() {}

    /** The client's name and version, as it stands in the results. */
    static final String CLIENT = "java " + MongoDriverVersion.VERSION;

    /** How often it ran and how it failed. */
    record Result(int executions, List<String> failures) {
        Document toDocument() {
            return new Document("client", CLIENT).append("executions", executions).append("failures", failures);
        }
    }

    /** The database that a connection string names, or the one that every client takes where it names none. */
    static MongoDatabase database(MongoClient client, String uri) {
        String name = new ConnectionString(uri).getDatabase();
        return client.getDatabase(name == null ? "test" : name);
    }

    /** Inserts, up to four times, until it succeeds. */
    static Result run(MongoDatabase db) {
        MongoCollection<Document> retryLab = db.getCollection("retry_lab");
        List<String> failures = new ArrayList<>();
        for (int i = 1; i <= 4; i++) {
            try {
                retryLab.insertOne(new Document("productId", 1).append("storeId", 7).append("attempt", i));
                return new Result(i, failures);
            } catch (MongoException error) {
                failures.add(error.getClass().getSimpleName());
            }
        }
        return new Result(4, failures);
    }
}
