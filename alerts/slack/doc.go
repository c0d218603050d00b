// Package slack sends alert groups to Slack channels: one message per group. The message is edited in place while the
// group fires and when it is resolved; each change is also a reply in its thread. Several alerts about one problem are one
// group, which is resolved when none of them fires: that one of them ended is a line, and nothing that another one said is
// said again.
//
//	Group ─> Notify ─┬─ first time: intent to the Store ─> chat.postMessage (metadata: notice id)
//	                 ├─ in doubt:   conversations.history, find the notice id ─> chat.update, or post again
//	                 └─ later:      chat.update, then a reply for news (cause, version, severity, resolved, reminder)
//
//	Socket Mode ─> socket ─> presser ─> Controls: acknowledged, silenced ─> the leader's Notify edits the message
//
// A group becomes a post in this order of files, each of which calls only the next ones:
//
//	notifier.go               Notify and Fold, one call at a time; routes.go: the channel
//	fold.go                   which groups share a summary
//	summary.go, notices.go    what was sent of a summary, and of a group, and what is to be sent now
//	summary_text.go, blocks.go, evidence.go, change.go, status.go, news.go, hidden.go, content.go, text.go
//	                          its text
//	post.go, mention.go       the calls that post, edit, find and reply
//	limits.go, errors.go      the calls that Slack would not accept, and why
//
// Routes choose the channel by the labels of the group's worst alert. A group has one message per channel to which one of its
// states was routed. If the channel of a route rejects the first message, the default channel replaces it.
//
// A message answers the questions of the on-call engineer in order: what, since when, why, whose change, proof, what to
// do. These are at most ten lines on a phone; the buttons follow, and the details in containers that Slack collapses. If
// Slack rejects containers, the details are below the buttons. Names, ids and texts come from agents and providers, so all of them are escaped and truncated.
//
// # Why many alerts are one summary
//
// Slack accepts one message per second and channel. When 500 groups began to fire at once, the last message came after 8
// minutes, and nobody reads 500 messages. If more than 5 groups wait, they share a summary with the worst five. It is edited
// when its groups change, and its thread has only what concerns all of them: the end, a higher severity, a reminder. A few
// critical groups among many warnings, and a group that becomes critical later, get messages of their own, because they page.
//
// New groups join a summary for 10 minutes. An edit notifies nobody, so a later incident must not disappear in it. The record
// of a summary contains what its text needs of each group, so that a change of one group is one edit without reading the others,
// also in a process that takes over. If a summary is lost, its groups get messages of their own when they change.
//
// A summary has no buttons: one press would say that somebody handles hundreds of incidents that nobody has read. A storm is
// muted by a silence with matchers.
//
// # Why a press is acknowledged late
//
// Slack shows "the app did not respond" if an envelope is not acknowledged within 3 seconds. It is acknowledged after the
// action is stored, or after the person was told that it is not: a person must not believe that an alert is silenced if it
// is not. A press may arrive twice, at two processes, or after its incident. Therefore the id of a silence is derived from
// the press, and the value of a button contains the incident.
package slack
