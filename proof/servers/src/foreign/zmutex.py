# A set of mutexes in a sorted set, to the letter of its document: the client's clock decides, WATCH
# and MULTI make a step of what was looked at and written, and a waiter looks again after a while, or
# when the set's key has an event, in database 0. The events are `zadd` and `zincrby`, as zmutexset.py has
# them. No server sends the second: the event of ZINCRBY is `zincr`.
#
# `shipped` is zmutexset.py. It differs from the document: after one event it waits for nothing any more,
# and asks as fast as it can.
#
# The score is the time of the last acquire or update in microseconds. `clock_ms` sets the client's
# clock forward or back. `remove` releases by removing, as the document has it first, and creates the
# mutex again, or there would be nothing left to take turns with.


class ZMutexSet:
    def __init__(self, config):
        self.delta_us = config["ttl_ms"] * 1000
        self.clock_us = config["clock_ms"] * 1000
        self.revalidate_ms = config["retry_ms"] or 1000
        self.remove = config["remove"]
        self.shipped = config["shipped"]
        self.client = connect(config)
        self.events = self.client.pubsub(ignore_subscribe_messages=True)
        for name in config["locks"]:
            for member in config["members"]:
                self.create(name, member)

    def now(self):
        return time.time_ns() // 1000 + self.clock_us

    def create(self, name, member):
        return self.client.zadd(name, {member: 0}, nx=True) == 1

    def watched(self, name, look):
        """`look` gives what to do in the transaction and what to return, or None."""
        with self.client.pipeline() as pipe:
            while True:
                try:
                    pipe.watch(name)
                    found = look(pipe)
                    if found is None:
                        return None
                    write, answer = found
                    pipe.multi()
                    write(pipe)
                    pipe.execute()
                    return answer
                except redis.exceptions.WatchError:
                    continue

    def attempt(self, name, member=None):
        """The member, its new score, and when it was attempted."""

        def look(pipe):
            sent_us, now = now_us(), self.now()
            free = member
            if member is None:
                free = first(pipe.zrangebyscore(name, 0, f"({now - self.delta_us}", 0, 1))
            else:
                score = pipe.zscore(name, member)
                if score is None or not score < now - self.delta_us:
                    return None
            if free is None:
                return None
            return (lambda pipe: pipe.zadd(name, {free: now}, xx=True)), (free, now, sent_us)

        return self.watched(name, look)

    def take(self, name, member, end_us):
        """The same, until the end."""
        got = self.attempt(name, member)
        if got or now_us() >= end_us:
            return got
        self.events.subscribe(f"__keyspace@0__:{name}")
        was_event = False
        try:
            while not got and now_us() < end_us:
                wait_us = min(self.revalidate_ms * 1000, end_us - now_us())
                was_event = was_event or self.wait_for_event(now_us() + wait_us)
                got = self.attempt(name, member)
            return got
        finally:
            self.events.unsubscribe()
            # What was said until then is of no use to the next.
            while self.events.subscribed:
                self.events.get_message(timeout=1)

    def wait_for_event(self, until_us):
        while (left_us := until_us - now_us()) > 0:
            message = self.events.get_message(timeout=left_us / 1_000_000)
            if message and message["data"] in (b"zadd", b"zincrby"):
                return self.shipped
        return False

    def mine(self, name, member, score, write, answer):
        """Writes if the mutex is still as it was when it was taken, and has not expired."""

        def look(pipe):
            current = pipe.zscore(name, member)
            if current is None or current != score or not current > self.now() - self.delta_us:
                return None
            return write, answer

        return self.watched(name, look)

    def update(self, name, member, score):
        now = self.now()
        write = lambda pipe: pipe.zadd(name, {member: now}, xx=True)
        return self.mine(name, member, score, write, (member, now))

    def give_back(self, name, member, score, remove):
        def write(pipe):
            if remove:
                pipe.zrem(name, member)
            else:
                pipe.zadd(name, {member: 0}, xx=True)

        return bool(self.mine(name, member, score, write, True))

    def acquire(self, name, end_us):
        got = self.take(name, None, end_us)
        return got and ((name, got[0], got[1]), got[0], got[2])

    def release(self, held):
        name, member, score = held
        kept = self.give_back(name, member, score, self.remove)
        if self.remove:
            self.create(name, member)
        return kept

    def orders(self):
        def answer(got):
            member, score = (got[0], got[1]) if got else (None, None)
            return {"ok": bool(got), "member": member, "score": score}

        def acquire(lock, member=None, wait_ms=0):
            return answer(self.take(lock, member, now_us() + wait_ms * 1000))

        def stale(lock):
            members = self.client.zrangebyscore(lock, "(0", f"({self.now() - self.delta_us}")
            return {"members": [member.decode() for member in members]}

        return {
            "create": lambda lock, member: {"ok": self.create(lock, member)},
            "acquire": acquire,
            "update": lambda lock, member, score: answer(self.update(lock, member, score)),
            "release": lambda lock, member, score, remove=self.remove: {
                "ok": self.give_back(lock, member, score, remove)
            },
            "delete": lambda lock, member: {"ok": self.client.zrem(lock, member) == 1},
            "stale": stale,
        }


def first(members):
    return members[0].decode() if members else None


run(ZMutexSet)
