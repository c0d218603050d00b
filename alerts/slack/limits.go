package slack

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
)

const (
	// rejectedFor is the time after which a channel that rejected a message is tried again, with one message. Until then, its
	// messages are not sent.
	rejectedFor = time.Minute
	// limitEcho is the time after the end of a rate limit for which the next posts are expected to be limited, too.
	limitEcho = 10 * time.Second
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

// limits remember what Slack does not accept at present, so that no call is made in vain.
type limits struct {
	limited  map[string]time.Time // end of the rate limit, by key
	rejected map[string]rejection // last rejection of a message, by configured channel
	ids      map[string]string    // ids of channels, by configured channel; known after the first message
	down     error                // of the current call: Slack accepts nothing at present, so its other messages are not tried
	seconds  prometheus.Counter   // counts the seconds of rate limits
}

// key identifies a rate limit. Slack limits posts by channel, and other methods by app.
func (l *limits) key(method, channel string) string {
	if method == "chat.postMessage" {
		return method + " " + cmp.Or(l.ids[channel], channel)
	}
	return method
}

// echoes reports whether the next posts to a channel are expected to be limited.
func (l *limits) echoes(channel string) bool {
	return time.Since(l.limited[l.key("chat.postMessage", channel)]) < limitEcho
}

// check returns an error while method is rate-limited, because a call would prolong the limit, and while the channel
// rejects messages, because each call would fail.
func (l *limits) check(method, channel string) error {
	if wait := time.Until(l.limited[l.key(method, channel)]); wait > 0 {
		return &alerts.RetryError{After: wait, Err: fmt.Errorf("%s: %w", method, errLimited)}
	}
	if r := l.rejected[channel]; time.Until(r.until) > 0 {
		return fmt.Errorf("%w: %w", r.err, errRejected)
	}
	return nil
}

// failed classifies err, and records a rate limit of method and a rejection by the channel.
func (l *limits) failed(method, channel string, err error) outcome {
	if limited, ok := errors.AsType[*slack.RateLimitedError](err); ok {
		key, end := l.key(method, channel), time.Now().Add(limited.RetryAfter)
		l.seconds.Add(max(min(time.Until(end), end.Sub(l.limited[key])), 0).Seconds())
		l.limited[key] = end
	}
	out := classify(method, err)
	if channelCodes[out.code] && method != "conversations.history" {
		l.rejected[channel] = rejection{out.err, time.Now().Add(rejectedFor)}
	}
	return out
}

// later makes an error that somebody must mend retryable: then everything that still fires is sent without a restart. A
// rejected token is tried with one group at a time.
func (l *limits) later(err error) error {
	retry, ok := errors.AsType[*alerts.RetryError](err)
	switch code := codeOf(err); {
	case ok && retry.Down:
		l.down = err
		return err
	case err == nil || ok:
		return err
	case accountCodes[code]:
		l.down = &alerts.RetryError{After: rejectedFor, Down: true, Err: err}
		return l.down
	case channelCodes[code]:
		after := rejectedFor
		for _, r := range l.rejected {
			if wait := time.Until(r.until); wait > 0 {
				after = min(after, wait)
			}
		}
		return &alerts.RetryError{After: after, Err: err}
	}
	return err
}
