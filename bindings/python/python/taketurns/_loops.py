"""Operations on an event loop: each is polled on the loop's own thread, and woken through a socket of the loop."""

from __future__ import annotations

import asyncio
import functools
import os
import weakref
from types import TracebackType
from typing import Any, Coroutine, Generator, Optional, Type, TypeVar
from weakref import WeakKeyDictionary

from . import _taketurns as native
from ._dispatch import Dispatcher

T = TypeVar("T")


class LoopDispatcher(Dispatcher):
    """The mailbox of one event loop.

    The loop alone keeps it, as the reader of its socket, and it keeps the futures of what is awaited. So a task that
    waits is not collected while its loop lives, and everything is, as soon as the loop is closed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        loop.add_reader(self.mailbox.fileno(), self.dispatch)


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[LoopDispatcher]]
_loops = WeakKeyDictionary()
# A forked child may start loops of its own.
os.register_at_fork(after_in_child=_loops.clear)


def loop_dispatcher() -> LoopDispatcher:
    """Returns the dispatcher of the running loop."""
    loop = asyncio.get_running_loop()
    known = _loops.get(loop)
    dispatcher = None if known is None else known()
    if dispatcher is None:
        dispatcher = LoopDispatcher(loop)
        _loops[loop] = weakref.ref(dispatcher)
    return dispatcher


def _go_on(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def finish(operation: native.Operation) -> Any:
    """Waits for an operation. If the task is cancelled, so is the operation."""
    dispatcher = loop_dispatcher()
    mailbox, key = dispatcher.mailbox, dispatcher.new_key()
    try:
        done = operation.poll(mailbox, key)
        while done is None:
            future = asyncio.get_running_loop().create_future()
            dispatcher.handlers[key] = functools.partial(_go_on, future)
            await future
            done = operation.poll(mailbox, key)
    except BaseException:
        # Also if the loop is closed in the middle, and this coroutine with it.
        operation.cancel()
        raise
    finally:
        dispatcher.handlers.pop(key, None)
    return done[0]


class Pending(Coroutine[Any, Any, T]):
    """A call that may be awaited, or entered with ``async with``. Nothing is sent before that."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._entered: Any = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    async def __aenter__(self) -> T:
        self._entered = await self._coroutine
        entered: T = await self._entered.__aenter__()
        return entered

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self._entered.__aexit__(kind, error, trace)
