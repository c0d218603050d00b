// Masks credentials and personal data in error texts by the rules of redact.json. Package ingest/sdk/go/event/redact is the reference.
// Texts are latin1 strings: one character per byte.

import { redactRules } from "./redact_rules";

const MASK = "***";

// Lengths in bytes.
const MIN_SECRET = 8; // shorter values are words, such as user_id and org-wide
const MIN_PASSWORD = 6; // of a value after the name of a password
const MIN_PLAIN = 16; // length from which a word without digits and separators is not English
const MAX_GAP = 24; // between a name and its value
const MAX_WORD = 512; // of a word that truncate removes, and of the userinfo of a URL

const NO_WORD = /[^A-Za-z0-9\-_.@+*\\%:]+/y;
const WORD = /[A-Za-z0-9\-_.@+*]*/y;
const VALUE = /(?:[A-Za-z0-9\-_.@+*/=~%]|\\\/)*/y;
const ESCAPE = /\\+(?:[nrtbf]|u[0-9a-fA-F]{4})?/y;
const PERCENT = /%[0-9a-fA-F]{2}/y;
const USER = /(\/\/|\\\/\\\/)([^\x00-\x20/?#"'<>\\@\x7f]{1,511})@/y;
const SPLIT = /[!#-&(-~]*$/;
const TEXT = /[!#-&(-~]/y;
const TELEGRAM = /^AA[A-Za-z0-9_-]{33}$/;
const ZHIPU = /^[0-9a-fA-F]{32}\.[A-Za-z0-9]{16}$/;
const MAIL = /^[^@]+@[^]*\.[A-Za-z]{2,}$/;
const RANDOM = /[0-9*]/;
const JOINED = /[_.\-]/;
const COOKIE_NEXT = /^["'\\ ]*:/;
const COOKIE = /[\\"': ]*([^\\"'\r\n]*)/y;
const PEM_END = /["']|-----END [A-Z \-]*/g;
const ACCOUNT = /[0-9]{12}(?![0-9])/y;
const IDENTITY = /[A-Za-z0-9\-_.@+*/=~%:,]*/y;

type KindOfValue = "" | "scheme" | "name" | "query" | "password" | "cookie" | "provided";

interface Prefix {
  text: string;
  least: number; // minimum length of the rest
  isID: boolean;
}

interface Name {
  text: string;
  kind: KindOfValue;
  mayEnd: boolean; // may end a longer name
}

const prefixes = new Map<string, Prefix[]>(); // by first letter
const names = new Map<string, Name[]>(); // by last letter
const plain: ReadonlySet<string> = new Set(redactRules.plain);

for (const [rules, isID] of [[redactRules.keys, false], [redactRules.ids, true]] as const) {
  for (const [text, least] of Object.entries(rules)) add(prefixes, text[0], { text, least, isID });
}
for (const [kind, all] of Object.entries(redactRules.names)) {
  for (const name of all) {
    const text = name.replace(/\$$/, "");
    add(names, text[text.length - 1], { text, kind: kind as KindOfValue, mayEnd: name.endsWith("$") });
  }
}

function add<T>(map: Map<string, T[]>, key: string, value: T): void {
  const values = map.get(key);
  if (values) values.push(value);
  else map.set(key, [value]);
}

/** The match of a sticky expression at index i. */
function matchAt(re: RegExp, text: string, i: number): RegExpExecArray | null {
  re.lastIndex = i;
  return re.exec(text);
}

/** The end of the match of a sticky expression at index i; i if it does not match. */
function endAt(re: RegExp, text: string, i: number): number {
  const m = matchAt(re, text, i);
  return m ? i + m[0].length : i;
}

/** The first limit bytes of text. If the limit splits a word, the word is removed, because the first part of a secret may be
 * unrecognizable. Words longer than 512 bytes are split, because secrets of that length are recognized by their start. */
export function truncate(text: string, limit: number): string {
  if (text.length <= limit) return text;
  if (limit <= 0) return "";
  if (!matchAt(TEXT, text, limit)) return text.slice(0, limit);
  const split = SPLIT.exec(text.slice(Math.max(0, limit - MAX_WORD - 1), limit))?.[0].length ?? 0;
  return text.slice(0, split > MAX_WORD ? limit : limit - split);
}

/** The text with credentials and personal data masked. */
export function masked(text: string): string {
  return new Reader(text).read();
}

/** Whether w is not English words joined by hyphens, dots or underscores. */
function looksRandom(w: string): boolean {
  return RANDOM.test(w) || (w.length >= MIN_PLAIN && !JOINED.test(w));
}

const lower = (c: string): string => String.fromCharCode(c.charCodeAt(0) | 0x20);

/** Lower case of ASCII letters only. */
function lowerCase(s: string): string {
  return /[\x80-\xff]/.test(s) ? s.replace(/[A-Z]+/g, (u) => u.toLowerCase()) : s.toLowerCase();
}

/** The length of the known prefix of w, a key or id (0 if it is neither), and whether w is an id. */
function prefixOf(w: string): [length: number, isID: boolean] {
  for (const p of prefixes.get(lower(w[0])) ?? []) {
    const n = p.text.length;
    if (w.length >= n + p.least && lowerCase(w.slice(0, n)) === p.text && w[n] !== "-" && looksRandom(w.slice(n))) return [n, p.isID];
  }
  return [0, false];
}

/** The kind of the value expected after w. A longer name that ends in key or token is a name. */
function kindAfter(w: string): KindOfValue {
  for (const name of names.get(lower(w[w.length - 1])) ?? []) {
    const at = w.length - name.text.length;
    if (at < 0 || lowerCase(w.slice(at)) !== name.text) continue;
    if (at === 0) return name.kind;
    if (name.mayEnd && "_-.".includes(w[at - 1])) return name.kind === "query" ? "name" : name.kind;
  }
  return "";
}

/** Whether g, between a word and its value, is a colon; and whether it is an equals sign or the space after a scheme. */
function gap(g: string, kind: KindOfValue): [colon: boolean, equals: boolean] {
  if (!g) return [false, false];
  if (kind === "scheme") return [false, g === "+" || g === "%20" || !g.replace(/^[ \t]+/, "")];
  if (`"'\\`.includes(g[0]) && !`"'\\/`.includes(g[g.length - 1])) return [false, false]; // a number or null in JSON, which must stay valid
  const sign = g.replace(/^["'\\/ ]+/, "").replace(/["'\\/ ]+$/, "");
  return [sign === ":" && kind !== "query", sign === "=" || sign === "%3D" || sign === "%3d"];
}

/** Masks a text in one pass. */
class Reader {
  #out: string[] = [];
  #i = 0; // the text before it is in #out
  #noMail = 0; // end of a run of word characters without @
  #kind: KindOfValue = ""; // kind of the value expected after the previous word
  #ended = 0; // end of the previous word
  #api = false; // whether the previous word is "api"

  constructor(private readonly text: string) {}

  read(): string {
    const text = this.text;
    while (this.#i < text.length) {
      const end = endAt(NO_WORD, text, this.#i);
      if (end > this.#i) {
        this.#keep(end);
        continue;
      }
      const c = text[this.#i];
      if (c === "\\") {
        this.#keep(endAt(ESCAPE, text, this.#i));
      } else if (c === "%") {
        this.#keep(Math.max(endAt(PERCENT, text, this.#i), this.#i + 1));
      } else if (c === ":") {
        this.#keep(this.#i + 1);
        const m = matchAt(USER, text, this.#i);
        if (m) {
          const at = this.#i + m[0].length;
          this.#keep(this.#i + m[1].length);
          this.#hide(at - 1);
          this.#keep(at);
        }
      } else {
        this.#word();
      }
    }
    return this.#out.join("");
  }

  #keep(end: number): void {
    this.#out.push(this.text.slice(this.#i, end));
    this.#i = end;
  }

  #hide(end: number): void {
    this.#out.push(MASK);
    this.#i = end;
  }

  /** Copies or masks the word that starts here, or the value expected after the previous word. */
  #word(): void {
    if (this.#secretHere()) return;
    const text = this.text;
    // A word may have markup: **sk-…**, _sk-…_, "sk-….".
    let start = this.#i;
    while (start < text.length && "*.+_@-".includes(text[start])) start++;
    if (start - this.#i >= 5 && text.startsWith("-----BEGIN ", start - 5)) {
      this.#keep(start - 5);
      this.#private();
      return;
    }
    const end = this.#wordEnd(start);
    this.#keep(start);
    if (start === end) {
      this.#kind = "";
      return;
    }
    const w = text.slice(start, end);
    const bare = w.replace(/\.+$/, "");
    const stop = start + bare.length;
    let kind = kindAfter(bare);
    const [prefix, isID] = prefixOf(bare);
    if (MAIL.test(bare)) {
      this.#out.push(MASK + "@");
      this.#hide(stop);
    } else if (w === "arn" && text.startsWith(":aws", end)) {
      this.#arn();
    } else if (kind === "cookie" && COOKIE_NEXT.test(text.slice(end, end + MAX_GAP))) {
      const m = matchAt(COOKIE, text, end)!;
      const after = end + m[0].length;
      this.#keep(after - m[1].length);
      if (m[1]) this.#hide(after);
    } else if (ZHIPU.test(bare) || (TELEGRAM.test(bare) && /[0-9](?::|%3[Aa])$/.test(text.slice(Math.max(0, start - 4), start)))) {
      this.#hide(stop);
    } else if (prefix) {
      this.#keep(this.#i + prefix);
      this.#hide(isID ? stop : this.#valueEnd(stop));
    }
    const between = text.slice(this.#ended, start);
    if (kind === "provided") kind = this.#kind === "name" && between === " " ? "name" : ""; // "API key provided: …"
    if (kind === "query" && this.#api && between === " " && lowerCase(w) === "key") kind = "name";
    if (this.#i < end) this.#keep(end);
    this.#kind = kind;
    this.#ended = this.#i;
    this.#api = lowerCase(w) === "api";
    if (text[this.#i] === "+") this.#keep(this.#i + 1); // an encoded space in a query
  }

  /** Masks the value expected after the previous word, if it looks like one. */
  #secretHere(): boolean {
    const kind = this.#kind;
    const text = this.text;
    const i = this.#i;
    if (kind === "" || kind === "cookie" || i - this.#ended > MAX_GAP) return false;
    const [colon, equals] = gap(text.slice(this.#ended, i), kind);
    if (!colon && !equals) return false;
    if (kind === "scheme" && plain.has(lowerCase(text.slice(i, this.#wordEnd(i)).replace(/\.+$/, "")))) return false;
    const end = this.#valueEnd(i);
    const v = text.slice(i, end);
    if (v.includes(MASK)) return false; // already masked
    if (!(kind === "password" && v.length >= MIN_PASSWORD) && (v.length < MIN_SECRET || (colon && !looksRandom(v)))) return false;
    // Keep the prefix, which identifies the kind of key.
    const [prefix] = prefixOf(v);
    if (prefix) this.#keep(i + prefix);
    this.#hide(end);
    this.#kind = "";
    this.#ended = this.#i;
    this.#api = false;
    return true;
  }

  /** The end of the word at i. A + separates words, as in a query, except in an email address. */
  #wordEnd(i: number): number {
    const text = this.text;
    const end = endAt(WORD, text, i);
    const plus = text.slice(i, end).indexOf("+") + i;
    if (plus < i) return end;
    if (plus < this.#noMail) return text.slice(i, plus).includes("@") ? end : plus;
    if (text.slice(i, end).includes("@")) return end;
    this.#noMail = end;
    return plus;
  }

  /** The end of the value that contains i. */
  #valueEnd(i: number): number {
    let end = endAt(VALUE, this.text, i);
    while (this.text[end - 1] === ".") end--;
    return end;
  }

  /** Masks a PEM private key up to its end or the closing quote. */
  #private(): void {
    const text = this.text;
    const i = this.#i;
    this.#kind = "";
    this.#api = false;
    if (!text.slice(i, i + 48).includes("PRIVATE KEY")) {
      this.#keep(i + "-----BEGIN".length);
      return;
    }
    PEM_END.lastIndex = i + "-----BEGIN".length;
    const m = PEM_END.exec(text);
    let end = text.length;
    if (m) end = m[0] === '"' || m[0] === "'" ? m.index : m.index + m[0].length;
    while (text[end - 1] === "\\") end--; // backslashes before the quote
    this.#hide(end);
  }

  /** Masks the account and identity in an ARN: arn:aws:sts::123456789012:assumed-role/agent/jane. */
  #arn(): void {
    const text = this.text;
    let service = "";
    let at = this.#i;
    for (let n = 0; n < 4; n++) { // arn, partition, service, region
      const colon = text.slice(at, at + 32).indexOf(":") + at;
      if (colon < at) return;
      if (n === 2) service = text.slice(at, colon);
      at = colon + 1;
    }
    let end = endAt(ACCOUNT, text, at);
    if (end === at) return;
    if (service === "iam" || service === "sts") end = endAt(IDENTITY, text, end);
    this.#keep(at);
    this.#hide(end);
  }
}
