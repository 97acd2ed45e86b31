"""Locks without asyncio."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

import taketurns
from conftest import PATIENCE, until_waiting
from taketurns import AcquireTimeout, InvalidArgument, KindMismatch, LockLost, Locks, NotHeld, TakeTurnsError


def test_a_lock_is_held_in_its_block_and_free_after_it(every_url: str, name: str) -> None:
    with taketurns.connect(every_url) as locks:
        mutex = locks.mutex(name)
        with mutex.acquire(timeout=PATIENCE) as guard:
            token = guard.check()
            assert guard.token == token and guard.is_held() and guard.left > 0
            assert mutex.try_acquire() is None
        assert not guard.is_held()
        with mutex.acquire() as again:
            assert again.check() > token


def test_a_wait_ends_with_a_timeout(locks: Locks, name: str) -> None:
    within = timedelta(milliseconds=50)
    with locks.mutex(name).acquire():
        while True:
            try:
                locks.mutex(name).acquire(timeout=within)
            except taketurns.Unreachable:
                within *= 2  # The store had no time to answer.
            except AcquireTimeout as caught:
                error = caught
                break
    assert f"lock {name} was not acquired within" in str(error)
    assert isinstance(error, TimeoutError) and isinstance(error, TakeTurnsError)
    assert (error.kind, error.lock, error.is_retryable) == ("Timeout", name, True)


def test_a_waiter_gets_the_lock_at_the_release(locks: Locks, name: str) -> None:
    granted = threading.Event()

    def wait() -> None:
        with locks.mutex(name).acquire():
            granted.set()

    guard = locks.mutex(name).acquire()
    thread = threading.Thread(target=wait)
    thread.start()
    until_waiting(locks, name, 1)
    assert not granted.is_set()
    guard.release()
    thread.join()
    assert granted.is_set()


def test_threads_never_overlap(locks: Locks, name: str) -> None:
    counter = {"turns": 0, "inside": 0}

    def work() -> None:
        for _ in range(25):
            with locks.mutex(name).acquire():
                counter["inside"] += 1
                assert counter["inside"] == 1
                counter["turns"] += 1
                counter["inside"] -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter["turns"] == 200


def test_readers_share_and_writers_do_not(locks: Locks, name: str) -> None:
    lock = locks.rwlock(name)
    with lock.read(), lock.read():
        assert lock.try_write() is None
    with lock.write():
        assert lock.try_read() is None


def test_a_semaphore_has_its_permits_and_no_more(locks: Locks, name: str) -> None:
    gpus = locks.semaphore(name, 4)
    with gpus.acquire(3):
        assert gpus.try_acquire(2) is None
        with gpus.acquire():
            pass
    with pytest.raises(InvalidArgument, match="permits"):
        gpus.acquire(5)
    larger = locks.semaphore(name, 5)
    assert larger.resize() and not larger.resize()
    with larger.acquire(5), pytest.raises(KindMismatch):
        gpus.acquire()


def test_members_of_a_pool(locks: Locks, name: str) -> None:
    pool = locks.pool(name)
    assert pool.add("b-1") and pool.add("b-2") and not pool.add("b-2")
    with pool.acquire() as one, pool.acquire() as other:
        assert {one.member, other.member} == {"b-1", "b-2"}
        assert pool.try_acquire("b-1") is None
    with pool.acquire("b-2") as named:
        assert named.member == "b-2"
    assert pool.remove("b-1") and not pool.remove("b-1")


def test_several_locks_at_once(every_url: str, name: str) -> None:
    names = [f"{name}/{part}" for part in ("to", "from")]
    with taketurns.connect(every_url) as locks:
        with locks.all(names).acquire(why="a transfer") as both:
            assert sorted(both.check()) == sorted(names)
            assert locks.mutex(names[0]).try_acquire() is None
        with locks.mutex(names[0]).acquire():
            with pytest.raises(AcquireTimeout):
                locks.all(names).acquire(timeout=0)
        with locks.mutex(names[1]).acquire(timeout=PATIENCE):
            pass


def test_a_handle_carries_a_lock(every_url: str, name: str) -> None:
    with taketurns.connect(every_url) as locks, taketurns.connect(every_url) as elsewhere:
        guard = locks.mutex(name).acquire()
        token = guard.token
        handle = guard.into_handle()
        assert (handle.name, handle.token) == (name, token)
        assert locks.renew(handle, lease=40) > 1
        with elsewhere.adopt(handle.expose()) as adopted:
            assert adopted.token == token
        with pytest.raises(NotHeld):
            locks.adopt(handle)
        with pytest.raises(NotHeld):
            locks.release(handle)


def test_a_secret_is_in_no_repr(locks: Locks, name: str) -> None:
    guard = locks.mutex(name).acquire()
    shown = repr(guard)
    assert shown == f"<taketurns.Guard of {name!r}, token {guard.token}>"
    handle = guard.into_handle()
    owner = handle.expose().split(".")[1]
    assert len(owner) == 32
    for thing in (handle, locks, locks.mutex(name), guard):
        assert owner not in repr(thing) and owner not in str(thing)
    locks.release(handle)


def test_people_see_who_holds_and_who_waits(url: str, name: str) -> None:
    with taketurns.connect(url, who="web-1") as locks:
        assert locks.inspect(name) is None
        with locks.mutex(name).acquire(why="ship it") as guard:
            view = locks.inspect(name)
            assert view is not None and view.kind == "mutex" and view.waiting == 0
            [holder] = view.holders
            assert (holder.who, holder.why, holder.token) == ("web-1", "ship it", guard.token)
            assert holder.client == locks.client_id and holder.left > 0 and not holder.is_broken
            [listed] = locks.list(name[:-1] + "?")
            assert listed.name == name


def test_a_break_takes_the_lock_away(every_url: str, name: str) -> None:
    with taketurns.connect(every_url) as locks:
        guard = locks.mutex(name).acquire()
        assert locks.break_lock(name, token=guard.token, at_once=True) == 1
        assert guard.lost.wait(PATIENCE)
        with pytest.raises(LockLost, match="somebody broke it") as caught:
            guard.check()
        assert (caught.value.cause, caught.value.lock) == ("revoked", name)
        with pytest.raises(LockLost):
            guard.release()


def test_a_loss_is_told_by_a_callback_and_by_the_end_of_the_block(locks: Locks, name: str) -> None:
    told: list[LockLost] = []
    threads: list[str] = []
    called = threading.Event()

    def callback(error: LockLost) -> None:
        told.append(error)
        threads.append(threading.current_thread().name)
        called.set()

    with pytest.raises(LockLost):
        with locks.mutex(name).acquire() as guard:
            guard.on_lost(callback)
            locks.break_lock(name)
            assert called.wait(PATIENCE)
            late = threading.Event()
            guard.on_lost(lambda _: late.set())
            assert late.wait(PATIENCE), "also if it was lost before"
    assert [error.cause for error in told] == ["revoked"] and threads == ["taketurns-notices"]


def test_the_error_of_a_block_is_not_replaced_by_the_loss(locks: Locks, name: str) -> None:
    with pytest.raises(ZeroDivisionError):
        with locks.mutex(name).acquire() as guard:
            locks.break_lock(name)
            assert guard.lost.wait(PATIENCE)
            1 / 0


def test_a_lock_that_is_released_is_not_lost(locks: Locks, name: str) -> None:
    guard = locks.mutex(name).acquire()
    lost = guard.lost
    guard.release()
    with pytest.raises(NotHeld):
        guard.check()
    with pytest.raises(NotHeld):
        guard.release()
    assert not lost.is_set()


def test_a_leader_is_seen_and_leads_again_after_a_loss(locks: Locks, name: str) -> None:
    election = locks.election(name)
    assert election.leader() is None
    terms: list[int] = []

    def lead(guard: taketurns.Guard) -> str:
        terms.append(guard.check())
        leader = election.leader()
        assert leader is not None and leader.token == terms[-1]
        if len(terms) == 1:
            locks.break_lock(name)
            guard.lost.wait(PATIENCE)
            guard.check()
        return "done"

    assert election.lead(lead) == "done"
    assert len(terms) == 2 and terms[1] > terms[0]
    leaders = election.observe(every=0.01)
    assert next(leaders) is None
    with election.campaign(why="node-1"):
        seen = next(leaders)
        assert seen is not None and seen.why == "node-1"
    assert next(leaders) is None


def test_a_process_may_keep_a_mutex(locks: Locks, name: str) -> None:
    tokens = []
    for _ in range(3):
        with locks.mutex(name).acquire(keep="until_wanted") as guard:
            tokens.append(guard.check())
    assert tokens == sorted(set(tokens))
    view = locks.inspect(name)
    assert view is not None and len(view.holders) == 1, "kept"
    with pytest.raises(ValueError, match="until_wanted"):
        locks.mutex(name).acquire(keep="forever")


def test_arguments_that_can_not_be_are_refused(locks: Locks, name: str) -> None:
    with pytest.raises(InvalidArgument, match="invalid name") as caught:
        locks.mutex("").acquire()
    assert caught.value.kind == "InvalidName" and isinstance(caught.value, ValueError)
    with pytest.raises(InvalidArgument, match="lease"):
        locks.mutex(name).acquire(lease=0.001)
    with pytest.raises(ValueError, match="timeout must be a number of seconds, 0 or more, not -1"):
        locks.mutex(name).acquire(timeout=-1)
    with pytest.raises(InvalidArgument, match="invalid store URL"):
        taketurns.connect("mysql://localhost")
    with pytest.raises(InvalidArgument, match="invalid handle"):
        locks.adopt("tt1.secret")
    with locks.mutex(name).acquire(), pytest.raises(KindMismatch):
        locks.rwlock(name).read()


def test_a_store_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(taketurns.Unreachable, match="can't be reached") as caught:
        taketurns.connect("redis://127.0.0.1:1")
    assert isinstance(caught.value, ConnectionError) and caught.value.is_retryable


def test_a_closed_client_says_so(url: str, name: str) -> None:
    locks = taketurns.connect(url)
    locks.close()
    with pytest.raises(taketurns.ClientClosed, match="this client was closed"):
        locks.mutex(name).acquire()
    locks.close()


def test_the_store_may_come_from_the_environment(url: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAKETURNS_STORE", raising=False)
    with pytest.raises(InvalidArgument, match="or set TAKETURNS_STORE"):
        taketurns.connect()
    monkeypatch.setenv("TAKETURNS_STORE", url)
    with taketurns.connect() as locks, locks.mutex(name).acquire():
        pass


def test_a_guard_that_is_dropped_is_released_and_warned_of(locks: Locks, name: str) -> None:
    guard = locks.mutex(name).acquire()
    guard.on_lost(print)
    with pytest.warns(ResourceWarning, match="was not released before its guard was dropped"):
        del guard
    with locks.mutex(name).acquire(timeout=PATIENCE):
        pass
