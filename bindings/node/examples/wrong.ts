// Deliberately wrong: a test checks that the compiler finds each of these lines, and no other.

import { connect, type Guard } from "taketurns";

const locks = await connect("memory:");
const mutex = locks.mutex("orders/42");

const forgotten = mutex.acquire();
forgotten.check(); // wrong: await is missing
await using unheld = mutex.acquire(); // wrong: await is missing
await mutex.acquire({ timeout: 5_000 }); // wrong: the option is called within
await mutex.acquire({ within: "5s" }); // wrong: it is a number of milliseconds
await mutex.tryAcquire({ within: 5_000 }); // wrong: a try does not wait
await locks.rwlock("config").read({ keep: 3 }); // wrong: only a mutex can be kept
const maybe: Guard = await mutex.tryAcquire(); // wrong: others may have it
new AbortController().signal = maybe.lost; // wrong: read-only
locks.once("nightly", { for: 60_000 }); // wrong: the option is called rememberFor
locks.once("nightly").run(() => 3).didIt; // wrong: await is missing
(await locks.once("nightly").begin()).attempt.done(); // wrong: it may be done already
console.log(maybe.token + 1); // wrong: a store may have no tokens
