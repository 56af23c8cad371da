"""smoke.py URI: what a user of pymongo does in the first five minutes."""

import json
import re
import sys
from datetime import datetime, timezone

from bson import Decimal128, Int64, ObjectId, Regex
from pymongo import (
    ASCENDING,
    DESCENDING,
    DeleteMany,
    DeleteOne,
    InsertOne,
    MongoClient,
    ReplaceOne,
    ReturnDocument,
    UpdateOne,
)
from pymongo.errors import BulkWriteError, DuplicateKeyError

from attempts import CLIENT

checks = 0


def check(what, got, want):
    global checks
    if got != want:
        raise SystemExit(f"{what}: expected {want!r}, got {got!r}")
    checks += 1


def raised(kind, run):
    """The error of `kind` that `run` ends with."""
    try:
        run()
    except kind as error:
        return error
    raise SystemExit(f"expected {kind.__name__}, and it succeeded")


def ids(cursor):
    return [document["_id"] for document in cursor]


def smoke(client):
    client.drop_database("smoke_python")
    db = client.smoke_python
    parts = db.parts

    check("ping", client.admin.command("ping")["ok"], 1.0)
    check("server version", bool(re.fullmatch(r"\d+\.\d+\.\d+", client.server_info()["version"])), True)
    check("primary", client.is_primary, True)

    check("create collection", db.create_collection("parts").full_name, "smoke_python.parts")
    check("create index", parts.create_index([("sku", ASCENDING)], unique=True), "sku_1")
    check(
        "list indexes",
        {name: (index["key"], index.get("unique", False)) for name, index in parts.index_information().items()},
        {"_id_": ([("_id", 1)], False), "sku_1": ([("sku", 1)], True)},
    )

    one = parts.insert_one({"_id": 1, "sku": "a", "kind": "bolt", "stock": 10, "tags": ["m4", "steel"]})
    check("insert one", (one.acknowledged, one.inserted_id), (True, 1))
    many = parts.insert_many(
        [
            {"_id": 2, "sku": "b", "kind": "bolt", "stock": 5, "tags": ["m5"]},
            {"_id": 3, "sku": "c", "kind": "nut", "stock": 7, "tags": ["m4"]},
            {"_id": 4, "sku": "d", "kind": "nut", "stock": 0, "tags": []},
        ]
    )
    check("insert many", many.inserted_ids, [2, 3, 4])
    duplicate = raised(DuplicateKeyError, lambda: parts.insert_one({"sku": "a"}))
    check("duplicate key", (duplicate.code, duplicate.details["keyValue"]), (11000, {"sku": "a"}))
    typed = {
        "_id": ObjectId(),
        "at": datetime(2026, 1, 2, tzinfo=timezone.utc),
        "long": Int64(2**40),
        "decimal": Decimal128("12.50"),
        "bytes": b"\x00\xff",
        "regex": Regex("^a", "i"),
        "nothing": None,
        "nested": {"list": [1, 2.5, "three", {"four": True}]},
    }
    db.made.insert_one(typed)
    utc = db.made.with_options(codec_options=db.codec_options.with_options(tz_aware=True))
    check("every type comes back", utc.find_one(), typed)

    check("show databases", "smoke_python" in client.list_database_names(), True)
    check("show collections", sorted(db.list_collection_names()), ["made", "parts"])

    check("find one", parts.find_one({"sku": "c"})["stock"], 7)
    check("find none", parts.find_one({"sku": "z"}), None)
    found = parts.find({"stock": {"$gte": 1}}, {"_id": 0, "sku": 1}).sort("stock", DESCENDING).skip(1).limit(2)
    check("find, sort, skip, limit, projection", list(found), [{"sku": "c"}, {"sku": "b"}])
    check("find by a list's element", ids(parts.find({"tags": "m4"}).sort("_id")), [1, 3])
    check("find by pattern", ids(parts.find({"kind": {"$regex": "^b"}}).sort("_id")), [1, 2])
    check("find in small batches", ids(parts.find(batch_size=2).sort("_id")), [1, 2, 3, 4])

    check("count", (parts.count_documents({"kind": "nut"}), parts.estimated_document_count()), (2, 4))
    check("distinct", sorted(parts.distinct("kind")), ["bolt", "nut"])

    result = parts.update_one({"_id": 1}, {"$inc": {"stock": -3}, "$push": {"tags": "zinc"}})
    check("update one", (result.matched_count, result.modified_count, result.upserted_id), (1, 1, None))
    check("updated", parts.find_one({"_id": 1}, {"stock": 1, "tags": 1}), {"_id": 1, "stock": 7, "tags": ["m4", "steel", "zinc"]})
    upsert = {"$set": {"sku": "e", "kind": "washer"}, "$setOnInsert": {"stock": 1}}
    check("update with upsert", parts.update_one({"_id": 5}, upsert, upsert=True).upserted_id, 5)
    check("upserted", parts.find_one({"_id": 5}), {"_id": 5, "kind": "washer", "sku": "e", "stock": 1})
    check("update many", parts.update_many({"kind": {"$in": ["bolt", "nut"]}}, {"$set": {"checked": True}}).modified_count, 4)
    check("replace", parts.replace_one({"_id": 5}, {"sku": "e2", "kind": "washer", "stock": 2}).modified_count, 1)
    after = parts.find_one_and_update({"_id": 5}, {"$inc": {"stock": 1}}, return_document=ReturnDocument.AFTER)
    check("find one and update, after", after, {"_id": 5, "sku": "e2", "kind": "washer", "stock": 3})
    before = parts.find_one_and_update({"kind": "nut"}, {"$inc": {"stock": 1}}, {"stock": 1}, sort=[("stock", 1)])
    check("find one and update, before", before, {"_id": 4, "stock": 0})
    check("find one and delete", parts.find_one_and_delete({"_id": 5})["sku"], "e2")

    sums = parts.aggregate(
        [
            {"$match": {"stock": {"$gt": 0}}},
            {"$group": {"_id": "$kind", "stock": {"$sum": "$stock"}, "parts": {"$sum": 1}}},
            {"$sort": {"_id": 1}},
        ]
    )
    check("aggregate", list(sums), [{"_id": "bolt", "stock": 12, "parts": 2}, {"_id": "nut", "stock": 8, "parts": 2}])

    bulk = parts.bulk_write(
        [
            InsertOne({"_id": 6, "sku": "f", "stock": 1}),
            UpdateOne({"_id": 6}, {"$set": {"stock": 2}}),
            UpdateOne({"_id": 7}, {"$set": {"sku": "g"}}, upsert=True),
            ReplaceOne({"_id": 7}, {"sku": "g", "stock": 9}),
            DeleteOne({"_id": 6}),
            DeleteMany({"sku": "g"}),
        ]
    )
    counts = (bulk.inserted_count, bulk.matched_count, bulk.modified_count, bulk.deleted_count, bulk.upserted_ids)
    check("bulk write", counts, (1, 2, 2, 2, {2: 7}))
    clashing = [InsertOne({"_id": id, "sku": f"u{id}"}) for id in (1, 8, 1)]
    failed = raised(BulkWriteError, lambda: parts.bulk_write(clashing, ordered=False)).details
    check("unordered bulk write", (failed["nInserted"], [error["index"] for error in failed["writeErrors"]]), (1, [0, 2]))

    with client.start_session() as session:
        parts.insert_one({"_id": 9, "sku": "s"}, session=session)
        check("read in a session", parts.find_one({"_id": 9}, session=session)["sku"], "s")
        check("a session's operation time", session.operation_time is not None, True)
    check("session ended", session.has_ended, True)

    with client.start_session() as session:
        with session.start_transaction():
            parts.insert_one({"_id": 20, "sku": "t", "n": 0}, session=session)
            check("unseen before the commit", parts.find_one({"_id": 20}), None)
            check("its own write", parts.find_one({"_id": 20}, session=session)["sku"], "t")
        check("committed", parts.find_one({"_id": 20})["sku"], "t")
        session.start_transaction()
        parts.delete_one({"_id": 20}, session=session)
        session.abort_transaction()
        check("aborted", parts.count_documents({"_id": 20}), 1)
        lost = {"mode": {"times": 1}, "data": {"commands": ["commitTransaction"], "appName": "smoke"}}
        client.admin.command({"configureFailPoint": "loseReply"} | lost)
        session.with_transaction(lambda session: parts.update_one({"_id": 20}, {"$inc": {"n": 1}}, session=session))
        check("a commit whose answer is lost", parts.find_one({"_id": 20})["n"], 1)
    parts.delete_one({"_id": 20})

    check("delete one", parts.delete_one({"_id": 9}).deleted_count, 1)
    check("delete many", parts.delete_many({"kind": "nut"}).deleted_count, 2)
    check("what is left", ids(parts.find().sort("_id")), [1, 2, 8])
    parts.drop_index("sku_1")
    check("drop index", list(parts.index_information()), ["_id_"])
    parts.drop()
    check("drop", db.list_collection_names(), ["made"])
    client.drop_database("smoke_python")
    check("drop database", "smoke_python" in client.list_database_names(), False)


with MongoClient(sys.argv[1], appName="smoke") as client:
    smoke(client)
print(json.dumps({"client": CLIENT, "checks": checks}))
