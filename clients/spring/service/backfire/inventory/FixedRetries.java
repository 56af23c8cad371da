package backfire.inventory;

import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.core.KafkaOperations;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.util.backoff.FixedBackOff;

/** The same wait before each retry, then the dead-letter topic. */
@Configuration
@ConditionalOnProperty(name = "inventory.back-off", havingValue = "fixed")
class FixedRetries {
    @Bean
    DefaultErrorHandler errorHandler(
            KafkaOperations<?, ?> operations,
            @Value("${inventory.interval-ms}") long intervalMs,
            @Value("${inventory.retries}") long retries) {
        return new DefaultErrorHandler(
                new DeadLetterPublishingRecoverer(operations), new FixedBackOff(intervalMs, retries));
    }
}
