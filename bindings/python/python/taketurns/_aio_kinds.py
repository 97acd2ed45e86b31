"""The kinds of locks, for asyncio. A lock holds nothing: it is a name, and what can be asked for under it."""

from __future__ import annotations

from typing import AsyncIterator, Awaitable, Callable, Iterable, NoReturn, Optional, TypeVar

from . import _taketurns as native
from ._aio_guard import AllGuard, Guard
from ._errors import LockLost
from ._loops import Pending, finish
from ._options import Keep, Seconds, no_pickle, seconds
from ._views import HolderView, holder_view

T = TypeVar("T")


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
        at_least: Optional[Seconds],
        why: str,
        keep: Keep = None,
        take: int = 1,
        of: int = 1,
        member: Optional[str] = None,
    ) -> Pending[Guard]:
        async def acquired() -> Guard:
            times = (seconds(timeout), seconds(lease), seconds(max_hold), seconds(at_least))
            return Guard(await finish(self._client.acquire(self.name, kind, take, of, member, *times, why, keep)))

        return Pending(acquired())

    async def _try(
        self,
        kind: str,
        lease: Optional[Seconds],
        max_hold: Optional[Seconds],
        at_least: Optional[Seconds],
        why: str,
        take: int = 1,
        of: int = 1,
        member: Optional[str] = None,
    ) -> Optional[Guard]:
        times = (seconds(lease), seconds(max_hold), seconds(at_least))
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
        at_least: Optional[Seconds] = None,
        why: str = "",
        keep: Keep = None,
    ) -> Pending[Guard]:
        """Waits for the lock. Use it with ``await`` or ``async with``; options as for :meth:`taketurns.Mutex.acquire`."""
        return self._acquire("mutex", timeout, lease, max_hold, at_least, why, keep)

    async def try_acquire(
        self,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes the lock if nobody holds it or waits for it, else returns ``None``."""
        return await self._try("mutex", lease, max_hold, at_least, why)


class RwLock(_Lock):
    """Many readers or one writer."""

    def read(
        self,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Pending[Guard]:
        """Waits to read, beside other readers. Options as for :meth:`taketurns.Mutex.acquire`."""
        return self._acquire("read", timeout, lease, max_hold, at_least, why)

    def write(
        self,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Pending[Guard]:
        """Waits to write, alone."""
        return self._acquire("write", timeout, lease, max_hold, at_least, why)

    async def try_read(
        self,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes the lock for reading if no writer holds or waits."""
        return await self._try("read", lease, max_hold, at_least, why)

    async def try_write(
        self,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes the lock for writing if nobody holds or waits."""
        return await self._try("write", lease, max_hold, at_least, why)


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
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Pending[Guard]:
        """Waits for permits, and takes all of them at once. Options as for :meth:`taketurns.Mutex.acquire`."""
        return self._acquire("semaphore", timeout, lease, max_hold, at_least, why, None, permits, self.permits)

    async def try_acquire(
        self,
        permits: int = 1,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes permits if they are free and nobody waits."""
        return await self._try("semaphore", lease, max_hold, at_least, why, permits, self.permits)

    async def resize(self) -> bool:
        """Changes the number of permits to that of this object, even while it is in use. Returns whether it changed."""
        is_new: bool = await finish(self._client.resize(self.name, self.permits))
        return is_new


class Pool(_Lock):
    """Named members, each with one holder at a time. ``guard.member`` says which one a guard has."""

    def acquire(
        self,
        member: Optional[str] = None,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Pending[Guard]:
        """Waits for a member: any, or the named one, even if it is yet to be added."""
        return self._acquire("pool", timeout, lease, max_hold, at_least, why, member=member)

    async def try_acquire(
        self,
        member: Optional[str] = None,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes a member if one is free."""
        return await self._try("pool", lease, max_hold, at_least, why, member=member)

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
        return self._acquire("campaign", timeout, lease, max_hold, None, why)

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
