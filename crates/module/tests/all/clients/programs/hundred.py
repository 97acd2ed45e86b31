"""Clients that come one after the other and wait for the same lock, each on its own connection.

Says `queued NUMBER` when a client waits, and then `granted NUMBER TOKEN` when one has the lock: while
it has it, so that these come in the order of the grants.
"""

import sys
import threading
import time

import redis

url, key, count = sys.argv[1], sys.argv[2], int(sys.argv[3])


def connect():
    return redis.Redis.from_url(url, decode_responses=True, protocol=2, socket_timeout=None)


def take_turn(number):
    client = connect()
    label = f"client-{number}"
    grant = client.execute_command("FENCELOCK.ACQUIRE", key, 60, "WAIT", 0, "LABEL", label)
    secret, token = grant
    print("granted", number, token)
    client.execute_command("FENCELOCK.RELEASE", key, secret)


def waiting(client):
    shown = client.execute_command("FENCELOCK.SHOW", key)
    return shown[shown.index("waiting") + 1]


watch = connect()
for number in range(count):
    threading.Thread(target=take_turn, args=(number,)).start()
    while waiting(watch) != number + 1:
        time.sleep(0.001)
    print("queued", number)
