"use strict";

// Loads the addon of this platform, which is in the package: nothing is downloaded or built when it is installed.

const { existsSync } = require("node:fs");
const { join } = require("node:path");

const platform = `${process.platform}-${process.arch}`;
// One that was built for another C library does not load.
const names = process.platform === "linux" ? [`${platform}-gnu`, `${platform}-musl`] : [platform];

const load = () => {
  let cause;
  for (const name of names) {
    const path = join(__dirname, "../native", `${name}.node`);
    if (!existsSync(path)) continue;
    try {
      return require(path);
    } catch (error) {
      cause ??= error;
    }
  }
  if (cause) throw new Error(`the addon of taketurns can't be loaded: ${cause.message}`, { cause });
  throw new Error(`this package of taketurns has no addon for ${platform}: make one from the sources, with \`cargo xtask dist\``);
};

module.exports = load();
