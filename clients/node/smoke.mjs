// node smoke.mjs URI: what a user of the driver does in the first five minutes.

import { deepStrictEqual as equal, ok, rejects } from 'node:assert';
import { MongoClient } from 'mongodb';
import { CLIENT } from './attempts.mjs';

const client = await new MongoClient(process.argv[2], { appName: 'smoke' }).connect();
const db = client.db('smoke_node');
const parts = db.collection('parts');
let checks = 0;

/** Runs one check; a failure names it. */
async function check(what, run) {
  try {
    await run();
  } catch (error) {
    throw new Error(`${what}: ${error.message}`, { cause: error });
  }
  checks += 1;
}

const ids = async (cursor) => (await cursor.toArray()).map((document) => document._id);

await db.dropDatabase();

await check('ping', async () => equal((await db.admin().ping()).ok, 1));
await check('server version', async () => ok(/^\d+\.\d+\.\d+$/.test((await db.admin().buildInfo()).version)));
// 4.4.0 does not know hello by that name yet.
await check('primary', async () => equal((await db.command({ isMaster: 1 })).ismaster, true));

await check('create collection', async () => equal((await db.createCollection('parts')).collectionName, 'parts'));
await check('create index', async () => equal(await parts.createIndex({ sku: 1 }, { unique: true }), 'sku_1'));
await check('list indexes', async () => {
  equal((await parts.indexes()).map(({ name, unique }) => [name, unique === true]), [['_id_', false], ['sku_1', true]]);
});

await check('insert one', async () => {
  const result = await parts.insertOne({ _id: 1, sku: 'a', kind: 'bolt', stock: 10, tags: ['m4', 'steel'] });
  equal([result.acknowledged, result.insertedId], [true, 1]);
});
await check('insert many', async () => {
  const result = await parts.insertMany([
    { _id: 2, sku: 'b', kind: 'bolt', stock: 5, tags: ['m5'] },
    { _id: 3, sku: 'c', kind: 'nut', stock: 7, tags: ['m4'] },
    { _id: 4, sku: 'd', kind: 'nut', stock: 0, tags: [] },
  ]);
  equal([result.insertedCount, result.insertedIds], [3, { 0: 2, 1: 3, 2: 4 }]);
});
await check('duplicate key', async () => {
  await rejects(parts.insertOne({ sku: 'a' }), { name: 'MongoServerError', code: 11000, keyPattern: { sku: 1 }, keyValue: { sku: 'a' } });
});
await check('an id made by the driver', async () => {
  const { insertedId } = await db.collection('made').insertOne({ at: new Date(0) });
  equal(await db.collection('made').findOne({ _id: insertedId }), { _id: insertedId, at: new Date(0) });
});

await check('show databases', async () => {
  ok((await db.admin().listDatabases()).databases.some(({ name, empty }) => name === 'smoke_node' && !empty));
});
await check('show collections', async () => {
  equal((await db.listCollections().toArray()).map(({ name, type }) => [name, type]).sort(), [['made', 'collection'], ['parts', 'collection']]);
});

await check('find one', async () => equal((await parts.findOne({ sku: 'c' })).stock, 7));
await check('find none', async () => equal(await parts.findOne({ sku: 'z' }), null));
await check('find, sort, skip, limit, projection', async () => {
  const found = await parts.find({ stock: { $gte: 1 } }).sort({ stock: -1 }).skip(1).limit(2).project({ _id: 0, sku: 1 }).toArray();
  equal(found, [{ sku: 'c' }, { sku: 'b' }]);
});
await check('find by operators', async () => {
  equal(await ids(parts.find({ $or: [{ tags: 'm5' }, { stock: { $in: [0, 99] } }], kind: { $ne: 'screw' } }).sort({ _id: 1 })), [2, 4]);
});
await check('find in small batches', async () => equal(await ids(parts.find().sort({ _id: 1 }).batchSize(2)), [1, 2, 3, 4]));

await check('count', async () => equal([await parts.countDocuments({ kind: 'nut' }), await parts.estimatedDocumentCount()], [2, 4]));
await check('distinct', async () => equal((await parts.distinct('kind')).sort(), ['bolt', 'nut']));

