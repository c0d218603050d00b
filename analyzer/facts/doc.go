// Package facts reads the bodies of LLM calls into the facts that rules, sessions and causes need.
//
//	request body ──ScanRequest───> Request   messages, calls, replies, kinds, hashes      ─> rules, session
//	answer body ───ScanResponse──> Response  content hash, calls, usage, error, truncation ─> session, cause
//	     └ stream ─wire/sse─> events ─┘
//	URL, body ─────Detect────────> Target    dialect, variant, model                      ─> severity
//
// Rules read facts, never JSON. A wrong type is a fact, not an error: it is the evidence.
//
// A dialect is one family of files (chat_*.go, anthropic_*.go, …) and one row of formats in scan.go, in
// addition to its row in ingest/wire and its positions in shape_paths.json. Nothing else switches over dialects.
//
// # Why a hand-written scanner
//
// Parsing with encoding/json costs 5 to 12 CPU seconds per GB, 4 to 8 times what NATS itself costs; this scanner costs
// about 0.5. Values without facts are skipped by quotes and brackets (ingest/wire/jsonscan), so a body that is broken only
// inside such a value passes; the provider's answer reports that.
//
// # Why arguments are checked in place
//
// Tool call arguments are JSON text inside a JSON string. Unescaping them into a buffer and validating the buffer took
// half of the whole scan. checkArgs reads the escaped text with an explicit stack of one bit per level.
//
// # Why known messages are recognised one by one
//
// ScanRequestAfter takes the facts of repeated messages from a Memo. One hash over the whole known prefix would do if
// nothing else changed; but clients move marks such as cache_control from the last message to the new last one, write
// the time into the system prompt, and put parameters before the messages. With a hash per message each of these costs
// one message. It is the hash that Message.Hash needs anyway, and it is not slower: at 2 KB per message both ways run at
// 25 GB/s, 17 to 21 for bodies that are not in the CPU cache.
//
// # Why there are two kinds of hash
//
// Message.Hash covers the raw bytes: it recognises a message that a client sends again and again. ContentHash covers the
// decoded text: an answer has "\u003cb\u003e", and the client that stores and resends it writes "<b>".
//
// # What a hostile body can cost
//
// Every loop is linear in the body: nothing recurses by nesting, messages and calls are bounded, stream fragments search
// at most 1024 calls. Bytes that resemble a known message and differ are hashed in vain, at most the body's length in
// total.
package facts
