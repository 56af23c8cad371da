package backfire.inventory;

import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.bson.Document;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.data.mongodb.core.BulkOperations;
import org.springframework.data.mongodb.core.FindAndReplaceOptions;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.data.mongodb.core.query.Criteria;
import org.springframework.data.mongodb.core.query.Query;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.stereotype.Component;

/** All records of a poll in one bulk of upserts: a record's place in the topic is its document's {@code _id}. */
@Component
@ConditionalOnProperty(name = "inventory.write", havingValue = "batch")
class BatchListener {
    private final MongoTemplate template;

    BatchListener(MongoTemplate template) {
        this.template = template;
    }

    @KafkaListener(topics = "${inventory.topic}", batch = "true")
    void on(List<ConsumerRecord<String, String>> changes) {
        BulkOperations bulk = template.bulkOps(BulkOperations.BulkMode.ORDERED, "store_inventory");
        for (ConsumerRecord<String, String> change : changes) {
            String place = change.topic() + "-" + change.partition() + "-" + change.offset();
            bulk.replaceOne(
                    Query.query(Criteria.where("_id").is(place)),
                    Document.parse(change.value()),
                    FindAndReplaceOptions.options().upsert());
        }
        bulk.execute();
    }
}
