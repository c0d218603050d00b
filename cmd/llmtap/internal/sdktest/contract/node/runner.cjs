// Makes the calls of the contract cases with the TypeScript hook. Reads commands and prints results, one line of JSON each.
//
// {"do": "open", ...} instruments, "call" makes calls, "flush" waits until all events are stored, "close" stops recording.
"use strict";

const readline = require("node:readline");
const path = require("node:path");
const { pathToFileURL } = require("node:url");
const raw = require("./raw.cjs");
const sdks = require("./sdks.cjs");

const clients = { ...raw, ...sdks };
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function once(c) {
  try {
    return (await clients[c.client](c)) ?? { status: 0, body: "", error: "" };
  } catch (e) {
    return { status: 0, body: "", error: `${e.name}: ${e.message}` };
  }
}

function labels(c, i) {
  const found = { ...c.labels };
  if (c.parallel > 1) found.conversation = `${found.conversation}-${i}`;
  return found;
}

/** Two calls and a failing tool between them, in a run. */
function withTool(llmtap, c) {
  return llmtap.context({ conversation: c.labels.conversation }, () =>
    llmtap.run(c.labels.run, async () => {
      await once(c);
      await llmtap
        .tool(c.tool, async () => {
          throw new Error("tool failed");
        })
        .catch(() => undefined);
      return once(c);
    }),
  );
}

async function call(llmtap, c) {
  c.body = Buffer.from(c.body ?? "", "base64");
  c.url = c.base + c.path;
  let results;
  if (c.tool) results = [await withTool(llmtap, c)];
  else {
    const all = Array.from({ length: c.parallel }, (_, i) => llmtap.context(labels(c, i), () => once(c)));
    results = await Promise.all(all);
  }
  while (llmtap.stats().open > 0) await pause(1);
  return results;
}

async function flush(llmtap, seconds) {
  const limit = Date.now() + seconds * 1000;
  while (llmtap.stats().open > 0 && Date.now() < limit) await pause(1);
  const flushed = await llmtap.flush(Math.max(0, limit - Date.now()));
  const { published, events, dropped, pending, open, bytes, errors } = llmtap.stats();
  if (errors > 0) throw new Error("internal errors of the hook");
  return { flushed, published, events, dropped, pending, open, bytes };
}

async function command(llmtap, line) {
  switch (line.do) {
    case "open":
      llmtap.instrument({
        url: line.nats, endpoint: line.endpoint, token: line.token, service: "svc", serviceVersion: "1.2.3", environment: "test",
        capture: line.capture, hosts: [line.host], attrs: { region: "eu" }, memoryLimit: line.memory_limit || undefined,
        logger: { warn: (message) => message.includes("internal error") && console.error(message) },
      });
      return {};
    case "call":
      return call(llmtap, line);
    case "flush":
      return flush(llmtap, line.seconds);
  }
  await llmtap.uninstrument();
  return {};
}

async function main() {
  const out = process.stdout;
  console.log = console.error; // clients may print
  const llmtap = await import(pathToFileURL(path.join(process.env.LLMTAP_PACKAGE, "index.mjs")));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    out.write(JSON.stringify(await command(llmtap, JSON.parse(line))) + "\n");
  }
}

main().then(
  () => process.exit(),
  (e) => {
    console.error(e);
    process.exit(1);
  },
);
