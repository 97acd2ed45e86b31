"""Locks for code without asyncio. Every call that waits releases the GIL, and Ctrl-C ends it."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
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
from ._options import Keep, Seconds, default_who, no_pickle, seconds, store_url
from ._taketurns import Handle
from ._views import HolderView, LockView, holder_view, lock_view

if TYPE_CHECKING:
    from . import aio

T = TypeVar("T")


def _wait(operation: native.Operation) -> Any:
    return operation.wait()


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
    return Locks(_wait(connecting))


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

    def all(self, names: Iterable[str]) -> All:
        """Returns several mutexes as one. They are acquired in the order of their names, so no two of these deadlock."""
        return All(self._client, names)

    def adopt(self, handle: Union[Handle, str]) -> Guard:
        """Adopts a lock that another process turned into a handle, and renews it from now on."""
        text = handle if isinstance(handle, str) else handle.expose()
        return Guard(_wait(self._client.adopt(text)))

    def renew(self, handle: Handle, lease: Optional[Seconds] = None) -> float:
        """Renews the lock of a handle once, without adopting it. Returns for how many seconds it stays held."""
        left: float = _wait(self._client.renew_handle(handle, seconds(lease)))
        return left

    def release(self, handle: Handle) -> None:
        """Releases the lock of a handle."""
        _wait(self._client.release_handle(handle))

    def inspect(self, name: str) -> Optional[LockView]:
        """Returns who holds a lock and who waits; ``None`` if nobody has used it recently."""
        fields: Optional[Dict[str, Any]] = _wait(self._client.inspect(name))
        return None if fields is None else lock_view(fields)

    def list(self, pattern: str = "*", *, waiters: int = 1) -> List[LockView]:
        """Returns all locks whose name matches a pattern (``*``, ``?``), each with its first waiters, in order of names."""
        return [lock_view(fields) for fields in _wait(self._client.list(pattern, waiters))]

    def break_lock(self, name: str, *, token: Optional[int] = None, at_once: bool = False) -> int:
        """Takes a lock away from its holders. Returns how many there were.

        They can't renew it any more, and are told. It passes on when they release it or their leases end.

        :param token: breaks only the holder with this token.
        :param at_once: passes the lock on at once. Then only tokens separate the old holder's writes from the next one's.
        """
        holders: int = _wait(self._client.break_lock(name, token, at_once))
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
        _wait(closing)

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
        why: str,
        keep: Keep = None,
        take: int = 1,
        of: int = 1,
        member: Optional[str] = None,
    ) -> Guard:
        times = (seconds(timeout), seconds(lease), seconds(max_hold))
        return Guard(_wait(self._client.acquire(self.name, kind, take, of, member, *times, why, keep)))

    def _try(
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
        guard = _wait(self._client.try_acquire(self.name, kind, take, of, member, *times, why))
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
    ) -> Guard:
        """Waits for the lock.

        :param timeout: raises ``AcquireTimeout`` after this time. Default: waits for ever, also while the store is down.
        :param lease: how long the lock outlives this process, which renews it meanwhile. Default: 30 s.
        :param max_hold: ends renewal after this time, so that a holder that hangs can't keep the lock. Default: never.
        :param why: what people see as the reason.
        :param keep: lets this process keep the mutex for its own next turns: for a number of turns, or
            ``"until_wanted"`` by another process. Default: every acquire asks the store.
        """
        return self._acquire("mutex", timeout, lease, max_hold, why, keep)

    def try_acquire(
        self, *, lease: Optional[Seconds] = None, max_hold: Optional[Seconds] = None, why: str = ""
    ) -> Optional[Guard]:
        """Takes the lock if nobody holds it or waits for it, else returns ``None``."""
        return self._try("mutex", lease, max_hold, why)


class RwLock(_Lock):
    """Many readers or one writer."""

    def read(
        self,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Guard:
        """Waits to read, beside other readers. Options as for ``Mutex.acquire``."""
        return self._acquire("read", timeout, lease, max_hold, why)

    def write(
        self,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Guard:
        """Waits to write, alone."""
        return self._acquire("write", timeout, lease, max_hold, why)

    def try_read(
        self, *, lease: Optional[Seconds] = None, max_hold: Optional[Seconds] = None, why: str = ""
    ) -> Optional[Guard]:
        """Takes the lock for reading if no writer holds or waits."""
        return self._try("read", lease, max_hold, why)

    def try_write(
        self, *, lease: Optional[Seconds] = None, max_hold: Optional[Seconds] = None, why: str = ""
    ) -> Optional[Guard]:
        """Takes the lock for writing if nobody holds or waits."""
        return self._try("write", lease, max_hold, why)


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
    ) -> Guard:
        """Waits for permits, and takes all of them at once. Options as for ``Mutex.acquire``."""
        return self._acquire("semaphore", timeout, lease, max_hold, why, None, permits, self.permits)

    def try_acquire(
        self,
        permits: int = 1,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes permits if they are free and nobody waits."""
        return self._try("semaphore", lease, max_hold, why, permits, self.permits)


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
    ) -> Guard:
        """Waits for a member: any, or the named one, even if it is yet to be added. Options as for ``Mutex.acquire``."""
        return self._acquire("pool", timeout, lease, max_hold, why, member=member)

    def try_acquire(
        self,
        member: Optional[str] = None,
        *,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Optional[Guard]:
        """Takes a member if one is free."""
        return self._try("pool", lease, max_hold, why, member=member)

    def add(self, member: str) -> bool:
        """Adds a member, which stays until it is removed. Returns whether it is new."""
        is_new: bool = _wait(self._client.pool_add(self.name, member))
        return is_new

    def remove(self, member: str) -> bool:
        """Removes a member; one that is held goes when it is released. Returns whether it was there."""
        was_there: bool = _wait(self._client.pool_remove(self.name, member))
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
        return self._acquire("campaign", timeout, lease, max_hold, why)

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
        return holder_view(_wait(self._client.leader(self.name)))

    def observe(self, every: Seconds = 1.0) -> Iterator[Optional[HolderView]]:
        """Yields the leader now, and whenever somebody else leads, or nobody. Asks the store every so often."""
        observer = self._client.observe(self.name, seconds(every) or 0.0)
        while True:
            yield holder_view(_wait(observer.changed()))


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
        return AllGuard(_wait(self._client.acquire_all(self.names, *times, why)))


class _Held:
    """What :class:`Guard` and :class:`AllGuard` share: the loss of a lock."""

    _event: Optional[threading.Event] = None
    _watches: Tuple[Watch, ...] = ()

    if TYPE_CHECKING:

        def begin_lost(self) -> native.Operation: ...

    @property
    def lost(self) -> threading.Event:
        """An event that is set when the lock is lost. It stays unset if the lock is released before."""
        if self._event is None:
            event = self._event = threading.Event()
            self.on_lost(lambda _: event.set())
        return self._event

    def on_lost(self, callback: Callable[[LockLost], object]) -> None:
        """Calls ``callback`` with a :class:`LockLost` when the lock is lost, on the thread ``taketurns-notices``.

        Not if it is released before. All guards share that thread, so a callback should be short.
        """
        watch = Watch(self.begin_lost(), notices(), lambda error: call_all((callback,), error))
        self._watches += (watch,)

    def _unwatch(self) -> None:
        for watch in self._watches:
            watch.close()
        self._watches = ()

    def __reduce__(self) -> NoReturn:
        no_pickle(self)


class Guard(_Held, native.Guard):
    """A held lock. It is renewed until it is released or lost.

    As a context manager it releases the lock at the end of the block. If the lock was lost before, that raises
    :class:`LockLost`, unless the block raises something itself.
    """

    release = native.Guard.release_and_wait

    def into_handle(self) -> Handle:
        """Makes it a handle that another process can adopt. From then on nobody renews it."""
        self._unwatch()
        handle: Handle = _wait(self.begin_handle())
        return handle

    def __enter__(self) -> Guard:
        return self

    # Of the native part, where no signal handler can come between the block and the release.
    __exit__ = native.Guard.exit_and_wait

    def __repr__(self) -> str:
        return f"<taketurns.Guard of {self.name!r}, token {self.token}>"


class AllGuard(_Held, native.AllGuard):
    """Several mutexes, all held. If one of them is lost, all count as lost."""

    release = native.AllGuard.release_and_wait

    def __enter__(self) -> AllGuard:
        return self

    __exit__ = native.AllGuard.exit_and_wait

    def __repr__(self) -> str:
        return "<taketurns.AllGuard>"
