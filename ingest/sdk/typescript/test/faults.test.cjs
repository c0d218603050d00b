// Responses that fail: the agent observes the same with and without the hook, and its next call does not wait. The test prints what the hook
// adds to both calls. And internal errors of the hook: the call ends, is counted and forgotten.
"use strict";

const assert = require("node:assert");
const fs = require("node:fs");
const http = require("node:http");
const { performance } = require("node:perf_hooks");
const { afterEach, test } = require("node:test");
const { internal, llmtap, serve, startFaults } = require("./go.cjs");

const ROUNDS = 4;
const TIMEOUT = 450; // of the clients, in milliseconds
const NAMES = ["ok", "drip", "stall", "reset", "close", "huge", "half-head", "chunks"];
const REQUEST = { method: "POST", headers: { "content-type": "application/json" } };
const quiet = { warn: () => undefined };

afterEach(() => llmtap.uninstrument());

/** What f returns or throws, without ports. */
async function outcome(f) {
  let text;
  try {
    text = JSON.stringify(await f());
  } catch (e) {
    text = [e, e.cause].filter(Boolean).map((x) => `${x.name} ${x.code}: ${x.message}`).join(" < ");
  }
  return text.replace(/:\d{4,5}/g, "");
}

/** A call of node:http with an agent of one connection. */
const overHTTP = (how) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const call = (url, then) =>
    new Promise((resolve, reject) => {
      const req = http.request(url, { ...REQUEST, agent, timeout: TIMEOUT }, (res) => {
        const events = [];
        let size = 0;
        res.on("data", (p) => (size += p.length));
        for (const name of ["end", "aborted", "error"]) res.on(name, (e) => events.push(e ? `${name} ${e.message}` : name));
        res.on("close", () => resolve([res.statusCode, size, events, res.complete, res.destroyed]));
        if (then === "destroy") res.destroy();
      });
      req.on("error", reject);
      req.on("timeout", () => req.destroy(new Error("timed out")));
      req.end("{}");
    });
  return { first: (url) => call(url, how), next: (url) => call(url, "read"), end: () => agent.destroy() };
};

/** A call of fetch, which is undici. */
const overFetch = (how) => {
  const read = async (url) => {
    const r = await fetch(url, { ...REQUEST, body: "{}", signal: AbortSignal.timeout(TIMEOUT) });
    if (how !== "cancel") return [r.status, (await r.arrayBuffer()).byteLength];
    await r.body.cancel();
    return [r.status, r.bodyUsed, await outcome(() => r.text())];
  };
  return { first: read, next: async (url) => (await fetch(url, { ...REQUEST, body: "{}" })).text(), end: () => undefined };
};

const CLIENTS = {
  "fetch, read": () => overFetch("read"),
  "fetch, cancel": () => overFetch("cancel"),
  "node:http, read": () => overHTTP("read"),
  "node:http, destroy": () => overHTTP("destroy"),
};

/** What the clients see of the faults: the outcomes and durations of a call and of the next one, ROUNDS times. */
async function observe(host, pairs) {
  const seen = {};
  const work = async (pair) => {
    seen[pair] = [];
    const [client, fault] = pair.split(" | ");
    for (let i = 0; i < ROUNDS; i++) {
      const { first, next, end } = CLIENTS[client]();
      const start = performance.now();
      const one = await outcome(() => first(`http://${host}/${fault}/v1/chat/completions`));
      const between = performance.now();
      const two = await outcome(() => next(`http://${host}/ok/200/v1/chat/completions`));
      seen[pair].push({ outcomes: one + "; next: " + two, took: [between - start, performance.now() - between] });
      end();
    }
  };
  const waiting = [...pairs];
  await Promise.all(Array.from({ length: 8 }, async () => {
    while (waiting.length > 0) await work(waiting.shift());
  }));
  return seen;
}

async function observeHooked(host, pairs) {
  llmtap.instrument({ url: "nats://127.0.0.1:1", service: "svc", hosts: [host], capture: "none", flushTimeout: 0, logger: quiet });
  const seen = await observe(host, pairs);
  for (let i = 0; i < 500 && llmtap.stats().open > 0; i++) await new Promise((resolve) => setTimeout(resolve, 10));
  const { errors, open, pending } = llmtap.stats();
  assert.deepStrictEqual({ errors, open, pending }, { errors: 0, open: 0, pending: 4 * ROUNDS * pairs.length });
  await llmtap.uninstrument();
  return seen;
}

