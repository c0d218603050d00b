// A FIFO of the events to publish in bounded memory. The agent adds events, the sender removes them, and neither waits.

import type { Event } from "./event";
import type { Unsent } from "./report";

const ITEM_OVERHEAD = 2 << 10; // approximate memory of an event without its body, in bytes
export const MAX_IN_FLIGHT = 256;
const MAX_IN_FLIGHT_BYTES = 8 << 20;

/** The request and the response of one exchange in the queue. */
export class Pair {
  items: Item[] = [];
  stored = 0;
  dropped = false;

  constructor(readonly dialect: string) {}
}

/** An event to publish. */
export class Item {
  state: "removed" | "queued" | "in flight" = "removed";
  prepared = false;
  // Only for an item in flight:
  acks = -1; // missing acknowledgements, negative before it is sent
  sent = 0;
  failure: Error | undefined;

  constructor(
    readonly ev: Event,
    readonly pair: Pair | undefined,
    public size: number,
  ) {}
}

interface Waiter {
  seq: number;
  done: () => void;
}

/** When the memory is full, the queue drops both events of the oldest exchange that is not in flight. */
export class Queue {
  uncaptured = 0; // calls that the hook does not capture, set by Hook
  uncapturedBy = ""; // these calls by transport
  published = 0; // exchanges of which both events are stored
  events = 0; // stored events
  dropped = 0; // dropped exchanges
  pending = 0; // events that are not stored yet
  used = 0; // bytes of pending events and of bodies being read
  #seq = 0;
  #queued = new Fifo();
  #inFlight: Item[] = [];
  #inFlightBytes = 0;
  #queuedBytes = 0;
  #waiters: Waiter[] = [];

  /** wake is called when there may be something to send. */
  constructor(
    private readonly limit: number,
    private readonly wake: () => void,
  ) {}

  /** Accounts for n more bytes and drops old exchanges to make room. If dropping all of them would not make enough room, returns
   * false and changes nothing. */
  reserve(n: number): boolean {
    if (n > 0 && this.used + n - this.#queuedBytes > this.limit) return false;
    this.used += n;
    this.#makeRoom();
    return true;
  }

  /** Like reserve, but drops nothing. */
  reserveFree(n: number): boolean {
    if (this.used + n > this.limit) return false;
    this.used += n;
    return true;
  }

  /** Queues ev. Assigns the sequence number, even to dropped events, so that every loss is a gap. */
  push(ev: Event, pair?: Pair, reserved = 0, lost = false): void {
    const it = new Item(ev, pair, reserved + ITEM_OVERHEAD);
    ev.seq = ++this.#seq;
    if (pair) {
      pair.items.push(it);
      if (lost) this.#drop(pair);
      if (pair.dropped) {
        this.used -= reserved;
        ev.body = undefined;
        return;
      }
    }
    this.used += ITEM_OVERHEAD;
    it.state = "queued";
    this.#queued.push(it);
    this.#queuedBytes += it.size;
    this.pending++;
    this.#makeRoom();
    this.wake();
  }

  #makeRoom(): void {
    while (this.used > this.limit) {
      const it = this.#queued.shift();
      if (!it) return;
      if (it.state === "queued" && it.pair) this.#drop(it.pair);
      this.#free(it);
      this.#notify();
    }
  }

