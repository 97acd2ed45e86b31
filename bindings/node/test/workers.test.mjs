import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { Worker } from "node:worker_threads";

import { full, fresh, open, run, until } from "./places.mjs";

const script = `
  const { parentPort, workerData: { url, name, turns, mode } } = require("node:worker_threads");
  const { connect } = require("taketurns");
  (async () => {
    const locks = await connect(url);
    const tokens = [];
    for (let turn = 0; turn < turns; turn += 1) {
      const guard = await locks.mutex(name).acquire({ lease: 60_000 });
      tokens.push(guard.check());
      if (mode !== "release") {
        parentPort.postMessage("held");
        if (mode === "exit") process.exit(0);
        if (mode === "throw") throw new Error("in the worker");
        return;
      }
      await guard.release();
    }
    parentPort.postMessage(tokens);
  })();
`;

const start = (workerData) => {
  // Node looks for the package from here.
  const here = JSON.stringify(import.meta.url);
  const source = `{ const { createRequire } = require("node:module"); const require_ = require;
    const ours = createRequire(${here});
    ((require) => { ${script} })((name) => (name === "taketurns" ? ours(name) : require_(name))); }`;
  return new Worker(source, { eval: true, workerData });
};

for (const [store, url] of Object.entries({ file: full.file, redis: full.redis, memory: full.memory })) {
  describe(`worker threads on ${store}`, async () => {
    const locks = await open(url);

    it("take turns, and end by themselves", async () => {
      const name = fresh();
      const workers = Array.from({ length: 3 }, () => start({ url, name, turns: 50, mode: "release" }));
      const ended = workers.map((worker) => once(worker, "exit"));
      const tokens = (await Promise.all(workers.map(async (worker) => (await once(worker, "message"))[0]))).flat();
      assert.equal(new Set(tokens).size, 150);
      for (const [code] of await Promise.all(ended)) assert.equal(code, 0);
    });

    for (const mode of ["terminate", "exit", "throw"]) {
      it(`that end by ${mode} give back what they hold`, async () => {
        const name = fresh();
        const worker = start({ url, name, turns: 1, mode });
        const comes = (event) => new Promise((resolve) => worker.once(event, resolve));
        const [held, failed, ended] = ["message", "error", "exit"].map(comes);
        // A worker that exits or throws does so after it was granted the lock. Its message may come later than its error.
        if (mode === "throw") assert.match((await failed).message, /in the worker/);
        if (mode === "terminate") await held.then(() => worker.terminate());
        assert.equal(await ended, mode === "exit" ? 0 : 1);
        await until(async () => {
          const guard = await locks.mutex(name).tryAcquire();
          await guard?.release();
          return guard;
        });
      });
    }
  });
}

describe("a process whose worker alone uses the package", () => {
  it("goes on when that worker has ended", async () => {
    const { code, stdout, stderr } = await run(`
      import { Worker } from "node:worker_threads";
      const work = \`const { connect } = await import("taketurns");
        const locks = await connect("${full.redis}");
        const guard = await locks.mutex("${fresh()}").acquire();
        locks.mutex("${fresh()}").acquire();
        (await import("node:worker_threads")).parentPort.postMessage("held");\`;
      for (let round = 0; round < 5; round += 1) {
        const worker = new Worker("(async () => {" + work + "})()", { eval: true });
        await new Promise((resolve) => worker.once("message", resolve));
        await worker.terminate();
      }
      console.log("goes on");
    `);
    assert.deepEqual([code, stdout], [0, "goes on\n"], stderr);
  });
});
