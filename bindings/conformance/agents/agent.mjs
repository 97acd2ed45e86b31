// The Node agent of the conformance scenarios: the package as an application uses it, driven by JSON lines. PROTOCOL.md
// says what each line means. `NODE_PATH` names the folder that has the package.

import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { connect, TakeTurnsError } = createRequire(import.meta.url)("taketurns");

let locks;
// Guards by the names that the driver gave them.
const guards = new Map();
// Attempts at the work of a once, by their names.
const attempts = new Map();
// What stops acquires that wait, by the ids of their commands.
const waits = new Map();

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

const keep = (name, guard, kept = guards) => {
  kept.set(name, guard);
  const tell = () => say({ event: "lost", guard: name, cause: guard.lost.reason.lossCause });
  guard.lost.addEventListener("abort", tell, { once: true });
  return { token: guard.token, member: guard.member };
};

const times = ({ within_ms: within, lease_ms: lease, max_hold_ms: maxHold, why }) => ({ within, lease, maxHold, why });

const told = ({ by, why, token, failed, result }) => ({ by, why, token, failed, result });

const lockOf = {
  mutex: ({ lock }) => ["acquire", "tryAcquire", locks.mutex(lock)],
  read: ({ lock }) => ["read", "tryRead", locks.rwlock(lock)],
  write: ({ lock }) => ["write", "tryWrite", locks.rwlock(lock)],
  semaphore: ({ lock, of, take = 1 }) => ["acquireMany", "tryAcquireMany", locks.semaphore(lock, of), take],
  pool: ({ lock, member }) => (member ? ["member", "tryMember", locks.pool(lock), member] : ["any", "tryAny", locks.pool(lock)]),
  campaign: ({ lock }) => ["campaign", "campaign", locks.election(lock)],
};

// Not async up to the call: the next command must not be sent before this one.
const ask = (command, isTry, options) => {
  const [wait, attempt, lock, ...what] = lockOf[command.kind ?? "mutex"](command);
  return lock[isTry ? attempt : wait](...what, options);
};

const COMMANDS = {
  async connect({ url, who, waiter_lease_ms: waiterLease }) {
    locks = await connect(url, { who, waiterLease });
  },
  async acquire(command) {
    const stop = new AbortController();
    waits.set(command.id, stop);
    try {
      return keep(command.guard, await ask(command, false, { ...times(command), signal: stop.signal }));
    } finally {
      waits.delete(command.id);
    }
  },
  async try(command) {
    const { within, ...options } = times(command);
    const guard = await ask(command, true, options);
    return guard ? keep(command.guard, guard) : { token: null };
  },
  async cancel({ acquire }) {
    waits.get(acquire)?.abort();
  },
  async check({ guard }) {
    return { token: guards.get(guard).check() };
  },
  async release({ guard }) {
    await guards.get(guard).release();
  },
  async handle({ guard }) {
    return { handle: (await guards.get(guard).intoHandle()).expose() };
  },
  async adopt({ guard, handle }) {
    const { token } = keep(guard, await locks.adopt(handle));
    return { token };
  },
  async acquire_all({ guard, locks: names, within_ms: within }) {
    const all = await locks.all(names).acquire({ within });
    guards.set(guard, all);
    return { tokens: Object.fromEntries(all.tokens) };
  },
  async begin({ guard, lock, for_ms: rememberFor, attempts: most, ...command }) {
    const { attempt, completion } = await locks.once(lock, { rememberFor, attempts: most }).begin(times(command));
    if (completion) return { done: told(completion) };
    const { token } = keep(guard, attempt, attempts);
    return { token };
  },
  async done({ guard, result }) {
    await attempts.get(guard).done(result);
  },
  async fail({ guard }) {
    await attempts.get(guard).fail();
  },
  async completion({ lock }) {
    const completion = await locks.once(lock).completion();
    return { done: completion && told(completion) };
  },
  async undo({ lock }) {
    return { changed: await locks.once(lock).undo() };
  },
  async pool_add({ lock, member }) {
    return { changed: await locks.pool(lock).add(member) };
  },
  async leader({ lock }) {
    const leader = await locks.election(lock).leader();
    return leader && { token: leader.token, who: leader.who, why: leader.why };
  },
  async inspect({ lock }) {
    const view = await locks.inspect(lock);
    const holder = ({ token, who, why }) => ({ token, who, why });
    return view && { kind: view.kind, holders: view.holders.map(holder), waiting: view.waiting };
  },
  async list({ pattern }) {
    return { locks: (await locks.list(pattern)).map(({ name }) => name) };
  },
  async break({ lock, token, at_once: atOnce }) {
    return { holders: await locks.breakLock(lock, { token, atOnce }) };
  },
  async turns({ lock, turns, file }) {
    const tokens = [];
    while (tokens.length < turns) {
      const guard = await locks.mutex(lock).acquire();
      tokens.push(guard.check());
      const number = Number(await readFile(file, "utf8"));
      await writeFile(file, String(number + 1));
      await guard.release();
    }
    return { tokens };
  },
  async close() {
    await Promise.all(Array.from(guards.values(), (guard) => guard[Symbol.asyncDispose]()));
    guards.clear();
    await locks.close();
  },
};

const carryOut = async (command) => {
  const { id } = command;
  try {
    say({ id, ok: (await COMMANDS[command.do](command)) ?? (command.do === "leader" || command.do === "inspect" ? null : {}) });
  } catch (error) {
    const kind = error.name === "AbortError" ? "Cancelled" : error instanceof TakeTurnsError ? error.kind : error.name;
    say({ id, error: { kind, message: error.message } });
  }
};

say({ event: "ready", language: "node" });
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => void carryOut(JSON.parse(line)));
// Without releasing anything first.
lines.on("close", () => process.exit(0));
