// Detects the dialect of a call from the path of its URL.

import { ENDPOINTS, OLLAMA_PORT, type Endpoint } from "./wire";

const OTHER = "other";

/** The dialect in which the bodies of calls to a path are shaped, as in dialects.json. Gateways may prefix the path. */
export function detect(path: string): string {
  const e = endpointOf(clean(path));
  return !e || e.opaque ? OTHER : e.dialect;
}

/** The dialect of a POST with a JSON body to a path at an unknown host; "" unless it probably is a call of an LLM. */
export function looksLikeCall(path: string, port: string): string {
  const p = clean(path);
  const e = endpointOf(p);
  if (!e) return "";
  if (e.unknown.length > 0 && !e.unknown.some((u) => p.includes(u)) && !(e.native && port === OLLAMA_PORT)) return "";
  return e.dialect;
}

function clean(path: string): string {
  path = path.replace(/\/+$/, "");
  const last = path.lastIndexOf("/") + 1;
  return path.slice(0, last) + path.slice(last).replace(/%3a/gi, ":");
}

/** The endpoint of a clean path, if any. */
function endpointOf(path: string): Endpoint | undefined {
  return ENDPOINTS.find((e) => {
    if (!path.endsWith(e.end) || (e.within.length > 0 && !e.within.some((w) => path.includes(w)))) return false;
    if (!e.model) return true;
    const model = modelOf(path.slice(0, -e.end.length), e.model, e.end);
    return model !== "" && (e.models.length === 0 || e.models.some((m) => model.includes(m))) && !e.notModels.some((m) => model.includes(m));
  });
}

/** The name of the model in a path without its end. If the end starts with a colon, it may be the last segment. */
function modelOf(path: string, before: string, end: string): string {
  const at = path.indexOf(before);
  let model = at < 0 ? "" : path.slice(at + before.length);
  if (at < 0 && end[0] === ":") model = path.slice(path.lastIndexOf("/") + 1);
  try {
    return decodeURIComponent(model);
  } catch {
    return model;
  }
}
