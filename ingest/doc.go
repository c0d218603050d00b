// Package ingest carries events from a provider call to the analyzer. It contains no code; each folder is one step.
//
//	sdk/go, proxy, otlp …      capture a call as two events, a request and a response
//	        │  event           the wire contract: subject, headers, body
//	        v
//	natsserver or your NATS    JetStream stores the events on disk, for a day by default
//	        │
//	        v
//	jetstream                  streams, publisher, and the reader of the analyzer
//
// Events carry the bytes that an agent sent and received, unchanged and unjudged, even if a body is broken. The reader
// returns them once, in stream order, with a checkpoint that survives the death of any process. Nothing here depends on
// rules, causes or alerts, so a collector runs without analysis.
package ingest
