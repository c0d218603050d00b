// The hook of this process: starts exchanges and the sender.

import { createHmac, randomUUID } from "node:crypto";

import { monotonic, now } from "./clock";
import { Places, Stack, type Place } from "./code";
import type { Config } from "./config";
import { Scope } from "./context";
import { clip, Event, EventLabels, EXIT, MAX_ATTRS, utf8, type Step } from "./event";
import { Exchange, type Headers } from "./exchange";
import { Hosts, MAX_UNKNOWN, type Target } from "./hosts";
import { Queue } from "./queue";
import { endpointDestination, natsDestination, Reporter } from "./report";
import { Sender } from "./sender";

export const VERSION = "0.1.0";

const REPORT_INTERVAL = 10_000; // milliseconds between two reports of uncaptured calls
export const HEARTBEAT_INTERVAL = 60_000; // milliseconds between two heartbeats

// What to do about calls that are not captured, by transport.
const INSTEAD: Record<string, string> = {
  grpc: "use the REST transport of this client",
  websocket: "use the HTTP API if it has one for these calls",
};

/** The counters of the hook. */
export interface Stats {
  published: number; // exchanges whose request and response are stored
  events: number; // stored events; an event in parts counts once
  dropped: number; // exchanges dropped because memory ran out or the server rejected them
  pending: number; // events not stored yet
  open: number; // calls whose response has not ended
  bytes: number; // memory reserved for pending events and for bodies being read
  errors: number; // internal errors of the hook
  unrecorded: number; // calls with the path of an LLM API to unknown hosts, which are not recorded
  uncaptured: number; // calls over gRPC, WebSockets and unknown versions of undici to the hosts to record, which are not captured
}

/** Records the calls of one process. */
export class Hook {
  readonly hosts: Hosts;
  readonly queue: Queue;
  readonly report: Reporter;
  readonly sender: Sender;
  automatic = false; // see install
  readonly #instance = randomUUID();
  readonly #places: Places | undefined;
  #open = new Set<Exchange>();
  #closed = false;
  #errors = 0;
  #uncaptured = new Map<string, number>(); // calls by transport
  #uncapturedHosts = new Set<string>();
  #reported = 0; // uncaptured calls in the newest report
  #reportDue = 0;
  #beatDue = monotonic() + HEARTBEAT_INTERVAL;
  #beats = 0; // heartbeats queued
  #stored = 0; // events stored at the last heartbeat

  constructor(readonly config: Config) {
    this.hosts = new Hosts(config.hosts, config.warn);
    const to = config.endpoint ? endpointDestination(config.endpoint) : natsDestination(config.url);
    this.report = new Reporter(to, config.service, config.warn);
    this.queue = new Queue(config.memoryLimit, () => this.sender.wake());
    this.sender = new Sender(this);
    if (config.code) this.#places = new Places();
  }

