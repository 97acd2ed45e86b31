"""Work that is done once, for asyncio."""

from __future__ import annotations

from typing import Awaitable, Callable, NoReturn, Optional, TypeVar, Union

from . import _taketurns as native
from ._aio_guard import Attempt
from ._loops import finish
from ._once import DidIt
from ._options import OnceTerms, Seconds, no_pickle, seconds
from ._views import Completion, completion

T = TypeVar("T")


class Once:
    """Work that is done once, by the first process that asks, on any machine. See :class:`taketurns.Once`."""

    def __init__(self, client: native.Client, name: str, terms: OnceTerms) -> None:
        self._client, self._terms = client, terms
        self.name = name

    async def run(
        self,
        work: Callable[[Attempt], Awaitable[T]],
        *,
        timeout: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        why: str = "",
    ) -> Union[DidIt[T], Completion]:
        """Does the work, unless it is done: waits for its turn, awaits ``work(attempt)``, and records what became of it.

        Returns and raises as :meth:`taketurns.Once.run` does. A loss cancels the work at its next ``await``.
        """
        begun = await self.begin(timeout=timeout, lease=lease, max_hold=max_hold, why=why)
        if isinstance(begun, Completion):
            return begun
        async with begun as attempt:
            value = await work(attempt)
        return DidIt(value)

    async def begin(
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
        begun = await finish(self._client.begin(self.name, self._terms, *times, why))
        return completion(begun) if isinstance(begun, dict) else Attempt(begun)

    async def try_begin(
        self, *, lease: Optional[Seconds] = None, max_hold: Optional[Seconds] = None, why: str = ""
    ) -> Union[Attempt, Completion, None]:
        """The same without waiting: returns ``None`` if others attempt it, or the pause after a failure is not over."""
        begun = await finish(self._client.try_begin(self.name, self._terms, seconds(lease), seconds(max_hold), why))
        if begun is None:
            return None
        return completion(begun) if isinstance(begun, dict) else Attempt(begun)

    async def completion(self) -> Optional[Completion]:
        """Returns by whom and when the work was done; ``None`` if it is not done. It only looks."""
        fields = await finish(self._client.completion(self.name))
        return None if fields is None else completion(fields)

    async def undo(self) -> bool:
        """Forgets that the work was done, and how often it failed. Returns whether there was anything to forget."""
        was_there: bool = await finish(self._client.undo(self.name))
        return was_there

    def __repr__(self) -> str:
        return f"<taketurns.aio.Once {self.name!r}>"

    def __reduce__(self) -> NoReturn:
        no_pickle(self)
