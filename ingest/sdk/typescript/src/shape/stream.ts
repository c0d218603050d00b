// Streams: collects the fragments of each text and replaces the first fragment with the shape of the text.

import type { Join, Table } from "./paths";
import { BAD, decode } from "./text";
import { CallHead, Walker, type Pending } from "./walk";

// Bounds on the memory of fragments.
const MAX_GROUPS = 1 << 14;
const MAX_CALLS = 1 << 10; // maximum number of calls of a choice; each fragment is compared with all of them

const GAP = "gap";

/** A text that consists of fragments. */
class Group {
  fragments: [start: number, end: number][] = []; // in the body
  place = -1; // position of the shape in out
  empty = true; // whether the fragment at place is empty
  // If it is a tool call:
  head = new CallHead();
  prev: Group | undefined; // previous call
  end = ""; // last byte of its fragments
  args: boolean;
  readonly join: Join;

  constructor(p: Pending) {
    this.join = p.join;
    this.args = p.args;
    Object.assign(this.head, p.head);
  }
}

/** Shapes events. */
export class Streamer extends Walker {
  body = "";
  extra = ""; // joined parts of body; offsets from body.length on are in extra
  framed: [headersEnd: number, end: number][] = []; // of each frame in out
  #groups: Group[] = [];
  #byKey = new Map<string, Group>();
  #lastCall = new Map<string, Group>(); // by key of the choice
  #runs = new Map<string, { part: string; n: number }>(); // by message: the latest part and the number of parts
  #patches: { at: number; text: string }[] = [];

  /** Begins a body. */
  forget(slots: number): void {
    this.slots = new Array<string>(slots).fill("");
    this.head = new CallHead();
    this.pending = [];
    this.fragments = 0;
    this.#groups = [];
    this.#byKey.clear();
    this.#lastCall.clear();
    this.#runs.clear();
    this.#patches = [];
    this.framed = [];
  }

  /** Shapes a text of events that begins at offset base of the body. If it has none, returns false and writes nothing. */
  events(t: Table, text: string, base: number): boolean {
    const mark = this.out.length;
    this.b = text;
    this.i = 0;
    this.base = base;
    this.broken = false;
    this.inEvent = true;
    this.pending = [];
    this.skip();
    while (this.i < this.b.length) {
      if (this.out.length > mark) this.out += " "; // the server omitted the line end between events
      const c = this.b[this.i];
      if (c === "{") {
        this.element(t.event);
      } else if (this.b.startsWith("[DONE]", this.i)) {
        this.out += "[DONE]";
        this.i = this.b.length;
      } else if (c === "[") {
        this.array(t.event);
      } else {
        this.fail();
      }
      this.skip();
    }
    if (this.broken || this.out.length === mark) {
      if (!this.over()) this.out = this.out.slice(0, mark);
      return false;
    }
    for (const p of this.pending) this.#settle(p);
    this.pending = [];
    return true;
  }

  /** Adds a fragment to its group. */
  #settle(p: Pending): void {
    let key = `${p.join.salt} ${p.key}`;
    if (p.join.run) {
      const part = p.gap ? GAP : p.part;
      const before = this.#runs.get(key);
      let latest = before;
      if (!latest || latest.part !== part) {
        latest = { part, n: (latest?.n ?? 0) + 1 };
        if (before || this.#runs.size < MAX_GROUPS) this.#runs.set(key, latest);
      }
      key = `${key} ${latest.n} ${latest.part}`;
    }
    let group: Group | undefined;
    if (p.join.calls) {
      group = this.#call(key, p);
    } else if (p.gap) {
      return;
    } else {
      group = this.#byKey.get(key) ?? this.#newGroup(p);
      if (group) this.#byKey.set(key, group);
    }
    if (p.gap) return;
    if (group) this.#add(group, p);
    else this.#patch(p.join, p.args, p.out, this.#raw(p.start, p.end)); // too many groups, so the fragment is shaped alone
  }

  /** A new group; undefined if there are too many. */
  #newGroup(p: Pending): Group | undefined {
    if (this.#groups.length === MAX_GROUPS) return undefined;
    const g = new Group(p);
    this.#groups.push(g);
    return g;
  }

