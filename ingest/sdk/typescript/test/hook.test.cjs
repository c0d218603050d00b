// The hook in whole processes: the HTTP endpoint, clients captured before instrument(), labels, exits, and the cost of shapes.
"use strict";

const assert = require("node:assert");
const { spawn } = require("node:child_process");
const http = require("node:http");
const net = require("node:net");
const path = require("node:path");
const { performance } = require("node:perf_hooks");
const { afterEach, test } = require("node:test");
const { gunzipSync } = require("node:zlib");
const { hookDir, internal, llmtap, serve, startNATS } = require("./go.cjs");

const earlyFetch = globalThis.fetch;
const { request: earlyRequest } = http;
const ANSWER = JSON.stringify({ choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "a" } }] });
const JSON_TYPE = { "content-type": "application/json" };

afterEach(() => llmtap.uninstrument());

/** A provider that answers ANSWER. */
const provider = () => serve((req, body, res) => res.setHeader("content-type", "application/json").end(ANSWER));

/** An endpoint that stores events. refuse may answer a request itself. */
async function endpoint(refuse = () => false) {
  const events = [];
  const requests = [];
  const server = await serve((req, body, res) => {
    requests.push({ path: req.url, headers: req.headers });
    if (refuse(req, res, requests.length)) return;
    const text = req.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body;
    const lines = text.toString().trim().split("\n").map((line) => JSON.parse(line));
    events.push(...lines);
    res.end(JSON.stringify({ accepted: lines.length, rejected: [], warnings: [] }));
  });
  return { ...server, events, requests };
}

const post = (url, body, fetch = globalThis.fetch) => fetch(url + "/v1/chat/completions?key=topsecret", { method: "POST", headers: JSON_TYPE, body });

test("LLMTAP_ENDPOINT: events as NDJSON with the token, in the format of POST /v1/events", async () => {
  const [p, e] = await Promise.all([provider(), endpoint()]);
  llmtap.instrument({ endpoint: e.url, token: "t", service: "svc", hosts: [p.host], capture: "full", attrs: { region: "eu" } });
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "规划" }] });
  await llmtap.context({ conversation: "c-1", stage: "规划", user: "anna" }, async () => {
    await llmtap.run("r-1", async () => {
      await (await post(p.url, body)).text();
      await llmtap.tool("call_1", async () => undefined);
    });
  });
  assert.ok(await llmtap.flush(5000));
  const by = Object.fromEntries(e.events.map((x) => [x.kind + (x.run_status ?? x.tool_status ?? ""), x]));
  assert.deepStrictEqual(Object.keys(by).sort(), ["request", "response", "runok", "runstarted", "toolok", "toolstarted"]);
  const { request, response } = by;
  assert.strictEqual(request.body, body);
  assert.strictEqual(request.url, p.url + "/v1/chat/completions");
  assert.strictEqual(response.body, ANSWER);
  assert.strictEqual(response.status, 200);
  assert.ok(response.duration_ms > 0 && response.first_byte_ms > 0);
  assert.strictEqual(request.exchange, response.exchange);
  assert.strictEqual(by.toolok.exchange, request.exchange);
  for (const x of e.events) {
    assert.deepStrictEqual([x.conversation, x.stage, x.service, x.attrs, x.run], ["c-1", "规划", "svc", { region: "eu" }, "r-1"]);
    assert.match(x.user, /^[0-9a-f]{16}$/);
    assert.match(x.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  }
  assert.deepStrictEqual(e.events.map((x) => x.seq), [1, 2, 3, 4, 5, 6]);
  assert.ok(e.requests.every((r) => r.path === "/v1/events" && r.headers.authorization === "Bearer t" && r.headers["content-type"] === "application/x-ndjson"));
  await Promise.all([p.stop(), e.stop()]);
});

