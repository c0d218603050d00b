// Records the calls of a program that does not call instrument(): node --import llmtap/register agent.mjs. The settings are those of
// the environment, $LLMTAP_CAPTURE among them. It gives way to an instrument() of the program. Errors never reach the program.

import { install, type CaptureMode } from "./index";

try {
  install({ capture: (process.env.LLMTAP_CAPTURE || undefined) as CaptureMode | undefined }, true);
} catch (e) {
  console.warn(`llmtap: the calls of this program are not recorded: ${String(e)}`);
}
