// A call in progress: its request is queued when it is sent, its response when it ends.

import { account } from "./account";
import { Capture, ERROR_READ, MAX_BODY } from "./capture";
import { monotonic, now, uuid7 } from "./clock";
import type { Place } from "./code";
import type { Config } from "./config";
import type { Scope } from "./context";
import { detect } from "./detect";
import { endingOf, type Ending } from "./endings";
import { CANCELLED, clip, Event, UNREAD, type EventLabels } from "./event";
import type { Target } from "./hosts";
import { Pair, type Queue } from "./queue";
import { masked } from "./redact";
import { KEY_HEADERS, PART_HEADERS, RATE_LIMITS } from "./wire";

const VERSION_HEADERS = ["anthropic-version", "anthropic-beta", "openai-beta", "api-version"];
const REQUEST_IDS = ["x-request-id", "request-id", "x-amzn-requestid"];
// Headers that say when to try again, and what they are called in an event.
const RETRY_AFTER = [["retry-after", "retry_after"], ["retry-after-ms", "retry_after_ms"]] as const; // prettier-ignore
const LIMIT = /^[0-9A-Za-z.:+-]{1,32}$/;
const NAMES = new Set([
  ...VERSION_HEADERS, ...KEY_HEADERS, ...PART_HEADERS, ...REQUEST_IDS, "content-type", "content-encoding", "content-length", "x-stainless-retry-count", "traceparent",
  ...RATE_LIMITS.flatMap(([, ...names]) => names.filter(Boolean)), ...RETRY_AFTER.map(([name]) => name),
]); // prettier-ignore

/** Values of the headers in NAMES, by name. */
export type Headers = Map<string, string[]>;

/** The headers of a message that are in NAMES, from a flat list of names and values. */
export function headersOf(flat: readonly unknown[]): Headers {
  const found: Headers = new Map();
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const name = String(flat[i]).toLowerCase();
    if (!NAMES.has(name)) continue;
    const value = flat[i + 1];
    const values = (Array.isArray(value) ? value : [value]).map((v) => (v instanceof Uint8Array ? Buffer.from(v).toString("latin1") : String(v)));
    const known = found.get(name);
    if (known) known.push(...values);
    else found.set(name, values);
  }
  return found;
}

export function first(headers: Headers, name: string): string {
  return headers.get(name)?.[0] ?? "";
}

/** What a response says of its rate limits. Go's wire.FormatRateLimits is the reference. */
function rateLimits(headers: Headers): string {
  const value = (name: string) => (LIMIT.test(first(headers, name)) ? first(headers, name) : "");
  let found = "";
  for (const [kind, remaining, limit, reset] of RATE_LIMITS) {
    if (headers.has(remaining)) found += ` ${kind}=${value(remaining)}/${value(limit)}/${value(reset)}`;
  }
  for (const [name, key] of RETRY_AFTER) {
    if (headers.has(name) && value(name)) found += ` ${key}=${value(name)}`;
  }
  return found.slice(1);
}

/** What an exchange needs of the hook. */
export interface Recorder {
  readonly config: Config;
  readonly queue: Queue;
  labels(scope: Scope): EventLabels;
  traceparent(): string;
  untrack(x: Exchange): void;
  countError(error: unknown): void;
}

/** Durations are by a monotonic clock. Callers catch exceptions. */
export class Exchange {
  ended = false;
  #broken = false;
  readonly #query: string;
  readonly #time = now();
  readonly #start = monotonic();
  readonly #pair: Pair;
  readonly #req: Event;
  readonly #res: Event;
  readonly #requestBody: Capture;
  readonly #responseBody: Capture;
  #requestSent = false;
  #sending = false; // the request body has not been read to its end
  #requestWant: number; // Content-Length of the request, -1 if unknown
  #stream: Ending | undefined;
  #want = -1; // Content-Length of the response, -1 if unknown
  #got = 0;
  #requestGot = 0;

