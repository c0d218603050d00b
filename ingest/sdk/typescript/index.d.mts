export { bind, context, flush, instrument, run, stats, tool, uninstrument, version } from "./dist/index.js";
export type { Labels, Options, Stats } from "./dist/index.js";
