// The account of a call, of which only a hash is published. Go's wire.Account and event.HashAccount are the reference.

import { createHmac } from "node:crypto";
import { utf8 } from "./event";
import { KEY_HEADERS, KEY_PREFIXES, PART_HEADERS, TOKEN_PREFIXES } from "./wire";

let newest = { key: Buffer.alloc(0) as Buffer, text: "", hash: "" }; // a process seldom has several keys

/** The hash of the key of a request; "" if there is none, or if it may expire: its renewal would look like another account. */
export function account(hashKey: Buffer, headers: ReadonlyMap<string, string[]>, query: string): string {
  let found = "";
  for (const name of KEY_HEADERS) found ||= keyIn(name, headers.get(name)?.[0] ?? "");
  if (!found && query.includes("key=")) found = keyIn("", new URLSearchParams(query).get("key") ?? "");
  if (!found) return "";
  for (const name of PART_HEADERS) found += "\n" + (headers.get(name)?.[0] ?? "");
  if (newest.text !== found || newest.key !== hashKey) {
    newest = { key: hashKey, text: found, hash: createHmac("sha256", hashKey).update(utf8(found)).digest("hex").slice(0, 8) };
  }
  return newest.hash;
}

/** The key in a header, or in the query if name is empty; "" if it may expire. */
function keyIn(name: string, value: string): string {
  if (name === KEY_HEADERS[0]) {
    if (value.startsWith("AWS4-")) return /Credential=(AKIA[^/]*)/.exec(value)?.[1] ?? "";
    const [scheme, ...token] = value.split(" ");
    if (scheme?.toLowerCase() !== "bearer") return "";
    value = token.join(" ").trim();
  }
  const begins = (prefixes: readonly string[]) => prefixes.some((p) => value.startsWith(p));
  if (begins(TOKEN_PREFIXES) || (KEY_HEADERS.slice(0, 2).includes(name) && !begins(KEY_PREFIXES))) return "";
  return value;
}
