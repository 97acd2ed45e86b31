import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { Handle, KindMismatchError, NotHeldError, TimeoutError, UnsupportedError } from "taketurns";

import { every, fired, fresh, full, open, waiting } from "./places.mjs";

for (const [store, url] of Object.entries(every)) {
  describe(`mutexes on ${store}`, async () => {
    const locks = await open(url, { who: "tests" });

    it("are held by one holder at a time, with growing tokens", async () => {
      const mutex = locks.mutex(fresh());
      const first = await mutex.acquire({ why: "first" });
      assert.equal(first.check(), first.token);
      assert.equal(await mutex.tryAcquire(), null);
      const second = mutex.acquire();
      await waiting(locks, mutex.name, 1);
      await first.release();
      const { token } = await second;
      assert.ok(token > first.token, `${token} > ${first.token}`);
      await (await second).release();
      const third = await mutex.tryAcquire();
      assert.ok(third.token > token);
      await third.release();
    });

    it("are handed over in the order of the requests", async () => {
      const mutex = locks.mutex(fresh());
      const holder = await mutex.acquire();
      const order = [];
      const turn = async (number) => {
        const guard = await mutex.acquire();
        order.push(number);
        await guard.release();
      };
      const turns = [];
      for (let number = 0; number < 5; number += 1) {
        turns.push(turn(number));
        await waiting(locks, mutex.name, number + 1);
      }
      await holder.release();
      await Promise.all(turns);
      assert.deepEqual(order, [0, 1, 2, 3, 4]);
    });

    it("time out", async () => {
      const mutex = locks.mutex(fresh());
      const guard = await mutex.acquire();
      // In memory the answer is there before any time has passed. Elsewhere a short time may pass without one.
      await assert.rejects(mutex.acquire({ within: store === "memory" ? 20 : 0 }), (error) => {
        assert.ok(error instanceof TimeoutError);
        assert.deepEqual([error.kind, error.lock, error.retryable], ["Timeout", mutex.name, true]);
        assert.match(error.stack, /kinds\.test\.mjs/);
        return true;
      });
      await guard.release();
    });

    it("are lost when somebody breaks them", async () => {
      const mutex = locks.mutex(fresh());
      const guard = await mutex.acquire();
      const { lost } = guard;
      assert.equal(lost.aborted, false);
      assert.equal(await locks.breakLock(mutex.name, { token: guard.token, atOnce: true }), 1);
      const reason = await fired(lost);
      assert.deepEqual([reason.name, reason.lossCause, reason.lock], ["LostError", "revoked", mutex.name]);
      assert.equal(guard.isHeld, false);
      assert.throws(() => guard.check(), { name: "LostError" });
      await assert.rejects(guard.release(), { name: "LostError" });
    });

    it("do the work of run, and report its errors and losses", async () => {
      const mutex = locks.mutex(fresh());
      const sum = await mutex.run((guard) => guard.check() - guard.token + 2);
      assert.equal(sum, 2);
      await assert.rejects(mutex.run(() => Promise.reject(new RangeError("work"))), RangeError);
      const lost = mutex.run(async (guard) => {
        await locks.breakLock(mutex.name, { atOnce: true });
        await fired(guard.lost);
        throw new Error("stopped");
      });
      await assert.rejects(lost, (error) => error.name === "LostError" && error.cause.message === "stopped");
      assert.equal((await locks.inspect(mutex.name)).holders.length, 0);
    });

    it("travel as handles", async () => {
      const mutex = locks.mutex(fresh());
      const guard = await mutex.acquire();
      const handle = await guard.intoHandle();
      assert.throws(() => guard.check(), NotHeldError);
      await assert.rejects(guard.release(), NotHeldError);
      assert.ok((await locks.renew(handle)) > 0);
      const adopted = await locks.adopt(Handle.parse(`${handle.expose()}\n`));
      assert.equal(adopted.check(), guard.token);
      await adopted.release();
      await assert.rejects(locks.release(handle), NotHeldError);
    });

    it("are acquired together", async () => {
      const names = [fresh("b"), fresh("a")];
      const both = await locks.all(names).acquire();
      assert.deepEqual([...both.check().keys()], names.toSorted?.() ?? [...names].sort());
      assert.equal(await locks.mutex(names[0]).tryAcquire(), null);
      await assert.rejects(locks.all(names).acquire({ within: 0 }), TimeoutError);
      await locks.breakLock(names[1]);
      assert.equal((await fired(both.lost)).lock, names[1]);
      assert.throws(() => both.check(), { name: "LostError" });
      await assert.rejects(both.release(), { name: "LostError" });
    });

    it("elect a leader", async () => {
      const election = locks.election(fresh());
      assert.equal(await election.leader(), null);
      const seen = [];
      let ruled;
      const stop = new AbortController();
      const observed = (async () => {
        for await (const leader of election.observe({ every: 10, signal: stop.signal })) {
          seen.push(leader?.why ?? null);
          if (seen.length === 1) ruled = rule();
          if (seen.length === 3) stop.abort();
        }
      })();
      let terms = 0;
      const rule = () =>
        election.lead(
          async (leadership) => {
            terms += 1;
            if (terms === 1) {
              await locks.breakLock(election.name, { atOnce: true });
              return fired(leadership.lost);
            }
            assert.equal((await election.leader()).token, leadership.check());
            while (seen.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
            return "done";
          },
          { why: "node-1" },
        );
      await assert.rejects(observed, { name: "AbortError" });
      assert.equal(await ruled, "done");
      assert.equal(terms, 2);
      assert.equal(seen[0], null);
      assert.ok(seen.includes("node-1"), String(seen));
    });

    it("are seen", async () => {
      const name = fresh("seen");
      assert.equal(await locks.inspect(name), null);
      const guard = await locks.mutex(name).acquire({ why: "to be seen" });
      const view = await locks.inspect(name);
      const [holder] = view.holders;
      assert.deepEqual([view.name, view.kind, view.waiting, view.permits], [name, "mutex", 0, null]);
      assert.deepEqual([holder.who, holder.why, holder.token], ["tests", "to be seen", guard.token]);
      assert.equal(holder.client, locks.clientId);
      assert.deepEqual((await locks.list(`${name}*`)).map((lock) => lock.name), [name]);
      await guard.release();
    });
  });
}

for (const [store, url] of Object.entries(full)) {
  describe(`other kinds on ${store}`, async () => {
    const locks = await open(url);

    it("readers share, and a writer does not", async () => {
      const config = locks.rwlock(fresh());
      const readers = await Promise.all([config.read(), config.read()]);
      assert.equal(await config.tryWrite(), null);
      const writer = config.write();
      await waiting(locks, config.name, 1);
      assert.equal(await config.tryRead(), null);
      await Promise.all(readers.map((reader) => reader.release()));
      await (await writer).release();
    });

    it("semaphores have permits, and can be resized", async () => {
      const gpus = locks.semaphore(fresh(), 3);
      const two = await gpus.acquireMany(2);
      assert.equal(await gpus.tryAcquireMany(2), null);
      const one = await gpus.tryAcquire();
      assert.equal(await locks.semaphore(gpus.name, 4).resize(), true);
      const more = await locks.semaphore(gpus.name, 4).acquire();
      const view = await locks.inspect(gpus.name);
      assert.deepEqual([view.kind, view.permits], ["semaphore", 4]);
      await assert.rejects(locks.mutex(gpus.name).acquire(), KindMismatchError);
      for (const guard of [two, one, more]) await guard.release();
    });

    it("pools have members", async () => {
      const browsers = locks.pool(fresh());
      assert.equal(await browsers.add("b-1"), true);
      assert.equal(await browsers.add("b-1"), false);
      const any = await browsers.any();
      assert.equal(any.member, "b-1");
      assert.equal(await browsers.tryMember("b-1"), null);
      assert.equal(await browsers.tryAny(), null);
      const named = browsers.member("b-1", { within: 60_000 });
      await any.release();
      await (await named).release();
      assert.equal(await browsers.remove("b-1"), true);
    });

    it("a mutex can be kept for its thread until somebody else wants it", async () => {
      const elsewhere = await open(url);
      const mutex = locks.mutex(fresh());
      const turn = async () => {
        const guard = await mutex.acquire({ keep: "until-wanted" });
        await guard.release();
        return guard.token;
      };
      assert.ok((await turn()) < (await turn()));
      const other = await elsewhere.mutex(mutex.name).acquire();
      await other.release();
    });
  });
}

describe("a quorum", async () => {
  const locks = await open(every.quorum);

  it("has mutexes only", async () => {
    await assert.rejects(locks.rwlock(fresh()).read(), UnsupportedError);
  });
});
