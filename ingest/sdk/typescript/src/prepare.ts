// Converts an event to its published form: decoded, redacted, shaped. Runs in the background, once per event.

import { ERROR_READ, MAX_BODY, MAX_ERROR } from "./capture";
import type { Config } from "./config";
import { decodeSome, decodeSync, type Decoded } from "./decode";
import { endingOf } from "./endings";
import { UNREAD, type Event } from "./event";
import type { Item, Queue } from "./queue";
import { masked, truncate } from "./redact";
import type { ShapeJob } from "./shape/job";
import { ShapeWorker } from "./shape/worker";
import { Shaper } from "./shape/shaper";

// Memory for shaping a body of n bytes.
const SHAPE_MOST = 8; // times n: the maximum length of a shape, because "" becomes ~0: and a hash
const SHAPE_USUAL = 2; // times n: used when memory is short
const SHAPE_SCRATCH = 4; // times n: for decoded and joined texts
const SHAPE_MIN = 4 << 10; // minimum, for short bodies

const WORKER_BYTES = 32 << 10; // bodies of this length or longer are shaped in a worker thread

/** The body must not be published; the message has no content. */
class WithheldError extends Error {}

/** A body is invalid in its encoding, or no decoder is available. */
class DecodeError extends Error {}

/** Prepares events according to Config. */
export class Preparer {
  readonly #shaper: Shaper | undefined;
  readonly #worker: ShapeWorker | undefined;

  constructor(
    private readonly queue: Queue,
    private readonly config: Config,
  ) {
    if (config.capture === "shape") {
      this.#shaper = new Shaper(config.shapeKey);
      this.#worker = new ShapeWorker(config.shapeKey);
    }
  }

  /** Replaces the body of the event and accounts for its memory. */
  async prepare(it: Item): Promise<void> {
    const ev = it.ev;
    ev.labels.maskAttrs();
    const decoded = this.#needsDecoding(ev) ? await decodeSome(ev.contentEncoding, ev.body!, MAX_BODY + 1) : undefined;
    const job = this.#finish(it, decoded);
    if (!job) return;
    let shape: Buffer;
    try {
      shape = job.body.length >= WORKER_BYTES ? await this.#worker!.shape(job) : this.#shaper!.shape(job);
    } finally {
      this.queue.reserve(-reservation(job));
    }
    this.#replace(it, shape);
  }

  /** Like prepare, in one step, when the process exits. */
  prepareSync(it: Item): void {
    const ev = it.ev;
    ev.labels.maskAttrs();
    const decoded = this.#needsDecoding(ev) ? decodeSync(ev.contentEncoding, ev.body!, MAX_BODY + 1) : undefined;
    const job = this.#finish(it, decoded);
    if (!job) return;
    const shape = this.#shaper!.shape(job);
    this.queue.reserve(-reservation(job));
    this.#replace(it, shape);
  }

  /** Stops the worker. */
  close(): void {
    this.#worker?.close();
  }