  constructor(
    readonly hook: Recorder,
    target: Target,
    method: string,
    headers: Headers,
    scope: Scope,
    place?: Place,
  ) {
    this.#query = target.query;
    const capture = hook.config.capture;
    const limit = capture === "none" ? 0 : MAX_BODY;
    const labels = hook.labels(scope);
    this.#requestBody = new Capture(hook.queue, limit);
    this.#responseBody = new Capture(hook.queue, limit);
    this.#pair = new Pair(detect(target.path));
    this.#requestWant = length(first(headers, "content-length"));
    const req = (this.#req = new Event("request", labels));
    req.exchange = uuid7();
    req.time = this.#time;
    req.capture = capture;
    req.url = target.url;
    req.method = method;
    req.apiVersion = apiVersion(headers, target.query);
    req.account = account(hook.config.userKey, headers, target.query);
    req.retry = retry(headers);
    req.place = place;
    req.traceparent = first(headers, "traceparent") || hook.traceparent();
    describe(req, this.#requestBody, headers);
    const res = (this.#res = new Event("response", labels));
    res.exchange = req.exchange;
    res.capture = capture;
    if (scope.last) scope.last.exchange = req.exchange;
  }

  /** The status of the response; 0 before the response. */
  get status(): number {
    return this.#res.status;
  }

  /** Queues the request with its complete body. */
  request(body?: Uint8Array): void {
    if (body && !this.#requestSent) {
      this.#requestBody.want = body.length;
      this.#requestBody.write(body);
    }
    this.#sendRequest();
  }

  /** Records that the request has a body that has not been read yet. */
  bodyPending(): void {
    this.#sending = this.#requestBody.limit > 0;
    this.#requestBody.want = this.#requestWant;
    if (!this.#sending) this.#sendRequest();
  }

  /** Records bytes of the request body. The request is queued when all bytes of its Content-Length have been read. */
  requestRead(p: Uint8Array): void {
    if (this.#requestSent) return;
    this.#requestBody.write(p);
    this.#requestGot += p.length;
    if (this.#requestGot === this.#requestWant) this.requestEnd();
  }

  /** Queues the request, whose body was read to its end. */
  requestEnd(): void {
    this.#sending = false;
    this.#sendRequest();
  }

  #sendRequest(): void {
    if (this.#requestSent) return;
    this.#requestSent = true;
    this.#req.degraded = this.#sending;
    this.#put(this.#req, this.#requestBody);
  }

  #put(ev: Event, body: Capture): void {
    if (body.cut) ev.capture = "cut";
    const [bytes, reserved] = body.take();
    ev.body = bytes;
    this.hook.queue.push(ev, this.#pair, reserved, body.lost);
  }

  /** Begins the response. */
  responded(status: number, headers: Headers): void {
    if (this.ended) return;
    const res = this.#res;
    const body = this.#responseBody;
    res.firstByte = monotonic() - this.#start;
    res.status = status;
    describe(res, body, headers);
    for (const name of REQUEST_IDS) res.providerRequestID ||= first(headers, name);
    res.rateLimits = rateLimits(headers);
    if (status >= 400 && body.limit >= 0 && this.hook.config.capture !== "full") body.limit = ERROR_READ;
    if (!res.contentEncoding) this.#stream = endingOf(res.contentType);
    this.#want = body.want = length(first(headers, "content-length"));
    if (this.#want === 0 || status === 101 || status === 204 || status === 304) this.#end("");
  }

  /** Records bytes of the response. */
  read(p: Uint8Array): void {
    if (this.ended || p.length === 0) return;
    let last = false;
    if (this.#stream) {
      const n = this.#stream.feed(latin1(p));
      if (n >= 0) {
        p = p.subarray(0, n);
        last = true;
      }
    }
    this.#responseBody.write(p);
    this.#got += p.length;
    if (last || this.#got === this.#want) this.#end("");
  }

  /** Ends the response, which was read to its end. */
  eof(): void {
    this.#end("");
  }

  /** Ends the exchange, whose call or read failed. */
  failed(error: unknown): void {
    if (this.ended) return;
    if (this.#stream?.near()) this.#end("");
    else this.#end(isAbort(error) ? CANCELLED : this.#errorText(error));
  }

  /** Ends the exchange when the agent closes the response. */
  closed(cancelled = false): void {
    if (this.#stream?.near()) {
      this.#end("");
    } else if (cancelled) {
      this.#end(CANCELLED);
    } else if (!this.#stream && this.#want < 0 && this.#responseBody.limit <= 0) {
      this.#end(""); // bodies are not recorded, so completeness is unknown
    } else {
      this.#end(UNREAD);
    }
  }

  /** Counts an internal error and drops the exchange, which ends. */
  broken(error: unknown): void {
    this.hook.countError(error);
    if (this.#broken) return;
    this.#broken = this.ended = this.#requestSent = true;
    this.hook.untrack(this);
    const reserved = this.#requestBody.take()[1] + this.#responseBody.take()[1];
    try {
      this.hook.queue.push(this.#res, this.#pair, reserved, true);
    } catch (e) {
      this.hook.countError(e);
    }
  }

  /** Ends the exchange with the given error, "" for a complete response. */
  end(error: string): void {
    this.#end(error);
  }

  /** The text of an error to publish: truncated, without the query of the URL, which may contain a key. */
  #errorText(error: unknown): string {
    const e = (timeoutOf(error) ?? error) as { name?: unknown; message?: unknown; code?: unknown };
    const code = typeof e?.code === "string" && !String(e.message).includes(e.code) ? ` (${e.code})` : "";
    let text = e && typeof e === "object" ? `${String(e.name ?? "Error")}: ${String(e.message ?? "")}${code}` : String(error);
    if (this.#query) text = text.split(this.#query).join("…");
    return clip(Buffer.from(masked(Buffer.from(text).toString("latin1")), "latin1").toString("utf8"));
  }

  #end(error: string): void {
    if (this.ended) return;
    this.ended = true;
    this.hook.untrack(this);
    this.#sendRequest();
    const res = this.#res;
    res.duration = monotonic() - this.#start;
    res.time = this.#time + res.duration;
    res.error = error;
    this.#put(res, this.#responseBody);
  }
}

/** Whether the agent cancelled the call, by an AbortSignal without a timeout. */
function isAbort(error: unknown): boolean {
  const e = error as { name?: unknown; code?: unknown } | undefined;
  return (e?.name === "AbortError" || e?.code === "ABORT_ERR" || e?.code === "UND_ERR_ABORTED") && !timeoutOf(error);
}

/** The TimeoutError of AbortSignal.timeout() that caused an error, if any. */
function timeoutOf(error: unknown): unknown {
  const cause = (error as { cause?: { name?: unknown } } | undefined)?.cause;
  return cause?.name === "TimeoutError" ? cause : undefined;
}

/** The bytes of p, one character each. */
function latin1(p: Uint8Array): string {
  return Buffer.from(p.buffer, p.byteOffset, p.byteLength).toString("latin1");
}

function length(value: string): number {
  return /^[0-9]{1,15}$/.test(value) ? Number(value) : -1;
}

/** The values of the version headers. */
function apiVersion(headers: Headers, query: string): string {
  const versions = VERSION_HEADERS.flatMap((name) => headers.get(name) ?? []);
  if (versions.length === 0 && query.includes("api-version=")) return new URLSearchParams(query).get("api-version") ?? ""; // Azure
  return versions.join(", ");
}

function retry(headers: Headers): number {
  const value = first(headers, "x-stainless-retry-count");
  return /^[0-9]{1,9}$/.test(value) ? Number(value) : 0;
}

/** Copies the content type and encoding of a body from headers. A body in an unknown encoding is not captured. */
function describe(ev: Event, body: Capture, headers: Headers): void {
  ev.contentType = first(headers, "content-type");
  const encoding = (headers.get("content-encoding") ?? []).join(",").trim().toLowerCase();
  switch (encoding) {
    case "":
    case "identity":
      break;
    case "gzip":
    case "x-gzip":
      ev.contentEncoding = "gzip";
      break;
    case "zstd":
    case "br":
    case "deflate":
      ev.contentEncoding = encoding; // the sender decodes encodings that readers of events do not support
      break;
    default:
      body.limit = -1;
      ev.capture = "none";
  }
}
