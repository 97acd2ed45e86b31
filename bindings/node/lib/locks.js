"use strict";

// The locks of one store.

const os = require("node:os");
const path = require("node:path");
const { inspect } = require("node:util");

const { toError } = require("./errors.js");
const { Guard } = require("./guard.js");
const { Election } = require("./election.js");
const { handleText } = require("./handle.js");
const { All, Mutex, Pool, RwLock, Semaphore } = require("./kinds.js");
const { Once, dated } = require("./once.js");
const { binding, call, endAll } = require("./operations.js");
const { need, read, text } = require("./options.js");

// A client that nobody can use any more ends its connection, when its last guard is released.
const collected = new FinalizationRegistry((id) => binding.abandon(id));

// A connected client, which all that is made of its locks shares.
class Client {
  #id;
  #closing = null;
  // Releases that are under way.
  #releases = new Set();

  constructor(id) {
    this.#id = id;
    collected.register(this, id);
  }

  call(begin, signal) {
    if (this.#closing) return Promise.reject(toError(binding.closed()));
    return call((id) => begin(id, this.#id), { client: this, signal });
  }

  waitFor(release) {
    const over = release.then(
      () => this.#releases.delete(over),
      () => this.#releases.delete(over),
    );
    this.#releases.add(over);
  }

  close() {
    if (!this.#closing) {
      // From here on nothing new begins.
      this.#closing = (async () => {
        endAll(this);
        await Promise.all(this.#releases);
        await call((id) => binding.close(id, this.#id));
      })();
    }
    return this.#closing;
  }
}

class Locks {
  #client;

  constructor(answer) {
    this.#client = new Client(answer.id);
    this.clientId = answer.text;
    this.guarantees = Object.freeze(answer.guarantees);
    Object.freeze(this);
  }

  mutex(name) {
    return new Mutex(this.#client, name);
  }

  rwlock(name) {
    return new RwLock(this.#client, name);
  }

  semaphore(name, permits) {
    return new Semaphore(this.#client, name, permits);
  }

  pool(name) {
    return new Pool(this.#client, name);
  }

  election(name) {
    return new Election(this.#client, name);
  }

  once(name, options) {
    return new Once(this.#client, name, options);
  }

  all(names) {
    return new All(this.#client, names);
  }

  async adopt(handle) {
    const secret = handleText(handle);
    return new Guard(this.#client, await this.#client.call((id, client) => binding.adopt(id, client, secret)));
  }

  async renew(handle, given) {
    const secret = handleText(handle);
    const { lease } = read("renew", given);
    return (await this.#client.call((id, client) => binding.renew(id, client, secret, lease))).number;
  }

  async release(handle) {
    const secret = handleText(handle);
    await this.#client.call((id, client) => binding.releaseHandle(id, client, secret));
  }

  async inspect(name) {
    need("the name of a lock", text, name);
    const { lock } = await this.#client.call((id, client) => binding.inspect(id, client, name));
    return lock ? complete(lock) : null;
  }

  async list(pattern = "*", given = undefined) {
    need("a pattern", text, pattern);
    const { waiters = 1 } = read("list", given);
    const { locks } = await this.#client.call((id, client) => binding.list(id, client, pattern, waiters));
    return locks.map(complete);
  }

  async breakLock(name, given) {
    need("the name of a lock", text, name);
    const { token, atOnce = false } = read("breakLock", given);
    const begin = (id, client) => binding.breakLock(id, client, name, token, atOnce);
    return (await this.#client.call(begin)).number;
  }

  async close() {
    await this.#client.close();
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }

  // Without the URL, which may have a password.
  [inspect.custom](depth, options) {
    return `Locks ${inspect({ clientId: this.clientId }, options)}`;
  }
}

// What a view does not have is null in it.
const complete = (lock) => ({
  ...{ permits: null, lastToken: null, quarantineLeft: null },
  ...lock,
  work: lock.work ? completeWork(lock.work) : null,
  holders: lock.holders.map(completeHolder),
  waiters: lock.waiters.map((waiter) => ({ permits: null, member: null, ...waiter })),
});

const completeWork = (work) => ({ retryIn: null, ...work, done: work.done ? dated(work.done) : null });

const completeHolder = (holder) => ({ permits: null, token: null, member: null, ...holder });

// As the program says it, but with the name of the script, since every program here is called node.
const defaultWho = () => {
  const script = process.argv[1] ? path.basename(process.argv[1]) : "node";
  // Leaves room for the reason, and has nothing that moves a cursor.
  return Array.from(`${os.hostname()}:${process.pid} ${script}`.replace(/\p{Cc}/gu, ""))
    .slice(0, 64)
    .join("")
    .trimEnd();
};

const warn = (why) => process.emitWarning(`waiting for the store: ${why}`, "TakeTurnsWarning");

const connect = async (url, given) => {
  need("the URL of a store", text, url);
  const { signal, onLoading = warn, ...settings } = read("connect", given);
  settings.who ??= defaultWho();
  return new Locks(await call((id) => binding.connect(id, url, settings), { signal, onLoading }));
};

module.exports = { Locks, complete, completeHolder, connect };
