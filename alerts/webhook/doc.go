// Package webhook posts alert groups to a URL. A post is signed JSON in the format of Alertmanager's webhook receiver
// (version "4"). It is sent when a group fires, changes, is due for a reminder or is resolved.
//
//	POST /hook
//	Content-Type: application/json
//	X-Llmtap-Delivery: 9f2c…            the same for every attempt to deliver one state
//	X-Llmtap-Timestamp: 1767225600      Unix seconds of this attempt
//	X-Llmtap-Signature: sha256=5d1a…    hex HMAC-SHA256 of "<timestamp>.<body>", keyed with the secret
//
// # How a receiver verifies a post
//
// The receiver computes the HMAC of the timestamp header, a dot and the body as received, and compares it with the
// signature in constant time. It rejects timestamps that differ from its clock by minutes, so that a captured post
// cannot be replayed. For Go, see the example of this package. In Python:
//
//	mac = hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
//	ok = hmac.compare_digest("sha256=" + mac, signature) and abs(time.time() - int(timestamp)) < 300
//
// # Why a delivery may arrive twice
//
// After a timeout it is unknown whether the post arrived, so it is sent again: delivery is at-least-once. A receiver
// that must not act twice should remember the values of X-Llmtap-Delivery. Status 2xx accepts a post. After 408, 425,
// 429, 5xx or no response, the group's current state is sent with exponential backoff of up to a minute. Any other
// status is final.
package webhook
