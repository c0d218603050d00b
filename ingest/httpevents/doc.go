// Package httpevents receives events over HTTP, from hooks whose agents may only speak HTTPS and from programs without a
// hook, and stores them in JetStream. ingest/sdk/README.md specifies the format.
//
//	POST /v1/events ──> httpbody: bounded memory ──> decode, check, mask ──> jetstream.PublishBatch ──> 200, once stored
//	 JSON or NDJSON              │ full                      │ malformed            │ NATS unreachable
//	                            429                 rejected, in the answer        503
//
// # Guarantees
//
// An answer with status 200 means that JetStream has stored all events but the rejected ones, whose indexes and errors are
// in the answer. After any other answer, and after none, nothing counts as stored, and the payload can be sent again:
// JetStream drops what it has stored by message ids. Events of a payload keep their order, and so do the payloads of a
// client that waits for each answer. An accepted event is one that event.Decode accepts, with the same limits. Bodies are
// stored byte for byte, except those of error responses, which are masked as in the hooks; a hook has masked them already,
// and masking twice changes nothing.
//
// # Bounds
//
// A payload has at most 32 MiB and 10,000 events. The memory of all payloads in flight is bounded by one httpbody.Budget
// (receive.max_in_flight): a payload takes its size and 2 KiB for each event. When the budget is full, clients are told to
// try again (429). NATS has 5 s to store a payload (503); if it is not connected, the answer is immediate. If NATS hangs
// while bytes are written to it, the payloads of up to eight batches stay in memory for some more seconds after their answers,
// so that at most twice the budget is in use.
//
// # Why bodies are decoded in place
//
// The text of a JSON string is never longer than the string with its escapes, and base64 is longer than what it encodes.
// Therefore bodies are decoded into the memory of the payload, and a request needs little more memory than its payload. A
// body that is an object or array is not parsed, only validated.
//
// # Cost
//
// Four clients that wait for each answer send payloads of 64 events or 1 MiB; clients, receiver and NATS with its disk share
// two cores (AMD EPYC, with other work). Beside it, the same events published to NATS by PublishBatch, without HTTP and JSON
// (go test ./ingest/httpevents -run - -bench Store -benchtime 3s):
//
//	body            over HTTP            to NATS
//	  1 KB     55,000 events/s     94,000 events/s
//	 10 KB     17,000  180 MB/s    34,000  350 MB/s
//	100 KB      2,000  210 MB/s     5,300  540 MB/s
//
// Decoding takes 3.5 ns per byte, a third of a core at 100 MB/s, of which half is unescaping; the bodies are JSON, so that
// each of their quotes is escaped. The path from NATS to ClickHouse takes 130 MB/s of 10 KB bodies, so one receiver is not its
// bottleneck.
package httpevents
