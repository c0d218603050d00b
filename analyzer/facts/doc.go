// Package facts extracts from the bodies of LLM calls the facts that rules, sessions and causes need.
//
//	request body ──ScanRequest───> Request   messages, calls, replies, kinds, hashes      ─> rules, session
//	answer body ───ScanResponse──> Response  content hash, calls, usage, error, truncation ─> session, cause
//	     └ stream ─wire/sse─> events ─┘
//	URL, body ─────Detect────────> Target    dialect, variant, model                      ─> severity
//
// Rules read facts, never JSON. A value of the wrong type is a fact, not an error, because it is evidence.
//
// Each dialect has its own files (chat_*.go, anthropic_*.go, …) and one row in formats (scan.go). Package wire lists the
// other places of a dialect.
//
// # Why a hand-written scanner
//
// Parsing with encoding/json costs 5 to 12 CPU seconds per GB, 4 to 8 times as much as NATS itself; this scanner costs
// about 0.5. Values that contain no facts are skipped by matching quotes and brackets alone (ingest/sdk/go/wire/jsonscan), so an
// error inside such a value is not detected here; the provider's answer reveals it.
//
// # Why arguments are checked in place
//
// Tool call arguments are JSON text inside a JSON string. Unescaping them into a buffer and validating the buffer took
// half of the time of a scan. checkArgs reads the escaped text with an explicit stack of one bit per level.
//
// # Why known messages are recognised one by one
//
// ScanRequestAfter copies the facts of repeated messages from a Memo. One hash of the whole known prefix would suffice if
// clients only appended messages, but they also move marks such as cache_control from the last message to the new last
// message, write the time into the system prompt, and put parameters before the messages. With a hash per message, each of
// these costs the scan of one message. Message.Hash needs that hash anyway, and it is not slower: at 2 KB per message,
// both ways run at 25 GB/s, or at 17 to 21 GB/s for bodies that are not in the CPU cache.
//
// # Why there are two kinds of hash
//
// Message.Hash covers the raw bytes and identifies a message that a client sends repeatedly. ContentHash covers the decoded
// text, because an answer may contain "\u003cb\u003e" where the client that stores and resends it writes "<b>".
//
// # What a hostile body can cost
//
// Every loop is linear in the body: there is no recursion over nested values, the numbers of messages and calls are
// limited, and a stream fragment is compared with at most 1024 calls. Bytes that resemble a known message but differ from
// it are hashed in vain, at most the length of the body in total.
package facts
