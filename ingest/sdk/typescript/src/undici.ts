// Records undici, which is also Node's fetch, at its requests, where bytes are encoded. Each request of a redirect or a retry is a
// separate call. undici announces each request of all its copies, clients and dispatchers on a diagnostics channel; this module observes
// the methods of the request through which its bytes pass.

import * as channels from "node:diagnostics_channel";

import { Stack, type Place } from "./code";
import { current, Scope } from "./context";
import { first, headersOf, type Exchange, type Headers } from "./exchange";
import type { Hook } from "./hook";
import { hookOf, observe, type Patches } from "./patch";

const CREATED = "undici:request:create";
const MAX_POOL_FRAMES = 16; // between onDrain of the pool and the publication of the request

/** The parts of an undici request that are used. */
interface Request {
  origin: string | URL;
  path: string;
  method: string;
  headers: string | unknown[];
  contentLength?: number | null;
  contentType?: string | null;
  body: unknown;
  upgrade?: string | null;
}

// The names of the methods of a request, by version.
const HEADERS = ["onResponseStart", "onHeaders"];
const DATA = ["onResponseData", "onData"];
const END = ["onResponseEnd", "onComplete"];
const ERROR = ["onResponseError", "onError"];

const NO_STACK = { sites: [] };
let fetching: { sites: readonly NodeJS.CallSite[] } | undefined; // the stack of the call of fetch that is on the stack
let builtinFetch = globalThis.fetch;

/** Subscribes to the requests of undici. */
export function patchUndici(patches: Patches): void {
  const created = (message: unknown): void => {
    const hook = hookOf();
    const { request } = message as { request: Request };
    if (!hook || (request?.method !== "POST" && request?.upgrade !== "websocket")) return;
    try {
      record(hook, request);
    } catch (e) {
      hook.countError(e);
    }
  };
  channels.subscribe(CREATED, created);
  patches.add(() => channels.unsubscribe(CREATED, created));
  builtinFetch = globalThis.fetch;
  patches.replace(globalThis, "fetch", (original) => function fetch(this: unknown, ...args: unknown[]): unknown {
    const outer = fetching;
    fetching = stackOfFetch(args[0], fetch);
    try {
      return original.apply(this, args);
    } finally {
      fetching = outer;
    }
  });
}

/** The stack of a call of fetch to a URL that is known to be recorded. At the request that fetch makes, it is deeper and takes several
 * times as long to capture. */
function stackOfFetch(input: unknown, below: () => unknown): typeof fetching {
  const hook = hookOf();
  if (!hook) return undefined;
  try {
    const url = typeof input === "string" ? input : ((input as URL).href ?? (input as { url: string }).url);
    if (!hook.hosts.knows(url)) return undefined;
  } catch {
    return undefined; // fetch throws
  }
  return hook.hasCode ? new Stack(below) : NO_STACK;
}

function record(hook: Hook, request: Request): void {
  const origin = String(request.origin);
  const flat = headerList(request);
  const target = hook.hosts.target(origin.replace(/\/$/, ""), request.path, () => first(headersOf(flat), "content-type"));
  if (!target) return;
  if (request.upgrade === "websocket") {
    hook.uncaptured(target, "websocket");
    return;
  }
  const methods = [HEADERS, DATA, END, ERROR].map((names) => names.find((n) => typeof (request as never)[n] === "function"));
  if (methods.some((m) => m === undefined)) {
    hook.uncaptured(target, "this version of undici");
    return;
  }
  const [onHeaders, onData, onEnd, onError] = methods as string[];
  const headers = headersOf(flat);
  const handler = handlerOf(request);
  const { scope, place } = originOf(hook, handler);
  const x = hook.begin(target, request.method, headers, scope, place);
  if (!x) return;
  try {
    recordBody(request, x, headers);
  } catch (e) {
    x.broken(e);
  }
  observe(x, request, onHeaders, (status: number, raw: unknown) => {
    if (status >= 200) x.responded(status, headersOf(Array.isArray(raw) ? raw : Object.entries(raw ?? {}).flat()));
  });
  observe(x, request, onData, (chunk: Uint8Array) => x.read(chunk));
  observe(x, request, onEnd, () => x.eof());
  observe(x, request, onError, (error: unknown) => {
    if (x.status > 0 && isClose(error) && !handler?.reason) x.closed();
    else x.failed(handler?.reason ?? error);
  });
}

/** The headers of a request as a flat list. */
function headerList(request: Request): unknown[] {
  const { headers, contentLength, contentType } = request;
  const flat = Array.isArray(headers) ? [...headers] : [];
  if (typeof headers === "string") {
    for (const line of headers.split("\r\n")) {
      const colon = line.indexOf(":");
      if (colon > 0) flat.push(line.slice(0, colon), line.slice(colon + 1).trim());
    }
  }
  if (typeof contentLength === "number") flat.push("content-length", String(contentLength));
  if (contentType && !flat.some((h, i) => i % 2 === 0 && String(h).toLowerCase() === "content-type")) flat.push("content-type", contentType);
  return flat;
}

