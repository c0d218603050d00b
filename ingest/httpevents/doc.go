// Package httpevents receives events over HTTP, from hooks whose agents may only speak HTTPS and from programs without a
// hook, and stores them in JetStream.
//
//	POST /v1/events ──> httpbody: bounded memory ──> decode, check, mask ──> jetstream.PublishBatch ──> 200, once stored
//	 JSON or NDJSON              │ full                      │ malformed            │ NATS unreachable
//	                            429                 rejected, in the answer        503
package httpevents
