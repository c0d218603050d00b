// Package analyzer turns the events of LLM calls into exchanges, findings, tool calls, runs and tallies: what is wrong in a
// request, why an exchange failed, and what the agent did to cause it.
//
//	Process ─> time-outs that are due (Analyzer.expireNext)
//	   │
//	   ├─ request, response ─> exchanges: parts, halves ─┬─> Analyzer.request
//	   │                                                 │     bodies, facts ─> judge ─> calls ─> signals ─> contents
//	   │                                                 └─> Analyzer.complete: the second half, or a time-out
//	   │                                                       bodies, facts ─> judge ─> calls ─> contents ─> cause ─> signals
//	   │                                                       Analyzer.report ─> rows, tallies
//	   ├─ tool ─> calls ─> ToolCall rows
//	   └─ run ──> runs ──> Run rows, signals
//
// A rule (package rules) says what is wrong in one request. The cause (package cause) says why an exchange failed: the
// provider's text first, then the rules. The root cause (package session) says what the agent did, from the request and
// the answer before. Package judge joins rules and root causes, for the stream and for lint. A part of the analyzer, such as
// toolCalls or runs, gets a step: the time, and where its rows go.
//
// # Why there is no clock and no I/O
//
// Everything is a function of the events and their stream positions. A process that dies leaves a checkpoint: every
// effect of the events up to `stored` is stored, and Analyzer.ReplayFrom names the oldest event that live state still
// needs. The next process reads from there silently and continues at stored+1 with the same rows, ids and tallies. A test
// stops the analyzer after each event of random streams and compares. Time-outs happen in stream time, at their deadline,
// so it makes no difference whether the next event or Advance finds them due.
//
// # Why known requests are not scanned again
//
// An agent sends its whole history each turn: over 50 turns, 96 of 100 bytes were sent before. For a conversation with a
// given id, facts keep the xxh3 of each message of its newest two histories and what was found in it, some 40 bytes, and
// reuse that for what a new request repeats: hashing is ten times as fast as scanning. This changes nothing but the time
// that a request takes. The memos take at most a quarter of MaxStateBytes; an evicted one costs one whole scan. Without a
// given id there is none, because only the body identifies the conversation. BenchmarkConversation measures it.
//
// # Which exchanges are judged
//
// A request is scanned and judged when it arrives, and only its hashes, ids and names are kept. Its response completes it. A
// response that arrives first waits 30 s for its request; a request waits ExchangeTimeout for its response. A degraded
// exchange, or one without a readable body (capture none or cut, an unknown dialect, a broken encoding), has a row and
// counts in the tallies, but is not judged; a truncated request still supplies its model, a truncated error its text.
//
// A body that should be readable and is not (unknown encoding, decompression bomb, contradicting or missing parts, no JSON)
// is counted by reason and emitted as a DeadLetter in addition to the row. The hash of a completed exchange is kept for
// SessionLookback at least: its events change nothing when they arrive again.
//
// # When absence is evidence
//
// A missing answer is a failure, unless it may have been sent and lost: then, and for degraded requests, the row says
// "lost" and is no failure. Imports never wait. An answer that the agent did not read to its end is no failure, and its
// calls count only if the agent read its finish reason. A call that the agent cancelled before it knew of an error is
// counted separately, as are an SDK's retries.
//
// # What becomes of a tool call
//
// A call is open until a request of its conversation contains its reply (answered, or duplicate, or late), or contains the
// call and no reply (missing). If that request is refused, no model read the reply: the call is rejected, until another
// request with the reply is accepted. If the conversation just stops for ToolReplyTimeout, the call is abandoned: a user who
// left is no defect. A call is terminal if the request forced the tool, or if calls of the tool are hardly ever answered:
// structured outputs and final answers. The outcomes of the last SessionLookback are counted per service and tool, so that
// a restart reads them again.
//
// A call is also missing if the conversation continues as if the call had not been made, if its run ends in error, and if
// its process has been silent since and another one continues from a newer answer. Absence is no evidence for imports and
// degraded events, nor after a gap in the sequence of the process. It becomes a signal (reply_never_arrived) only if calls
// of the tool are usually answered or its events report that it ran. Where the request itself shows it, the finding of the
// rule missing_tool_reply contains more, and there is no signal. A row of a call whose conversation is forgotten stays as
// it is.
//
// masked_failure requires a run that reports ok and a last call that failed and was alone: none of several concurrent calls
// is the last. conversation_ended_on_error replaces it where no run event reports the end, for a conversation with a given
// id whose last request was refused for its content and that was idle for ConversationIdleTimeout. Run events are counted
// with the calls of their own partition: with several, that of the conversation.
//
// # When a cause is new
//
// llmtap_new_causes_total counts a failed call whose cause and root cause its stage had not shown before, according to the
// ledger. With N partitions each has a ledger of its own, so one cause is new at most N times.
//
// # How exact losses are
//
// A process numbers its events 1, 2, 3 …, including dropped ones, and each event contains the number of exchanges that the
// process has dropped. With one partition, llmtap_lost_events_total is exactly the numbers missing between the first and
// the last event seen of a process. A number is missing once a newer event arrived 30 s of stream time after it was due, or
// the process was silent for SessionLookback. (A process that was cut off sends older events first, so the time of the
// outage does not count.) Events that hooks dropped are included, up to two per exchange, so at least lost - 2 * dropped
// were lost on the way. Events that cannot be decoded are missing too. Numbers before the first event count if the process
// reports that it dropped all of them: NATS was unreachable when it started. Losses after its last event are unknown.
// llmtap_dropped_exchanges_total is exactly what processes report; a process that was silent for SessionLookback counts
// as new.
//
// With N partitions each sees only some events of a process, and a gap in one may be filled in another: losses are not
// counted, and each partition counts the drops that it sees, at most N times. The reader's own count of events that left
// the stream unread is exact per partition.
package analyzer
