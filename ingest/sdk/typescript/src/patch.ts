// The hook of this process and the functions that it replaces.

import type { Exchange } from "./exchange";
import type { Hook } from "./hook";

let hook: Hook | undefined;

/** The hook of this process, if any. */
export function hookOf(): Hook | undefined {
  return hook;
}

export function setHook(h: Hook | undefined): void {
  hook = h;
}

const ignored = new WeakSet<object>();

/** Excludes a request of the hook itself. */
export function ignore(request: object): void {
  ignored.add(request);
}

export function isIgnored(request: object): boolean {
  return ignored.has(request);
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

/** Calls before, after whose exceptions x is forgotten, and then the method of one object. */
export function observe(x: Exchange, object: object, name: string, before: (...args: never[]) => void): void {
  const owner = object as Record<string, unknown>;
  const original = owner[name] as Method;
  owner[name] = function (this: unknown, ...args: unknown[]): unknown {
    try {
      (before as (...args: unknown[]) => void)(...args);
    } catch (e) {
      x.broken(e);
    }
    return original.apply(this, args);
  };
}

/** The replaced functions and their originals. */
export class Patches {
  #undo: (() => void)[] = [];

  /** Replaces a function with make(original). */
  replace(owner: object, name: string, make: (original: Method) => Method): void {
    const object = owner as Record<string, unknown>;
    const own = Object.getOwnPropertyDescriptor(owner, name);
    const original = object[name] as Method;
    const replacement = make(original);
    Object.defineProperty(replacement, "name", { value: name, configurable: true });
    Object.defineProperty(owner, name, { value: replacement, writable: true, configurable: true, enumerable: own?.enumerable ?? false });
    this.#undo.push(() => {
      if (object[name] !== replacement) return; // another library has replaced our function, which stays and calls the original
      if (own) Object.defineProperty(owner, name, own);
      else delete object[name];
    });
  }

  /** Registers a function that restores something else. */
  add(undo: () => void): void {
    this.#undo.push(undo);
  }

  /** Restores the originals. */
  undo(): void {
    for (const f of this.#undo.splice(0).reverse()) f();
  }
}
