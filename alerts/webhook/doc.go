// Package webhook posts alert groups to a URL: JSON in the format of Alertmanager's webhook receiver (version "4"), signed, one
// post for each group that fires, changes, is due for a reminder or is resolved.
//
//	POST /hook
//	Content-Type: application/json
//	X-Llmtap-Delivery: 9f2c…            the same for every attempt to deliver one state
//	X-Llmtap-Timestamp: 1767225600      Unix seconds of this attempt
//	X-Llmtap-Signature: sha256=5d1a…    hex HMAC-SHA256 of "<timestamp>.<body>", keyed with the secret
//
// # How a receiver verifies a post
//
// It computes the HMAC of the timestamp header, a dot and the body as received, compares it in constant time, and rejects a
// timestamp that is minutes off its clock, so that a captured post cannot be replayed. In Go that is the example of this
// package; in Python:
//
//	mac = hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
//	ok = hmac.compare_digest("sha256=" + mac, signature) and abs(time.time() - int(timestamp)) < 300
//
// # Why a delivery may arrive twice
//
// After a timeout it is unknown whether the post arrived, so it is sent again: at least once. A receiver that must not act
// twice remembers X-Llmtap-Delivery. 2xx accepts a post. After 408, 425, 429, 5xx or no response, the group's current state is
// sent with exponential backoff of up to a minute. Any other status is final.
package webhook
