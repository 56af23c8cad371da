"""experiment.py CONTROL_URI LAB_URI BLOCK_TIME_MS: arms the fail point, runs the application, counts its copies."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from pymongo import MongoClient

from attempts import CLIENT, attempts

POLL_EVERY_S = 0.1
PATIENCE_S = 30


def run_application(uri):
    with MongoClient(uri) as client:
        client.admin.command("ping")
        return attempts(client)


def groups(admin):
    """How many operations each (lsid, txnNumber) has now: one number per copy, in order."""
    reply = admin.command(
        {
            "aggregate": 1,
            "pipeline": [
                {"$currentOp": {"allUsers": True}},
                {"$match": {"command.insert": "retry_lab"}},
                {"$group": {"_id": {"lsid": "$command.lsid.id", "txn": "$command.txnNumber"}, "n": {"$sum": 1}}},
            ],
            "cursor": {},
        }
    )
    return sorted(group["n"] for group in reply["cursor"]["firstBatch"])


def watch(admin, application, block_time_s):
    """Polls until the application has ended and nothing of it runs any more; the largest set of groups seen."""
    largest, deadline = [], None
    while True:
        ended = application.done()
        now = groups(admin)
        if sum(now) > sum(largest):
            largest = now
        if ended and not now:
            return largest
        if ended and deadline is None:
            deadline = time.monotonic() + block_time_s + PATIENCE_S
        if deadline is not None and time.monotonic() > deadline:
            raise SystemExit(f"still running after all that time: {now}")
        time.sleep(POLL_EVERY_S)


def main(control_uri, lab_uri, block_time_ms):
    # Its socket timeout is not the application's: it watches for as long as the writes are held.
    with MongoClient(control_uri, appName="retry-lab-control") as control, ThreadPoolExecutor(1) as pool:
        retry_lab = control.get_default_database("test").retry_lab
        retry_lab.delete_many({})
        control.admin.command(
            {
                "configureFailPoint": "failCommand",
                "mode": {"times": 8},
                "data": {
                    "failCommands": ["insert"],
                    "blockConnection": True,
                    "blockTimeMS": block_time_ms,
                    "appName": "retry-lab",
                },
            }
        )
        application = pool.submit(run_application, lab_uri)
        largest = watch(control.admin, application, block_time_ms / 1000)
        documents = retry_lab.count_documents({"productId": 1})
        control.admin.command({"configureFailPoint": "failCommand", "mode": "off"})
    result = {"client": CLIENT} | application.result() | {"groups": largest, "documents": documents}
    print(json.dumps(result))
    expected = {
        "client": CLIENT,
        "executions": 4,
        "failures": ["NetworkTimeout"] * 4,
        "groups": [2, 2, 2, 2],
        "documents": 4,
    }
    if result != expected:
        raise SystemExit(f"expected {json.dumps(expected)}")


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