test("the place of a call in the agent's code", async () => {
  const [p, e] = await Promise.all([provider(), endpoint()]);
  const { prepareStackTrace, stackTraceLimit } = Error;
  const own = (error) => String(error);
  Error.prepareStackTrace = own;
  const call = (...args) => post(p.url, "{}", ...args);
  class Agent {
    async ask() {
      await null;
      return (await call()).text();
    }
  }
  const requestBy = (request) => new Promise((resolve) => request(p.url + "/v1/chat/completions", { method: "POST" }, (res) => res.resume().on("end", resolve)).end("{}"));
  for (const code of [true, false]) {
    llmtap.instrument({ endpoint: e.url, service: "svc", hosts: [p.host], code });
    for (let i = 0; i < 2; i++) await new Agent().ask(); // the URL is unknown, then known
    await (await call(earlyFetch)).text();
    await requestBy(http.request);
    // Without a frame of the agent on the stack.
    llmtap.context({ stage: "s" }, () => setImmediate(fetch, p.url + "/v1/chat/completions", { method: "POST", body: "{}" }));
    await new Promise((resolve) => setTimeout(resolve, 50));
    await llmtap.uninstrument();
  }
  assert.strictEqual(globalThis.fetch, earlyFetch);
  assert.ok(Error.prepareStackTrace === own && Error.stackTraceLimit === stackTraceLimit);
  Error.prepareStackTrace = prepareStackTrace;
  const [fetched, again, early, requested, entered, ...off] = e.events.filter((x) => x.kind === "request").map((x) => x.code);
  assert.match(fetched, /hook\.test\.cjs:\d+ post$/);
  assert.ok(again === fetched && early === fetched);
  assert.match(requested, /hook\.test\.cjs:\d+ <anonymous>$/);
  assert.match(entered, /hook\.test\.cjs:\d+ <anonymous>$/);
  assert.deepStrictEqual(off, Array(5).fill(undefined));
  await Promise.all([p.stop(), e.stop()]);
});

test("names and files of places", () => {
  const { Places } = internal("code");
  const site = (file, line, name = null, type = null, method = null) => ({
    getFileName: () => file, getLineNumber: () => line, getColumnNumber: () => 1, getFunctionName: () => name, getTypeName: () => type,
    getMethodName: () => method,
  });
  const at = (...sites) => new Places().find(sites);
  const here = process.cwd();
  assert.strictEqual(at(site("node:internal/x", 1), site(here + "/node_modules/openai/client.js", 2), site(null, 3), site(here + "/core/agent.js", 145, "run", "Agent", "run")), "core/agent.js:145 Agent.run");
  assert.strictEqual(at(site(`file://${here}/core/my%20agent.mjs`, 7)), "core/my agent.mjs:7 <anonymous>");
  assert.strictEqual(at(site("/elsewhere/agent.js", 7, "get [a b:c]")), "agent.js:7 get_[a_b_c]");
  assert.strictEqual(at(site(path.join(hookDir, "dist", "index.js"), 7)), "");
  const long = at(site(here + "/" + "目录/".repeat(60) + "a.js", 7, "函数".repeat(60)));
  assert.match(long, /^[^\ufffd]{20,80}\/a\.js:7 (函数){10}函?$/);
});

test("heartbeats: after the first stored event, and at the end", async () => {
  const [p, e] = await Promise.all([provider(), endpoint()]);
  llmtap.instrument({ endpoint: e.url, service: "svc", hosts: [p.host] });
  const { hookOf } = internal("patch");
  const hook = hookOf();
  hook.heartbeat(1e12); // nothing stored yet
  await (await post(p.url, "{}")).text();
  assert.ok(await llmtap.flush(5000));
  for (let i = 0; i < 2; i++) {
    hook.heartbeat(1e13 * (i + 1));
    assert.ok(await llmtap.flush(5000));
  }
  await llmtap.uninstrument();
  const beats = e.events.filter((x) => x.kind === "hook").map((x) => [x.hook_status, x.service, x.seq]);
  assert.deepStrictEqual(beats, [["alive", "svc", 3], ["alive", "svc", 4], ["ended", "svc", 5]]);
  await Promise.all([p.stop(), e.stop()]);
});

