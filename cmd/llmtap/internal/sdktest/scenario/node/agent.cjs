// An agent process of the scenarios: makes the calls that it receives over HTTP with the SDKs of OpenAI and Anthropic, recorded by the
// TypeScript hook. Prints its port, then the ids of the exchanges that are stored, one per line.
"use strict";

const http = require("node:http");
const net = require("node:net");
const path = require("node:path");
const { pathToFileURL } = require("node:url");
const { Anthropic } = require("@anthropic-ai/sdk");
const { OpenAI } = require("openai");
const { Agent, getGlobalDispatcher, setGlobalDispatcher } = require("undici");

console.warn = () => undefined; // SDKs warn of old models
const print = (line) => process.stdout.write(line + "\n");
let llmtap;

/** The scopes by labels: all calls of a run are made in the same one. */
const scopes = new Map();

function inScope(labels, f) {
  const key = JSON.stringify(labels);
  if (!scopes.has(key)) scopes.set(key, llmtap.context(labels, () => llmtap.bind((g) => g())));
  return scopes.get(key)(f);
}

/** Connects all hosts to the provider. The hook records the original URL. */
function redirect(provider) {
  const connect = (_, done) => {
    const socket = net.connect(provider, "127.0.0.1");
    socket.once("connect", () => done(null, socket)).once("error", (e) => done(e, null));
  };
  setGlobalDispatcher(new Agent({ connect }));
}

/** The ends of the tools that run, by the ids of their calls. */
const tools = new Map();

const commands = {
  open({ nats, service, capture, provider }) {
    redirect(provider);
    llmtap.instrument({
      url: nats, service, capture, agent: "agent", serviceVersion: "1.0.0", environment: "test", onPublished: print, logger: { warn: console.error },
    });
  },
  toolStarted({ labels, id }) {
    inScope(labels, () => llmtap.tool(id, () => new Promise((end, fail) => tools.set(id, { end, fail })))).catch(() => undefined);
  },
  async toolEnded({ id, error }) {
    const tool = tools.get(id);
    tools.delete(id);
    if (error) tool.fail(new Error(error));
    else tool.end();
    await new Promise(setImmediate); // the hook sees the end of the promise
  },
  async flush() {
    if (!(await llmtap.flush(10_000))) throw new Error("not all events were stored");
  },
  async close() {
    const { dropped, errors } = llmtap.stats();
    await llmtap.uninstrument();
    scopes.clear();
    tools.clear();
    await getGlobalDispatcher().destroy();
    return { dropped, errors };
  },
};

/** Sends a body to a provider with its SDK, if there is one, and returns the response as the SDK received it. */
async function send(url, body, key, signal) {
  const json = { "content-type": "application/json" };
  if (url.includes(":generateContent"))
    return fetch(url, { method: "POST", headers: { ...json, "x-goog-api-key": key }, body: JSON.stringify(body), signal });
  let refused;
  const options = {
    apiKey: key || "test",
    maxRetries: 0,
    async fetch(...args) {
      const response = await fetch(...args);
      if (!response.ok) refused = response.clone();
      return response;
    },
  };
  const chat = "/chat/completions";
  const call = url.endsWith(chat)
    ? new OpenAI({ ...options, baseURL: url.slice(0, -chat.length) }).chat.completions
    : new Anthropic({ ...options, baseURL: new URL(url).origin }).messages;
  try {
    return await call.create(body, { signal }).asResponse();
  } catch (e) {
    if (refused) return refused;
    throw e;
  }
}

async function relay({ url, labels, body, key }, res) {
  const stop = new AbortController();
  res.once("close", () => stop.abort());
  const response = await inScope(labels, () => send(url, body, key, stop.signal));
  res.writeHead(response.status, { "content-type": response.headers.get("content-type") });
  for await (const chunk of response.body) res.write(chunk);
  res.end();
}

async function serve(req, res) {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const request = JSON.parse(Buffer.concat(chunks));
  const name = req.url.slice(1);
  if (name === "call") return relay(request, res);
  return res.end(JSON.stringify((await commands[name](request)) ?? {}));
}

async function main() {
  llmtap = await import(pathToFileURL(path.join(process.env.LLMTAP_PACKAGE, "index.mjs")));
  const server = http.createServer((req, res) => {
    serve(req, res).catch((e) => {
      if (e.name !== "AbortError" && !/terminated|aborted/i.test(e.message)) console.error(req.url, e);
      res.destroy();
    });
  });
  server.listen(0, "127.0.0.1", () => print(server.address().port));
  process.stdin.resume().once("end", () => process.exit());
}

main();
