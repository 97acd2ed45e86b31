"""Lock libraries in Python under the loads of the benchmark.

    peers.py LIBRARY pairs --url URL --tasks N --seconds S
    peers.py LIBRARY crowd --url URL --clients N --hold-ms MS --seconds S

Every library is used as its documentation says, with its own defaults. Where those give up rather than
wait, the one option that makes it wait is set, and the class says so. An object of a class is a client;
`lock` gives a pair of functions that acquire and release one lock.
"""

import argparse
import json
import multiprocessing
import threading
import time

import redis

# How long the tasks run before anything counts.
WARM_UP_US = 200_000

# How long after its time a run may end. A library that loses a wake-up may wait for ever.
GRACE_S = 30

# For the library that wants a lease to be named: it outlasts any hold.
LEASE_MS = 30_000


class TakeTurns:
    """Ours. A lease of 30 s by default, renewed."""

    def __init__(self, url):
        import taketurns

        self.locks = taketurns.connect(url)

    def lock(self, name):
        mutex = self.locks.mutex(name)
        held = None

        def acquire():
            nonlocal held
            held = mutex.acquire()
            return held

        return acquire, lambda: held.release()


class RedisPy:
    """redis-py's Lock. It waits for ever by default, and tries every 100 ms. No lease by default."""

    def __init__(self, url):
        self.client = redis.Redis.from_url(url)

    def lock(self, name):
        lock = self.client.lock(name)
        return lock.acquire, lock.release


class PythonRedisLock:
    """python-redis-lock. Who waits is woken by a push to a list that all wait for. No lease by default."""

    def __init__(self, url):
        self.client = redis.StrictRedis.from_url(url)

    def lock(self, name):
        import redis_lock

        lock = redis_lock.Lock(self.client, name)
        return lock.acquire, lock.release


class Pottery:
    """pottery's Redlock, of one server. It waits for ever by default, and tries up to 200 ms apart."""

    def __init__(self, url):
        self.client = redis.Redis.from_url(url)

    def lock(self, name):
        import pottery

        lock = pottery.Redlock(key=name, masters={self.client})
        return lock.acquire, lock.release


class RedlockPy:
    """redlock-py, of one server. It tries every 200 ms, and by default gives up after three times."""

    def __init__(self, url):
        import redlock

        self.manager = redlock.Redlock([url], retry_count=1_000_000)

    def lock(self, name):
        held = None

        def acquire():
            nonlocal held
            held = self.manager.lock(name, LEASE_MS)
            return held

        return acquire, lambda: self.manager.unlock(held)


LIBRARIES = {
    "taketurns-python": TakeTurns,
    "redis-py": RedisPy,
    "python-redis-lock": PythonRedisLock,
    "pottery": Pottery,
    "redlock-py": RedlockPy,
}


def now_us():
    """The time that all processes of a machine share."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def must(acquired):
    if not acquired:
        raise RuntimeError("a lock was not acquired")


def pairs(client, tasks, seconds):
    """Threads that share a client, with a lock each."""
    start = now_us() + WARM_UP_US
    end = start + int(seconds * 1_000_000)
    counts = {}

    def task(number):
        acquire, release = client.lock(f"pairs-{number}")
        count = 0
        while True:
            must(acquire())
            release()
            now = now_us()
            if now >= end:
                break
            if now >= start:
                count += 1
        counts[number] = count

    threads = [threading.Thread(target=task, args=[number]) for number in range(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(counts) != tasks:
        raise SystemExit("a task failed")
    print(json.dumps({"pairs": sum(counts.values()), "seconds": seconds}))


def take_turns(library, url, number, hold, seconds, ready, results):
    """One client of the crowd. Who waits when the time is over waits to the end, so that the longest wait
    is among the turns."""
    client = library(url)
    # So that scripts are loaded and the connection is there.
    acquire, release = client.lock(f"crowd-{number}")
    must(acquire())
    release()
    acquire, release = client.lock("crowd")
    turns = []
    ready.wait()
    end = now_us() + int(seconds * 1_000_000)
    while (asked := now_us()) < end:
        must(acquire())
        got = now_us()
        time.sleep(hold)
        released = now_us()
        release()
        turns.append((asked, got, released))
    results.send(turns)


def crowd(library, url, clients, hold, seconds):
    """A process for each client, so that they don't wait for each other inside Python."""
    ready = multiprocessing.Barrier(clients)
    pipes = [multiprocessing.Pipe(duplex=False) for _ in range(clients)]
    processes = [
        multiprocessing.Process(
            target=take_turns,
            args=[library, url, number, hold, seconds, ready, sender],
            daemon=True,
        )
        for number, (_, sender) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    for _, sender in pipes:
        sender.close()
    deadline = time.monotonic() + seconds + GRACE_S
    for number, (receiver, _) in enumerate(pipes):
        if not receiver.poll(max(0, deadline - time.monotonic())):
            raise SystemExit("it does not end")
        # EOFError if the process failed: it has said why.
        for turn in receiver.recv():
            print("turn", number, *turn)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("load", choices=["pairs", "crowd"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--tasks", type=int, default=1)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--hold-ms", type=float, default=1)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    library = LIBRARIES[args.library]
    if args.load == "pairs":
        pairs(library(args.url), args.tasks, args.seconds)
    else:
        crowd(library, args.url, args.clients, args.hold_ms / 1000, args.seconds)


if __name__ == "__main__":
    main()