  /** Counts an internal error, and logs the first. */
  countError(error: unknown): void {
    if (++this.#errors > 1) return;
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.config.warn(`internal error, a call may not be recorded; further errors are only counted: ${text}`);
  }

  /** Counts a call to a host that is not captured. Logs each host once, and publishes the counts at most every REPORT_INTERVAL. */
  uncaptured(target: Target, transport: string): void {
    if (this.#closed) return;
    this.#uncaptured.set(transport, (this.#uncaptured.get(transport) ?? 0) + 1);
    this.queue.uncaptured++;
    this.queue.uncapturedBy = [...this.#uncaptured].filter(([t]) => t in INSTEAD).map(([t, n]) => `${t}=${n}`).join(" "); // prettier-ignore
    const host = target.url.split("/")[2];
    const key = `${host} over ${transport}`;
    if (!this.#uncapturedHosts.has(key) && this.#uncapturedHosts.size < MAX_UNKNOWN) {
      this.#uncapturedHosts.add(key);
      const instead = INSTEAD[transport] ?? "set the base URL of this client to llmtap's proxy";
      this.config.warn(`calls to ${key} are not recorded, only counted; ${instead}`);
    }
    this.reportUncaptured();
  }

  /** Publishes the newest count of uncaptured calls. */
  reportUncaptured(at = monotonic()): void {
    if (this.queue.uncaptured === this.#reported || at < this.#reportDue) return;
    this.#reportDue = at + REPORT_INTERVAL;
    const ev = new Event("hook", this.labels(new Scope()));
    ev.uncaptured = this.#reported = this.queue.uncaptured;
    ev.uncapturedBy = this.queue.uncapturedBy;
    ev.time = now();
    this.queue.push(ev);
  }

  /** Publishes that the process is alive. While nothing is stored, heartbeats would only fill the queue. */
  heartbeat(at = monotonic()): void {
    if (at < this.#beatDue) return;
    this.#beatDue = at + HEARTBEAT_INTERVAL;
    const { events, pending } = this.queue;
    if (this.#closed || (events <= this.#stored && (events === 0 || pending > 0))) return;
    this.#stored = events;
    this.#beats++;
    this.#step(new Event("hook", this.labels(new Scope())), "alive");
  }

  /** Starts and returns the exchange of a call; undefined if the hook is closed. */
  begin(target: Target, method: string, headers: Headers, scope: Scope, place?: Place): Exchange | undefined {
    if (this.#closed) return undefined;
    const x = new Exchange(this, target, method, headers, scope, place);
    this.#open.add(x);
    return x;
  }

  /** Where in the agent's code the current call is made: on the stack, below a function, else where its scope was entered. */
  place(scope: Scope, below: (...args: never[]) => unknown): Place | undefined {
    return this.hasCode ? this.placeOf(scope, new Stack(below)) : undefined;
  }

  /** Where in the agent's code a call with a stack is made. */
  placeOf(scope: Scope, stack: { sites: readonly NodeJS.CallSite[] }): Place | undefined {
    return this.#places?.of(stack, scope.place);
  }

  /** Reads the stacks of the newest calls. */
  readPlaces(): void {
    this.#places?.read();
  }

  /** Whether calls have their code. */
  get hasCode(): boolean {
    return this.#places !== undefined;
  }

  /** Removes x, which has ended. */
  untrack(x: Exchange): void {
    this.#open.delete(x);
  }

  /** The labels of the process, overridden by the labels of the scope. */
  labels(scope: Scope): EventLabels {
    if (scope.built?.instance !== this.#instance) scope.built = this.#labels(scope);
    return scope.built;
  }

  #labels(scope: Scope): EventLabels {
    const labels = new EventLabels();
    const { service, serviceVersion, environment, agent, keepUser, userKey } = this.config;
    const user = scope.user && !keepUser ? hashUser(userKey, scope.user) : scope.user;
    Object.assign(labels, { service, serviceVersion, environment, instance: this.#instance, sdk: "typescript/" + VERSION });
    labels.agent = scope.agent || agent;
    labels.stage = scope.stage;
    labels.conversation = scope.conversation;
    labels.run = scope.run;
    labels.user = clip(user);
    labels.attrs = { ...scope.attrs };
    for (const [key, value] of Object.entries(this.config.attrs)) {
      if (!(key in labels.attrs) && Object.keys(labels.attrs).length < MAX_ATTRS) labels.attrs[key] = value;
    }
    return labels;
  }

  /** The trace of a request without a traceparent header. */
  traceparent(): string {
    try {
      return String(this.config.traceparent?.() ?? "");
    } catch (e) {
      this.countError(e);
      return "";
    }
  }

  /** Publishes the start or end of the run of the scope. */
  runEvent(scope: Scope, step: Step): void {
    if (scope.run) this.#step(new Event("run", this.labels(scope)), step);
  }

  /** Publishes the start or end of a tool, unless the exchange is unknown, because call ids alone are not unique. */
  toolEvent(scope: Scope, callID: string, step: Step): void {
    if (!callID || !scope.last?.exchange) return;
    const ev = new Event("tool", this.labels(scope));
    ev.toolCallID = clip(callID);
    ev.exchange = scope.last.exchange;
    this.#step(ev, step);
  }

  #step(ev: Event, step: Step): void {
    if (this.#closed && step !== "ended") return;
    ev.step = step;
    ev.time = now();
    this.queue.push(ev);
  }

  /** The current counters. */
  stats(): Stats {
    const { published, events, dropped, pending, used, uncaptured } = this.queue;
    return {
      published, events, dropped, pending, uncaptured,
      open: this.#open.size, bytes: used, errors: this.#errors, unrecorded: this.hosts.unrecorded,
    }; // prettier-ignore
  }

  /** Ends the recording of active calls. Further calls are not recorded. */
  end(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const x of [...this.#open]) {
      try {
        x.end(EXIT);
      } catch (e) {
        x.broken(e);
      }
    }
    this.reportUncaptured(Infinity);
    if (this.#beats > 0) this.#step(new Event("hook", this.labels(new Scope())), "ended");
  }

  /** Ends the recording, publishes pending events within the flush timeout, and stops. */
  async close(): Promise<boolean> {
    this.end();
    const stored = await this.queue.flush(this.config.flushTimeout);
    this.lost();
    await this.sender.stop();
    return stored;
  }

  /** Logs what is not stored when the hook stops. */
  lost(): void {
    this.report.lost(this.queue.unsent(), this.queue.dropped, this.config.flushTimeout);
  }
}

/** 16 hex digits: enough to distinguish users, but not worth reversing without the key. */
function hashUser(key: Buffer, user: string): string {
  return createHmac("sha256", key).update(utf8(user)).digest("hex").slice(0, 16);
}
