// Subjects and headers of the messages. Package ingest/sdk/go/event is the reference.

import { createHash } from "node:crypto";

import type { Place } from "./code";
import { masked, truncate } from "./redact";

export const MAX_HEADER_VALUE = 512; // bytes of one value, after percent-encoding
export const MAX_ATTRS = 32;
const MAX_ATTR = 4 << 10; // bytes of the value of an attribute that is masked before it is truncated
export const MAX_PARTS = 1024;
const MAX_DURATION = 1e9; // milliseconds
const MAX_SERVICE_NAME = 32;
const UNKNOWN_SERVICE = "unknown";

export type Kind = "request" | "response" | "run" | "tool" | "hook";
export type Step = "" | "started" | "ok" | "error" | "alive" | "ended";

// Values of Llmtap-Error set by the hook; other values are texts of errors.
export const UNREAD = "closed before the end of the body";
export const EXIT = "the process exited before the response ended";
export const CANCELLED = "cancelled by the agent";

const ATTR_KEY = /^[a-z0-9._-]{1,64}$/;
const PLAIN = /^[!-$&-~](?:[ -$&-~]*[!-$&-~])?$/;

/** The labels of an event and the instance of the hook. Immutable once used by an event: the common headers are encoded once. Only
 * the sender masks attrs before that. */
export class EventLabels {
  service = "";
  serviceVersion = "";
  environment = "";
  agent = "";
  stage = "";
  conversation = "";
  run = "";
  user = "";
  instance = "";
  sdk = "";
  attrs: Record<string, string> = {};
  #masked = false;
  #route = "";
  #headers: Header[] | undefined;

  /** Masks credentials and personal data in the attributes, once for all events of a context. */
  maskAttrs(): void {
    if (this.#masked) return;
    this.#masked = true;
    for (const [key, value] of Object.entries(this.attrs)) this.attrs[key] = maskedAttr(value);
  }

  /** The end of the subjects: <service>.<shard>. */
  route(): string {
    this.#route ||= `${serviceToken(this.service)}.${this.#shard().toString(16).padStart(2, "0")}`;
    return this.#route;
  }

  /** The shard of the conversation or, without one, of (service, agent, instance). */
  #shard(): number {
    if (this.conversation) return shardOf(this.conversation);
    return shardOf(this.service || UNKNOWN_SERVICE, this.agent, this.instance);
  }

  /** The common headers of the events. */
  headers(): Header[] {
    if (!this.#headers) {
      const h: Header[] = [];
      text(h, "Llmtap-Service", this.service);
      text(h, "Llmtap-Service-Version", this.serviceVersion);
      text(h, "Llmtap-Environment", this.environment);
      text(h, "Llmtap-Agent", this.agent);
      text(h, "Llmtap-Stage", this.stage);
      text(h, "Llmtap-Conversation", this.conversation);
      text(h, "Llmtap-Run", this.run);
      text(h, "Llmtap-User", this.user);
      text(h, "Llmtap-Instance", this.instance);
      for (const key of this.attrKeys()) text(h, "Llmtap-Attr-" + key, this.attrs[key]);
      h.push(["Llmtap-Origin", "hook"]);
      text(h, "Llmtap-Sdk", this.sdk);
      this.#headers = h;
    }
    return this.#headers;
  }

  /** The keys of the published attributes. */
  attrKeys(): string[] {
    return Object.keys(this.attrs).sort().slice(0, MAX_ATTRS);
  }
}

/** The name and encoded value of a header. */
export type Header = [name: string, value: string];

/** The request or response of an exchange, or the start or end of a run or tool. Times are in milliseconds with fractions. */
export class Event {
  exchange = "";
  time = 0;
  url = "";
  method = "";
  apiVersion = "";
  account = "";
  status = 0;
  error = "";
  duration = 0;
  firstByte = 0;
  providerRequestID = "";
  rateLimits = "";
  retry = 0;
  place: Place | undefined;
  step: Step = "";
  toolCallID = "";
  seq = 0;
  dropped = 0;
  uncaptured = 0;
  uncapturedBy = "";
  capture = "";
  degraded = false;
  contentType = "";
  contentEncoding = "";
  traceparent = "";
  body: Buffer | undefined;

  constructor(
    readonly kind: Kind,
    readonly labels: EventLabels,
  ) {}

