// Selects the calls to record by host: known providers and configured hosts.

import { looksLikeCall } from "./detect";
import { HOST_LABELS, HOST_SUFFIXES, HOSTS, OLLAMA_PORT } from "./wire";

const KNOWN = new Set(HOSTS);
const OLLAMA = new Set(["localhost", "127.0.0.1", "::1"]);

const MAX_CACHED = 128; // number of cached URLs; agents call only a few
export const MAX_UNKNOWN = 64; // number of unknown hosts that are logged

/** The URL of a call in parts. */
export interface Target {
  url: string; // scheme, host, port and escaped path, for publishing
  path: string;
  query: string; // may contain a key
}

/** The URL of an LLM call to an unknown host. */
interface Unknown {
  host: string; // with the port, if any; in lower case
  dialect: string;
}

/** A host in lower case, without brackets, and a port; port "" stands for any port. */
interface HostPort {
  name: string;
  port: string;
}

/** Parses a host with an optional port. Accepts URLs, whose scheme and path are ignored. Throws an Error. */
export function parseHost(s: string): HostPort {
  let h = s.trim().toLowerCase();
  if (h.includes("/")) {
    if (h.includes("://")) h = h.slice(h.indexOf("://") + 3);
    h = h.split(/[/?#]/)[0];
    h = h.slice(h.lastIndexOf("@") + 1);
  }
  if (h.startsWith("*.") || h.startsWith("*-")) h = h.slice(1);
  let name = h;
  let port = "";
  if (h.split(":").length === 2 || h.includes("]:")) {
    const colon = h.lastIndexOf(":");
    name = h.slice(0, colon);
    port = h.slice(colon + 1);
    if (!/^[0-9]+$/.test(port)) throw new Error(`"${s}": invalid port`);
  }
  if (name.startsWith("[") && name.endsWith("]")) name = name.slice(1, -1);
  if (!name.replace(/^[.-]+/, "") || /[ \t*@?#,;"'[\]]/.test(name)) {
    throw new Error(`"${s}" is not a host: use "llm.example.com", "10.0.0.7:8000" or "*.example.com"`);
  }
  return { name, port };
}

/** The hosts to record, and the counter of unrecorded calls. */
export class Hosts {
  unrecorded = 0; // LLM calls to unknown hosts
  #exact = new Set<string>(); // name:port
  #suffixes: HostPort[] = [];
  #cache = new Map<string, Target | Unknown | undefined>();
  #seen = new Set<string>();

  constructor(
    extra: readonly string[],
    private readonly warn: (message: string) => void,
  ) {
    for (const p of extra.map(parseHost)) {
      if (/^[.-]/.test(p.name)) this.#suffixes.push(p);
      else this.#exact.add(`${p.name}:${p.port}`);
    }
  }

  /** Whether calls to a host are recorded. name is in lower case, port "" is the default port of the scheme. */
  #records(scheme: string, name: string, port: string): boolean {
    if (isKnown(name, port) || this.#exact.has(name + ":")) return true;
    port ||= scheme === "http" ? "80" : "443";
    return this.#exact.has(`${name}:${port}`) || this.#suffixes.some((s) => name.endsWith(s.name) && (s.port === "" || s.port === port));
  }

  /** The target of a POST to a path at an origin; undefined if it is not recorded. Counts LLM calls to unknown hosts and logs each
   * host once. */
  target(origin: string, path: string, contentType: () => string): Target | undefined {
    const key = origin + path;
    let target = this.#cache.get(key);
    if (target === undefined && !this.#cache.has(key)) {
      target = this.#parse(origin, path);
      if (this.#cache.size >= MAX_CACHED) this.#cache.clear();
      this.#cache.set(key, target);
    }
    if (target && "dialect" in target) {
      if (contentType().includes("json")) this.#count(target);
      return undefined;
    }
    return target;
  }

  /** Whether a call of a URL was recorded lately. */
  knows(url: string): boolean {
    const target = this.#cache.get(url);
    return target !== undefined && !("dialect" in target);
  }

  #parse(origin: string, path: string): Target | Unknown | undefined {
    const at = origin.indexOf("://");
    const scheme = origin.slice(0, at).toLowerCase();
    let host = origin.slice(at + 3).replace(/[/?#].*$/, "");
    host = host.slice(host.lastIndexOf("@") + 1);
    const bracket = host.lastIndexOf("]") + 1;
    const [, port = ""] = host.slice(bracket).split(":");
    const name = (bracket > 0 ? host.slice(1, bracket - 1) : host.split(":")[0]).toLowerCase();
    path = path.split("#")[0];
    const question = path.indexOf("?");
    const query = question < 0 ? "" : path.slice(question + 1);
    if (question >= 0) path = path.slice(0, question);
    if (this.#records(scheme, name, port)) return { url: `${scheme}://${host}${path}`, path, query };
    const dialect = looksLikeCall(path, port);
    return dialect ? { host: host.toLowerCase(), dialect } : undefined;
  }

  #count(call: Unknown): void {
    this.unrecorded++;
    if (this.#seen.has(call.host) || this.#seen.size > MAX_UNKNOWN) return;
    this.#seen.add(call.host);
    if (this.#seen.size > MAX_UNKNOWN) {
      this.warn("LLM calls to further unknown hosts are not recorded, only counted");
    } else {
      this.warn(
        `LLM calls to an unknown host are not recorded: host ${call.host}, API ${call.dialect}; add it with LLMTAP_HOSTS=${call.host}`,
      );
    }
  }
}

/** Whether a host belongs to a known provider or to a local Ollama. */
function isKnown(name: string, port: string): boolean {
  if (HOST_SUFFIXES.some((s) => name.endsWith(s)) || (port === OLLAMA_PORT && OLLAMA.has(name))) return true;
  while (name) {
    const n = name;
    if (KNOWN.has(n)) return true;
    if (HOST_LABELS.some(([before, after]) => n.length > before.length + after.length && n.startsWith(before) && n.endsWith(after))) {
      return true;
    }
    const dot = name.indexOf(".");
    name = dot < 0 ? "" : name.slice(dot + 1);
  }
  return false;
}
