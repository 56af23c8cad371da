"""The scenario store-inventory as a SimPy model, to time `backfire simulate` against.

    python3 bench/store_inventory.py [consumers] [records]

Consumers with one partition each, an error handler (FixedBackOff(0, 3)), a driver that resends once after its socket timeout,
and a server with sessions, tickets, a retry history and an engine that stands still for 241 s. Prints the same counts as
`backfire simulate store-inventory --consumers C --records R --set stall-for=241s`. A model knows what it was told: there is no
wire, no pool, no monitoring, no locks and no storage in it.

With one record it is mostly Python's start that is timed, so compare with many as well: `100 1000` here beside
`--consumers 100 --records 1000` there, user and system time of both. What was measured is in docs/simulate.md.
"""

import sys

import simpy

SOCKET_TIMEOUT_S = 30
RETRIES = 3
TICKETS = 128
STALL_S = 241
DOCUMENTS = 2


class Server:
    """Sessions, tickets, the engine and the retry history."""

    def __init__(self, env):
        self.env = env
        self.tickets = simpy.Resource(env, TICKETS)
        self.sessions = {}
        self.history = {}
        self.stall_over = env.timeout(STALL_S)
        self.sends = self.copies = self.running = self.running_max = self.documents = 0

    def write(self, lsid, number, reply):
        """One command, from its arrival to its reply."""
        self.sends += 1
        session = self.sessions.setdefault(lsid, simpy.Resource(self.env, 1))
        with session.request() as held:
            yield held
            if (lsid, number) not in self.history:
                self.copies += 1
                self.running += 1
                self.running_max = max(self.running_max, self.running)
                with self.tickets.request() as ticket:
                    yield ticket
                    if not self.stall_over.processed:
                        yield self.stall_over
                    self.documents += DOCUMENTS
                    self.history[lsid, number] = True
                self.running -= 1
        if not reply.triggered:
            reply.succeed()


class Consumer:
    """An error handler over a driver."""

    def __init__(self, env, server, name, records):
        self.env, self.server, self.name, self.records = env, server, name, records
        self.executions = self.dead_letters = 0
        self.lsid, self.number = 0, 0
        env.process(self.run())

    def run(self):
        for _ in range(self.records):
            for retry in range(RETRIES + 1):
                self.executions += 1
                done = yield self.env.process(self.execute())
                if done:
                    break
            else:
                self.dead_letters += 1

    def execute(self):
        self.number += 1
        for _ in range(2):
            reply = self.env.event()
            self.env.process(self.server.write((self.name, self.lsid), self.number, reply))
            result = yield reply | self.env.timeout(SOCKET_TIMEOUT_S)
            if reply in result:
                return True
        # The session is dirty: the next execution gets another.
        self.lsid += 1
        self.number = 0
        return False


def main():
    consumers, records = (int(argument) for argument in (sys.argv[1:] + ["1", "1"])[:2])
    env = simpy.Environment()
    server = Server(env)
    all_consumers = [Consumer(env, server, number, records) for number in range(consumers)]
    env.run()
    print(
        f"executions {sum(consumer.executions for consumer in all_consumers)}, sends {server.sends}, "
        f"copies {server.copies}, most copies {server.running_max}, "
        f"dead letters {sum(consumer.dead_letters for consumer in all_consumers)}, documents {server.documents}"
    )


if __name__ == "__main__":
    main()
