# redis-py's own Lock, as it comes.

from redis.lock import Lock


class Noted(Lock):
    """Knows when the attempt was sent that took the lock: a blocking acquire makes many."""

    def do_acquire(self, token):
        self.sent_us = now_us()
        return super().do_acquire(token)


class Plain:
    def __init__(self, config):
        self.ttl_ms = config["ttl_ms"]
        # 100 ms is what it has by itself.
        self.retry_ms = config["retry_ms"] or 100
        self.client = connect(config)
        self.held = {}

    def attempt(self, lock, ttl_ms, wait_ms):
        held = Noted(self.client, lock, timeout=ttl_ms / 1000, sleep=self.retry_ms / 1000)
        return held if held.acquire(blocking_timeout=wait_ms / 1000) else None

    def acquire(self, lock, end_us):
        held = self.attempt(lock, self.ttl_ms, max(0, end_us - now_us()) / 1000)
        return held and (held, None, held.sent_us)

    def release(self, held):
        try:
            held.release()
            return True
        except redis.exceptions.LockNotOwnedError:
            return False

    def orders(self):
        def acquire(lock, wait_ms=0, ttl_ms=None):
            held = self.attempt(lock, ttl_ms or self.ttl_ms, wait_ms)
            if held:
                self.held[lock] = held
            return {"ok": bool(held), "token": held and held.local.token.decode()}

        def extend(lock, ttl_ms):
            try:
                return {"ok": self.held[lock].extend(ttl_ms / 1000, replace_ttl=True)}
            except redis.exceptions.LockNotOwnedError:
                return {"ok": False}

        def release(lock):
            return {"ok": self.release(self.held.pop(lock))}

        return {"acquire": acquire, "extend": extend, "release": release}


run(Plain)
