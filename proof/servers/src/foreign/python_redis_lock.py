# python-redis-lock's own Lock, as it comes.

import math

import redis_lock


class PythonRedisLock:
    def __init__(self, config):
        # It counts in seconds.
        self.expire_s = max(1, config["ttl_ms"] // 1000)
        self.client = connect(config)
        self.held = {}

    def attempt(self, lock, wait_ms):
        """The lock, and when it was had: the library does not say when the attempt was sent."""
        held = redis_lock.Lock(self.client, lock, expire=self.expire_s)
        # It waits for whole seconds, and no longer than it expires.
        wait_s = min(self.expire_s, math.ceil(wait_ms / 1000))
        got = held.acquire(timeout=wait_s) if wait_s else held.acquire(blocking=False)
        return (held, None, now_us()) if got else None

    def acquire(self, lock, end_us):
        return self.attempt(lock, max(0, end_us - now_us()) / 1000)

    def release(self, held):
        try:
            held.release()
            return True
        except redis_lock.NotAcquired:
            return False

    def orders(self):
        def acquire(lock, wait_ms=0):
            got = self.attempt(lock, wait_ms)
            if got:
                self.held[lock] = got[0]
            return {"ok": bool(got)}

        def release(lock):
            return {"ok": self.release(self.held.pop(lock))}

        return {"acquire": acquire, "release": release}


run(PythonRedisLock)
