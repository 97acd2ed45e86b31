# What the Python programs here have in common. It stands before each of them in one script.
#
# A program gives a class to `run`. Each client is one object of it, on connections of its own:
#
#   Client(config)                 the configuration is the one argument of the program
#   acquire(lock, end_us)          (what release wants, the member or None, when the attempt that
#                                  took it was sent), or None: not yet, or not before the end
#   release(held)                  False if it knows that the lock was lost before
#   orders()                       what the interactive mode can be told, by name

import json
import os
import random
import sys
import threading
import time
import traceback

import redis

_saying = threading.Lock()


def connect(config, url=None):
    """A client that waits for as long as it is told, and sends nothing twice by itself."""
    never = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    client = redis.Redis.from_url(
        url or config["urls"][0], socket_timeout=None, socket_connect_timeout=None, retry=never
    )
    client.ping()
    return client


def now_us():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def sleep_ms(ms):
    time.sleep(ms / 1000)


def say(value):
    with _saying:
        print(json.dumps(value), flush=True)


def take_turns(config, who, client, end_us):
    ttl_us = config["ttl_ms"] * 1000
    while now_us() < end_us:
        lock = random.choice(config["locks"])
        got = client.acquire(lock, end_us)
        if got is None:
            continue
        held, member, sent_us = got
        from_us = now_us()
        sleep_ms(random.uniform(0, 2 * config["hold_ms"]))
        until_us = now_us()
        turn = {"who": who, "lock": lock, "member": member}
        turn.update(from_us=from_us, until_us=until_us, unsure=until_us - sent_us > 0.8 * ttl_us)
        say(turn)
        kept = client.release(held)
        if not kept and now_us() - sent_us < ttl_us:
            raise RuntimeError(f"{who} lost {lock} before its time: {turn}")
        sleep_ms(random.uniform(0, config["think_ms"]))


def obey(orders):
    """One order per line, and one answer."""
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = orders[order.pop("do")](**order)
        except Exception as error:
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        say(answer)


def fail(failed):
    """One thread that fails fails all: nobody would miss it otherwise."""
    traceback.print_exception(failed.exc_type, failed.exc_value, failed.exc_traceback)
    os._exit(1)


def run(client_class):
    threading.excepthook = fail
    config = json.loads(sys.argv[1])
    if config["interactive"]:
        obey(client_class(config).orders())
        return
    # All are connected before one begins, so the time is the same for all.
    clients = [client_class(config) for _ in range(config["clients"])]
    end_us = now_us() + int(config["seconds"] * 1_000_000)

    threads = [
        threading.Thread(target=take_turns, args=(config, f"{config['who']}-{n}", client, end_us))
        for n, client in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Timers of the clients may still run, for nobody.
    os._exit(0)
