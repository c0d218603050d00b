package slack

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
)

// errLimited is returned instead of a call during a rate limit.
var errLimited = errors.New("over Slack's rate limit")

// errRejected is returned instead of a call after Slack rejected a message to the same channel.
var errRejected = errors.New("not tried again yet")

// A rejection is the error of a channel that rejects all messages until somebody mends it.
type rejection struct {
	err   error
	until time.Time // when it is tried again
}

// limitKey identifies a rate limit. Slack limits posts by channel, and other methods by app.
func (n *Notifier) limitKey(method string, p *notice) string {
	if method == "chat.postMessage" {
		return method + " " + cmp.Or(n.ids[p.Target], p.Target)
	}
	return method
}

// checkLimit returns an error while method is rate-limited, because a call would prolong the limit, and while the channel
// rejects messages, because each call would fail.
func (n *Notifier) checkLimit(method string, p *notice) error {
	if wait := time.Until(n.limited[n.limitKey(method, p)]); wait > 0 {
		return &alerts.RetryError{After: wait, Err: fmt.Errorf("%s: %w", method, errLimited)}
	}
	if r := n.rejected[p.Target]; time.Until(r.until) > 0 {
		return fmt.Errorf("%w: %w", r.err, errRejected)
	}
	return nil
}

// failed classifies err, and records a rate limit of method and a rejection by the channel.
func (n *Notifier) failed(method string, p *notice, err error) outcome {
	if limited, ok := errors.AsType[*slack.RateLimitedError](err); ok {
		key, end := n.limitKey(method, p), time.Now().Add(limited.RetryAfter)
		n.limitedFor.Add(max(min(time.Until(end), end.Sub(n.limited[key])), 0).Seconds())
		n.limited[key] = end
	}
	out := classify(method, err)
	if channelCodes[out.code] && method != "conversations.history" {
		n.rejected[p.Target] = rejection{out.err, time.Now().Add(rejectedFor)}
	}
	return out
}

// later makes an error that somebody must mend retryable: then everything that still fires is sent without a restart. A
// rejected token is tried with one group at a time.
func (n *Notifier) later(err error) error {
	retry, ok := errors.AsType[*alerts.RetryError](err)
	switch code := codeOf(err); {
	case ok && retry.Down:
		n.down = err
		return err
	case err == nil || ok:
		return err
	case accountCodes[code]:
		n.down = &alerts.RetryError{After: rejectedFor, Down: true, Err: err}
		return n.down
	case channelCodes[code]:
		after := rejectedFor
		for _, r := range n.rejected {
			if wait := time.Until(r.until); wait > 0 {
				after = min(after, wait)
			}
		}
		return &alerts.RetryError{After: after, Err: err}
	}
	return err
}
