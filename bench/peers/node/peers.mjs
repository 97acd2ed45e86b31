// Lock libraries in Node under the loads of the benchmark.
//
//     peers.mjs LIBRARY pairs --url URL --tasks N --seconds S
//     peers.mjs LIBRARY crowd --url URL --clients N --hold-ms MS --seconds S
//
// Every library, ours included, is used as its documentation says, with its own defaults. Where those give up rather than
// wait, the one option that makes it wait is set, and the class says so. An object of a class is a client,
// with one connection; `acquire` gives what `release` wants.

import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import Redis from "ioredis";
import { Mutex } from "redis-semaphore";
import Redlock from "redlock";

// How long the tasks run before anything counts.
const WARM_UP_US = 200_000;

// How long after its time a run may end. A library that loses a wake-up may wait for ever.
const GRACE_S = 30;

// For the library that wants a lease to be named: it outlasts any hold.
const LEASE_MS = 30_000;

// What a client of another library needs, and an end for it.
const redis_at = async (url) => {
  const redis = new Redis(url);
  await redis.ping();
  return [redis, () => redis.disconnect()];
};

// redlock, of one server. It tries 100 to 300 ms apart, and by default gives up after ten times.
class NodeRedlock {
  static async open(url) {
    const [redis, close] = await redis_at(url);
    return Object.assign(new NodeRedlock(), { redlock: new Redlock([redis], { retryCount: -1 }), close });
  }

  acquire(name) {
    return this.redlock.acquire([name], LEASE_MS);
  }

  release(held) {
    return held.release();
  }
}

// redis-semaphore's Mutex. It tries every 10 ms, and by default gives up after 10 s.
class RedisSemaphore {
  static async open(url) {
    const [redis, close] = await redis_at(url);
    return Object.assign(new RedisSemaphore(), { redis, close });
  }

  async acquire(name) {
    const mutex = new Mutex(this.redis, name, { acquireTimeout: Infinity });
    await mutex.acquire();
    return mutex;
  }

  release(held) {
    return held.release();
  }
}

// Our own package for Node.
class Taketurns {
  static async open(url) {
    const { connect } = await import("taketurns");
    const locks = await connect(url);
    return Object.assign(new Taketurns(), { locks, close: () => locks.close() });
  }

  acquire(name) {
    return this.locks.mutex(name).acquire();
  }

  release(held) {
    return held.release();
  }
}

const LIBRARIES = { redlock: NodeRedlock, "redis-semaphore": RedisSemaphore, "taketurns-node": Taketurns };

// `CLOCK_MONOTONIC`, the time that all processes of a machine share.
const now_us = () => Number(process.hrtime.bigint() / 1000n);

const numbers = (count) => Array.from({ length: count }, (_, number) => number);

const clients_of_all = [];

const connect = async (Library, url) => {
  const client = await Library.open(url);
  clients_of_all.push(client);
  return client;
};

// Tasks that share a client, with a lock each.
const pairs = async (Library, { url, tasks, seconds }) => {
  const client = await connect(Library, url);
  const start = now_us() + WARM_UP_US;
  const end = start + seconds * 1_000_000;
  const task = async (number) => {
    const name = `pairs-${number}`;
    for (let count = 0; ; ) {
      const held = await client.acquire(name);
      await client.release(held);
      const now = now_us();
      if (now >= end) return count;
      if (now >= start) count += 1;
    }
  };
  const counts = await Promise.all(numbers(tasks).map(task));
  const sum = counts.reduce((all, count) => all + count, 0);
  console.log(JSON.stringify({ pairs: sum, seconds }));
};

// Clients that all want the same lock. Who waits when the time is over waits to the end, so that the
// longest wait is among the turns.
const crowd = async (Library, { url, clients, hold_ms, seconds }) => {
  const prepare = async (number) => {
    const client = await connect(Library, url);
    // So that scripts are loaded and the connection is there.
    await client.release(await client.acquire(`crowd-${number}`));
    return client;
  };
  const ready = await Promise.all(numbers(clients).map(prepare));
  const end = now_us() + seconds * 1_000_000;
  const take_turns = async (client) => {
    const turns = [];
    for (let asked; (asked = now_us()) < end; ) {
      const held = await client.acquire("crowd");
      const got = now_us();
      await sleep(hold_ms);
      const released = now_us();
      await client.release(held);
      turns.push([asked, got, released]);
    }
    return turns;
  };
  const all = await Promise.all(ready.map(take_turns));
  const lines = all.flatMap((turns, number) => turns.map((turn) => ["turn", number, ...turn].join(" ")));
  console.log(lines.join("\n"));
};

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: "string" },
    tasks: { type: "string", default: "1" },
    clients: { type: "string", default: "16" },
    "hold-ms": { type: "string", default: "1" },
    seconds: { type: "string" },
  },
});
const [library, load] = positionals;
const Library = LIBRARIES[library];
const run = { pairs, crowd }[load];
if (!Library || !run || !values.url || !values.seconds) {
  throw new Error("usage: peers.mjs LIBRARY pairs|crowd --url URL --seconds S");
}
const give_up = () => {
  console.error("it does not end");
  process.exit(1);
};
setTimeout(give_up, (Number(values.seconds) + GRACE_S) * 1000).unref();
await run(Library, {
  url: values.url,
  tasks: Number(values.tasks),
  clients: Number(values.clients),
  hold_ms: Number(values["hold-ms"]),
  seconds: Number(values.seconds),
});
for (const client of clients_of_all) await client.close();
