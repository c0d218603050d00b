// Package dialect composes the bodies of LLM calls, and says where they contain what, for each dialect.
//
//	Message, Response ─Of(d)─> Dialect ─> body             spans of OpenTelemetry, answers of regression tests
//	answer, stream ────────────> pointers ─> Assemble ─> message as the next request contains it
//
// A dialect is one file with one row; rows lists them. A function of a row is nil if the dialect has no such thing. Package wire
// has what hooks and analyzer need of a dialect, and package facts reads its bodies.
package dialect
