"""Work that is done once, for code without asyncio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Generic, NoReturn, Optional, TypeVar, Union

from . import _taketurns as native
from ._guard import Attempt
from ._options import OnceTerms, Seconds, no_pickle, seconds
from ._views import Completion, completion

T = TypeVar("T")


@dataclass(frozen=True)
class DidIt(Generic[T]):
    """This call did the work, and that is recorded."""

    value: T


class Once:
    """Work that is done once, by the first process that asks, on any machine.

    Then everybody who asks, and everybody who waits, is told who did it and when. If an attempt fails, or its process
    dies, the next in line tries. The work can run a second time if its process dies after the work and before that is
    recorded, or if the store loses the record: ``docs/once.md`` of the project says when each store may.
    """

    def __init__(self, client: native.Client, name: str, terms: OnceTerms) -> None:
        self._client, self._terms = client, terms
        self.name = name

    def run(
        self,
        work: Callable[[Attempt], T],
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Union[DidIt[T], Completion]:
        """Does the work, unless it is done: waits for its turn, calls ``work(attempt)``, and records what became of it.

        Returns :class:`DidIt` with what the work returned, or the :class:`Completion` of who did it before. If the work
        raises something, the attempt has failed, and this raises the same. The work may call ``attempt.done(result)``.
        """
        begun = self.begin(timeout=timeout, lease=lease, max_hold=max_hold, why=why)
        if isinstance(begun, Completion):
            return begun
        with begun as attempt:
            value = work(attempt)
        return DidIt(value)

    def begin(
        self,
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Union[Attempt, Completion]:
        """Waits until the work is done, or until it is this client's turn to attempt it.

        Options as for ``Mutex.acquire``. Raises ``Exhausted`` if the work failed as often as it may.
        """
        times = (seconds(timeout), seconds(lease), seconds(max_hold))
        begun = self._client.begin(self.name, self._terms, *times, why).wait()
        return completion(begun) if isinstance(begun, dict) else Attempt(begun)

    def try_begin(
        self, *, lease: Optional[Seconds] = None, max_hold: Optional[Seconds] = None, why: str = ""
    ) -> Union[Attempt, Completion, None]:
        """The same without waiting: returns ``None`` if others attempt it, or the pause after a failure is not over."""
        begun = self._client.try_begin(self.name, self._terms, seconds(lease), seconds(max_hold), why).wait()
        if begun is None:
            return None
        return completion(begun) if isinstance(begun, dict) else Attempt(begun)

    def completion(self) -> Optional[Completion]:
        """Returns by whom and when the work was done; ``None`` if it is not done. It only looks."""
        fields = self._client.completion(self.name).wait()
        return None if fields is None else completion(fields)

    def undo(self) -> bool:
        """Forgets that the work was done, and how often it failed. Returns whether there was anything to forget."""
        was_there: bool = self._client.undo(self.name).wait()
        return was_there

    def __repr__(self) -> str:
        return f"<taketurns.Once {self.name!r}>"

    def __reduce__(self) -> NoReturn:
        no_pickle(self)
