// Publishes queued events, oldest first, and retains each until it is stored.

import { monotonic } from "./clock";
import type { Config } from "./config";
import { EndpointPublisher } from "./endpoint";
import { NATSPublisher } from "./nats";
import { Preparer } from "./prepare";
import { PublishError, RejectedError, type Publisher } from "./publisher";
import { MAX_IN_FLIGHT, type Queue } from "./queue";
import type { Reporter } from "./report";

const ACK_TIMEOUT = 5000;
const MIN_BACKOFF = 50;
const MAX_BACKOFF = 1000;
const TICK = 25; // milliseconds between two batches, and between the first event after a pause and its batch, to collect more events
const BACKLOG = 64; // pending events above which the sender does not collect more
const SLICE = 8; // events to publish before the agent's callbacks may run
const SLICE_TIME = 2; // milliseconds, likewise
const SWEEP = 1000;
const STOP_TIMEOUT = 1000; // of the loop, and of the disconnection

/** What the sender needs of the hook. */
export interface Source {
  readonly config: Config;
  readonly queue: Queue;
  readonly report: Reporter;
  countError(error: unknown): void;
  reportUncaptured(): void;
  heartbeat(): void;
  readPlaces(): void;
}

/** After a failure the sender starts again with the oldest event; JetStream drops stored ones by their ids.
 *
 * At the start and after a failure only one event is in flight over NATS until it is stored. If several were in flight, the first could
 * fail while later ones are stored, and resending the first would break the order. */
export class Sender {
  readonly preparer: Preparer;
  readonly publisher: Publisher;
  #healthy = false; // the last attempt to publish on this connection succeeded
  #backoff = MIN_BACKOFF;
  #stopping = false;
  #wake: (() => void) | undefined;
  #wakesOnEvents = false;
  #done: Promise<void> | undefined;

  constructor(private readonly hook: Source) {
    const { config } = hook;
    this.preparer = new Preparer(hook.queue, config);
    const changed = (): void => this.#changed();
    this.publisher = config.endpoint ? new EndpointPublisher(config, changed) : new NATSPublisher(config, hook.report, changed);
  }

  /** Starts the loop, or wakes it if it waits for events. */
  wake(): void {
    if (this.#stopping) return;
    if (!this.#done) this.#done = this.#run();
    else if (this.#wakesOnEvents) this.#changed();
  }

  /** Stops the loop and disconnects. The agent does not wait for a client that does not end. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#changed();
    await atMost(STOP_TIMEOUT, this.#done);
    await atMost(STOP_TIMEOUT, this.publisher.close());
    this.preparer.close();
  }

  async #run(): Promise<void> {
    const { queue, report } = this.hook;
    while (!this.#stopping) {
      let pause = this.#backoff;
      try {
        await this.#turn();
        continue;
      } catch (e) {
        if (this.#stopping) break;
        if (!isPublishError(e)) this.hook.countError(e);
        if (e instanceof PublishError) pause = Math.max(pause, e.after);
        report.failed(errorText(e), queue.pending > 0);
      }
      this.publisher.reset();
      queue.requeue();
      this.#healthy = false;
      await this.#wait(pause, false);
      this.#backoff = Math.min(2 * this.#backoff, MAX_BACKOFF);
    }
  }

  /** Sends as many events as the window allows and removes the stored ones. */
  async #turn(): Promise<void> {
    const { queue, report } = this.hook;
    this.hook.reportUncaptured();
    this.hook.heartbeat();
    this.hook.readPlaces();
    await this.#send();
    this.#acknowledge();
    const head = queue.oldestInFlight;
    if (!head) {
      if (!this.publisher.connected) await this.#connect();
      if (!queue.hasQueued) {
        report.succeeded(queue.dropped);
        if (!(await this.#wait(SWEEP, true))) return;
      }
      if (this.#healthy && !queue.hasWaiters && queue.pending < BACKLOG) await this.#wait(TICK, false);
    } else if (!this.publisher.connected) {
      throw new PublishError("connection lost");
    } else if (!(await this.#wait(SWEEP, false)) && monotonic() - head.sent > ACK_TIMEOUT) {
      // A server that is cut off from the network does not close the connection. The next one may work.
      void this.publisher.close();
      throw new PublishError("acknowledgement timed out");
    }
  }

  async #connect(): Promise<void> {
    this.#healthy = false;
    await this.publisher.connect();
  }

  /** Removes the events that are stored or rejected from flight. */
  #acknowledge(): void {
    const { queue, report } = this.hook;
    const { stored, published } = queue.ack();
    if (stored > 0) {
      this.#healthy = true;
      this.#backoff = MIN_BACKOFF;
      report.succeeded(queue.dropped);
    }
    for (const exchange of published) this.#published(exchange);
    const head = queue.oldestInFlight;
    if (!head?.failure) return;
    if (!(head.failure instanceof RejectedError)) throw head.failure;
    this.#reject(head.failure);
    queue.reject(head);
    this.#acknowledge();
  }

  #published(exchange: string): void {
    try {
      this.hook.config.onPublished?.(exchange);
    } catch (e) {
      this.hook.config.warn(`onPublished threw: ${String(e)}`);
    }
  }

  #reject(error: Error): void {
    this.hook.config.warn(`an exchange is rejected, dropping it: ${error.message}`);
  }

  /** Waits for an acknowledgement, for an event to send if events, or for a time. Returns false after the time. */
  #wait(ms: number, events: boolean): Promise<boolean> {
    if (this.#stopping) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#wake = undefined;
        resolve(false);
      }, ms).unref();
      this.#wakesOnEvents = events;
      this.#wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }

  #changed(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  /** Sends the events that the window allows, in slices between which the agent's callbacks run. */
  async #send(): Promise<void> {
    const { queue } = this.hook;
    let sliced = 0;
    let began = monotonic();
    while (!this.#stopping && queue.hasQueued) {
      if (!this.publisher.connected) {
        if (queue.oldestInFlight) throw new PublishError("connection lost");
        await this.#connect();
      }
      const it = queue.next(this.#healthy ? MAX_IN_FLIGHT : this.publisher.window);
      if (!it) break;
      if (!it.prepared) {
        await this.preparer.prepare(it);
        it.prepared = true;
      }
      try {
        this.publisher.publish(it);
        it.sent = monotonic();
      } catch (e) {
        if (!(e instanceof RejectedError)) throw e;
        this.#reject(e);
        queue.reject(it);
      }
      if (++sliced % SLICE === 0 || monotonic() - began > SLICE_TIME) {
        await this.publisher.flush(false);
        await new Promise((resolve) => setImmediate(resolve));
        began = monotonic();
      }
    }
    await this.publisher.flush(true);
  }
}

/** Waits for a promise, but at most ms milliseconds. */
async function atMost(ms: number, done: Promise<void> | undefined): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([
    done,
    new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms);
    }),
  ]);
  clearTimeout(timer);
}

/** Whether e is a failure to publish and not an internal error. */
function isPublishError(e: unknown): boolean {
  return e instanceof PublishError || (e instanceof Error && !(e instanceof TypeError || e instanceof RangeError || e instanceof ReferenceError));
}

function errorText(e: unknown): string {
  if (e instanceof PublishError) return e.message;
  const cause = (e as { cause?: unknown }).cause;
  const text = e instanceof Error ? `${e.name}: ${e.message}` : String(e);
  return cause instanceof Error && !text.includes(cause.message) ? `${text}: ${cause.message}` : text;
}
