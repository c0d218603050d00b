// Recording for tests. The command llmtap writes the file, as for llmtap record -- npm test.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

import { collector } from "./collector";
import { instrument, uninstrument } from "./index";

/** Records the LLM calls of this process in a file that llmtap lint reads, until the returned function has been awaited. */
export async function recordHistories(file = "histories.jsonl"): Promise<() => Promise<void>> {
  // The recorder ends with its child, which ends with this process or when its input is closed.
  const args = ["record", "-o", file, "--", "sh", "-c", 'echo "$LLMTAP_ENDPOINT"; exec cat'];
  const recorder = spawn(collector() ?? "llmtap", args, { stdio: ["pipe", "pipe", "inherit"] });
  const failed = (why: unknown): never => {
    throw new Error(`recordHistories: ${String(why)}; see https://github.com/llmtap/llmtap to install the command llmtap`);
  };
  const ended = once(recorder, "close").catch(failed);
  const [endpoint] = await Promise.race([once(createInterface(recorder.stdout), "line"), ended.then(() => failed("llmtap record has ended"))]);
  await uninstrument(); // what a module has started
  instrument({ endpoint: endpoint as string, capture: "full", hosts: ["127.0.0.1", "localhost"], flushTimeout: 30_000 });
  return async () => {
    await uninstrument();
    recorder.stdin.end();
    const [code] = await ended;
    if (code) failed(`llmtap record could not write ${file}`);
  };
}
