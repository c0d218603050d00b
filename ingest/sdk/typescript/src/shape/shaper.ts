// Removes content from bodies but retains the values of the message protocol (capture mode "shape"). Package ingest/sdk/go/shape is the
// reference: the results for the same body are identical. shape_paths.json has the protocol positions of each dialect.

import type { ShapeJob } from "./job";
import { isFrame } from "./frames";
import { tableOf, type Table } from "./paths";
import { Events, looksLikeJSON, looksLikeSSE } from "./sse";
import { BAD } from "./text";

/** Shapes bodies with hashes of one key. */
export class Shaper extends Events {
  /** The shape of a decoded body; a shape longer than the limit becomes opaque. */
  shape({ response, dialect, body, limit }: ShapeJob): Buffer {
    const text = latin1(body);
    const t = tableOf(dialect);
    const shape = t ? (response ? this.#response(t, text, limit) : this.#request(t, text, limit)) : this.hashed(text);
    return Buffer.from(shape, "latin1");
  }

  /** The shape of an unknown body: ~<bytes>:<hash>. */
  opaque(body: Uint8Array): Buffer {
    return Buffer.from(this.hashed(latin1(body)), "latin1");
  }

  #request(t: Table, body: string, limit: number): string {
    if (!looksLikeJSON(body)) return this.hashed(body);
    this.#begin(body, limit, 0);
    this.skip();
    this.value(t.request);
    return this.atEnd() ? this.#result(body) : this.#bad(body);
  }

  /** The shape of a response: one JSON value, or a stream in any framing. */
  #response(t: Table, body: string, limit: number): string {
    this.#begin(body, limit, t.slots);
    if (looksLikeJSON(body)) {
      if (!this.#unary(t) && !this.lines(t)) return this.#bad(body);
    } else if (looksLikeSSE(body)) {
      this.sse(t);
    } else if (isFrame(body)) {
      this.frames(t);
    } else {
      return this.hashed(body);
    }
    this.finish();
    return this.out ? this.#result(body) : this.#bad(body); // nothing is left of a single truncated event
  }

  /** The shape of a body that begins like JSON but is invalid. */
  #bad(body: string): string {
    const long = this.over();
    this.#begin("", 0, 0);
    return this.hashed(body) + (long ? "" : BAD);
  }

  #result(body: string): string {
    const result = this.over() ? this.hashed(body) : this.out;
    this.#begin("", 0, 0);
    return result;
  }

  #begin(body: string, limit: number, slots: number): void {
    this.body = this.b = body;
    this.i = this.base = 0;
    this.broken = this.long = this.inEvent = false;
    this.out = this.extra = "";
    this.limit = limit;
    this.forget(slots);
  }

  /** Shapes a response that is one JSON value. Otherwise returns false and writes nothing. */
  #unary(t: Table): boolean {
    this.skip();
    if (this.b[this.i] === "[") return this.events(t, this.b, 0); // Gemini's stream as a JSON array
    this.value(t.response);
    if (this.atEnd()) return true;
    if (!this.over()) this.out = "";
    return false;
  }
}

function latin1(body: Uint8Array): string {
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("latin1");
}
