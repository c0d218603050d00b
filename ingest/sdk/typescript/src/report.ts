// Logs when publishing fails, when it recovers and what is lost. Silent while publishing works.

import { monotonic } from "./clock";
import { serviceToken } from "./event";

// A failure to publish is logged at once, and while it lasts again after this many milliseconds, twice that, and so on.
const MIN_INTERVAL = 60_000;
const MAX_INTERVAL = 3_600_000;
// Milliseconds after which a failure is logged although no event waits: the server may be starting too.
const START_GRACE = 2000;

export const NO_STREAM = "no stream has the subject";
const REFUSED = "maximum messages exceeded"; // by a stream that refuses events because the disk is full

/** Numbers of events that are not stored. */
export interface Unsent {
  exchanges: number; // of which at least one half is not stored
  steps: number; // run and tool events
}

/** Where events are published, for messages. */
export interface Destination {
  name: string; // "NATS" or "the endpoint"
  address: string; // without credentials
  hint: (error: string) => string; // how to fix an error
}

/** URLs separated by commas without credentials and parameters. */
export function display(urls: string): string {
  return urls
    .split(",")
    .map((u) => u.trim().replace(/^(?![a-z+]+:\/\/)/i, "nats://"))
    .map((u) => u.replace(/[?#].*$/, "").replace(/^([a-z+]+:\/\/)[^/]*@/i, "$1"))
    .join(",");
}

/** The destination NATS. */
export function natsDestination(urls: string): Destination {
  return {
    name: "NATS",
    address: display(urls),
    hint: (error) => {
      const text = error.toLowerCase();
      if (/authorization|authentication/.test(text)) {
        return "add the token or the user and password to LLMTAP_NATS_URL, or pass credentials in natsOptions";
      }
      if (text.includes(NO_STREAM)) return "run llmtap up with this NATS server: it creates the stream";
      if (text.includes(REFUSED)) return "free space on the disk of llmtap up: it refuses events while the disk is full; llmtap doctor shows it";
      if (/tls|ssl|certificate/.test(text)) return "check whether the server uses TLS, and whether its CA is in LLMTAP_CA_FILE";
      return "run llmtap up, or set LLMTAP_NATS_URL";
    },
  };
}

/** The destination of LLMTAP_ENDPOINT. */
export function endpointDestination(url: string): Destination {
  return {
    name: "the endpoint",
    address: display(url),
    hint: (error) => {
      if (/\b401\b|\b403\b/.test(error)) return "set LLMTAP_TOKEN to the token of the endpoint";
      if (/\b404\b|\b405\b/.test(error)) return "check LLMTAP_ENDPOINT: it is a URL without /v1/events";
      if (/tls|ssl|certificate/i.test(error)) return "check the certificate of the endpoint, and whether its CA is in LLMTAP_CA_FILE";
      return "run llmtap up, or set LLMTAP_ENDPOINT";
    },
  };
}

export class Reporter {
  readonly #token: string;
  #failing = ""; // the error of the last attempt to publish, if it failed
  #denied = ""; // permission violation since the last success
  #stored = false; // at least one attempt succeeded
  #logged = false; // the failure was logged
  #since = 0;
  #next = 0;
  #interval = MIN_INTERVAL;
  #dropped = 0; // dropped exchanges that were logged
  #closed = false; // the loss was logged; later failures are not

  constructor(
    private readonly to: Destination,
    service: string,
    private readonly warn: (message: string) => void,
  ) {
    this.#token = serviceToken(service);
  }

  /** Logs a failed attempt to publish or to connect, unless the failure was logged recently. pending means that events wait. */
  failed(error: string, pending: boolean, now = monotonic()): void {
    if (!this.#failing) {
      this.#since = this.#next = now;
      this.#interval = MIN_INTERVAL;
      this.#logged = false;
    }
    this.#failing = this.#denied || error;
    if (this.#closed || now < this.#next || (!pending && now < this.#since + START_GRACE)) return;
    this.#logged = true;
    this.#next = now + this.#interval;
    this.#interval = Math.min(2 * this.#interval, MAX_INTERVAL);
    const { name, address } = this.to;
    this.warn(`cannot publish to ${name} at ${address}, retrying; calls are kept in memory: ${this.#failing}; fix: ${this.#fix()}`);
  }

  /** Records a permission violation, which explains why the following messages are not acknowledged. */
  denied(error: string): void {
    this.#denied = error;
  }

  /** Logs that publishing works again if it failed. dropped is the number of exchanges dropped since the start. */
  succeeded(dropped: number, now = monotonic()): void {
    if (this.#failing && this.#logged) {
      const seconds = ((now - this.#since) / 1000).toFixed(1);
      const lost = dropped - this.#dropped;
      this.warn(`connected to ${this.to.name} at ${this.to.address} after ${seconds} s, publishing; ${exchanges(lost)} dropped`);
      this.#dropped = dropped;
    }
    this.#failing = this.#denied = "";
    this.#stored = true;
  }

  /** Logs what is discarded when the hook is closed. timeout is the time that it waited, dropped the number of exchanges dropped
   * since the start. */
  lost(unsent: Unsent, dropped: number, timeout: number): void {
    this.#closed = true;
    this.#failing = this.#denied || this.#failing;
    if (unsent.exchanges + unsent.steps === 0) {
      if (dropped > this.#dropped) {
        const lost = exchanges(dropped - this.#dropped);
        this.warn(`${lost} dropped because memory was full or ${this.to.name} rejected them`);
        this.#dropped = dropped;
      }
      return;
    }
    const parts: string[] = [];
    if (unsent.exchanges > 0 || unsent.steps === 0) parts.push(`${unsent.exchanges} exchange${unsent.exchanges === 1 ? "" : "s"}`);
    if (unsent.steps > 0) parts.push(`${unsent.steps} run and tool events`);
    const reason = this.#failing || `${this.#stored ? "not stored" : "no connection"} within ${timeout / 1000} s`;
    const before = dropped > 0 ? ` (${exchanges(dropped)} dropped before)` : "";
    this.warn(
      `${parts.join(" and ")} discarded at exit, ${this.to.name} at ${this.to.address} has not stored them${before}: ` +
        `${reason}; fix: ${this.#fix()}`,
    );
  }

  #fix(): string {
    if (this.#denied) return `permit the user to publish to llmtap.v1.*.${this.#token}.* and to subscribe to _INBOX.${this.#token}.>`;
    return this.to.hint(this.#failing);
  }
}

function exchanges(n: number): string {
  return n === 1 ? "1 exchange was" : `${n} exchanges were`;
}
