// What a user of the shell does in the first five minutes.

const assert = require('assert');
// The shell's values belong to another realm than `assert`, so they are compared as they print.
const equal = (got, want) => assert.strictEqual(EJSON.stringify(got), EJSON.stringify(want));
const smoke = db.getSiblingDB('smoke_mongosh');
const parts = smoke.parts;
let checks = 0;

/** Runs one check; a failure names it. */
function check(what, run) {
  try {
    run();
  } catch (error) {
    throw new Error(`${what}: ${error.message}`);
  }
  checks += 1;
}

/** The error that `run` ends with. */
function raised(run) {
  try {
    run();
  } catch (error) {
    return error;
  }
  throw new Error('it succeeded');
}

const ids = (cursor) => cursor.toArray().map((document) => document._id);

smoke.dropDatabase();

check('ping', () => equal(db.adminCommand({ ping: 1 }).ok, 1));
check('server version', () => assert.ok(/^\d+\.\d+\.\d+$/.test(db.version())));
// 4.4.0 does not know hello by that name yet.
check('primary', () => equal(db.isMaster().ismaster, true));
check('replica set', () => equal(db.isMaster().setName, rs.status().set));

check('create collection', () => equal(smoke.createCollection('parts').ok, 1));
check('create index', () => equal(parts.createIndex({ sku: 1 }, { unique: true }), 'sku_1'));
check('list indexes', () => {
  equal(parts.getIndexes().map(({ name, unique }) => [name, unique === true]), [['_id_', false], ['sku_1', true]]);
});

check('insert one', () => {
  const result = parts.insertOne({ _id: 1, sku: 'a', kind: 'bolt', stock: 10, tags: ['m4', 'steel'] });
  equal([result.acknowledged, result.insertedId], [true, 1]);
});
check('insert many', () => {
  const result = parts.insertMany([
    { _id: 2, sku: 'b', kind: 'bolt', stock: 5, tags: ['m5'] },
    { _id: 3, sku: 'c', kind: 'nut', stock: 7, tags: ['m4'] },
    { _id: 4, sku: 'd', kind: 'nut', stock: 0, tags: [] },
  ]);
  equal(result.insertedIds, { 0: 2, 1: 3, 2: 4 });
});
check('duplicate key', () => {
  const error = raised(() => parts.insertOne({ sku: 'a' }));
  equal([error.name, error.code], ['MongoServerError', 11000]);
  assert.ok(error.message.startsWith('E11000 duplicate key error collection: smoke_mongosh.parts index: sku_1'));
});
check('an id made by the driver', () => {
  const { insertedId } = smoke.made.insertOne({ at: ISODate('2026-01-02T00:00:00Z'), long: NumberLong('1099511627776') });
  const made = smoke.made.findOne({ _id: insertedId });
  equal([made._id.equals(insertedId), made.at.toISOString(), String(made.long)], [true, '2026-01-02T00:00:00.000Z', '1099511627776']);
});

check('show databases', () => assert.ok(db.getMongo().getDBNames().includes('smoke_mongosh')));
check('show collections', () => equal(smoke.getCollectionNames().sort(), ['made', 'parts']));

check('find one', () => equal(parts.findOne({ sku: 'c' }).stock, 7));
check('find none', () => equal(parts.findOne({ sku: 'z' }), null));
check('find, sort, skip, limit, projection', () => {
  const found = parts.find({ stock: { $gte: 1 } }, { _id: 0, sku: 1 }).sort({ stock: -1 }).skip(1).limit(2).toArray();
  equal(found, [{ sku: 'c' }, { sku: 'b' }]);
});
check('find by a list\'s element', () => equal(ids(parts.find({ tags: 'm4' }).sort({ _id: 1 })), [1, 3]));
check('find by pattern', () => equal(ids(parts.find({ kind: /^b/ }).sort({ _id: 1 })), [1, 2]));
check('find in small batches', () => equal(ids(parts.find().sort({ _id: 1 }).batchSize(2)), [1, 2, 3, 4]));

check('count', () => equal([parts.countDocuments({ kind: 'nut' }), parts.estimatedDocumentCount()], [2, 4]));
check('distinct', () => equal(parts.distinct('kind').sort(), ['bolt', 'nut']));

