// Package llmtap records the LLM calls of a Go agent with an http.RoundTripper between the provider's SDK and the
// network.
//
// Input: the HTTP calls of any SDK. Output: two NATS messages per call in the format of package event, one for the
// request when it is sent and one for the response when it ends. Labels come from the context of the call.
//
//	agent ── SDK ── http.Client ── Transport ──────────────> provider
//	                                  │ copies of bodies
//	                                  v
//	                       queue (64 MiB, oldest dropped) ── sender ──> NATS JetStream
//
// Example programs for openai-go, anthropic-sdk-go and go-openai are in deploy/examples/go. The package is a separate
// Go module with few dependencies besides nats.go.
//
// # Guarantees
//
// The hook never breaks, blocks or slows its agent. Bodies pass unchanged; streams are copied while they are read,
// not buffered. A NATS server that is down or slow does not affect the agent: calls are queued in bounded memory; if
// it is full, the oldest exchanges are dropped, and the next message contains their number. Memory is reserved before
// it is allocated, also for responses that are being read. Close returns in time even if the network hangs. Calls to
// other hosts pass unchanged; those that look like LLM calls are counted, and each such host is logged once. Of the
// request headers, the hook reads only the version headers, Content-Type, the SDK's retry count, the trace, and the API key, of
// which 4 bytes of a keyed hash leave the process. Of the response headers, it reads those of the body, the request id and rate limits. Query
// strings do not leave it either, neither in a URL nor in an error.
//
// # Published data
//
// By default bodies are published as their shape: roles, ids, function names, parameters and usage are retained, and
// each text is replaced by its length and a hash keyed with LLMTAP_SHAPE_KEY (package ingest/sdk/go/shape). A body of an
// unknown API, in an unknown encoding or over the size limit is replaced by one hash. The first 4 KiB of error
// responses are retained, because they describe the error; credentials and personal data in them are masked (package
// ingest/sdk/go/event/redact). Config.Capture publishes more or less; error responses are always masked. Config.Redact
// removes other data that must not leave the process.
//
// # Cost
//
// The table shows the time that the hook adds to a call on the agent's goroutine, in microseconds. Request and
// response each have the given size. Most of the time is spent on copying; on a busy machine, the garbage collector
// and the scheduler determine the p99 (go test -run - -bench Call -benchtime 1500x -count 3; median of the runs; 2
// cores, load 5 to 8):
//
//	           NATS up          NATS down, memory full
//	          p50    p99        p50    p99
//	 10 KB     24    108          8     67
//	100 KB     91    509         61    450
//
// Shaping is not included, because the sender shapes bodies after the call. It takes 0.2 ms for 100 KB; its memory is
// reserved first.
//
// # End of a call
//
// A call ends at the terminal event of a stream ([DONE], message_stop, response.completed, done: true), at the end of
// the body, when the body is closed, when reading fails, or when the call is cancelled, whichever is first. If the
// agent did not read a response to its end, the part that was read is published, with the reason in Llmtap-Error. A
// call without a response has status 0. A call whose response body is neither read to its end nor closed ends when
// the garbage collector finds the body; until then its memory is bounded. SDKs close error responses unread before a
// retry; the hook reads them in the background, up to 64 KiB, one second and 64 at a time, because their text
// explains the failure; not while a call may wait for the connection (MaxConnsPerHost). A request whose body was not read to its end is marked as degraded.
//
// # Why some responses that were closed early are complete
//
// A client that decodes JSON stops reading at the last brace, and a client that decompresses a stream itself stops at
// the terminal event. Neither reads the end of the body. The sender therefore examines the bytes to determine whether
// a response is complete.
//
// # Where in the code
//
// A request has the line that made the call: the innermost frame of the program's main module, also below SDKs that are
// vendored. The frames of a stack of 20 take a microsecond and no allocation, once they are known. A call on a goroutine that
// a library started has none. Config.NoCode turns it off.
//
// # Traces
//
// The Traceparent of a request is published. An instrumented transport sets it if it wraps the hook:
// otelhttp.NewTransport(hook.Transport(nil)). Config.Traceparent supplies it for requests without the header.
//
// # Problems with NATS
//
// While the hook cannot publish, it logs the URL of NATS, without credentials, the reason and the fix: at once, after a
// minute, after two more, and so on up to once an hour; and once when it works again. Close logs the number of exchanges
// that are lost, and why. A hook that works logs nothing.
//
// # Without NATS
//
// With Config.Endpoint or LLMTAP_ENDPOINT, the sender posts the events to an llmtap with the role receive, which stores them
// in NATS: one payload of up to 1 MiB, or one longer event, at a time, with the same queue, counters and logs. It sends a
// payload again, whole and in order, after a network error and any answer that may change (a full receiver, NATS down, a
// wrong token, another server at the URL), and drops only what the receiver rejects. The payload is not part of the memory
// limit.
//
// # NATS permissions
//
// The hook must be allowed to publish to llmtap.v1.*.<service>.* and to subscribe to _INBOX.<service>.>, where
// <service> is the event.ServiceToken of the service. It creates no streams and calls no other JetStream API.
//
// # Why messages are numbered before they can be dropped
//
// Seq counts all events, not only the sent ones. A reader sees every loss as a gap and draws no conclusions from
// missing events near it. The parts of one body have the same number.
//
// # Why a failed message is resent together with all later ones
//
// Up to 256 messages are in flight, and a failure is nearly always a failure of the connection, which affects all of
// them. The sender resends all of them, starting with the oldest; JetStream drops stored ones by their ids. At the
// start and after a failure, the sender waits until one message is stored before it sends others. Otherwise, a later
// message could be stored before an earlier one if the stream does not exist yet or a server is stopping. For the
// same reason the retries of the NATS client are disabled. In one case the order may still change: a cluster that
// changes its leader while messages are in flight may store a later message first. Llmtap-Seq reveals this.
package llmtap
