package backfire.lab;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The broker: topics with one partition, records, and what became of them. */
final class Broker implements AutoCloseable {
    final String brokers;
    private final Admin admin;
    private final KafkaProducer<String, String> producer;

    Broker(String brokers) {
        this.brokers = brokers;
        admin = Admin.create(Map.of("bootstrap.servers", brokers));
        producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", brokers), new StringSerializer(), new StringSerializer());
    }

    void create(String... topics) throws Exception {
        List<NewTopic> wanted = new ArrayList<>();
        for (String topic : topics) {
            wanted.add(new NewTopic(topic, 1, (short) 1));
        }
        admin.createTopics(wanted).all().get();
    }

    void send(String topic, String key, String value) throws Exception {
        producer.send(new ProducerRecord<>(topic, 0, key, value)).get();
    }

    /** The offset that a group has committed; empty: none. */
    Optional<Long> committed(String group, String topic) throws Exception {
        var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        return Optional.ofNullable(offsets.get(new TopicPartition(topic, 0))).map(offset -> offset.offset());
    }

    /** All that is in a topic now. */
    List<ConsumerRecord<String, String>> readAll(String topic) throws Exception {
        var partition = new TopicPartition(topic, 0);
        long end = admin.listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition).get().offset();
        return read(topic, (int) end, Duration.ofSeconds(20));
    }

    /** What is in a topic, as soon as there are so many records, or all when the time is over. */
    List<ConsumerRecord<String, String>> read(String topic, int wanted, Duration limit) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        long endNs = System.nanoTime() + limit.toNanos();
        try (var consumer = new KafkaConsumer<>(
                Map.<String, Object>of("bootstrap.servers", brokers, "auto.offset.reset", "earliest"),
                new StringDeserializer(),
                new StringDeserializer())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            while (records.size() < wanted && System.nanoTime() < endNs) {
                consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            }
        }
        return records;
    }

    @Override
    public void close() {
        producer.close(Duration.ofSeconds(1));
        admin.close(Duration.ofSeconds(1));
    }
}
