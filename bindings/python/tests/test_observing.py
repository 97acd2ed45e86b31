"""Logs, metrics, and the decorator."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading

import pytest

import taketurns
from conftest import PATIENCE, run_python
from taketurns import _decorator, AcquireTimeout, LockLost, Locks, locked


def test_a_loss_is_logged(url: str, name: str) -> None:
    records: list[logging.LogRecord] = []
    arrived = threading.Event()

    class Arrival(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if name in record.getMessage():
                records.append(record)
                arrived.set()

    handler = Arrival()
    logging.getLogger("taketurns").addHandler(handler)
    try:
        with taketurns.connect(url) as locks:
            guard = locks.mutex(name).acquire()
            locks.break_lock(name)
            assert arrived.wait(PATIENCE)
            with pytest.raises(LockLost):
                guard.release()
    finally:
        logging.getLogger("taketurns").removeHandler(handler)
    [record] = records
    assert (record.name, record.levelno) == ("taketurns.held", logging.WARNING)
    assert record.getMessage() == f"the lock was lost (lock={name}, cause=somebody broke it)"


METRICS = """
import sys, taketurns
try:
    taketurns.metrics.render()
except RuntimeError as error:
    assert "call taketurns.metrics.enable() first" in str(error)
taketurns.metrics.enable()
with taketurns.connect(sys.argv[1]) as locks:
    with locks.mutex("m").acquire():
        text = taketurns.metrics.render()
        assert "taketurns_held 1" in text, text
    text = taketurns.metrics.render()
assert 'taketurns_acquire_wait_seconds_bucket{outcome="granted",kind="mutex",le="+Inf"} 1' in text, text
assert 'taketurns_hold_seconds_count{outcome="released"} 1' in text, text
assert "taketurns_held 0" in text, text
print("ok")
"""


def test_metrics_are_text_for_prometheus(url: str) -> None:
    ran = run_python(METRICS, url)
    assert (ran.stdout, ran.returncode) == ("ok\n", 0), ran.stderr


def test_the_thread_of_callbacks_ends_with_the_last_client(url: str) -> None:
    def runs() -> bool:
        return any(thread.name == "taketurns-notices" for thread in threading.enumerate())

    with taketurns.connect(url):
        thread = next(thread for thread in threading.enumerate() if thread.name == "taketurns-notices")
    thread.join(PATIENCE)
    assert not runs()
    with taketurns.connect(url):
        assert runs(), "it begins anew"


def test_a_decorated_function_holds_the_lock(locks: Locks, name: str) -> None:
    @locked(name + "/{order_id}", locks=locks, timeout=PATIENCE)
    def ship(order_id: int, *, quick: bool = False) -> str:
        """Ships it."""
        view = locks.inspect(f"{name}/{order_id}")
        assert view is not None
        return view.holders[0].why

    assert ship(42).endswith("ship") and ship(order_id=43, quick=True).endswith("ship")
    assert ship.__doc__ == "Ships it." and "order_id" in inspect.signature(ship).parameters

    @locked(name, locks=locks, timeout=0, why="nightly")
    def busy() -> None:
        raise AssertionError("it was not to run")

    with locks.mutex(name).acquire(), pytest.raises(AcquireTimeout):
        busy()


def test_a_decorated_coroutine_holds_the_lock(url: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAKETURNS_STORE", url)

    @locked(name)
    async def lost() -> None:
        with taketurns.connect() as locks:
            locks.break_lock(name)
        await asyncio.Event().wait()

    @locked(name)
    async def add(one: int, two: int) -> int:
        return one + two

    assert inspect.iscoroutinefunction(add)
    assert asyncio.run(add(1, two=2)) == 3
    with pytest.raises(LockLost):
        asyncio.run(lost())
    assert asyncio.run(add(2, 2)) == 4
    _decorator._shared.pop(url).close()


def test_a_function_needs_a_client_that_can_block(url: str, name: str) -> None:
    with taketurns.connect(url) as locks:

        @locked(name, locks=locks.asyncio())
        def wrong() -> None: ...

        with pytest.raises(TypeError, match="needs a client of taketurns.connect"):
            wrong()
