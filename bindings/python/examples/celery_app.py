"""Celery: one task per order at a time, whatever worker runs it.

    celery --app celery_app worker

A worker forks its processes after it has imported this file, and a lock client can't be used after a fork. So each
process connects when it begins.
"""

import os
import time
from pathlib import Path
from typing import Any, Optional

from celery import Celery  # type: ignore[import-untyped]
from celery.signals import worker_process_init, worker_process_shutdown  # type: ignore[import-untyped]

import taketurns

app = Celery("shop", broker=os.environ["BROKER"], backend=os.environ["BROKER"])
app.conf.broker_connection_retry_on_startup = True

locks: Optional[taketurns.Locks] = None


@worker_process_init.connect  # type: ignore[untyped-decorator]
def connect(**_: Any) -> None:
    global locks
    locks = taketurns.connect(os.environ["TAKETURNS_STORE"])


@worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def close(**_: Any) -> None:
    if locks is not None:
        locks.close()


# A task that can't have the lock within a minute is tried again later.
@app.task(autoretry_for=(taketurns.AcquireTimeout,), max_retries=10)  # type: ignore[untyped-decorator]
def ship(order_id: int, book: str) -> int:
    assert locks is not None
    with locks.mutex(f"orders/{order_id}").acquire(timeout=60, why=f"ship {order_id}") as guard:
        # What the lock guards: two of these at a time would lose a line.
        lines = Path(book).read_text()
        time.sleep(0.02)
        Path(book).write_text(f"{lines}{guard.check()}\n")
        return guard.check()
