"""Locks for asyncio, with any event loop that has ``add_reader``.

A cancelled task leaves nothing behind: it gives up its place in the queue, or the lock if it was just granted.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Dict, Iterable, List, NoReturn, Optional, Type, Union

from . import _taketurns as native
from ._aio_guard import AllGuard, Attempt, Guard
from ._aio_kinds import All, Election, Mutex, Pool, RwLock, Semaphore
from ._aio_once import Once
from ._dispatch import notices
from ._loops import Pending, finish
from ._options import Seconds, default_who, no_pickle, once_terms, seconds, store_url
from ._taketurns import Handle
from ._views import LockView, lock_view

__all__ = [
    "All",
    "AllGuard",
    "Attempt",
    "Election",
    "Guard",
    "Locks",
    "Mutex",
    "Once",
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

    def once(
        self,
        name: str,
        *,
        remember_for: Optional[Seconds] = None,
        every: Optional[Seconds] = None,
        offset: Optional[Seconds] = None,
        attempts: Optional[int] = None,
        pause: Optional[Seconds] = None,
    ) -> Once:
        """Returns the once of that name: work that is done once. Options as for :meth:`taketurns.Locks.once`."""
        return Once(self._client, name, once_terms(remember_for, every, offset, attempts, pause))

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
