// Package wire is what llmtap knows of the APIs of LLM providers, once, for hooks and analyzer alike.
//
//	URL ────────────> DetectURL ────> Target       dialect, variant, model
//	content type ───> NewStreamEnd ─> StreamEnd    where a stream ends
//	finish reason ──> AtTokenLimit
//	HTTP status ────> RetryableStatus
//
// Descriptors has one row per dialect, Providers one row per provider. The Python hook reads the same rows: go generate
// writes them to ingest/sdk/python/llmtap/_wire.py.
//
// # Why one package
//
// These tables existed in up to four copies: analyzer, shape, Go hook, Python hook, proxy. They had drifted: the hooks
// did not record api.kimi.com and the Azure clouds of governments, whose variants the analyzer knew; one list of finish
// reasons at the token limit had Cohere's, the other Anthropic's.
//
// Package wire imports the standard library only, because every agent with a hook links it.
package wire

//go:generate go test -run TestPythonTable -update .
