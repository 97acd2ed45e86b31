import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { every, fresh, full, open, run, until } from "./places.mjs";

const shared = { file: full.file, redis: full.redis, postgres: full.postgres, quorum: every.quorum };

const connecting = (url) => `import { connect } from "taketurns"; const locks = await connect(${JSON.stringify(url)});`;

for (const [store, url] of Object.entries(shared)) {
  describe(`a process on ${store}`, async () => {
    const locks = await open(url);
    const free = (name) => until(async () => !(await locks.inspect(name))?.holders.length);

    it("ends by itself when it holds nothing, without close", async () => {
      const script = `${connecting(url)}
        const guard = await locks.mutex("${fresh()}").acquire();
        await guard.release();
        locks.mutex("${fresh()}").tryAcquire().then((guard) => guard.release()).then(() => console.log("done"));`;
      const { code, stdout, stderr } = await run(script);
      assert.deepEqual([code, stdout], [0, "done\n"], stderr);
    });

    it("stays alive for a held lock, and ends when it is lost", async () => {
      const name = fresh();
      const script = `${connecting(url)}
        const guard = await locks.mutex("${name}").acquire();
        guard.lost.addEventListener("abort", () => console.log(guard.lost.reason.lossCause));
        console.log("held");`;
      let broken = false;
      const onLine = async (child, said) => {
        if (broken || !said.includes("held")) return;
        broken = true;
        // It would be over by now if nothing kept it alive: a process of its own takes longer than that to start.
        await run(`console.log("a while")`);
        assert.equal(child.exitCode, null);
        await locks.breakLock(name);
      };
      const { code, stdout, stderr } = await run(script, { onLine });
      assert.deepEqual([code, stdout], [0, "held\nrevoked\n"], stderr);
    });

    it("stays alive for an acquire that waits", async () => {
      const guard = await locks.mutex(fresh()).acquire();
      const script = `${connecting(url)}
        locks.mutex("${guard.name}").acquire().then((guard) => guard.release()).then(() => console.log("had it"));
        console.log("waits");`;
      let released = false;
      const onLine = (child, said) => {
        if (released || !said.includes("waits")) return;
        released = true;
        void guard.release();
      };
      const { code, stdout, stderr } = await run(script, { onLine });
      assert.deepEqual([code, stdout], [0, "waits\nhad it\n"], stderr);
    });

    it("gives back what it holds and its places when it exits", async () => {
      const [held, wanted, name] = [fresh(), await locks.mutex(fresh()).acquire(), fresh()];
      // The lease is longer than any test waits.
      const script = `${connecting(url)}
        await locks.mutex("${held}").acquire({ lease: 60_000 });
        await locks.all(["${name}"]).acquire({ lease: 60_000 });
        locks.mutex("${wanted.name}").acquire().catch(() => {});
        setImmediate(() => process.exit(3));`;
      const { code, stderr } = await run(script);
      assert.equal(code, 3, stderr);
      for (const name of [held, wanted.name]) assert.equal((await locks.inspect(name)).waiting, 0);
      const guards = await Promise.all([locks.mutex(held).tryAcquire(), locks.mutex(name).tryAcquire()]);
      for (const guard of [...guards, wanted]) await guard.release();
    });

    it("has released everything when close resolves, also what nobody waited for", async () => {
      const name = fresh();
      const script = `${connecting(url)}
        const guard = await locks.mutex("${name}").acquire({ lease: 60_000 });
        void guard.release();
        await locks.close();
        process.kill(process.pid, "SIGKILL");`;
      assert.equal((await run(script)).signal, "SIGKILL");
      await (await locks.mutex(name).tryAcquire()).release();
    });

    it("gives back what it holds after an error that nobody caught", async () => {
      const name = fresh();
      const script = `${connecting(url)}
        const guard = await locks.mutex("${name}").acquire({ lease: 60_000 });
        throw new Error("oops");`;
      const { code, stderr } = await run(script);
      assert.equal(code, 1, stderr);
      assert.match(stderr, /oops/);
      await (await locks.mutex(name).tryAcquire()).release();
    });

    it("gives back the lock of a guard that was collected, with a warning", async () => {
      const name = fresh();
      const script = `${connecting(url)}
        const forget = async () => void (await locks.mutex("${name}").acquire({ lease: 60_000 }));
        await forget();
        process.on("warning", (warning) => console.log(warning.name, warning.message));
        setInterval(gc, 5);`;
      let freed;
      const onLine = (child, said) => {
        if (freed || !said.includes("\n")) return;
        // While the process goes on.
        freed = free(name).finally(() => child.kill());
      };
      const { stdout } = await run(script, { args: ["--expose-gc"], onLine });
      await freed;
      assert.match(stdout, new RegExp(`TakeTurnsWarning the guard of lock ${name} was dropped without release`));
    });
  });
}

describe("a release that nobody waits for", () => {
  it("is not silent when it fails", async () => {
    const name = fresh();
    const { code, stderr } = await run(`${connecting(full.file)}
      const guard = await locks.mutex("${name}").acquire();
      await locks.breakLock("${name}", { atOnce: true });
      void guard.release();
      await guard[Symbol.asyncDispose]();
      await locks.close();`);
    assert.equal(code, 1);
    assert.match(stderr, /LostError: lock \S+ was lost: somebody broke it/);
  });
});

describe("a process that can't reach its store", () => {
  it("is told, and ends", async () => {
    const script = `import { connect } from "taketurns";
      await connect("redis://:hunter2@127.0.0.1:1").catch((error) => console.log(error.name, error.message));`;
    const { code, stdout, stderr } = await run(script);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^UnreachableError the store can't be reached: /);
    assert.doesNotMatch(stdout + stderr, /hunter2/);
  });
});
