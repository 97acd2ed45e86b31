"""A client that does as it is told: a command per line, and its reply as a line of JSON."""

import json
import sys

import redis

# Who waits for a lock waits for longer than the five seconds after which this library gives up.
client = redis.Redis.from_url(sys.argv[1], decode_responses=True, socket_timeout=None)
for line in sys.stdin:
    try:
        print(json.dumps(client.execute_command(*line.split())))
    except redis.ResponseError as error:
        print("error:" + json.dumps(str(error)))
