// Package webhook posts alert groups to a URL: JSON in the format that Alertmanager's webhook receiver has (version "4"),
// signed, one post for each group that fires, changes, is due for a reminder or is resolved.
//
//	POST /hook
//	Content-Type: application/json
//	X-Llmtap-Delivery: 9f2c…            the same for each try of one state
//	X-Llmtap-Timestamp: 1767225600      Unix seconds of this try
//	X-Llmtap-Signature: sha256=5d1a…    hex HMAC-SHA256 of "<timestamp>.<body>", keyed with the secret
//
// # How a receiver checks a post
//
// It computes the HMAC over the bytes of the timestamp header, a dot, and the body as it came, compares it in constant
// time, and refuses a timestamp that is minutes away from its clock, or anyone who saw a post could send it again. In Go
// that is the example of this package; in Python:
//
//	mac = hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
//	ok = hmac.compare_digest("sha256=" + mac, signature) and abs(time.time() - int(timestamp)) < 300
//
// # Why a delivery may come twice
//
// After a time-out nobody knows whether the post arrived, so it is sent again: at least once. A receiver that must not act
// twice remembers X-Llmtap-Delivery. 2xx accepts a post; 408, 425, 429 and 5xx, or no answer, have it tried again with a
// growing wait of up to a minute, with the state that the group has by then; any other status refuses it for good.
package webhook
