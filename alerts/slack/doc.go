// Package slack sends alert groups to a Slack channel: one message per group. The message is edited in place while the
// group fires and when it is resolved; each change is also a reply in its thread.
//
//	Group ─> Notify ─┬─ first time: intent to the Store ─> chat.postMessage (metadata: notice id)
//	                 ├─ in doubt:   conversations.history, find the notice id ─> chat.update, or post again
//	                 └─ later:      chat.update, then a reply for news (cause, version, severity, resolved, reminder)
//
// A message answers the questions of the on-call engineer in order: what, since when, why, whose change, proof, what to
// do, where to look. Names, ids and texts come from agents and providers, so all of them are escaped and truncated.
package slack
