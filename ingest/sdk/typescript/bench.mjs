// Measures what the hook adds to a call: node bench.mjs TESTHELPER, a binary of ../testhelper. Prints the table of README.md.
//
// The time added is that of the agent's thread: the synchronous time of the hook's functions, measured around each of them, per call.
// The sender's CPU is the growth of the process's CPU time with the hook, less that without it and the time added.

import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

import * as llmtap from "./index.mjs";

const CALLS = 1500;
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
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
  process.on("disconnect", () => process.exit());
}

/** Makes the calls and returns their durations in microseconds, and the CPU of the process per call. */
async function measure(port, bytes) {
  const body = JSON.stringify({ model: "m", messages: messages(bytes) });
  const url = `http://127.0.0.1:${port}/v1/chat/completions`;
  const headers = { "content-type": "application/json", "x-bytes": String(bytes) };
  const times = [];
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const cpu = process.cpuUsage();
  delay.enable();
  const start = performance.now();
  for (let i = 0; i < CALLS; i++) {
    const wait = start + (i * 1000) / RATE - performance.now();
    if (wait > 0) await sleep(wait);
    const began = performance.now();
    await (await fetch(url, { method: "POST", headers, body })).arrayBuffer();
    times.push((performance.now() - began) * 1000);
  }
  await llmtap.flush(10_000);
  const used = process.cpuUsage(cpu);
  delay.disable();
  times.sort((a, b) => a - b);
  return { times, cpu: (used.user + used.system) / CALLS, delay: delay.percentile(99.9) / 1e3 };
}

const quantile = (times, q) => times[Math.floor(times.length * q)];

async function child(port, mode, bytes, url) {
  if (mode !== "none") llmtap.instrument({ url, service: "bench", capture: mode, hosts: ["127.0.0.1"], logger: { warn: () => undefined }, flushTimeout: 0 });
  await measure(port, bytes).then(() => undefined); // warms up
  const m = await measure(port, bytes);
  process.send({ p50: quantile(m.times, 0.5), p99: quantile(m.times, 0.99), cpu: m.cpu, delay: m.delay });
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
  console.log("| | | p50 | p99 | CPU | loop delay p99.9 |\n|---|---|---|---|---|---|");
  for (const bytes of ["10000", "100000"]) {
    const base = await ask("none", bytes, "");
    console.log(`| no hook | ${bytes} | ${base.p50.toFixed(0)} | ${base.p99.toFixed(0)} | ${base.cpu.toFixed(0)} | ${base.delay.toFixed(0)} |`);
    for (const [state, url] of [["NATS up", `nats://agent:agent@127.0.0.1:${natsPort}`], ["NATS down", "nats://127.0.0.1:9"]]) {
      for (const mode of ["full", "shape"]) {
        const m = await ask(mode, bytes, url);
        const added = ["p50", "p99", "cpu"].map((k) => (m[k] - base[k]).toFixed(0)).join(" | ");
        console.log(`| ${state} | ${mode}, ${bytes} | ${added} | ${m.delay.toFixed(0)} |`);
      }
    }
  }
  server.disconnect();
  nats.stdin.end();
}

if (command === "provider") provider();
else if (command === "child") await child(Number(args[0]), args[1], Number(args[2]), args[3]);
else await main(command);
