// Server-sent events and JSON lines.

import { Frames } from "./frames";
import type { Table } from "./paths";
import { BAD } from "./text";

const MAX_FIELD = 256; // maximum length of a retained event name or comment
const MAX_TEXT = 4 << 10;

const BOM = "\xef\xbb\xbf";
const LINE_END = /\r\n|\r|\n/g;
const LIKE_JSON = /^[ \t\r\n]*[{[]/;
const BLANK = /^[\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*$/;

/** Whether b starts like an object or an array. */
export function looksLikeJSON(b: string): boolean {
  return LIKE_JSON.test(b);
}

/** Whether the first line of body belongs to an event stream. */
export function looksLikeSSE(body: string): boolean {
  if (body.startsWith(BOM)) body = body.slice(3);
  const start = body.replace(/^[\r\n]+/, "").slice(0, 16);
  return start.includes(":") && ["", "data", "event", "id", "retry"].includes(start.split(":")[0]);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function isBlank(b: string): boolean {
  if (/^[\t-\r ]*$/.test(b)) return true;
  if (/^[^\t-\r \x80-\xff]/.test(b)) return false;
  try {
    return BLANK.test(utf8.decode(Buffer.from(b, "latin1")));
  } catch {
    return false;
  }
}

/** The current event. */
interface Event {
  isError: boolean;
  lines: number; // number of stored data lines, which are not JSON one by one
  start: number; // start of these lines, joined by line feeds, in extra
}

/** Shapes lines. */
export class Events extends Frames {
  /** Shapes server-sent events. Line ends become line feeds. */
  sse(t: Table): void {
    const e: Event = { isError: false, lines: 0, start: 0 };
    const { body } = this;
    for (let at = 0; at < body.length && this.out.length <= this.limit; ) {
      LINE_END.lastIndex = at;
      const m = LINE_END.exec(body);
      const end = m ? m.index : body.length;
      let line = body.slice(at, end);
      if (at === 0 && line.startsWith(BOM)) line = line.slice(3);
      if (line) {
        this.#line(t, e, line, end);
      } else {
        this.#endEvent(t, e, false);
        this.out += "\n";
      }
      at = m ? end + m[0].length : body.length;
    }
    this.#endEvent(t, e, true);
  }

  /** Shapes one line, whose end is an index of the body. */
  #line(t: Table, e: Event, line: string, end: number): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (name === "data") {
      this.#data(t, e, value, end - value.length);
    } else if (name === "event") {
      e.isError = value === "error";
      this.#field("event: ", value);
    } else if (name === "retry") {
      this.#field("retry: ", value);
    } else if (name === "") {
      this.#field(": ", value);
    } else {
      this.out += `${name.length <= 8 ? name : "field"}: ${this.hashed(value)}\n`;
    }
  }

  #field(name: string, value: string): void {
    this.out += name + (value.length <= MAX_FIELD ? value : this.hashed(value)) + "\n";
  }

  /** Shapes a data line, or keeps it until the event ends if its JSON spans several lines. */
  #data(t: Table, e: Event, value: string, base: number): void {
    if (e.lines === 0 && isBlank(value)) {
      this.out += "data:\n";
      return;
    }
    if (e.lines === 0) {
      const mark = this.out.length;
      this.out += "data: ";
      if (this.events(t, value, base)) {
        this.out += "\n";
        return;
      }
      this.out = this.out.slice(0, mark);
      e.start = this.extra.length;
    } else {
      this.extra += "\n";
    }
    e.lines++;
    this.extra += value;
  }

  /** Shapes the kept data; last means that the body ends here, perhaps within the event. */
  #endEvent(t: Table, e: Event, last: boolean): void {
    const { lines, isError } = e;
    e.lines = 0;
    e.isError = false;
    if (lines === 0) return;
    const text = this.extra.slice(e.start);
    const mark = this.out.length;
    this.out += "data: ";
    if (lines === 1 || !this.events(t, text, this.body.length + e.start)) {
      if (isError && !looksLikeJSON(text)) {
        this.out += text.slice(0, MAX_TEXT).replace(/\n/g, " ");
      } else if (last && looksLikeJSON(text)) {
        this.out = this.out.slice(0, mark);
        return;
      } else {
        this.out += this.badEvent(text);
      }
    }
    this.out += "\n";
  }

  /** Shapes a response that consists of JSON lines. Otherwise returns false. */
  lines(t: Table): boolean {
    if (this.over()) return false;
    const { body } = this;
    let some = false;
    for (let at = 0; at < body.length && this.out.length <= this.limit; ) {
      let n = body.indexOf("\n", at);
      const last = n < 0;
      if (last) n = body.length;
      const line = body.slice(at, n);
      if (!isBlank(line)) {
        if (this.events(t, line, at)) {
          this.out += "\n";
          some = true;
        } else if (!some) {
          return false;
        } else if (!(last && looksLikeJSON(line))) {
          this.out += this.hashed(line) + BAD + "\n";
        }
      }
      at = n + 1;
    }
    return some;
  }
}
