// Calls with the HTTP clients of Node and the exact bytes of a case. Each function returns what the agent observes.
"use strict";

const http = require("node:http");
const zlib = require("node:zlib");
const undici = require("undici");

/** Decodes what node:http and undici.request return; a broken body up to the fault. */
async function decoded(encoding, body) {
  const decoder = { gzip: zlib.createGunzip, br: zlib.createBrotliDecompress, deflate: zlib.createInflate }[encoding ?? ""];
  if (!decoder) return body;
  const stream = decoder();
  const pieces = [];
  stream.end(body);
  try {
    for await (const p of stream) pieces.push(p);
  } catch {
    // the rest is lost
  }
  return Buffer.concat(pieces);
}

/** Reads the pieces of a body as the case says. got receives what was read before an error. */
async function read(c, body, got, cancel) {
  for await (const p of body) {
    got.pieces.push(Buffer.from(p));
    if (c.how === "close") return;
    if (c.how === "cancel") cancel();
  }
}

async function observed(call) {
  const got = { status: 0, pieces: [], encoding: "", error: "" };
  try {
    await call(got);
  } catch (e) {
    got.error = `${e.name}: ${e.message}`;
  }
  const body = await decoded(got.encoding, Buffer.concat(got.pieces));
  return { status: got.status, body: body.toString("base64"), error: got.error };
}

/** A signal for the timeout of a case, and a function that cancels. */
function signalOf(c) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new DOMException("The operation timed out", "TimeoutError")), c.timeout * 1000);
  controller.signal.addEventListener("abort", () => clearTimeout(timer));
  timer.unref();
  return { signal: controller.signal, cancel: () => controller.abort(), done: () => clearTimeout(timer) };
}

function byFetch(fetch) {
  return (c) =>
    observed(async (got) => {
      const { signal, cancel, done } = signalOf(c);
      try {
        const r = await fetch(c.url, { method: "POST", headers: c.headers, body: c.body, signal });
        got.status = r.status;
        if (c.how === "read") got.pieces.push(Buffer.from(await r.arrayBuffer()));
        else await read(c, r.body ?? [], got, cancel);
      } finally {
        done();
      }
    });
}

function byUndiciRequest(c) {
  return observed(async (got) => {
    const { signal, cancel, done } = signalOf(c);
    try {
      const r = await undici.request(c.url, { method: "POST", headers: c.headers, body: c.body, signal });
      got.status = r.statusCode;
      got.encoding = r.headers["content-encoding"];
      if (c.how === "read") got.pieces.push(Buffer.from(await r.body.arrayBuffer()));
      else await read(c, r.body, got, cancel);
    } finally {
      done();
    }
  });
}

function byHTTP(c) {
  return observed(async (got) => {
    const { signal, cancel, done } = signalOf(c);
    try {
      const r = await new Promise((resolve, reject) => {
        const req = http.request(c.url, { method: "POST", headers: { ...c.headers, "content-length": c.body.length } }, resolve);
        req.on("error", reject);
        signal.addEventListener("abort", () => req.destroy(signal.reason));
        req.end(c.body);
      });
      got.status = r.statusCode;
      got.encoding = r.headers["content-encoding"];
      await read(c, r, got, cancel);
    } finally {
      done();
    }
  });
}

module.exports = {
  fetch: byFetch((...args) => globalThis.fetch(...args)),
  "undici-fetch": byFetch(undici.fetch),
  undici: byUndiciRequest,
  "node:http": byHTTP,
};
