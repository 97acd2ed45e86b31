"""A held lock, for asyncio."""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Optional, Tuple, Type

from . import _taketurns as native
from ._dispatch import Watch, call_all
from ._errors import LockLost, TakeTurnsError
from ._loops import finish, loop_dispatcher
from ._options import no_pickle
from ._taketurns import Handle


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

    async def _finish(self, is_done: bool) -> None:
        """Ends the hold at the end of a block, which did its work or not."""
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
                    await self._finish(kind is None and lost is None)
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


class _Releasable(_Held):
    """A hold that ends with a release."""

    async def release(self) -> None:
        """Releases the lock. Raises :class:`LockLost` if it was lost before.

        The lock is released even if the task is cancelled meanwhile.
        """
        await self._finish(True)


class Guard(_Releasable, native.Guard):
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


class Attempt(_Held, native.Guard):
    """The right to do the work of a once: a held lock that ends by saying what became of the work.

    ``async with`` records at the end of its block that the work is done, or that it failed if the block raises something
    or is cancelled. A loss cancels the block at its next ``await``, and the block raises :class:`LockLost`.
    """

    async def done(self, result: str = "") -> None:
        """Records that the work is done, with a result of at most 256 bytes for all who ask.

        Raises :class:`LockLost` if the attempt was lost before. It is recorded even if the task is cancelled meanwhile.
        """
        self._unwatch()
        await finish(self.begin_done(result))

    async def fail(self) -> None:
        """Records that the attempt failed: the next in line tries, after the pause."""
        await self._finish(False)

    async def _finish(self, is_done: bool) -> None:
        if is_done:
            await self.done()
        else:
            await super()._finish(is_done)

    async def __aenter__(self) -> Attempt:
        self._enter()
        return self

    def __repr__(self) -> str:
        return f"<taketurns.aio.Attempt at {self.name!r}, token {self.token}>"


class AllGuard(_Releasable, native.AllGuard):
    """Several mutexes, all held. If one of them is lost, all count as lost."""

    async def __aenter__(self) -> AllGuard:
        self._enter()
        return self

    def __repr__(self) -> str:
        return "<taketurns.aio.AllGuard>"
