"use strict";

// Leader election: the mutex of that name, whose holder leads.

const { workUnder } = require("./guard.js");
const { LockHandle } = require("./kinds.js");
const { binding, nextNumber } = require("./operations.js");
const { callback, need, read } = require("./options.js");

class Election extends LockHandle {
  campaign(options) {
    return this._acquire("campaign", options);
  }

  async lead(work, options) {
    need("the work", callback, work);
    for (;;) {
      const { loss, output } = await workUnder(await this.campaign(options), work);
      if (!loss) return output;
    }
  }

  async leader() {
    const { name } = this;
    return (await this._call((id, client) => binding.leader(id, client, name))).leader ?? null;
  }

  async *observe(given) {
    const { every, signal } = read("observe", given);
    const observer = nextNumber();
    const { name } = this;
    try {
      for (let isNew = true; ; isNew = false) {
        const begin = (id, client) => {
          if (isNew) binding.observe(observer, client, name, every);
          return binding.nextLeader(id, observer);
        };
        yield (await this._call(begin, signal)).leader ?? null;
      }
    } finally {
      binding.abandon(observer);
    }
  }
}

module.exports = { Election };
