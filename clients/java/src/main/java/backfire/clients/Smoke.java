package backfire.clients;

import static com.mongodb.client.model.Accumulators.sum;
import static com.mongodb.client.model.Aggregates.group;
import static com.mongodb.client.model.Aggregates.match;
import static com.mongodb.client.model.Aggregates.sort;
import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Filters.gt;
import static com.mongodb.client.model.Filters.gte;
import static com.mongodb.client.model.Filters.in;
import static com.mongodb.client.model.Filters.regex;
import static com.mongodb.client.model.Projections.excludeId;
import static com.mongodb.client.model.Projections.fields;
import static com.mongodb.client.model.Projections.include;
import static com.mongodb.client.model.Sorts.ascending;
import static com.mongodb.client.model.Sorts.descending;
import static com.mongodb.client.model.Updates.combine;
import static com.mongodb.client.model.Updates.inc;
import static com.mongodb.client.model.Updates.push;
import static com.mongodb.client.model.Updates.set;
import static com.mongodb.client.model.Updates.setOnInsert;

import com.mongodb.ErrorCategory;
import com.mongodb.MongoBulkWriteException;
import com.mongodb.MongoWriteException;
import com.mongodb.bulk.BulkWriteError;
import com.mongodb.bulk.BulkWriteResult;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.model.BulkWriteOptions;
import com.mongodb.client.model.DeleteManyModel;
import com.mongodb.client.model.DeleteOneModel;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.IndexOptions;
import com.mongodb.client.model.InsertOneModel;
import com.mongodb.client.model.ReplaceOneModel;
import com.mongodb.client.model.ReturnDocument;
import com.mongodb.client.model.UpdateOneModel;
import com.mongodb.client.model.UpdateOptions;
import com.mongodb.client.result.InsertManyResult;
import com.mongodb.client.result.UpdateResult;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.bson.BsonInt32;
import org.bson.Document;
import org.bson.types.Decimal128;
import org.bson.types.ObjectId;

/** {@code Smoke URI}: what a user of the driver does in the first five minutes. */
final class Smoke {
    private static int checks = 0;

    private Smoke() {}

    public static void main(String[] arguments) {
        try (MongoClient client = MongoClients.create(arguments[0])) {
            MongoDatabase db = client.getDatabase("smoke_java");
            db.drop();
            MongoCollection<Document> parts = db.getCollection("parts");
            server(db);
            indexes(db, parts);
            inserts(db, parts);
            lists(client, db);
            reads(parts);
            updates(parts);
            aggregates(parts);
            bulks(parts);
            sessions(client, parts);
            removals(client, db, parts);
        }
        System.out.println(new Document("client", Attempts.CLIENT).append("checks", checks).toJson());
    }

    private static void server(MongoDatabase db) {
        check("ping", ((Number) db.runCommand(new Document("ping", 1)).get("ok")).intValue(), 1);
        String version = db.runCommand(new Document("buildInfo", 1)).getString("version");
        check("server version", version.matches("\\d+\\.\\d+\\.\\d+"), true);
        // 4.4.0 does not know hello by that name yet.
        check("primary", db.runCommand(new Document("isMaster", 1)).getBoolean("ismaster"), true);
    }

    private static void indexes(MongoDatabase db, MongoCollection<Document> parts) {
        db.createCollection("parts");
        check("create index", parts.createIndex(new Document("sku", 1), new IndexOptions().unique(true)), "sku_1");
        List<String> indexes = list(parts.listIndexes())
                .map(index -> index.getString("name") + " " + index.getBoolean("unique", false))
                .toList();
        check("list indexes", indexes, List.of("_id_ false", "sku_1 true"));
    }

