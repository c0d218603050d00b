// Package contract tests that the hooks of all languages publish the same events for the same calls.
//
//	ingest/sdk/testdata/cases*.json ──> Go:     hook ── net/http, openai-go, go-openai, … ─┐
//	                                └─> Python: hook ── httpx, requests, aiohttp, openai, …  ──┴─> provider, which remembers the wire
//	                                              │
//	                                              └─> NATS ──> events, compared with the wire and with each other
//
// A case says what a client sends and what the provider answers. It is run in every capture mode, by the Go hook and by
// every client of the others. Each run is first held against the wire: the payload is what the provider saw and said
// (full), its shape, or nothing. Then the runs of two languages are compared, header by header and byte by byte.
//
// # What may differ
//
// Ids, times, durations, the instance, the name of the SDK and the port of the provider, all of which are checked by
// themselves; the words of an error, where it is of the same class; whether a body travels in the encoding that the
// provider chose or decoded, for a hook publishes what its client's transport gives it.
//
// # How clients are compared that write other bodies
//
// The SDKs of two languages write the same question with other bytes. What a Python client sent is therefore sent again,
// byte for byte, through the Go hook, and answered with what the provider said to the Python client.
//
// # What a new case or a new language needs
//
// A case is one entry of data. A language is a program like those in python/, which reads commands and answers them, and
// an implementation of hook that starts it.
package contract
