"""Thousands of cancellations at random moments leave nothing behind.

`TAKETURNS_CANCELLATIONS` sets how many; the seed of a run is in its failure, and `TAKETURNS_SEED` repeats it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
import time
from pathlib import Path

from conftest import PATIENCE, run_python
from taketurns import aio

COUNT = int(os.environ.get("TAKETURNS_CANCELLATIONS", "2000"))
SEED = int(os.environ.get("TAKETURNS_SEED", "0")) or random.SystemRandom().getrandbits(32)

#: How many tasks run at a time, on how many locks.
TASKS, LOCKS = 20, 4

#: A lock that is left behind stays so, for longer than any test.
LEASE = 3600


def lasting(url: str) -> str:
    """The URL of a store where a lock may be left behind for as long as that, and whose server may be busy."""
    return url if url.startswith("file:") else f"{url}?max_lease={LEASE}&response_timeout={PATIENCE:.0f}"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> int:
    """How many threads of this package there are."""
    names = [thread.name for thread in threading.enumerate()]
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text())
        except OSError:
            pass  # It ended meanwhile.
    return sum(name.startswith("taketurns") for name in names)


def until_nothing_runs() -> None:
    """A thread that was told to end needs a moment."""
    deadline = time.monotonic() + PATIENCE
    while threads():
        assert time.monotonic() < deadline, threads()
        time.sleep(0.001)


async def cancel_many(locks: aio.Locks, name: str, rng: random.Random, count: int) -> int:
    """Cancels acquires, holds and releases after random times. Returns how many cancellations arrived."""
    arrived, begun = 0, 0

    async def work(number: int) -> None:
        mutex = locks.mutex(f"{name}/{number % LOCKS}")
        async with mutex.acquire(lease=LEASE) as guard:
            guard.check()
            await asyncio.sleep(rng.random() * 0.001)

    async def lane() -> None:
        nonlocal arrived, begun
        while arrived < count:
            begun += 1
            task = asyncio.ensure_future(work(begun))
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            if rng.random() < 0.7:
                await asyncio.sleep(rng.random() * 0.003)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                arrived += 1

    await asyncio.gather(*(lane() for _ in range(TASKS)))
    return arrived


async def until_nothing_is_left(locks: aio.Locks, name: str) -> None:
    """Everything that was dropped is released soon."""
    for number in range(LOCKS):
        async with locks.mutex(f"{name}/{number}").acquire(timeout=PATIENCE):
            pass
        view = await locks.inspect(f"{name}/{number}")
        assert view is not None and not view.holders and view.waiting == 0, view


def test_cancelled_tasks_leave_nothing_behind(url: str, name: str) -> None:
    async def main(count: int) -> None:
        async with aio.connect(lasting(url), waiter_lease=PATIENCE) as locks:
            arrived = await cancel_many(locks, name, random.Random(SEED), count)
            assert arrived >= count
            await until_nothing_is_left(locks, name)
        gc.collect()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    def left_of(count: int) -> int:
        """How many descriptors there are when the client is closed, and the loop is."""
        asyncio.run(main(count))
        until_nothing_runs()
        return descriptors()

    try:
        # One keeps what this process needs for all clients.
        before = left_of(1)
        assert left_of(COUNT) == before
    except BaseException:
        print(f"TAKETURNS_SEED={SEED}")
        raise


INTERRUPTS = """
import os, random, signal, sys, threading, time, taketurns
url, name, count, seed, lease, patience = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
rng = random.Random(seed)
def descriptors():
    # When the threads of clients that are closed have ended.
    began = time.monotonic()
    while len(os.listdir("/proc/self/task")) > 1:
        assert time.monotonic() - began < patience
        time.sleep(0.001)
    return len(os.listdir("/proc/self/fd"))
taketurns.connect(url).close()
before = descriptors()
locks = taketurns.connect(url)
mutex = locks.mutex(name)
# The other side of every wait. Ends with its input.
stop = threading.Event()
def compete():
    while not stop.is_set():
        with mutex.acquire(lease=lease):
            stop.wait(0.0005)
rival = threading.Thread(target=compete)
rival.start()
arrived = 0
def timer(*_):
    raise KeyboardInterrupt
def swallowed(what):
    print("an interrupt was lost in", what.object, file=sys.stderr, flush=True)
    os._exit(4)
sys.unraisablehook = swallowed
signal.signal(signal.SIGALRM, timer)
while arrived < count:
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.random() * 0.003 + 0.00005)
        while True:
            with mutex.acquire(lease=lease) as guard:
                guard.check()
    except KeyboardInterrupt:
        arrived += 1
stop.set()
rival.join()
with mutex.acquire(timeout=patience):
    pass
view = locks.inspect(name)
assert not view.holders and view.waiting == 0, view
locks.close()
assert descriptors() == before, (descriptors(), before)
print(arrived)
"""


def test_interrupts_leave_nothing_behind(url: str, name: str) -> None:
    """Signals arrive at any instruction of the main thread, as Ctrl-C does."""
    count = COUNT // 10
    numbers = map(str, (count, SEED, LEASE, int(PATIENCE)))
    ran = run_python(INTERRUPTS, lasting(url), name, *numbers, timeout=600, PYTHONWARNINGS="ignore")
    assert (ran.stdout, ran.returncode) == (f"{count}\n", 0), f"TAKETURNS_SEED={SEED}\n{ran.stderr}"
