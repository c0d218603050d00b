// Package analyzer turns the events of LLM calls into findings, causes and tallies: what is wrong in a request, why an
// exchange failed, and what the agent did that made it so.
//
//	event ─> parts, encoding ─> facts ─┬─> rules ──────> violations ─┐
//	                                   └─> session ────> root causes ┼─> open exchange
//	event (response) ──────────────────> facts, cause ───────────────┴─> Exchange, Finding, ToolCall rows, Tally
//
// A rule (Rule, folder rules) says what is wrong in one request. The cause (folder cause) says why an exchange failed:
// the provider's words first, then the rules. The root cause (folder session) says what the agent did: it needs the
// request and the answer before. Analyzer joins them; Checker is the part that lint uses without a stream.
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
// # What an exchange goes through
//
// A request is scanned and judged when it comes, and only hashes, ids and names of it are kept. Its response completes
// it; a response that comes first waits 30 s, a request waits ExchangeTimeout. What has no readable body (capture none
// or cut, a dialect that cannot be scanned, a broken encoding) or is degraded becomes a row and counts in the tallies,
// but is not judged.
//
// # What an identity is
//
// A caller sends its whole history each turn, so a defect is seen again and again. Finding.ID = SHA-256/128 of service,
// conversation, branch, rule, and call id or message hash: the conversation reports it once, and again only when its
// severity or root cause becomes stronger. Conversation ids are scoped by service, because nothing keeps two services
// from both counting 1, 2, 3.
package analyzer
