// Publishes pending events when the process exits.

import type { Hook } from "./hook";

/** Registers handlers of the process and returns a function that removes them.
 *
 * When the event loop is empty, pending events have up to the flush timeout. process.exit() leaves no time for asynchronous work, so what
 * is not stored by then is lost, counted and logged. */
export function atExit(hook: Hook): () => void {
  let waited = -1; // number of stored and dropped events at the end of the last wait
  const beforeExit = (): void => {
    const { queue, config } = hook;
    const progress = queue.events + queue.dropped;
    if (queue.pending === 0 || waited === progress) return;
    void queue.flush(config.flushTimeout).then(() => {
      waited = queue.events + queue.dropped;
    });
  };
  const exit = (): void => {
    hook.end();
    hook.lost();
  };
  process.on("beforeExit", beforeExit);
  process.on("exit", exit);
  return () => {
    process.off("beforeExit", beforeExit);
    process.off("exit", exit);
  };
}