  #add(g: Group, p: Pending): void {
    if (g.empty) {
      g.place = p.out;
      g.empty = p.start === p.end; // the first fragment that is not empty
    }
    g.fragments.push([p.start, p.end]);
    g.args ||= p.args; // the first fragment may be a name without arguments
    this.fragments++;
    if (p.end > p.start) g.end = this.#raw(p.end - 1, p.end);
  }

  /** A fragment without its quotes. */
  #raw(start: number, end: number): string {
    const n = this.body.length;
    return start >= n && end > start ? this.extra.slice(start - n, end - n) : this.body.slice(start, end);
  }

  /** The group of the tool call of a fragment, undefined if there are too many groups. Indexes are unreliable: some servers give every
   * call index 0, others send the end of a call with another index or a new id with each fragment. So a known id has precedence over a
   * new id with a name, and that over the index. */
  #call(choice: string, p: Pending): Group | undefined {
    let g = this.#findCall(choice, p);
    if (!g) {
      let n = 0;
      for (let c = this.#lastCall.get(choice); c && n < MAX_CALLS; c = c.prev) n++;
      if (n === MAX_CALLS) return undefined;
      g = this.#newGroup(p);
      if (!g) return undefined;
      g.prev = this.#lastCall.get(choice);
      this.#lastCall.set(choice, g);
    }
    g.head.id ||= p.head.id;
    g.head.named ||= p.head.named;
    return g;
  }

  /** The group of the call that a fragment continues; undefined if the fragment starts a new call. */
  #findCall(choice: string, p: Pending): Group | undefined {
    const last = this.#lastCall.get(choice);
    let at: Group | undefined;
    for (let g = last; g; g = g.prev) {
      if (p.head.id && g.head.id === p.head.id) return g;
      if (!at && p.head.index && g.head.index === p.head.index) {
        at = g;
        if (!p.head.id) break;
      }
    }
    if (!last) return undefined;
    if (!p.head.named) {
      if (at) return at;
      return p.head.id ? undefined : last; // the name follows
    }
    if (!at) {
      if (p.head.index) return undefined;
      at = last;
    }
    if (!at.head.named && (!at.head.id || !p.head.id)) return at; // the id or the first arguments preceded the name
    if (p.head.id && !at.head.id && at.end === "") return at; // the name preceded the id
    if (p.head.id || !p.head.index) return undefined;
    // Another complete call with the same index, without an id.
    if (at.end === "}" && p.end > p.start && this.#raw(p.start, p.start + 1) === "{") return undefined;
    return at;
  }

  /** Replaces the first fragment of each text with the shape of the text. */
  finish(): void {
    for (const g of this.#groups) {
      if (g.fragments.length > 0) this.#patch(g.join, g.args, g.place, g.fragments.map(([start, end]) => this.#raw(start, end)).join(""));
    }
    if (this.#patches.length === 0 && this.framed.length === 0) return;
    this.#patches.sort((a, b) => a.at - b.at);
    this.out = this.framed.length > 0 ? this.reframed() : this.patched(0, this.out.length);
  }

  /** Adds the replacement of a text. */
  #patch(j: Join, args: boolean, at: number, raw: string): void {
    if (raw || !j.blank) this.#patches.push({ at, text: args ? this.arguments(raw) : this.hashed(decode(raw)) });
  }

  /** Returns out[start:end] with its patches and removes these patches. */
  patched(start: number, end: number): string {
    const pieces: string[] = [];
    let used = 0;
    for (const { at, text } of this.#patches) {
      if (at >= end) break;
      pieces.push(this.out.slice(start, at), text);
      start = at;
      used++;
    }
    this.#patches.splice(0, used);
    pieces.push(this.out.slice(start, end));
    return pieces.join("");
  }

  /** The frames of the shape. */
  reframed(): string {
    throw new Error("BUG: not a framed stream");
  }

  /** The shape of a text that should be an event but is not. */
  badEvent(text: string): string {
    return this.hashed(text) + BAD;
  }
}
