"""What people see of a lock. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
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
    #: It was released or lost, and stays for the time that its acquire set with ``at_least``.
    is_resting: bool


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
    #: Its last holder did not give it back in time.
    is_stale: bool


@dataclass(frozen=True)
class Completion:
    """Who did the work of a once, and when, by the store's clock."""

    by: str
    why: str
    at: datetime
    #: When it is forgotten.
    until: datetime
    token: int
    #: How many attempts failed before.
    failed: int
    #: What its worker said of it.
    result: str


@dataclass(frozen=True)
class WorkView:
    """What is remembered of the work of a once."""

    #: How many attempts failed; of work that is done, before it was.
    failed: int
    #: How long the first in line still waits because the last attempt failed.
    retry_in: Optional[float]
    #: How long it is still remembered.
    forgotten_in: float
    #: By whom and when it was done, if it is.
    done: Optional[Completion]


@dataclass(frozen=True)
class LockView:
    """A lock at one instant."""

    name: str
    #: ``"mutex"``, ``"rwlock"``, ``"semaphore"``, ``"pool"`` or ``"once"``.
    kind: str
    #: How many permits a semaphore has.
    permits: Optional[int]
    last_token: Optional[int]
    holders: Tuple[HolderView, ...]
    #: How many wait. ``waiters`` may show only the first of them.
    waiting: int
    waiters: Tuple[WaiterView, ...]
    members: Tuple[MemberView, ...]
    #: What is remembered of the work, if it is a once.
    work: Optional[WorkView]
    #: How long its quarantine still lasts, if it is in one.
    quarantine_left: Optional[float]


def lock_view(fields: Dict[str, Any]) -> LockView:
    fields["holders"] = tuple(HolderView(**holder) for holder in fields["holders"])
    fields["waiters"] = tuple(WaiterView(**waiter) for waiter in fields["waiters"])
    fields["members"] = tuple(MemberView(**member) for member in fields["members"])
    work = fields["work"]
    if work is not None:
        done = work["done"]
        fields["work"] = WorkView(**{**work, "done": None if done is None else completion(done)})
    return LockView(**fields)


def completion(fields: Dict[str, Any]) -> Completion:
    return Completion(at=_moment(fields.pop("at_ms")), until=_moment(fields.pop("until_ms")), **fields)


def _moment(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)


def holder_view(fields: Optional[Dict[str, Any]]) -> Optional[HolderView]:
    return None if fields is None else HolderView(**fields)
