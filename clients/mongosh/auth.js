// Logs in with every mechanism on an encrypted connection, and is refused with a wrong password.

const assert = require('assert');

const { BACKFIRE_AUTH_URI: uri, BACKFIRE_PASSWORD: password, BACKFIRE_CA: ca } = process.env;
let checks = 0;

/** A database that `root` is logged in to. */
function loggedIn(proof, options) {
  const userinfo = `root:${encodeURIComponent(proof)}@`;
  const parts = [`tlsCAFile=${encodeURIComponent(ca)}`, ...options];
  return new Mongo(`${uri.replace('//', `//${userinfo}`)}&${parts.join('&')}`).getDB('auth_mongosh');
}

for (const options of [[], ['authMechanism=SCRAM-SHA-256'], ['authMechanism=SCRAM-SHA-1'], ['compressors=zlib']]) {
  const database = loggedIn(password, options);
  database.c.insertOne({});
  checks += 1;
  assert.strictEqual(database.c.countDocuments({}), checks);
}
const [user] = loggedIn(password, []).runCommand({ connectionStatus: 1 }).authInfo.authenticatedUsers;
assert.strictEqual(`${user.user}@${user.db}`, 'root@admin');
for (const options of [[], ['authMechanism=SCRAM-SHA-256'], ['authMechanism=SCRAM-SHA-1']]) {
  let refused;
  try {
    loggedIn('wrong', options).c.countDocuments({});
  } catch (error) {
    refused = error;
  }
  assert.strictEqual(refused?.code, 18, `${refused}`);
  assert.strictEqual(refused.codeName, 'AuthenticationFailed');
  checks += 1;
}
print(JSON.stringify({ client: 'mongosh', suite: 'auth', checks }));
