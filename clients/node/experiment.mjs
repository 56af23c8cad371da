// node experiment.mjs CONTROL_URI LAB_URI BLOCK_TIME_MS: arms the fail point, runs the application, counts its copies.

import { isDeepStrictEqual } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import { MongoClient } from 'mongodb';
import { CLIENT, attempts } from './attempts.mjs';

const POLL_EVERY_MS = 100;
const PATIENCE_MS = 30_000;

const [controlUri, labUri, blockTime] = process.argv.slice(2);
const blockTimeMS = Number(blockTime);

// Its socket timeout is not the application's: it watches for as long as the writes are held.
const control = await new MongoClient(controlUri, { appName: 'retry-lab-control' }).connect();
const admin = control.db('admin');
const retryLab = control.db().collection('retry_lab');

/** How many operations each (lsid, txnNumber) has now: one number per copy, in order. */
async function groups() {
  const reply = await admin.command({
    aggregate: 1,
    pipeline: [
      { $currentOp: { allUsers: true } },
      { $match: { 'command.insert': 'retry_lab' } },
      { $group: { _id: { lsid: '$command.lsid.id', txn: '$command.txnNumber' }, n: { $sum: 1 } } },
    ],
    cursor: {},
  });
  return reply.cursor.firstBatch.map((group) => group.n).sort((a, b) => a - b);
}

const size = (counts) => counts.reduce((sum, n) => sum + n, 0);

await retryLab.deleteMany({});
await admin.command({
  configureFailPoint: 'failCommand',
  mode: { times: 8 },
  data: { failCommands: ['insert'], blockConnection: true, blockTimeMS, appName: 'retry-lab' },
});

let application;
const running = (async () => {
  const lab = await new MongoClient(labUri).connect();
  const result = await attempts(lab);
  await lab.close();
  application = result;
})();

let largest = [];
let deadline = Infinity;
for (;;) {
  const now = await groups();
  if (size(now) > size(largest)) largest = now;
  if (application && deadline === Infinity) deadline = Date.now() + blockTimeMS + PATIENCE_MS;
  if (application && now.length === 0) break;
  if (Date.now() > deadline) throw new Error(`still running after all that time: ${JSON.stringify(now)}`);
  await Promise.race([sleep(POLL_EVERY_MS), application ? sleep(POLL_EVERY_MS) : running]);
}
const documents = await retryLab.countDocuments({ productId: 1 });
await admin.command({ configureFailPoint: 'failCommand', mode: 'off' });
await control.close();

const result = { client: CLIENT, ...application, groups: largest, documents };
console.log(JSON.stringify(result));
const expected = {
  client: CLIENT,
  executions: 4,
  failures: Array(4).fill('MongoNetworkTimeoutError'),
  groups: [2, 2, 2, 2],
  documents: 4,
};
if (!isDeepStrictEqual(result, expected)) {
  console.error(`expected ${JSON.stringify(expected)}`);
  process.exitCode = 1;
}
// After a resend, version 6.22.0 leaves a timer of 30 s (server selection) behind, for which the process would wait.
process.exit();
