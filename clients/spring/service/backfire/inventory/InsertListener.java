package backfire.inventory;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.stereotype.Component;

/** One more document for each execution. */
@Component
@ConditionalOnProperty(name = "inventory.write", havingValue = "insert")
class InsertListener {
    private final MongoTemplate template;

    InsertListener(MongoTemplate template) {
        this.template = template;
    }

    @KafkaListener(topics = "${inventory.topic}")
    void on(ConsumerRecord<String, String> change) {
        template.insert(new StockEntry(change.key(), Integer.parseInt(change.value())), "store_inventory");
    }
}
