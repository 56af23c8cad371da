// node auth.mjs URI: logs in with every mechanism on an encrypted connection, and is refused with a wrong password.

import { equal, rejects } from 'node:assert';
import { MongoClient } from 'mongodb';
import { CLIENT } from './attempts.mjs';

const [, , uri] = process.argv;
const { BACKFIRE_PASSWORD: password, BACKFIRE_CA: tlsCAFile } = process.env;
let checks = 0;

/** Writes and reads as `root`. */
async function use(options, proof = password) {
  const client = new MongoClient(uri, { tlsCAFile, auth: { username: 'root', password: proof }, ...options });
  try {
    const collection = client.db('auth_node').collection('c');
    await collection.insertOne({});
    return await collection.countDocuments();
  } finally {
    await client.close();
  }
}

for (const options of [{}, { authMechanism: 'SCRAM-SHA-256' }, { authMechanism: 'SCRAM-SHA-1' }, { compressors: ['zlib'] }]) {
  checks += 1;
  equal(await use(options), checks);
}
for (const authMechanism of ['DEFAULT', 'SCRAM-SHA-256', 'SCRAM-SHA-1']) {
  await rejects(use({ authMechanism }, 'wrong'), { name: 'MongoServerError', code: 18, codeName: 'AuthenticationFailed' });
  checks += 1;
}
console.log(JSON.stringify({ client: CLIENT, suite: 'auth', checks }));
