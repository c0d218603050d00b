// The module for import. It loads the same code as require, so that a process has one hook.
import llmtap from "./dist/index.js";

export const { bind, context, flush, instrument, run, stats, tool, uninstrument, version } = llmtap;
