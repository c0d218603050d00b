// An agent that makes calls and exits: node agent.cjs URL CALLS UNTIL. Its hook has the settings of the environment.
//
// Before it exits, it waits until the hook has logged the text UNTIL, if any. Logs go to standard error.
"use strict";

const llmtap = require(process.env.LLMTAP_PACKAGE);

const [url, calls, until] = process.argv.slice(2);
const lines = [];
const warn = (line) => {
  lines.push(line);
  console.error(line);
};

async function main() {
  llmtap.instrument({ service: "svc", flushTimeout: until ? 200 : 20000, logger: { warn } });
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "q" }] });
  for (let i = 0; i < Number(calls); i++) {
    const r = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
    await r.text();
  }
  const deadline = Date.now() + 60000;
  while (until && Date.now() < deadline && !lines.some((l) => l.includes(until))) await new Promise((r) => setTimeout(r, 10));
  console.log(llmtap.stats().unrecorded);
}

main();
