package backfire.lab;

import java.util.HashSet;
import java.util.Set;

/** Looks at what runs on a server, again and again: what has been there, and the most copies at the same time. */
final class Watch implements AutoCloseable {
    /** Well below what a write lives, which is a timeout at least. */
    private static final long INTERVAL_MS = 30;

    private final LabServer server;
    private final Thread thread = new Thread(this::run);
    private final Set<Object> sends = new HashSet<>();
    private final Set<Object> copies = new HashSet<>();
    private long atOnce;
    private volatile boolean isOver;

    Watch(LabServer server) {
        this.server = server;
        thread.setDaemon(true);
        thread.start();
    }

    private void run() {
        try {
            while (!isOver) {
                look();
                Thread.sleep(INTERVAL_MS);
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    /** What is there now, counted too. */
    synchronized LabServer.Live look() {
        LabServer.Live live = server.live();
        sends.addAll(live.sends());
        copies.addAll(live.copies());
        atOnce = Math.max(atOnce, live.copies().size());
        return live;
    }

    /** Operations, distinct writes, and the most distinct writes at the same time. */
    record Seen(long sends, long copies, long atOnce) {}

    synchronized Seen seen() {
        return new Seen(sends.size(), copies.size(), atOnce);
    }

    @Override
    public void close() throws InterruptedException {
        isOver = true;
        thread.join();
    }
}