test("the endpoint is behind: events are sent again; rejected ones are dropped and counted", async () => {
  const p = await provider();
  const e = await endpoint((req, res, n) => {
    if (n <= 2) {
      res.writeHead(n === 1 ? 503 : 429, { "retry-after": "0" }).end("{}");
      return true;
    }
    if (n === 4) {
      res.end(JSON.stringify({ accepted: 0, rejected: [{ event: 0, error: "malformed" }] }));
      return true;
    }
    return false;
  });
  const logged = [];
  llmtap.instrument({ endpoint: e.url, service: "svc", hosts: [p.host], logger: { warn: (m) => logged.push(m) } });
  for (let i = 0; i < 3; i++) {
    await (await post(p.url, "{}")).text();
    assert.ok(await llmtap.flush(5000) || i === 1);
  }
  const s = llmtap.stats();
  assert.strictEqual(s.dropped, 1);
  assert.strictEqual(s.pending, 0);
  assert.strictEqual(s.published, 2);
  assert.strictEqual(logged.filter((m) => m.includes("cannot publish to the endpoint")).length, 1, logged.join("\n"));
  await Promise.all([p.stop(), e.stop()]);
});

test("calls through functions that were imported before instrument(), each once", async () => {
  const [p, e] = await Promise.all([provider(), endpoint()]);
  llmtap.instrument({ endpoint: e.url, service: "svc", hosts: [p.host], capture: "full" });
  await (await post(p.url, '{"n":1}', earlyFetch)).text();
  await new Promise((resolve, reject) => {
    const req = earlyRequest(p.url + "/v1/chat/completions", { method: "POST", headers: JSON_TYPE }, (res) => res.resume().on("end", resolve));
    req.on("error", reject);
    req.write('{"n":');
    req.end("2}");
  });
  await new Promise((resolve) => http.get(p.url + "/health", (res) => res.resume().on("end", resolve)));
  assert.ok(await llmtap.flush(5000));
  assert.deepStrictEqual(e.events.filter((x) => x.kind === "request").map((x) => x.body), ['{"n":1}', '{"n":2}']);
  await Promise.all([p.stop(), e.stop()]);
});

test("an instrumented client behaves as before, and as before again after uninstrument()", async () => {
  const p = await provider();
  const write = http.ClientRequest.prototype.write;
  llmtap.instrument({ url: "nats://127.0.0.1:9", hosts: [p.host], logger: { warn: () => undefined }, flushTimeout: 0 });
  await assert.rejects(fetch(p.url, { method: "POST", body: "{}", signal: AbortSignal.abort() }), { name: "AbortError" });
  const controller = new AbortController();
  controller.abort(new Error("own reason"));
  await assert.rejects(fetch(p.url, { method: "POST", body: "{}", signal: controller.signal }), /own reason/);
  assert.deepStrictEqual(await (await post(p.url, new TextEncoder().encode("{}"))).json(), JSON.parse(ANSWER));
  const stream = new ReadableStream({
    start(c) {
      c.enqueue(new TextEncoder().encode('{"a":'));
      setTimeout(() => (c.enqueue(new TextEncoder().encode("1}")), c.close()), 5);
    },
  });
  const r = await fetch(p.url + "/v1/chat/completions", { method: "POST", body: stream, duplex: "half", headers: JSON_TYPE });
  assert.strictEqual(await r.text(), ANSWER);
  assert.strictEqual(llmtap.stats().errors, 0);
  await llmtap.uninstrument();
  assert.strictEqual(http.ClientRequest.prototype.write, write);
  await p.stop();
});

test("concurrent calls have their own labels, or none if they waited for a connection of a pool", async () => {
  const [p, e] = await Promise.all([provider(), endpoint()]);
  llmtap.instrument({ endpoint: e.url, service: "svc", hosts: [p.host], capture: "full" });
  await (await post(p.url, "{}")).text();
  assert.ok(await llmtap.flush(5000));
  const Agent = globalThis[Symbol.for("undici.globalDispatcher.1")].constructor;
  for (const dispatcher of [undefined, new Agent({ connections: 1 })]) {
    e.events.length = 0;
    const call = (n) =>
      llmtap.context({ conversation: `c-${n}` }, async () => {
        const r = await fetch(p.url + "/v1/chat/completions", { method: "POST", headers: JSON_TYPE, body: `{"n":"c-${n}"}`, dispatcher });
        return r.text();
      });
    await Promise.all(Array.from({ length: 8 }, (_, n) => call(n)));
    assert.ok(await llmtap.flush(5000));
    const requests = e.events.filter((x) => x.kind === "request");
    assert.strictEqual(requests.length, 8);
    for (const x of requests) {
      const want = JSON.parse(x.body).n;
      if (dispatcher) assert.ok(x.conversation === want || x.conversation === undefined, `${x.conversation} instead of ${want}`);
      else assert.strictEqual(x.conversation, want);
    }
    if (dispatcher) assert.strictEqual(requests.find((x) => x.body.includes("c-0")).conversation, "c-0");
  }
  await Promise.all([p.stop(), e.stop()]);
});

