// llmtap run sets NODE_OPTIONS=--require with this file, which every version of Node.js that the hook works with accepts there. The hook
// is that of the program or of the working directory. Errors never reach the program.
"use strict";
const { createRequire } = require("node:module");

function load() {
  let missing;
  for (const from of [process.argv[1], process.cwd() + "/program"]) {
    try {
      if (from) return require(createRequire(from).resolve("llmtap/register"));
    } catch (e) {
      if (e?.code !== "MODULE_NOT_FOUND" && e?.code !== "ERR_PACKAGE_PATH_NOT_EXPORTED") throw e;
      missing = e;
    }
  }
  throw missing;
}

try {
  load();
} catch (e) {
  const why = e?.code === "MODULE_NOT_FOUND" ? "the package llmtap is not installed in " + process.cwd() : String(e);
  try {
    if (!process.env._LLMTAP_TOLD) require("node:fs").writeSync(2, `llmtap: the calls of this program are not recorded: ${why}\n`);
    process.env._LLMTAP_TOLD = "1"; // for the processes that this one starts
  } catch {} // the program has no standard error
}
