// node-redlock on ioredis, over all servers that are given: each client has connections of its own.

const Redis = require("ioredis");
const { default: Redlock, ExecutionError } = require("redlock");

const config = JSON.parse(process.argv[1]);
const now_us = () => Number(process.hrtime.bigint() / 1000n);
const sleep_ms = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
// 200 ms and as many, at random, is what it has by itself.
const retry_ms = config.retry_ms || 200;

// One attempt each time. Between its own attempts it keeps the servers it has won, and refuses them
// to itself: a client that has no majority at first gets none before all have expired.
const redlock = async () => {
  const clients = config.urls.map((url) => new Redis(url));
  await Promise.all(clients.map((client) => client.ping()));
  return new Redlock(clients, { retryCount: 0 });
};

const attempt = async (redlock, lock, ttl_ms) => {
  try {
    const sent_us = now_us();
    return { held: await redlock.acquire([lock], ttl_ms), sent_us };
  } catch (error) {
    if (!(error instanceof ExecutionError)) throw error;
    await sleep_ms(Math.random() * 2 * retry_ms);
    return null;
  }
};

const release = async (held) => {
  try {
    await held.release();
    return true;
  } catch (error) {
    if (!(error instanceof ExecutionError)) throw error;
    return false;
  }
};

const take_turns = async (who, redlock, end_us) => {
  const ttl_us = config.ttl_ms * 1000;
  while (now_us() < end_us) {
    const lock = config.locks[Math.floor(Math.random() * config.locks.length)];
    const got = await attempt(redlock, lock, config.ttl_ms);
    if (!got) continue;
    const { held, sent_us } = got;
    const from_us = now_us();
    await sleep_ms(Math.random() * 2 * config.hold_ms);
    const until_us = now_us();
    const unsure = until_us - sent_us > 0.8 * ttl_us;
    const turn = JSON.stringify({ who, lock, member: null, from_us, until_us, unsure });
    process.stdout.write(`${turn}\n`);
    const kept = await release(held);
    if (!kept && now_us() - sent_us < ttl_us) {
      throw new Error(`${who} lost ${lock} before its time: ${turn}`);
    }
    await sleep_ms(Math.random() * config.think_ms);
  }
};

const work = async () => {
  const clients = await Promise.all(Array.from({ length: config.clients }, redlock));
  const end_us = now_us() + config.seconds * 1_000_000;
  await Promise.all(clients.map((one, n) => take_turns(`${config.who}-${n}`, one, end_us)));
  await Promise.all(clients.map((one) => one.quit()));
};

const obey = async () => {
  const one = await redlock();
  const held = new Map();
  const orders = {
    acquire: async ({ lock, wait_ms = 0, ttl_ms = config.ttl_ms }) => {
      const end_us = now_us() + wait_ms * 1000;
      let got = await attempt(one, lock, ttl_ms);
      while (!got && now_us() < end_us) got = await attempt(one, lock, ttl_ms);
      if (got) held.set(lock, got.held);
      return { ok: got !== null, token: got && got.held.value };
    },
    extend: async ({ lock, ttl_ms }) => {
      held.set(lock, await held.get(lock).extend(ttl_ms));
      return { ok: true };
    },
    release: async ({ lock }) => ({ ok: await release(held.get(lock)) }),
  };
  for await (const line of require("readline").createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    const answer = await orders[order.do](order).catch((error) => ({ ok: false, error: `${error}` }));
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  await one.quit();
};

(config.interactive ? obey() : work()).catch((error) => {
  console.error(error);
  process.exit(1);
});
