package backfire.inventory;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.data.mongodb.core.BulkOperations;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.data.mongodb.core.query.Criteria;
import org.springframework.data.mongodb.core.query.Query;
import org.springframework.data.mongodb.core.query.Update;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.stereotype.Component;

/** One ordered bulk of three commands: what is inserted and what is updated cannot go in one. */
@Component
@ConditionalOnProperty(name = "inventory.write", havingValue = "several")
class SeveralListener {
    private final MongoTemplate template;

    SeveralListener(MongoTemplate template) {
        this.template = template;
    }

    @KafkaListener(topics = "${inventory.topic}")
    void on(ConsumerRecord<String, String> change) {
        BulkOperations bulk = template.bulkOps(BulkOperations.BulkMode.ORDERED, "store_inventory");
        bulk.insert(new StockEntry(change.key(), Integer.parseInt(change.value())));
        bulk.updateOne(
                Query.query(Criteria.where("_id").is(change.key())),
                new Update().set("amount", Integer.parseInt(change.value())));
        bulk.insert(new StockEntry(change.key(), -Integer.parseInt(change.value())));
        bulk.execute();
    }
}
