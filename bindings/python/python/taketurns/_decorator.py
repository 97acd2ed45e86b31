"""The decorator :func:`locked`."""

from __future__ import annotations

import functools
import inspect
import os
import string
import threading
from typing import Any, Callable, Dict, List, Optional, TypeVar, Union, cast

from . import aio
from ._locks import Locks, connect
from ._options import Seconds, store_url

F = TypeVar("F", bound=Callable[..., Any])

_shared: Dict[str, Locks] = {}
_shared_lock = threading.Lock()


def _forget() -> None:
    """A forked child connects anew. What it inherits is kept, but never used: it is the parent's."""
    global _shared, _shared_lock
    _inherited.append(_shared)
    _shared, _shared_lock = {}, threading.Lock()


_inherited: List[Dict[str, Locks]] = []
os.register_at_fork(after_in_child=_forget)


def _shared_locks(url: Optional[str]) -> Locks:
    """Returns this process's client of a store, connected at its first use."""
    url = store_url(url)
    with _shared_lock:
        if url not in _shared:
            _shared[url] = connect(url)
        return _shared[url]


def locked(
    name: str,
    *,
    locks: Union[Locks, aio.Locks, str, None] = None,
    timeout: Optional[Seconds] = None,
    lease: Optional[Seconds] = None,
    max_hold: Optional[Seconds] = None,
    at_least: Optional[Seconds] = None,
    why: Optional[str] = None,
) -> Callable[[F], F]:
    """Runs a function, or a coroutine function, while it holds the mutex of that name.

        @locked("orders/{order_id}", timeout=5)
        def ship(order_id: int) -> None: ...

    :param name: may have fields, which are the function's arguments.
    :param locks: the client, or the URL of a store. Without it the store in ``TAKETURNS_STORE``. A client for a URL is
        connected at the first call, and shared by all such functions of the process.
    :param why: what people see as the reason. Default: the function's name.

    The call raises :class:`AcquireTimeout` if the lock is not acquired in time, and :class:`LockLost` if it was lost
    before the function returned. A coroutine function is cancelled when its lock is lost.
    """
    has_fields = any(field is not None for _, field, _, _ in string.Formatter().parse(name))

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        def lock_name(args: Any, kwargs: Any) -> str:
            if not has_fields:
                return name
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return name.format(**bound.arguments)

        def client() -> Union[Locks, aio.Locks]:
            return _shared_locks(locks) if locks is None or isinstance(locks, str) else locks

        reason = function.__qualname__ if why is None else why
        options: Dict[str, Any] = {"timeout": timeout, "lease": lease, "max_hold": max_hold}
        options.update(at_least=at_least, why=reason)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_task(*args: Any, **kwargs: Any) -> Any:
                found = client()
                found = found.asyncio() if isinstance(found, Locks) else found
                async with found.mutex(lock_name(args, kwargs)).acquire(**options):
                    return await function(*args, **kwargs)

            return cast(F, run_task)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            found = client()
            if not isinstance(found, Locks):
                raise TypeError(f"{function.__qualname__} is not async, so locked() needs a client of taketurns.connect")
            with found.mutex(lock_name(args, kwargs)).acquire(**options):
                return function(*args, **kwargs)

        return cast(F, run)

    return decorate
