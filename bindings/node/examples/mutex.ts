// One holder at a time: the ten lines of the README.

import { connect } from "taketurns";

await using locks = await connect(process.argv[2] ?? "file:/tmp/taketurns-example.db");
{
  await using guard = await locks.mutex("orders/42").acquire({ within: 5_000, why: "ship it" });
  guard.lost.addEventListener("abort", () => console.error("stop:", guard.lost.reason));
  const token = guard.check(); // throws if the lock is lost; the resource refuses older tokens
  console.log(`shipping order 42 with token ${token}`);
}
