// Package event is the wire contract between the hooks that capture LLM calls and the analyzer: the subject of a message
// and the meaning of its headers, independent of the transport. It imports only the standard library, so a hook adds no
// dependencies.
//
//	agent's call ──> hook ──> Event ──Encode──> subject  llmtap.v1.request.checkout.7f
//	                                            headers  Llmtap-Exchange, Llmtap-Time, Llmtap-Stage …
//	                                            payload  the provider's body, byte for byte
//	                                               │
//	                                          NATS JetStream
//	                                               │
//	analyzer <── Event <──Decode── subject, headers, payload        messages that Decode rejects become dead letters
//
// An exchange is two messages with the same exchange id: its request when it is sent, and its response when it ends.
// Run and tool messages report the start or end of a run or tool. Hook messages have no payload: they report the counts
// of a hook (Llmtap-Dropped, Llmtap-Uncaptured), which all messages have, while its process sends no others, and that the process
// is alive or ends (Llmtap-Hook-Status).
//
// # Why the payload contains only the body
//
// Defects are often in the bytes, for example arguments that are an object instead of a string, or a body that is not
// JSON. An envelope would have to encode such a body, which costs more than transferring it, or repair it, which
// destroys the evidence. Therefore all metadata is in headers. Encode and Decode do not read the body, and no
// function in this package copies it.
//
// # Frames
//
// Where many events of a conversation wait, one after the other, one message carries up to 32 of them, see MayFollow. A single
// event is never a frame. The subject is llmtap.v1.frame.<service>.<shard>, and the headers are Llmtap-Frame: 1, the version of
// the format, and Nats-Msg-Id: the ids of the first event, the number of events and the id of the last one, separated by dots, or,
// if that is longer than 512 bytes, "sha256:" and its hash in hex. The payload is the events, one after the other:
//
//	<kind> <bytes of the lines> <bytes of the body>\n
//	<name>:<value>\n …
//	<body>
//
// The lines are the headers of the event as a message of its own, other than Nats-Msg-Id, that differ from those of the event of
// the same kind before it in the frame, in the order of their names. A line without a value removes a header. Of requests and
// responses that alternate, most headers are thus sent once. A reader neither scans nor copies bodies. An invalid event does not
// affect the others; what follows an invalid length is unreadable. Readers older than frames reject them.
//
// # Why values are percent-encoded and truncated
//
// NATS headers are lines of text and limited to 64 KiB, but values such as stage names may contain any characters. A
// value has at most 512 bytes after encoding; it is truncated between characters. Longer message ids (Nats-Msg-Id)
// are hashed, because truncation could make two different ids equal, and one message would be lost.
//
// # Where in the code
//
// Llmtap-Code on a request names the line of the agent's own code that made the call, which is not one of a library or of the
// hook:
//
//	core/agent.py:145 Agent.run
//
// The file is relative to the project, with slashes. After a colon follows the line, and after a space the function, which
// has neither spaces nor colons, so that the last space separates it; it may be missing. The file contains at most 160 bytes
// of its end and the function 64 of its start, so that the line is never truncated.
//
// # Accounts
//
// Llmtap-Account on a request is a hash of its API key (see HashAccount), and of the headers OpenAI-Organization and OpenAI-Project, because
// providers keep a prompt cache per account. Hooks read the key in package ingest/sdk/go/wire. The hash says whether two calls have the
// same key, and nothing else: it is 4 bytes of an HMAC. Of AWS, the key is the access key's id, because the signature differs in each call.
// There is no header if there is no key, or one that expires and is renewed (JSON web tokens, tokens of OAuth and of AWS STS), as a
// renewal is no other account.
//
// # Rate limits
//
// Llmtap-Rate-Limits on a response is what its headers say of each rate limit: what remains, the limit and when it is reset, as
// the provider writes them, and when to try again:
//
//	requests=9999/10000/8.64s tokens=149984/150000/6m0s retry_after=20
//
// The kinds are requests, tokens, input_tokens and output_tokens; retry_after is in seconds, retry_after_ms in milliseconds.
// What a provider does not say is empty. Hooks read the headers in package ingest/sdk/go/wire, and no others. A value is omitted
// if it has more than 32 bytes, or others than letters, digits and .:+-.
//
// # What is rejected
//
// Decode rejects subjects outside the contract, missing required headers, and numbers or times out of range. Unknown
// headers and unknown values of Capture and Origin are accepted, because version 1 is accepted forever and newer
// hooks may send more.
package event
