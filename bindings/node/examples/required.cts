// The package in a CommonJS program.

import taketurns = require("taketurns");

async function main(): Promise<void> {
  const locks: taketurns.Locks = await taketurns.connect("memory:");
  const guard = await locks.mutex("orders/42").acquire();
  console.log(guard.name, guard.isHeld);
  await guard.release();
}

void main();
