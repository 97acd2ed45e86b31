"""Stores for the tests: real servers, which `taketurns-place` starts and which end with its input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Iterator

import pytest

import taketurns

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Place:
    """Where the servers are."""

    redis: str
    quorum: str
    postgres: str
    folder: Path
    stdin: IO[str]
    stdout: IO[str]

    def tell(self, word: str) -> None:
        """`pause`, `resume`, `kill` or `restart` the Redis server."""
        self.stdin.write(word + "\n")
        self.stdin.flush()
        assert self.stdout.readline() == "ok\n"


def place_program() -> Path:
    """Beside the build of the package, unless the test command says where."""
    named = os.environ.get("TAKETURNS_PLACE")
    return Path(named) if named else ROOT / "target/debug/taketurns-place"


@pytest.fixture(scope="session")
def place() -> Iterator[Place]:
    command = [str(place_program())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        told = json.loads(child.stdout.readline())
        folder = Path(told["folder"])
        yield Place(told["redis"], told["quorum"], told["postgres"], folder, child.stdin, child.stdout)
        child.stdin.close()


def url_of(store: str, place: Place, folder: Path) -> str:
    served = {"redis": place.redis, "quorum": place.quorum, "postgres": place.postgres}
    return served.get(store) or f"file:{folder / 'locks.db'}"


@pytest.fixture(params=["file", "redis", "quorum", "postgres"])
def every_url(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> str:
    """The URL of each kind of store in turn."""
    return url_of(request.param, place, tmp_path)


@pytest.fixture(params=["file", "redis", "postgres"])
def url(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> str:
    """The URL of each kind of store that has all kinds of locks."""
    return url_of(request.param, place, tmp_path)


@pytest.fixture
def locks(url: str) -> Iterator[taketurns.Locks]:
    with taketurns.connect(url) as locks:
        yield locks


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for a lock of this test alone."""
    return str(request.node.name)


#: No wait of a test takes longer on a healthy machine, in seconds.
PATIENCE = 60.0


def until_waiting(locks: taketurns.Locks, name: str, count: int) -> None:
    """Returns when this number of clients wait for a lock."""
    deadline = time.monotonic() + PATIENCE
    while True:
        view = locks.inspect(name)
        if view is not None and view.waiting == count:
            return
        assert time.monotonic() < deadline, view


def run_python(script: str, *args: str, timeout: float = PATIENCE, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a script as a process of its own."""
    command = [sys.executable, "-c", script, *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **env}
    )
