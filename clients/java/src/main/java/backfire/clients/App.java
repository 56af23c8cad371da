package backfire.clients;

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoDatabase;
import org.bson.Document;

/** {@code App URI}: the application alone. */
final class App {
    private App() {}

    public static void main(String[] arguments) {
        try (MongoClient client = MongoClients.create(arguments[0])) {
            MongoDatabase db = Attempts.database(client, arguments[0]);
            db.runCommand(new Document("ping", 1));
            System.out.println(Attempts.run(db).toDocument().toJson());
        }
    }
}
