"""The native part. Import ``taketurns`` instead."""

from types import TracebackType
from typing import Any, Dict, List, Optional, Tuple, Type, Union, final

from typing_extensions import Self

from ._options import OnceTerms

__version__: str

@final
class Operation:
    def wait(self) -> Any: ...
    def poll(self, mailbox: Mailbox, key: int) -> Optional[Tuple[Any]]: ...
    def cancel(self) -> None: ...

@final
class Mailbox:
    def __new__(cls) -> Mailbox: ...
    def fileno(self) -> int: ...
    def take(self) -> List[int]: ...
    def post(self, key: int) -> None: ...
    def wait(self, timeout: Optional[float] = None) -> None: ...

@final
class Client:
    def acquire(
        self,
        name: str,
        kind: str,
        take: int,
        of: int,
        member: Optional[str],
        timeout: Optional[float],
        lease: Optional[float],
        max_hold: Optional[float],
        at_least: Optional[float],
        why: str,
        keep: Union[int, str, None],
    ) -> Operation: ...
    def try_acquire(
        self,
        name: str,
        kind: str,
        take: int,
        of: int,
        member: Optional[str],
        lease: Optional[float],
        max_hold: Optional[float],
        at_least: Optional[float],
        why: str,
    ) -> Operation: ...
    def acquire_all(
        self,
        names: List[str],
        timeout: Optional[float],
        lease: Optional[float],
        max_hold: Optional[float],
        why: str,
    ) -> Operation: ...
    def begin(
        self,
        name: str,
        once: OnceTerms,
        timeout: Optional[float],
        lease: Optional[float],
        max_hold: Optional[float],
        why: str,
    ) -> Operation: ...
    def try_begin(
        self, name: str, once: OnceTerms, lease: Optional[float], max_hold: Optional[float], why: str
    ) -> Operation: ...
    def completion(self, name: str) -> Operation: ...
    def undo(self, name: str) -> Operation: ...
    def adopt(self, handle: str) -> Operation: ...
    def renew_handle(self, handle: Handle, lease: Optional[float]) -> Operation: ...
    def release_handle(self, handle: Handle) -> Operation: ...
    def inspect(self, name: str) -> Operation: ...
    def list(self, pattern: str, waiters: int) -> Operation: ...
    def break_lock(self, name: str, token: Optional[int], at_once: bool) -> Operation: ...
    def pool_add(self, name: str, member: str) -> Operation: ...
    def pool_remove(self, name: str, member: str) -> Operation: ...
    def resize(self, name: str, permits: int) -> Operation: ...
    def leader(self, name: str) -> Operation: ...
    def observe(self, name: str, every: float) -> Observer: ...
    def client_id(self) -> str: ...
    def close(self) -> Operation: ...

class Guard:
    def __new__(cls, guard: Guard) -> Self: ...
    @property
    def name(self) -> str:
        """The lock's name."""
    @property
    def token(self) -> Optional[int]:
        """The fencing token, whether the lock is still held or not. ``None`` if the store has no tokens."""
    @property
    def member(self) -> Optional[str]:
        """Which member of the pool it is, if the lock is a pool."""
    def check(self) -> int:
        """Returns the fencing token if the lock is still held, for the resource to compare.

        Call it right before each use of what the lock guards. Raises :class:`LockLost`, for good, from the moment on
        from which somebody else may hold the lock.
        """
    def is_held(self) -> bool:
        """Returns whether it is still held. Once it is not, it never is again."""
    def is_over(self) -> bool: ...
    @property
    def left(self) -> float:
        """For how many seconds it stays held if it is never renewed again; 0 once it is lost."""
    @property
    def trouble(self) -> Optional[str]:
        """Why the last renewal failed, unless a later one succeeded."""
    def begin_lost(self) -> Operation: ...
    def begin_release(self) -> Operation: ...
    def begin_done(self, result: str) -> Operation: ...
    def done_and_wait(self, result: str = "") -> None:
        """Records that the work is done. Raises :class:`LockLost` if the attempt was lost before."""
    def release_and_wait(self) -> None:
        """Releases the lock. Raises :class:`LockLost` if it was lost before."""
    def exit_and_wait(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType], /
    ) -> None: ...
    def begin_handle(self) -> Operation: ...

class AllGuard:
    def __new__(cls, guard: AllGuard) -> Self: ...
    def check(self) -> Dict[str, int]:
        """Returns the token of each lock if all are still held. Raises :class:`LockLost` for the first that is not."""
    def is_held(self) -> bool:
        """Returns whether all are still held."""
    def is_over(self) -> bool: ...
    def begin_lost(self) -> Operation: ...
    def begin_release(self) -> Operation: ...
    def release_and_wait(self) -> None:
        """Releases all of them. Raises :class:`LockLost` if one was lost before."""
    def exit_and_wait(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType], /
    ) -> None: ...

@final
class Handle:
    """A held lock that nobody renews, on its way to another process, which adopts it with ``Locks.adopt``.

    A handle is a secret: it is enough to release the lock.
    """

    @staticmethod
    def parse(text: str) -> Handle:
        """Parses what ``expose`` returned."""
    def expose(self) -> str:
        """Returns the handle as one line of text. It is a secret: keep it out of logs and command lines."""
    @property
    def name(self) -> str: ...
    @property
    def token(self) -> Optional[int]: ...

@final
class Observer:
    def changed(self) -> Operation: ...

def connect(
    url: str, who: str, waiter_lease: Optional[float], timeout: Optional[float]
) -> Operation: ...
def log_level(level: int, mailbox: Mailbox) -> None: ...
def take_logs() -> List[Tuple[int, str, str]]: ...
def enable_metrics(buckets: List[float]) -> None: ...
def render_metrics() -> str: ...
def tidy_metrics() -> bool: ...
