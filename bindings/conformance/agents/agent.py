"""The Python agent of the conformance scenarios, on asyncio. PROTOCOL.md says what each line means."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Dict, Optional, Union

from taketurns import Completion, Handle, HolderView, LockLost, TakeTurnsError, aio

Fields = Dict[str, Any]


def say(line: Fields) -> None:
    print(json.dumps(line), flush=True)


def seconds(milliseconds: Optional[int]) -> Optional[float]:
    return None if milliseconds is None else milliseconds / 1000


class Agent:
    def __init__(self) -> None:
        self.locks: Optional[aio.Locks] = None
        self.guards: Dict[str, Union[aio.Guard, aio.AllGuard]] = {}
        self.attempts: Dict[str, aio.Attempt] = {}
        self.acquires: Dict[int, asyncio.Task[Any]] = {}

    async def serve(self, command: Fields) -> None:
        try:
            answer = {"ok": await self.run(command)}
        except TakeTurnsError as error:
            answer = {"error": {"kind": error.kind, "message": str(error)}}
        except asyncio.CancelledError:
            answer = {"error": {"kind": "Cancelled", "message": "the acquire was cancelled"}}
        except (LookupError, OSError, ValueError) as error:
            answer = {"error": {"kind": "Protocol", "message": repr(error)}}
        say({"id": command["id"], **answer})

    async def run(self, command: Fields) -> Optional[Fields]:
        handler = getattr(self, "do_" + command["do"])
        result: Optional[Fields] = await handler(command)
        return result

    def client(self) -> aio.Locks:
        assert self.locks is not None
        return self.locks

    def guard(self, name: str) -> aio.Guard:
        guard = self.guards[name]
        assert isinstance(guard, aio.Guard)
        return guard

    def watch(self, name: str, guard: Union[aio.Guard, aio.Attempt]) -> None:
        def lost(error: LockLost) -> None:
            say({"event": "lost", "guard": name, "cause": error.cause})

        guard.on_lost(lost)

    def keep(self, name: str, guard: aio.Guard) -> Fields:
        self.watch(name, guard)
        self.guards[name] = guard
        return {"token": guard.token, "member": guard.member}

    async def do_connect(self, command: Fields) -> Fields:
        lease = seconds(command.get("waiter_lease_ms"))
        self.locks = await aio.connect(command["url"], who=command.get("who"), waiter_lease=lease)
        return {}

    async def do_acquire(self, command: Fields) -> Fields:
        options = {
            "timeout": seconds(command.get("within_ms")),
            "lease": seconds(command.get("lease_ms")),
            "max_hold": seconds(command.get("max_hold_ms")),
            "why": command.get("why", ""),
        }
        locks, name, kind = self.client(), command["lock"], command.get("kind", "mutex")
        if kind == "mutex":
            acquire = locks.mutex(name).acquire(**options)
        elif kind == "read":
            acquire = locks.rwlock(name).read(**options)
        elif kind == "write":
            acquire = locks.rwlock(name).write(**options)
        elif kind == "semaphore":
            acquire = locks.semaphore(name, command["of"]).acquire(command.get("take", 1), **options)
        elif kind == "pool":
            acquire = locks.pool(name).acquire(command.get("member"), **options)
        else:
            acquire = locks.election(name).campaign(**options)
        # A task of its own, for `cancel`.
        task = self.acquires[command["id"]] = asyncio.ensure_future(acquire)
        try:
            return self.keep(command["guard"], await task)
        finally:
            del self.acquires[command["id"]]

    async def do_try(self, command: Fields) -> Fields:
        locks, name, kind = self.client(), command["lock"], command.get("kind", "mutex")
        options = {"lease": seconds(command.get("lease_ms")), "why": command.get("why", "")}
        if kind == "mutex":
            guard = await locks.mutex(name).try_acquire(**options)
        elif kind == "read":
            guard = await locks.rwlock(name).try_read(**options)
        elif kind == "write":
            guard = await locks.rwlock(name).try_write(**options)
        elif kind == "semaphore":
            guard = await locks.semaphore(name, command["of"]).try_acquire(command.get("take", 1), **options)
        else:
            guard = await locks.pool(name).try_acquire(command.get("member"), **options)
        return {"token": None} if guard is None else self.keep(command["guard"], guard)

    async def do_cancel(self, command: Fields) -> Fields:
        task = self.acquires.get(command["acquire"])
        if task is not None:
            task.cancel()
        return {}

    async def do_check(self, command: Fields) -> Fields:
        return {"token": self.guard(command["guard"]).check()}

    async def do_release(self, command: Fields) -> Fields:
        await self.guards.pop(command["guard"]).release()
        return {}

    async def do_handle(self, command: Fields) -> Fields:
        guard = self.guard(command["guard"])
        del self.guards[command["guard"]]
        return {"handle": (await guard.into_handle()).expose()}

    async def do_adopt(self, command: Fields) -> Fields:
        return self.keep(command["guard"], await self.client().adopt(Handle.parse(command["handle"])))

    async def do_acquire_all(self, command: Fields) -> Fields:
        within = seconds(command.get("within_ms"))
        guards = await self.client().all(command["locks"]).acquire(timeout=within)
        self.guards[command["guard"]] = guards
        return {"tokens": guards.check()}

    async def do_begin(self, command: Fields) -> Fields:
        remember_for, attempts = seconds(command.get("for_ms")), command.get("attempts")
        once = self.client().once(command["lock"], remember_for=remember_for, attempts=attempts)
        begun = await once.begin(timeout=seconds(command.get("within_ms")), why=command.get("why", ""))
        if isinstance(begun, Completion):
            return {"done": told(begun)}
        self.watch(command["guard"], begun)
        self.attempts[command["guard"]] = begun
        return {"token": begun.token}

    async def do_done(self, command: Fields) -> Fields:
        await self.attempts.pop(command["guard"]).done(command.get("result", ""))
        return {}

    async def do_fail(self, command: Fields) -> Fields:
        await self.attempts.pop(command["guard"]).fail()
        return {}

    async def do_completion(self, command: Fields) -> Fields:
        done = await self.client().once(command["lock"]).completion()
        return {"done": None if done is None else told(done)}

    async def do_undo(self, command: Fields) -> Fields:
        return {"changed": await self.client().once(command["lock"]).undo()}

    async def do_pool_add(self, command: Fields) -> Fields:
        return {"changed": await self.client().pool(command["lock"]).add(command["member"])}

    async def do_leader(self, command: Fields) -> Optional[Fields]:
        leader = await self.client().election(command["lock"]).leader()
        return None if leader is None else seen(leader)

    async def do_inspect(self, command: Fields) -> Optional[Fields]:
        view = await self.client().inspect(command["lock"])
        if view is None:
            return None
        return {"kind": view.kind, "holders": [seen(one) for one in view.holders], "waiting": view.waiting}

    async def do_list(self, command: Fields) -> Fields:
        return {"locks": [view.name for view in await self.client().list(command["pattern"])]}

    async def do_break(self, command: Fields) -> Fields:
        at_once = command.get("at_once", False)
        broken = self.client().break_lock(command["lock"], token=command.get("token"), at_once=at_once)
        return {"holders": await broken}

    async def do_turns(self, command: Fields) -> Fields:
        mutex, file, tokens = self.client().mutex(command["lock"]), Path(command["file"]), []
        for _ in range(command["turns"]):
            async with mutex.acquire() as guard:
                tokens.append(guard.check())
                number = int(file.read_text())
                file.write_text(str(number + 1))
        return {"tokens": tokens}

    async def do_close(self, command: Fields) -> Fields:
        for guard in self.guards.values():
            await guard.release()
        for attempt in self.attempts.values():
            await attempt.fail()
        self.guards.clear()
        self.attempts.clear()
        await self.client().close()
        return {}


def told(done: Completion) -> Fields:
    return {"by": done.by, "why": done.why, "token": done.token, "failed": done.failed, "result": done.result}


def seen(holder: HolderView) -> Fields:
    return {"token": holder.token, "who": holder.who, "why": holder.why}


async def main() -> None:
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    agent = Agent()
    say({"event": "ready", "language": "python"})
    tasks = set()
    while line := await stdin.readline():
        task = asyncio.ensure_future(agent.serve(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    # Without releasing anything.
    os._exit(0)


asyncio.run(main())
