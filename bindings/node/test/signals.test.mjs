import assert from "node:assert/strict";
import { getEventListeners, once } from "node:events";
import { createServer } from "node:net";
import { describe, it } from "node:test";

import { connect, ClosedError } from "taketurns";

import { every, fired, fresh, open, until, waiting } from "./places.mjs";

const clients = await Promise.all(Object.entries(every).map(async ([store, url]) => [store, url, await open(url)]));

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