  #needsDecoding(ev: Event): boolean {
    if (!ev.body?.length || !ev.contentEncoding) return false;
    return ev.error === UNREAD || this.#changes(ev);
  }

  /** Whether the published body differs from the captured one. */
  #changes(ev: Event): boolean {
    return this.config.redact !== undefined || this.#shaper !== undefined || isError(ev) || !readable(ev.contentEncoding);
  }

  /** Replaces the body of the event unless it must be shaped; then returns the job. */
  #finish(it: Item, decoded: Decoded | undefined): ShapeJob | undefined {
    const ev = it.ev;
    const incomplete = ev.error !== "";
    if (ev.error === UNREAD && isComplete(ev, decoded)) ev.error = "";
    if (!ev.body?.length) {
      if (!readable(ev.contentEncoding)) ev.contentEncoding = "";
      return undefined;
    }
    if (!this.#changes(ev)) return undefined;
    try {
      return this.#publishable(it, decoded, incomplete);
    } catch (e) {
      this.#withhold(ev, e);
      return undefined;
    }
  }

  #withhold(ev: Event, e: unknown): void {
    const known = e instanceof WithheldError || e instanceof DecodeError; // other texts may contain message content
    this.config.warn(`withholding a body: ${known ? (e as Error).message : e instanceof Error ? e.name : typeof e}`);
    ev.body = undefined;
    ev.capture = "none";
    if (!readable(ev.contentEncoding)) ev.contentEncoding = "";
  }

  #replace(it: Item, body: Buffer): void {
    if (!this.queue.resize(it, body.length)) {
      this.#withhold(it.ev, new WithheldError("no memory for the redacted body"));
      return;
    }
    it.ev.body = body;
    it.ev.contentEncoding = "";
  }

  #publishable(it: Item, decoded: Decoded | undefined, incomplete: boolean): ShapeJob | undefined {
    const ev = it.ev;
    let body: Buffer;
    try {
      body = decodedBody(ev, decoded, incomplete);
    } catch (e) {
      if (!this.#shaper) throw e;
      this.#replace(it, this.#shaper.opaque(ev.body!));
      return undefined;
    }
    if (this.config.redact) {
      const redacted: unknown = this.config.redact(Buffer.from(body));
      if (!(redacted instanceof Uint8Array)) throw new WithheldError("redact did not return bytes");
      body = Buffer.from(redacted.buffer, redacted.byteOffset, redacted.byteLength);
    }
    if (truncatesError(ev)) {
      const text = masked(truncate(body.toString("latin1"), MAX_ERROR)).slice(0, MAX_ERROR);
      this.#replace(it, Buffer.from(text, "latin1"));
    } else if (!this.#shaper) {
      this.#replace(it, isError(ev) ? Buffer.from(masked(body.toString("latin1")), "latin1") : body);
    } else {
      return this.#job(this.#shaper, it, body);
    }
    return undefined;
  }

  /** The job of shaping a body. Reserves the memory first; if there is not enough, publishes only the length and hash of the body. */
  #job(shaper: Shaper, it: Item, body: Buffer): ShapeJob | undefined {
    const n = body.length;
    const job: ShapeJob = { response: it.ev.kind === "response", dialect: it.pair?.dialect ?? "", body, limit: n * SHAPE_MOST + SHAPE_MIN };
    if (it.ev.capture !== "cut" && it.pair) {
      if (this.queue.reserveFree(reservation(job))) return job;
      job.limit = n * SHAPE_USUAL + SHAPE_MIN;
      if (this.queue.reserve(reservation(job))) return job;
    }
    this.#replace(it, shaper.opaque(body));
    return undefined;
  }
}

/** The memory that a job reserves. */
function reservation(job: ShapeJob): number {
  return job.limit + job.body.length * SHAPE_SCRATCH;
}

/** Whether readers of events support an encoding. */
function readable(encoding: string): boolean {
  return encoding !== "br" && encoding !== "deflate";
}

/** Whether ev is an error response, whose text is masked in every mode. */
function isError(ev: Event): boolean {
  return ev.kind === "response" && ev.status >= 400;
}

/** Whether only the first bytes of an error response are published. A compressed part could not be decompressed. */
function truncatesError(ev: Event): boolean {
  return isError(ev) && ev.capture !== "full" && ev.capture !== "cut";
}

/** The decoded body of ev. If the body is incomplete, the part that arrived. */
function decodedBody(ev: Event, decoded: Decoded | undefined, incomplete: boolean): Buffer {
  if (!decoded) return ev.body!;
  const { text, error } = decoded;
  if (truncatesError(ev)) {
    const start = text.subarray(0, ERROR_READ);
    return error && start.length > 0 ? Buffer.from(truncate(start.toString("latin1"), start.length - 1), "latin1") : start;
  }
  if (error && !(incomplete && ev.contentEncoding !== "zstd")) throw new DecodeError(`decode ${ev.contentEncoding} body: ${error}`);
  if (text.length > MAX_BODY) throw new DecodeError(`decode ${ev.contentEncoding} body: longer than ${MAX_BODY} bytes`);
  return text;
}

/** Whether the agent has read all of a response although it closed the body before its end. A client that decodes JSON stops at the
 * last brace; a client that decompresses a stream itself stops at the terminal event. */
function isComplete(ev: Event, decoded: Decoded | undefined): boolean {
  const body = decoded?.text ?? ev.body ?? Buffer.alloc(0);
  const ending = endingOf(ev.contentType);
  if (ending) return ending.feed(body.toString("latin1")) >= 0 || ending.near();
  try {
    JSON.parse(body.toString());
    return true;
  } catch {
    return false;
  }
}
