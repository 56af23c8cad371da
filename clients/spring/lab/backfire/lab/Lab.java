package backfire.lab;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Runs the service again and again, each time with other properties, against a stalled lab server, and compares what
 * arrived there with what {@code backfire check} says of the service's own files.
 *
 * <p>Arguments: {@code matrix sample|half|all|bulks|full} or {@code chain}, and the file that gets the tables. System
 * properties: {@code backfire.bin}, {@code backfire.brokers}, {@code backfire.service} (the folder of the
 * files to check), {@code backfire.jobs}. Exit code: 0 when all is equal, 1 when not, 2
 * when it could not run.
 */
public final class Lab {
    private Lab() {}

    public static void main(String[] arguments) {
        int status = 2;
        try {
            status = run(arguments) ? 0 : 1;
        } catch (Exception failure) {
            failure.printStackTrace();
        }
        // A thread that hangs in a read must not keep the process.
        Runtime.getRuntime().halt(status);
    }

    private static boolean run(String[] arguments) throws Exception {
        List<String> lines = new ArrayList<>();
        boolean same;
        try (Broker broker = new Broker(System.getProperty("backfire.brokers"))) {
            same = arguments[0].equals("matrix")
                    ? Matrix.run(broker, arguments[1], lines)
                    : Chain.run(broker, lines);
        }
        Files.write(Path.of(arguments[arguments.length - 1]), lines);
        return same;
    }

    static void say(String format, Object... values) {
        System.out.printf(format + "%n", values);
    }
}
