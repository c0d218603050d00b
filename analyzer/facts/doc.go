// Package facts reads the bodies of LLM calls and says what the analyzer needs to know of them.
//
//	request body ──ScanRequest───> Request   messages, calls, replies, kinds, hashes ─> rules, session
//	answer body ───ScanResponse──> Response  content hash, calls, usage, error, cut  ─> session, cause
//	     └ event stream ─sse─> chunks ─┘
//	URL, model ────Detect────────> Target    dialect, variant, model                 ─> severity
//
// Rules look at facts, never at JSON. A wrong type is a fact, not an error: it is the evidence.
//
// # Why a scanner of our own
//
// Parsing with encoding/json costs 5 to 12 CPU seconds per GB, 4 to 8 times what NATS itself costs; this scanner costs
// about 0.5. It looks for the end of a string by its quotes with IndexByte and counts the backslashes before them:
// code has a backslash on every line, and a search that stops at each is half as fast. Values that no fact is taken
// from are skipped by quotes and brackets, so a body that is broken only inside of them passes; the provider's answer
// tells of those.
//
// # Why arguments are judged in place
//
// Tool call arguments are JSON text inside a JSON string. Unescaping them into a buffer and validating that took half
// of the whole scan. checkArgs reads the escaped text as it stands, with an explicit stack of one bit a level.
//
// # Why known messages are recognised one by one
//
// ScanRequestAfter takes from a Memo what a request repeats of the ones before it. One hash over all of the known prefix
// would do where nothing else changes; but clients move marks such as cache_control from the last message to the new
// last one, write the time into the system prompt, and put parameters before the messages. By message each of these
// costs one message, the hash is the one that Message.Hash needs anyway, and it is no slower: at 2 KB a message, both
// ways run at 25 GB/s, 17 to 21 where the bodies come from memory.
//
// # Why two kinds of hash
//
// Message.Hash is of the raw bytes: it recognises a message that a client sends again and again. ContentHash is of
// the decoded text: an answer says "\u003cb\u003e" and the client that stores and resends it writes "<b>".
//
// # What a hostile body can do
//
// Every loop is linear in the body: nothing recurses by its nesting, messages and calls are bounded, stream fragments
// look through at most 1024 calls. What looks like a known message and is not is hashed in vain, up to the body's length
// in all.
package facts
