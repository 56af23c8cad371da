// The application: one logical write, run up to four times.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { version } = JSON.parse(readFileSync(require.resolve('mongodb/package.json'), 'utf8'));

/** The client's name and version, as it stands in the results. */
export const CLIENT = `node ${version}`;

/** Inserts, up to four times, until it succeeds; tells how often it ran and how it failed. */
export async function attempts(client) {
  const db = client.db();
  const failures = [];
  for (let i = 1; i <= 4; i++) {
    try {
      await db.collection('retry_lab').insertOne({ productId: 1, storeId: 7, attempt: i });
      return { executions: i, failures };
    } catch (error) {
      failures.push(error.constructor.name);
    }
  }
  return { executions: 4, failures };
}
