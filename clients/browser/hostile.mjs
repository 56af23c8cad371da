// An event stream in which every text tries to become a part of the page.
const bad = "</script><script>alert(1)</script><img src=http://127.0.0.1:9/x onerror=alert(2)>\"'`${alert(3)}\u202e\u0000";
const lsid = "00000000-0000-4000-8000-000000000001";
const identity = { lsid, txnNumber: 1 };
const send = { execution: 1, ...identity, request_id: 1, command: bad, namespace: `db.${bad}`, attempt: 1 };
const client = (at_ms, event, rest) => ({ at_ms, side: "client", event, ...rest });
const server = (at_ms, event, rest) => ({ at_ms, side: "server", event, op: 1, ...identity, ...rest });
const insert = { connection: 1, request_id: 1, app_name: bad, command: "insert", namespace: `db.${bad}` };
const events = [
  client(0, "execution_started", { execution: 1 }),
  client(0, "send", send),
  server(1, "arrived", insert),
  server(1, "executing", {}),
  server(2, "committed", { documents: 1, first_id: bad }),
  server(9, "ended", { outcome: { kind: "error", code: 1, code_name: bad }, client_there: true }),
  client(9, "send_failed", { execution: 1, ...identity, request_id: 1, error: { kind: "network", message: bad } }),
  client(9, "execution_failed", { execution: 1, error: bad }),
  client(9, "dead_letter", { execution: 1 }),
];
for (const event of events) console.log(JSON.stringify(event));
