package backfire.inventory;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.data.mongodb.core.query.Criteria;
import org.springframework.data.mongodb.core.query.Query;
import org.springframework.data.mongodb.core.query.Update;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.stereotype.Component;

/** A write to many documents, which drivers do not resend. */
@Component
@ConditionalOnProperty(name = "inventory.write", havingValue = "multi")
class MultiListener {
    private final MongoTemplate template;

    MultiListener(MongoTemplate template) {
        this.template = template;
    }

    @KafkaListener(topics = "${inventory.topic}")
    void on(ConsumerRecord<String, String> change) {
        template.updateMulti(
                Query.query(Criteria.where("productId").is(change.key())),
                new Update().set("amount", Integer.parseInt(change.value())),
                "store_inventory");
    }
}
