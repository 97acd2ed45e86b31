"""Locks for asyncio, with any event loop that has ``add_reader``.

A cancelled task leaves nothing behind: it gives up its place in the queue, or the lock if it was just granted.
"""

from __future__ import annotations

import asyncio
import os
import sys
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Dict,
    Iterable,
    List,
    NoReturn,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from . import _taketurns as native
from ._dispatch import Watch, call_all, notices
from ._errors import LockLost, TakeTurnsError
from ._loops import Pending, finish, loop_dispatcher
from ._options import Keep, Seconds, default_who, no_pickle, seconds, store_url
from ._taketurns import Handle
from ._views import HolderView, LockView, holder_view, lock_view

T = TypeVar("T")

__all__ = [
    "All",
    "AllGuard",
    "Election",
    "Guard",
    "Locks",
    "Mutex",
    "Pending",
    "Pool",
    "RwLock",
    "Semaphore",
    "connect",
]


def connect(
    url: Optional[str] = None,
    *,
    who: Optional[str] = None,
    waiter_lease: Optional[Seconds] = None,
    timeout: Optional[Seconds] = None,
) -> Pending[Locks]:
    """Connects as :func:`taketurns.connect` does. Use it with ``await`` or ``async with``."""

    async def connected() -> Locks:
        connecting = native.connect(store_url(url), who or default_who(), seconds(waiter_lease), seconds(timeout))
        return Locks(await finish(connecting))

    return Pending(connected())


class Locks:
    """The locks of one store. Any number of tasks may use it, on any number of loops."""

    def __init__(self, client: native.Client) -> None:
        self._client, self._process = client, os.getpid()
        self._is_open = True
        notices().join()

    def mutex(self, name: str) -> Mutex:
        """Returns the mutex of that name: one holder at a time."""
        return Mutex(self._client, name)

    def rwlock(self, name: str) -> RwLock:
        """Returns the read-write lock of that name: many readers or one writer. A waiting writer blocks later readers."""
        return RwLock(self._client, name)

    def semaphore(self, name: str, permits: int) -> Semaphore:
        """Returns the semaphore of that name, with this many permits."""
        return Semaphore(self._client, name, permits)

    def pool(self, name: str) -> Pool:
        """Returns the pool of that name: named members, each with one holder at a time."""
        return Pool(self._client, name)

    def election(self, name: str) -> Election:
        """Returns the election of that name: the mutex of that name, whose holder leads."""
        return Election(self._client, name)

    def all(self, names: Iterable[str]) -> All:
        """Returns several mutexes as one. They are acquired in the order of their names, so no two of these deadlock."""
        return All(self._client, names)

    async def adopt(self, handle: Union[Handle, str]) -> Guard:
        """Adopts a lock that another process turned into a handle, and renews it from now on."""
        text = handle if isinstance(handle, str) else handle.expose()
        return Guard(await finish(self._client.adopt(text)))

    async def renew(self, handle: Handle, lease: Optional[Seconds] = None) -> float:
        """Renews the lock of a handle once, without adopting it. Returns for how many seconds it stays held."""
        left: float = await finish(self._client.renew_handle(handle, seconds(lease)))
        return left

    async def release(self, handle: Handle) -> None:
        """Releases the lock of a handle."""
        await finish(self._client.release_handle(handle))

    async def inspect(self, name: str) -> Optional[LockView]:
        """Returns who holds a lock and who waits; ``None`` if nobody has used it recently."""
        fields: Optional[Dict[str, Any]] = await finish(self._client.inspect(name))
        return None if fields is None else lock_view(fields)

    async def list(self, pattern: str = "*", *, waiters: int = 1) -> List[LockView]:
        """Returns all locks whose name matches a pattern (``*``, ``?``), each with its first waiters, in order of names."""
        return [lock_view(fields) for fields in await finish(self._client.list(pattern, waiters))]

    async def break_lock(self, name: str, *, token: Optional[int] = None, at_once: bool = False) -> int:
        """Takes a lock away from its holders, as :meth:`taketurns.Locks.break_lock` does."""
        holders: int = await finish(self._client.break_lock(name, token, at_once))
        return holders

    @property
    def client_id(self) -> str:
        """The id of this client, as it appears among holders and waiters."""
        return self._client.client_id()

    async def close(self) -> None:
        """Ends the connection once everything that was dropped before is released. Guards go on until they are released."""
        closing = self._client.close()
        self._leave()
        await finish(closing)

    def _leave(self) -> None:
        if self._is_open and self._process == os.getpid():
            self._is_open = False
            notices().leave()

    async def __aenter__(self) -> Locks:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            self._leave()

    def __reduce__(self) -> NoReturn:
        no_pickle(self)


