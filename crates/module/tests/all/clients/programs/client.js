// A client that does as it is told: a command per line, and its reply as a line of JSON.

const Redis = require("ioredis");
const { createInterface } = require("node:readline");

async function main() {
  const client = new Redis(process.argv[1]);
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      console.log(JSON.stringify(await client.call(...line.split(" "))));
    } catch (error) {
      console.log("error:" + JSON.stringify(error.message));
    }
  }
  client.disconnect();
}

main();
