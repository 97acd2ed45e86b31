// Where the tests keep locks, and what they need in common. The caller of these tests starts the servers:
// TAKETURNS_REDIS, TAKETURNS_QUORUM and TAKETURNS_POSTGRES are their URLs.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

import { connect } from "taketurns";

const folder = mkdtempSync(join(tmpdir(), "taketurns-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const server = (name) => {
  const url = process.env[name];
  if (!url) throw new Error(`${name} is not set: run these tests by \`cargo test -p taketurns-node\``);
  return url;
};

export const file = `file:${join(folder, "locks.db")}`;
export const redis = server("TAKETURNS_REDIS");
export const quorum = server("TAKETURNS_QUORUM");
export const postgres = server("TAKETURNS_POSTGRES");

// Stores that have every kind of lock, and all stores.
export const full = { memory: "memory:tests", file, redis, postgres };
export const every = { ...full, quorum };

let last = 0;
// A name that no other test uses.
export const fresh = (name = "lock") => `${name}-${process.pid}-${(last += 1)}`;

// A client that is closed at the end of the test file.
export const open = async (url, options) => {
  const locks = await connect(url, options);
  after(() => locks.close());
  return locks;
};

// What takes longer hangs.
const PATIENCE = 60_000;

// Resolves when the condition holds. It asks again and again, since stores tell nobody who waits in a queue.
export const until = async (condition) => {
  const began = performance.now();
  while (!(await condition())) {
    if (performance.now() - began > PATIENCE) throw new Error(`this hangs: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};

export const waiting = (locks, name, count) => until(async () => ((await locks.inspect(name))?.waiting ?? 0) === count);

// Resolves with the reason when the signal fires.
export const fired = (signal) =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    signal.addEventListener("abort", () => resolve(signal.reason), { once: true });
  });

// Runs a script in a Node of its own. Resolves with its exit code, its signal and what it printed.
export const run = (script, { args = [], onLine = () => {} } = {}) =>
  new Promise((resolve, reject) => {
    const words = [...args, "--input-type=module", "--eval", script];
    const child = spawn(process.execPath, words, { cwd: import.meta.dirname ?? new URL(".", import.meta.url).pathname });
    const said = { stdout: "", stderr: "" };
    child.stdout.on("data", (data) => {
      said.stdout += data;
      onLine(child, said.stdout);
    });
    child.stderr.on("data", (data) => (said.stderr += data));
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ code, signal, ...said }));
  });
