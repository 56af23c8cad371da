package backfire.inventory;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.data.mongodb.core.BulkOperations;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.stereotype.Component;

/** Two documents in one bulk of one command. */
@Component
@ConditionalOnProperty(name = "inventory.write", havingValue = "bulk")
class BulkListener {
    private final MongoTemplate template;

    BulkListener(MongoTemplate template) {
        this.template = template;
    }

    @KafkaListener(topics = "${inventory.topic}")
    void on(ConsumerRecord<String, String> change) {
        BulkOperations bulk = template.bulkOps(BulkOperations.BulkMode.ORDERED, "store_inventory");
        bulk.insert(new StockEntry(change.key(), Integer.parseInt(change.value())));
        bulk.insert(new StockEntry(change.key(), -Integer.parseInt(change.value())));
        bulk.execute();
    }
}
