"""Mistakes that a type checker finds. Each line with a mistake says what mypy reports; a test compares."""

from taketurns import Locks, aio


async def work(attempt: aio.Attempt) -> int:
    return attempt.check()


async def forgotten(locks: aio.Locks) -> None:
    guard = locks.mutex("a").acquire()
    guard.check()  # error: "Pending[Guard]" has no attribute "check"
    held = await locks.mutex("a").acquire()
    held.release()  # error: Value of type "Coroutine[Any, Any, None]" must be used
    if await locks.mutex("a").try_acquire() is None:
        return
    locks.break_lock("a")  # error: Value of type "Coroutine[Any, Any, int]" must be used
    locks.once("a").run(work)  # error: Value of type "Coroutine[Any, Any, DidIt[int] | Completion]" must be used
    begun = await locks.once("a").begin()
    await begun.done()  # error: Item "Completion" of "Attempt | Completion" has no attribute "done"
    maybe = locks.mutex("a").try_acquire()
    maybe.check()  # error: "Coroutine[Any, Any, Guard | None]" has no attribute "check"


def options(locks: Locks) -> None:
    locks.mutex("a").acquire(within=5)  # error: Unexpected keyword argument "within" for "acquire" of "Mutex"
    locks.mutex("a").acquire(timeout="5")  # error: Argument "timeout" to "acquire" of "Mutex" has incompatible type "str"
    locks.once("a", remember="1d")  # error: Unexpected keyword argument "remember" for "once" of "Locks"
    locks.rwlock("a").acquire()  # error: "RwLock" has no attribute "acquire"
    locks.semaphore("a")  # error: Missing positional argument "permits" in call to "semaphore" of "Locks"
    with locks.mutex("a").try_acquire() as guard:  # error: Item "None" of "Guard | None" has no attribute "__enter__"
        guard.check()
