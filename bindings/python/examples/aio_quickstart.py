"""The same with asyncio: if the lock is lost, the block is cancelled, and raises LockLost."""

import asyncio
import sys

from taketurns import aio


async def main(url: str) -> None:
    async with aio.connect(url) as locks:
        async with locks.mutex("orders/42").acquire(timeout=60, why="ship it") as guard:
            await asyncio.sleep(0.01)
            print(f"shipping order 42 with token {guard.check()}")


asyncio.run(main(sys.argv[1]))
