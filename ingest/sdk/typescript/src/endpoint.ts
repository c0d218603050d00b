// Publishes to POST /v1/events of an llmtap HTTP endpoint.

import * as http from "node:http";
import * as https from "node:https";

import { tlsOptions, type Config } from "./config";
import type { Event } from "./event";
import { ignore } from "./patch";
import { PublishError, RejectedError, type Publisher } from "./publisher";
import { MAX_IN_FLIGHT, type Item } from "./queue";

const BATCH_BYTES = 1 << 20;
const TIMEOUT = 10_000;
const MAX_PAUSE = 30_000; // of Retry-After

const MAX_ANSWER = 4 << 20;

// Answers of llmtap after which the events of a batch are dropped. Any other status may change: with the receiver's state, the token or the
// URL.
const DROPPING = [400, 415, 422];
const TOO_LARGE = 413; // final for a single event

interface Answer {
  status: number;
  retryAfter: number; // milliseconds
  text: string;
}

/** The body of an answer of llmtap. */
interface Result {
  accepted?: number;
  rejected?: { event: unknown; error: unknown }[];
  error?: string;
}

function parse(text: string): Result | undefined {
  try {
    return JSON.parse(text) as Result;
  } catch {
    return undefined; // of another server
  }
}

/** Sends one batch at a time. The connection does not keep the process alive. */
export class EndpointPublisher implements Publisher {
  readonly #url: URL;
  #agent: http.Agent | undefined; // undefined before the first batch and after a failure: the files for TLS are read again
  #batch: { it: Item; line: string }[] = [];
  #bytes = 0;

  constructor(
    private readonly config: Config,
    private readonly changed: () => void,
  ) {
    this.#url = new URL(config.endpoint + "/v1/events");
  }

