// Finds where in the agent's own code a call is made: the innermost frame that is neither of a library nor of this package. V8 continues
// a stack with the functions that await it ("at async"), unless a library breaks the chain.

import { findSourceMap, type SourceMap } from "node:module";
import * as path from "node:path";
import { fileURLToPath } from "node:url";

const MAX_FRAMES = 64;
const MAX_KNOWN = 8192; // files that are remembered
const MAX_UNREAD = 64; // stacks, which keep objects of the agent alive
const MAX_FILE = 160; // bytes
const MAX_FUNCTION = 64; // bytes
const HERE = __dirname + path.sep;

const sitesOf = (_: Error, sites: NodeJS.CallSite[]): NodeJS.CallSite[] => sites; // formatting a stack takes longer

/** The current stack, from the caller of below; none if below was not called. It is captured at once, but read later: reading takes as
 * long as capturing. */
export class Stack {
  private declare readonly stack?: readonly NodeJS.CallSite[]; // defined by captureStackTrace

  constructor(below: (...args: never[]) => unknown) {
    try {
      const { stackTraceLimit } = Error;
      Error.stackTraceLimit = MAX_FRAMES;
      try {
        Error.captureStackTrace(this, below);
      } finally {
        Error.stackTraceLimit = stackTraceLimit;
      }
    } catch {
      // the agent has frozen Error
    }
  }

  /** The call sites, innermost first. The agent's own Error.prepareStackTrace is not called. */
  get sites(): readonly NodeJS.CallSite[] {
    try {
      const { prepareStackTrace } = Error;
      Error.prepareStackTrace = sitesOf;
      try {
        return this.stack ?? [];
      } finally {
        Error.prepareStackTrace = prepareStackTrace;
      }
    } catch {
      return []; // the agent has frozen Error
    }
  }
}

/** Where in the agent's code a call is made: on its stack, else at the outer place. */
export class Place {
  #code: string | undefined;

  constructor(
    private stack: { sites: readonly NodeJS.CallSite[] } | undefined,
    private outer: Place | undefined,
    private readonly places: Places,
  ) {}

  /** The place as package event describes it; "" if it is unknown. */
  get code(): string {
    if (this.stack) {
      try {
        this.#code = this.places.find(this.stack.sites);
      } catch {
        // a file has an invalid URL
      }
      this.#code ||= this.outer?.code ?? "";
      this.stack = this.outer = undefined;
    }
    return this.#code!;
  }
}

/** The file of a call site: its name relative to the project, "" if it belongs to others, or its source map. */
type File = string | SourceMap;

/** Finds places and remembers their files. */
export class Places {
  readonly #cwd = directory();
  readonly #known = new Map<string, File>();
  #unread: Place[] = [];

  /** The place of a stack. */
  of(stack: { sites: readonly NodeJS.CallSite[] }, outer: Place | undefined): Place {
    if (this.#unread.length >= MAX_UNREAD) this.read();
    const place = new Place(stack, outer, this);
    this.#unread.push(place);
    return place;
  }

  /** Reads the stacks of all places. */
  read(): void {
    for (const place of this.#unread.splice(0)) void place.code;
  }

  /** The place of the agent's innermost call site, as package event describes it; "" if there is none. */
  find(sites: readonly NodeJS.CallSite[]): string {
    for (const site of sites) {
      const name = site.getFileName();
      if (!name) continue;
      let file = this.#known.get(name) ?? this.#learn(name);
      let line = site.getLineNumber() ?? 0;
      if (typeof file !== "string") {
        const entry = file.findEntry(line - 1, (site.getColumnNumber() ?? 1) - 1);
        if (!("originalSource" in entry)) continue; // code that the compiler added
        line = entry.originalLine + 1;
        file = this.#relative(entry.originalSource);
      }
      if (file && line > 0) return `${file}:${line}${functionOf(site)}`;
    }
    return "";
  }

  #learn(name: string): File {
    const map = name.startsWith("node:") ? undefined : findSourceMap(name); // if the agent has source maps, as under tsx
    const file = map ?? this.#relative(name);
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(name, file);
    return file;
  }

  #relative(name: string): string {
    if (name.startsWith("node:") || /[\\/]node_modules[\\/]/.test(name)) return "";
    const file = name.startsWith("file:") ? fileURLToPath(name) : name;
    if (file.startsWith(HERE) || !path.isAbsolute(file)) return "";
    const relative = path.relative(this.#cwd, file);
    const short = relative.startsWith("..") || path.isAbsolute(relative) ? path.basename(file) : relative;
    return lastBytes(short.split(path.sep).join("/"), MAX_FILE);
  }
}

/** A space and the name of the function of a call site. */
function functionOf(site: NodeJS.CallSite): string {
  let name = site.getFunctionName();
  const type = site.getTypeName();
  if (!name) name = "<anonymous>";
  else if (type && type !== "Object" && type !== "global" && site.getMethodName() && !name.startsWith(type + ".")) name = `${type}.${name}`;
  return " " + firstBytes(name.replace(/[ :]/g, "_"), MAX_FUNCTION);
}

function directory(): string {
  try {
    return process.cwd();
  } catch {
    return path.sep; // it was removed
  }
}

function firstBytes(s: string, most: number): string {
  return s.length * 3 <= most ? s : Buffer.from(s).subarray(0, most).toString().replace(/\ufffd+$/, "");
}

function lastBytes(s: string, most: number): string {
  return s.length * 3 <= most ? s : Buffer.from(s).subarray(-most).toString().replace(/^\ufffd+/, "");
}