/** Runs an agent that makes a call and then the given statements. Returns its exit code, time and log. */
function agent(env, statements) {
  const program = `
    const llmtap = require(${JSON.stringify(hookDir)});
    llmtap.instrument({ service: "svc", hosts: [new URL(process.env.PROVIDER).host], flushTimeout: 500 });
    fetch(process.env.PROVIDER + "/v1/chat/completions", { method: "POST", headers: { "content-type": "application/json" }, body: "{}" })
      .then((r) => r.text()).then(() => { ${statements} });`;
  const began = Date.now();
  const child = spawn(process.execPath, ["-e", program], { env: { ...process.env, ...env }, stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  child.stderr.on("data", (p) => (log += p));
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, log, ms: Date.now() - began })));
}

test("a process publishes what is pending before it exits, and does not wait longer than the flush timeout", async () => {
  const [p, nats] = await Promise.all([provider(), startNATS()]);
  const up = await agent({ PROVIDER: p.url, LLMTAP_NATS_URL: nats.url }, "process.on('exit', () => console.error(JSON.stringify(llmtap.stats())));");
  assert.match(up.log, /"published":1,"events":2,"dropped":0,"pending":0/);
  const down = await agent({ PROVIDER: p.url, LLMTAP_NATS_URL: "nats://127.0.0.1:9" }, "");
  assert.strictEqual(down.code, 0);
  assert.ok(down.ms < 60_000, `${down.ms} ms`); // a busy machine takes seconds to start a process
  assert.match(down.log, /1 exchange discarded at exit/);
  await Promise.all([p.stop(), nats.stop()]);
});

test("a server that is cut off does not close the connection: the hook goes on with the next one", async () => {
  const [p, nats] = await Promise.all([provider(), startNATS()]);
  const { port } = new URL(nats.url);
  let cut = false;
  const relay = net.createServer((client) => {
    const server = net.connect(Number(port), "127.0.0.1");
    for (const [from, to] of [[client, server], [server, client]]) {
      from.on("data", (data) => cut || to.write(data));
      from.on("error", () => undefined);
      from.on("close", () => to.destroy());
    }
  });
  await new Promise((resolve) => relay.listen(0, "127.0.0.1", resolve));
  llmtap.instrument({ url: `${nats.url.replace(port, relay.address().port)},${nats.url}`, service: "svc", hosts: [p.host] });
  await (await post(p.url, "{}")).text();
  assert.ok(await llmtap.flush(20000));
  cut = true;
  await (await post(p.url, "{}")).text();
  assert.ok(await llmtap.flush(30000));
  assert.strictEqual(llmtap.stats().published, 2);
  llmtap.uninstrument();
  relay.close();
  await Promise.all([p.stop(), nats.stop()]);
});

test("shapes of long bodies do not block the event loop", async () => {
  const [p, nats] = await Promise.all([provider(), startNATS()]);
  const messages = Array.from({ length: 50000 }, (_, i) => ({ role: "user", content: `question ${i} about the weather` }));
  const body = Buffer.from(JSON.stringify({ model: "m", messages }));
  const began = performance.now();
  new (internal("shape/shaper.js").Shaper)(Buffer.from("key")).shape({ response: false, dialect: "openai_chat", body, limit: 16 * body.length });
  const blocked = performance.now() - began; // by one shape on the agent's thread
  llmtap.instrument({ url: nats.url, service: "svc", hosts: [p.host] });
  await (await post(p.url, body)).text(); // starts the worker
  assert.ok(await llmtap.flush(30000));
  const before = performance.eventLoopUtilization();
  for (let i = 0; i < 4; i++) await (await post(p.url, body)).text();
  assert.ok(await llmtap.flush(30000));
  const { active } = performance.eventLoopUtilization(before);
  assert.strictEqual(llmtap.stats().published, 5);
  assert.ok(active < 2 * blocked, `4 calls used the event loop for ${active} ms; a shape of ${body.length} bytes takes ${blocked} ms`);
  await llmtap.uninstrument();
  await Promise.all([p.stop(), nats.stop()]);
});
