"""The application: one logical write, run up to four times."""

import pymongo
from pymongo.errors import PyMongoError

CLIENT = f"python {pymongo.version}"
"""The client's name and version, as it stands in the results."""


def attempts(client):
    """Inserts, up to four times, until it succeeds; tells how often it ran and how it failed."""
    db = client.get_default_database("test")
    failures = []
    for i in range(1, 5):
        try:
            db.retry_lab.insert_one({"productId": 1, "storeId": 7, "attempt": i})
            return {"executions": i, "failures": failures}
        except PyMongoError as error:
            failures.append(type(error).__name__)
    return {"executions": 4, "failures": failures}
