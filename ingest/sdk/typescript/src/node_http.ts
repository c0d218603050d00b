// Records node:http, node:https and node:http2 at their client requests, where bytes are encoded.

import * as http from "node:http";
import http2 = require("node:http2");
import { syncBuiltinESMExports } from "node:module";

import { current } from "./context";
import { first, headersOf, type Exchange } from "./exchange";
import type { Hook } from "./hook";
import { hookOf, isIgnored, observe, type Patches } from "./patch";

/** Patches the prototype of client requests, which also covers functions that were imported before. */
export function patchHTTP(patches: Patches): void {
  const begin = (req: http.ClientRequest): void => {
    const hook = hookOf();
    if (!hook || (req.method !== "POST" && !isWebSocket(req)) || seen.has(req) || isIgnored(req)) return;
    seen.add(req);
    try {
      beginHTTP(hook, req);
    } catch (e) {
      failed(hook, req, e);
    }
  };
  for (const name of ["write", "end", "flushHeaders"]) {
    patches.replace(http.ClientRequest.prototype, name, (original) => function (this: unknown, ...args: unknown[]): unknown {
      begin(this as http.ClientRequest);
      const x = exchanges.get(this as object);
      if (x) recordWrite(x, name, args);
      return original.apply(this, args);
    });
  }
}

/** Whether a request opens a WebSocket. */
function isWebSocket(req: http.ClientRequest): boolean {
  return req.method === "GET" && String(req.getHeader("upgrade")).toLowerCase() === "websocket";
}

const seen = new WeakSet<object>();
const exchanges = new WeakMap<object, Exchange>(); // by the request or stream whose body is written

/** Counts an internal error at the start of a call. */
function failed(hook: Hook, request: object, error: unknown): void {
  const x = exchanges.get(request);
  if (x) x.broken(error);
  else hook.countError(error);
}

