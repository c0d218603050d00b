// Texts of JSON strings, and their hashes. Texts are latin1 strings: one character per byte.

import { createHmac } from "node:crypto";

import { truncate } from "../redact";

// Suffixes for texts that should be one JSON value but are not.
export const BAD = ":bad";
export const MULTI = ":multi";

const MAX_KNOWN = 40; // bytes of texts with cached hashes: keys and words of schemas recur
const MAX_KNOWN_TEXTS = 1 << 12;
const MAX_TEXT = 4 << 10; // maximum length of the retained text of an error

const ESCAPE = /\\(?:(["\\/bfnrt])|u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4}))/g;
const ESCAPE_AT = new RegExp(ESCAPE.source, "y");
const ANY_ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?/g;
const CONTROL = /[\x00-\x1f]/;
const PLAIN: Record<string, string> = { '"': '"', "\\": "\\", "/": "/", n: "\n", t: "\t", r: "\r", b: "\b", f: "\f" };
const LONE = Buffer.from("\ufffd").toString("latin1");

/** Keyed hashes of texts. */
export class Hasher {
  #known = new Map<string, string>();

  constructor(private readonly key: Buffer) {}

  /** 16 hex digits of the HMAC of a text. */
  digest(text: string): string {
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    const h = createHmac("sha256", this.key).update(text, "latin1").digest("hex").slice(0, 16);
    if (text.length <= MAX_KNOWN) {
      if (this.#known.size >= MAX_KNOWN_TEXTS) this.#known.clear();
      this.#known.set(text, h);
    }
    return h;
  }

  /** ~<bytes>:<hash>. */
  hashed(text: string): string {
    return `~${text.length}:${this.digest(text)}`;
  }
}

/** The index of the closing quote of the string whose text begins at start, or -1. */
export function stringEnd(b: string, start: number): number {
  let i = b.indexOf('"', start);
  while (i > start && b.charCodeAt(i - 1) === 0x5c) {
    let j = i - 1;
    while (j > start && b.charCodeAt(j - 1) === 0x5c) j--;
    if (((i - j) & 1) === 0) break;
    i = b.indexOf('"', i + 1);
  }
  return i;
}

/** Decodes the content of a string. A lone surrogate becomes U+FFFD; invalid escapes are copied unchanged. */
export function decode(raw: string): string {
  return raw.includes("\\") ? raw.replace(ESCAPE, unescape) : raw;
}

function unescape(_: string, letter?: string, high?: string, low?: string, code?: string): string {
  if (letter) return PLAIN[letter];
  let r = parseInt(code ?? high!, 16);
  if (high) r = 0x10000 + ((r & 0x3ff) << 10) + (parseInt(low!, 16) & 0x3ff);
  else if (r >= 0xd800 && r <= 0xdfff) return LONE;
  return r < 0x80 ? String.fromCharCode(r) : Buffer.from(String.fromCodePoint(r)).toString("latin1");
}

/** The text and the end of the string that starts after a quote. The end is -1 if the string is invalid. */
export function strictString(b: string, i: number): [text: string, end: number] {
  const end = stringEnd(b, i);
  if (end < 0) return ["", -1];
  const raw = b.slice(i, end);
  if (CONTROL.test(raw)) return ["", -1];
  if (!raw.includes("\\")) return [raw, end + 1];
  for (const [escape] of raw.matchAll(ANY_ESCAPE)) {
    if (escape.length === 1) return ["", -1];
  }
  return [decode(raw), end + 1];
}

/** The first bytes of the content of a string, not ending inside a character or a word. */
export function clip(raw: string): string {
  if (raw.length <= MAX_TEXT) return raw;
  for (let i = 0; ; ) {
    const n = width(raw, i);
    if (i + n > MAX_TEXT) return truncate(raw, i);
    i += n;
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function width(raw: string, i: number): number {
  const c = raw.charCodeAt(i);
  if (c === 0x5c) {
    ESCAPE_AT.lastIndex = i;
    return ESCAPE_AT.exec(raw)?.[0].length ?? 1;
  }
  if (c < 0x80) return 1;
  for (const n of [2, 3, 4]) {
    try {
      utf8.decode(Buffer.from(raw.slice(i, i + n), "latin1"));
      return n;
    } catch {
      continue;
    }
  }
  return 1;
}
