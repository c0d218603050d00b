// Shapes the arguments of tool calls, in canonical form (RFC 8785: keys sorted, no white space).

import { BAD, decode, Hasher, MULTI, strictString, stringEnd } from "./text";

const MAX_DEPTH = 1024; // nesting of containers; deeper ones are emptied
const MAX_MEMBERS = 1 << 16; // maximum number of members to sort; further members are not sorted

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const WHOLE_NUMBER = new RegExp(`^(?:${NUMBER.source})$`);
const LITERAL = /true|false|null/y;
const MARK = /["{}[\]]/g;

/** A container while it is shaped. */
interface Open {
  object: boolean;
  // The texts between the brackets: of an object's members, or of an array's elements in one piece.
  members: { key: string; text: string }[];
  text: string;
  all: boolean; // whether members may be sorted
  counted: number; // members that count for the limit of members to sort
  key: string; // of the current member
}

/** Shapes arguments. */
export class Arguments extends Hasher {
  out = "";
  limit = 0;
  long = false; // the shape exceeds the limit
  broken = false; // stops parsing the current text
  #size = 0; // length of the shape of the current arguments
  #members = 0; // members stored for sorting
  #moves = 0; // bytes that sorting may still move; limits nesting, where all text would move at each level

  /** Whether the shape exceeds the limit. */
  over(): boolean {
    if (this.out.length + this.#size > this.limit) this.long = true;
    return this.long;
  }

  /** The shape of arguments in a string, without the quotes. */
  arguments(raw: string): string {
    let text = decode(raw);
    const [values, canon] = this.#parse(text);
    this.#size = 0;
    if (values === 1) return canon.replace(/"/g, '\\"');
    if (values > 1) return this.hashed(text) + MULTI;
    if (/^[ \t\r\n]*$/.test(text)) text = "";
    return this.hashed(text) + BAD;
  }

  /** Returns the number of JSON values in b, 0 if it is not JSON, and the shape of the last one. */
  #parse(b: string): [values: number, shape: string] {
    this.#reset(b.length);
    let values = 0;
    let shape = "";
    let i = space(b, 0);
    while (i < b.length) {
      const [end, text] = this.#canon(b, i);
      if (end < 0) {
        this.broken ||= this.long;
        return [0, ""];
      }
      shape = text;
      const after = space(b, end);
      if (!'{["'.includes(b[i]) && after === end && end < b.length) return [0, ""]; // 01 and truefalse are not two values
      values++;
      i = after;
    }
    return [values, shape];
  }

  #reset(n: number): void {
    this.#size = this.#members = 0;
    this.#moves = 64 * n;
  }

  /** Writes the shape of arguments that are not a string and returns their end, -1 if they are not JSON. */
  argumentsValue(b: string, i: number): number {
    this.#reset(b.length - i);
    const [end, text] = this.#canon(b, i);
    this.#size = 0;
    if (end >= 0) this.out += text;
    return end;
  }

  /** The end and the canonical shape of the JSON value at i; -1 if it is invalid. */
  #canon(b: string, i: number): [end: number, text: string] {
    const invalid: [number, string] = [-1, ""];
    const n = b.length;
    const stack: Open[] = [];
    for (;;) {
      // Start of a value.
      if (i >= n || this.over()) return invalid;
      const c = b[i];
      let text: string;
      if (c === '"') {
        const [s, end] = strictString(b, i + 1);
        if (end < 0) return invalid;
        i = end;
        text = `"${this.hashed(s)}"`;
      } else if (c === "{" || c === "[") {
        const close = c === "{" ? "}" : "]";
        if (stack.length === MAX_DEPTH) {
          i = containerEnd(b, i + 1);
          if (i < 0) return invalid;
        } else {
          const top: Open = { object: c === "{", members: [], text: "", all: true, counted: 0, key: "" };
          i = space(b, i + 1);
          if (i >= n || b[i] !== close) {
            stack.push(top);
            this.#size++;
            i = this.#member(b, i, top);
            if (i < 0) return invalid;
            continue;
          }
          i++;
        }
        text = c + close;
      } else if (c === "-" || (c >= "0" && c <= "9")) {
        NUMBER.lastIndex = i;
        if (!NUMBER.test(b) || ".eE".includes(b[NUMBER.lastIndex] ?? " ")) return invalid;
        text = "0";
        i = NUMBER.lastIndex;
      } else {
        LITERAL.lastIndex = i;
        if (!LITERAL.test(b)) return invalid;
        text = b.slice(i, LITERAL.lastIndex);
        i = LITERAL.lastIndex;
      }
      this.#size += text.length;
      // End of a value, and perhaps of the containers around it.
      for (;;) {
        const top = stack[stack.length - 1];
        if (!top) return [i, text];
        this.#ended(top, text);
        i = space(b, i);
        if (i < n && b[i] === ",") {
          this.#size++;
          i = this.#member(b, space(b, i + 1), top);
          if (i < 0) return invalid;
          break;
        }
        if (i >= n || b[i] !== (top.object ? "}" : "]")) return invalid;
        text = this.#close(top);
        this.#size++;
        stack.pop();
        i++;
      }
    }
  }

  /** Skips the text before a value in a container, in an object the key. -1 if it is invalid. */
  #member(b: string, i: number, top: Open): number {
    if (!top.object) return i;
    if (b[i] !== '"') return -1;
    const [name, end] = strictString(b, i + 1);
    if (end < 0) return -1;
    top.key = this.digest(name);
    this.#size += top.key.length + 4;
    i = space(b, end);
    if (b[i] !== ":") return -1;
    return space(b, i + 1);
  }

  #ended(top: Open, text: string): void {
    if (!top.object) {
      top.text += top.text ? "," + text : text;
      return;
    }
    top.all &&= this.#members < MAX_MEMBERS;
    if (top.all) {
      this.#members++;
      top.counted++;
    }
    top.members.push({ key: top.key, text: `"k${top.key}":${text}` });
  }

  /** The text of a container. Sorts the members of an object by key. */
  #close(top: Open): string {
    if (!top.object) return `[${top.text}]`;
    const { members } = top;
    this.#members -= top.counted;
    if (top.all && !members.every((m, k) => k === 0 || members[k - 1].key <= m.key)) {
      this.#moves -= members.reduce((sum, m) => sum + m.text.length + 1, -1);
      if (this.#moves >= 0) members.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    }
    return `{${members.map((m) => m.text).join(",")}}`;
  }
}

/** The end of the white space at i. */
export function space(b: string, i: number): number {
  for (; i < b.length; i++) {
    const c = b.charCodeAt(i);
    if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) break;
  }
  return i;
}

/** Whether raw is a JSON number. */
export function isNumber(raw: string): boolean {
  return WHOLE_NUMBER.test(raw);
}

/** The index after the bracket that closes the container whose content starts at i, or -1. */
function containerEnd(b: string, i: number): number {
  for (let depth = 1; ; ) {
    MARK.lastIndex = i;
    const m = MARK.exec(b);
    if (!m) return -1;
    i = MARK.lastIndex;
    if (m[0] === '"') {
      i = stringEnd(b, i) + 1;
      if (i === 0) return -1;
    } else if (m[0] === "{" || m[0] === "[") {
      depth++;
    } else if (--depth === 0) {
      return i;
    }
  }
}
