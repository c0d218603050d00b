// Package wire describes the APIs of LLM providers for hooks, proxy and analyzer.
//
//	URL ────────────> DetectURL ────────> Target       dialect, variant, model
//	content type ───> NewStreamEnd ─────> StreamEnd    where a stream ends
//	finish reason ──> AtTokenLimit
//	HTTP status ────> RetryableStatus
//	body ───────────> sse, eventstream ─> events ─> jsonscan
//
// Descriptors has one row per dialect, and Providers has one row per provider with its hosts. The Python hook has the
// same tables: go generate writes them to ingest/sdk/python/llmtap/_wire.py.
//
// # Adding a dialect
//
// A dialect requires a row of Descriptors; files with the dialect's prefix and a row of formats in analyzer/facts; a file
// with a row in ingest/dialect; a row of grammars in analyzer/rules; and an entry in ingest/sdk/testdata/shape_paths.json
// with golden files. Tests fail if a row is missing. Rules that only some variants need contain these.
//
// # Why one package
//
// The analyzer, shape, the Go hook, the Python hook and the proxy had copies of these tables, and the copies had
// diverged. The hooks did not record api.kimi.com and Azure's government clouds, although the analyzer had their
// variants. There were two lists of finish reasons at the token limit: one lacked the reasons of Anthropic, the other
// those of Cohere.
//
// Every agent with a hook links package wire, so it imports only the standard library.
package wire

//go:generate go test -run ^Test(Python|TypeScript)Table -update .
