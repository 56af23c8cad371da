// The application, typed into a shell whose connection string has the short socket timeout: one logical write, run up to
// four times until it succeeds.

const failures = [];
let executions = 0;

for (let i = 1; i <= 4; i++) {
  executions = i;
  try {
    db.retry_lab.insertOne({ productId: 1, storeId: 7, attempt: i });
    break;
  } catch (error) {
    failures.push(error.name);
  }
}

print(JSON.stringify({ client: `mongosh ${version()}`, executions, failures }));
