import assert from "node:assert/strict";
import { getEventListeners, once } from "node:events";
import { readdirSync } from "node:fs";
import { createServer } from "node:net";
import { describe, it } from "node:test";

import { connect, ClosedError } from "taketurns";

import { every, fired, fresh, open, until, waiting } from "./places.mjs";

// How many acquires have a signal that fires on each store, how many are under way at a time, and on how many locks.
const CANCELS = Number(process.env.TAKETURNS_CANCELS ?? 2_500);
const CROWD = 32;
const LOCKS = 8;

const descriptors = () => readdirSync("/proc/self/fd").length;
const threads = () => readdirSync("/proc/self/task").length;

// The same numbers in every run: xorshift.
const randomly = (seed) => () => {
  seed ^= seed << 13;
  seed ^= seed >>> 17;
  seed ^= seed << 5;
  return (seed >>> 0) / 2 ** 32;
};

// All of them before the first test, so that none adds threads and descriptors in the middle of another. Cancels are
// carried out in the background and may pile up, so what is handed over must last until its release is.
const clients = await Promise.all(
  Object.entries(every).map(async ([store, url]) => [store, url, await open(url, { waiterLease: 60_000 })]),
);

for (const [store, url, locks] of clients) {
  describe(`an AbortSignal on ${store}`, () => {
    it("stops an acquire that waits, which leaves the queue", async () => {
      const mutex = locks.mutex(fresh());
      const guard = await mutex.acquire();
      const stop = new AbortController();
      const waits = mutex.acquire({ signal: stop.signal });
      await waiting(locks, mutex.name, 1);
      stop.abort(new Error("enough"));
      await assert.rejects(waits, /enough/);
      await waiting(locks, mutex.name, 0);
      assert.equal(getEventListeners(stop.signal, "abort").length, 0);
      await guard.release();
    });

    it("that has fired keeps an acquire from being sent", async () => {
      const signal = AbortSignal.abort();
      await assert.rejects(locks.mutex(fresh()).acquire({ signal }), { name: "AbortError" });
      await assert.rejects(locks.mutex(fresh()).tryAcquire({ signal }), { name: "AbortError" });
      await assert.rejects(connect(url, { signal }), { name: "AbortError" });
    });

    it("that fires later does not touch a guard", async () => {
      const stop = new AbortController();
      const guard = await locks.mutex(fresh()).acquire({ signal: stop.signal });
      stop.abort();
      assert.equal(guard.isHeld, true);
      await guard.release();
      assert.equal(getEventListeners(stop.signal, "abort").length, 0);
    });

    it(`${CANCELS} cancellations at random moments leave nothing behind`, async (context) => {
      const random = randomly(2026);
      const mutexes = Array.from({ length: LOCKS }, () => locks.mutex(fresh()));
      // So that all threads and descriptors that a client needs are there.
      await (await mutexes[0].acquire()).release();
      const before = { descriptors: descriptors(), threads: threads() };
      let [cancelled, granted, signalled, undisturbed] = [0, 0, 0, 0];
      const attempt = async () => {
        const stop = new AbortController();
        const moment = random();
        const waits = mutexes[Math.floor(random() * LOCKS)].acquire({ signal: stop.signal });
        // Never, at once, after some promises, after some turns of the loop, or after a while.
        if (moment < 0.05) undisturbed += 1;
        else signalled += 1;
        if (moment < 0.05);
        else if (moment < 0.1) stop.abort();
        else if (moment < 0.3) void Promise.resolve().then(() => Promise.resolve()).then(() => stop.abort());
        else if (moment < 0.6) setImmediate(() => stop.abort());
        else setTimeout(() => stop.abort(), 30 * random() ** 3);
        try {
          const guard = await waits;
          granted += 1;
          guard.check();
          if (random() < 0.5) await new Promise(setImmediate);
          await guard.release();
        } catch (error) {
          if (error.name !== "AbortError") throw error;
          cancelled += 1;
        }
      };
      const worker = async () => {
        while (signalled < CANCELS) await attempt();
      };
      await Promise.all(Array.from({ length: CROWD }, worker));
      assert.equal(cancelled + granted, signalled + undisturbed);
      assert.ok(granted >= undisturbed, `${granted} of at least ${undisturbed} were granted`);
      // Nobody holds it and nobody waits, or this would wait for a lease.
      for (const { name } of mutexes) {
        await until(async () => {
          const { holders, waiting } = await locks.inspect(name);
          return holders.length === 0 && waiting === 0;
        });
      }
      assert.deepEqual({ descriptors: descriptors(), threads: threads() }, before);
      context.diagnostic(`${store}: ${signalled} signals, ${cancelled} in time, ${granted} acquires granted`);
    });
  });
}

describe("a client", () => {
  it("that is closed ends its waits, and keeps what is held until it is released", async () => {
    for (const url of Object.values(every)) {
      const [one, two] = [await connect(url), await open(url)];
      const held = await one.mutex(fresh()).acquire();
      const busy = await two.mutex(fresh()).acquire();
      const waits = one.mutex(busy.name).acquire();
      const rejected = assert.rejects(waits, ClosedError);
      await one.close();
      await rejected;
      await assert.rejects(one.mutex("any").acquire(), ClosedError);
      assert.equal(held.isHeld, true);
      await held.release();
      await busy.release();
    }
  });

  it("gives up to connect when its signal fires", async (context) => {
    // A server that never answers: a port that refuses could do so before the signal is seen.
    const silent = createServer().listen(0, "127.0.0.1");
    context.after(() => silent.close());
    await once(silent, "listening");
    const connected = once(silent, "connection");
    const stop = new AbortController();
    const connecting = connect(`redis://127.0.0.1:${silent.address().port}`, { signal: stop.signal });
    const [socket] = await connected;
    context.after(() => socket.destroy());
    stop.abort();
    await assert.rejects(connecting, { name: "AbortError" });
  });

  it("learns of a loss in the same turn in which it stops to wait", async () => {
    const locks = await open(every.file);
    const [held, wanted] = [await locks.mutex(fresh()).acquire(), await locks.mutex(fresh()).acquire()];
    const waits = locks.mutex(wanted.name).acquire({ signal: held.lost });
    await waiting(locks, wanted.name, 1);
    await locks.breakLock(held.name, { atOnce: true });
    await assert.rejects(waits, { name: "LostError", lock: held.name });
    assert.equal((await fired(held.lost)).lock, held.name);
    await waiting(locks, wanted.name, 0);
    await wanted.release();
  });
});
