// Package analyzer turns the events of LLM calls into exchanges, findings, tool calls, runs and tallies. It shows what
// is wrong in a request, why an exchange failed, and what the agent did to cause the failure.
//
//	Process ─> timeouts that are due (state.next)
//	   │
//	   ├─ request, response ─> exchanges: parts, halves ─┬─> Analyzer.request
//	   │                                                 │     bodies, facts ─> judge ─> calls ─> signals ─> contents
//	   │                                                 └─> Analyzer.complete: the second half, or a timeout
//	   │                                                       bodies, facts ─> judge ─> calls ─> contents ─> cause ─> signals
//	   │                                                       Analyzer.report ─> rows, tallies
//	   ├─ tool ─> calls ─> ToolCall rows
//	   └─ run ──> runs ──> Run rows, signals
//
// A rule (package rules) describes what is wrong in one request. The cause (package cause) explains why an exchange
// failed: the provider's text takes precedence over the rules. The root cause (package session) is what the agent did,
// according to the request and the answer before it. Package judge combines rules and root causes, for the stream and
// for lint. Each part of the analyzer, such as toolCalls or runs, receives a step: the stream time and the output for
// rows.
//
// # Why there is no clock and no I/O
//
// Everything is a function of the events and their stream positions. A process that dies leaves a checkpoint: every
// effect of the events up to `stored` is stored. Analyzer.ReplayFrom returns the oldest event that live state depends
// on. The next process silently replays the stream from there and continues at stored+1 with the same rows, ids and
// tallies. A test stops the analyzer after each event of random streams and compares the results. Timeouts happen in
// stream time, at their deadline, so it makes no difference whether the next event or Advance triggers them.
//
// # Why known requests are not scanned again
//
// An agent sends its whole history each turn: over 50 turns, 96 of 100 bytes were sent before. For a conversation with
// a given id, package facts stores the xxh3 of each message of the newest two histories and what the message
// contained, about 40 bytes per message, and reuses that for repeated messages: hashing is ten times as fast as
// scanning. This affects only the time that a request takes. The memos use at most a quarter of MaxStateBytes, and an
// eviction costs one full scan. Conversations without a given id have no memo, because only the body identifies them, and
// requests below 32 KiB are scanned whole. BenchmarkConversation measures the effect.
//
// # Which exchanges are judged
//
// A request is scanned and judged when it arrives, and only its hashes, ids and names are retained. Its response
// completes it. A response that arrives first waits 30 s for its request; a request waits ExchangeTimeout for its
// response. A degraded exchange, or one without a readable body (capture none or cut, an unknown dialect, a broken
// encoding), has a row and counts in the tallies, but is not judged. A truncated request still provides its model, and
// a truncated error its text.
//
// A body that should be readable but is not (unknown encoding, decompression bomb, contradictory or missing parts,
// invalid JSON) is counted by reason and emitted as a DeadLetter, in addition to the row. The hash of a completed
// exchange is retained for at least SessionLookback, so that its events are ignored if they arrive again.
//
// # When absence is evidence
//
// A missing answer is a failure unless it may have been sent and lost. In that case, and for degraded requests, the
// row has the error type "lost" and is not a failure. Imports never wait. An answer that the agent did not read to the
// end is not a failure, and its calls count only if the agent read its finish reason. Calls that the agent cancelled
// before it received an error, and an SDK's retries, are counted separately.
//
// # What becomes of a tool call
//
// A call is open until a request of its conversation contains its reply (answered, duplicate or late), or contains the
// call without a reply (missing). The reply may have a new id if the request contains the call with that id in its place,
// or be told in a user message to another agent of the conversation. If that request is refused, no model read the reply:
// the call is rejected until another request with the reply is accepted. If the conversation just stops for
// ToolReplyTimeout, the call is abandoned: a user who left is not a defect. A call is terminal if the request forced the
// tool, or if calls of the tool are hardly ever answered: structured outputs and final answers. The outcomes of the last
// SessionLookback are counted per service and tool, so that a restart can restore them.
//
// A call is also missing if the conversation continues as if the call had not been made, if its run ends in error, or
// if its process has been silent since and another process continues from a newer answer. Absence proves nothing for
// imports and degraded events, or after a gap in the sequence of the process. A missing reply becomes a signal
// (reply_never_arrived) only if calls of the tool are usually answered or tool events report that the tool ran. If the
// request itself lacks the reply, the finding of the rule missing_tool_reply has more detail, and there is no signal.
// The row of a call does not change after its conversation is dropped.
//
// A reply is read once, when it is first seen: does it report an error (package toolreply), and is it what the same call
// returned before? It counts unless its request is refused. Equal turns in a row, also of loops of up to three turns, are
// repeated calls from the third time on, and a loop (agent_loop) from the fifth; see session.Turn.Repeats for what is progress.
//
// masked_failure requires a run that reports ok, and a last call that failed while no other call was in flight: none
// of several concurrent calls is the last. Without a run event for the end, conversation_ended_on_error replaces it,
// for a conversation with a given id whose last request was refused for its content and that was then idle for
// ConversationIdleTimeout. Run events are evaluated with the calls of their own partition: if there are several, the
// partition of the conversation.
//
// # When a cause is new
//
// llmtap_new_causes_total counts a failed call whose combination of cause and root cause is new for its stage,
// according to the ledger. Each of N partitions has its own ledger, so one cause is new at most N times; readers of
// tallies count it once.
// For the same reason, what a target tolerates and a limit of parallel calls that shows in several conversations are known
// later if the conversations are spread over partitions.
//
// # What became of the prompt cache
//
// An answer says how many tokens the provider read from its cache. What it could have read is the prompt of the call before in the
// same history, of which 64 bytes are remembered: hashes of the tools, the system prompt and the parameters, the provider's own count
// of tokens, and the time. The messages are in the skeleton. (Package session compares histories without their system prompt; here it is
// compared too.) The first difference in the order of the provider is the reason, and tokens are shares of the count of the call
// before, by size: nothing counts tokens. Package promptcache knows what providers document.
//
// The first call of a history is compared with other calls of its stage, host and model, of which the newest beginnings are
// remembered for as long as conversations, and at most an hour. If the calls that begin conversations never begin alike, that is the
// reason; of the newest system prompt, the text is kept to say what differs in it.
//
// A change is told only if tokens were missed, and if the provider could still have had them: after its time to live, whatever changed
// cost nothing. A verdict needs a reported use of the cache; failed, cancelled and repeated calls have none. Events do not say
// which account a call was made with, so a change of the account looks like an eviction.
//
// # How exact losses are
//
// A process numbers its events 1, 2, 3 …, including dropped ones, and each event contains the number of exchanges that
// the process has dropped. With one partition, llmtap_lost_events_total is exactly the count of numbers missing
// between the first and the last event seen of a process. A number is missing once a newer event arrives 30 s of
// stream time after it was due, or once the process has been silent for SessionLookback. (A process that was cut off
// sends older events first, so the time of the outage does not count.) Events that hooks dropped are included, up to
// two per exchange, so at least lost - 2 * dropped events were lost in transit. Events that cannot be decoded are
// missing too. Numbers before the first event count if the process reports that it dropped all of them because NATS
// was unreachable when it started. Losses after its last event are unknown. llmtap_dropped_exchanges_total is exactly
// what processes report; a process that was silent for SessionLookback counts as new. llmtap_uncaptured_calls_total counts
// the calls that processes report as not captured. Calls before the first event seen of a process count only if that
// event is its first, or the first that it did not drop.
//
// With N partitions, each sees only some events of a process, and the events missing in one may be in another. Losses
// are therefore not counted, and each partition counts the drops and uncaptured calls that it sees: at most N times in
// total. The reader's own count of events that left the stream unread is exact per partition.
package analyzer
