// Package event is the wire contract between everything that sees LLM calls and everything that judges them: which
// subject a message has, what its headers mean, and nothing about how it travels. It imports the standard library only,
// so that the hook of an agent pulls in nothing with it.
//
//	agent's call ──> hook ──> Event ──Encode──> subject  llmtap.v1.request.checkout.7f
//	                                            headers  Llmtap-Exchange, Llmtap-Time, Llmtap-Stage …
//	                                            payload  the provider's body, byte for byte
//	                                               │
//	                                          NATS JetStream
//	                                               │
//	analyzer <── Event <──Decode── subject, headers, payload        what Decode refuses is a dead letter
//
// An exchange is two messages, its request when it is sent and its response when it ends, with the same exchange id.
// A run and a tool message each say that something started or ended.
//
// # Why the payload is the body and nothing else
//
// The defect looked for is often in the bytes: arguments that are an object where a string belongs, a body that is not
// JSON. An envelope would have to encode such a body, which costs more than carrying it, or repair it, which loses the
// evidence. So all metadata is headers, Encode and Decode never look at the body, and no function here copies it.
//
// # Why values are percent-encoded and cut
//
// NATS headers are lines of text, stage names may be Chinese, and NATS refuses headers over 64 KiB. A value is at most
// 512 bytes after encoding; it is cut between characters. Ids longer than that are hashed where NATS compares them
// (Nats-Msg-Id), because cutting would make two different ids equal and lose one message.
//
// # What is refused
//
// Decode refuses a subject that is none of the contract, a missing required header, and a number or time that does not
// fit. Unknown headers and unknown values of Capture and Origin pass: version 1 is accepted for ever, and a newer hook
// may know more.
package event
