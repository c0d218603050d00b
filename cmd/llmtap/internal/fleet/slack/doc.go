// Package slack fakes Slack on loopback: the Web API, Socket Mode, and a web page with the channels. It receives messages in
// Slack's wire format, rejects those that Slack would reject, and stores the others. A person presses buttons on the page.
//
//	slack-go ── POST /api/chat.postMessage ──> Server ──> Messages, Text (as displayed)
//	         <── WebSocket /link ─────────────   ↑ Press
//	         ── POST /actions/… ──────────────> Notes
//	browser  ── GET /, POST /press ────────────> page
//
// Clients use the base URL http://<address>/api/, any token that begins with "xox" and, for Socket Mode, any that begins with
// "xapp-". Messages refer to the channels in Config by id or by name.
package slack
