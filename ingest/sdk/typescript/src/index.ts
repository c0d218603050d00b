// The public functions.

import { randomUUID } from "node:crypto";

import { configure, DEFAULT_FLUSH_TIMEOUT, InvalidEnvironment, type Options } from "./config";
import { current, inside, within, type Labels, type Scope } from "./context";
import { clip, type Step } from "./event";
import { Hook, VERSION, type Stats } from "./hook";
import { atExit } from "./exit";
import { hookOf, Patches, setHook } from "./patch";
import { patchHTTP, patchHTTP2 } from "./node_http";
import { patchUndici } from "./undici";

export type { CaptureMode, Options } from "./config";
export type { Labels } from "./context";
export type { Stats } from "./hook";

/** The version of this package. */
export const version = VERSION;

const patches = new Patches();
const CLIENTS: Record<string, (patches: Patches) => void> = { undici: patchUndici, http: patchHTTP, http2: patchHTTP2 };

/** Starts recording the calls of this process. A second call does nothing until uninstrument().
 *
 * Invalid options throw a TypeError. An unreachable server does not: calls are kept in memory until it is reachable. */
export function instrument(options: Options = {}): void {
  install(options, false);
}

/** Starts recording. An automatic hook, which the program did not ask for, gives way to its own, and connects with the first call.
 * @internal */
export function install(options: Options, automatic: boolean): void {
  const former = hookOf();
  if (former && (automatic || !former.automatic)) return;
  let hook: Hook;
  try {
    hook = new Hook(configure(options, process.env));
  } catch (e) {
    if (!(e instanceof InvalidEnvironment)) throw e;
    (options.logger ?? console).warn(`llmtap: ${e.message}; calls are not recorded`);
    return;
  }
  if (former) void uninstrument();
  hook.automatic = automatic;
  setHook(hook);
  for (const [name, patch] of Object.entries(CLIENTS)) {
    try {
      patch(patches);
    } catch (e) {
      hook.config.warn(`calls of ${name} are not recorded: ${String(e)}`);
    }
  }
  patches.add(atExit(hook));
  if (!automatic) hook.sender.wake();
}

/** Stops recording. Publishes pending events, as at the exit of the process, and restores the clients. */
export async function uninstrument(): Promise<void> {
  const hook = hookOf();
  patches.undo();
  setHook(undefined);
  await hook?.close();
}

/** Waits until all calls that ended before are stored. Returns false after timeout milliseconds. */
export async function flush(timeout: number = DEFAULT_FLUSH_TIMEOUT): Promise<boolean> {
  return (await hookOf()?.queue.flush(timeout)) ?? true;
}

/** Returns the counters since instrument(). */
export function stats(): Stats {
  return (
    hookOf()?.stats() ?? { published: 0, events: 0, dropped: 0, pending: 0, open: 0, bytes: 0, errors: 0, unrecorded: 0, uncaptured: 0 }
  );
}

/** Labels the calls made by f and by what it awaits: context({conversation: "order-17", stage: "planner"}, () => …).
 *
 * A conversation is a growing message history; its calls stay in order. A run is one run of the agent and may have many conversations. The
 * user is published as a hash unless instrument({keepUser: true}). attrs are additional attributes, at most 32; keys that do not match
 * [a-z0-9._-]{1,64} are ignored. Omitted labels keep their outer values. */
export function context<T>(labels: Labels, f: () => T): T {
  return within(entered(labels ?? {}), f);
}

/** The scope of labels inside the current one, with the place from which the agent enters it. */
function entered(labels: Labels): Scope {
  const scope = inside(labels);
  scope.place = hookOf()?.place(scope, entered);
  return scope;
}

/** One run of the agent. Publishes its start and end and labels the calls of f, which receives the id of the run. */
export function run<T>(f: (id: string) => T): T;
export function run<T>(id: string, f: (id: string) => T): T;
export function run<T>(a: string | ((id: string) => T), b?: (id: string) => T): T {
  const f = typeof a === "function" ? a : b!;
  const id = typeof a === "string" && a ? clip(a) : randomUUID();
  return steps(entered({ run: id }), () => f(id), (hook, scope, step) => hook.runEvent(scope, step));
}

/** One tool that the model called, by the id of its call. Publishes its start and end. They belong to the newest call made under the
 * nearest conversation or run. */
export function tool<T>(callID: string, f: () => T): T {
  return steps(current(), f, (hook, scope, step) => hook.toolEvent(scope, String(callID ?? ""), step));
}

/** Wraps f to run with the current labels, for callbacks of libraries that lose the asynchronous context. */
export function bind<A extends unknown[], T>(f: (...args: A) => T): (...args: A) => T {
  const scope = current();
  return (...args) => within(scope, () => f(...args));
}

/** Calls f in a scope and publishes its start and its end, which is that of the promise if f returns one. */
function steps<T>(scope: Scope, f: () => T, publish: (hook: Hook, scope: Scope, step: Step) => void): T {
  const emit = (step: Step): void => {
    const hook = hookOf();
    try {
      if (hook) publish(hook, scope, step);
    } catch (e) {
      hook?.countError(e);
    }
  };
  emit("started");
  let result: T;
  try {
    result = within(scope, f);
  } catch (e) {
    emit("error");
    throw e;
  }
  if (typeof (result as { then?: unknown } | null | undefined)?.then !== "function") {
    emit("ok");
    return result;
  }
  const settled = (result as unknown as PromiseLike<unknown>).then(
    (value) => {
      emit("ok");
      return value;
    },
    (e) => {
      emit("error");
      throw e;
    },
  );
  return settled as unknown as T;
}