    private static void inserts(MongoDatabase db, MongoCollection<Document> parts) {
        BsonInt32 id = parts.insertOne(part(1, "a", "bolt", 10, "m4", "steel")).getInsertedId().asInt32();
        check("insert one", id.getValue(), 1);
        InsertManyResult many = parts.insertMany(
                List.of(part(2, "b", "bolt", 5, "m5"), part(3, "c", "nut", 7, "m4"), part(4, "d", "nut", 0)));
        check("insert many", many.getInsertedIds(), Map.of(0, new BsonInt32(2), 1, new BsonInt32(3), 2, new BsonInt32(4)));
        try {
            parts.insertOne(new Document("sku", "a"));
            check("duplicate key", "no error", "an error");
        } catch (MongoWriteException error) {
            check("duplicate key", error.getError().getCategory(), ErrorCategory.DUPLICATE_KEY);
            check("duplicate key's code", error.getError().getCode(), 11000);
        }
        Document typed = new Document("_id", new ObjectId())
                .append("at", new Date(1_767_312_000_000L))
                .append("long", 1L << 40)
                .append("decimal", Decimal128.parse("12.50"))
                .append("nothing", null)
                .append("nested", new Document("list", List.of(1, 2.5, "three", new Document("four", true))));
        MongoCollection<Document> made = db.getCollection("made");
        made.insertOne(typed);
        check("every type comes back", made.find().first(), typed);
    }

    private static void lists(MongoClient client, MongoDatabase db) {
        check("show databases", list(client.listDatabaseNames()).toList().contains("smoke_java"), true);
        check("show collections", list(db.listCollectionNames()).sorted().toList(), List.of("made", "parts"));
    }

    private static void reads(MongoCollection<Document> parts) {
        check("find one", parts.find(eq("sku", "c")).first().getInteger("stock"), 7);
        check("find none", parts.find(eq("sku", "z")).first(), null);
        List<Document> found = parts.find(gte("stock", 1))
                .sort(descending("stock"))
                .skip(1)
                .limit(2)
                .projection(fields(excludeId(), include("sku")))
                .into(new ArrayList<>());
        check("find, sort, skip, limit, projection", found, List.of(new Document("sku", "c"), new Document("sku", "b")));
        check("find by a list's element", ids(parts.find(eq("tags", "m4")).sort(ascending("_id"))), List.of(1, 3));
        check("find by pattern", ids(parts.find(regex("kind", "^b")).sort(ascending("_id"))), List.of(1, 2));
        check("find in small batches", ids(parts.find().sort(ascending("_id")).batchSize(2)), List.of(1, 2, 3, 4));
        check("count", parts.countDocuments(eq("kind", "nut")), 2L);
        check("estimated count", parts.estimatedDocumentCount(), 4L);
        check("distinct", list(parts.distinct("kind", String.class)).sorted().toList(), List.of("bolt", "nut"));
    }

    private static void updates(MongoCollection<Document> parts) {
        UpdateResult one = parts.updateOne(eq("_id", 1), combine(inc("stock", -3), push("tags", "zinc")));
        check("update one", List.of(one.getMatchedCount(), one.getModifiedCount()), List.of(1L, 1L));
        check("updated", parts.find(eq("_id", 1)).first(), part(1, "a", "bolt", 7, "m4", "steel", "zinc"));
        UpdateResult upsert = parts.updateOne(
                eq("_id", 5),
                combine(set("sku", "e"), set("kind", "washer"), setOnInsert("stock", 1)),
                new UpdateOptions().upsert(true));
        check("update with upsert", upsert.getUpsertedId(), new BsonInt32(5));
        Document washer = new Document("_id", 5).append("kind", "washer").append("sku", "e").append("stock", 1);
        check("upserted", parts.find(eq("_id", 5)).first(), washer);
        long modified = parts.updateMany(in("kind", "bolt", "nut"), set("checked", true)).getModifiedCount();
        check("update many", modified, 4L);
        Document replacement = new Document("sku", "e2").append("kind", "washer").append("stock", 2);
        check("replace", parts.replaceOne(eq("_id", 5), replacement).getModifiedCount(), 1L);
        Document after = parts.findOneAndUpdate(
                eq("_id", 5),
                inc("stock", 1),
                new FindOneAndUpdateOptions().returnDocument(ReturnDocument.AFTER));
        check("find one and update, after", after, new Document("_id", 5).append("sku", "e2").append("kind", "washer").append("stock", 3));
        Document before = parts.findOneAndUpdate(
                eq("kind", "nut"),
                inc("stock", 1),
                new FindOneAndUpdateOptions().sort(ascending("stock")).projection(include("stock")));
        check("find one and update, before", before, new Document("_id", 4).append("stock", 0));
        check("find one and delete", parts.findOneAndDelete(eq("_id", 5)).getString("sku"), "e2");
    }

