"use strict";

// A held lock on its way to another process.

const { inspect } = require("node:util");

const { toError } = require("./errors.js");
const { need, text } = require("./options.js");
const { binding } = require("./operations.js");

class Handle {
  // Enough to release the lock, so it shows nowhere but in `expose`.
  #text;

  constructor(answer) {
    this.#text = answer.text;
    this.name = answer.name;
    this.token = answer.token ?? null;
    Object.freeze(this);
  }

  static parse(handle) {
    const answer = binding.readHandle(need("a handle", text, handle));
    if (answer.failure) throw toError(answer.failure);
    return new Handle(answer);
  }

  expose() {
    return this.#text;
  }

  [inspect.custom](depth, options) {
    const { name, token } = this;
    return `Handle ${inspect({ name, token }, options)}`;
  }
}

// The text of a handle, or of what was one.
const handleText = (handle) => (handle instanceof Handle ? handle : Handle.parse(handle)).expose();

module.exports = { Handle, handleText };
