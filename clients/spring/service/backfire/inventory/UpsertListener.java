package backfire.inventory;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.data.mongodb.core.query.Criteria;
import org.springframework.data.mongodb.core.query.Query;
import org.springframework.data.mongodb.core.query.Update;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.stereotype.Component;

/** The same document, however often it runs. */
@Component
@ConditionalOnProperty(name = "inventory.write", havingValue = "upsert")
class UpsertListener {
    private final MongoTemplate template;

    UpsertListener(MongoTemplate template) {
        this.template = template;
    }

    @KafkaListener(topics = "${inventory.topic}")
    void on(ConsumerRecord<String, String> change) {
        template.upsert(
                Query.query(Criteria.where("_id").is(change.key())),
                new Update().set("amount", Integer.parseInt(change.value())),
                "store_inventory");
    }
}
