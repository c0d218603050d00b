// Shapes long bodies in a worker thread, so that the event loop of the agent does not wait for them.

import * as path from "node:path";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

import type { ShapeJob } from "./job";
import { Shaper } from "./shaper";

const MARK = "llmtap shapes";
const IDLE = 30_000; // milliseconds after which the thread is stopped

interface Pending {
  job: ShapeJob;
  done: (shape: Buffer) => void;
}

/** Starts the thread for the first job. If it cannot start, such as in a bundled program, it shapes on the calling thread. */
export class ShapeWorker {
  #worker: Worker | undefined;
  #broken = false;
  #pending: Pending[] = [];
  #idle: NodeJS.Timeout | undefined;

  constructor(private readonly key: Buffer) {}

  /** The shape of a body. */
  shape(job: ShapeJob): Promise<Buffer> {
    const worker = this.#start();
    if (!worker) return Promise.resolve(new Shaper(this.key).shape(job));
    return new Promise((done) => {
      this.#pending.push({ job, done });
      worker.postMessage(job);
    });
  }

  close(): void {
    clearTimeout(this.#idle);
    const worker = this.#worker;
    this.#worker = undefined;
    void worker?.terminate();
  }

  #start(): Worker | undefined {
    clearTimeout(this.#idle);
    if (this.#worker || this.#broken) return this.#worker;
    try {
      const worker = new Worker(path.join(__dirname, "worker.js"), { workerData: { mark: MARK, key: this.key }, env: {}, execArgv: [], stdin: false });
      worker.unref();
      worker.on("message", (shape: Uint8Array) => {
        this.#pending.shift()?.done(Buffer.from(shape.buffer, shape.byteOffset, shape.byteLength));
        if (this.#pending.length === 0) this.#idle = setTimeout(() => this.close(), IDLE).unref();
      });
      worker.on("error", () => this.#fail());
      worker.on("exit", () => {
        if (worker === this.#worker) this.#fail();
      });
      this.#worker = worker;
    } catch {
      this.#broken = true;
    }
    return this.#worker;
  }

  /** Shapes the pending jobs on this thread, because the worker failed. */
  #fail(): void {
    this.#broken = true;
    this.#worker = undefined;
    for (const { job, done } of this.#pending.splice(0)) done(new Shaper(this.key).shape(job));
  }
}

if (!isMainThread && (workerData as { mark?: unknown } | null)?.mark === MARK) {
  const shaper = new Shaper(Buffer.from((workerData as { key: Uint8Array }).key));
  parentPort!.on("message", (job: ShapeJob) => parentPort!.postMessage(shaper.shape(job)));
}
