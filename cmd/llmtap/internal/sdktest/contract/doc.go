// Package contract tests that the hooks of all languages publish the same events for the same calls.
//
//	ingest/sdk/testdata/cases*.json ──> Go:     hook ── net/http, openai-go, go-openai, … ─┐
//	                                ├─> Python: hook ── httpx, requests, aiohttp, openai, …  ──┤
//	                                └─> Node:   hook ── fetch, undici, node:http, openai, …  ──┴─> provider, which records the traffic
//	                                              │
//	                                              └─> NATS ──> events, compared with the traffic and with each other
//
// A case contains the request of a client and the response of the provider. It runs in every capture mode, with the Go hook
// and with every client of the other hooks. Each run is compared with the traffic: the payload is the body that the provider
// received or sent (full), its shape, or nothing. Then the runs of two languages are compared, headers and payloads byte for
// byte.
//
// # Permitted differences
//
// Ids, times, durations, the instance, the name of the SDK and the port of the provider are checked separately. The texts of
// an error may differ within a class. A body may be encoded or decoded, because a hook publishes the bytes of its client's
// transport.
//
// # Clients with different request bodies
//
// The SDKs of two languages encode the same parameters differently. The test therefore sends the requests of a client
// of another language again, byte for byte, through the Go hook, with the responses that the client received.
//
// # New cases and languages
//
// A new case is one entry in the data. A new language needs a program like those in python/ and node/, which reads commands and
// prints results, and a runner that starts the program.
package contract
