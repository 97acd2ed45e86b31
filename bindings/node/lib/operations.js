"use strict";

// The operations of this thread: what was begun in the addon, and who waits for it.
//
// The process stays alive for an operation that is pending and for a guard that is held, and for nothing else of this
// package. Invariant: `busy` is the number of both, and the anchor is referenced exactly while there are any.

const { Binding } = require("./native.js");
const { toError } = require("./errors.js");

const binding = new Binding(turn);

// Numbers of operations. A guard, a client and an observer have the number of the operation that made them.
let last = 0;

// Operations that go on, by their numbers.
const pending = new Map();

// Tenures of guards that are neither released nor made a handle, by their numbers.
const tenures = new Map();

let busy = 0;
// It never does anything: while it is referenced, the event loop goes on.
const anchor = setInterval(() => {}, 2 ** 30);
anchor.unref();

const stayAlive = () => {
  busy += 1;
  if (busy === 1) anchor.ref();
};

const letGo = () => {
  busy -= 1;
  if (busy === 0) anchor.unref();
};

// The addon calls this when there is something to go on with.
function turn() {
  for (const { id, answer } of binding.turn()) settle(id, answer);
}

const settle = (id, answer) => {
  const operation = pending.get(id);
  if (answer.loading !== undefined) {
    // What the callback throws is not for the operations of this turn.
    if (operation?.onLoading) queueMicrotask(() => operation.onLoading(answer.loading));
  } else if (operation) {
    finish(id, operation);
    operation.resolve(answer);
  } else {
    // Nobody waits for it, so it is the loss of a guard. One that was released meanwhile is lost to nobody.
    tenures.get(id)?.lose(answer.failure);
  }
};

const finish = (id, operation) => {
  pending.delete(id);
  operation.signal?.removeEventListener("abort", operation.onAbort);
  letGo();
};

// Gives an operation up, with whatever it has of its lock, even if that was granted in this very turn.
const abandon = (id, operation, reason) => {
  finish(id, operation);
  binding.abandon(id);
  operation.reject(reason);
};

// Begins an operation and resolves with its answer, which may be a failure. `client` is that of an operation which its
// `close` should end.
const start = (begin, { client, signal, onLoading } = {}) => {
  if (signal?.aborted) return Promise.reject(signal.reason);
  last += 1;
  const id = last;
  const answer = begin(id);
  if (answer) return Promise.resolve([id, answer]);
  stayAlive();
  return new Promise((resolve, reject) => {
    const operation = { client, signal, onLoading, reject, resolve: (answer) => resolve([id, answer]) };
    if (signal) {
      operation.onAbort = () => abandon(id, operation, signal.reason);
      signal.addEventListener("abort", operation.onAbort, { once: true });
    }
    pending.set(id, operation);
  });
};

// Begins an operation and returns its answer. The error of a failure is made here, so that its stack has the caller.
const call = async (begin, options) => {
  const [id, answer] = await start(begin, options);
  if (answer.failure) throw toError(answer.failure);
  answer.id = id;
  return answer;
};

// Ends the pending operations of a client.
const endAll = (client) => {
  for (const [id, operation] of pending) {
    if (operation.client === client) abandon(id, operation, toError(binding.closed()));
  }
};

// Also after an error that nobody caught. What a signal ends does not get here, and its locks end with their leases.
process.on("exit", () => binding.end());

module.exports = { binding, call, endAll, letGo, nextNumber: () => (last += 1), stayAlive, tenures };
