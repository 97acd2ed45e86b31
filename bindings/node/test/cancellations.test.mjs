import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";

import { connect } from "taketurns";

import { every, fresh, until } from "./places.mjs";

// How many acquires have a signal that fires on each store, how many are under way at a time, and on how many locks.
const CANCELS = Number(process.env.TAKETURNS_CANCELLATIONS ?? 2_500);
const CROWD = 32;
const LOCKS = 8;

// A lock that is left behind stays so, for longer than any test.
const LEASE = 60 * 60 * 1_000;
// The URL of a store where it may stay for as long as that, and whose server may be busy.
const lasting = (url) => url.replace(/\b(redis|postgres):\/\/[^,]+/g, "$&?max_lease=3600&response_timeout=60");

// The threads of this package. One that was told to end needs a moment.
const isOurs = (task) => {
  try {
    return readFileSync(`/proc/self/task/${task}/comm`, "utf8").startsWith("taketurns");
  } catch {
    return false; // It ended meanwhile.
  }
};
const descriptors = async () => {
  await until(() => !readdirSync("/proc/self/task").some(isOurs));
  return readdirSync("/proc/self/fd").length;
};

// The same numbers in every run: xorshift.
const randomly = (seed) => () => {
  seed ^= seed << 13;
  seed ^= seed >>> 17;
  seed ^= seed << 5;
  return (seed >>> 0) / 2 ** 32;
};

// Acquires locks with signals until this number of signals were meant to fire.
const cancelMany = async (mutexes, count) => {
  const random = randomly(2026);
  const seen = { signalled: 0, undisturbed: 0, cancelled: 0, granted: 0 };
  const attempt = async () => {
    const stop = new AbortController();
    const moment = random();
    const waits = mutexes[Math.floor(random() * LOCKS)].acquire({ signal: stop.signal, lease: LEASE });
    // Never, at once, after some promises, after some turns of the loop, or after a while.
    if (moment < 0.05) seen.undisturbed += 1;
    else seen.signalled += 1;
    if (moment < 0.05);
    else if (moment < 0.1) stop.abort();
    else if (moment < 0.3) void Promise.resolve().then(() => Promise.resolve()).then(() => stop.abort());
    else if (moment < 0.6) setImmediate(() => stop.abort());
    else setTimeout(() => stop.abort(), 30 * random() ** 3);
    try {
      const guard = await waits;
      seen.granted += 1;
      guard.check();
      if (random() < 0.5) await new Promise(setImmediate);
      await guard.release();
    } catch (error) {
      if (error.name !== "AbortError") throw error;
      seen.cancelled += 1;
    }
  };
  const worker = async () => {
    while (seen.signalled < count) await attempt();
  };
  await Promise.all(Array.from({ length: CROWD }, worker));
  return seen;
};

for (const [store, place] of Object.entries(every)) {
  const url = lasting(place);
  describe(`an AbortSignal on ${store}`, () => {
    it(`${CANCELS} cancellations at random moments leave nothing behind`, async (context) => {
      // One keeps what this process needs for all clients.
      const kept = await connect(url);
      await (await kept.mutex(fresh()).acquire()).release();
      await kept.close();
      const before = await descriptors();
      // Cancels are carried out in the background and may pile up, so what is handed over must last until its release is.
      const locks = await connect(url, { waiterLease: 60_000 });
      const mutexes = Array.from({ length: LOCKS }, () => locks.mutex(fresh()));
      const { signalled, undisturbed, cancelled, granted } = await cancelMany(mutexes, CANCELS);
      assert.equal(cancelled + granted, signalled + undisturbed);
      assert.ok(granted >= undisturbed, `${granted} of at least ${undisturbed} were granted`);
      for (const { name } of mutexes) {
        await until(async () => {
          const { holders, waiting } = await locks.inspect(name);
          return holders.length === 0 && waiting === 0;
        });
      }
      await locks.close();
      // The last sockets close on another thread, after the client.
      await until(async () => (await descriptors()) <= before);
      context.diagnostic(`${store}: ${signalled} signals, ${cancelled} in time, ${granted} acquires granted`);
    });
  });
}
