"""What users pass, as the native part takes it."""

from __future__ import annotations

import os
import socket
import sys
from datetime import timedelta
from typing import NamedTuple, NoReturn, Optional, Union

from ._errors import make

Seconds = Union[int, float, timedelta]
"""A time: a number of seconds, or a ``timedelta``."""

Keep = Union[int, str, None]
"""How long this process may keep a mutex for its own use: a number of turns, or ``"until_wanted"``."""

#: The environment variable with the URL of the store, as for the program ``taketurns``.
STORE = "TAKETURNS_STORE"


def seconds(time: Optional[Seconds]) -> Optional[float]:
    if time is None:
        return None
    return time.total_seconds() if isinstance(time, timedelta) else float(time)


class OnceTerms(NamedTuple):
    """How long the work of a once is remembered, and how often it is tried, as the native part takes it."""

    remember_for: Optional[float]
    every: Optional[float]
    offset: Optional[float]
    attempts: Optional[int]
    pause: Optional[float]


def once_terms(
    remember_for: Optional[Seconds],
    every: Optional[Seconds],
    offset: Optional[Seconds],
    attempts: Optional[int],
    pause: Optional[Seconds],
) -> OnceTerms:
    return OnceTerms(seconds(remember_for), seconds(every), seconds(offset), attempts, seconds(pause))


def store_url(url: Optional[str]) -> str:
    if url is None:
        url = os.environ.get(STORE)
    if url is None:
        message = f'no store was given: connect to one by its URL, such as "redis://localhost", or set {STORE}'
        raise make("InvalidUrl", message, None, False, None)
    return url


def default_who() -> str:
    """Host, process and script, as people see them in views."""
    script = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    who = f"{socket.gethostname()}:{os.getpid()} {script}"
    # The rest of a label is for the reason.
    return "".join(char for char in who if char.isprintable())[:64]


def no_pickle(thing: object) -> NoReturn:
    raise TypeError(
        f"{thing!r} can't be sent to another process: connect there, and carry a held lock with guard.into_handle()"
    )