/** The handler of undici's request, stream and pipeline. */
interface Handler {
  runInAsyncScope<T>(f: () => T): T;
  reason?: unknown; // of the AbortSignal
}

/** The handler of a request made by undici's request, stream or pipeline; undefined for fetch. */
function handlerOf(request: Request): Handler | undefined {
  const symbol = Object.getOwnPropertySymbols(request).find((s) => s.description === "handler");
  let handler = symbol && ((request as never)[symbol] as (Partial<Handler> & { handler?: unknown }) | undefined);
  for (let depth = 0; handler && depth < 4; depth++) {
    if (typeof handler.runInAsyncScope === "function") return handler as Handler;
    handler = handler.handler as typeof handler;
  }
  return undefined;
}

/** The stack of a request that a pool may start on the stack of another call. */
class RequestStack extends Stack {
  get pooled(): boolean {
    return super.sites.slice(0, MAX_POOL_FRAMES).some((site) => site.getFunctionName()?.endsWith("onDrain"));
  }

  override get sites(): readonly NodeJS.CallSite[] {
    return this.pooled ? [] : super.sites;
  }
}

/** The scope and the place of a request. The handlers of undici's request, stream and pipeline know their own scope. A fetch that waited
 * in a pool with a limited number of connections is started in the context, and on the stack, of another call; it has neither, because none
 * is better than a wrong one. */
function originOf(hook: Hook, handler: Handler | undefined): { scope: Scope; place?: Place } {
  if (handler) {
    const scope = handler.runInAsyncScope(current);
    return { scope, place: hook.hasCode ? hook.placeOf(scope, new RequestStack(record)) : undefined };
  }
  const scope = current();
  if (fetching) return { scope, place: hook.placeOf(scope, fetching) };
  if (!hook.hasCode && !scope.labelled) return { scope };
  const fetched = new Stack(builtinFetch);
  if (fetched.sites.length > 0) return { scope, place: hook.placeOf(scope, fetched) };
  const stack = new RequestStack(record);
  return stack.pooled ? { scope: new Scope() } : { scope, place: hook.placeOf(scope, stack) };
}

function recordBody(request: Request, x: Exchange, headers: Headers): void {
  const { body } = request;
  if (body === null || body === undefined) {
    x.request();
  } else if (body instanceof Uint8Array) {
    x.request(body);
  } else {
    x.bodyPending();
    const source = body as Partial<AsyncIterable<Uint8Array>> & { pipe?: unknown };
    if (typeof source[Symbol.asyncIterator] === "function" && typeof source.pipe !== "function") {
      request.body = tee(source as AsyncIterable<Uint8Array>, x, headers.has("content-length"));
    } else {
      observe(x, request, "onBodySent", (chunk: unknown) => x.requestRead(bytesOf(chunk)));
      observe(x, request, "onRequestSent", () => x.requestEnd());
    }
  }
}

/** Records the body of fetch while it is sent. The first piece of a body of known length, which is usually all of it, is read at once, so
 * that it is known if the connection fails. */
function tee(body: AsyncIterable<Uint8Array>, x: Exchange, known: boolean): AsyncIterable<Uint8Array> {
  const it = body[Symbol.asyncIterator]();
  const record = (r: IteratorResult<unknown>): void => {
    try {
      if (r.done) x.requestEnd();
      else x.requestRead(bytesOf(r.value));
    } catch (e) {
      x.broken(e);
    }
  };
  const next = (): Promise<IteratorResult<Uint8Array>> => {
    const piece = Promise.resolve(it.next());
    return piece.then((r) => {
      record(r);
      return r;
    });
  };
  let ahead: Promise<IteratorResult<Uint8Array>> | undefined = known ? next() : undefined;
  ahead?.catch(() => undefined); // the client handles the error, if it reads the body
  return {
    [Symbol.asyncIterator]: () => ({
      next() {
        const piece = ahead ?? next();
        ahead = undefined;
        return piece;
      },
      return: async (value?: unknown) => (await it.return?.(value)) ?? { done: true, value: undefined },
    }),
  };
}

function bytesOf(chunk: unknown): Uint8Array {
  if (chunk instanceof Uint8Array) return chunk;
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  return chunk instanceof ArrayBuffer ? new Uint8Array(chunk) : Buffer.from(String(chunk));
}

/** Whether the agent closed the body of the response without an AbortSignal. */
function isClose(error: unknown): boolean {
  const e = error as { name?: unknown; code?: unknown; message?: unknown } | undefined;
  return e?.code === "UND_ERR_ABORTED" || (e?.name === "AbortError" && e.message === "The operation was aborted.");
}
