// AWS event streams. A frame is a prelude with a checksum, headers, a payload and a checksum.

import type { Table } from "./paths";
import { Streamer } from "./stream";

const PRELUDE = 12; // length of the frame, length of the headers, CRC-32 of both
const MIN_FRAME = PRELUDE + 4;
const STRING = 7; // type of a header value
const MAX_HEADER = 4 << 10; // maximum length of the value of a retained header

const KEPT = new Set([":event-type", ":message-type", ":exception-type", ":content-type", ":error-code", ":error-message"]);
const SIZES: Record<number, number> = { 0: 1, 1: 1, 2: 2, 3: 3, 4: 5, 5: 9, 8: 9, 9: 17 }; // of a value and its type, by type

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});

function crc32(b: string): number {
  let c = 0xffffffff;
  for (let i = 0; i < b.length; i++) c = CRC[(c ^ b.charCodeAt(i)) & 0xff] ^ (c >>> 8);
  return ~c >>> 0;
}

function uint(b: string, at: number): number {
  return ((b.charCodeAt(at) << 24) | (b.charCodeAt(at + 1) << 16) | (b.charCodeAt(at + 2) << 8) | b.charCodeAt(at + 3)) >>> 0;
}

function encode(n: number): string {
  return String.fromCharCode((n >>> 24) & 0xff, (n >>> 16) & 0xff, (n >>> 8) & 0xff, n & 0xff);
}

/** Whether the prelude of a frame begins at index at. */
export function isFrame(b: string, at = 0): boolean {
  if (b.length - at < PRELUDE) return false;
  const size = uint(b, at);
  return crc32(b.slice(at, at + 8)) === uint(b, at + 8) && size >= MIN_FRAME && uint(b, at + 4) <= size - MIN_FRAME;
}

/** Shapes frames. */
export class Frames extends Streamer {
  /** Shapes the complete frames of a stream. reframed encodes the result as frames. */
  frames(t: Table): void {
    const { body } = this;
    let at = 0;
    while (isFrame(body, at) && this.out.length <= this.limit) {
      const size = uint(body, at);
      if (size > body.length - at) break;
      const f = body.slice(at, at + size);
      if (crc32(f.slice(0, -4)) !== uint(f, size - 4)) break;
      const payload = PRELUDE + uint(f, 4);
      this.out += keptHeaders(f.slice(PRELUDE, payload));
      const headersEnd = this.out.length;
      const text = f.slice(payload, -4);
      if (text && !this.events(t, text, at + payload)) this.out += this.badEvent(text);
      this.framed.push([headersEnd, this.out.length]);
      at += size;
    }
    if (this.framed.length === 0) this.out = this.badEvent(body);
  }

  override reframed(): string {
    const pieces: string[] = [];
    let start = 0;
    for (const [headersEnd, end] of this.framed) {
      const headers = this.out.slice(start, headersEnd);
      const inside = headers + this.patched(headersEnd, end);
      start = end;
      const head = encode(inside.length + MIN_FRAME) + encode(headers.length);
      const frame = head + encode(crc32(head)) + inside;
      pieces.push(frame, encode(crc32(frame)));
    }
    return pieces.join("");
  }
}

/** The headers to retain. */
function keptHeaders(h: string): string {
  let kept = "";
  while (h) {
    const n = 1 + h.charCodeAt(0);
    if (n >= h.length) break;
    const size = valueSize(h, n);
    if (size < 0) break;
    if (KEPT.has(h.slice(1, n)) && h.charCodeAt(n) === STRING && size - 3 <= MAX_HEADER) kept += h.slice(0, n + size);
    h = h.slice(n + size);
  }
  return kept;
}

/** The length of a header value with its type, -1 if it is truncated or unknown. */
function valueSize(h: string, at: number): number {
  const type = h.charCodeAt(at);
  let size = SIZES[type] ?? -1;
  if ((type === 6 || type === STRING) && h.length - at >= 3) size = 3 + ((h.charCodeAt(at + 1) << 8) | h.charCodeAt(at + 2));
  return size <= h.length - at ? size : -1;
}
