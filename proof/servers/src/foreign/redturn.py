# A redturn server, to the letter of its document: one channel for all its requests, the two scripts,
# and a timer for each head that it was shown. When the head's time has passed, this client releases the head, even if
# it is another client's.
#
# What the letter gets wrong: a list that is missing is an error of the release script, and the timers,
# which nobody stops, meet it all the time. Nobody sees to the head of a list whose observers are gone.
# A message that is lost is lost.
#
# `shipped` is redturn.ts 0.1.0. It differs from the document:
# - It publishes `id:list` instead of `list:id`, and its ids are milliseconds and a counter.
# - It releases by id and channel, so a request of another server is left alone.
# - It takes every message on its channel that has a colon for an id and a list. A request that it does not
#   wait for is released at once.
# - An error of the release script is an `error` event: a process without a listener for it dies. So does
#   this one.
# - It times one head per list, the last that it was shown.

import heapq
import uuid

WAIT = """
local list, channel, value, id = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
if redis.call('RPUSH', list, value) == 1 then
    redis.call('PUBLISH', channel, MESSAGE)
end
return redis.call('LINDEX', list, 0)
"""

# Concatenating what LINDEX says of a missing list is the error.
SIGNAL = """
local list, id, of = KEYS[1], ARGV[1], ARGV[2]
local function split(value)
    return (value .. ':'):match('([^:]*):([^:]*):')
end
local head_id, head_channel = split(redis.call('LINDEX', list, 0))
local called = head_id == id and (of == '' or head_channel == of)
if called then
    redis.call('LPOP', list)
end
local next = redis.call('LINDEX', list, 0)
if next and called then
    local id, channel = split(next)
    redis.call('PUBLISH', channel, MESSAGE)
end
return next
"""


class Redturn:
    def __init__(self, config):
        self.timeout_ms = config["ttl_ms"]
        self.shipped = config["shipped"]
        self.client = connect(config)
        self.channel = f"redturn-{uuid.uuid4().hex}"
        message = "id .. ':' .. list" if self.shipped else "list .. ':' .. id"
        self.wait_script = WAIT.replace("MESSAGE", message)
        self.signal_script = SIGNAL.replace("MESSAGE", message)
        self.lock = threading.Lock()
        # The requests that wait, by what will be said to them.
        self.waiting = {}
        # The heads that have a timer, and the timers, the next one first.
        self.observed = set()
        # The last of those of each list, which is all that redturn.ts keeps.
        self.head = {}
        self.counter = 0
        self.timers = []
        self.timer_was_set = threading.Condition(self.lock)
        self.subscription = self.client.pubsub(ignore_subscribe_messages=False)
        self.subscription.subscribe(self.channel)
        # Not before the server has confirmed it can a message come.
        while self.subscription.get_message(timeout=1) is None:
            pass
        for body in (self.listen, self.keep_time):
            threading.Thread(target=body, daemon=True).start()

    def new_request(self):
        if not self.shipped:
            return uuid.uuid4().hex
        self.counter += 1
        return f"{time.time_ns() // 1_000_000}.{self.counter}"

    def message(self, name, request):
        return f"{request}:{name}" if self.shipped else f"{name}:{request}"

    def listen(self):
        for message in self.subscription.listen():
            if message["type"] == "message":
                self.hear(message["data"].decode())

    def hear(self, message):
        with self.lock:
            granted = self.waiting.pop(message, None)
        if granted:
            granted.at_us = now_us()
            granted.set()
            if self.shipped:
                self.observe(granted.name, granted.value.encode())
        elif self.shipped and ":" in message:
            request, name = message.split(":", 1)
            self.signal(name, request, self.channel)

    def observe(self, name, head):
        """Sees to it that a head that stays too long is released."""
        if head is None:
            return
        request, channel, timeout_ms = head.decode().split(":")
        with self.lock:
            self.head[name] = request
            if (name, request) in self.observed:
                return
            self.observed.add((name, request))
            due_us = now_us() + int(timeout_ms) * 1000
            heapq.heappush(self.timers, (due_us, name, request, channel))
            self.timer_was_set.notify()

    def keep_time(self):
        while True:
            with self.lock:
                while not self.timers or self.timers[0][0] > now_us():
                    left_us = self.timers[0][0] - now_us() if self.timers else None
                    self.timer_was_set.wait(left_us and max(left_us, 0) / 1_000_000)
                _due_us, name, request, channel = heapq.heappop(self.timers)
                self.observed.discard((name, request))
                is_stopped = self.shipped and self.head.get(name) != request
            if not is_stopped:
                self.signal(name, request, channel)

    def wait(self, name, timeout_ms, wait_ms):
        """The request's id, and when its grant was heard of, or None if it waited for too long."""
        request = self.new_request()
        value = f"{request}:{self.channel}:{timeout_ms}"
        granted = threading.Event()
        granted.name, granted.value = name, value
        message = self.message(name, request)
        with self.lock:
            self.waiting[message] = granted
        head = self.client.eval(self.wait_script, 1, name, self.channel, value, request)
        self.observe(name, head)
        heard = granted.wait(wait_ms / 1000)
        with self.lock:
            self.waiting.pop(message, None)
        return request, granted.at_us if heard else None

    def signal(self, name, request, channel=""):
        of = (channel or self.channel) if self.shipped else ""
        try:
            head = self.client.eval(self.signal_script, 1, name, request, of)
        except redis.exceptions.ResponseError as error:
            if self.shipped or "attempt to concatenate" not in str(error):
                raise
            return False
        self.observe(name, head)
        return True

    def acquire(self, name, end_us):
        # What is in the list can't be taken back, so it is waited for beyond the end.
        patience_us = 60_000_000
        wait_ms = (end_us + patience_us - now_us()) / 1000
        request, at_us = self.wait(name, self.timeout_ms, wait_ms)
        if at_us is None:
            raise RuntimeError(f"{request} in {name} was never told that it is the head")
        return (name, request), None, at_us

    def release(self, held):
        # Nobody is told whether it was still the head.
        self.signal(*held)
        return True

    def orders(self):
        def wait(lock, wait_ms, ttl_ms=None):
            request, at_us = self.wait(lock, ttl_ms or self.timeout_ms, wait_ms)
            return {"ok": at_us is not None, "id": request}

        def signal(lock, id):
            return {"ok": self.signal(lock, id)}

        return {"wait": wait, "signal": signal}


run(Redturn)
