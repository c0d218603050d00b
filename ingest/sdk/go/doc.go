// Package llmtap records the LLM calls of a Go agent: an http.RoundTripper between the provider's SDK and the network.
//
// It comes in as HTTP calls, whatever SDK makes them, and goes out as two NATS messages per call, as package event
// defines them: the request when it is sent, the response when it ends. Labels come from the context of the call.
//
//	agent ── SDK ── http.Client ── Transport ──────────────> provider
//	                                  │ copies of bodies
//	                                  v
//	                       queue (64 MiB, oldest dropped) ── sender ──> NATS JetStream
//
// Programs to start from, for openai-go, anthropic-sdk-go and go-openai, are in deploy/examples/go.
//
// # What an agent can rely on
//
// The hook never breaks, blocks or slows its agent. Bodies pass byte for byte; streams are teed, not buffered. NATS being
// down or slow is nothing the agent sees: calls wait in bounded memory, then whole exchanges are dropped, oldest first,
// and the next message says how many. Memory is reserved before it is allocated, that of answers still being read
// included. Close keeps to its time, whatever hangs. Calls to other hosts are not touched. Of the request headers only
// the version headers, Content-Type, the SDK's retry count and the trace are read, so no key leaves the process; neither
// does a query string, in a URL or in an error.
//
// # What leaves the process
//
// By default bodies are published as their shape: roles, ids, function names, parameters and usage stay, a text becomes
// its length and a hash keyed with LLMTAP_SHAPE_KEY (package ingest/shape). Bodies of an API that is not known, in an
// encoding that the hook cannot read or too long to keep become one hash. Of error answers the first 4 KiB stay, because
// they say what was wrong, with credentials and personal data masked (package ingest/event/redact). Config.Capture
// publishes more or less, error answers always masked; Config.Redact takes out what else must not leave.
//
// # What it costs
//
// Time that the hook adds to a call on the goroutine of the agent's code, in microseconds. Request and answer each have
// the size given; copying them is most of it, and on a busy machine the p99 is the garbage collector's and the
// scheduler's (go test -run - -bench Call -benchtime 1500x -count 3; median of the runs; 2 cores, load 5 to 8):
//
//	           NATS up          NATS down, memory full
//	          p50    p99        p50    p99
//	 10 KB     24    108          8     67
//	100 KB     91    509         61    450
//
// Shaping is not in it: the sender does it behind the call, in 0.2 ms for 100 KB, and reserves the memory for it first.
//
// # When a call ends
//
// At the terminal event of a stream ([DONE], message_stop, response.completed, done: true), at the end of the body, when
// the body is closed, when reading fails, or when the call is cancelled: whichever is first. An answer that the agent did
// not read to its end is published as far as it was read, with Llmtap-Error saying why it is not whole. A call without an
// answer has status 0. A body that is neither read nor closed ends when the garbage collector finds it; its memory is
// bounded until then. An error answer that is closed unread, as SDKs do before they try again, is read in the background,
// up to 64 KiB, a second and 64 of them at a time, because its text is the evidence. A request whose body was not read to
// its end is degraded.
//
// # Why some answers are whole though they were closed early
//
// A client that decodes JSON stops at the last brace and never asks for the end of the body, and one that decompresses a
// stream itself stops at its terminal event. Whether something is left is judged from the bytes, behind the call.
//
// # Traces
//
// The Traceparent of a request is published. An instrumented transport sets it when it is above the hook's:
// otelhttp.NewTransport(hook.Transport(nil)). Config.Traceparent gives it for requests without one.
//
// # What NATS must allow
//
// Publishing to llmtap.v1.*.<service>.* and reading _INBOX.<service>.>, where <service> is event.ServiceToken of the
// service. The hook makes no stream and asks JetStream for nothing.
//
// # Why messages are numbered before they can be dropped
//
// Seq counts what the agent did, not what was sent, so a reader sees every loss as a gap and draws no conclusion from
// what is absent around it. The parts of one body share a number.
//
// # Why a failed message is sent again with all that follow it
//
// Up to 256 messages are in flight, and what fails is nearly always the connection, so all of them. They are sent again
// from the oldest on; JetStream knows those it has stored by their ids. After a failure, and at first, one goes ahead of
// the others: where there is no stream yet, or a server stops, a later message could be stored before an earlier one. For
// the same reason the NATS client's own attempts are off. One case is left: a cluster that changes its leader while
// messages are in flight may store a later one first; Llmtap-Seq shows it.
package llmtap
