// Package explain says why provider calls failed, from what their users have: a text, or records of calls.
//
//	input ─┬─> a text: an exception's string, a log, a page, a body ───────────┐
//	       └─> JSON lines of records ─> record ─┬─> text, status, provider ────┼─> cause.Classify ─> Result ─> Printer
//	                                            └─> request ─> target ─> rules ┘
//
// Nothing is guessed. A violation becomes the cause only where the server that answered is known to reject it. Of a
// server that nobody knows, and of a gateway, which has another behind it, the violations that some providers reject are
// named as possible, and the cause stays unexplained.
package explain
