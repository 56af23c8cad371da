"""app.py URI: the application alone."""

import json
import sys

from pymongo import MongoClient

from attempts import CLIENT, attempts

with MongoClient(sys.argv[1]) as client:
    client.admin.command("ping")
    print(json.dumps({"client": CLIENT} | attempts(client)))
