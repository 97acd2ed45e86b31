"""Locks for asyncio."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from typing import Any, Callable, Coroutine

import pytest
import uvloop

import conftest
import taketurns
from conftest import PATIENCE
from taketurns import AcquireTimeout, LockLost, aio

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a coroutine on a loop of its own."""

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        loop = request.param()
        try:
            loop.run_until_complete(coroutine)
        finally:
            loop.close()

    return run


Run = Callable[[Coroutine[Any, Any, None]], None]


async def until_waiting(locks: aio.Locks, name: str, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        view = await locks.inspect(name)
        if view is not None and view.waiting == count:
            return
        assert time.monotonic() < deadline, view


def test_a_lock_is_held_in_its_block_and_free_after_it(every_url: str, name: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(every_url) as locks:
            mutex = locks.mutex(name)
            async with mutex.acquire(timeout=PATIENCE) as guard:
                token = guard.check()
                assert await mutex.try_acquire() is None
                with pytest.raises(AcquireTimeout):
                    await mutex.acquire(timeout=0)
            assert not guard.is_held()
            again = await mutex.acquire()
            assert again.check() > token
            await again.release()

    run(main())


def test_tasks_take_turns_in_order(every_url: str, name: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(every_url) as locks:
            order: list[int] = []

            async def turn(number: int) -> None:
                async with locks.mutex(name).acquire():
                    order.append(number)

            async with locks.mutex(name).acquire():
                tasks = []
                for number in range(5):
                    tasks.append(asyncio.ensure_future(turn(number)))
                    await until_waiting(locks, name, number + 1)
            await asyncio.gather(*tasks)
            assert order == [0, 1, 2, 3, 4]

    run(main())


def test_every_kind_of_lock(url: str, name: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            rwlock = locks.rwlock(f"{name}/rw")
            async with rwlock.read(), rwlock.read():
                assert await rwlock.try_write() is None
            async with rwlock.write():
                assert await rwlock.try_read() is None
            gpus = locks.semaphore(f"{name}/gpu", 2)
            async with gpus.acquire(2):
                assert await gpus.try_acquire() is None
            pool = locks.pool(f"{name}/pool")
            assert await pool.add("b-1")
            async with pool.acquire() as member:
                assert member.member == "b-1" and await pool.try_acquire() is None
            assert await pool.remove("b-1")
            async with locks.all([f"{name}/a", f"{name}/b"]).acquire() as both:
                assert len(both.check()) == 2
            election = locks.election(f"{name}/leader")
            async with election.campaign(why="node-1"):
                leader = await election.leader()
                assert leader is not None and leader.why == "node-1"
                async for seen in election.observe(every=0.01):
                    assert seen == leader or seen is not None
                    break
            guard = await locks.mutex(name).acquire()
            handle = await guard.into_handle()
            assert await locks.renew(handle) > 1
            adopted = await locks.adopt(handle)
            await adopted.release()
            assert [view.name for view in await locks.list(f"{name}/a")] == [f"{name}/a"]

    run(main())


def test_a_loss_cancels_the_block(every_url: str, name: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(every_url) as locks:
            with pytest.raises(LockLost, match="somebody broke it") as caught:
                async with locks.mutex(name).acquire():
                    assert await locks.break_lock(name, at_once=True) == 1
                    await asyncio.Event().wait()
            assert caught.value.cause == "revoked"
            task = asyncio.current_task()
            if sys.version_info >= (3, 11):
                assert task is not None and task.cancelling() == 0
            await asyncio.sleep(0)
            async with locks.mutex(name).acquire(timeout=PATIENCE):
                pass

    run(main())


def test_a_loss_without_an_await_after_it_raises_at_the_end_of_the_block(url: str, name: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            guard = await locks.mutex(name).acquire()
            with pytest.raises(LockLost):
                async with guard:
                    lost = guard.lost
                    locks_sync = taketurns.connect(url)
                    locks_sync.break_lock(name)
                    locks_sync.close()
                    while guard.is_held():
                        pass
            await asyncio.sleep(0)
            assert lost is guard.lost

    run(main())


def test_an_error_of_the_block_is_not_replaced_by_the_loss(url: str, name: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            with pytest.raises(ZeroDivisionError):
                async with locks.mutex(name).acquire():
                    try:
                        await locks.break_lock(name)
                        await asyncio.Event().wait()
                    except asyncio.CancelledError:
                        raise ZeroDivisionError from None

    run(main())


def test_a_cancellation_from_outside_stays_one(url: str, name: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            inside = asyncio.Event()

            async def work() -> None:
                async with locks.mutex(name).acquire():
                    inside.set()
                    await asyncio.Event().wait()

            task = asyncio.ensure_future(work())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with locks.mutex(name).acquire(timeout=PATIENCE):
                pass

    run(main())


def test_a_loss_is_told_by_event_and_callback_on_the_loop(url: str, name: str, run: Run) -> None:
    async def main() -> None:
        loop, told = asyncio.get_running_loop(), []
        async with aio.connect(url) as locks:
            guard = await locks.mutex(name).acquire()
            guard.on_lost(lambda error: told.append((error.cause, asyncio.get_running_loop())))
            await locks.break_lock(name)
            await guard.lost.wait()
            assert told == [("revoked", loop)]
            with pytest.raises(LockLost):
                await guard.release()

    run(main())


def test_a_cancelled_wait_leaves_no_place(every_url: str, name: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(every_url) as locks:
            async with locks.mutex(name).acquire():
                waiting = asyncio.ensure_future(locks.mutex(name).acquire())
                await until_waiting(locks, name, 1)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await until_waiting(locks, name, 0)
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(locks.mutex(name).acquire(), 0.02)
                await until_waiting(locks, name, 0)

    run(main())


def test_one_client_serves_several_loops_one_after_the_other(every_url: str, name: str) -> None:
    clients: list[aio.Locks] = []

    async def connected() -> None:
        clients.append(await aio.connect(every_url))

    async def turn() -> None:
        async with clients[0].mutex(name).acquire(timeout=PATIENCE) as guard:
            guard.check()

    for new_loop in LOOPS * 2:
        loop = new_loop()
        if not clients:
            loop.run_until_complete(connected())
        loop.run_until_complete(turn())
        loop.close()
    asyncio.run(turn())
    asyncio.run(clients[0].close())


def test_a_guard_goes_from_one_loop_to_the_next(url: str, name: str) -> None:
    async def begin() -> aio.Guard:
        locks = await aio.connect(url)
        return await locks.mutex(name).acquire()

    guard = asyncio.run(begin())
    assert guard.check() > 0, "it is renewed without a loop"
    asyncio.run(guard.release())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_is_closed_during_a_wait_leaves_nothing_behind(url: str, name: str) -> None:
    for new_loop in LOOPS:
        with taketurns.connect(url) as locks:
            with locks.mutex(name).acquire():
                loop = new_loop()
                waiting = loop.create_task(locks.asyncio().mutex(name).acquire())
                loop.run_until_complete(until_waiting(locks.asyncio(), name, 1))
                # As a program that forgot it.
                waiting._log_destroy_pending = False  # type: ignore[attr-defined]
                loop.close()
                del waiting, loop
                gc.collect()
                conftest.until_waiting(locks, name, 0)


def test_nothing_is_left_of_a_loop(url: str, name: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            async with locks.mutex(name).acquire():
                pass

    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    asyncio.run(main())
    before = descriptors()
    for _ in range(20):
        asyncio.run(main())
    assert descriptors() <= before


def test_a_pending_acquire_is_a_coroutine(url: str, name: str, run: Run) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            guard = await asyncio.get_running_loop().create_task(locks.mutex(name).acquire())
            await guard.release()
            never = locks.mutex(name).acquire()
            with pytest.warns(RuntimeWarning, match="was never awaited"):
                del never
                gc.collect()

    run(main())


def test_threads_with_loops_of_their_own_share_a_client(url: str, name: str) -> None:
    with taketurns.connect(url) as locks:
        counter = {"turns": 0}

        async def work() -> None:
            mutex = locks.asyncio().mutex(name)
            for _ in range(25):
                async with mutex.acquire():
                    before = counter["turns"]
                    await asyncio.sleep(0)
                    counter["turns"] = before + 1

        threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counter["turns"] == 100
