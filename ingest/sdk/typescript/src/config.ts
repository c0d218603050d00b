// The options of instrument() with their defaults.

import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import * as path from "node:path";

import { clipAttr, MAX_ATTRS, validAttrKey } from "./event";
import { parseHost } from "./hosts";
import { PublishError } from "./publisher";

const DEFAULT_URL = "nats://127.0.0.1:4222";
export const DEFAULT_FLUSH_TIMEOUT = 2000;
const DEFAULT_MEMORY_LIMIT = 64 << 20;
const MIN_MEMORY_LIMIT = 1 << 20; // enough for one stubbed body and a few messages

// Variables in which build systems store the commit, in order of preference.
const COMMIT_VARIABLES = [
  "GIT_COMMIT", "COMMIT_SHA", "GITHUB_SHA", "CI_COMMIT_SHA", "SOURCE_COMMIT", "SOURCE_VERSION", "BUILD_VCS_NUMBER",
  "HEROKU_SLUG_COMMIT", "RENDER_GIT_COMMIT", "VERCEL_GIT_COMMIT_SHA", "K_REVISION",
];

const processKey = randomBytes(32); // key of a process without LLMTAP_SHAPE_KEY

export type CaptureMode = "shape" | "full" | "none";

/** The options of instrument(). */
export interface Options {
  /** URL of NATS, or several separated by commas. Default: $LLMTAP_NATS_URL, else nats://127.0.0.1:4222. */
  url?: string;
  /** URL of an llmtap HTTP endpoint to publish to instead of NATS. Default: $LLMTAP_ENDPOINT unless url is set. */
  endpoint?: string;
  /** Token of the endpoint. Default: $LLMTAP_TOKEN. */
  token?: string;
  /** Labels of every message. Defaults: $LLMTAP_SERVICE and $LLMTAP_SERVICE_VERSION, then $OTEL_SERVICE_NAME, then service.name,
   * service.version, deployment.environment.name and gen_ai.agent.name of $OTEL_RESOURCE_ATTRIBUTES, then the name and version of the
   * program's package.json or the commit in the environment. */
  service?: string;
  serviceVersion?: string;
  environment?: string;
  agent?: string;
  /** Attributes of every message, such as {tenant: "acme"}; those of context() override them. At most 32; keys match
   * [a-z0-9._-]{1,64}. */
  attrs?: Record<string, unknown>;
  /** How bodies are published: "shape" (the default: their structure; each text becomes its length and a hash keyed with
   * $LLMTAP_SHAPE_KEY), "full" or "none". */
  capture?: CaptureMode;
  /** Hosts to record in addition to the known providers and to $LLMTAP_HOSTS, which separates hosts by commas: "llm.example.com"
   * (any port), "10.0.0.7:8000", "*.example.com" (all subdomains). */
  hosts?: readonly string[];
  /** Returns the body to publish instead of its argument. Called in the background, before the body is shaped; if it throws, the body
   * is withheld. */
  redact?: (body: Buffer) => Uint8Array;
  /** Called in the background with the id of each exchange whose request and response are stored. */
  onPublished?: (exchange: string) => void;
  /** Returns the W3C trace context of a request without a traceparent header. */
  traceparent?: () => string | undefined;
  /** Whether to publish where in the agent's code each call is made: file, line and function. Default: unless $LLMTAP_CODE is "off". */
  code?: boolean;
  /** Whether to publish the user of context() without hashing it. */
  keepUser?: boolean;
  /** Maximum memory of the queue in bytes; if it is full, the oldest exchanges are dropped and counted. Default: 64 MiB. */
  memoryLimit?: number;
  /** Milliseconds to wait for pending events when the process exits. Default: 2000. */
  flushTimeout?: number;
  /** File with the CAs of NATS and of the endpoint, in PEM format. Default: $LLMTAP_CA_FILE, else those of Node.js. */
  caFile?: string;
  /** Files with the certificate of this client and its key. Defaults: $LLMTAP_CERT_FILE and $LLMTAP_KEY_FILE. With one of the three,
   * connections to NATS use TLS. The files are read for each connection, so that they can be renewed. */
  certFile?: string;
  keyFile?: string;
  /** Further options of the NATS client's connect, such as an authenticator. */
  natsOptions?: Record<string, unknown>;
  /** Receives the messages of the hook. Default: console. */
  logger?: { warn(message: string): void };
}