check('update one', () => {
  const result = parts.updateOne({ _id: 1 }, { $inc: { stock: -3 }, $push: { tags: 'zinc' } });
  equal([result.matchedCount, result.modifiedCount, result.insertedId], [1, 1, null]);
  equal(parts.findOne({ _id: 1 }), { _id: 1, sku: 'a', kind: 'bolt', stock: 7, tags: ['m4', 'steel', 'zinc'] });
});
check('update with upsert', () => {
  const update = { $set: { sku: 'e', kind: 'washer' }, $setOnInsert: { stock: 1 } };
  const result = parts.updateOne({ _id: 5 }, update, { upsert: true });
  // The shell's own name for upsertedId.
  equal([result.matchedCount, result.upsertedCount, result.insertedId], [0, 1, 5]);
  equal(parts.findOne({ _id: 5 }), { _id: 5, kind: 'washer', sku: 'e', stock: 1 });
});
check('update many', () => {
  equal(parts.updateMany({ kind: { $in: ['bolt', 'nut'] } }, { $set: { checked: true } }).modifiedCount, 4);
});
check('replace', () => {
  equal(parts.replaceOne({ _id: 5 }, { sku: 'e2', kind: 'washer', stock: 2 }).modifiedCount, 1);
});
check('find one and update', () => {
  const after = parts.findOneAndUpdate({ _id: 5 }, { $inc: { stock: 1 } }, { returnDocument: 'after' });
  equal(after, { _id: 5, sku: 'e2', kind: 'washer', stock: 3 });
  const before = parts.findOneAndUpdate({ kind: 'nut' }, { $inc: { stock: 1 } }, { sort: { stock: 1 }, projection: { stock: 1 } });
  equal(before, { _id: 4, stock: 0 });
});
check('find one and delete', () => equal(parts.findOneAndDelete({ _id: 5 }).sku, 'e2'));

check('aggregate', () => {
  const sums = parts.aggregate([
    { $match: { stock: { $gt: 0 } } },
    { $group: { _id: '$kind', stock: { $sum: '$stock' }, parts: { $sum: 1 } } },
    { $sort: { _id: 1 } },
  ]);
  equal(sums.toArray(), [{ _id: 'bolt', stock: 12, parts: 2 }, { _id: 'nut', stock: 8, parts: 2 }]);
});

check('bulk write', () => {
  const result = parts.bulkWrite([
    { insertOne: { document: { _id: 6, sku: 'f', stock: 1 } } },
    { updateOne: { filter: { _id: 6 }, update: { $set: { stock: 2 } } } },
    { updateOne: { filter: { _id: 7 }, update: { $set: { sku: 'g' } }, upsert: true } },
    { replaceOne: { filter: { _id: 7 }, replacement: { sku: 'g', stock: 9 } } },
    { deleteOne: { filter: { _id: 6 } } },
    { deleteMany: { filter: { sku: 'g' } } },
  ]);
  equal(
    [result.insertedCount, result.matchedCount, result.modifiedCount, result.upsertedCount, result.deletedCount],
    [1, 2, 2, 1, 2],
  );
});
check('unordered bulk write', () => {
  const writes = [1, 8, 1].map((id) => ({ insertOne: { document: { _id: id, sku: `u${id}` } } }));
  const error = raised(() => parts.bulkWrite(writes, { ordered: false }));
  equal([error.name, error.writeErrors.map(({ index, code }) => [index, code])], ['MongoBulkWriteError', [[0, 11000], [2, 11000]]]);
});

check('session', () => {
  const session = db.getMongo().startSession();
  const own = session.getDatabase('smoke_mongosh').parts;
  own.insertOne({ _id: 9, sku: 's' });
  equal(own.findOne({ _id: 9 }).sku, 's');
  session.endSession();
  equal(session.hasEnded(), true);
});

check('current operations', () => {
  const own = db.getSiblingDB('admin').aggregate([{ $currentOp: { allUsers: true } }, { $match: { 'command.aggregate': 1 } }]);
  assert.ok(own.toArray().length >= 1);
  assert.ok(Array.isArray(db.currentOp().inprog));
});

check('delete', () => {
  equal(parts.deleteOne({ _id: 9 }).deletedCount, 1);
  equal(parts.deleteMany({ kind: 'nut' }).deletedCount, 2);
  equal(ids(parts.find().sort({ _id: 1 })), [1, 2, 8]);
});
check('drop index', () => {
  parts.dropIndex('sku_1');
  equal(parts.getIndexes().length, 1);
});
check('drop', () => {
  equal(parts.drop(), true);
  equal(smoke.getCollectionNames(), ['made']);
  equal(smoke.dropDatabase().ok, 1);
  assert.ok(!db.getMongo().getDBNames().includes('smoke_mongosh'));
});

print(JSON.stringify({ client: `mongosh ${version()}`, checks }));
