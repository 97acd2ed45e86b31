"""A held lock, for code without asyncio."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Callable, NoReturn, Optional, Tuple

from . import _taketurns as native
from ._dispatch import Watch, call_all, notices
from ._errors import LockLost
from ._options import no_pickle
from ._taketurns import Handle


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
        handle: Handle = self.begin_handle().wait()
        return handle

    def __enter__(self) -> Guard:
        return self

    # Of the native part, where no signal handler can come between the block and the release.
    __exit__ = native.Guard.exit_and_wait

    def __repr__(self) -> str:
        return f"<taketurns.Guard of {self.name!r}, token {self.token}>"


class Attempt(_Held, native.Guard):
    """The right to do the work of a once: a held lock that ends by saying what became of the work.

    As a context manager it records at the end of the block that the work is done, or that it failed if the block raises
    something. If the attempt was lost before, that raises :class:`LockLost`, and the work is not recorded as done.
    """

    #: Records that the work is done, with a result of at most 256 bytes for all who ask.
    done = native.Guard.done_and_wait

    #: Records that the attempt failed: the next in line tries, after the pause.
    fail = native.Guard.release_and_wait

    def __enter__(self) -> Attempt:
        return self

    # Of the native part, where no signal handler can come between the block and what is recorded.
    __exit__ = native.Guard.exit_and_wait

    def __repr__(self) -> str:
        return f"<taketurns.Attempt at {self.name!r}, token {self.token}>"


class AllGuard(_Held, native.AllGuard):
    """Several mutexes, all held. If one of them is lost, all count as lost."""

    release = native.AllGuard.release_and_wait

    def __enter__(self) -> AllGuard:
        return self

    __exit__ = native.AllGuard.exit_and_wait

    def __repr__(self) -> str:
        return "<taketurns.AllGuard>"
