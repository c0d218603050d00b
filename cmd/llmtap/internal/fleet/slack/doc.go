// Package slack fakes Slack's Web API on loopback: it receives messages in Slack's wire format, rejects those that Slack
// would reject, and stores the others.
//
//	slack-go ── POST /api/chat.postMessage ──> Server ──> Messages, Text (as displayed)
//
// Clients use the base URL http://<address>/api/ and any token that begins with "xox". Messages refer to the channels in
// Config by id or by name.
package slack
