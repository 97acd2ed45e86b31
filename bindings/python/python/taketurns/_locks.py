"""A client for code without asyncio. Every call that waits releases the GIL, and Ctrl-C ends it."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, NoReturn, Optional, Type, Union

from . import _taketurns as native
from ._dispatch import notices
from ._guard import Guard
from ._kinds import All, Election, Mutex, Pool, RwLock, Semaphore
from ._once import Once
from ._options import Seconds, default_who, no_pickle, once_terms, seconds, store_url
from ._taketurns import Handle
from ._views import LockView, lock_view

if TYPE_CHECKING:
    from . import aio


def connect(
    url: Optional[str] = None,
    *,
    who: Optional[str] = None,
    waiter_lease: Optional[Seconds] = None,
    timeout: Optional[Seconds] = None,
) -> Locks:
    """Connects to a store by its URL, such as ``redis://localhost`` or ``file:/var/lib/app/locks.db``.

    Without a URL, to the one in the environment variable ``TAKETURNS_STORE``. Close the client at the end, or use it as
    a context manager.

    :param who: the name that people see for this client. Default: host, process and script.
    :param waiter_lease: how long a place in a queue outlives this client. Default: 3 s.
    :param timeout: how long to wait for a server that is loading its data. Default: until it has.
    """
    connecting = native.connect(store_url(url), who or default_who(), seconds(waiter_lease), seconds(timeout))
    return Locks(connecting.wait())


class Locks:
    """The locks of one store. Any number of threads may use it."""

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
        """Returns the once of that name: work that is done once, and remembered.

        :param remember_for: for how long, by the store's wall clock; from 1 s to 31 days. Default: 24 hours.
        :param every: lets the work be done once per period of this length instead, from 1 s to 31 days.
        :param offset: when a period begins, counted from 1970-01-01 00:00 UTC and multiples of ``every``. Default: 0. Let it
            begin when nobody begins the work: clocks differ.
        :param attempts: how many attempts may fail until nobody may try any more. Default: no limit.
        :param pause: how long after a failed attempt the next one begins. Default: at once.
        """
        return Once(self._client, name, once_terms(remember_for, every, offset, attempts, pause))

    def all(self, names: Iterable[str]) -> All:
        """Returns several mutexes as one. They are acquired in the order of their names, so no two of these deadlock."""
        return All(self._client, names)

    def adopt(self, handle: Union[Handle, str]) -> Guard:
        """Adopts a lock that another process turned into a handle, and renews it from now on."""
        text = handle if isinstance(handle, str) else handle.expose()
        return Guard(self._client.adopt(text).wait())

    def renew(self, handle: Handle, lease: Optional[Seconds] = None) -> float:
        """Renews the lock of a handle once, without adopting it. Returns for how many seconds it stays held."""
        left: float = self._client.renew_handle(handle, seconds(lease)).wait()
        return left

    def release(self, handle: Handle) -> None:
        """Releases the lock of a handle."""
        self._client.release_handle(handle).wait()

    def inspect(self, name: str) -> Optional[LockView]:
        """Returns who holds a lock and who waits; ``None`` if nobody has used it recently."""
        fields: Optional[Dict[str, Any]] = self._client.inspect(name).wait()
        return None if fields is None else lock_view(fields)

    def list(self, pattern: str = "*", *, waiters: int = 1) -> List[LockView]:
        """Returns all locks whose name matches a pattern (``*``, ``?``), each with its first waiters, in order of names."""
        return [lock_view(fields) for fields in self._client.list(pattern, waiters).wait()]

    def break_lock(self, name: str, *, token: Optional[int] = None, at_once: bool = False) -> int:
        """Takes a lock away from its holders. Returns how many there were.

        They can't renew it any more, and are told. It passes on when they release it or their leases end.

        :param token: breaks only the holder with this token.
        :param at_once: passes the lock on at once. Then only tokens separate the old holder's writes from the next one's.
        """
        holders: int = self._client.break_lock(name, token, at_once).wait()
        return holders

    @property
    def client_id(self) -> str:
        """The id of this client, as it appears among holders and waiters."""
        return self._client.client_id()

    def asyncio(self) -> aio.Locks:
        """Returns the same client for asyncio."""
        from . import aio

        return aio.Locks(self._client)

    def close(self) -> None:
        """Ends the connection once everything that was dropped before is released. Guards go on until they are released."""
        closing = self._client.close()
        self._leave()
        closing.wait()

    def _leave(self) -> None:
        if self._is_open and self._process == os.getpid():
            self._is_open = False
            notices().leave()

    def __enter__(self) -> Locks:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            self._leave()

    def __reduce__(self) -> NoReturn:
        no_pickle(self)
