// Package silence matches silences against alerts. A silence suppresses the notifications of the alerts that it matches,
// from its start to its end; the alerts are evaluated and stored as always. Silences are those of Alertmanager: the same
// matchers, the same JSON.
//
//	KV bucket ── watch ──> Set ── Find(labels, now) ──> Alert.Silence ──> dispatcher
//	    ↑                   └── Next(now): when to look again
//	HTTP API, Slack buttons
//
// # Why the end is not a timer
//
// A silence ends because its end is in the past, at every process, also at one that starts later. Nothing has to run at
// the end, so nothing can be missed.
package silence
