// node app.mjs URI: the application alone.

import { MongoClient } from 'mongodb';
import { CLIENT, attempts } from './attempts.mjs';

const client = await new MongoClient(process.argv[2]).connect();
const result = await attempts(client);
await client.close();
console.log(JSON.stringify({ client: CLIENT, ...result }));
