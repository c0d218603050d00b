// The Go reference, a real NATS server, and the modules of the package under test.
"use strict";

const { execFileSync, spawn } = require("node:child_process");
const fs = require("node:fs");
const http = require("node:http");
const os = require("node:os");
const path = require("node:path");

const helper = process.env.LLMTAP_TESTHELPER;
const hook = process.env.LLMTAP_PACKAGE;

exports.llmtap = require(hook);
exports.hookDir = hook;
exports.internal = (name) => require(path.join(hook, "dist", name));
exports.testdata = path.join(__dirname, "..", "..", "testdata");
exports.shared = (name) => JSON.parse(fs.readFileSync(path.join(exports.testdata, name), "utf8"));

/** The answers of the Go reference to questions. */
exports.ask = (questions, ...args) => {
  const input = questions.map((q) => JSON.stringify(q)).join("\n");
  const out = execFileSync(helper, args, { input, maxBuffer: 1 << 30 }).toString();
  return out.trim().split("\n").map((line) => JSON.parse(line));
};

/** Random numbers that are the same in each run. */
exports.random = (seed) => {
  const next = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const below = (n) => Math.floor(next() * n);
  const choice = (all) => all[below(all.length)];
  return { next, below, choice, choices: (all, n) => Array.from({ length: n }, () => choice(all)) };
};

/** Starts a NATS server. Returns its URL and a function that stops it. */
exports.startNATS = async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "llmtap-"));
  const server = spawn(helper, ["nats", dir, "-1"], { stdio: ["pipe", "pipe", "inherit"] });
  const port = await new Promise((resolve) => server.stdout.once("data", (p) => resolve(Number(String(p)))));
  const stop = async () => {
    const exited = new Promise((resolve) => server.once("exit", resolve));
    server.stdin.end();
    await exited;
    fs.rmSync(dir, { recursive: true });
  };
  return { url: `nats://agent:agent@127.0.0.1:${port}`, stop };
};

/** Starts the provider whose responses fail. Returns its host and a function that stops it. */
exports.startFaults = async () => {
  const server = spawn(helper, ["faults"], { stdio: ["pipe", "pipe", "inherit"] });
  const port = await new Promise((resolve) => server.stdout.once("data", (p) => resolve(Number(String(p)))));
  const stop = () => {
    const exited = new Promise((resolve) => server.once("exit", resolve));
    server.stdin.end();
    return exited;
  };
  return { host: `127.0.0.1:${port}`, stop };
};

/** Starts an HTTP server. Returns its URL and a function that stops it. */
exports.serve = async (handle) => {
  const server = http.createServer(async (req, res) => {
    const pieces = [];
    for await (const p of req) pieces.push(p);
    handle(req, Buffer.concat(pieces), res);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const host = `127.0.0.1:${server.address().port}`;
  const stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url: "http://" + host, host, stop };
};
