"""Signals, forks and other processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from types import FrameType

import pytest

import taketurns
from conftest import PATIENCE, Place, run_python, until_waiting
from taketurns import ForkError, Locks


@pytest.fixture
def interrupted() -> None:
    """SIGINT raises KeyboardInterrupt, as it does in a program."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt_when_waiting(locks: Locks, name: str) -> threading.Thread:
    def interrupt() -> None:
        until_waiting(locks, name, 1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


def test_ctrl_c_ends_a_wait_and_leaves_no_place(every_url: str, name: str, interrupted: None) -> None:
    with taketurns.connect(every_url) as locks:
        with locks.mutex(name).acquire():
            thread = interrupt_when_waiting(locks, name)
            with pytest.raises(KeyboardInterrupt):
                locks.mutex(name).acquire()
            thread.join()
            until_waiting(locks, name, 0)
        with locks.mutex(name).acquire(timeout=PATIENCE):
            pass


def test_no_interrupt_comes_between_a_block_and_its_release(locks: Locks, name: str) -> None:
    """An interrupt at the first step of Python code after the block: the release was sent before."""
    steps: list[str] = []

    def interrupt(frame: FrameType, event: str, arg: object) -> None:
        if "taketurns" in frame.f_code.co_filename:
            sys.settrace(None)
            steps.append(frame.f_code.co_name)
            raise KeyboardInterrupt

    guard = locks.mutex(name).acquire()
    guard.on_lost(print)
    with pytest.raises(KeyboardInterrupt):
        with guard:
            sys.settrace(interrupt)
    assert steps == ["_unwatch"]
    with pytest.raises(taketurns.NotHeld):
        guard.check()
    with locks.mutex(name).acquire(timeout=PATIENCE):
        pass


def test_a_signal_handler_that_returns_does_not_end_a_wait(locks: Locks, name: str) -> None:
    handled = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.set())
    try:
        guard = locks.mutex(name).acquire()

        def interrupt() -> None:
            until_waiting(locks, name, 1)
            os.kill(os.getpid(), signal.SIGUSR1)
            handled.wait()
            guard.release()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with locks.mutex(name).acquire():
            assert handled.is_set()
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


FORKED = """
import os, sys, taketurns
url, name = sys.argv[1:]
locks = taketurns.connect(url)
mutex = locks.mutex(name)
guard = mutex.acquire()
event = guard.lost
pid = os.fork()
if pid == 0:
    for use in (mutex.acquire, guard.check, guard.release, lambda: locks.client_id, locks.close):
        try:
            use()
        except taketurns.ForkError as error:
            assert f"this was made in process {os.getppid()}" in str(error), error
            assert "connect in the child" in str(error), error
        else:
            os._exit(3)
    try:
        guard.on_lost(print)
    except taketurns.ForkError:
        pass
    # A client of its own works, and waits for the parent.
    with taketurns.connect(url) as own:
        assert own.mutex(name).try_acquire() is None
        with own.mutex(name + "/own").acquire() as other:
            other.check()
    # Ends like any process: what it inherits is dropped, and says nothing to the store.
    sys.exit(0)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
guard.check()
view = locks.inspect(name)
assert len(view.holders) == 1, view
guard.release()
locks.close()
print("ok")
"""


def test_a_fork_is_refused_with_a_clear_error_and_harms_nothing(every_url: str, name: str) -> None:
    ran = run_python(FORKED, every_url, name)
    assert (ran.stdout, ran.returncode) == ("ok\n", 0), ran.stderr


def test_a_fork_error_is_an_error_of_this_package() -> None:
    assert issubclass(ForkError, taketurns.TakeTurnsError) and issubclass(ForkError, RuntimeError)


def count(url: str, name: str, path: str) -> None:
    with taketurns.connect(url) as locks:
        for _ in range(20):
            with locks.mutex(name).acquire():
                with open(path) as file:
                    number = int(file.read())
                with open(path, "w") as file:
                    file.write(str(number + 1))


def test_spawned_processes_take_turns(every_url: str, name: str, tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "counter")
    with open(path, "w") as file:
        file.write("0")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=count, args=(every_url, name, path)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    with open(path) as file:
        assert file.read() == "60"


def test_nothing_but_a_url_goes_to_another_process(locks: Locks, name: str) -> None:
    with locks.mutex(name).acquire() as guard:
        for thing in (locks, locks.mutex(name), guard):
            with pytest.raises(TypeError, match="connect there, and carry a held lock with guard.into_handle()"):
                pickle.dumps(thing)


ABANDONED = """
import sys, threading, taketurns
url, name = sys.argv[1:]
locks = taketurns.connect(url)
guard = locks.mutex(name).acquire(lease=60)
guard.on_lost(print)
waiter = threading.Thread(target=lambda: locks.mutex(name).acquire(), daemon=True)
waiter.start()
while locks.inspect(name).waiting == 0:
    pass
print("holds", flush=True)
if len(sys.argv) == 3:
    sys.exit(0)
"""


def test_a_program_ends_though_it_holds_and_waits(url: str, name: str) -> None:
    ran = run_python(ABANDONED, url, name)
    assert (ran.stdout, ran.returncode) == ("holds\n", 0), ran.stderr


BUSY = """
import sys, time, taketurns
url, name, patience = sys.argv[1:]
locks = taketurns.connect(url)
guard = locks.mutex(name).acquire(lease=15)
# Holds the GIL until the lock was renewed, which needs no GIL: what is left of the lease only grows then.
sys.setswitchinterval(1000)
begun, left = time.monotonic(), guard.left
while guard.left <= left:
    left = guard.left
    assert time.monotonic() - begun < float(patience), left
guard.check()
guard.release()
locks.close()
print("held")
"""


def test_a_program_that_never_gives_up_the_gil_keeps_its_lock(place: Place, name: str) -> None:
    ran = run_python(BUSY, place.redis, name, str(PATIENCE), timeout=2 * PATIENCE)
    assert (ran.stdout, ran.returncode) == ("held\n", 0), ran.stderr


def test_the_program_is_seen_as_its_script(url: str, name: str) -> None:
    script = "import sys, taketurns; locks = taketurns.connect(sys.argv[1]); " \
        "guard = locks.mutex(sys.argv[2]).acquire(); print(locks.inspect(sys.argv[2]).holders[0].who); guard.release()"
    command = [sys.executable, "-c", script, url, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        out, _ = child.communicate()
    assert f":{child.pid} " in out
