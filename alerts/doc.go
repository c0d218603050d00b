// Package alerts evaluates alert rules over tallies and notifies people and systems. Tallies arrive per second of stream time;
// rules are Prometheus rule files; groups of alerts go to notifiers.
//
//	                     ┌─────────────────────────── Engine ───────────────────────────┐
//	analyzer.Tally ─Add─>│ steps ─> samples (tsdb) ─> rules ─> groups ─> dispatcher ─Run┬─>│ Notifier: Slack …
//	                     │            └─ exact counts ─> Evidence ─┘└─> state           ├─>│ Recorder: alerts table
//	                     │                                                              └─>│ Store: intents, last step
//	                     └──────────────────────────────────────────────────────────────┘
//
// The notifiers are packages of their own (slack, alertmanager, webhook, heartbeat), and so are the rules (rules), their unit
// tests (ruletest) and the database (tsdb).
//
// # Why the numbers of a notification are not PromQL's
//
// increase() extrapolates. Evidence sums the tallies of the rule's window instead, so "43 of 98 calls" is exact. The shipped
// rules query [10m1ms] and round: samples are 5 s apart and a range excludes its left end, so one more millisecond includes the
// sample at the start of the window, and increase() becomes exact.
//
// # Why a series starts with a zero
//
// For PromQL, a counter that appears with value 7 has not increased. Every new series gets a zero one step before its first
// count, and every live series a sample at each step, so that a stage that fails twice an hour is not lost.
//
// # Why a restart neither repeats nor loses notifications
//
// A group is state, not a queue of messages: its alerts, and what each receiver was sent of it. Both are stored before a
// notifier is called, and after them the last evaluated step. A start replays tallies: steps up to the stored one rebuild the
// state of the rules without notifications, the next one compares.
//
// # Why a standby evaluates
//
// One of several processes leads: it holds a lease outside of this package and is in Run. The others receive tallies too, so
// that samples and states of rules are warm. A new leader only has to know what the previous one has sent, which is in the
// Store: taking over is a restart without the replay. A standby also tracks groups; alerts that began, or even ended, without
// a leader are sent by the next leader, as found late.
//
// # Why the numbers of a message may be old
//
// Slack accepts one message a second and about 50 edits a minute. When 200 groups were firing, each with new numbers at every
// step, a new group waited for them, one in ten for more than a minute. So new groups come first, then material changes, then
// numbers, which have a pace of their own; and intents of news are stored before the others.
//
// # Why a changed rule file needs no restart
//
// States of rules are separate from samples, so Reload replaces the rules: an unchanged rule keeps its state, a changed one
// starts over on the existing samples. Tuning a rule during an incident must not reset the others, and a typing error must
// not silence them.
package alerts