/** An environment variable is invalid. Unlike an invalid option, it must not stop an agent. */
export class InvalidEnvironment extends Error {}

export interface Config {
  servers: string[];
  url: string;
  endpoint: string;
  token: string;
  service: string;
  serviceVersion: string;
  environment: string;
  agent: string;
  attrs: Record<string, string>;
  capture: CaptureMode;
  hosts: string[];
  redact: Options["redact"];
  onPublished: Options["onPublished"];
  traceparent: Options["traceparent"];
  code: boolean;
  keepUser: boolean;
  memoryLimit: number;
  flushTimeout: number;
  natsOptions: Record<string, unknown>;
  caFile: string;
  certFile: string;
  keyFile: string;
  userKey: Buffer; // LLMTAP_SHAPE_KEY
  shapeKey: Buffer; // userKey if set, otherwise the generated key of the process
  warn: (message: string) => void;
}

/** Sets the defaults. Throws a TypeError for the first invalid option, InvalidEnvironment for an invalid variable. */
export function configure(o: Options, env: NodeJS.ProcessEnv): Config {
  const capture = o.capture ?? "shape";
  if (!["shape", "full", "none"].includes(capture)) throw new TypeError(`llmtap: capture "${capture}": use "shape", "full" or "none"`);
  const memoryLimit = o.memoryLimit ?? DEFAULT_MEMORY_LIMIT;
  if (!(memoryLimit >= MIN_MEMORY_LIMIT)) throw new TypeError(`llmtap: memoryLimit: ${memoryLimit} bytes is below ${MIN_MEMORY_LIMIT}`);
  const flushTimeout = o.flushTimeout ?? DEFAULT_FLUSH_TIMEOUT;
  if (!(flushTimeout >= 0)) throw new TypeError(`llmtap: flushTimeout: ${flushTimeout} is negative`);
  const url = o.url || env.LLMTAP_NATS_URL || DEFAULT_URL;
  const servers = url.split(",").map((u) => u.trim()).map((u) => (u.includes("://") ? u : "nats://" + u));
  for (const u of servers) {
    check(["nats:", "tls:"], u, o.url ? "url" : "", "LLMTAP_NATS_URL");
  }
  const endpoint = (o.endpoint || (o.url ? "" : env.LLMTAP_ENDPOINT) || "").replace(/\/+$/, "");
  if (endpoint) check(["http:", "https:"], endpoint, o.endpoint ? "endpoint" : "", "LLMTAP_ENDPOINT");
  const logger = o.logger ?? console;
  const userKey = Buffer.from(env.LLMTAP_SHAPE_KEY ?? "");
  return {
    servers, url, endpoint, capture, memoryLimit, flushTimeout, userKey,
    token: o.token || env.LLMTAP_TOKEN || "",
    hosts: hosts(o.hosts, env),
    attrs: attributes(o.attrs ?? {}),
    redact: o.redact, onPublished: o.onPublished, traceparent: o.traceparent,
    code: o.code ?? env.LLMTAP_CODE !== "off",
    keepUser: o.keepUser ?? false,
    natsOptions: o.natsOptions ?? {},
    ...files(o, env),
    shapeKey: userKey.length > 0 ? userKey : processKey,
    warn: (message) => logger.warn("llmtap: " + message),
    ...labels(o, env),
  }; // prettier-ignore
}

/** Checks a URL. option is its name if it is an option, variable that of its environment variable. */
function check(schemes: string[], url: string, option: string, variable: string): void {
  let problem = "";
  try {
    const u = new URL(url);
    if (!schemes.includes(u.protocol)) problem = `scheme "${u.protocol.slice(0, -1)}" is not one of ${schemes.join(" ").replace(/:/g, "")}`;
    else if (!u.hostname) problem = "no host";
  } catch {
    problem = "invalid URL"; // the error may contain a password
  }
  if (!problem) return;
  if (option) throw new TypeError(`llmtap: ${option}: ${problem}`);
  throw new InvalidEnvironment(`${variable}: ${problem}`);
}

function files(o: Options, env: NodeJS.ProcessEnv): Pick<Config, "caFile" | "certFile" | "keyFile"> {
  const f = {
    caFile: o.caFile || env.LLMTAP_CA_FILE || "",
    certFile: o.certFile || env.LLMTAP_CERT_FILE || "",
    keyFile: o.keyFile || env.LLMTAP_KEY_FILE || "",
  };
  if (!f.certFile !== !f.keyFile) {
    const text = "certFile, keyFile (LLMTAP_CERT_FILE, LLMTAP_KEY_FILE): one is set without the other";
    throw o.certFile || o.keyFile ? new TypeError("llmtap: " + text) : new InvalidEnvironment(text);
  }
  return f;
}

