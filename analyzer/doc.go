// Package analyzer turns the events of LLM calls into findings, causes and tallies: what is wrong in a request, why an
// exchange failed, and what the agent did that made it so.
//
//	event ─> parts, encoding ─> facts ─┬─> rules ──────> violations ─┐
//	                                   └─> session ────> root causes ┼─> open exchange
//	event (response) ──────────────────> facts, cause ───────────────┴─> Exchange, Finding, ToolCall rows, Tally
//	event (run, tool) ─────────────────> runs, calls ────────────────> Run, ToolCall rows, Finding (signals)
//
// A rule (check.Rule, folder rules) says what is wrong in one request. The cause (folder cause) says why an exchange failed:
// the provider's words first, then the rules. The root cause (folder session) says what the agent did: it needs the
// request and the answer before. Analyzer joins them; check.Checker is the part that lint uses without a stream.
//
// # Why there is no clock and no I/O
//
// Everything is a function of the events and their stream positions. A process that dies leaves a checkpoint: every
// effect of the events up to `stored` is kept, and Analyzer.ReplayFrom said which older events live state still needs.
// The next process reads from there silently and goes on from stored+1, with the same rows, ids and tallies as if
// nothing had happened. A test stops the analyzer after each event of random streams and compares. Time-outs are
// events of their own, in stream time, at their deadline; so it makes no difference whether the next event or Advance
// finds them due.
//
// # Why known requests are not read again
//
// An agent sends its whole history each turn: of 50 turns, 96 of 100 bytes came before. Of a conversation with a given
// id, facts keep for each message of its newest two histories the xxh3 of its bytes and what was found in it, some 40
// bytes, and take from there what a new request repeats: hashing runs ten times as fast as scanning. This changes the
// time that a request takes and nothing else. It is bounded by a quarter of MaxStateBytes; what is evicted costs one whole
// scan. Without an id there is none: which conversation it is, the body tells. BenchmarkConversation measures it.
//
// # What an exchange goes through
//
// A request is scanned and judged when it comes, and only hashes, ids and names of it are kept. Its response completes
// it; a response that comes first waits 30 s, a request waits ExchangeTimeout. What has no readable body (capture none
// or cut, a dialect that cannot be scanned, a broken encoding) or is degraded becomes a row and counts in the tallies,
// but is not judged; of a stubbed request the model is taken, of a stubbed error its text.
//
// A body that should be readable and is not (a bad or unknown encoding, a bomb, parts that contradict each other or do
// not come, no JSON) is counted by reason and handed out as a DeadLetter beside the row. An exchange that is over is
// remembered by its hash for SessionLookback at least: what comes of it again changes nothing.
//
// # What absence says
//
// An answer that did not come is a failure, unless it may have been sent and lost: then, and for degraded requests, the
// row says "lost" and is no failure. Imports are never waited for. An answer that the agent did not read to its end is
// no failure either, and its calls count only if it was read up to its finish reason. A call that the agent itself gave
// up before it knew of an error is counted apart, as an SDK's retries are.
//
// # What becomes of a tool call
//
// A call is open until a request of its conversation holds its reply (answered, or duplicate, or late), or holds the call
// and no reply (missing). When that request is refused, no model read the reply: rejected, until another request with it
// is accepted. When the conversation just stops for ToolReplyTimeout, the call is abandoned: a user who left is no defect. It
// is terminal when the request had forced the tool, or when calls of the tool are hardly ever answered: structured
// outputs and final answers. What agents do with a tool is learned from the calls of the last SessionLookback, per
// service, so that a start reads it again.
//
// A call is missing too when the conversation goes on as if it had not been made, when its run ends in error, and when its
// process is silent since and another one goes on from a newer answer. This is told from absence: not of imports and
// degraded events, not after a gap in the sequence of the process, and as a signal (reply_never_arrived) only when calls
// of the tool are usually answered or its events say that it ran. What a request shows by itself, the rule
// missing_tool_reply tells, and says more: then there is no signal. A row of a call whose conversation is forgotten stays
// as it is.
//
// masked_failure wants a run that says ok and whose last call failed, alone: of calls side by side none is the last.
// conversation_ended_on_error stands for it where no run says how it ended, of a given conversation whose last request was
// refused for what it is, and after which no other came for ConversationIdleTimeout. Neither tells of silence alone. Run events
// are counted with the calls of their own partition: of several, that of the conversation.
//
// # What is new
//
// llmtap_new_causes_total counts a failed call whose cause and root cause its stage had not shown before, by what the
// ledger remembers for weeks. With N partitions each has a ledger of its own, so one cause is new N times at most.
//
// # How exact losses are
//
// A process numbers its events 1, 2, 3 …, dropped ones too, and each says how many exchanges the process dropped so far.
// With one partition, llmtap_lost_events_total is exactly the numbers missing between the first and the last event that
// was seen of a process: one is missing once a newer event came 30 s of stream time after it should have, or its process
// was silent for SessionLookback. (A process that was cut off sends what is older first, so the time of the outage does
// not count.) What hooks dropped is in it, up to two events an exchange, so what is lost on the way is at least
// lost - 2 * dropped. What cannot be decoded is missing too. Numbers before the first event count when the process says
// that it dropped all of them: NATS was away when it started. What it lost after its last event nobody knows.
// llmtap_dropped_exchanges_total is exactly what processes say; one that was silent for SessionLookback is a new one.
//
// With N partitions each sees only some events of a process, and a gap in one may lie in another: losses are not counted,
// and each partition counts the drops it hears of, N times at most. The reader's own count of events that left the stream
// unread is exact by partition.
//
// # What an identity is
//
// A caller sends its whole history each turn, so a defect is seen again and again. Finding.ID = SHA-256/128 of service,
// conversation, branch, rule, and call id or message hash: the conversation reports it once, and again only when its
// severity or root cause becomes stronger. Conversation ids are scoped by service, because nothing keeps two services
// from both counting 1, 2, 3.
package analyzer
