// Package engine evaluates alert rules over tallies and notifies receivers. Tallies arrive per second of stream time; rules are
// Prometheus rule files; groups of alerts go to notifiers.
//
//	                     ┌─────────────────────────── Engine ───────────────────────────┐
//	analyzer.Tally ─Add─>│ steps ─> samples (tsdb) ─> rules ─> groups ─> dispatcher ─Run┬─>│ Notifier: Slack …
//	                     │            └─ exact counts ─> Evidence ─┘└─> state           ├─>│ Recorder: alerts table
//	                     │                                                              └─>│ Store: intents, last step
//	                     └──────────────────────────────────────────────────────────────┘
//
// The files, from left to right:
//
//	engine.go, config.go               New, Add, Observe, Run, Reload, and their configuration
//	steps.go, samples.go, versions.go  tallies to steps, steps to series; the first call of each service version
//	evaluate.go, regressions.go        rules over the series; comparisons of versions are gauges of their own
//	usual.go, band.go                  what is usual of each stage, and gauges of what is unusual; what pages draw behind a line
//	history.go, measured.go            the same learned from stored calls; calls of each version above what is usual
//	limits.go, budgets.go              what remains of rate limits, and when nothing does; what is spent of budgets
//	histogram.go                       what stages measure, for PromQL
//	evidence.go                        cause, versions and examples of an alert, from exact counts
//	groups.go, group.go, inhibit.go    instances of rules to alerts and groups
//	decisions.go                       silences and acknowledgements
//	delivery.go, fold.go, faults.go    which receiver is sent which group when
//	state.go, shared.go                the stored groups: for the next leader, and for every process
//	query.go, rulestate.go, waiting.go what others ask the engine
//	backtest.go                        the same over stored tallies
//
// # Why the numbers of a notification are not PromQL's
//
// The function increase() extrapolates. Evidence sums the tallies of the rule's window instead, so "43 of 98 calls" is
// exact. The shipped rules query [10m1ms] and round: a range excludes its left end, where there is a sample, so one
// more millisecond includes the sample at the start of the window, and increase() becomes exact.
//
// # Why a series starts with a zero
//
// For PromQL, a counter that appears with value 7 has not increased. Every new series therefore starts with a zero one
// step before its first count, and every live series has a sample at each step. Otherwise a stage that fails only twice
// an hour would be missed.
//
// # Why an alert needs new failures
//
// 30 of 60 calls failed, then there was silence. Nine minutes later the alert became critical, because the successful
// calls left the window of 10 minutes before the failed ones. After a fix, the share rose from 20 to 30 % for the same
// reason, and the alert ended 15 minutes after the last failure. Therefore an alert begins, and its numbers, peak and
// severity change, only in an evaluation with failures that the one before did not include. The shipped rules also have
// a short window, like burn-rate rules: they end 5 minutes after the last failure. Without any calls since, that would
// not be a success, so the alert fires until the failures have left its window.
//
// # Why a restart neither repeats nor loses notifications
//
// A group is state, not a queue of messages. The state consists of the alerts of the group and of what each receiver
// has been sent. Both are stored before a notifier is called; the last evaluated step is stored after them. An engine
// replays tallies when it starts: the steps up to the stored step rebuild the state of the rules without notifications,
// and the next step is compared with the stored groups.
//
// # Why a standby evaluates
//
// One of several processes is the leader: it holds a lease, which is managed outside of this package, and executes Run.
// The other processes also receive tallies, so that their samples and rule states are warm. A new leader only needs
// what the previous leader has sent, which is in the Store, so taking over is a restart without a replay. A standby
// also tracks groups. Alerts that began, or even ended, while there was no leader are sent by the next leader and
// marked as found late.
//
// # Why the numbers of a message may be old
//
// Slack accepts one message per second and about 50 edits per minute. When 200 groups were firing, each with new
// numbers at every step, new groups waited behind these edits, one in ten for more than a minute. New groups are
// therefore sent first, then material changes, then numbers, which have their own rate limit. For the same reason,
// intents of groups with news are stored first.
//
// # Why a receiver may fold notifications
//
// A storm is not a queue of messages either. A receiver that is a Folder gets all first notifications that are due in one
// call, and says which of them it has sent as a summary. The changes of these groups are passed together, too, and 2 seconds
// apart, because each call is an edit. Receivers that are systems get every group alone.
//
// # Why a resolved group stays open for a while
//
// An alert ends 5 minutes after the last failure. Failures in bursts, 7 minutes apart, would page for each burst. An alert
// that fires again within the window of its rule therefore continues its group: the same message is updated and its thread
// gets a reply, without the urgency of a new alert.
//
// # Why a silence changes only what people are sent
//
// A silenced or inhibited alert is evaluated, recorded and passed to receivers with silences of their own, so that its
// history is complete and no number depends on a silence. Only when a group is due for people, the dispatcher looks whether
// it is muted. A message that exists is edited once, so that nobody reads old numbers as current ones, and turns green at the
// end. A group that people do not know yet stays unknown; when its silence ends, it is a new alert.
//
// Silences and acknowledgements are stored by any process, and every process has all of them in memory. A new leader
// therefore knows them before its first notification.
//
// # Why an alert hides another one by its failures
//
// Inhibition by labels would hide every alert of a stage during an outage of its provider, also those about a defect of
// the last deployment. The alerts of a stage have no provider label either. An inhibition rule with same_failures instead
// counts the failures in the target's window that the source counts as well, and leaves alerts that have enough others.
//
// # Why what is usual survives a restart
//
// What is usual of a stage is learned over weeks, but tallies are kept for two hours. What is known is therefore stored every
// storeUsualEvery minutes, in shards and at different times, together with the last minute that it includes. An engine that starts, or a
// standby, reads it and replays the tallies of later minutes, so that it knows what the others know, and an alarm about what is unusual
// continues. ClickHouse is not needed. Minutes in which the collector was down teach nothing.
//
// What is spent of a budget is kept in the same way, in one value with the last step that it includes, which is stored every
// storeBudgetsEvery seconds.
//
// The leader asks ClickHouse once, in the background, about each stage that the Store does not know. The answer replaces what the stage
// has learned since, and the Store then has it for the others. A new normal is valid from a second of stream time on, so that every
// engine applies it at the same step.
//
// # Why a histogram is of a stage and of a minute
//
// PromQL can ask for quantiles of latency, tokens and cost, so they are native histograms. With a sample a second of each series of
// calls, as counters have them, 10 calls a second would take about 20 bytes each, 70 kB an hour for each measure, version, agent,
// provider and model; two counters, below and above a learned mark, take 7 kB, and know no quantile. What is usual is learned
// from each minute of a stage, so that sum exists anyway. As a sample it takes 46 bytes and 32 for its time: 4.7 kB an hour for each
// measure of a stage with 10 calls a second, and 12 MB for all five of 500 such stages. The price is that they have neither version nor
// model, and that rate needs a range of two minutes. Durations and cost have buckets with bounds of their own, because those of the
// distributions are powers of two of milliseconds and microdollars; those of tokens are those of schema 2.
//
// # Why a changed rule file needs no restart
//
// The states of rules are separate from the samples, so Reload only replaces the rules: an unchanged rule keeps its
// state, and a changed rule starts over on the existing samples. Tuning a rule during an incident must not reset the
// other rules, and a typing error must not silence them.
package engine