/** The settings of a TLS connection. Throws a PublishError if the files cannot be read. */
export async function tlsOptions(c: Config): Promise<{ ca?: Buffer; cert?: Buffer; key?: Buffer }> {
  try {
    return {
      ...(c.caFile ? { ca: await readFile(c.caFile) } : {}),
      ...(c.certFile ? { cert: await readFile(c.certFile), key: await readFile(c.keyFile) } : {}),
    };
  } catch (e) {
    throw new PublishError("TLS: " + (e as Error).message);
  }
}

function hosts(given: readonly string[] = [], env: NodeJS.ProcessEnv): string[] {
  if (!Array.isArray(given)) throw new TypeError("llmtap: hosts is not an array of strings");
  const own = given.map(String).filter((h) => h.trim());
  const more = (env.LLMTAP_HOSTS ?? "").split(",").filter((h) => h.trim());
  for (const h of own) {
    try {
      parseHost(h);
    } catch (e) {
      throw new TypeError(`llmtap: hosts: ${(e as Error).message}`);
    }
  }
  for (const h of more) {
    try {
      parseHost(h);
    } catch (e) {
      throw new InvalidEnvironment(`LLMTAP_HOSTS: ${(e as Error).message}`);
    }
  }
  return [...own, ...more];
}

function attributes(attrs: Record<string, unknown>): Record<string, string> {
  const keys = Object.keys(attrs);
  if (keys.length > MAX_ATTRS) throw new TypeError(`llmtap: attrs: ${keys.length} attributes are more than ${MAX_ATTRS}`);
  for (const key of keys) {
    if (!validAttrKey(key)) throw new TypeError(`llmtap: attrs: key "${key}" does not match [a-z0-9._-]{1,64}`);
  }
  return Object.fromEntries(keys.sort().map((key) => [key, clipAttr(String(attrs[key]))]));
}

function labels(o: Options, env: NodeJS.ProcessEnv): Pick<Config, "service" | "serviceVersion" | "environment" | "agent"> {
  const res = resourceAttributes(env.OTEL_RESOURCE_ATTRIBUTES ?? "");
  const program = packageOf(process.argv[1]);
  const commit = COMMIT_VARIABLES.map((name) => env[name]).find((v) => v)?.slice(0, 12);
  return {
    service: String(o.service || env.LLMTAP_SERVICE || env.OTEL_SERVICE_NAME || res["service.name"] || program.name || "unknown"),
    serviceVersion: String(o.serviceVersion || env.LLMTAP_SERVICE_VERSION || res["service.version"] || program.version || commit || ""),
    environment: String(o.environment || res["deployment.environment.name"] || res["deployment.environment"] || ""),
    agent: String(o.agent || res["gen_ai.agent.name"] || ""),
  };
}

/** Parses key=value pairs as OpenTelemetry defines them: separated by commas, values percent-encoded. */
export function resourceAttributes(s: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const pair of s.split(",")) {
    const eq = pair.indexOf("=");
    if (eq < 0) continue;
    try {
      found[pair.slice(0, eq).trim()] = decodeURIComponent(pair.slice(eq + 1).trim());
    } catch {
      continue; // the value is ignored
    }
  }
  return found;
}

/** The name and version of the package that contains a script. The name falls back to that of the script. */
function packageOf(script: string | undefined): { name: string; version: string } {
  if (!script) return { name: "", version: "" };
  const name = path.basename(script).replace(/\.[cm]?[jt]s$/, "");
  if (script.split(path.sep).includes("node_modules")) return { name, version: "" }; // a tool that runs the program
  for (let dir = path.dirname(script); ; dir = path.dirname(dir)) {
    try {
      const file = path.join(dir, "package.json");
      if (existsSync(file)) {
        const p = JSON.parse(readFileSync(file, "utf8")) as { name?: unknown; version?: unknown };
        if (p.name || p.version) return { name: String(p.name || name), version: String(p.version || "") };
      }
    } catch {
      // the file is unreadable or invalid
    }
    if (dir === path.dirname(dir)) return { name, version: "" };
  }
}
