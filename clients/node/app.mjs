// node app.mjs URI: the application alone.

import { MongoClient } from 'mongodb';
import { CLIENT, attempts } from './attempts.mjs';

const client = await new MongoClient(process.argv[2]).connect();
const result = await attempts(client);
await client.close();
console.log(JSON.stringify({ client: CLIENT, ...result }));
// After a resend, version 6.22.0 leaves a timer of 30 s (server selection) behind, for which the process would wait.
process.exit();
