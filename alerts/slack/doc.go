// Package slack tells alert groups in Slack: one message per group, edited in place while it fires and when it is
// resolved, with what changed as replies in its thread.
//
//	Group ─> Notify ─┬─ first time: intent to the Store ─> chat.postMessage (metadata: notice id)
//	                 ├─ in doubt:   conversations.history, look for the notice id ─> chat.update, or post again
//	                 └─ later:      chat.update, then a reply for news (cause, version, severity, resolved, reminder)
//
// A message answers in the order in which it is asked at 3 a.m.: what, since when, why, whose change, proof, what to
// do, where to look. Names, ids and texts in it come from agents and providers: all of them are escaped and cut.
package slack
