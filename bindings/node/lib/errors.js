"use strict";

// The errors of the client: one class for each kind, all of them a TakeTurnsError. The client says what happened, to
// which lock, and what to do; an error here says the same.

class TakeTurnsError extends Error {
  constructor({ kind, message, lock, retryable }, options) {
    super(message, options);
    this.kind = kind;
    this.lock = lock ?? null;
    this.retryable = retryable;
  }
}
Object.defineProperty(TakeTurnsError.prototype, "name", { value: "TakeTurnsError", configurable: true, writable: true });

const KINDS = [
  "Timeout",
  "Unreachable",
  "NoQuorum",
  "Indeterminate",
  "Lost",
  "NotHeld",
  "KindMismatch",
  "QueueFull",
  "PoolFull",
  "Unfenced",
  "Quarantined",
  "InvalidName",
  "InvalidLabel",
  "InvalidLease",
  "InvalidMaxHold",
  "InvalidPermits",
  "InvalidKeep",
  "InvalidAtLeast",
  "InvalidOnce",
  "InvalidNote",
  "Exhausted",
  "InvalidUrl",
  "InvalidHandle",
  "Store",
  "Unsupported",
  "Closed",
];

const define = (kind) => {
  const name = `${kind}Error`;
  // Computed, so that the class has this name.
  const made = { [name]: class extends TakeTurnsError {} };
  Object.defineProperty(made[name].prototype, "name", { value: name, configurable: true, writable: true });
  return [name, made[name]];
};

const classes = Object.fromEntries(KINDS.map(define));

classes.LostError = class LostError extends TakeTurnsError {
  constructor(failure, options) {
    super(failure, options);
    this.lossCause = failure.lossCause;
  }
};
Object.defineProperty(classes.LostError.prototype, "name", { value: "LostError", configurable: true, writable: true });

// The error of a failure that the addon reports.
const toError = (failure, options) => {
  const Class = classes[`${failure.kind}Error`] ?? TakeTurnsError;
  return new Class(failure, options);
};

module.exports = { TakeTurnsError, ...classes, toError };
