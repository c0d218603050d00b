// Finds the end of a stream of events that arrives in chunks of any size. Chunks are latin1 strings, one character per byte.

import { LAST_DATA, LAST_EVENTS, LAST_MEMBERS } from "./wire";

const quote = (words: readonly string[]): string => words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
const LINES = `data: ?(?:${quote(LAST_DATA)})|event: ?(?:${quote(LAST_EVENTS)})`;
const PREFIXES = `data: ?\\{"type":"(?:${quote(LAST_EVENTS)})"`;
const TERMINAL_LINE = new RegExp(`^(?:(?:${LINES})\\r?|${PREFIXES}[^]*)$`);
const TERMINAL = new RegExp(`(?<=^|\\n)(?:(?:${LINES})\\r?|${PREFIXES}[^\\n]*)\\n`, "g");
const BLANK = /(?<=^|\n)\r?\n/g;

const MAX_HEAD = 48; // characters of a line to compare, more than any terminal line has
const MAX_LINE = 16 << 10; // bytes of a JSON line to parse; the last line is short, because it contains no text

/** The end of one kind of stream. */
export interface Ending {
  /** The number of characters of p up to the end of the terminal event, or -1 if that event is not complete yet. */
  feed(p: string): number;
  /** Whether the terminal event has arrived, possibly without its final line end. */
  near(): boolean;
}

/** The ending for a content type; undefined if bodies of that type are not streams. */
export function endingOf(contentType: string): Ending | undefined {
  switch (contentType.split(";")[0].trim().toLowerCase()) {
    case "text/event-stream":
      return new Terminal();
    case "application/x-ndjson":
    case "application/ndjson":
    case "application/jsonl":
      return new LastLine();
  }
  return undefined;
}

/** Server-sent events end with the blank line after LAST_DATA or one of LAST_EVENTS. */
class Terminal implements Ending {
  #line = ""; // first characters of the current line
  #long = false; // the line is longer than #line
  #seen = false; // the current event is terminal

  near(): boolean {
    return this.#seen;
  }

  feed(p: string): number {
    let at = p.indexOf("\n");
    if (at < 0) {
      this.#add(p);
      return -1;
    }
    this.#add(p.slice(0, at));
    at++;
    if (this.#endLine()) return at;
    if (!this.#seen) {
      TERMINAL.lastIndex = at;
      if (TERMINAL.test(p)) {
        this.#seen = true;
        at = TERMINAL.lastIndex;
      }
    }
    if (this.#seen) {
      BLANK.lastIndex = at;
      if (BLANK.test(p)) return BLANK.lastIndex;
    }
    this.#add(p.slice(p.lastIndexOf("\n") + 1));
    return -1;
  }

  #add(p: string): void {
    const room = MAX_HEAD - this.#line.length;
    this.#line += p.slice(0, room);
    this.#long ||= p.length > room;
  }

  /** Evaluates the line and begins the next one. Returns true if the line ended a terminal event. */
  #endLine(): boolean {
    const line = this.#line;
    const long = this.#long;
    this.#line = "";
    this.#long = false;
    if (!long && (line === "" || line === "\r")) return this.#seen;
    this.#seen ||= TERMINAL_LINE.test(line) && (!long || !line.startsWith("event:"));
    return false;
  }
}

/** JSON lines, as Ollama sends them, end with the line in whose object one of LAST_MEMBERS is true. */
class LastLine implements Ending {
  #line = "";
  #long = false;

  near(): boolean {
    if (this.#long || !this.#line.includes("true")) return false; // avoids parsing nearly every line
    try {
      const value: unknown = JSON.parse(this.#line);
      return typeof value === "object" && value !== null && LAST_MEMBERS.some((m) => (value as Record<string, unknown>)[m] === true);
    } catch {
      return false;
    }
  }

  feed(p: string): number {
    for (let at = 0; ; ) {
      const end = p.indexOf("\n", at);
      if (end < 0) {
        this.#add(p.slice(at));
        return -1;
      }
      this.#add(p.slice(at, end));
      at = end + 1;
      const done = this.near();
      this.#line = "";
      this.#long = false;
      if (done) return at;
    }
  }

  #add(p: string): void {
    this.#long ||= this.#line.length + p.length > MAX_LINE;
    if (!this.#long) this.#line += p;
  }
}
