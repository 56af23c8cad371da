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

/** An ordered bulk with one write to many documents in it, which makes drivers resend none of it. */
@Component
@ConditionalOnProperty(name = "inventory.write", havingValue = "mixed")
class MixedListener {
    private final MongoTemplate template;

    MixedListener(MongoTemplate template) {
        this.template = template;
    }

    @KafkaListener(topics = "${inventory.topic}")
    void on(ConsumerRecord<String, String> change) {
        BulkOperations bulk = template.bulkOps(BulkOperations.BulkMode.ORDERED, "store_inventory");
        bulk.insert(new StockEntry(change.key(), Integer.parseInt(change.value())));
        bulk.updateMulti(
                Query.query(Criteria.where("productId").is(change.key())),
                new Update().set("amount", Integer.parseInt(change.value())));
        bulk.execute();
    }
}
