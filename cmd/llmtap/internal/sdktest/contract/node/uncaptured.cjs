// Calls over gRPC and WebSockets are counted by transport, not recorded.
"use strict";

const assert = require("node:assert");
const http = require("node:http");
const grpc = require("@grpc/grpc-js");
const undici = require("undici");
const ws = require("ws");
const llmtap = require(process.env.LLMTAP_PACKAGE);

const identity = (b) => b;
const CHAT = "/google.ai.generativelanguage.v1beta.GenerativeService/";

/** A server that answers each call with its request. Returns its address. */
async function startGRPC() {
  const method = (name, stream) => ({
    path: CHAT + name, requestStream: false, responseStream: stream,
    requestSerialize: identity, requestDeserialize: identity, responseSerialize: identity, responseDeserialize: identity,
  });
  const server = new grpc.Server();
  server.addService(
    { GenerateContent: method("GenerateContent", false), StreamGenerateContent: method("StreamGenerateContent", true), CountTokens: method("CountTokens", false) },
    {
      GenerateContent: (call, done) => done(null, call.request),
      CountTokens: (call, done) => done(null, call.request),
      StreamGenerateContent: (call) => (call.write(call.request), call.end()),
    },
  );
  const port = await new Promise((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (e, port) => (e ? reject(e) : resolve(port))),
  );
  return { host: `127.0.0.1:${port}`, stop: () => server.forceShutdown() };
}

/** Sends a message to a server that sends it back. */
function echo(socket) {
  return new Promise((resolve, reject) => {
    socket.addEventListener("error", reject);
    socket.addEventListener("open", () => socket.send("hello"));
    socket.addEventListener("message", (m) => (socket.close(), resolve(String(m.data))));
  });
}

async function main() {
  const g = await startGRPC();
  const w = new ws.WebSocketServer({ host: "127.0.0.1", port: 0 });
  w.on("connection", (s) => s.on("message", (m) => s.send(String(m))));
  await new Promise((resolve) => w.on("listening", resolve));
  const host = `127.0.0.1:${w.address().port}`;
  const events = [];
  const endpoint = http.createServer(async (req, res) => {
    let text = "";
    for await (const p of req) text += p;
    const lines = text.trim().split("\n").map((line) => JSON.parse(line));
    events.push(...lines);
    res.end(JSON.stringify({ accepted: lines.length, rejected: [], warnings: [] }));
  });
  await new Promise((resolve) => endpoint.listen(0, "127.0.0.1", resolve));

  const logged = [];
  llmtap.instrument({
    endpoint: `http://127.0.0.1:${endpoint.address().port}`, service: "svc", hosts: [g.host, host], logger: { warn: (m) => logged.push(m) },
  });
  const client = new grpc.Client("dns:///" + g.host, grpc.credentials.createInsecure());
  const unary = (name) =>
    new Promise((resolve, reject) =>
      client.makeUnaryRequest(CHAT + name, identity, identity, Buffer.from("1"), (e, answer) => (e ? reject(e) : resolve(String(answer)))),
    );
  assert.strictEqual(await unary("GenerateContent"), "1");
  assert.strictEqual(await unary("CountTokens"), "1"); // calls no model
  const pieces = [];
  for await (const p of client.makeServerStreamRequest(CHAT + "StreamGenerateContent", identity, identity, Buffer.from("2"))) pieces.push(String(p));
  assert.deepStrictEqual(pieces, ["2"]);
  client.close();
  const sockets = [ws.WebSocket, undici.WebSocket, globalThis.WebSocket].filter(Boolean);
  for (const WebSocket of sockets) assert.strictEqual(await echo(new WebSocket(`ws://${host}/v1/realtime`)), "hello");
  assert.strictEqual(await echo(new ws.WebSocket(`ws://localhost:${w.address().port}`)), "hello"); // not a host to record

  const { uncaptured, errors, open, unrecorded } = llmtap.stats();
  assert.deepStrictEqual({ uncaptured, errors, open, unrecorded }, { uncaptured: 2 + sockets.length, errors: 0, open: 0, unrecorded: 0 });
  await llmtap.uninstrument();
  const last = events.at(-1);
  assert.deepStrictEqual(new Set(events.map((e) => e.kind)), new Set(["hook"]));
  assert.deepStrictEqual([last.uncaptured, last.uncaptured_by], [2 + sockets.length, `grpc=2 websocket=${sockets.length}`]);
  assert.deepStrictEqual(logged.map((m) => m.match(/calls to (.*) are not/)?.[1]), [`${g.host} over grpc`, `${host} over websocket`]);
  g.stop();
  w.close();
  endpoint.close();
}

main();
