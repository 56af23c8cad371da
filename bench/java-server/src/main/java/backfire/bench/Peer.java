package backfire.bench;

import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.util.List;

/** {@code Peer PORT}: serves on 127.0.0.1 from memory until it is ended. */
final class Peer {
    private Peer() {}

    public static void main(String[] arguments) {
        MongoServer server = new MongoServer(new MemoryBackend().version(new Newer()));
        server.bind("127.0.0.1", Integer.parseInt(arguments[0]));
    }

    /** The newest version that it knows is older than what today's drivers take; what they send is the same. */
    private static final class Newer implements MongoVersion {
        @Override
        public List<Integer> getVersionArray() {
            return List.of(5, 0, 0, 0);
        }

        @Override
        public int getWireVersion() {
            return 13;
        }
    }
}
