import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { inspect } from "node:util";

import { ExhaustedError, NotHeldError, UnsupportedError } from "taketurns";

import { fired, fresh, full, open, quorum, run, until, waiting } from "./places.mjs";

for (const [store, url] of Object.entries(full)) {
  describe(`work on ${store}`, async () => {
    const locks = await open(url, { who: "tests" });

    it("is done once, and told to all who ask", async () => {
      const once = locks.once(fresh("once"));
      assert.equal(await once.completion(), null);
      let token;
      const work = (attempt) => {
        token = attempt.check();
        return Promise.resolve("written");
      };
      assert.deepEqual(await once.run(work, { why: "nightly" }), { didIt: true, value: "written" });
      const { didIt, completion } = await once.run(() => assert.fail("it is done"));
      assert.equal(didIt, false);
      assert.deepEqual(completion, await once.completion());
      const { at, until: end, ...rest } = completion;
      assert.deepEqual(rest, { by: "tests", why: "nightly", token, failed: 0, result: "" });
      assert.equal(end - at, 24 * 60 * 60 * 1_000);
      assert.ok(Math.abs(at - Date.now()) < 60 * 60 * 1_000, at);
    });

    it("is told to those who wait, with its result", async () => {
      const once = locks.once(fresh("once"));
      const { attempt } = await once.begin();
      assert.equal(await once.tryBegin(), null);
      const waits = once.begin();
      await waiting(locks, once.name, 1);
      await attempt.done("3 files");
      const told = await waits;
      assert.equal(told.attempt, null);
      assert.deepEqual([told.completion.result, told.completion.token], ["3 files", attempt.token]);
      assert.equal((await once.tryBegin()).completion.result, "3 files");
      assert.equal(attempt.isHeld, false);
      await assert.rejects(attempt.fail(), NotHeldError);
      await assert.rejects(attempt.done(), NotHeldError);
    });

    it("that throws has failed, and the next one tries", async () => {
      const once = locks.once(fresh("once"), { attempts: 2 });
      await assert.rejects(once.run(() => Promise.reject(new RangeError("work"))), RangeError);
      const { kind, work } = await locks.inspect(once.name);
      assert.deepEqual([kind, work.failed, work.retryIn, work.done], ["once", 1, null, null]);
      await (await once.begin()).attempt.fail();
      await assert.rejects(once.begin(), (error) => error instanceof ExhaustedError && error.lock === once.name);
      assert.deepEqual([await once.undo(), await once.undo()], [true, false]);
      assert.deepEqual(await once.run((attempt) => attempt.done("at last")), { didIt: true, value: undefined });
      const completion = await once.completion();
      assert.deepEqual([completion.result, completion.failed], ["at last", 0]);
      assert.deepEqual((await locks.inspect(once.name)).work.done, completion);
    });

    it("that was lost is not recorded as done", async () => {
      const once = locks.once(fresh("once"));
      const lost = once.run(async (attempt) => {
        await locks.breakLock(once.name, { atOnce: true });
        assert.equal((await fired(attempt.lost)).lossCause, "revoked");
        assert.throws(() => attempt.check(), { name: "LostError" });
      });
      await assert.rejects(lost, { name: "LostError", lock: once.name });
      const stopped = once.run(async (attempt) => {
        await locks.breakLock(once.name, { atOnce: true });
        await fired(attempt.lost);
        throw new Error("stopped");
      });
      await assert.rejects(stopped, (error) => error.name === "LostError" && error.cause.message === "stopped");
      assert.equal(await once.completion(), null);
    });

    it("of a block that does not record it has failed", async () => {
      const once = locks.once(fresh("once"));
      await (await once.begin()).attempt[Symbol.asyncDispose]();
      const { attempt } = await once.begin();
      await attempt.done();
      await attempt[Symbol.asyncDispose]();
      assert.equal((await once.completion()).failed, 1);
    });

    it("may have periods and pauses", async () => {
      const [day, hour] = [24 * 60 * 60 * 1_000, 60 * 60 * 1_000];
      const nightly = locks.once(fresh("once"), { every: day, offset: 2.5 * hour });
      await (await nightly.begin()).attempt.done();
      const { at, until: end } = await nightly.completion();
      assert.equal(end.getTime() % day, 2.5 * hour);
      assert.ok(at < end && end - at <= day);
      const slow = locks.once(fresh("once"), { rememberFor: 2 * hour, pause: hour });
      await (await slow.begin()).attempt.fail();
      assert.equal(await slow.tryBegin(), null);
      const stop = new AbortController();
      const waits = assert.rejects(slow.begin({ signal: stop.signal }), { name: "AbortError" });
      await waiting(locks, slow.name, 1);
      const { retryIn } = (await locks.inspect(slow.name)).work;
      assert.ok(retryIn > 0 && retryIn <= hour, retryIn);
      stop.abort();
      await waits;
    });

    it("is not begun by a signal that fired, and a wait for it ends with one", async () => {
      const once = locks.once(fresh("once"));
      await assert.rejects(once.begin({ signal: AbortSignal.abort() }), { name: "AbortError" });
      const { attempt } = await once.begin();
      const stop = new AbortController();
      const waits = once.begin({ signal: stop.signal });
      await waiting(locks, once.name, 1);
      stop.abort();
      await assert.rejects(waits, { name: "AbortError" });
      await waiting(locks, once.name, 0);
      assert.match(inspect(attempt), /^Attempt \{ name: 'once-\S+', token: \d+, isHeld: true \}$/);
      await attempt.fail();
    });

    it("may be kept from others after it, as a mutex with atLeast", async () => {
      const mutex = locks.mutex(fresh());
      await (await mutex.acquire({ atLeast: 60_000 })).release();
      assert.equal(await mutex.tryAcquire({ atLeast: 60_000 }), null);
      assert.deepEqual((await locks.inspect(mutex.name)).holders.map((holder) => holder.resting), [true]);
      assert.equal(await locks.breakLock(mutex.name), 1);
      await (await mutex.acquire()).release();
      await assert.rejects(mutex.acquire({ atLeast: 60_000, keep: "until-wanted" }), { name: "InvalidAtLeastError" });
    });
  });
}