    private static void aggregates(MongoCollection<Document> parts) {
        List<Document> sums = parts.aggregate(List.of(
                        match(gt("stock", 0)),
                        group("$kind", sum("stock", "$stock"), sum("parts", 1)),
                        sort(ascending("_id"))))
                .into(new ArrayList<>());
        check("aggregate", sums, List.of(
                new Document("_id", "bolt").append("stock", 12).append("parts", 2),
                new Document("_id", "nut").append("stock", 8).append("parts", 2)));
    }

    private static void bulks(MongoCollection<Document> parts) {
        BulkWriteResult bulk = parts.bulkWrite(List.of(
                new InsertOneModel<>(new Document("_id", 6).append("sku", "f").append("stock", 1)),
                new UpdateOneModel<>(eq("_id", 6), set("stock", 2)),
                new UpdateOneModel<>(eq("_id", 7), set("sku", "g"), new UpdateOptions().upsert(true)),
                new ReplaceOneModel<>(eq("_id", 7), new Document("sku", "g").append("stock", 9)),
                new DeleteOneModel<>(eq("_id", 6)),
                new DeleteManyModel<>(eq("sku", "g"))));
        List<Integer> counts = List.of(
                bulk.getInsertedCount(),
                bulk.getMatchedCount(),
                bulk.getModifiedCount(),
                bulk.getUpserts().size(),
                bulk.getDeletedCount());
        check("bulk write", counts, List.of(1, 2, 2, 1, 2));
        List<InsertOneModel<Document>> clashing = Stream.of(1, 8, 1)
                .map(id -> new InsertOneModel<>(new Document("_id", id).append("sku", "u" + id)))
                .toList();
        try {
            parts.bulkWrite(clashing, new BulkWriteOptions().ordered(false));
            check("unordered bulk write", "no error", "an error");
        } catch (MongoBulkWriteException error) {
            List<Integer> failed = error.getWriteErrors().stream().map(BulkWriteError::getIndex).toList();
            check("unordered bulk write", failed, List.of(0, 2));
            check("unordered bulk write's rest", error.getWriteResult().getInsertedCount(), 1);
        }
    }

    private static void sessions(MongoClient client, MongoCollection<Document> parts) {
        try (ClientSession session = client.startSession()) {
            parts.insertOne(session, new Document("_id", 9).append("sku", "s"));
            check("read in a session", parts.find(session, eq("_id", 9)).first().getString("sku"), "s");
            check("a session's operation time", session.getOperationTime() != null, true);
        }
    }

    private static void removals(MongoClient client, MongoDatabase db, MongoCollection<Document> parts) {
        check("delete one", parts.deleteOne(eq("_id", 9)).getDeletedCount(), 1L);
        check("delete many", parts.deleteMany(eq("kind", "nut")).getDeletedCount(), 2L);
        check("what is left", ids(parts.find().sort(ascending("_id"))), List.of(1, 2, 8));
        parts.dropIndex("sku_1");
        check("drop index", list(parts.listIndexes()).count(), 1L);
        parts.drop();
        check("drop", list(db.listCollectionNames()).toList(), List.of("made"));
        db.drop();
        check("drop database", list(client.listDatabaseNames()).toList().contains("smoke_java"), false);
    }

    private static Document part(int id, String sku, String kind, int stock, String... tags) {
        return new Document("_id", id)
                .append("sku", sku)
                .append("kind", kind)
                .append("stock", stock)
                .append("tags", List.of(tags));
    }

    private static List<Integer> ids(Iterable<Document> found) {
        return list(found).map(document -> document.getInteger("_id")).toList();
    }

    private static <T> Stream<T> list(Iterable<T> found) {
        return StreamSupport.stream(found.spliterator(), false);
    }

    private static void check(String what, Object got, Object want) {
        if (!Objects.equals(got, want)) {
            System.err.println(what + ": expected " + want + ", got " + got);
            System.exit(1);
        }
        checks += 1;
    }
}