await check('update one', async () => {
  const result = await parts.updateOne({ _id: 1 }, { $inc: { stock: -3 }, $push: { tags: 'zinc' } });
  equal([result.matchedCount, result.modifiedCount, result.upsertedId], [1, 1, null]);
  equal(await parts.findOne({ _id: 1 }), { _id: 1, sku: 'a', kind: 'bolt', stock: 7, tags: ['m4', 'steel', 'zinc'] });
});
await check('update with upsert', async () => {
  const result = await parts.updateOne({ _id: 5 }, { $set: { sku: 'e', kind: 'washer' }, $setOnInsert: { stock: 1 } }, { upsert: true });
  equal([result.matchedCount, result.upsertedCount, result.upsertedId], [0, 1, 5]);
  equal(await parts.findOne({ _id: 5 }), { _id: 5, kind: 'washer', sku: 'e', stock: 1 });
});
await check('update many', async () => {
  const result = await parts.updateMany({ kind: { $in: ['bolt', 'nut'] } }, { $set: { checked: true } });
  equal([result.matchedCount, result.modifiedCount], [4, 4]);
});
await check('replace', async () => {
  equal((await parts.replaceOne({ _id: 5 }, { sku: 'e2', kind: 'washer', stock: 2 })).modifiedCount, 1);
});
await check('find one and update', async () => {
  const after = await parts.findOneAndUpdate({ _id: 5 }, { $inc: { stock: 1 } }, { returnDocument: 'after' });
  equal(after, { _id: 5, sku: 'e2', kind: 'washer', stock: 3 });
  const before = await parts.findOneAndUpdate({ kind: 'nut' }, { $inc: { stock: 1 } }, { sort: { stock: 1 }, projection: { stock: 1 } });
  equal(before, { _id: 4, stock: 0 });
});
await check('find one and delete', async () => equal((await parts.findOneAndDelete({ _id: 5 })).sku, 'e2'));

await check('aggregate', async () => {
  const sums = await parts
    .aggregate([
      { $match: { stock: { $gt: 0 } } },
      { $group: { _id: '$kind', stock: { $sum: '$stock' }, parts: { $sum: 1 } } },
      { $sort: { _id: 1 } },
    ])
    .toArray();
  equal(sums, [{ _id: 'bolt', stock: 12, parts: 2 }, { _id: 'nut', stock: 8, parts: 2 }]);
});

await check('bulk write', async () => {
  const result = await parts.bulkWrite([
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
await check('unordered bulk write', async () => {
  const writes = [1, 8, 1].map((id) => ({ insertOne: { document: { _id: id, sku: `u${id}` } } }));
  await rejects(parts.bulkWrite(writes, { ordered: false }), (error) => {
    equal([error.name, error.insertedCount, error.writeErrors.map(({ index, code }) => [index, code])], ['MongoBulkWriteError', 1, [[0, 11000], [2, 11000]]]);
    return true;
  });
});

await check('session', async () => {
  const session = client.startSession();
  await parts.insertOne({ _id: 9, sku: 's' }, { session });
  equal((await parts.findOne({ _id: 9 }, { session })).sku, 's');
  ok(session.operationTime);
  await session.endSession();
  ok(session.hasEnded);
});

await check('transaction, committed', async () => {
  const session = client.startSession();
  const returned = await session.withTransaction(async () => {
    await parts.insertOne({ _id: 10, sku: 't', stock: 1 }, { session });
    await parts.updateOne({ _id: 10 }, { $inc: { stock: 1 } }, { session });
    equal((await parts.findOne({ _id: 10 }, { session })).stock, 2);
    equal(await parts.findOne({ _id: 10 }), null);
    return 'done';
  });
  equal([returned, (await parts.findOne({ _id: 10 })).stock], ['done', 2]);
  await session.endSession();
});
await check('transaction, aborted', async () => {
  const session = client.startSession();
  session.startTransaction({ readConcern: { level: 'snapshot' }, writeConcern: { w: 'majority' } });
  await parts.deleteOne({ _id: 10 }, { session });
  equal(await parts.countDocuments({ _id: 10 }, { session }), 0);
  await session.abortTransaction();
  equal(await parts.countDocuments({ _id: 10 }), 1);
  await rejects(session.withTransaction(() => parts.insertOne({ _id: 10 }, { session })), { code: 11000 });
  equal((await parts.findOne({ _id: 10 })).stock, 2);
  await session.endSession();
});
await check('transactions that meet', async () => {
  const [one, other] = [client.startSession(), client.startSession()];
  one.startTransaction();
  other.startTransaction();
  await parts.updateOne({ _id: 10 }, { $set: { stock: 5 } }, { session: one });
  await rejects(parts.updateOne({ _id: 10 }, { $set: { stock: 6 } }, { session: other }), (error) => {
    equal([error.code, error.hasErrorLabel('TransientTransactionError')], [112, true]);
    return true;
  });
  await other.abortTransaction();
  await one.commitTransaction();
  // Said again, it is still committed.
  await one.commitTransaction();
  equal((await parts.findOneAndDelete({ _id: 10 })).stock, 5);
  await Promise.all([one.endSession(), other.endSession()]);
});

await check('delete', async () => {
  equal((await parts.deleteOne({ _id: 9 })).deletedCount, 1);
  equal((await parts.deleteMany({ kind: 'nut' })).deletedCount, 2);
  equal(await ids(parts.find().sort({ _id: 1 })), [1, 2, 8]);
});
await check('drop index', async () => {
  await parts.dropIndex('sku_1');
  equal((await parts.indexes()).length, 1);
});
await check('drop', async () => {
  equal(await parts.drop(), true);
  equal((await db.listCollections({}, { nameOnly: true }).toArray()).map(({ name }) => name), ['made']);
  equal(await db.dropDatabase(), true);
  ok(!(await db.admin().listDatabases({ nameOnly: true })).databases.some(({ name }) => name === 'smoke_node'));
});

await client.close();
console.log(JSON.stringify({ client: CLIENT, checks }));
