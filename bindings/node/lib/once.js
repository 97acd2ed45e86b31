"use strict";

// Work that is done once. What is remembered of it is in the store.

const { Attempt, lossAfter } = require("./guard.js");
const { LockHandle } = require("./kinds.js");
const { binding } = require("./operations.js");
const { callback, need, read } = require("./options.js");

class Once extends LockHandle {
  #client;
  #once;

  constructor(client, name, given) {
    super(client, name);
    const terms = read("once", given);
    if (terms.rememberFor !== undefined && terms.every !== undefined) {
      throw new TypeError("the options rememberFor and every of once exclude each other");
    }
    if (terms.offset !== undefined && terms.every === undefined) {
      throw new TypeError("the option offset of once says when a period begins, so it needs every");
    }
    this.#client = client;
    this.#once = { name, ...terms };
  }

  async run(work, options) {
    need("the work", callback, work);
    const { attempt, completion } = await this.begin(options);
    if (!attempt) return { didIt: false, completion };
    let value;
    try {
      value = await work(attempt);
    } catch (error) {
      throw (await lossAfter(attempt, error)) ?? error;
    }
    // The work may have recorded it itself, with a result.
    await (attempt._isOver ? attempt[Symbol.asyncDispose]() : attempt.done());
    return { didIt: true, value };
  }

  async begin(given) {
    const options = read("begin", given);
    return this.#begun(await this._call((id, client) => binding.begin(id, client, this.#once, options), options.signal));
  }

  async tryBegin(given) {
    const options = read("tryBegin", given);
    const answer = await this._call((id, client) => binding.tryBegin(id, client, this.#once, options), options.signal);
    return answer.isBusy ? null : this.#begun(answer);
  }

  async completion() {
    const { name } = this;
    const { completion } = await this._call((id, client) => binding.completion(id, client, name));
    return completion ? dated(completion) : null;
  }

  async undo() {
    const { name } = this;
    return (await this._call((id, client) => binding.undo(id, client, name))).changed;
  }

  #begun(answer) {
    const { completion } = answer;
    if (completion) return { attempt: null, completion: dated(completion) };
    return { attempt: new Attempt(this.#client, answer), completion: null };
  }
}

const dated = (completion) => ({ ...completion, at: new Date(completion.at), until: new Date(completion.until) });

module.exports = { Once, dated };
