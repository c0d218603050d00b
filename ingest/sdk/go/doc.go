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
// # What an agent can rely on
//
// The hook never breaks, blocks or slows its agent. Bodies pass byte for byte; streams are teed, not buffered. NATS being
// down or slow is nothing the agent sees: calls wait in bounded memory, then whole exchanges are dropped, oldest first,
// and the next message says how many. Calls to other hosts are not touched. Of the request headers only the version
// headers, Content-Type, the SDK's retry count and the trace are read, so no key leaves the process; neither does a
// query string.
//
// # When a call ends
//
// At the terminal event of a stream ([DONE], message_stop, response.completed), at the end of the body, when the body is
// closed, when reading fails, or when the call is cancelled: whichever is first. An answer that the agent did not read
// to its end is published as far as it was read, with Llmtap-Error saying why it is not whole. A call without an answer
// has status 0.
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
// from the oldest on; JetStream knows those it has stored by their ids.
package llmtap
