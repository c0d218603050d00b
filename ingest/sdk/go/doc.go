// Package llmtap records the LLM calls of a Go agent: an http.RoundTripper between the provider's SDK and the network.
//
// Input: HTTP calls, whatever SDK makes them. Output: two NATS messages per call, as package event defines them: the request
// when it is sent, the response when it ends. Labels come from the context of the call.
//
//	agent ── SDK ── http.Client ── Transport ──────────────> provider
//	                                  │ copies of bodies
//	                                  v
//	                       queue (64 MiB, oldest dropped) ── sender ──> NATS JetStream
//
// Example programs for openai-go, anthropic-sdk-go and go-openai are in deploy/examples/go. The package is a module of its
// own, which requires nats.go and little else.
//
// # Guarantees
//
// The hook never breaks, blocks or slows its agent. Bodies pass byte for byte; streams are teed, not buffered. The agent
// does not notice when NATS is down or slow: calls are queued in bounded memory, then the oldest exchanges are dropped, and
// the next message has their number. Memory is reserved before it is allocated, including that of responses being read.
// Close returns in time even if the network hangs. Calls to other hosts pass unchanged. Of the request headers, the hook
// reads only the version headers, Content-Type, the SDK's retry count and the trace, so no key leaves the process. Query
// strings do not leave it either, in a URL or in an error.
//
// # Published data
//
// By default bodies are published as their shape: roles, ids, function names, parameters and usage stay, and a text becomes
// its length and a hash keyed with LLMTAP_SHAPE_KEY (package ingest/shape). A body of an unknown API, in an unknown encoding
// or over the size limit becomes one hash. The first 4 KiB of error responses stay, because they name the error, with
// credentials and personal data masked (package ingest/event/redact). Config.Capture publishes more or less; error responses
// are always masked. Config.Redact removes other data that must not leave the process.
//
// # Cost
//
// Time that the hook adds to a call on the agent's goroutine, in microseconds. Request and response each have the given
// size. Most of the time is copying; on a busy machine the p99 is due to the garbage collector and the scheduler
// (go test -run - -bench Call -benchtime 1500x -count 3; median of the runs; 2 cores, load 5 to 8):
//
//	           NATS up          NATS down, memory full
//	          p50    p99        p50    p99
//	 10 KB     24    108          8     67
//	100 KB     91    509         61    450
//
// Shaping is not included: the sender shapes bodies after the call, in 0.2 ms for 100 KB, with memory reserved before.
//
// # End of a call
//
// A call ends at the terminal event of a stream ([DONE], message_stop, response.completed, done: true), at the end of the
// body, when the body is closed, when reading fails, or when the call is cancelled, whichever is first. A response that the
// agent did not read to its end is published up to there, with the reason in Llmtap-Error. A call without a response has
// status 0. A body that is neither read nor closed ends when the garbage collector finds it; its memory is bounded until
// then. SDKs close error responses unread before a retry; the hook reads them in the background, up to 64 KiB, one second
// and 64 at a time, because their text is the evidence. A request whose body was not read to its end is degraded.
//
// # Why some responses that were closed early are complete
//
// A client that decodes JSON stops at the last brace and never asks for the end of the body; one that decompresses a stream
// itself stops at its terminal event. The sender decides from the bytes whether a response is complete.
//
// # Traces
//
// The Traceparent of a request is published. An instrumented transport sets it if it wraps the hook:
// otelhttp.NewTransport(hook.Transport(nil)). Config.Traceparent supplies it for requests without the header.
//
// # NATS permissions
//
// Publish llmtap.v1.*.<service>.* and subscribe to _INBOX.<service>.>, where <service> is event.ServiceToken of the service.
// The hook creates no stream and calls no other JetStream API.
//
// # Why messages are numbered before they can be dropped
//
// Seq counts the agent's events, not the sent ones, so a reader sees every loss as a gap and concludes nothing from absent
// events around it. The parts of one body share a number.
//
// # Why a failed message is resent with all that follow it
//
// Up to 256 messages are in flight, and a failure is nearly always one of the connection, so of all of them. The sender
// resends from the oldest on; JetStream recognises stored ones by their ids. At the start and after a failure, one message
// goes ahead of the others: without a stream, or while a server stops, a later message could be stored before an earlier
// one. Therefore the retries of the NATS client are off, too. One case remains: a cluster that changes its leader while
// messages are in flight may store a later one first; Llmtap-Seq shows it.
package llmtap
