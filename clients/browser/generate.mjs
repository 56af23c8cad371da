// An event stream of many logical writes: node generate.mjs [WRITES] > events.jsonl
//
// Consumers write 25 records a second into a server with 128 tickets. From 60 s to 340 s its engine stands still: writes pile up,
// sockets time out after 30 s, drivers resend, error handlers execute again, and what got no ticket waits for one. The same
// number of writes gives the same stream.
import { pathToFileURL } from "node:url";

const TIMEOUT_MS = 30_000;
const BACK_OFF_MS = 1_000;
const EXECUTIONS = 4;
const TICKETS = 128;
const STALL = { fromMs: 60_000, toMs: 340_000 };

// A binary heap of things to do, by time and then by number.
class Agenda {
  #heap = [];
  #count = 0;
  add(atMs, act) {
    const heap = this.#heap;
    heap.push([atMs, (this.#count += 1), act]);
    for (let at = heap.length - 1; at > 0; ) {
      const above = (at - 1) >> 1;
      if (!this.#isBefore(at, above)) break;
      [heap[at], heap[above]] = [heap[above], heap[at]];
      at = above;
    }
  }
  next() {
    const heap = this.#heap;
    if (!heap.length) return undefined;
    const first = heap[0];
    const last = heap.pop();
    if (heap.length) {
      heap[0] = last;
      for (let at = 0; ; ) {
        let least = at;
        for (const below of [2 * at + 1, 2 * at + 2]) if (below < heap.length && this.#isBefore(below, least)) least = below;
        if (least === at) break;
        [heap[at], heap[least]] = [heap[least], heap[at]];
        at = least;
      }
    }
    return first;
  }
  #isBefore(one, other) {
    const [a, b] = [this.#heap[one], this.#heap[other]];
    return a[0] < b[0] || (a[0] === b[0] && a[1] < b[1]);
  }
}

// Gives each line of a stream of `writes` logical writes to `put`.
export function generate(writes, put) {
  const agenda = new Agenda();
  let now = 0;
  let random = 1;
  let ids = 0;
  const chance = () => (random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32;
  const after = (ms, act) => agenda.add(now + Math.round(ms), act);
  const event = (side, name, fields) => put(JSON.stringify({ at_ms: now, ...fields.head, side, event: name, ...fields.rest }));
  const client = (write, name, rest) => event("client", name, { head: { record: write.record }, rest });
  const server = (op, name, rest) => event("server", name, { head: {}, rest: { op: op.id, ...op.identity, ...rest } });

  let free = TICKETS;
  const queue = [];
  const isStalled = () => now >= STALL.fromMs && now < STALL.toMs;

  const enter = (op) => {
    free -= 1;
    if (isStalled()) {
      server(op, "waiting", { wait: "engine_stall" });
      agenda.add(STALL.toMs + Math.round(chance() * 400), () => {
        server(op, "resumed", { wait: "engine_stall" });
        commit(op);
      });
    } else after(4 + chance() * 12, () => commit(op));
  };
  const commit = (op) => {
    server(op, "committed", { documents: 1, first_id: op.identity.lsid });
    end(op);
    free += 1;
    const next = queue.shift();
    if (next) {
      server(next, "resumed", { wait: "ticket" });
      enter(next);
    }
    op.session.isDone = true;
    for (const resend of op.session.waiting.splice(0)) {
      server(resend, "resumed", { wait: "session" });
      replay(resend);
    }
  };
  const replay = (op) => {
    server(op, "executing", {});
    server(op, "replayed", { statements: 1 });
    end(op);
  };
  const end = (op) => {
    server(op, "ended", { outcome: { kind: "ok" }, client_there: op.isAwaited });
    if (op.isAwaited) op.answer();
  };

  const execute = (write, execution) => {
    client(write, "execution_started", { execution });
    const id = (ids += 1);
    const lsid = `00000000-0000-4000-8000-${id.toString(16).padStart(12, "0")}`;
    const session = { identity: { lsid, txnNumber: 1 }, isDone: false, waiting: [] };
    send(write, execution, session, 1);
  };
  const send = (write, execution, session, attempt) => {
    const id = (ids += 1);
    const op = { id, identity: session.identity, session, isAwaited: true };
    const of = { execution, ...session.identity, request_id: id };
    client(write, "send", { ...of, command: "insert", namespace: "shop.orders", attempt });
    server(op, "arrived", { connection: (id % 400) + 1, request_id: id, app_name: "shop", command: "insert", namespace: "shop.orders" });
    op.answer = () => {
      op.isAwaited = false;
      client(write, "reply", of);
      client(write, "execution_succeeded", { execution });
    };
    after(TIMEOUT_MS, () => {
      if (!op.isAwaited) return;
      op.isAwaited = false;
      client(write, "send_failed", { ...of, error: { kind: "socket_timeout" } });
      if (attempt === 1) send(write, execution, session, 2);
      else fail(write, execution);
    });
    if (attempt === 2 && !session.isDone) {
      server(op, "waiting", { wait: "session" });
      session.waiting.push(op);
    } else if (attempt === 2) replay(op);
    else {
      server(op, "executing", {});
      if (free > 0) enter(op);
      else {
        server(op, "waiting", { wait: "ticket" });
        queue.push(op);
      }
    }
  };
  const fail = (write, execution) => {
    client(write, "execution_failed", { execution, error: "MongoSocketReadTimeoutException: Timeout while receiving message" });
    if (execution === EXECUTIONS) return client(write, "dead_letter", { execution });
    client(write, "back_off", { execution, wait_ms: BACK_OFF_MS });
    return after(BACK_OFF_MS, () => execute(write, execution + 1));
  };

  for (let number = 0; number < writes; number += 1) {
    const write = { record: `${number % 6}-${Math.floor(number / 6)}` };
    agenda.add(number * 40 + Math.round(chance() * 40), () => execute(write, 1));
  }
  for (let due = agenda.next(); due; due = agenda.next()) {
    now = due[0];
    due[2]();
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const lines = [];
  generate(Number(process.argv[2] ?? 5_000), (line) => lines.push(line));
  process.stdout.write(lines.join("\n") + "\n");
}