  /** The id by which JetStream drops a resent message. */
  messageID(part: number): string {
    switch (this.kind) {
      case "run":
        return messageIDHeader(`${this.labels.run}.${this.step}`);
      case "tool":
        return messageIDHeader(`${this.toolCallID}.${this.exchange}.${this.step}`);
      case "hook":
        if (this.step) return messageIDHeader(`${this.labels.instance}.${this.step}.${this.seq}`);
        return messageIDHeader(`${this.labels.instance}.hook.${this.uncaptured}`);
      default:
        return `${this.exchange}.${this.kind === "response" ? "s" : "q"}.${part}`;
    }
  }

  /** llmtap.v1.<kind>.<service>.<shard>. */
  subject(): string {
    return `llmtap.v1.${this.kind}.${this.labels.route()}`;
  }

  /** All headers except Nats-Msg-Id, Llmtap-Part and Llmtap-Body-Bytes, which depend on the part. */
  headers(): Header[] {
    const h: Header[] = [["Llmtap-Time", rfc3339(this.time)]];
    if (this.exchange) h.push(["Llmtap-Exchange", this.exchange]);
    if (this.kind === "request") {
      text(h, "Llmtap-Url", this.url);
      text(h, "Llmtap-Method", this.method);
      text(h, "Llmtap-Api-Version", this.apiVersion);
      text(h, "Llmtap-Account", this.account);
      number(h, "Llmtap-Retry", this.retry);
      text(h, "Llmtap-Code", this.place?.code ?? "");
      text(h, "Traceparent", this.traceparent);
    } else if (this.kind === "response") {
      h.push(["Llmtap-Status", String(this.status)]);
      text(h, "Llmtap-Error", this.error);
      h.push(["Llmtap-Duration-Ms", millis(this.duration)], ["Llmtap-First-Byte-Ms", millis(this.firstByte)]);
      text(h, "Llmtap-Provider-Request-Id", this.providerRequestID);
      text(h, "Llmtap-Rate-Limits", this.rateLimits);
    } else if (this.kind === "run") {
      h.push(["Llmtap-Run-Status", this.step]);
    } else if (this.kind === "tool") {
      text(h, "Llmtap-Tool-Call-Id", this.toolCallID);
      h.push(["Llmtap-Tool-Status", this.step]);
    } else {
      text(h, "Llmtap-Hook-Status", this.step);
    }
    h.push(...this.labels.headers());
    number(h, "Llmtap-Seq", this.seq);
    number(h, "Llmtap-Dropped", this.dropped);
    number(h, "Llmtap-Uncaptured", this.uncaptured);
    text(h, "Llmtap-Uncaptured-By", this.uncapturedBy);
    if (this.capture) h.push(["Llmtap-Capture", this.capture]);
    if (this.degraded) h.push(["Llmtap-Degraded", "1"]);
    text(h, "Content-Type", this.contentType);
    text(h, "Content-Encoding", this.contentEncoding);
    return h;
  }
}

function text(h: Header[], key: string, value: string): void {
  if (value) h.push([key, escape(value)]);
}

function number(h: Header[], key: string, value: number): void {
  if (value > 0) h.push([key, String(value)]);
}

/** Whether key matches [a-z0-9._-]{1,64}. */
export function validAttrKey(key: string): boolean {
  return ATTR_KEY.test(key);
}

/** Encodes s. U+DC80 to U+DCFF stand for the bytes of a character that clip has split. */
export function utf8(s: string): Buffer {
  if (!/[\udc80-\udcff]/.test(s)) return Buffer.from(s);
  const pieces: Buffer[] = [];
  for (const c of s) {
    const code = c.codePointAt(0)!;
    pieces.push(code >= 0xdc80 && code <= 0xdcff ? Buffer.from([code & 0xff]) : Buffer.from(c));
  }
  return Buffer.concat(pieces);
}

/** Truncates s to the length of a header value, so that longer values use no memory in the queue. */
export function clip(s: string): string {
  if (s.length * 3 <= MAX_HEADER_VALUE) return s;
  const b = utf8(s);
  if (b.length <= MAX_HEADER_VALUE) return s;
  let end = MAX_HEADER_VALUE;
  while (end > MAX_HEADER_VALUE - 3 && (b[end] & 0xc0) === 0x80) end--; // to the start of a split character
  const rest = [...b.subarray(end, MAX_HEADER_VALUE)].map((c) => String.fromCharCode(0xdc00 + c));
  return b.toString("utf8", 0, end) + rest.join("");
}

