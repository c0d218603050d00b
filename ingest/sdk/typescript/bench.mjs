// Measures what the hook adds to a call: node bench.mjs TESTHELPER, a binary of ../testhelper. Prints the table of README.md.
//
// Blocks of calls that are recorded alternate with blocks of calls that are not, so that other load on the machine affects both alike. The
// time added to a call is the difference of their quantiles; CPU is the difference of the CPU time of the process, so it is that of the
// agent's thread, of the sender and of the worker that shapes long bodies.

import { fork, spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import * as llmtap from "./index.mjs";

const BLOCKS = 12; // of each kind
const BLOCK = 50; // calls
const RATE = 250; // calls per second
const [command, ...args] = process.argv.slice(2);

const messages = (bytes) => {
  const list = [];
  for (let size = 0; size < bytes; size = JSON.stringify(list).length) {
    list.push({ role: "user", content: "a question about the weather in Zürich. ".repeat(5) });
    list.push({ role: "assistant", content: null, tool_calls: [{ id: `call_${size}`, type: "function", function: { name: "weather", arguments: '{"city": "Zürich", "days": [1, 2]}' } }] });
    list.push({ role: "tool", tool_call_id: `call_${size}`, content: "snow, -3 °C" });
  }
  return list;
};

function provider() {
  const server = http.createServer((req, res) => {
    const bytes = Number(req.headers["x-bytes"]);
    req.resume();
    req.on("end", () => {
      res.setHeader("content-type", "application/json");
      res.end(JSON.stringify({ choices: [{ index: 0, message: { role: "assistant", content: "a".repeat(bytes) } }] }));
    });
  });
  server.listen(0, () => process.send(server.address().port));
  process.on("disconnect", () => process.exit());
}

const headersOf = (bytes) => ({ "content-type": "application/json", "x-bytes": String(bytes) });

/** Makes a block of calls. Returns their durations in microseconds, and the CPU of the process per call. */
async function block(url, bytes, body, up) {
  const times = [];
  const cpu = process.cpuUsage();
  const start = performance.now();
  for (let i = 0; i < BLOCK; i++) {
    const wait = start + (i * 1000) / RATE - performance.now();
    if (wait > 0) await sleep(wait);
    const began = performance.now();
    await (await fetch(url, { method: "POST", headers: headersOf(bytes), body })).arrayBuffer();
    times.push((performance.now() - began) * 1000);
  }
  if (up) await llmtap.flush(10_000);
  const used = process.cpuUsage(cpu);
  return { times, cpu: (used.user + used.system) / BLOCK };
}

const quantile = (times, q) => times.sort((a, b) => a - b)[Math.floor(times.length * q)];

async function child(port, mode, bytes, nats) {
  const up = nats !== "down";
  const url = up ? nats : "nats://127.0.0.1:9";
  llmtap.instrument({ url, service: "svc", capture: mode, hosts: [`127.0.0.1:${port}`], logger: { warn: () => undefined }, flushTimeout: 0 });
  const body = JSON.stringify({ model: "m", messages: messages(bytes) });
  const urls = [`http://127.0.0.1:${port}/v1/chat/completions`, `http://localhost:${port}/other`];
  for (const u of [...urls, ...urls]) await block(u, bytes, body, up); // warms up
  const found = urls.map(() => ({ times: [], cpu: 0 }));
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  for (let i = 0; i < BLOCKS; i++) {
    for (const [k, u] of urls.entries()) {
      const b = await block(u, bytes, body, up);
      found[k].times.push(...b.times);
      found[k].cpu += b.cpu / BLOCKS;
    }
  }
  delay.disable();
  const [hooked, plain] = found;
  const added = (q) => quantile(hooked.times, q) - quantile(plain.times, q);
  process.send({ p50: added(0.5), p99: added(0.99), cpu: hooked.cpu - plain.cpu, base: quantile(plain.times, 0.5), baseCPU: plain.cpu, delay: delay.percentile(99) / 1e3 });
  process.disconnect();
  await llmtap.uninstrument();
}

async function main(helper) {
  const self = fileURLToPath(import.meta.url);
  const nats = spawn(helper, ["nats", mkdtempSync(join(tmpdir(), "llmtap-")), "-1"], { stdio: ["pipe", "pipe", "inherit"] });
  const natsPort = await new Promise((resolve) => nats.stdout.once("data", (p) => resolve(Number(String(p)))));
  const server = fork(self, ["provider"]);
  const port = await new Promise((resolve) => server.once("message", resolve));
  const ask = (...a) => new Promise((resolve) => fork(self, ["child", String(port), ...a]).once("message", resolve));
  console.log("| | | p50 | p99 | CPU | a call without the hook: p50, CPU |\n|---|---|---|---|---|---|");
  for (const nats of [`nats://agent:agent@127.0.0.1:${natsPort}`, "down"]) {
    for (const mode of ["full", "shape"]) {
      for (const bytes of ["10000", "100000"]) {
        const m = await ask(mode, bytes, nats);
        const [p50, p99, cpu, base, baseCPU] = [m.p50, m.p99, m.cpu, m.base, m.baseCPU].map((us) => us.toFixed(0));
        console.log(`| NATS ${nats === "down" ? nats : "up"} | ${mode}, ${bytes} | ${p50} | ${p99} | ${cpu} | ${base}, ${baseCPU} |`);
      }
    }
  }
  server.disconnect();
  nats.stdin.end();
}

if (command === "provider") provider();
else if (command === "child") await child(args[0], args[1], Number(args[2]), args[3]);
else await main(command);
