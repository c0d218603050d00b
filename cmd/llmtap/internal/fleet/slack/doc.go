// Package slack is a stand-in for Slack's Web API on loopback: it accepts messages in Slack's wire format, refuses what
// Slack refuses, and keeps them.
//
//	slack-go ── POST /api/chat.postMessage ──> Server ──> Messages, Text (as a reader would see it)
//
// Clients use the base URL http://<address>/api/ and any token that begins with "xox". The channels of Config exist; a
// message may name them by id or by name.
package slack
