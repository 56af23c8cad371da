// The shell beside the application: arms the fail point, watches the copies, counts the documents. Its own connection string
// has no socket timeout. RETRY_LAB is the folder through which it hears of the other shell, BLOCK_TIME_MS how long a write is
// held.

const fs = require('fs');

const POLL_EVERY_MS = 100;
const PATIENCE_MS = 30000;
const lab = process.env.RETRY_LAB;
const blockTimeMS = Number(process.env.BLOCK_TIME_MS);
const admin = db.getSiblingDB('admin');

db.retry_lab.deleteMany({});
admin.runCommand({
  configureFailPoint: 'failCommand',
  mode: { times: 8 },
  data: { failCommands: ['insert'], blockConnection: true, blockTimeMS, appName: 'retry-lab' },
});
fs.writeFileSync(`${lab}/armed`, '');

// How many operations each (lsid, txnNumber) has now: one number per copy, in order.
function groups() {
  const reply = admin.runCommand({
    aggregate: 1,
    pipeline: [
      { $currentOp: { allUsers: true } },
      { $match: { 'command.insert': 'retry_lab' } },
      { $group: { _id: { lsid: '$command.lsid.id', txn: '$command.txnNumber' }, n: { $sum: 1 } } },
    ],
    cursor: {},
  });
  return reply.cursor.firstBatch.map((group) => Number(group.n)).sort((a, b) => a - b);
}

const size = (counts) => counts.reduce((sum, n) => sum + n, 0);

let largest = [];
let deadline = Infinity;
let ended = false;
for (;;) {
  ended = fs.existsSync(`${lab}/attempts.json`);
  const now = groups();
  if (size(now) > size(largest)) largest = now;
  if (ended && now.length === 0) break;
  if (ended && deadline === Infinity) deadline = Date.now() + blockTimeMS + PATIENCE_MS;
  if (Date.now() > deadline) throw new Error(`still running after all that time: ${JSON.stringify(now)}`);
  sleep(POLL_EVERY_MS);
}
const documents = db.retry_lab.countDocuments({ productId: 1 });
admin.runCommand({ configureFailPoint: 'failCommand', mode: 'off' });

const result = { ...JSON.parse(fs.readFileSync(`${lab}/attempts.json`, 'utf8')), groups: largest, documents };
print(JSON.stringify(result));
const expected = {
  client: `mongosh ${version()}`,
  executions: 4,
  failures: Array(4).fill('MongoNetworkTimeoutError'),
  groups: [2, 2, 2, 2],
  documents: 4,
};
if (JSON.stringify(result) !== JSON.stringify(expected)) {
  console.error(`expected ${JSON.stringify(expected)}`);
  exit(1);
}
