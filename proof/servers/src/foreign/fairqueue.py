# The fair queue mutex, to the letter of its document, with what the letter gets wrong:
#
# - Who finds the lock held is not put into the queue, so nobody calls it. It gets the lock when it
#   looks again, a lock time later.
# - Who finds the lock held does not ask whether by itself. One that was promoted clears away its own
#   call, and waits until its own lock has expired.
# - The calls for those who are gone stay for ever.
#
# Atomic steps are scripts; waiting can't be part of one. `<queued>` of Unlocking is said to be nothing
# there, and is the head of the queue here.
#
# `shipped` is amphp/redis 2. It differs from the document:
# - Who finds the lock held stands in the queue.
# - There are no calls. It polls, every 15 ms at the head and up to every 305 ms further back.
# - Who was promoted recognises itself.
# - The queue expires, 13 s after the last look by default.
# - A holder renews its lock, every second by default, and a waiter gives up after 10 s: not modelled.

import base64
import uuid

LOOK = """
local lock, queue = 'lock:' .. KEYS[1], 'lock-queue:' .. KEYS[1]
local token, lock_time, queue_time = ARGV[1], ARGV[2], ARGV[3]
local place = redis.call('LPOS', queue, token)
local holder = redis.call('GET', lock)
if holder == token then
    redis.call('SET', lock, token, 'PX', lock_time)
    return 0
end
if not holder and redis.call('LLEN', queue) == 0 then
    redis.call('SET', lock, token, 'PX', lock_time)
    return 0
end
if not place then
    place = redis.call('RPUSH', queue, token) - 1
end
if not holder then
    local queued = redis.call('LPOP', queue)
    redis.call('SET', lock, queued, 'PX', lock_time)
    if queued == token then
        return 0
    end
end
redis.call('PEXPIRE', queue, queue_time)
return place + 1
"""

LOCK = """
local lock, queue = 'lock:' .. KEYS[1], 'lock-queue:' .. KEYS[1]
local token, lock_time = ARGV[1], ARGV[2]
if redis.call('EXISTS', lock) == 1 then
    redis.call('DEL', 'lock-notify:' .. token)
    return 0
end
if redis.call('LLEN', queue) == 0 then
    redis.call('SET', lock, token, 'PX', lock_time)
    return 1
end
if not redis.call('LPOS', queue, token) then
    redis.call('RPUSH', queue, token)
end
local queued = redis.call('LPOP', queue)
redis.call('SET', lock, queued, 'PX', lock_time)
if queued == token then
    return 1
end
redis.call('RPUSH', 'lock-notify:' .. queued, '1')
redis.call('DEL', 'lock-notify:' .. token)
return 0
"""

UNLOCK = """
local lock, queue = 'lock:' .. KEYS[1], 'lock-queue:' .. KEYS[1]
if redis.call('GET', lock) == ARGV[1] then
    redis.call('DEL', lock)
    local queued = redis.call('LINDEX', queue, 0)
    if queued then
        redis.call('RPUSH', 'lock-notify:' .. queued, '1')
    end
end
return 1
"""

UNLOCK_SHIPPED = """
local lock = 'lock:' .. KEYS[1]
return redis.call('GET', lock) == ARGV[1] and redis.call('DEL', lock) or 0
"""


class FairQueue:
    def __init__(self, config):
        self.lock_time_ms = config["ttl_ms"]
        self.shipped = config["shipped"]
        self.client = connect(config)
        self.tokens = {}

    def new_token(self):
        return base64.b64encode(os.urandom(16)).decode() if self.shipped else uuid.uuid4().hex

    def poll(self, lock, token, end_us):
        """The same as `attempt`. Gives up its place at the end."""
        while True:
            sent_us = now_us()
            queue_ms = self.lock_time_ms + 10_000
            place = self.client.eval(LOOK, 1, lock, token, self.lock_time_ms, queue_ms)
            if place == 0:
                return sent_us
            if now_us() >= end_us:
                self.client.lrem(f"lock-queue:{lock}", 0, token)
                self.client.eval(UNLOCK_SHIPPED, 1, lock, token)
                return None
            sleep_ms(5 + min(10 * place, 300))

    def attempt(self, lock, token, end_us):
        """When the step was sent that took it, or None at the end."""
        if self.shipped:
            return self.poll(lock, token, end_us)
        while True:
            sent_us = now_us()
            if self.client.eval(LOCK, 1, lock, token, self.lock_time_ms):
                return sent_us
            # The document knows no end, so what was queued stays queued.
            wait_us = min(self.lock_time_ms * 1000, end_us - now_us())
            if wait_us <= 0:
                return None
            # 0 would be for ever.
            self.client.blpop(f"lock-notify:{token}", timeout=max(wait_us / 1_000_000, 0.001))

    def acquire(self, lock, end_us):
        token = self.new_token()
        sent_us = self.attempt(lock, token, end_us)
        return sent_us and ((lock, token), None, sent_us)

    def release(self, held):
        # To unlock what was lost is a success.
        self.client.eval(UNLOCK_SHIPPED if self.shipped else UNLOCK, 1, *held)
        return True

    def orders(self):
        def lock(lock, wait_ms=0, token=None):
            token = token or self.new_token()
            self.tokens[lock] = token
            sent_us = self.attempt(lock, token, now_us() + wait_ms * 1000)
            return {"ok": sent_us is not None, "token": token}

        def unlock(lock, token=None):
            return {"ok": self.release((lock, token or self.tokens[lock]))}

        return {"lock": lock, "unlock": unlock}


run(FairQueue)
