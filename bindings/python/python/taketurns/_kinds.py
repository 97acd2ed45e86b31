"""The kinds of locks, for code without asyncio. A lock holds nothing: it is a name, and what can be asked for under it."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, NoReturn, Optional, TypeVar

from . import _taketurns as native
from ._errors import LockLost
from ._guard import AllGuard, Guard
from ._options import Keep, Seconds, no_pickle, seconds
from ._views import HolderView, holder_view

T = TypeVar("T")


class _Lock:
    """A lock by its name. The name is checked when it is first used."""

    def __init__(self, client: native.Client, name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return f"<taketurns.{type(self).__name__} {self.name!r}>"

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
    ) -> Guard:
        times = (seconds(timeout), seconds(lease), seconds(max_hold), seconds(at_least))
        return Guard(self._client.acquire(self.name, kind, take, of, member, *times, why, keep).wait())

    def _try(
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
        guard = self._client.try_acquire(self.name, kind, take, of, member, *times, why).wait()
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
    ) -> Guard:
        """Waits for the lock.

        :param timeout: raises ``AcquireTimeout`` after this time. Default: waits for ever, also while the store is down.
        :param lease: how long the lock outlives this process, which renews it meanwhile. Default: 30 s.
        :param max_hold: ends renewal after this time, so that a holder that hangs can't keep the lock. Default: never.
        :param at_least: lets nobody else have it for so long after the grant, even if it is released, dropped or lost
            before. Default: it ends with the hold.
        :param why: what people see as the reason.
        :param keep: lets this process keep the mutex for its own next turns: for a number of turns, or
            ``"until_wanted"`` by another process. Default: every acquire asks the store.
        """
        return self._acquire("mutex", timeout, lease, max_hold, at_least, why, keep)

    def try_acquire(
        self,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes the lock if nobody holds it or waits for it, else returns ``None``."""
        return self._try("mutex", lease, max_hold, at_least, why)


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
    ) -> Guard:
        """Waits to read, beside other readers. Options as for ``Mutex.acquire``."""
        return self._acquire("read", timeout, lease, max_hold, at_least, why)

    def write(
        self,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Guard:
        """Waits to write, alone."""
        return self._acquire("write", timeout, lease, max_hold, at_least, why)

    def try_read(
        self,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes the lock for reading if no writer holds or waits."""
        return self._try("read", lease, max_hold, at_least, why)

    def try_write(
        self,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes the lock for writing if nobody holds or waits."""
        return self._try("write", lease, max_hold, at_least, why)


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
    ) -> Guard:
        """Waits for permits, and takes all of them at once. Options as for ``Mutex.acquire``."""
        return self._acquire("semaphore", timeout, lease, max_hold, at_least, why, None, permits, self.permits)

    def try_acquire(
        self,
        permits: int = 1,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes permits if they are free and nobody waits."""
        return self._try("semaphore", lease, max_hold, at_least, why, permits, self.permits)

    def resize(self) -> bool:
        """Changes the number of permits to that of this object, even while it is in use. Returns whether it changed."""
        is_new: bool = self._client.resize(self.name, self.permits).wait()
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
    ) -> Guard:
        """Waits for a member: any, or the named one, even if it is yet to be added. Options as for ``Mutex.acquire``."""
        return self._acquire("pool", timeout, lease, max_hold, at_least, why, member=member)

    def try_acquire(
        self,
        member: Optional[str] = None,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        at_least: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes a member if one is free."""
        return self._try("pool", lease, max_hold, at_least, why, member=member)

    def add(self, member: str) -> bool:
        """Adds a member, which stays until it is removed. Returns whether it is new."""
        is_new: bool = self._client.pool_add(self.name, member).wait()
        return is_new

    def remove(self, member: str) -> bool:
        """Removes a member; one that is held goes when it is released. Returns whether it was there."""
        was_there: bool = self._client.pool_remove(self.name, member).wait()
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
    ) -> Guard:
        """Waits until nobody leads and no earlier candidate waits. The guard is the leadership; releasing it resigns."""
        return self._acquire("campaign", timeout, lease, max_hold, None, why)

    def lead(
        self, work: Callable[[Guard], T], *, lease: Optional[Seconds] = None, why: str = ""
    ) -> T:
        """Campaigns, runs ``work(guard)`` while leading, and campaigns again if the leadership is lost.

        The work notices a loss by ``guard.check()``, which raises ``LockLost``.
        """
        while True:
            try:
                with self.campaign(lease=lease, why=why) as guard:
                    return work(guard)
            except LockLost as lost:
                if lost.lock != self.name:
                    raise

    def leader(self) -> Optional[HolderView]:
        """Returns who leads; ``None`` if nobody does."""
        return holder_view(self._client.leader(self.name).wait())

    def observe(self, every: Seconds = 1.0) -> Iterator[Optional[HolderView]]:
        """Yields the leader now, and whenever somebody else leads, or nobody. Asks the store every so often."""
        observer = self._client.observe(self.name, seconds(every) or 0.0)
        while True:
            yield holder_view(observer.changed().wait())


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
    ) -> AllGuard:
        """Waits for all of them; ``timeout`` is for all together. Options as for ``Mutex.acquire``."""
        times = (seconds(timeout), seconds(lease), seconds(max_hold))
        return AllGuard(self._client.acquire_all(self.names, *times, why).wait())
