"""How Python hears of what happened on the client's thread.

The native part notes a key in a mailbox; a thread or an event loop reads it, and calls what the key stands for. There
is one mailbox per event loop, and one per process for the thread ``taketurns-notices``, which runs ``on_lost``
callbacks of guards without asyncio and passes log events on. That thread runs while a client is open.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import weakref
from typing import Any, Callable, Dict, Optional

from . import _taketurns as native
from ._errors import LockLost

_LOGS = 0
_ROOT = logging.getLogger("taketurns")

#: How often metrics are tidied up, in seconds, if they are on.
_TIDY_EVERY = 5.0


class Dispatcher:
    """A mailbox, and what its keys stand for."""

    def __init__(self) -> None:
        self.mailbox = native.Mailbox()
        self.handlers: Dict[int, Callable[[], None]] = {}
        self._keys = itertools.count(_LOGS + 1)

    def new_key(self) -> int:
        return next(self._keys)

    def dispatch(self) -> None:
        for key in self.mailbox.take():
            handler = self.handlers.get(key)
            if handler is not None:
                handler()

    def tidy(self) -> None:
        """A watch was closed."""


class Watch:
    """Calls ``fire`` once with a ``LockLost``, on the dispatcher's thread, when a lock is lost.

    Its guard keeps it: with the guard it ends. ``fire`` must not refer to the guard.
    """

    def __init__(self, lost: native.Operation, dispatcher: Dispatcher, fire: Callable[[LockLost], None]) -> None:
        self._lost, self._dispatcher, self._fire = lost, dispatcher, fire
        self._error: Optional[LockLost] = None
        key = self._key = dispatcher.new_key()
        handlers = dispatcher.handlers
        this = weakref.ref(self, lambda _: handlers.pop(key, None))

        def handler() -> None:
            watch = this()
            if watch is not None:
                watch._look()

        handlers[key] = handler
        done = lost.poll(dispatcher.mailbox, key)
        if done is not None:
            # Lost before: told by the dispatcher's thread all the same.
            self._error = done[0]
            dispatcher.mailbox.post(key)

    def _look(self) -> None:
        error = self._error
        if error is None:
            try:
                done = self._lost.poll(self._dispatcher.mailbox, self._key)
            except RuntimeError:
                return  # It was closed meanwhile.
            if done is None:
                return
            error = done[0]
        if self._dispatcher.handlers.pop(self._key, None) is not None:
            self._fire(error)

    def close(self) -> None:
        if self._dispatcher.handlers.pop(self._key, None) is not None:
            self._lost.cancel()
            self._dispatcher.tidy()


class Notices(Dispatcher):
    """The mailbox of the thread ``taketurns-notices``."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._clients = 0
        self._thread: Optional[threading.Thread] = None

    def join(self) -> None:
        """A client is opened."""
        native.log_level(min(_ROOT.getEffectiveLevel(), 50), self.mailbox)
        with self._lock:
            self._clients += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="taketurns-notices", daemon=True)
                self._thread.start()

    def leave(self) -> None:
        """A client is closed."""
        with self._lock:
            self._clients -= 1
        self.tidy()

    def tidy(self) -> None:
        """Lets the thread find out whether anybody still needs it."""
        if self._clients == 0:
            self.mailbox.post(_LOGS)

    def _run(self) -> None:
        while True:
            self.mailbox.wait(_TIDY_EVERY if native.tidy_metrics() else None)
            log()
            try:
                self.dispatch()
            except Exception:
                _ROOT.exception("a callback for a lost lock failed")
            with self._lock:
                if self._clients == 0 and not self.handlers:
                    self._thread = None
                    return


def log() -> None:
    """Passes log events on to ``logging``."""
    for level, name, message in native.take_logs():
        logging.getLogger(name).log(level, "%s", message)


_notices: Optional[Notices] = None
_notices_lock = threading.Lock()


def notices() -> Notices:
    global _notices
    with _notices_lock:
        if _notices is None:
            _notices = Notices()
        return _notices


def _forget() -> None:
    """In a forked child, where the thread does not exist."""
    global _notices, _notices_lock
    _notices, _notices_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def call_all(callbacks: Any, error: LockLost) -> None:
    """Calls each, even if one fails."""
    for callback in callbacks:
        try:
            callback(error)
        except Exception:
            _ROOT.exception("the on_lost callback %r failed", callback)
