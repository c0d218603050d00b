// Compiles shape_paths.json: the protocol positions of bodies.

import { shapePaths } from "./shape_paths";

/** The part of a tool call that a node contains. */
export type Head = "" | "id" | "name" | "index";

const MAX_DEFS = 8; // nesting of defs

interface JoinSpec {
  paths: string[];
  by?: string[];
  arguments?: boolean;
  arguments_if?: Record<string, string[]>;
  blank?: boolean;
  run?: string;
  calls?: string;
}

interface Spec {
  keep?: string[];
  below?: string[];
  text?: string[];
  arguments?: string[];
  free?: string[];
  use?: Record<string, string[]>;
  join?: JoinSpec[];
}

interface Dialect {
  defs?: Record<string, Spec>;
  request?: Spec;
  response?: Spec;
  event?: Spec;
}

/** Positions whose fragments form one text. */
export class Join {
  slots: number[] = []; // slots of the values in "by"
  argsSlot = -1; // the text is arguments if the value of this slot is one of argsIf
  argsIf: string[] = [];
  readonly arguments: boolean;
  readonly blank: boolean;
  readonly run: boolean;
  readonly calls: boolean;

  constructor(
    readonly salt: number,
    spec: JoinSpec,
  ) {
    this.arguments = spec.arguments ?? false;
    this.blank = spec.blank ?? false;
    this.run = spec.run !== undefined;
    this.calls = spec.calls !== undefined;
  }
}

/** One position of a body. undefined instead of a node is free content. */
export class Node {
  kids: Map<string, Node> | undefined;
  elem: Node | undefined; // elements of an array
  keep = false;
  below = false;
  text = false;
  arguments = false;
  join: Join | undefined;
  slot = -1; // slot of the node's value, if it is in "by" of a join
  // Only set for an event, or an element in an event, whose members identify fragments:
  own: number[] = []; // slots below the node, except those below inner elements
  run: Join | undefined; // join of the text, if it is a part of a message
  calls: Join | undefined; // join of the arguments, if it is a tool call
  head: Head = "";

  /** Whether the node has a slot or a head. */
  get noted(): boolean {
    return this.slot >= 0 || this.head !== "";
  }

  /** Whether the node identifies fragments. */
  get marked(): boolean {
    return this.own.length > 0 || this.run !== undefined || this.calls !== undefined;
  }

  /** The node of a member. */
  member(spellings: string[]): Node {
    this.kids ??= new Map();
    const kid = this.kids.get(spellings[0]) ?? new Node();
    for (const s of spellings) this.kids.set(s, kid);
    return kid;
  }
}

/** The positions of a dialect. */
export class Table {
  readonly request: Node;
  readonly response: Node;
  readonly event: Node;
  readonly slots: number;

  constructor(spec: Dialect) {
    const defs = spec.defs ?? {};
    this.request = compile(defs, spec.request ?? {}).root;
    this.response = compile(defs, spec.response ?? {}).root;
    const { root, slots } = compile(defs, spec.event ?? {});
    this.event = root;
    this.slots = slots;
  }
}

const tables = new Map<string, Table>();

/** The positions of a dialect of shape_paths.json, if it is known. */
export function tableOf(dialect: string): Table | undefined {
  const specs = shapePaths.dialects as unknown as Record<string, Dialect>;
  if (!tables.has(dialect) && Object.hasOwn(specs, dialect)) tables.set(dialect, new Table(specs[dialect]));
  return tables.get(dialect);
}

function compile(defs: Record<string, Spec>, spec: Spec): { root: Node; slots: number } {
  const root = new Node();
  add(root, "", spec, defs, 0);
  return { root, slots: joins(root, spec.join ?? []) };
}

function add(root: Node, prefix: string, spec: Spec, defs: Record<string, Spec>, depth: number): void {
  if (depth > MAX_DEFS) throw new Error(`${prefix}: recursive defs`);
  for (const kind of ["keep", "below", "text", "arguments"] as const) {
    for (const path of spec[kind] ?? []) reach(root, prefix, path)[kind] = true;
  }
  for (const path of spec.free ?? []) reach(root, prefix, path);
  for (const [at, names] of Object.entries(spec.use ?? {})) {
    for (const name of names) add(root, dotted(prefix, at), defs[name], defs, depth + 1);
  }
}

function dotted(prefix: string, path: string): string {
  return prefix && path ? `${prefix}.${path}` : prefix + path;
}

/** The node at a path. Creates missing nodes. */
function reach(root: Node, prefix: string, path: string): Node {
  let n = root;
  for (const segment of dotted(prefix, path).split(".")) {
    const name = segment.replace(/[[\]]+$/, "");
    if (name) n = n.member(name.split("|"));
    for (let k = segment.split("[]").length - 1; k > 0; k--) n = n.elem ??= new Node();
  }
  return n;
}

/** Marks the positions of fragments and of the values that identify them. Returns the number of slots. */
function joins(root: Node, specs: JoinSpec[]): number {
  const slots: string[] = [];
  const slot = (path: string): number => {
    const known = slots.indexOf(path);
    if (known >= 0) return known;
    const at = slots.push(path) - 1;
    reach(root, "", path).slot = at;
    const element = path.lastIndexOf("[]");
    const owner = element < 0 ? root : reach(root, "", path.slice(0, element + 2));
    owner.own.push(at);
    return at;
  };
  specs.forEach((spec, i) => {
    const j = new Join(i + 1, spec);
    j.slots = [...new Set((spec.by ?? []).map(slot))].sort((a, b) => a - b);
    for (const [path, values] of Object.entries(spec.arguments_if ?? {})) {
      j.argsSlot = slot(path);
      j.argsIf = values;
    }
    for (const path of spec.paths) reach(root, "", path).join = j;
    if (spec.run !== undefined) reach(root, "", spec.run).run = j;
    if (spec.calls !== undefined) {
      const call = reach(root, "", spec.calls);
      call.calls = j;
      for (const [path, head] of [["id", "id"], ["function.name", "name"], ["index", "index"]] as const) reach(call, "", path).head = head;
    }
  });
  return slots.length;
}
