"use strict";

// Loads the addon of this platform, which is in the package: nothing is downloaded or built when it is installed.

const libc = () => {
  if (process.platform !== "linux") return "";
  return process.report.getReport().header.glibcVersionRuntime ? "-gnu" : "-musl";
};

const platform = `${process.platform}-${process.arch}${libc()}`;

try {
  module.exports = require(`../native/${platform}.node`);
} catch (cause) {
  const why = `taketurns has no addon for ${platform}: build one from the sources (docs/install.md says how)`;
  throw new Error(cause.code === "MODULE_NOT_FOUND" ? why : `the addon of taketurns can't be loaded: ${cause.message}`, { cause });
}
