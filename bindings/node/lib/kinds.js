"use strict";

// The kinds of locks. Each is a name and what can be asked for under that name; it holds nothing.

const { AllGuard, Guard, workUnder } = require("./guard.js");
const { binding, call } = require("./operations.js");
const { callback, count, need, read, text } = require("./options.js");

class LockHandle {
  #client;

  constructor(client, name) {
    this.#client = client;
    this.name = need("the name of a lock", text, name);
  }

  // For the classes below.
  async _acquire(mode, given, more) {
    const options = read("acquire", given);
    const ask = { mode, name: this.name, ...more };
    const answer = await this._call((id, client) => binding.acquire(id, client, ask, options), options.signal);
    return new Guard(this.#client, answer);
  }

  async _tryAcquire(mode, given, more) {
    const options = read("tryAcquire", given);
    const ask = { mode, name: this.name, ...more };
    const answer = await this._call((id, client) => binding.tryAcquire(id, client, ask, options), options.signal);
    return answer.isBusy ? null : new Guard(this.#client, answer);
  }

  _call(begin, signal) {
    return this.#client.call(begin, signal);
  }
}

class Mutex extends LockHandle {
  acquire(options) {
    return this._acquire("mutex", options);
  }

  tryAcquire(options) {
    return this._tryAcquire("mutex", options);
  }

  async run(work, options) {
    need("the work", callback, work);
    const { loss, output } = await workUnder(await this.acquire(options), work);
    if (loss) throw loss;
    return output;
  }
}

class RwLock extends LockHandle {
  read(options) {
    return this._acquire("read", options);
  }

  write(options) {
    return this._acquire("write", options);
  }

  tryRead(options) {
    return this._tryAcquire("read", options);
  }

  tryWrite(options) {
    return this._tryAcquire("write", options);
  }
}

class Semaphore extends LockHandle {
  constructor(client, name, permits) {
    super(client, name);
    this.permits = need("the permits of a semaphore", count, permits);
  }

  acquire(options) {
    return this.acquireMany(1, options);
  }

  acquireMany(permits, options) {
    return this._acquire("permits", options, this.#share(permits));
  }

  tryAcquire(options) {
    return this.tryAcquireMany(1, options);
  }

  tryAcquireMany(permits, options) {
    return this._tryAcquire("permits", options, this.#share(permits));
  }

  async resize() {
    const { name, permits } = this;
    return (await this._call((id, client) => binding.resize(id, client, name, permits))).changed;
  }

  #share(permits) {
    return { take: need("a number of permits", count, permits), of: this.permits };
  }
}

class Pool extends LockHandle {
  any(options) {
    return this._acquire("any", options);
  }

  tryAny(options) {
    return this._tryAcquire("any", options);
  }

  member(member, options) {
    return this._acquire("member", options, { member: need("a member", text, member) });
  }

  tryMember(member, options) {
    return this._tryAcquire("member", options, { member: need("a member", text, member) });
  }

  add(member) {
    return this.#change(member, true);
  }

  remove(member) {
    return this.#change(member, false);
  }

  async #change(member, isNew) {
    const { name } = this;
    need("a member", text, member);
    return (await this._call((id, client) => binding.changePool(id, client, name, member, isNew))).changed;
  }
}

class All {
  #client;

  constructor(client, names) {
    this.#client = client;
    this.names = Array.from(names, (name) => need("the name of a lock", text, name));
  }

  async acquire(given) {
    const { names } = this;
    const options = read("acquireAll", given);
    const begin = (id, client) => binding.acquireAll(id, client, names, options);
    return new AllGuard(this.#client, await this.#client.call(begin, options.signal));
  }
}

module.exports = { All, LockHandle, Mutex, Pool, RwLock, Semaphore };
