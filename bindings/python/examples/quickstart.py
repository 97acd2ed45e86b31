"""A lock in a program: `python quickstart.py redis://localhost`."""

import sys

import taketurns


def main(url: str) -> None:
    with taketurns.connect(url) as locks:
        with locks.mutex("orders/42").acquire(timeout=60, why="ship it") as guard:
            token = guard.check()  # raises LockLost if the lock is lost; the resource refuses older tokens
            print(f"shipping order 42 with token {token}")


main(sys.argv[1])
