"""What people see of a lock. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple


@dataclass(frozen=True)
class HolderView:
    """A holder."""

    who: str
    why: str
    #: The client that keeps the lock: see ``Locks.client_id``.
    client: str
    token: Optional[int]
    #: What it asked for, such as ``"mutex"``, ``"read"`` or ``"2/4 permits"``.
    mode: str
    #: Which member it has, if the lock is a pool.
    member: Optional[str]
    held_for: float
    #: How much of its lease is left unless it renews.
    left: float
    #: Somebody broke it: it can't be renewed any more.
    is_broken: bool


@dataclass(frozen=True)
class WaiterView:
    """A waiter."""

    who: str
    why: str
    client: str
    mode: str
    waited_for: float


@dataclass(frozen=True)
class MemberView:
    """A member of a pool."""

    name: str
    is_held: bool
    #: It was removed while held, and goes when it is released.
    is_leaving: bool


@dataclass(frozen=True)
class LockView:
    """A lock at one instant."""

    name: str
    #: ``"mutex"``, ``"rwlock"``, ``"semaphore"`` or ``"pool"``.
    kind: str
    #: How many permits a semaphore has.
    permits: Optional[int]
    last_token: Optional[int]
    holders: Tuple[HolderView, ...]
    #: How many wait. ``waiters`` may show only the first of them.
    waiting: int
    waiters: Tuple[WaiterView, ...]
    members: Tuple[MemberView, ...]
    #: How long its quarantine still lasts, if it is in one.
    quarantine_left: Optional[float]


def lock_view(fields: Dict[str, Any]) -> LockView:
    fields["holders"] = tuple(HolderView(**holder) for holder in fields["holders"])
    fields["waiters"] = tuple(WaiterView(**waiter) for waiter in fields["waiters"])
    fields["members"] = tuple(MemberView(**member) for member in fields["members"])
    return LockView(**fields)


def holder_view(fields: Optional[Dict[str, Any]]) -> Optional[HolderView]:
    return None if fields is None else HolderView(**fields)
