import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";

import { full } from "./places.mjs";

const examples = fileURLToPath(new URL("../examples/", import.meta.url));
const compiler = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin/tsc");

const node = (...args) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: examples, encoding: "utf8" });
  return { status, stdout, stderr };
};

describe("the types", () => {
  // Beside the package, where the compiled examples find it.
  const out = mkdtempSync(join(examples, "out-"));
  after(() => rmSync(out, { recursive: true }));
  const { stdout: said } = node(compiler, "-p", ".", "--outDir", out);

  it("find every mistake in the wrong example, and none in the others", () => {
    const found = new Set(said.split("\n").filter((line) => /^\S/.test(line)).map((line) => line.replace(/^(\S+)\((\d+),.*$/, "$1:$2")));
    const lines = readFileSync(join(examples, "wrong.ts"), "utf8").split("\n");
    const wrong = lines.flatMap((line, index) => (line.includes("// wrong: ") ? [`wrong.ts:${index + 1}`] : []));
    assert.ok(wrong.length > 5);
    assert.deepEqual([...found].sort(), wrong.sort(), said);
  });

  it("describe examples that run", () => {
    for (const url of [full.file, full.redis]) {
      const { status, stdout, stderr } = node(join(out, "mutex.js"), url);
      assert.equal(status, 0, stderr);
      assert.match(stdout, /^shipping order 42 with token \d+\n$/);
    }
    const kinds = node(join(out, "kinds.js"));
    assert.equal(kinds.status, 0, kinds.stderr);
    assert.match(kinds.stdout, /^null\nb-1\n\[ 'from', 'to' \]\nnode-1 true\nimport true\nrevoked\n/);
    assert.match(kinds.stdout, /\ndid it\n3 files true\n4\ntrue\n$/);
    const required = node(join(out, "required.cjs"));
    assert.deepEqual([required.status, required.stdout], [0, "orders/42 true\n"], required.stderr);
  });
});
