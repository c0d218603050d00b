// Package ingest transports events from provider calls to the analyzer. It contains no code; each folder is one step.
//
//	sdk/go, proxy, otlp …      capture a call as two events, a request and a response
//	        │  event           the wire contract: subject, headers, body; over HTTP, through httpevents
//	        v
//	natsserver or your NATS    JetStream stores the events on disk, for a day by default
//	        │
//	        v
//	jetstream                  streams, publisher, and the reader of the analyzer
//
// Events contain the bytes that an agent sent and received, unchanged and unchecked, even if a body is broken. The
// reader returns each event once, in stream order, and stores a checkpoint that survives a crash of any process. No
// package in ingest depends on rules, causes or alerts, so a collector can run without analysis.
package ingest
