// Bounded storage for the bytes of one body.

import type { Queue } from "./queue";

export const MAX_BODY = 16 << 20; // longer bodies are stubbed
const STUB_HALF = 256 << 10; // bytes at the start and at the end of a stubbed body
export const MAX_ERROR = 4 << 10; // bytes of an error response if bodies are not captured
export const ERROR_READ = MAX_ERROR + 1; // bytes read of it: one more, to detect that the limit splits a word
const MIN_GROW = 4 << 10;

/** Stores copies of the bytes of one body. It reserves memory in the queue first. */
export class Capture {
  want = -1; // length of the body, if known
  lost = false; // the body was dropped because memory ran out
  #buffer: Buffer | undefined;
  #size = 0;
  #tail: Buffer | undefined; // last bytes of a stubbed body, up to #tailSize
  #tailSize = 0;
  #reserved = 0;

  /** limit is the maximum number of bytes to store; if it is not positive, none are stored. */
  constructor(
    private readonly queue: Queue,
    public limit: number,
  ) {}

  /** Whether the body is stubbed. */
  get cut(): boolean {
    return this.#tail !== undefined;
  }

  /** Number of stored bytes. */
  get size(): number {
    return this.#size;
  }

  /** Stores a copy of p, the next bytes of the body. */
  write(p: Uint8Array): void {
    if (this.limit <= 0 || this.lost || p.length === 0) return;
    if (this.#tail) {
      this.#writeTail(p);
    } else if (this.#size + p.length <= this.limit) {
      this.#add(p);
    } else if (this.limit < MAX_BODY) {
      this.#add(p.subarray(0, this.limit - this.#size));
    } else {
      this.#stub(p);
    }
  }

  #add(p: Uint8Array): void {
    const need = this.#size + p.length;
    if (need > this.#reserved) {
      let room = Math.min(Math.max(need, 2 * this.#reserved, MIN_GROW), this.limit);
      const known = Math.min(this.want, this.limit);
      if (known >= need) room = known;
      if (!this.#reserve(room)) return;
      const grown = Buffer.allocUnsafeSlow(room);
      this.#buffer?.copy(grown, 0, 0, this.#size);
      this.#buffer = grown;
    }
    this.#buffer!.set(p, this.#size);
    this.#size = need;
  }

  #stub(p: Uint8Array): void {
    const body = Buffer.concat([this.#buffer?.subarray(0, this.#size) ?? Buffer.alloc(0), p]);
    if (!this.#reserve(Math.max(this.#reserved, 3 * STUB_HALF))) return;
    this.#buffer = Buffer.from(body.subarray(0, STUB_HALF));
    this.#size = STUB_HALF;
    this.#tail = Buffer.allocUnsafeSlow(2 * STUB_HALF);
    this.#writeTail(body.subarray(STUB_HALF));
    this.#reserve(3 * STUB_HALF);
  }

  #writeTail(p: Uint8Array): void {
    const tail = this.#tail!;
    p = p.subarray(Math.max(0, p.length - STUB_HALF));
    if (this.#tailSize + p.length > tail.length) {
      const keep = STUB_HALF - p.length;
      tail.copyWithin(0, this.#tailSize - keep, this.#tailSize);
      this.#tailSize = keep;
    }
    tail.set(p, this.#tailSize);
    this.#tailSize += p.length;
  }

  /** Changes the reservation to n bytes. If the queue has no room, drops the body and returns false. */
  #reserve(n: number): boolean {
    if (!this.queue.reserve(n - this.#reserved)) {
      this.queue.reserve(-this.#reserved);
      this.#buffer = this.#tail = undefined;
      this.#size = this.#reserved = 0;
      this.lost = true;
      return false;
    }
    this.#reserved = n;
    return true;
  }

  /** Returns the body and passes its reservation to the caller. */
  take(): [body: Buffer | undefined, reserved: number] {
    let body = this.#buffer?.subarray(0, this.#size);
    const reserved = this.#reserved;
    if (body && this.#tail) {
      body = Buffer.concat([body, this.#tail.subarray(Math.max(0, this.#tailSize - STUB_HALF), this.#tailSize)]);
    }
    this.#buffer = this.#tail = undefined;
    this.#reserved = 0;
    return [body, reserved];
  }
}
