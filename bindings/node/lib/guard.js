"use strict";

// Guards: locks that are held.

const { inspect } = require("node:util");

const { LostError, toError } = require("./errors.js");
const { Handle } = require("./handle.js");
const { binding, call, letGo, stayAlive, tenures } = require("./operations.js");
const { need, text } = require("./options.js");

// How long a guard holds, apart from the guard itself: it must not keep the guard from being collected.
class Tenure {
  constructor(id, name, dropped) {
    this.id = id;
    this.name = name;
    // What is said of a guard that was collected.
    this.dropped = dropped;
    // It was released, or became a handle, or its work is done or failed.
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
  const { id, dropped, failure } = tenure;
  tenure.end();
  binding.abandon(id);
  if (!failure) process.emitWarning(dropped, "TakeTurnsWarning");
});

const forgotten = (name) => `the guard of lock ${name} was dropped without release(); the lock is given back`;

class BaseGuard {
  #client;
  #tenure;
  // What gave the lock back, or recorded what became of its work.
  #released = null;
  // Settles when that is over, or it is a handle.
  #ended = Promise.resolve();

  constructor(client, id, name, dropped = forgotten(name)) {
    this.#client = client;
    this.#tenure = new Tenure(id, name, dropped);
    collected.register(this, this.#tenure, this.#tenure);
  }

  get isHeld() {
    return !this.#tenure.isOver && binding.isHeld(this.#tenure.id);
  }

  get lost() {
    return this.#tenure.signal;
  }

  // Who called `release` is told of its error by that promise, or the process is, if nobody handles it.
  [Symbol.asyncDispose]() {
    if (this.#released) return this.#ended.catch(() => undefined);
    return this.#tenure.isOver ? Promise.resolve() : this._release();
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

  _finish(begin) {
    const finished = this.#end(begin).then(() => undefined);
    this.#released ??= finished;
    return finished;
  }

  _release() {
    return this._finish((operation, id) => binding.release(operation, id));
  }

  get _released() {
    return this.#released;
  }

  get _isOver() {
    return this.#tenure.isOver;
  }

  _ask(question) {
    return this.#tenure.isOver ? null : question(this.#tenure.id);
  }

  _intoHandle() {
    return this.#end((operation, id) => binding.intoHandle(operation, id));
  }
}

// One lock.
class SingleGuard extends BaseGuard {
  constructor(client, answer, dropped) {
    super(client, answer.id, answer.name, dropped);
    this.name = answer.name;
    this.token = answer.token ?? null;
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
}

class Guard extends SingleGuard {
  constructor(client, answer) {
    super(client, answer);
    this.member = answer.member ?? null;
    Object.freeze(this);
  }

  release() {
    return this._released ?? this._release();
  }

  async intoHandle() {
    return new Handle(await this._intoHandle());
  }

  [inspect.custom](depth, options) {
    const { name, token, member, isHeld } = this;
    return `Guard ${inspect({ name, token, ...(member === null ? {} : { member }), isHeld }, options)}`;
  }
}

// The right to do the work of a once.
class Attempt extends SingleGuard {
  constructor(client, answer) {
    super(client, answer, `the attempt at ${answer.name} was dropped without done() or fail(); it has failed`);
    Object.freeze(this);
  }

  async done(result = "") {
    need("the result", text, result);
    await this._finish((operation, id) => binding.done(operation, id, result));
  }

  fail() {
    return this._release();
  }

  [inspect.custom](depth, options) {
    const { name, token, isHeld } = this;
    return `Attempt ${inspect({ name, token, isHeld }, options)}`;
  }
}

class AllGuard extends BaseGuard {
  constructor(client, answer) {
    super(client, answer.id, answer.names.join(", "));
    this.tokens = new Map(answer.names.map((name, place) => [name, answer.tokens[place] ?? null]));
    Object.freeze(this);
  }

  release() {
    return this._released ?? this._release();
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

// Gives a lock back after the work under it failed. Returns the loss that made the work fail, if there was one.
const lossAfter = async (guard, error) => {
  const loss = lossOf(guard);
  // The error of the work matters more than that of the release, and less than a loss.
  await guard[Symbol.asyncDispose]().catch(() => undefined);
  if (loss && !(error instanceof LostError)) loss.cause = error;
  return loss;
};

// Does the work under a lock and releases it. Returns what the work does, and the loss if there was one by then.
const workUnder = async (guard, work) => {
  let output;
  try {
    output = await work(guard);
  } catch (error) {
    const loss = await lossAfter(guard, error);
    if (!loss) throw error;
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

module.exports = { AllGuard, Attempt, Guard, lossAfter, workUnder };
