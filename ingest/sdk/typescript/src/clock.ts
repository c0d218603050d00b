// Times and random ids.

import { randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";

/** The time since 1970 in milliseconds, with microseconds. Follows changes of the system's clock. */
export function now(): number {
  const precise = performance.timeOrigin + performance.now();
  const coarse = Date.now();
  return Math.abs(precise - coarse) < 1.5 ? precise : coarse;
}

/** A monotonic time in milliseconds. */
export function monotonic(): number {
  return performance.now();
}

const pool = Buffer.alloc(10 * 512);
let used = pool.length;

/** A new exchange id, a UUIDv7. */
export function uuid7(): string {
  if (used === pool.length) {
    randomBytes(pool.length).copy(pool);
    used = 0;
  }
  const b = Buffer.allocUnsafe(16);
  b.writeUIntBE(Date.now(), 0, 6);
  pool.copy(b, 6, used, used + 10);
  used += 10;
  b[6] = (b[6] & 0x0f) | 0x70;
  b[8] = (b[8] & 0x3f) | 0x80;
  const h = b.toString("hex");
  return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
}