/** Truncates the value of an attribute. A long one is masked before, because the rest of a secret may not look like one; others are masked
 * in the background. */
export function clipAttr(s: string): string {
  if (s.length * 3 <= MAX_HEADER_VALUE) return s;
  const b = utf8(s);
  return b.length <= MAX_HEADER_VALUE ? s : clip(text8(masked(truncate(b.toString("latin1"), MAX_ATTR))));
}

/** The value of an attribute with credentials and personal data masked. */
export function maskedAttr(s: string): string {
  const whole = utf8(s).toString("latin1");
  const m = masked(whole);
  return m === whole ? s : text8(m);
}

/** The text of bytes in a string of latin1. */
const text8 = (bytes: string): string => Buffer.from(bytes, "latin1").toString("utf8");

/** Percent-encodes everything but printable ASCII and truncates to MAX_HEADER_VALUE bytes, not inside an escape or a character. */
export function escape(s: string): string {
  if (s.length <= MAX_HEADER_VALUE && PLAIN.test(s)) return s;
  const b = utf8(s);
  let out = "";
  const last = b.length - 1;
  let i = 0;
  while (i <= last) {
    const c = b[i];
    if (isPlain(c, i, last)) {
      if (out.length === MAX_HEADER_VALUE) break;
      out += String.fromCharCode(c);
      i++;
      continue;
    }
    const width = widthAt(b, i);
    if (out.length + 3 * width > MAX_HEADER_VALUE) break;
    for (const x of b.subarray(i, i + width)) out += "%" + x.toString(16).toUpperCase().padStart(2, "0");
    i += width;
  }
  return i > last ? out : out.replace(/ +$/, "");
}

function isPlain(c: number, i: number, last: number): boolean {
  return (c > 0x20 && c < 0x7f && c !== 0x25) || (c === 0x20 && i > 0 && i < last);
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The length of the character at i; 1 for an invalid byte. */
export function widthAt(b: Uint8Array, i: number): number {
  const c = b[i];
  const n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
  if (n === 1 || i + n > b.length) return 1;
  try {
    strict.decode(b.subarray(i, i + n));
    return n;
  } catch {
    return 1;
  }
}

/** The id as a header value. Longer ids are hashed, not truncated, because ids differ in their ends. */
function messageIDHeader(id: string): string {
  const b = utf8(id);
  let size = 0;
  for (let i = 0; i < b.length; i++) size += isPlain(b[i], i, b.length - 1) ? 1 : 3;
  return size <= MAX_HEADER_VALUE ? escape(id) : "sha256:" + createHash("sha256").update(b).digest("hex");
}

/** name if it is valid in a subject, otherwise a cleaned name with 6 hex digits of its hash. */
export function serviceToken(name: string): string {
  if (!name) return UNKNOWN_SERVICE;
  const b = utf8(name);
  const clean = [...b.toString("utf8")].map((c) => (/[A-Za-z0-9_-]/.test(c) ? c : "_")).join("");
  if (clean === name && b.length <= MAX_SERVICE_NAME) return name;
  const hash = (fnv1a(FNV_OFFSET, b) & 0xffffff).toString(16).padStart(6, "0");
  return `${clean.slice(0, MAX_SERVICE_NAME - 7)}-${hash}`;
}

const FNV_OFFSET = 2166136261;
const FNV_PRIME = 16777619;

function fnv1a(h: number, b: Uint8Array): number {
  for (const c of b) h = Math.imul(h ^ c, FNV_PRIME) >>> 0;
  return h;
}

/** The low byte of the FNV-1a hash of the parts, separated by a zero byte. */
function shardOf(...parts: string[]): number {
  return fnv1a(FNV_OFFSET, utf8(parts.join("\0"))) & 0xff;
}

/** Formats a time in UTC, without trailing zeros. */
export function rfc3339(ms: number): string {
  const whole = Math.floor(ms);
  const micros = Math.min(999, Math.floor((ms - whole) * 1000));
  const text = new Date(whole).toISOString().slice(0, -1) + String(micros).padStart(3, "0");
  return text.replace(/\.?0+$/, "") + "Z";
}

/** Formats a duration in milliseconds with nanosecond precision. */
export function millis(ms: number): string {
  const text = Math.min(Math.max(ms, 0), MAX_DURATION).toFixed(6);
  return text.replace(/\.?0+$/, "");
}
