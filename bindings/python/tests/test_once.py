"""Work that is done once."""

from __future__ import annotations

import asyncio
import re
import threading
from datetime import datetime, timedelta, timezone
from typing import Optional, Union

import pytest

import taketurns
from conftest import PATIENCE, until_waiting
from taketurns import Attempt, Completion, DidIt, Exhausted, InvalidArgument, LockLost, Locks, NotHeld, aio


def must_attempt(begun: Union[Attempt, Completion, None]) -> Attempt:
    assert isinstance(begun, Attempt), begun
    return begun


async def must_attempt_aio(once: aio.Once) -> aio.Attempt:
    begun = await once.begin()
    assert isinstance(begun, aio.Attempt), begun
    return begun


def test_work_is_done_once_and_told_to_all_who_ask(url: str, name: str) -> None:
    with taketurns.connect(url, who="web-1") as locks:
        once = locks.once(name)
        assert once.completion() is None
        tokens: list[int] = []

        def work(attempt: Attempt) -> str:
            tokens.append(attempt.check())
            return "written"

        assert once.run(work, why="nightly") == DidIt("written")
        done = once.run(work)
        assert isinstance(done, Completion) and done == once.completion()
        assert (done.by, done.why, [done.token], done.failed, done.result) == ("web-1", "nightly", tokens, 0, "")
        assert timedelta(hours=23) < done.until - done.at <= timedelta(hours=24)
        assert abs(datetime.now(timezone.utc) - done.at) < timedelta(hours=1)


def test_who_waits_is_told_with_the_result(locks: Locks, name: str) -> None:
    once = locks.once(name)
    told: list[Union[Attempt, Completion]] = []
    attempt = must_attempt(once.begin())
    assert once.try_begin() is None
    thread = threading.Thread(target=lambda: told.append(once.begin()))
    thread.start()
    until_waiting(locks, name, 1)
    attempt.done("3 files")
    thread.join()
    [done] = told
    assert isinstance(done, Completion) and (done.result, done.token) == ("3 files", attempt.token)
    assert isinstance(once.try_begin(), Completion)
    assert not attempt.is_held()
    with pytest.raises(NotHeld):
        attempt.fail()


def test_work_that_raises_has_failed_and_the_next_one_tries(locks: Locks, name: str) -> None:
    once = locks.once(name, attempts=2)

    def fail(attempt: Attempt) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        once.run(fail)
    view = locks.inspect(name)
    assert view is not None and view.kind == "once" and view.work is not None
    assert (view.work.failed, view.work.done) == (1, None)
    must_attempt(once.begin()).fail()
    with pytest.raises(Exhausted, match=re.escape(name)) as caught:
        once.begin()
    assert caught.value.kind == "Exhausted" and not caught.value.is_retryable
    assert once.undo() and not once.undo()
    assert once.run(lambda attempt: attempt.done("at last")) == DidIt(None)
    done = once.completion()
    assert done is not None and (done.result, done.failed) == ("at last", 0)
    view = locks.inspect(name)
    assert view is not None and view.work is not None and view.work.done == done


def test_a_block_records_what_became_of_its_work(locks: Locks, name: str) -> None:
    once = locks.once(name)
    with pytest.raises(ZeroDivisionError):
        with must_attempt(once.begin()):
            raise ZeroDivisionError
    assert once.completion() is None
    with must_attempt(once.begin()) as attempt:
        pass
    done = once.completion()
    assert done is not None and (done.token, done.failed) == (attempt.token, 1)


def test_a_lost_attempt_is_not_recorded_as_done(locks: Locks, name: str) -> None:
    once = locks.once(name)

    def work(attempt: Attempt) -> None:
        locks.break_lock(name, at_once=True)
        assert attempt.lost.wait(PATIENCE)

    with pytest.raises(LockLost) as caught:
        once.run(work)
    assert (caught.value.lock, caught.value.cause) == (name, "revoked")
    assert once.completion() is None
    must_attempt(once.begin()).done()


def test_an_attempt_that_is_dropped_has_failed(locks: Locks, name: str) -> None:
    attempt: Optional[Attempt] = must_attempt(locks.once(name).begin())
    with pytest.warns(ResourceWarning, match=r"dropped without done\(\) or fail\(\); it has failed now"):
        del attempt
    attempt = must_attempt(locks.once(name).begin(timeout=PATIENCE))
    view = locks.inspect(name)
    assert view is not None and view.work is not None and view.work.failed == 1
    attempt.done()


