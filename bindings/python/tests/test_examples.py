"""The examples and recipes run, and a type checker accepts them and finds the mistakes of `wrong.py`."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PATIENCE, Place

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
README = EXAMPLES.parent / "README.md"
SOUND = sorted(path for path in EXAMPLES.glob("*.py") if path.name != "wrong.py")


def mypy(*paths: Path) -> subprocess.CompletedProcess[str]:
    cache = os.environ.get("TAKETURNS_MYPY_CACHE") or os.devnull
    config = EXAMPLES.parent / "pyproject.toml"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(config), "--cache-dir", cache]
    command += ["--no-error-summary", "--hide-error-context", *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True)


def test_mypy_accepts_the_examples_and_finds_each_mistake_of_the_wrong_one() -> None:
    agents = EXAMPLES.parents[1] / "conformance/agents"
    checked = mypy(*SOUND, EXAMPLES / "wrong.py", *agents.glob("*.py"))
    reported: dict[tuple[str, int], str] = {}
    for line in checked.stdout.splitlines():
        path, number, kind, text = line.split(":", 3)
        if kind.strip() == "error":
            # A line may have several.
            reported.setdefault((Path(path).name, int(number)), text.strip())
    expected = {}
    for at, line in enumerate((EXAMPLES / "wrong.py").read_text().splitlines(), 1):
        if "# error: " in line:
            expected[("wrong.py", at)] = line.split("# error: ")[1]
    assert len(expected) == 12
    assert reported.keys() == expected.keys(), checked.stdout + checked.stderr
    for place, text in expected.items():
        assert reported[place].startswith(text), (place, reported[place])


def test_mypy_accepts_the_package_and_its_tests() -> None:
    sources = EXAMPLES.parent / "python/taketurns"
    checked = mypy(sources, *sorted((EXAMPLES.parent / "tests").glob("*.py")))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("example", ["quickstart.py", "aio_quickstart.py", "kinds.py"])
def test_the_example_runs(example: str, url: str) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / example), url]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout, ran.stderr


def test_the_readme_runs(every_url: str) -> None:
    """Every block of Python, each as a program of its own."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        assert "redis://localhost" in block or "TAKETURNS_STORE" in block
        if ".once(" in block and every_url.startswith("quorum:"):
            continue  # A quorum has none.
        # The machine may be busy.
        program = block.replace("redis://localhost", every_url).replace("timeout=5", "timeout=60")
        env = {**os.environ, "TAKETURNS_STORE": every_url}
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
        assert ran.returncode == 0, ran.stderr


def test_celery_tasks_take_turns(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes of a real worker, with a real broker."""
    monkeypatch.setenv("BROKER", place.redis + "/1")
    monkeypatch.setenv("TAKETURNS_STORE", place.redis)
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES), prepend=os.pathsep)
    monkeypatch.syspath_prepend(EXAMPLES)
    command = [sys.executable, "-m", "celery", "--app", "celery_app", "worker", "--concurrency", "2"]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "warning"]
    book = tmp_path / "book"
    book.write_text("")
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as worker:
        try:
            ship = importlib.import_module("celery_app").ship
            sent = [ship.delay(42, str(book)) for _ in range(8)]
            tokens = sorted(task.get(timeout=PATIENCE) for task in sent)
        finally:
            worker.terminate()
            said, _ = worker.communicate()
    assert book.read_text().split() == [str(token) for token in tokens], said


def test_fastapi_requests_take_turns(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    monkeypatch.setenv("TAKETURNS_STORE", url)
    app = runpy.run_path(str(EXAMPLES / "fastapi_app.py"))["app"]

    async def main() -> None:
        transport = httpx.ASGITransport(app)
        async with app.router.lifespan_context(app):
            async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
                paid = await asyncio.gather(*(client.post("/customers/7/pay/5?wait=60") for _ in range(8)))
                assert sorted(answer.json()["balance"] for answer in paid) == list(range(5, 45, 5))
                async with app.state.locks.mutex("customers/7").acquire():
                    refused = await client.post("/customers/7/pay/5?wait=0")
                assert refused.status_code == 409
                metrics = await client.get("/metrics")
                assert "taketurns_acquire_wait_seconds_count" in metrics.text

    asyncio.run(main())
