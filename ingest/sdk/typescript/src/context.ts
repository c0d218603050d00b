// Labels of the calls made under a context: agent, stage, conversation, run, user, attributes.

import { AsyncLocalStorage } from "node:async_hooks";

import type { Place } from "./code";
import { clip, clipAttr, MAX_ATTRS, validAttrKey, type EventLabels } from "./event";

/** The labels of context(). Omitted labels keep their outer values. */
export interface Labels {
  agent?: string;
  stage?: string;
  conversation?: string;
  run?: string;
  user?: string;
  attrs?: Record<string, unknown>;
}

/** The labels of the calls made under a context. Immutable once entered. */
export class Scope {
  agent = "";
  stage = "";
  conversation = "";
  run = "";
  user = "";
  attrs: Record<string, string> = {};
  /** Where in the agent's code the scope was entered. */
  place: Place | undefined;
  /** The newest exchange under the nearest conversation or run, for tool events. */
  last: { exchange: string } | undefined;
  /** Built for the first event. */
  built: EventLabels | undefined;

  /** Whether the scope is inside context() or run(). */
  readonly labelled: boolean;

  constructor(outer?: Scope) {
    this.labelled = outer !== undefined;
    if (!outer) return;
    const { agent, stage, conversation, run, user, attrs, place, last } = outer;
    Object.assign(this, { agent, stage, conversation, run, user, attrs, place, last });
  }
}

const EMPTY = new Scope();
const storage = new AsyncLocalStorage<Scope>();

/** The current scope. */
export function current(): Scope {
  return storage.getStore() ?? EMPTY;
}

/** Calls f in a scope. */
export function within<T>(scope: Scope, f: () => T): T {
  return storage.run(scope, f);
}

/** The scope of labels inside the current one. */
export function inside(labels: Labels): Scope {
  const s = new Scope(current());
  for (const name of ["agent", "stage", "conversation", "run"] as const) {
    const value = labels[name];
    if (value !== undefined && value !== null) s[name] = clip(string(value));
  }
  if (labels.user !== undefined && labels.user !== null) s.user = string(labels.user);
  if (labels.conversation !== undefined || labels.run !== undefined) s.last = { exchange: "" };
  for (const [key, value] of Object.entries(labels.attrs ?? {})) {
    if (validAttrKey(key) && (key in s.attrs || Object.keys(s.attrs).length < MAX_ATTRS)) {
      s.attrs = { ...s.attrs, [key]: clipAttr(string(value)) };
    }
  }
  return s;
}

/** Converts a label; one that cannot be converted is empty. */
function string(value: unknown): string {
  try {
    return String(value);
  } catch {
    return "";
  }
}
