package backfire.inventory;

import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.core.KafkaOperations;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.support.ExponentialBackOffWithMaxRetries;

/** A longer wait before each retry, then the dead-letter topic. */
@Configuration
@ConditionalOnProperty(name = "inventory.back-off", havingValue = "exponential")
class ExponentialRetries {
    @Bean
    DefaultErrorHandler errorHandler(
            KafkaOperations<?, ?> operations,
            @Value("${inventory.interval-ms}") long intervalMs,
            @Value("${inventory.multiplier}") double multiplier,
            @Value("${inventory.retries}") int retries) {
        ExponentialBackOffWithMaxRetries backOff = new ExponentialBackOffWithMaxRetries(retries);
        backOff.setInitialInterval(intervalMs);
        backOff.setMultiplier(multiplier);
        return new DefaultErrorHandler(new DeadLetterPublishingRecoverer(operations), backOff);
    }
}
