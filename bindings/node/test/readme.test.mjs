import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";

import { every, full, run } from "./places.mjs";

const readme = readFileSync(new URL("../node_modules/taketurns/README.md", import.meta.url), "utf8");
const [program, once] = Array.from(readme.matchAll(/```js\n(.*?)```/gs), ([, block]) => block);

describe("the ten lines of the README", () => {
  for (const [store, url] of Object.entries(every)) {
    it(`run on ${store}`, async () => {
      const { code, stdout, stderr } = await run(program.replace("redis://127.0.0.1", url));
      assert.deepEqual([code, stderr], [0, ""]);
      assert.match(stdout, /^shipping order 42 with token \d+\n$/);
    });
  }
});

describe("the once of the README", () => {
  for (const [store, url] of Object.entries(full)) {
    it(`runs on ${store}`, async () => {
      // The store in memory ends with its process.
      for (const said of [/^this process did it\n$/, store === "memory" ? /^this/ : /^done before, by \S+ \S* ?at /]) {
        const { code, stdout, stderr } = await run(once.replace("redis://127.0.0.1", url));
        assert.deepEqual([code, stderr], [0, ""]);
        assert.match(stdout, said);
      }
    });
  }
});
