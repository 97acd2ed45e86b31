"use strict";

// Checks what callers pass. An option that does not exist is an error, so that a misspelt one is not ignored. What a
// value may be beyond its type is the client's to say.

const { inspect } = require("node:util");

const isSignal = (value) => typeof value?.addEventListener === "function" && typeof value.aborted === "boolean";

// What each type is called, and its test.
const text = ["a string", (value) => typeof value === "string"];
const millis = ["a number of milliseconds", (value) => typeof value === "number" && value >= 0];
const flag = ["true or false", (value) => typeof value === "boolean"];
const count = ["a whole number", (value) => Number.isSafeInteger(value) && value >= 0 && value <= 0xffff_ffff];
const token = ["a token", (value) => Number.isSafeInteger(value) && value >= 0];
const signal = ["an AbortSignal", isSignal];
const callback = ["a function", (value) => typeof value === "function"];
const keep = ['a number of turns or "until-wanted"', (value) => value === "until-wanted" || count[1](value)];

const OPTIONS = {
  connect: { who: text, waiterLease: millis, within: millis, onLoading: callback, signal },
  acquire: { within: millis, lease: millis, maxHold: millis, atLeast: millis, why: text, keep, signal },
  acquireAll: { within: millis, lease: millis, maxHold: millis, why: text, signal },
  tryAcquire: { lease: millis, maxHold: millis, atLeast: millis, why: text, signal },
  once: { rememberFor: millis, every: millis, offset: millis, attempts: count, pause: millis },
  begin: { within: millis, lease: millis, maxHold: millis, why: text, signal },
  tryBegin: { lease: millis, maxHold: millis, why: text, signal },
  renew: { lease: millis },
  list: { waiters: count },
  breakLock: { token, atOnce: flag },
  observe: { every: millis, signal },
};

// An argument of a call.
const need = (what, [name, test], value) => {
  if (!test(value)) throw new TypeError(`${what} must be ${name}, not ${inspect(value, { depth: 0 })}`);
  return value;
};

// The options of a call, without those that are undefined.
const read = (call, given) => {
  if (given === undefined) return {};
  if (given === null || typeof given !== "object") {
    throw new TypeError(`the options of ${call} must be an object, not ${inspect(given, { depth: 0 })}`);
  }
  const known = OPTIONS[call];
  const options = {};
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(known, name)) {
      throw new TypeError(`${call} has no option ${inspect(name)}; it has ${Object.keys(known).join(", ")}`);
    }
    if (value !== undefined) options[name] = need(`the option ${name} of ${call}`, known[name], value);
  }
  // For ever, as without it.
  if (options.within === Infinity) delete options.within;
  return options;
};

module.exports = { callback, count, need, read, text };
