// Package ingest is the way of a message from a provider call to the analyzer's door. It holds no code of its own; each
// folder is one step.
//
//	sdk/go, proxy, otlp …      an agent's call becomes two events, a request and a response
//	        │  event           what an event is: subject, headers, body
//	        v
//	natsserver or your NATS    JetStream keeps the events, on disk, for a day
//	        │
//	        v
//	jetstream                  the streams, a publisher, and the reader that the analyzer pulls from
//
// What comes in is whatever an agent sent and got, unjudged: a broken body is carried like any other. What goes out is
// events in the order of the stream, each once, with a checkpoint that survives the death of any process. Nothing here
// knows rules, causes or alerts, so a collector runs without analysis.
package ingest
