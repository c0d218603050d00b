// Package explain explains why provider calls failed, from an error text or from records of calls.
//
//	input ─┬─> text: an exception, a log, a web page, a body ─> statements ────┐
//	       └─> JSON lines of records ─> record ─┬─> text, status, provider ────┼─> cause.Classify ─> Result ─> Printer
//	                                            └─> request ─> target ─> rules ┘
//
// Package explain does not guess. A violation is the cause only if the provider is known to reject it. For an unknown
// provider, and for a gateway to other providers, violations that some providers reject are listed as possible, and the
// cause stays unexplained.
//
// Requests, answers and logs of them are left out of a text before its status and its cause are determined. If nothing that
// remains can be a refusal, the text states no error, which is an answer of its own. A text without a request, an answer or a
// successful status stays unexplained.
package explain
