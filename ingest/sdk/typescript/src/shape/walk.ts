// Parses and shapes one JSON value in one pass. Detects invalid JSON but does not validate strings.

import { masked } from "../redact";
import { Arguments, isNumber, space } from "./arguments";
import type { Join, Node } from "./paths";
import { clip, decode, stringEnd } from "./text";

const MAX_KEY = 64; // maximum length of a retained key
const MAX_FRAGMENTS = 1 << 18; // maximum number of stored fragments; further ones are shaped one by one

const SCALAR = /[0-9a-z\-+.E]*/y;

/** The values of an element that identify its tool call. */
export class CallHead {
  id = "";
  index = "";
  named = false;
}

/** A fragment that is not assigned to a text before the end of its event, or an element without a fragment. */
export class Pending {
  args: boolean;
  part = ""; // values that identify the part of a run
  key = ""; // the other values
  head = new CallHead();

  constructor(
    readonly join: Join,
    readonly gap: boolean,
    readonly out = 0,
    readonly start = 0,
    readonly end = 0,
  ) {
    this.args = join.arguments;
  }
}

/** Parses JSON. */
export class Walker extends Arguments {
  b = ""; // the current text, at offset base of the body
  i = 0;
  base = 0;
  inEvent = false;
  // Only in a stream: the values for joins, from the current event and its elements.
  slots: string[] = [];
  head = new CallHead(); // head of the current tool call
  pending: Pending[] = []; // fragments of the current data; discarded if the data is invalid JSON
  fragments = 0; // stored fragments

  /** Stops parsing, because the text is invalid JSON or its shape is too long. */
  fail(): void {
    this.broken = true;
    this.i = this.b.length;
  }

  /** Skips white space. */
  skip(): void {
    this.i = space(this.b, this.i);
  }

  /** Whether the text was parsed to its end. */
  atEnd(): boolean {
    this.skip();
    return !this.broken && this.i === this.b.length;
  }

  /** Shapes the current value, which is at position n of the body. */
  value(n: Node | undefined): void {
    if (this.i >= this.b.length || this.over()) {
      this.fail();
      return;
    }
    if (!n) {
      this.#free(false);
      return;
    }
    const c = this.b[this.i];
    if (n.below) {
      this.#free(true);
    } else if (n.arguments && c !== '"') {
      const end = this.argumentsValue(this.b, this.i);
      if (end < 0) this.fail();
      else this.i = end;
    } else if (c === "{" && n.kids) {
      this.#object(n.kids);
    } else if (c === "[" && n.elem) {
      this.array(n.elem);
    } else if (c === "{" || c === "[") {
      this.#free(false);
    } else if (c === '"') {
      this.#string(n);
    } else {
      const start = this.i;
      this.#scalar(n.keep);
      if (n.noted) this.#note(n, this.b.slice(start, this.i));
    }
  }

  #object(kids: Map<string, Node>): void {
    this.out += "{";
    this.i = space(this.b, this.i + 1);
    while (this.i < this.b.length && this.b[this.i] !== "}") {
      const raw = this.#rawString();
      const name = decode(raw);
      this.out += name.length > MAX_KEY ? `"k${this.digest(name)}"` : `"${raw}"`;
      this.#colon();
      this.value(kids.get(name));
      if (!this.#comma("}")) break;
    }
    this.#closing("}");
  }

  /** Shapes an array whose elements have positions. */
  array(elem: Node): void {
    this.out += "[";
    this.i++;
    this.skip();
    while (this.i < this.b.length && this.b[this.i] !== "]") {
      this.element(elem);
      if (!this.#comma("]")) break;
    }
    this.#closing("]");
  }

  /** Shapes an element of an array and, in a stream, identifies its fragments. */
  element(n: Node): void {
    if (!n.marked) {
      this.value(n);
      return;
    }
    const first = this.#enter(n);
    this.value(n);
    this.#leave(n, first);
  }

  #colon(): void {
    const i = space(this.b, this.i);
    if (this.b[i] !== ":") {
      this.fail();
      return;
    }
    this.out += ":";
    this.i = space(this.b, i + 1);
  }

