// Package slack fakes Slack's Web API on loopback: it accepts messages in Slack's wire format, rejects what Slack rejects, and
// stores them.
//
//	slack-go ── POST /api/chat.postMessage ──> Server ──> Messages, Text (as displayed)
//
// Clients use the base URL http://<address>/api/ and any token that begins with "xox". Messages name the channels of Config by
// id or by name.
package slack