class _Lock:
    """A lock by its name. The name is checked when it is first used."""

    def __init__(self, client: native.Client, name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return f"<taketurns.aio.{type(self).__name__} {self.name!r}>"

    def __reduce__(self) -> NoReturn:
        no_pickle(self)

    def _acquire(
        self,
        kind: str,
        timeout: Optional[Seconds],
        lease: Optional[Seconds],
        max_hold: Optional[Seconds],
        why: str,
        keep: Keep = None,
        take: int = 1,
        of: int = 1,
        member: Optional[str] = None,
    ) -> Pending[Guard]:
        async def acquired() -> Guard:
            times = (seconds(timeout), seconds(lease), seconds(max_hold))
            return Guard(await finish(self._client.acquire(self.name, kind, take, of, member, *times, why, keep)))

        return Pending(acquired())

    async def _try(
        self,
        kind: str,
        lease: Optional[Seconds],
        max_hold: Optional[Seconds],
        why: str,
        take: int = 1,
        of: int = 1,
        member: Optional[str] = None,
    ) -> Optional[Guard]:
        times = (seconds(lease), seconds(max_hold))
        guard = await finish(self._client.try_acquire(self.name, kind, take, of, member, *times, why))
        return None if guard is None else Guard(guard)


class Mutex(_Lock):
    """One holder at a time."""

    def acquire(
        self,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
        keep: Keep = None,
    ) -> Pending[Guard]:
        """Waits for the lock. Use it with ``await`` or ``async with``; options as for :meth:`taketurns.Mutex.acquire`."""
        return self._acquire("mutex", timeout, lease, max_hold, why, keep)

    async def try_acquire(
        self, *, lease: Optional[Seconds] = None, max_hold: Optional[Seconds] = None, why: str = ""
    ) -> Optional[Guard]:
        """Takes the lock if nobody holds it or waits for it, else returns ``None``."""
        return await self._try("mutex", lease, max_hold, why)


class RwLock(_Lock):
    """Many readers or one writer."""

    def read(
        self,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Pending[Guard]:
        """Waits to read, beside other readers. Options as for :meth:`taketurns.Mutex.acquire`."""
        return self._acquire("read", timeout, lease, max_hold, why)

    def write(
        self,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Pending[Guard]:
        """Waits to write, alone."""
        return self._acquire("write", timeout, lease, max_hold, why)

    async def try_read(
        self, *, lease: Optional[Seconds] = None, max_hold: Optional[Seconds] = None, why: str = ""
    ) -> Optional[Guard]:
        """Takes the lock for reading if no writer holds or waits."""
        return await self._try("read", lease, max_hold, why)

    async def try_write(
        self, *, lease: Optional[Seconds] = None, max_hold: Optional[Seconds] = None, why: str = ""
    ) -> Optional[Guard]:
        """Takes the lock for writing if nobody holds or waits."""
        return await self._try("write", lease, max_hold, why)


class Semaphore(_Lock):
    """A number of permits."""

    def __init__(self, client: native.Client, name: str, permits: int) -> None:
        super().__init__(client, name)
        self.permits = permits

    def acquire(
        self,
        permits: int = 1,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Pending[Guard]:
        """Waits for permits, and takes all of them at once. Options as for :meth:`taketurns.Mutex.acquire`."""
        return self._acquire("semaphore", timeout, lease, max_hold, why, None, permits, self.permits)

    async def try_acquire(
        self,
        permits: int = 1,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes permits if they are free and nobody waits."""
        return await self._try("semaphore", lease, max_hold, why, permits, self.permits)


class Pool(_Lock):
    """Named members, each with one holder at a time. ``guard.member`` says which one a guard has."""

    def acquire(
        self,
        member: Optional[str] = None,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Pending[Guard]:
        """Waits for a member: any, or the named one, even if it is yet to be added."""
        return self._acquire("pool", timeout, lease, max_hold, why, member=member)

    async def try_acquire(
        self,
        member: Optional[str] = None,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes a member if one is free."""
        return await self._try("pool", lease, max_hold, why, member=member)

    async def add(self, member: str) -> bool:
        """Adds a member, which stays until it is removed. Returns whether it is new."""
        is_new: bool = await finish(self._client.pool_add(self.name, member))
        return is_new

    async def remove(self, member: str) -> bool:
        """Removes a member; one that is held goes when it is released. Returns whether it was there."""
        was_there: bool = await finish(self._client.pool_remove(self.name, member))
        return was_there


class Election(_Lock):
    """One leader at a time."""

    def campaign(
        self,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Pending[Guard]:
        """Waits until nobody leads and no earlier candidate waits. The guard is the leadership; releasing it resigns."""
        return self._acquire("campaign", timeout, lease, max_hold, why)

    async def lead(
        self, work: Callable[[Guard], Awaitable[T]], *, lease: Optional[Seconds] = None, why: str = ""
    ) -> T:
        """Campaigns, runs ``work(guard)`` while leading, and campaigns again if the leadership is lost.

        A loss cancels the work at its next ``await``.
        """
        while True:
            try:
                async with self.campaign(lease=lease, why=why) as guard:
                    return await work(guard)
            except LockLost as lost:
                if lost.lock != self.name:
                    raise

    async def leader(self) -> Optional[HolderView]:
        """Returns who leads; ``None`` if nobody does."""
        return holder_view(await finish(self._client.leader(self.name)))

    async def observe(self, every: Seconds = 1.0) -> AsyncIterator[Optional[HolderView]]:
        """Yields the leader now, and whenever somebody else leads, or nobody. Asks the store every so often."""
        observer = self._client.observe(self.name, seconds(every) or 0.0)
        while True:
            yield holder_view(await finish(observer.changed()))


class All:
    """Several mutexes, held all together or not at all."""

    def __init__(self, client: native.Client, names: Iterable[str]) -> None:
        self._client = client
        self.names = sorted(set(names))

    def acquire(
        self,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Pending[AllGuard]:
        """Waits for all of them; ``timeout`` is for all together."""

        async def acquired() -> AllGuard:
            times = (seconds(timeout), seconds(lease), seconds(max_hold))
            return AllGuard(await finish(self._client.acquire_all(self.names, *times, why)))

        return Pending(acquired())


class _LossScope:
    """Cancels a task when its lock is lost, as ``asyncio.timeout`` does when the time is over."""

    def __init__(self, lost: native.Operation) -> None:
        self._task = asyncio.current_task()
        self._requests = _cancel_requests(self._task)
        self._error: Optional[LockLost] = None
        self._watch = Watch(lost, loop_dispatcher(), self._fire)

    def _fire(self, error: LockLost) -> None:
        self._error = error
        if self._task is not None:
            self._task.cancel()

    async def end(self, kind: Optional[Type[BaseException]]) -> Optional[LockLost]:
        """Returns the loss, if it is what ended the block."""
        self._watch.close()
        error, task = self._error, self._task
        if error is None or task is None:
            return None
        if sys.version_info >= (3, 11):
            requests = task.uncancel()
        else:
            requests = self._requests
        if kind is None:
            # The cancellation had no `await` to arrive at. It would arrive at the next one, so here.
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if requests > self._requests:
                    raise
            return error
        is_ours = issubclass(kind, asyncio.CancelledError) and requests <= self._requests
        return error if is_ours else None


def _cancel_requests(task: Optional[asyncio.Task[Any]]) -> int:
    if task is not None and sys.version_info >= (3, 11):
        return task.cancelling()
    return 0


class _Held:
    """What :class:`Guard` and :class:`AllGuard` share: the end of a hold, and its loss."""

    _event: Optional[asyncio.Event] = None
    _watches: Tuple[Watch, ...] = ()
    _scope: Optional[_LossScope] = None

    if TYPE_CHECKING:

        def begin_lost(self) -> native.Operation: ...

        def begin_release(self) -> native.Operation: ...

        def is_over(self) -> bool: ...

    @property
    def lost(self) -> asyncio.Event:
        """An event that is set when the lock is lost. It stays unset if the lock is released before."""
        if self._event is None:
            event = self._event = asyncio.Event()
            self.on_lost(lambda _: event.set())
        return self._event

    def on_lost(self, callback: Callable[[LockLost], object]) -> None:
        """Calls ``callback`` with a :class:`LockLost` on this event loop when the lock is lost.

        Not if it is released before.
        """
        watch = Watch(self.begin_lost(), loop_dispatcher(), lambda error: call_all((callback,), error))
        self._watches += (watch,)

    async def release(self) -> None:
        """Releases the lock. Raises :class:`LockLost` if it was lost before.

        The lock is released even if the task is cancelled meanwhile.
        """
        self._unwatch()
        await finish(self.begin_release())

    def _unwatch(self) -> None:
        for watch in self._watches:
            watch.close()
        self._watches = ()

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        scope, self._scope = self._scope, None
        lost = None
        try:
            if scope is not None:
                lost = await scope.end(kind)
        finally:
            if not self.is_over():
                try:
                    await self.release()
                except TakeTurnsError:
                    # The block's own error says more. A lock that could not be released ends with its lease.
                    if kind is None and lost is None:
                        raise
        if lost is not None:
            raise lost from error

    def _enter(self) -> None:
        if not self.is_over():
            self._scope = _LossScope(self.begin_lost())

    def __reduce__(self) -> NoReturn:
        no_pickle(self)


class Guard(_Held, native.Guard):
    """A held lock. It is renewed until it is released or lost.

    In ``async with`` a loss cancels the block at its next ``await``, and the block raises :class:`LockLost`. The lock
    is released at the end of the block.
    """

    async def into_handle(self) -> Handle:
        """Makes it a handle that another process can adopt. From then on nobody renews it."""
        self._unwatch()
        handle: Handle = await finish(self.begin_handle())
        return handle

    async def __aenter__(self) -> Guard:
        self._enter()
        return self

    def __repr__(self) -> str:
        return f"<taketurns.aio.Guard of {self.name!r}, token {self.token}>"


class AllGuard(_Held, native.AllGuard):
    """Several mutexes, all held. If one of them is lost, all count as lost."""

    async def __aenter__(self) -> AllGuard:
        self._enter()
        return self

    def __repr__(self) -> str:
        return "<taketurns.aio.AllGuard>"
