// The other kinds of locks, and what can be asked of a store.

import { connect, type HolderView, LostError, TimeoutError } from "taketurns";

const stop = new AbortController();
await using locks = await connect("memory:", { who: "example", waiterLease: 3_000, signal: stop.signal });

// Many readers or one writer.
await using reader = await locks.rwlock("config").read();
console.log(await locks.rwlock("config").tryWrite()); // null: somebody reads

// Three permits of four.
await using gpus = await locks.semaphore("gpu", 4).acquireMany(3, { signal: stop.signal });

// Any member of a pool.
const browsers = locks.pool("browsers");
await browsers.add("b-1");
await using browser = await browsers.any({ lease: 10_000 });
const member: string | null = browser.member;
console.log(member);

// Two accounts at once, without deadlock.
await using both = await locks.all(["to", "from"]).acquire();
console.log([...both.check().keys()]);

// One leader; the next one takes over if this one loses the lock.
const election = locks.election("scheduler");
const jobs: number = await election.lead(async (leadership) => {
  const leader: HolderView | null = await election.leader();
  console.log(leader?.why, leadership.check() === leader?.token);
  return 3;
}, { why: "node-1" });

// A held lock goes to another process, as text.
const handle = await (await locks.mutex("import").acquire()).intoHandle();
await using adopted = await locks.adopt(handle.expose());

try {
  await locks.mutex("import").acquire({ within: 10 });
} catch (error) {
  if (error instanceof TimeoutError) console.log(error.lock, error.retryable);
}
await locks.breakLock("import", { token: adopted.token!, atOnce: true });
try {
  adopted.check();
} catch (error) {
  if (error instanceof LostError) console.log(error.lossCause);
}
for (const { name, kind, holders, waiting } of await locks.list("*", { waiters: 10 })) {
  console.log(name, kind, holders.length, waiting);
}

// Work that is done once, on one machine of all.
const report = locks.once("report", { rememberFor: 7 * 24 * 60 * 60 * 1_000, attempts: 3 });
const outcome = await report.run((attempt) => attempt.done("3 files"), { why: "nightly" });
console.log(outcome.didIt ? "did it" : outcome.completion.by);
const { attempt, completion } = await report.begin();
if (attempt) await attempt.fail();
else console.log(completion.result, completion.at < completion.until);

const sum: number = await locks.mutex("sum").run(() => jobs + 1, { keep: "until-wanted" });
console.log(sum);
await adopted.release().catch((error: unknown) => console.log(error instanceof LostError));
