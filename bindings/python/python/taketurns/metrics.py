"""What this process did with its locks, as text for Prometheus.

``docs/metrics.md`` of the project lists every metric. Lock names are never labels.
"""

from __future__ import annotations

from typing import Iterable

from . import _taketurns as native
from ._dispatch import notices

#: The upper bounds of the histograms, in seconds.
BUCKETS = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0)


def enable(buckets: Iterable[float] = BUCKETS) -> None:
    """Counts and measures from now on. Call it before the first ``connect``; later calls change nothing."""
    native.enable_metrics(list(buckets))
    notices().tidy()


def render() -> str:
    """Returns all metrics as text: what a ``/metrics`` endpoint answers."""
    return native.render_metrics()
