// Publishes to POST /v1/events of an llmtap HTTP endpoint.

import * as http from "node:http";
import * as https from "node:https";

import { monotonic } from "./clock";
import type { Config } from "./config";
import type { Event } from "./event";
import { ignore } from "./patch";
import { PublishError, RejectedError, type Publisher } from "./publisher";
import type { Item } from "./queue";

const BATCH_BYTES = 1 << 20;
const TIMEOUT = 10_000;
const MAX_PAUSE = 60_000; // of Retry-After

interface Answer {
  status: number;
  retryAfter: number; // milliseconds
  text: string;
}

/** Sends one batch at a time. The connection does not keep the process alive. */
export class EndpointPublisher implements Publisher {
  readonly #url: URL;
  readonly #agent: http.Agent;
  #batch: { it: Item; line: string }[] = [];
  #bytes = 0;
  #pauseUntil = 0;

  constructor(
    private readonly config: Config,
    private readonly changed: () => void,
  ) {
    this.#url = new URL(config.endpoint + "/v1/events");
    const options = { keepAlive: true, maxSockets: 1 };
    this.#agent = this.#url.protocol === "https:" ? new https.Agent(options) : new http.Agent(options);
  }

  readonly connected = true;

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
    const pause = this.#pauseUntil - monotonic();
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause).unref());
    const answer = await this.#post(batch.map((b) => b.line).join(""));
    if (answer.retryAfter > 0) this.#pauseUntil = monotonic() + Math.min(answer.retryAfter, MAX_PAUSE);
    this.#settle(batch.map((b) => b.it), answer);
    this.changed();
  }

  #settle(items: Item[], { status, text }: Answer): void {
    let rejected: { event?: unknown; error?: unknown }[] | undefined;
    try {
      rejected = (JSON.parse(text) as { rejected?: typeof rejected }).rejected;
    } catch {
      rejected = undefined;
    }
    const shown = `the endpoint answered ${status}: ${text.slice(0, 200).trim()}`;
    if ([401, 403, 404, 405, 408, 429].includes(status) || status >= 500) throw new PublishError(shown);
    if (status === 413 && items.length > 1) throw new PublishError(shown);
    const ok = status >= 200 && status < 300;
    if (!ok && (status < 400 || (status === 400 && !rejected?.length && items.length > 1))) throw new PublishError(shown);
    for (const it of items) it.acks = 0;
    if (!ok && !rejected?.length) items.forEach((it) => (it.failure = new RejectedError(shown)));
    for (const r of rejected ?? []) {
      const it = items[Number(r.event)];
      if (it) it.failure = new RejectedError(String(r.error));
    }
    for (const it of items) if (it.failure) it.acks = 1;
  }

  #post(body: string): Promise<Answer> {
    const { request } = this.#url.protocol === "https:" ? https : http;
    const token = this.config.token;
    return new Promise((resolve, reject) => {
      const fail = (e: Error): void => reject(new PublishError(e.message));
      const req = request(this.#url, {
        method: "POST",
        agent: this.#agent,
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
        const retryAfter = Number(res.headers["retry-after"] ?? 0) * 1000 || 0;
        res.on("data", (p: Buffer) => pieces.push(p));
        res.on("error", fail);
        res.on("end", () => resolve({ status: res.statusCode ?? 0, retryAfter, text: Buffer.concat(pieces).toString() }));
      });
      req.end(body);
    });
  }

  reset(): void {
    this.#batch = [];
    this.#bytes = 0;
  }

  async close(): Promise<void> {
    this.#agent.destroy();
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
    retry: ev.retry,
    traceparent: request ? ev.traceparent : "",
    status: response ? ev.status : undefined,
    error: ev.error,
    duration_ms: response ? ev.duration : undefined,
    first_byte_ms: response ? ev.firstByte : undefined,
    provider_request_id: ev.providerRequestID,
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
    attrs: attrs.length > 0 ? Object.fromEntries(attrs) : undefined,
    capture: ev.capture,
    degraded: ev.degraded || undefined,
    content_type: ev.contentType,
    content_encoding: ev.contentEncoding,
    run_status: ev.kind === "run" ? ev.step : "",
    tool_call_id: ev.toolCallID,
    tool_status: ev.kind === "tool" ? ev.step : "",
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