  async #open(): Promise<http.Agent> {
    const options = { keepAlive: true, maxSockets: 1 };
    return this.#url.protocol === "https:" ? new https.Agent({ ...options, ...(await tlsOptions(this.config)) }) : new http.Agent(options);
  }

  readonly connected = true;
  window = MAX_IN_FLIGHT; // a batch is stored as a whole

  async connect(): Promise<void> {
    // Each batch has its own request.
  }

  publish(it: Item): void {
    const line = JSON.stringify(eventObject(it.ev)) + "\n";
    it.acks = 1;
    this.#batch.push({ it, line });
    this.#bytes += line.length;
  }

  async flush(all: boolean): Promise<void> {
    if (this.#batch.length === 0 || (!all && this.#bytes < BATCH_BYTES)) return;
    const batch = this.#batch;
    this.reset();
    const answer = await this.#post(batch.map((b) => b.line).join(""));
    this.#settle(batch.map((b) => b.it), answer);
    this.changed();
  }

  #settle(items: Item[], { status, retryAfter, text }: Answer): void {
    const answer = parse(text);
    const shown = `the endpoint answered ${status}: ${answer?.error || text.slice(0, 200).trim()}`;
    const final = answer?.accepted !== undefined && (status === 200 || DROPPING.includes(status));
    this.window = status === TOO_LARGE ? 1 : MAX_IN_FLIGHT;
    const tooLarge = status === TOO_LARGE && items.length === 1;
    if (!final && !tooLarge) {
      throw new PublishError(status === 200 ? "the answer of the endpoint is not that of llmtap" : shown, Math.min(retryAfter, MAX_PAUSE));
    }
    const rejected = Array.isArray(answer?.rejected) ? answer.rejected : [];
    for (const it of items) it.acks = 0;
    for (const { event, error } of rejected) {
      const it = items[Number(event)];
      if (it) it.failure = new RejectedError(String(error));
    }
    if (status !== 200 && rejected.length === 0) for (const it of items) it.failure = new RejectedError(shown);
    for (const it of items) if (it.failure) it.acks = 1;
  }

  async #post(body: string): Promise<Answer> {
    const { request } = this.#url.protocol === "https:" ? https : http;
    const token = this.config.token;
    const agent = (this.#agent ??= await this.#open());
    return new Promise<Answer>((resolve, reject) => {
      const fail = (e: Error): void => reject(new PublishError(e.message));
      const req = request(this.#url, {
        method: "POST",
        agent,
        timeout: TIMEOUT,
        headers: {
          "content-type": "application/x-ndjson",
          "content-length": Buffer.byteLength(body),
          ...(token ? { authorization: "Bearer " + token } : {}),
        },
      });
      ignore(req);
      req.on("socket", (socket) => socket.unref());
      req.on("timeout", () => req.destroy(new Error("the endpoint did not answer in time")));
      req.on("error", fail);
      req.on("response", (res) => {
        const pieces: Buffer[] = [];
        let bytes = 0;
        const retryAfter = Number(res.headers["retry-after"] ?? 0) * 1000 || 0;
        res.on("data", (p: Buffer) => {
          pieces.push(p);
          if ((bytes += p.length) > MAX_ANSWER) res.destroy(new Error("the answer of the endpoint is too long"));
        });
        res.on("error", fail);
        res.on("end", () => resolve({ status: res.statusCode ?? 0, retryAfter, text: Buffer.concat(pieces).toString() }));
      });
      req.end(body);
    }).catch((e: Error) => { // thrown by request if the key of the agent is not one
      agent.destroy();
      this.#agent = undefined;
      throw e instanceof PublishError ? e : new PublishError("TLS: " + e.message);
    });
  }

  reset(): void {
    this.#batch = [];
    this.#bytes = 0;
  }

  async close(): Promise<void> {
    this.#agent?.destroy();
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** An event in the format of POST /v1/events. */
export function eventObject(ev: Event): Record<string, unknown> {
  const { labels } = ev;
  const request = ev.kind === "request";
  const response = ev.kind === "response";
  const attrs = labels.attrKeys().map((key) => [key, labels.attrs[key]]);
  const fields: Record<string, unknown> = {
    kind: ev.kind,
    exchange: ev.exchange,
    time: new Date(ev.time).toISOString().slice(0, -1) + String(Math.floor((ev.time % 1) * 1000)).padStart(3, "0") + "Z",
    url: ev.url,
    method: ev.method,
    api_version: ev.apiVersion,
    account: ev.account,
    retry: ev.retry,
    code: request ? ev.place?.code : "",
    traceparent: request ? ev.traceparent : "",
    status: response ? ev.status : undefined,
    error: ev.error,
    duration_ms: response ? ev.duration : undefined,
    first_byte_ms: response ? ev.firstByte : undefined,
    provider_request_id: ev.providerRequestID,
    rate_limits: ev.rateLimits,
    service: labels.service,
    service_version: labels.serviceVersion,
    environment: labels.environment,
    agent: labels.agent,
    stage: labels.stage,
    conversation: labels.conversation,
    run: labels.run,
    user: labels.user,
    instance: labels.instance,
    seq: ev.seq,
    dropped: ev.dropped,
    uncaptured: ev.uncaptured,
    uncaptured_by: ev.uncapturedBy,
    attrs: attrs.length > 0 ? Object.fromEntries(attrs) : undefined,
    capture: ev.capture,
    degraded: ev.degraded || undefined,
    content_type: ev.contentType,
    content_encoding: ev.contentEncoding,
    run_status: ev.kind === "run" ? ev.step : "",
    tool_call_id: ev.toolCallID,
    tool_status: ev.kind === "tool" ? ev.step : "",
    hook_status: ev.kind === "hook" ? ev.step : "",
    sdk: labels.sdk,
  };
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined || value === "" || (value === 0 && key !== "status")) delete fields[key];
  }
  if (ev.body?.length) {
    try {
      fields.body = utf8.decode(ev.body);
    } catch {
      fields.body_base64 = ev.body.toString("base64");
    }
  }
  return fields;
}
