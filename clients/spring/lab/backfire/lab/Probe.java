package backfire.lab;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.springframework.kafka.listener.BatchInterceptor;
import org.springframework.kafka.listener.RecordInterceptor;

/** Sees each delivery of a record, or a batch, to the listener: one execution. */
public final class Probe implements RecordInterceptor<Object, Object>, BatchInterceptor<Object, Object> {
    /**
     * One execution: its thread, when it began and ended, and the class of the exception that it ended with.
     *
     * @param endNs 0: it has not ended
     * @param failure empty: it has not ended, or with success
     */
    record Execution(String thread, long beginNs, long endNs, String failure) {
        @Override
        public String toString() {
            return thread + " " + beginNs / 1_000_000 + " to " + endNs / 1_000_000 + " ms " + failure;
        }
    }

    private final List<Execution> executions = new ArrayList<>();

    @Override
    public synchronized ConsumerRecord<Object, Object> intercept(
            ConsumerRecord<Object, Object> delivered, Consumer<Object, Object> consumer) {
        begin();
        return delivered;
    }

    @Override
    public synchronized ConsumerRecords<Object, Object> intercept(
            ConsumerRecords<Object, Object> delivered, Consumer<Object, Object> consumer) {
        begin();
        return delivered;
    }

    @Override
    public void setupThreadState(Consumer<?, ?> consumer) {
        // Both interceptors have one of these; nothing is to be done.
    }

    @Override
    public void clearThreadState(Consumer<?, ?> consumer) {
        // As above.
    }

    private void begin() {
        executions.add(new Execution(Thread.currentThread().getName(), System.nanoTime(), 0, ""));
    }

    @Override
    public synchronized void failure(
            ConsumerRecord<Object, Object> delivered, Exception exception, Consumer<Object, Object> consumer) {
        failed(exception);
    }

    @Override
    public synchronized void failure(
            ConsumerRecords<Object, Object> delivered, Exception exception, Consumer<Object, Object> consumer) {
        failed(exception);
    }

    private void failed(Exception exception) {
        Throwable cause = exception.getCause() == null ? exception : exception.getCause();
        end(cause.getClass().getSimpleName());
    }

    @Override
    public synchronized void success(ConsumerRecord<Object, Object> delivered, Consumer<Object, Object> consumer) {
        end("");
    }

    @Override
    public synchronized void success(ConsumerRecords<Object, Object> delivered, Consumer<Object, Object> consumer) {
        end("");
    }

    private void end(String failure) {
        String thread = Thread.currentThread().getName();
        for (int i = executions.size() - 1; i >= 0; i--) {
            Execution execution = executions.get(i);
            if (execution.thread().equals(thread) && execution.endNs() == 0) {
                executions.set(i, new Execution(thread, execution.beginNs(), System.nanoTime(), failure));
                return;
            }
        }
    }

    synchronized List<Execution> executions() {
        return List.copyOf(executions);
    }

    /** How many executions have ended. */
    synchronized int ended() {
        return (int) executions.stream().filter(execution -> execution.endNs() != 0).count();
    }

    /** Whether two threads were in an execution at the same instant. */
    boolean overlapped() {
        List<Execution> all = executions();
        for (Execution a : all) {
            for (Execution b : all) {
                long aEnd = a.endNs() == 0 ? Long.MAX_VALUE : a.endNs();
                if (!a.thread().equals(b.thread()) && a.beginNs() <= b.beginNs() && b.beginNs() < aEnd) {
                    return true;
                }
            }
        }
        return false;
    }
}
