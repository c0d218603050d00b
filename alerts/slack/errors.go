package slack

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
)

// errNoTimestamp is an answer that says neither that a message was stored nor that it was not.
var errNoTimestamp = errors.New("slack's answer names no message")

// errLimited is a call that Slack has said not to make yet.
var errLimited = errors.New("over Slack's rate limit")

// An outcome is what is known after a call that failed.
type outcome struct {
	err   error // *alerts.RetryError, or final
	doubt bool  // Slack may have done it all the same
	code  string
}

// advice is what an operator can do about errors that do not go away.
var advice = map[string]string{
	"invalid_auth":      "check slack.token: Slack does not know it",
	"not_authed":        "check slack.token: it is empty",
	"account_inactive":  "the app's user is deactivated; install the app again and set the new token",
	"token_revoked":     "the token was revoked; install the app again and set the new token",
	"token_expired":     "the token has expired; set a new one",
	"no_permission":     "the app may not post here; give it the scope chat:write and invite it",
	"missing_scope":     "give the app the missing scope and install it again",
	"channel_not_found": "check slack.channel, and invite the app if the channel is private",
	"not_in_channel":    "invite the app: /invite @<app> in the channel",
	"is_archived":       "the channel is archived; choose another slack.channel",
	"restricted_action": "a workspace setting forbids the app to post here; ask an administrator",
}

// classify tells errors that may pass from those that need somebody.
func classify(method string, err error) outcome {
	var limited *slack.RateLimitedError
	var status slack.StatusCodeError
	var answer slack.SlackErrorResponse
	err = fmt.Errorf("%s: %w", method, err)
	later := func(after time.Duration) error { return &alerts.RetryError{After: after, Err: err} }
	switch {
	case errors.As(err, &limited):
		return outcome{err: later(limited.RetryAfter)}
	case errors.As(err, &status):
		if status.Code >= http.StatusInternalServerError {
			return outcome{err: later(0), doubt: true}
		}
		if status.Code == http.StatusTooManyRequests || status.Code == http.StatusRequestTimeout {
			return outcome{err: later(0), doubt: status.Code == http.StatusRequestTimeout}
		}
		return outcome{err: fmt.Errorf("%w; check slack.api_url", err)}
	case errors.As(err, &answer):
		switch answer.Err {
		case "ratelimited", "rate_limited":
			return outcome{err: later(0), code: answer.Err}
		case "internal_error", "fatal_error", "service_unavailable", "request_timeout":
			return outcome{err: later(0), doubt: true, code: answer.Err}
		}
		if answer.Needed != "" {
			err = fmt.Errorf("%w (needed: %s)", err, answer.Needed)
		}
		if a := advice[answer.Err]; a != "" {
			err = fmt.Errorf("%w; %s", err, a)
		}
		return outcome{err: err, code: answer.Err}
	}
	return outcome{err: later(0), doubt: true} // network, time-out, or an answer that is not Slack's
}
