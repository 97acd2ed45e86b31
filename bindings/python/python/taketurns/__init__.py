"""A distributed lock that is fair, fenced, leased, event-driven and cancel-safe.

    import taketurns

    with taketurns.connect("redis://localhost") as locks:
        with locks.mutex("orders/42").acquire(timeout=5) as guard:
            storage.write(order, token=guard.check())  # raises LockLost if the lock is lost

The same for asyncio is in :mod:`taketurns.aio`. Times are seconds, or ``timedelta``.
"""

from . import aio, metrics
from ._decorator import locked
from ._errors import (
    AcquireTimeout,
    ClientClosed,
    Exhausted,
    ForkError,
    Indeterminate,
    InvalidArgument,
    KindMismatch,
    LockLost,
    NoQuorum,
    NotHeld,
    PoolFull,
    Quarantined,
    QueueFull,
    StoreError,
    StoreUnusable,
    TakeTurnsError,
    Unfenced,
    Unreachable,
    Unsupported,
)
from ._guard import AllGuard, Attempt, Guard
from ._kinds import All, Election, Mutex, Pool, RwLock, Semaphore
from ._locks import Locks, connect
from ._once import DidIt, Once
from ._taketurns import Handle, __version__
from ._views import Completion, HolderView, LockView, MemberView, WaiterView, WorkView

__all__ = [
    "AcquireTimeout",
    "All",
    "AllGuard",
    "Attempt",
    "ClientClosed",
    "Completion",
    "DidIt",
    "Election",
    "Exhausted",
    "ForkError",
    "Guard",
    "Handle",
    "HolderView",
    "Indeterminate",
    "InvalidArgument",
    "KindMismatch",
    "LockLost",
    "LockView",
    "Locks",
    "MemberView",
    "Mutex",
    "NoQuorum",
    "NotHeld",
    "Once",
    "Pool",
    "PoolFull",
    "Quarantined",
    "QueueFull",
    "RwLock",
    "Semaphore",
    "StoreError",
    "StoreUnusable",
    "TakeTurnsError",
    "Unfenced",
    "Unreachable",
    "Unsupported",
    "WaiterView",
    "WorkView",
    "__version__",
    "aio",
    "connect",
    "locked",
    "metrics",
]