  #drop(pair: Pair): void {
    if (pair.dropped) return;
    pair.dropped = true;
    this.dropped++;
    for (const it of pair.items) this.#free(it);
  }

  /** Frees the memory of a queued item. The item stays in the FIFO until it is the oldest queued one. */
  #free(it: Item): void {
    if (it.state !== "queued") return;
    it.state = "removed";
    it.ev.body = undefined;
    this.used -= it.size;
    this.#queuedBytes -= it.size;
    this.pending--;
  }

  /** Marks the oldest queued item as in flight and returns it; undefined if none is queued or enough are in flight. */
  next(window: number): Item | undefined {
    const it = this.#head();
    if (!it || this.#inFlight.length >= window) return undefined;
    if (this.#inFlight.length > 0 && this.#inFlightBytes + it.size > MAX_IN_FLIGHT_BYTES) return undefined;
    this.#queued.shift();
    this.#inFlight.push(it);
    it.state = "in flight";
    it.failure = undefined;
    it.acks = -1;
    this.#inFlightBytes += it.size;
    this.#queuedBytes -= it.size;
    it.ev.dropped = this.dropped;
    if (it.ev.kind !== "hook") { // whose id has the count
      it.ev.uncaptured = this.uncaptured;
      it.ev.uncapturedBy = this.uncapturedBy;
    }
    return it;
  }

  /** The oldest queued item. */
  #head(): Item | undefined {
    let it = this.#queued.peek();
    while (it && it.state === "removed") {
      this.#queued.shift();
      this.#notify();
      it = this.#queued.peek();
    }
    return it;
  }

  /** Whether items are queued. */
  get hasQueued(): boolean {
    return this.#head() !== undefined;
  }

  /** Removes the oldest items in flight whose messages are all acknowledged. Returns their number and the ids of the exchanges that
   * are now stored whole. */
  ack(): { stored: number; published: string[] } {
    let stored = 0;
    const published: string[] = [];
    while (this.#inFlight.length > 0 && this.#inFlight[0].acks === 0) {
      const it = this.#inFlight[0];
      this.#removeInFlight(it);
      stored++;
      if (it.pair && ++it.pair.stored === 2) published.push(it.ev.exchange);
    }
    this.events += stored;
    this.published += published.length;
    return { stored, published };
  }

  /** Removes an item in flight that will never be accepted, and drops its exchange. */
  reject(it: Item): void {
    this.#removeInFlight(it);
    if (it.pair) this.#drop(it.pair);
  }

  #removeInFlight(it: Item): void {
    this.#inFlight.splice(this.#inFlight.indexOf(it), 1);
    it.state = "removed";
    it.ev.body = undefined;
    this.used -= it.size;
    this.#inFlightBytes -= it.size;
    this.pending--;
    this.#notify();
  }

  /** Accounts for a new body of n bytes of an item in flight. Returns false if there is no room for it. */
  resize(it: Item, n: number): boolean {
    const grown = n + ITEM_OVERHEAD - it.size;
    if (!this.reserve(grown)) return false;
    it.size += grown;
    this.#inFlightBytes += grown;
    return true;
  }

  /** Queues all items in flight again, in order. JetStream drops the ones that it has stored by their message ids. */
  requeue(): void {
    for (const it of this.#inFlight) {
      it.state = "queued";
      this.#queuedBytes += it.size;
      if (it.pair?.dropped) this.#free(it);
    }
    this.#queued.unshift(this.#inFlight);
    this.#inFlight = [];
    this.#inFlightBytes = 0;
  }

  /** The oldest item in flight, if any. */
  get oldestInFlight(): Item | undefined {
    return this.#inFlight[0];
  }

  /** Whether flush waits. */
  get hasWaiters(): boolean {
    return this.#waiters.length > 0;
  }

  /** The events that are not stored, in order. */
  unstored(): Item[] {
    return [...this.#inFlight, ...this.#queued].filter((it) => it.state !== "removed" && !it.pair?.dropped);
  }

  /** Counts the events of calls, runs and tools that are not stored. */
  unsent(): Unsent {
    const items = this.unstored().filter((it) => it.ev.kind !== "hook");
    return {
      exchanges: new Set(items.map((it) => it.pair).filter((p) => p)).size,
      steps: items.filter((it) => !it.pair).length,
    };
  }

  /** Waits until all events pushed before are stored or dropped. Returns false after timeout milliseconds. Keeps the process alive. */
  flush(timeout: number): Promise<boolean> {
    if (this.#settled(this.#seq)) return Promise.resolve(true);
    return new Promise((resolve) => {
      const waiter: Waiter = {
        seq: this.#seq,
        done: () => {
          clearTimeout(timer);
          resolve(true);
        },
      };
      const timer = setTimeout(() => {
        this.#waiters = this.#waiters.filter((w) => w !== waiter);
        resolve(false);
      }, timeout);
      this.#waiters.push(waiter);
      this.wake();
    });
  }

  #notify(): void {
    if (this.#waiters.length === 0) return;
    const done = this.#waiters.filter((w) => this.#settled(w.seq));
    this.#waiters = this.#waiters.filter((w) => !done.includes(w));
    for (const w of done) w.done();
  }

  #settled(seq: number): boolean {
    if (this.#inFlight.length > 0) return this.#inFlight[0].ev.seq > seq;
    let it = this.#queued.peek();
    while (it && it.state === "removed") {
      this.#queued.shift();
      it = this.#queued.peek();
    }
    return !it || it.ev.seq > seq;
  }
}

/** A queue of items without the cost of Array.shift. */
class Fifo {
  #items: (Item | undefined)[] = [];
  #first = 0;

  push(it: Item): void {
    this.#items.push(it);
  }

  peek(): Item | undefined {
    return this.#items[this.#first];
  }

  shift(): Item | undefined {
    const it = this.#items[this.#first];
    if (!it) return undefined;
    this.#items[this.#first++] = undefined;
    if (this.#first > 1024 && this.#first * 2 > this.#items.length) {
      this.#items.splice(0, this.#first);
      this.#first = 0;
    }
    return it;
  }

  unshift(items: Item[]): void {
    this.#items = [...items, ...this.#items.slice(this.#first)];
    this.#first = 0;
  }

  *[Symbol.iterator](): Iterator<Item> {
    for (let i = this.#first; i < this.#items.length; i++) yield this.#items[i]!;
  }
}
