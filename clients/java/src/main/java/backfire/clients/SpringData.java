package backfire.clients;

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import java.util.List;
import java.util.Optional;
import org.bson.Document;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;
import org.springframework.data.domain.PageRequest;
import org.springframework.data.domain.Sort;
import org.springframework.data.mongodb.core.BulkOperations;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.data.mongodb.core.index.Index;
import org.springframework.data.mongodb.core.query.Criteria;
import org.springframework.data.mongodb.core.query.Query;
import org.springframework.data.mongodb.core.query.Update;
import org.springframework.data.mongodb.repository.Aggregation;
import org.springframework.data.mongodb.repository.MongoRepository;
import org.springframework.data.mongodb.repository.support.MongoRepositoryFactory;

/** {@code SpringData URI}: a Spring Data MongoDB repository, there and back. */
final class SpringData {
    private static int checks;

    private SpringData() {}

    /** A part in stock. */
    static final class Part {
        @Id String id;
        String sku;
        String kind;
        int stock;
        List<String> tags;
        @Version Long version;

        Part(String id, String sku, String kind, int stock, List<String> tags) {
            this.id = id;
            this.sku = sku;
            this.kind = kind;
            this.stock = stock;
            this.tags = tags;
        }
    }

    /** What there is of a kind. */
    record KindStock(@Id String kind, int stock) {}

    /** What is asked of them. */
    interface Parts extends MongoRepository<Part, String> {
        Optional<Part> findBySku(String sku);

        List<Part> findByKindOrderByStockDesc(String kind);

        long countByStockGreaterThan(int stock);

        long deleteByKind(String kind);

        @Aggregation({"{ $group: { _id: '$kind', stock: { $sum: '$stock' } } }", "{ $sort: { _id: 1 } }"})
        List<KindStock> stockByKind();
    }

    private static void check(String what, Object got, Object want) {
        if (!want.equals(got)) {
            throw new AssertionError(what + ": expected " + want + ", got " + got);
        }
        checks++;
    }

    private static List<String> ids(Iterable<Part> parts) {
        List<String> ids = new java.util.ArrayList<>();
        parts.forEach(part -> ids.add(part.id));
        return ids;
    }

    public static void main(String[] arguments) {
        try (MongoClient client = MongoClients.create(arguments[0])) {
            client.getDatabase("smoke_spring").drop();
            MongoTemplate template = new MongoTemplate(client, "smoke_spring");
            template.indexOps(Part.class).ensureIndex(new Index("sku", Sort.Direction.ASC).unique());
            Parts parts = new MongoRepositoryFactory(template).getRepository(Parts.class);

            parts.saveAll(List.of(
                    new Part("1", "a", "bolt", 10, List.of("m4", "steel")),
                    new Part("2", "b", "bolt", 5, List.of("m5")),
                    new Part("3", "c", "nut", 7, List.of()),
                    new Part("4", "d", "nut", 0, List.of())));
            check("count", parts.count(), 4L);
            check("find by id", parts.findById("3").orElseThrow().sku, "c");
            check("derived query", parts.findBySku("b").orElseThrow().tags, List.of("m5"));
            check("derived order", ids(parts.findByKindOrderByStockDesc("bolt")), List.of("1", "2"));
            check("derived count", parts.countByStockGreaterThan(5), 2L);
            check("page", ids(parts.findAll(PageRequest.of(1, 3, Sort.by("id")))), List.of("4"));

            Part changed = parts.findById("1").orElseThrow();
            changed.stock = 11;
            parts.save(changed);
            check("version", parts.findById("1").orElseThrow().version, 1L);
            boolean refused = false;
            try {
                parts.insert(new Part("9", "a", "bolt", 1, List.of()));
            } catch (DuplicateKeyException error) {
                refused = true;
            }
            check("duplicate key", refused, true);

            BulkOperations bulk = template.bulkOps(BulkOperations.BulkMode.UNORDERED, Part.class);
            bulk.updateOne(Query.query(Criteria.where("sku").is("c")), new Update().inc("stock", 1));
            bulk.upsert(Query.query(Criteria.where("_id").is("5")),
                    new Update().set("sku", "e").set("kind", "washer").set("stock", 2));
            check("bulk", bulk.execute().getModifiedCount(), 1);
            check("aggregation", parts.stockByKind(),
                    List.of(new KindStock("bolt", 16), new KindStock("nut", 8), new KindStock("washer", 2)));
            check("delete by", parts.deleteByKind("nut"), 2L);
            check("what is left", ids(parts.findAll(Sort.by("id"))), List.of("1", "2", "5"));
            client.getDatabase("smoke_spring").drop();
        }
        System.out.println(new Document("client", "Spring Data MongoDB 4.4").append("checks", checks).toJson());
    }
}