function beginHTTP(hook: Hook, req: http.ClientRequest): void {
  const flat = Object.entries(req.getHeaders()).flat();
  const host = String(req.getHeader("host") ?? req.host);
  const absolute = /^(https?:\/\/[^/?#]*)(.*)$/i.exec(req.path); // to a proxy
  const [origin, path] = absolute ? [absolute[1], absolute[2]] : [`${req.protocol}//${host}`, req.path];
  const target = hook.hosts.target(origin, path, () => first(headersOf(flat), "content-type"));
  if (target && req.method !== "POST") {
    hook.uncaptured(target, "websocket");
    return;
  }
  const x = target && hook.begin(target, req.method, headersOf(flat), current(), hook.place(current(), beginHTTP));
  if (!x) return;
  exchanges.set(req, x);
  x.bodyPending();
  const call = new Call(x, req);
  observe(x, req, "emit", (event: string, arg: unknown) => {
    if (event !== "response" || x.ended) return;
    const res = arg as http.IncomingMessage;
    x.responded(res.statusCode ?? 0, headersOf(res.rawHeaders));
    call.response(res);
  });
}

// Methods of gRPC that call a model: those of Gemini, of Vertex AI and of xAI, and of servers of one's own. The same services have others.
const GRPC_CALLS = /(GenerateContent|Predict|\/GetCompletion|\/GetCompletionChunk|\/StartDeferredCompletion|\/Generate|\/GenerateStream)$/;

/** The part of http2's sessions and streams that is used. */
interface Session {
  originSet?: string[];
  request(headers?: Record<string, unknown>, options?: { endStream?: boolean }): object;
}

/** Patches http2.connect, whose sessions make requests. */
export function patchHTTP2(patches: Patches): void {
  patches.replace(http2, "connect", (original) => function (this: unknown, ...args: unknown[]): unknown {
    const session = original.apply(this, args) as Session;
    const authority = args[0];
    const request = session.request;
    session.request = function (this: Session, headers = {}, options) {
      const stream = request.call(this, headers, options);
      const hook = hookOf();
      try {
        if (hook && headers[":method"] === "POST") beginHTTP2(hook, stream, String(authority), headers, options?.endStream === true);
      } catch (e) {
        failed(hook!, stream, e);
      }
      return stream;
    };
    return session;
  });
  syncBuiltinESMExports();
  patches.add(syncBuiltinESMExports);
}

function beginHTTP2(hook: Hook, stream: object, authority: string, headers: Record<string, unknown>, ended: boolean): void {
  const flat = Object.entries(headers).flat();
  const base = new URL(authority);
  const origin = `${base.protocol}//${String(headers[":authority"] ?? headers.host ?? base.host)}`;
  const path = String(headers[":path"] ?? "/");
  const type = first(headersOf(flat), "content-type");
  const target = hook.hosts.target(origin, path, () => type);
  if (type.startsWith("application/grpc")) {
    if (target && GRPC_CALLS.test(path)) hook.uncaptured(target, "grpc");
    return;
  }
  const x = target && hook.begin(target, "POST", headersOf(flat), current(), hook.place(current(), beginHTTP2));
  if (!x) return;
  exchanges.set(stream, x);
  x.bodyPending();
  if (ended) x.requestEnd();
  const call = new Call(x, stream);
  for (const name of ["write", "end"]) observe(x, stream, name, (...args: unknown[]) => recordWrite(x, name, args));
  observe(x, stream, "emit", (event: string, arg: Record<string, unknown>) => {
    if (event === "response" && !x.ended) {
      x.responded(Number(arg[":status"]), headersOf(Object.entries(arg).flat()));
      call.flush();
    }
  });
  call.response(stream);
}

/** Records the arguments of write and end. */
function recordWrite(x: Exchange, name: string, [chunk, encoding]: unknown[]): void {
  try {
    if (typeof chunk === "string") x.requestRead(Buffer.from(chunk, typeof encoding === "string" ? (encoding as BufferEncoding) : "utf8"));
    else if (chunk instanceof Uint8Array) x.requestRead(chunk);
    if (name === "end") x.requestEnd();
  } catch (e) {
    x.broken(e);
  }
}

/** Ends the exchange of a request and its response, which are two objects in HTTP/1 and one in HTTP/2. */
class Call {
  #destroyed: unknown; // the error with which the agent destroyed the request, true without an error
  #failure: unknown; // the error with which the response was destroyed
  #early: Uint8Array[] = []; // pieces that arrived before the event "response"

  constructor(
    private readonly x: Exchange,
    private readonly req: object,
  ) {
    observe(x, req, "destroy", (error: unknown) => {
      this.#destroyed ??= error ?? true;
    });
    observe(x, req, "emit", (event: string, error: unknown) => {
      if (event === "error") this.#failed(error);
      else if (event === "close" && x.status === 0) this.#failed(undefined);
    });
  }

  /** Records the response. */
  response(res: object): void {
    const { x } = this;
    observe(x, res, "push", (chunk: Uint8Array | string | null) => {
      if (chunk === null) {
        this.flush();
        if (x.status > 0) x.eof();
        return;
      }
      const bytes = typeof chunk === "string" ? Buffer.from(chunk) : chunk;
      if (x.status === 0) this.#early.push(bytes);
      else x.read(bytes);
    });
    if (res !== this.req) {
      observe(x, res, "destroy", (error: unknown) => {
        this.#failure ??= error;
      });
    }
    observe(x, res, "emit", (event: string, error: unknown) => {
      if (event === "error" && res !== this.req) this.#failed(error);
      else if (event === "close") this.#failed(this.#failure);
    });
  }

  /** Records the pieces that arrived before the response began. */
  flush(): void {
    for (const p of this.#early.splice(0)) this.x.read(p);
  }

  #failed(error: unknown): void {
    const { x } = this;
    if (x.ended) return;
    const cause = this.#destroyed;
    if (cause instanceof Error) x.failed(cause);
    else if (cause === true) x.closed(x.status === 0);
    else if (error) x.failed(error);
    else x.closed();
  }
}
