"""The exceptions of this package. Each says what happened, to which lock, and what to do."""

from __future__ import annotations

from typing import Dict, Optional, Type


class TakeTurnsError(Exception):
    """Every exception of this package is one of these."""

    #: The name of the error in every language, such as ``"Timeout"``.
    kind: str = ""
    #: The lock that it is about, if it is about one.
    lock: Optional[str] = None
    #: Whether the same call may succeed later, without anybody changing anything.
    is_retryable: bool = False


class AcquireTimeout(TakeTurnsError, TimeoutError):
    """Others held the lock for all of the time given by ``timeout``."""


class LockLost(TakeTurnsError):
    """The lock was held, and is not any more. Somebody else may hold it by now."""

    #: ``"expired"``, ``"gone"``, ``"revoked"``, ``"max_hold"``, ``"clock_set"`` or ``"unattended"``.
    cause: str = ""


class NotHeld(TakeTurnsError):
    """The lock is not held by this guard or handle: it was released, or its lease ended."""


class KindMismatch(TakeTurnsError):
    """The lock is in use as another kind, or as a semaphore of another size."""


class QueueFull(TakeTurnsError):
    """The queue of the lock has its greatest length."""


class PoolFull(TakeTurnsError):
    """The pool has the most members that it can have."""


class Exhausted(TakeTurnsError):
    """The work of a once failed as often as it may, and nobody may try until that is forgotten or undone."""


class Unfenced(TakeTurnsError):
    """The store speaks a foreign protocol that has no fencing tokens."""


class Quarantined(TakeTurnsError):
    """The store was restarted or failed over, and grants nothing for now."""


class StoreError(TakeTurnsError):
    """The store can't be reached or used."""


class Unreachable(StoreError, ConnectionError):
    """The store could not be reached, and the request was never placed there."""


class NoQuorum(StoreError, ConnectionError):
    """Too few nodes of a quorum could be reached."""


class Indeterminate(StoreError):
    """The request was sent, but its outcome is unknown."""


class StoreUnusable(StoreError):
    """The store can be reached but not used: damaged, full, of another format, not ours."""


class Unsupported(StoreError):
    """The store can't do what was asked for."""


class InvalidArgument(TakeTurnsError, ValueError):
    """What was asked for can't be: a name, a label, a lease, a URL, …"""


class ClientClosed(TakeTurnsError):
    """The client was closed."""


class ForkError(TakeTurnsError, RuntimeError):
    """A client, guard or handle of the parent process was used after a fork."""


_CLASSES: Dict[str, Type[TakeTurnsError]] = {
    "Timeout": AcquireTimeout,
    "Unreachable": Unreachable,
    "NoQuorum": NoQuorum,
    "Indeterminate": Indeterminate,
    "Lost": LockLost,
    "NotHeld": NotHeld,
    "KindMismatch": KindMismatch,
    "QueueFull": QueueFull,
    "PoolFull": PoolFull,
    "Exhausted": Exhausted,
    "Unfenced": Unfenced,
    "Quarantined": Quarantined,
    "Store": StoreUnusable,
    "Unsupported": Unsupported,
    "Closed": ClientClosed,
    "Forked": ForkError,
}


def make(kind: str, message: str, lock: Optional[str], is_retryable: bool, cause: Optional[str]) -> TakeTurnsError:
    """Makes the exception of a kind. Called by the native part."""
    invalid = InvalidArgument if kind.startswith("Invalid") else TakeTurnsError
    error = _CLASSES.get(kind, invalid)(message)
    error.kind, error.lock, error.is_retryable = kind, lock, is_retryable
    if isinstance(error, LockLost):
        error.cause = cause or ""
    return error
