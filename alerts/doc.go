// Package alerts turns tallies into messages to a human. Tallies come in, one per second of stream time; alert rules,
// which are Prometheus rule files, are evaluated over them; groups of alerts go out to notifiers.
//
//	                     ┌──────────────────────── Engine ────────────────────────┐
//	analyzer.Tally ─Add─>│ samples (tsdb head) ─> PromQL rules ─> notices ─Run──┬─>│ Notifier: Slack …
//	                     │   └ exact counts ─────> Evidence ───────┘           ├─>│ Recorder: alerts table
//	                     │                                                     └─>│ Store: intents, last step
//	                     └────────────────────────────────────────────────────────┘
//
// # Why the numbers of a message are not PromQL's
//
// increase() extrapolates. Evidence sums the tallies of the rule's window instead, so "43 of 98 calls" is what
// happened. The shipped rules ask for [10m1ms] and round: samples lie on a grid of 5 s and a range excludes its left
// end, so a millisecond more takes in the sample that the window starts from, and increase() becomes exact.
//
// # Why a series starts with a zero
//
// A counter that appears with value 7 has, for PromQL, not increased. Every new series gets a zero one step before its
// first count, and every live one a sample at each step, so that a stage which fails twice an hour is not lost.
//
// # Why restarts neither repeat nor lose
//
// Notices are state, not a queue of things to send: what a group should say, and what each notifier was told. Both are
// written to the Store before a notifier is called, with the last evaluated step after them. A start replays tallies;
// steps up to the stored one rebuild the state of the rules and tell nobody, the next one compares.
//
// # Why a standby evaluates
//
// Of several processes one leads: it holds a lease outside of this package and is in Run. The others feed their engines too,
// so that samples and the state of the rules are warm. What the new leader must know beside that is what the old one told,
// and that is in the Store: taking over is a restart without the replay. A standby keeps notices too, without telling them:
// what began, and even ended, while nobody led is told by the next leader, as found late.
//
// # Why the numbers of a message may be old
//
// Slack takes a message a second and about 50 edits a minute. With 200 groups firing, each with new numbers every step, a
// group that began meanwhile waited for them, one in ten for more than a minute. So what nobody was told goes first, then material
// changes, then numbers, which have a pace of their own; and intents of news are written before the others.
//
// # Why a changed rule file does not need a restart
//
// Rules are state machines beside the samples, so Reload swaps them: a rule that asks the same takes its machine along, a
// changed one begins over samples that reach back as before. Whoever tunes a rule during an incident must not reset the
// others, and a typing error must not silence them.
//
// # Why not Prometheus's own rule manager
//
// Package rules of Prometheus imports its notifier and with it Alertmanager's API models; what is needed of it here is
// the state machine in rule.go.
package alerts
