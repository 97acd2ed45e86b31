"use strict";

// Guards: locks that are held.

const { inspect } = require("node:util");

const { LostError, toError } = require("./errors.js");
const { Handle } = require("./handle.js");
const { binding, call, letGo, stayAlive, tenures } = require("./operations.js");

// How long a guard holds, apart from the guard itself: it must not keep the guard from being collected.
class Tenure {
  constructor(id, name) {
    this.id = id;
    this.name = name;
    // It was released, or became a handle.
    this.isOver = false;
    this.failure = null;
    this.controller = null;
    tenures.set(id, this);
    stayAlive();
  }

  lose(failure) {
    if (this.failure) return;
    this.failure = failure;
    letGo();
    this.controller?.abort(toError(failure));
  }

  end() {
    this.isOver = true;
    tenures.delete(this.id);
    collected.unregister(this);
    if (!this.failure) letGo();
  }

  get signal() {
    if (!this.controller) {
      this.controller = new AbortController();
      if (this.failure) this.controller.abort(toError(this.failure));
    }
    return this.controller.signal;
  }

  // The token, or throws.
  check() {
    if (this.isOver) throw toError(binding.notHeld(this.name));
    const token = binding.check(this.id);
    if (typeof token !== "number") throw toError(token);
    return token;
  }
}

// A guard that nobody can release any more gives its lock back.
const collected = new FinalizationRegistry((tenure) => {
  const { id, name, failure } = tenure;
  tenure.end();
  binding.abandon(id);
  if (failure) return;
  process.emitWarning(`the guard of lock ${name} was dropped without release(); the lock is given back`, "TakeTurnsWarning");
});

class BaseGuard {
  #client;
  #tenure;
  // What `release` returned.
  #released = null;
  // Settles when the lock was given back, or is a handle.
  #ended = Promise.resolve();

  constructor(client, id, name) {
    this.#client = client;
    this.#tenure = new Tenure(id, name);
    collected.register(this, this.#tenure, this.#tenure);
  }

  get isHeld() {
    return !this.#tenure.isOver && binding.isHeld(this.#tenure.id);
  }

  get lost() {
    return this.#tenure.signal;
  }

  release() {
    this.#released ??= this.#end((operation, id) => binding.release(operation, id)).then(() => undefined);
    return this.#released;
  }

  // Who called `release` is told of its error by that promise, or the process is, if nobody handles it.
  [Symbol.asyncDispose]() {
    if (this.#released) return this.#ended.catch(() => undefined);
    return this.#tenure.isOver ? Promise.resolve() : this.release();
  }

  async #end(begin) {
    const tenure = this.#tenure;
    if (tenure.isOver) throw toError(binding.notHeld(tenure.name));
    tenure.end();
    this.#ended = call((operation) => begin(operation, tenure.id));
    this.#client.waitFor(this.#ended);
    return this.#ended;
  }

  // For the classes below.
  _check() {
    return this.#tenure.check();
  }

  _ask(question) {
    return this.#tenure.isOver ? null : question(this.#tenure.id);
  }

  _intoHandle() {
    return this.#end((operation, id) => binding.intoHandle(operation, id));
  }
}

class Guard extends BaseGuard {
  constructor(client, answer) {
    super(client, answer.id, answer.name);
    this.name = answer.name;
    this.token = answer.token ?? null;
    this.member = answer.member ?? null;
    Object.freeze(this);
  }

  check() {
    return this._check();
  }

  get left() {
    return this._ask((id) => binding.left(id)) ?? 0;
  }

  get span() {
    return this._ask((id) => binding.span(id)) ?? 0;
  }

  get trouble() {
    return this._ask((id) => binding.trouble(id)) ?? null;
  }

  async intoHandle() {
    return new Handle(await this._intoHandle());
  }

  [inspect.custom](depth, options) {
    const { name, token, member, isHeld } = this;
    return `Guard ${inspect({ name, token, ...(member === null ? {} : { member }), isHeld }, options)}`;
  }
}

class AllGuard extends BaseGuard {
  constructor(client, answer) {
    super(client, answer.id, answer.names.join(", "));
    this.tokens = new Map(answer.names.map((name, place) => [name, answer.tokens[place] ?? null]));
    Object.freeze(this);
  }

  check() {
    this._check();
    return new Map(this.tokens);
  }

  [inspect.custom](depth, options) {
    const { tokens, isHeld } = this;
    return `AllGuard ${inspect({ tokens, isHeld }, options)}`;
  }
}

// The error of the loss, if the lock was lost. A guard that was released or made a handle was not.
const lossOf = (guard) => {
  try {
    guard.check();
  } catch (error) {
    if (error instanceof LostError) return error;
  }
  return null;
};

// Does the work under a lock and releases it. Returns what the work does, and the loss if there was one by then.
const workUnder = async (guard, work) => {
  let output;
  try {
    output = await work(guard);
  } catch (error) {
    const loss = lossOf(guard);
    // The error of the work matters more than that of the release, and less than a loss.
    await guard[Symbol.asyncDispose]().catch(() => undefined);
    if (!loss) throw error;
    if (!(error instanceof LostError)) loss.cause = error;
    return { loss };
  }
  const loss = lossOf(guard);
  try {
    await guard[Symbol.asyncDispose]();
  } catch (error) {
    // The work is done all the same, and the lock ends with its lease.
    if (!loss) process.emitWarning(`the work was done, but its lock was not released: ${error.message}`, "TakeTurnsWarning");
  }
  return { loss, output };
};

module.exports = { AllGuard, Guard, workUnder };