const outcomes = (all) => [...new Set(all.map((s) => s.outcomes))].sort().join("\n");

test("responses that fail", { timeout: 120_000 }, async (t) => {
  const { host, stop } = await startFaults();
  t.after(stop);
  let pairs = Object.keys(CLIENTS).flatMap((client) => [500, 200].flatMap((status) => NAMES.map((name) => `${client} | ${name}/${status}`)));
  let without = await observe(host, pairs);
  let hooked = await observeHooked(host, pairs);
  console.log("added by the hook, ms                    call: p50  worst   next: p50  worst");
  for (const pair of pairs) {
    const columns = [0, 1].map((i) => {
      const sorted = (all) => all.map((s) => s.took[i]).sort((a, b) => a - b);
      const added = sorted(hooked[pair]).map((ms, n) => ms - sorted(without[pair])[n]);
      return added[ROUNDS / 2].toFixed(1).padStart(11) + added[ROUNDS - 1].toFixed(1).padStart(7);
    });
    console.log(pair.padEnd(38) + columns.join("  "));
  }
  for (let i = 0; i < 3; i++) { // on a busy machine, a call may time out
    pairs = pairs.filter((p) => outcomes(without[p]) !== outcomes(hooked[p]));
    if (pairs.length === 0) break;
    without = await observe(host, pairs);
    hooked = await observeHooked(host, pairs);
  }
  for (const p of pairs) assert.strictEqual(outcomes(hooked[p]), outcomes(without[p]), p);
});

test("an internal error ends a call, which is counted and forgotten", async (t) => {
  const p = await serve((req, body, res) => res.setHeader("content-type", "text/event-stream").end("data: {}\n\n"));
  t.after(p.stop);
  const broken = () => {
    throw new Error("an internal error");
  };
  const methods = [[internal("exchange").Exchange, "responded"], [internal("exchange").Exchange, "bodyPending"],
    [internal("capture").Capture, "write"], [internal("queue").Queue, "push"], [internal("exchange").Exchange, "eof"]];
  for (const [{ prototype }, name] of methods) {
    llmtap.instrument({ url: "nats://127.0.0.1:1", service: "svc", hosts: [p.host], capture: "full", flushTimeout: 0, logger: quiet });
    const original = prototype[name];
    prototype[name] = broken;
    const url = p.url + "/v1/chat/completions";
    assert.strictEqual(await (await fetch(url, { ...REQUEST, body: "{}" })).text(), "data: {}\n\n");
    const { first, end } = overHTTP("read");
    assert.strictEqual((await first(url))[0], 200);
    end();
    prototype[name] = original;
    const { errors, open, bytes } = llmtap.stats();
    assert.ok(errors > 0 && open === 0, `${name}: ${errors} errors, ${open} calls open`);
    if (name !== "push") assert.ok(bytes <= 4 * 2048, `${name}: ${bytes} bytes`);
    await llmtap.uninstrument();
  }
});

test("no file is read on the agent's thread after instrument()", async () => {
  const p = await serve((req, body, res) => res.writeHead(400, { "content-type": "application/json" }).end('{"error":{"message":"bad key sk-aB3dE5gH7jK9mN1pQrS2"}}'));
  llmtap.instrument({ url: "nats://127.0.0.1:1", service: "svc", hosts: [p.host], flushTimeout: 0, logger: quiet });
  const { openSync, readFileSync, statSync } = fs;
  const read = [];
  for (const name of ["openSync", "readFileSync", "statSync"]) fs[name] = (path) => read.push(path);
  try {
    const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "x".repeat(100) }] });
    assert.match(await (await fetch(p.url + "/v1/chat/completions", { ...REQUEST, body })).text(), /bad key/);
    await new Promise((resolve) => setTimeout(resolve, 100));
  } finally {
    Object.assign(fs, { openSync, readFileSync, statSync });
  }
  assert.deepStrictEqual(read, []);
  assert.strictEqual(llmtap.stats().open, 0);
  await p.stop();
});
