"""Each kind of lock once: `python kinds.py file:/tmp/locks.db`."""

import sys
from datetime import timedelta

import taketurns


def main(url: str) -> None:
    with taketurns.connect(url, who="kinds.py") as locks:
        config = locks.rwlock("config")
        with config.read(), config.read():
            print("two readers; a writer would wait:", config.try_write() is None)

        with locks.semaphore("gpu", 4).acquire(2):
            print("two of four permits")

        browsers = locks.pool("browsers")
        browsers.add("b-1")
        with browsers.acquire() as browser:
            print("has member", browser.member)

        with locks.all(["from", "to"]).acquire() as both:
            print("holds", sorted(both.check()))

        election = locks.election("scheduler")
        with election.campaign(why="node-1"):
            leader = election.leader()
            assert leader is not None
            print("leader:", leader.who, leader.why)

        report = locks.once("report", remember_for=timedelta(days=7), attempts=3)
        report.run(lambda attempt: attempt.done("3 files"), why="nightly")
        done = report.completion()
        assert done is not None
        print("done by", done.by, "at", done.at, "with", done.result)

        handle = locks.mutex("import").acquire().into_handle()
        with locks.adopt(handle.expose()) as adopted:  # in another process
            print("adopted", adopted.name)


main(sys.argv[1])