def test_a_pause_keeps_the_next_attempt_back(url: str, name: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            once = locks.once(name, pause=timedelta(hours=1))
            await (await must_attempt_aio(once)).fail()
            assert await once.try_begin() is None
            waiting = asyncio.ensure_future(once.begin())
            while (view := await locks.inspect(name)) is None or view.waiting == 0:
                pass
            assert view.work is not None and view.work.retry_in is not None
            assert 0 < view.work.retry_in <= 3600
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(main())


def test_a_period_ends_what_is_remembered(locks: Locks, name: str) -> None:
    """Whatever the time is, the period in which the work is done ends at a multiple of its length."""
    once = locks.once(name, every=timedelta(days=1), offset=timedelta(hours=2, minutes=30))
    must_attempt(once.begin()).done()
    done = once.completion()
    assert done is not None and (done.until.hour, done.until.minute, done.until.second) == (2, 30, 0)
    assert done.at < done.until <= done.at + timedelta(days=1)


def test_options_that_can_not_be_are_refused(locks: Locks, name: str) -> None:
    with pytest.raises(ValueError, match="remember_for and every exclude each other"):
        locks.once(name, remember_for=60, every=60).begin()
    with pytest.raises(ValueError, match="needs every"):
        locks.once(name, offset=60).begin()
    for wrong in (locks.once(name, remember_for=0.5), locks.once(name, attempts=0), locks.once(name, every=60, offset=60)):
        with pytest.raises(InvalidArgument) as caught:
            wrong.begin()
        assert caught.value.kind == "InvalidOnce"
    with pytest.raises(InvalidArgument, match="at most 256 bytes"):
        must_attempt(locks.once(name).begin()).done("x" * 300)
    with pytest.raises(TypeError, match="can't be sent to another process"):
        locks.once(name).__reduce__()


def test_a_quorum_has_no_once(place: object, name: str) -> None:
    with taketurns.connect(getattr(place, "quorum")) as locks, pytest.raises(taketurns.Unsupported):
        locks.once(name).begin()


def test_tasks_do_the_work_once(url: str, name: str) -> None:
    async def main() -> None:
        async with aio.connect(url, who="web-1") as locks:
            once = locks.once(name)
            runs = 0

            async def work(attempt: aio.Attempt) -> int:
                nonlocal runs
                runs += 1
                await asyncio.sleep(0)
                return attempt.check()

            outcomes = await asyncio.gather(*(once.run(work) for _ in range(5)))
            did = [outcome for outcome in outcomes if isinstance(outcome, DidIt)]
            done = [outcome for outcome in outcomes if isinstance(outcome, Completion)]
            assert runs == len(did) == 1 and len(done) == 4
            assert {(one.by, one.token) for one in done} == {("web-1", did[0].value)}
            assert await once.completion() == done[0]
            assert isinstance(await once.try_begin(), Completion)
            assert await once.undo() and not await once.undo()

    asyncio.run(main())


def test_a_task_whose_work_ends_early_has_failed(url: str, name: str) -> None:
    """By an error, a cancellation or a loss."""

    async def main() -> None:
        async with aio.connect(url) as locks:
            once = locks.once(name)
            begun = asyncio.Event()

            async def work(attempt: aio.Attempt) -> None:
                begun.set()
                await asyncio.Event().wait()

            task = asyncio.ensure_future(once.run(work))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

            async def lose(attempt: aio.Attempt) -> None:
                await locks.break_lock(name, at_once=True)
                await asyncio.Event().wait()

            with pytest.raises(LockLost):
                await once.run(lose)
            with pytest.raises(ZeroDivisionError):
                async with await must_attempt_aio(once):
                    raise ZeroDivisionError
            await (await must_attempt_aio(once)).fail()
            async with await must_attempt_aio(once) as attempt:
                await attempt.done("3 files")
            done = await once.completion()
            assert done is not None and (done.result, done.failed) == ("3 files", 4)

    asyncio.run(main())


def test_a_lock_may_be_kept_from_others_after_its_release(locks: Locks, name: str) -> None:
    mutex = locks.mutex(name)
    mutex.acquire(at_least=60).release()
    assert mutex.try_acquire() is None
    view = locks.inspect(name)
    assert view is not None and [holder.is_resting for holder in view.holders] == [True]
    assert locks.break_lock(name) == 1
    with mutex.acquire(timeout=PATIENCE):
        pass
    with pytest.raises(InvalidArgument, match="at_least must be") as caught:
        mutex.acquire(at_least=60, keep="until_wanted")
    assert caught.value.kind == "InvalidAtLeast"
