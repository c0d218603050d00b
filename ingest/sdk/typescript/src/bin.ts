#!/usr/bin/env node
// The command llmtap: the collector in the package of this platform, which npm installs with a release of this one.
import { spawn } from "node:child_process";

import { collector, collectorPackage } from "./collector";

function fail(why: string): never {
  console.error(`llmtap: ${why}`);
  process.exit(1);
}

const path =
  collector() ??
  fail(
    `the package ${collectorPackage} is not installed: run npm install with --include=optional, or see https://github.com/llmtap/llmtap for other platforms`,
  );
const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (e) => fail(`run ${path}: ${e.message}`));
// A terminal sends SIGINT to the collector, too, which ends at once at the second one.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code ?? 1);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
