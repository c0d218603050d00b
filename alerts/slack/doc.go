// Package slack sends alert groups to a Slack channel: one message per group, edited in place while it fires and when it is
// resolved, with each change as a reply in its thread.
//
//	Group ─> Notify ─┬─ first time: intent to the Store ─> chat.postMessage (metadata: notice id)
//	                 ├─ in doubt:   conversations.history, find the notice id ─> chat.update, or post again
//	                 └─ later:      chat.update, then a reply for news (cause, version, severity, resolved, reminder)
//
// A message answers the questions of the on-call engineer in order: what, since when, why, whose change, proof, what to do,
// where to look. Names, ids and texts come from agents and providers: all of them are escaped and truncated.
package slack