  /** Skips the comma after an element. Returns true if another element follows. */
  #comma(end: string): boolean {
    this.skip();
    if (this.b[this.i] !== ",") return false;
    this.i = space(this.b, this.i + 1);
    if (this.i >= this.b.length || this.b[this.i] === end) {
      this.fail();
      return false;
    }
    this.out += ",";
    return true;
  }

  #closing(end: string): void {
    if (this.b[this.i] !== end) {
      this.fail();
      return;
    }
    this.out += end;
    this.i++;
  }

  /** Skips the current string and returns its content. */
  #rawString(): string {
    const i = this.i;
    const end = this.b[i] === '"' ? stringEnd(this.b, i + 1) : -1;
    if (end < 0) {
      this.fail();
      return "";
    }
    this.i = end + 1;
    return this.b.slice(i + 1, end);
  }

  /** Shapes a string at a protocol position. */
  #string(n: Node): void {
    const start = this.base + this.i + 1;
    const raw = this.#rawString();
    if (this.broken) return;
    if (n.noted) this.#note(n, raw);
    if (n.join && this.inEvent && this.#room()) {
      this.out += '""';
      this.pending.push(new Pending(n.join, false, this.out.length - 1, start, start + raw.length));
    } else if (n.keep) {
      this.out += `"${raw}"`;
    } else if (n.text) {
      this.out += `"${masked(clip(raw))}"`;
    } else if (n.arguments) {
      const shape = raw || !this.inEvent ? this.arguments(raw) : "";
      this.out += `"${shape}"`;
    } else {
      this.#freeString(raw);
    }
  }

  #freeString(raw: string): void {
    this.out += raw || !this.inEvent ? `"${this.hashed(decode(raw))}"` : '""';
  }

  /** Skips a number or literal. A number becomes 0 unless keep is true. */
  #scalar(keep: boolean): void {
    SCALAR.lastIndex = this.i;
    const raw = SCALAR.exec(this.b)![0];
    this.i += raw.length;
    if (raw === "true" || raw === "false" || raw === "null") this.out += raw;
    else if (isNumber(raw)) this.out += keep ? raw : "0";
    else this.fail();
  }

  /** Shapes a value of free content, or copies it if keep is true. Not recursive: each level uses one character of a stack. */
  #free(keep: boolean): void {
    const b = this.b;
    const n = b.length;
    const stack: string[] = []; // closing brackets
    let want: "value" | "value or end" | "key" | "key or end" | "more" = "value";
    let i = this.i;
    for (;;) {
      i = space(b, i);
      if (i >= n || this.over()) break;
      const c = b[i];
      if (want === "more") {
        const close = stack[stack.length - 1];
        if (c === ",") want = close === "}" ? "key" : "value";
        else if (c === close) stack.pop();
        else break;
        this.out += c;
        i++;
      } else if ((c === "}" && want === "key or end") || (c === "]" && want === "value or end")) {
        stack.pop();
        this.out += c;
        i++;
        want = "more";
      } else if (want === "key" || want === "key or end") {
        const end = c === '"' ? stringEnd(b, i + 1) : -1;
        const raw = end < 0 ? "" : b.slice(i + 1, end);
        this.out += keep && raw.length <= MAX_KEY ? `"${raw}"` : `"k${this.digest(decode(raw))}"`;
        i = space(b, end + 1);
        if (end < 0 || b[i] !== ":") break;
        this.out += ":";
        i++;
        want = "value";
        continue;
      } else if (c === "{" || c === "[") {
        want = c === "{" ? "key or end" : "value or end";
        stack.push(c === "{" ? "}" : "]");
        this.out += c;
        i++;
        continue;
      } else if (c === '"') {
        const end = stringEnd(b, i + 1);
        const raw = end < 0 ? "" : b.slice(i + 1, end);
        if (keep) this.out += `"${raw}"`;
        else this.#freeString(raw);
        if (end < 0) break;
        i = end + 1;
        want = "more";
      } else {
        this.i = i;
        this.#scalar(keep);
        if (this.broken) return;
        i = this.i;
        want = "more";
      }
      if (stack.length === 0 && want === "more") {
        this.i = i;
        return;
      }
    }
    this.fail();
  }

  // Identification of fragments in a stream.

  /** Whether one more fragment can be stored. */
  #room(): boolean {
    return this.fragments + this.pending.length < MAX_FRAGMENTS;
  }

  /** Stores a value that identifies fragments of a stream. */
  #note(n: Node, raw: string): void {
    if (!this.inEvent) return;
    if (n.slot >= 0) this.slots[n.slot] = raw === "0" || raw === "false" || raw === "null" ? "" : raw;
    if (!raw || raw === "null") return;
    if (n.head === "id") this.head.id = raw;
    else if (n.head === "name") this.head.named = true;
    else if (n.head === "index") this.head.index = raw;
  }

  /** Begins an event, or an element of an event; #leave ends it. */
  #enter(n: Node): number {
    for (const slot of n.own) this.slots[slot] = "";
    if (n.calls) this.head = new CallHead();
    return this.pending.length;
  }

  /** Adds the values of n to the pending fragments with index first or higher. */
  #leave(n: Node, first: number): void {
    for (const j of [n.run, n.calls]) {
      if (j && !this.pending.slice(first).some((p) => p.join === j) && this.#room()) this.pending.push(new Pending(j, true));
    }
    for (const p of this.pending.slice(first)) {
      const j = p.join;
      for (const slot of j.slots) {
        if (n.own.includes(slot)) p.key += `${slot}:${this.slots[slot].length}:${this.slots[slot]},`;
      }
      if (j.argsSlot >= 0 && n.own.includes(j.argsSlot) && j.argsIf.includes(this.slots[j.argsSlot])) p.args = true;
      if (n.run === j) {
        p.part = "=" + p.key;
        p.key = "";
      }
      if (n.calls === j) p.head = this.head;
    }
  }
}