describe("options of a once", async () => {
  const locks = await open(full.memory);

  it("that can't be are refused", async () => {
    assert.throws(() => locks.once("a", { rememberFor: 1_000, every: 1_000 }), /exclude each other/);
    assert.throws(() => locks.once("a", { offset: 1_000 }), /needs every/);
    assert.throws(() => locks.once("a", { for: 1_000 }), /once has no option 'for'/);
    for (const wrong of [{ rememberFor: 10 }, { attempts: 0 }, { every: 1_000, offset: 1_000 }]) {
      await assert.rejects(locks.once("a", wrong).begin(), { name: "InvalidOnceError" });
    }
    const { attempt } = await locks.once("a").begin();
    await assert.rejects(attempt.done(3), TypeError);
    await assert.rejects(attempt.done("x".repeat(300)), { name: "InvalidNoteError" });
    assert.equal((await locks.inspect("a")).work.failed, 1);
  });

  it("are refused by a quorum", async () => {
    const lean = await open(quorum);
    await assert.rejects(lean.once(fresh("once")).begin(), UnsupportedError);
  });
});

describe("an attempt that was forgotten", () => {
  it("has failed, with a warning", async () => {
    const locks = await open(full.redis);
    const name = fresh("once");
    const script = `import { connect } from "taketurns";
      const locks = await connect("${full.redis}");
      const forget = async () => void (await locks.once("${name}").begin({ lease: 60_000 }));
      await forget();
      process.on("warning", (warning) => console.log(warning.name, warning.message));
      setInterval(gc, 5);`;
    let failed;
    const onLine = (child, said) => {
      if (failed || !said.includes("\n")) return;
      // While the process goes on.
      failed = until(async () => (await locks.inspect(name)).work?.failed === 1).finally(() => child.kill());
    };
    const { stdout } = await run(script, { args: ["--expose-gc"], onLine });
    await failed;
    assert.match(stdout, new RegExp(`TakeTurnsWarning the attempt at ${name} was dropped without done\\(\\) or fail\\(\\)`));
  });
});
