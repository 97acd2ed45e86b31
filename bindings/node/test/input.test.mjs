import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { describe, it } from "node:test";
import { inspect } from "node:util";

import * as taketurns from "taketurns";

import { full, fresh, open } from "./places.mjs";

const { connect, Handle } = taketurns;

describe("input", async () => {
  const locks = await open(full.memory);
  const mutex = locks.mutex("input");

  it("of a wrong type is refused by name", async () => {
    await assert.rejects(mutex.acquire({ timeout: 5 }), {
      name: "TypeError",
      message: "acquire has no option 'timeout'; it has within, lease, maxHold, atLeast, why, keep, signal",
    });
    await assert.rejects(mutex.acquire({ within: "5" }), /option within of acquire must be a number of milliseconds, not '5'/);
    await assert.rejects(mutex.acquire({ within: Number.NaN }), TypeError);
    await assert.rejects(mutex.acquire({ within: -1 }), TypeError);
    await assert.rejects(mutex.acquire(5), TypeError);
    await assert.rejects(mutex.tryAcquire({ within: 5 }), TypeError);
    await assert.rejects(mutex.acquire({ signal: new AbortController() }), /must be an AbortSignal/);
    await assert.rejects(mutex.acquire({ keep: 1.5 }), TypeError);
    await assert.rejects(mutex.run(), /the work must be a function/);
    await assert.rejects(connect(), /the URL of a store must be a string/);
    assert.throws(() => locks.mutex(42), TypeError);
    assert.throws(() => locks.semaphore("s", -1), TypeError);
    assert.throws(() => locks.all(["a", 1]), TypeError);
  });

  it("that no lock can have is refused by the client", async () => {
    const kind = (name) => ({ name });
    await assert.rejects(locks.mutex("").acquire(), kind("InvalidNameError"));
    await assert.rejects(mutex.acquire({ lease: 1 }), kind("InvalidLeaseError"));
    await assert.rejects(mutex.acquire({ maxHold: 1 }), kind("InvalidMaxHoldError"));
    await assert.rejects(mutex.acquire({ why: "a\nb" }), kind("InvalidLabelError"));
    await assert.rejects(mutex.acquire({ keep: 0 }), kind("InvalidKeepError"));
    await assert.rejects(locks.semaphore("s", 2).acquireMany(3), kind("InvalidPermitsError"));
    await assert.rejects(connect("nothing:x"), kind("InvalidUrlError"));
    assert.throws(() => Handle.parse("tt1.secret"), (error) => error.name === "InvalidHandleError" && !/secret/.test(error.message));
  });

  it("may say that a wait has no end", async () => {
    await (await mutex.acquire({ within: Infinity, signal: undefined })).release();
  });
});

describe("what is shown", async () => {
  const locks = await open(full.redis.replace("redis://", "redis://default:@"));

  it("has no secrets", async () => {
    const guard = await locks.mutex(fresh()).acquire();
    assert.equal(inspect(guard), `Guard { name: '${guard.name}', token: ${guard.token}, isHeld: true }`);
    const handle = await guard.intoHandle();
    const owner = handle.expose().split(".")[1];
    for (const shown of [inspect(handle), inspect({ handle }, { depth: 9 }), JSON.stringify(handle), String(handle), JSON.stringify(guard)]) {
      assert.ok(!shown.includes(owner), shown);
    }
    assert.equal(inspect(handle), `Handle { name: '${handle.name}', token: ${handle.token} }`);
    assert.equal(inspect(locks), `Locks { clientId: '${locks.clientId}' }`);
    await locks.release(handle);
  });
});

describe("the package", () => {
  it("has the same classes for import and for require", () => {
    const required = createRequire(import.meta.url)("taketurns");
    for (const [name, value] of Object.entries(required)) assert.equal(taketurns[name], value, name);
    assert.deepEqual(Object.keys(required).sort(), Object.keys(taketurns).sort());
  });

  it("has errors that say what they are", async () => {
    const locks = await open(full.memory);
    const error = await locks.mutex("").acquire().catch((error) => error);
    assert.ok(error instanceof taketurns.TakeTurnsError && error instanceof taketurns.InvalidNameError);
    assert.deepEqual([error.kind, error.lock, error.retryable], ["InvalidName", null, false]);
    assert.match(String(error), /^InvalidNameError: invalid name: /);
  });
});
