# redlock-py over all servers that are given.

from redlock import Redlock


class Redlocks:
    def __init__(self, config):
        self.ttl_ms = config["ttl_ms"]
        # 200 ms is what it has by itself.
        self.retry_ms = config["retry_ms"] or 200
        # One attempt each time: it waits for the same time after each, and so would all of them.
        servers = [connect(config, url) for url in config["urls"]]
        self.redlock = Redlock(servers, retry_count=1)
        self.held = {}

    def attempt(self, lock, ttl_ms):
        self.redlock.retry_delay = random.uniform(0.5, 1.5) * self.retry_ms / 1000
        return self.redlock.lock(lock, ttl_ms)

    def acquire(self, lock, _end_us):
        held = self.attempt(lock, self.ttl_ms)
        # What is left of it says when it was sent. Its own allowance for drift is not counted back.
        return (held, None, now_us() - (self.ttl_ms - held.validity) * 1000) if held else None

    def release(self, held):
        # It does not tell.
        self.redlock.unlock(held)
        return True

    def orders(self):
        def acquire(lock, wait_ms=0, ttl_ms=None):
            end_us = now_us() + wait_ms * 1000
            held = self.attempt(lock, ttl_ms or self.ttl_ms)
            while not held and now_us() < end_us:
                held = self.attempt(lock, ttl_ms or self.ttl_ms)
            if held:
                self.held[lock] = held
            return {"ok": bool(held), "token": held.key.decode() if held else None}

        def release(lock):
            return {"ok": self.release(self.held.pop(lock))}

        return {"acquire": acquire, "release": release}


run(Redlocks)
