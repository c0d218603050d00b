// Package wire describes the APIs of LLM providers for hooks, proxy and analyzer.
//
//	URL ────────────> DetectURL ────────> Target       dialect, variant, model
//	content type ───> NewStreamEnd ─────> StreamEnd    where a stream ends
//	finish reason ──> AtTokenLimit
//	HTTP status ────> RetryableStatus
//	body ───────────> sse, eventstream ─> events ─> jsonscan
//
// Descriptors has one row per dialect, Providers one row per provider with its hosts. The Python hook reads the same rows:
// go generate writes them to ingest/sdk/python/llmtap/_wire.py.
//
// # Adding a dialect
//
// A dialect is a row of Descriptors, a family of files with its prefix in analyzer/facts and their row in formats there, and
// its entry in ingest/sdk/testdata/shape_paths.json with golden files. Tests fail if a row is missing. Rules that reject
// requests of the dialect name it in their tables.
//
// # Why one package
//
// The analyzer, shape, the Go hook, the Python hook and the proxy had copies of these tables, and the copies had drifted. The
// hooks did not record api.kimi.com and Azure's government clouds, whose variants the analyzer knew. One list of finish
// reasons at the token limit lacked Anthropic's, the other Cohere's.
//
// Every agent with a hook links package wire, so it imports the standard library only.
package wire

//go:generate go test -run TestPythonTable -update .
