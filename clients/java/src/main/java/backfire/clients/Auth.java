package backfire.clients;

import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoCommandException;
import com.mongodb.MongoCompressor;
import com.mongodb.MongoCredential;
import com.mongodb.MongoSecurityException;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.bson.Document;

/** {@code Auth URI}: logs in with every mechanism on an encrypted connection, and is refused with a wrong password. */
final class Auth {
    private Auth() {}

    public static void main(String[] arguments) throws Exception {
        SSLContext context = trusting(Path.of(System.getenv("BACKFIRE_CA")));
        char[] password = System.getenv("BACKFIRE_PASSWORD").toCharArray();
        int checks = 0;
        for (MongoCredential credential : credentials(password)) {
            checks += 1;
            long count = use(arguments[0], context, credential);
            if (count != checks) {
                throw new IllegalStateException(credential.getMechanism() + ": " + count + " documents, not " + checks);
            }
        }
        for (MongoCredential credential : credentials("wrong".toCharArray())) {
            checks += 1;
            try {
                use(arguments[0], context, credential);
                throw new IllegalStateException("a wrong password was taken");
            } catch (MongoSecurityException refused) {
                if (!(refused.getCause() instanceof MongoCommandException cause) || cause.getErrorCode() != 18) {
                    throw refused;
                }
            }
        }
        System.out.println(new Document("client", "java").append("suite", "auth").append("checks", checks).toJson());
    }

    private static List<MongoCredential> credentials(char[] password) {
        return List.of(
                MongoCredential.createCredential("root", "admin", password),
                MongoCredential.createScramSha256Credential("root", "admin", password),
                MongoCredential.createScramSha1Credential("root", "admin", password));
    }

    /** Writes and reads. */
    private static long use(String uri, SSLContext context, MongoCredential credential) {
        MongoClientSettings settings = MongoClientSettings.builder()
                .applyConnectionString(new ConnectionString(uri))
                .applyToSslSettings(ssl -> ssl.enabled(true).context(context))
                .compressorList(List.of(MongoCompressor.createZlibCompressor()))
                .credential(credential)
                .build();
        try (MongoClient client = MongoClients.create(settings)) {
            MongoCollection<Document> collection = client.getDatabase("auth_java").getCollection("c");
            collection.insertOne(new Document());
            return collection.countDocuments();
        }
    }

    /** What believes the authorities in a file. */
    private static SSLContext trusting(Path authorities) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream file = Files.newInputStream(authorities)) {
            store.setCertificateEntry("lab", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, factory.getTrustManagers(), null);
        return context;
    }
}
