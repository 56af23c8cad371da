"""auth.py URI: logs in with every mechanism on an encrypted connection, and is refused with a wrong password."""

import json
import os
import sys

from pymongo import MongoClient
from pymongo.errors import OperationFailure

from attempts import CLIENT


def use(password, **options):
    """Writes and reads as `root`."""
    options |= {"username": "root", "password": password, "tlsCAFile": os.environ["BACKFIRE_CA"]}
    with MongoClient(sys.argv[1], **options) as client:
        collection = client.auth_python.c
        collection.insert_one({})
        return collection.count_documents({})


right = os.environ["BACKFIRE_PASSWORD"]
mechanisms = [{}, {"authMechanism": "SCRAM-SHA-256"}, {"authMechanism": "SCRAM-SHA-1"}]
checks = 0
for options in [*mechanisms, {"compressors": "zlib"}]:
    checks += 1
    count = use(right, **options)
    if count != checks:
        raise SystemExit(f"{options}: expected {checks} documents, got {count}")
for options in mechanisms:
    try:
        use("wrong", **options)
    except OperationFailure as error:
        if error.code != 18:
            raise SystemExit(f"{options}: {error!r}")
    else:
        raise SystemExit(f"{options}: a wrong password was taken")
    checks += 1
print(json.dumps({"client": CLIENT, "suite": "auth", "checks": checks}))
