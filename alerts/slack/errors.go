package slack

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/endpoint"
)

// errNoTimestamp is returned for an answer without a message timestamp, which does not show whether the message was
// stored.
var errNoTimestamp = errors.New("slack's answer names no message")

// An outcome is the classified result of a failed call.
type outcome struct {
	err   error // a *alerts.RetryError, or a final error
	doubt bool  // Slack may have executed the call
	code  string
}

// advice maps Slack's error codes to advice for the operator.
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
	"is_archived":       "the channel is archived; set another slack.channel",
	"restricted_action": "a workspace setting forbids the app to post here; ask an administrator",
}

// accountCodes are the error codes that concern all channels, channelCodes those that concern all messages to a channel.
var (
	accountCodes = set("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "org_login_required", "ekm_access_denied", "access_denied", "team_access_not_granted")
	channelCodes = set("no_permission", "missing_scope", "channel_not_found", "not_in_channel", "is_archived", "restricted_action")
)

// retryable reports whether the call that failed with err may succeed later.
func retryable(err error) bool {
	_, ok := errors.AsType[*alerts.RetryError](err)
	return ok
}

// codeOf returns Slack's error code, or "" for another error.
func codeOf(err error) string {
	if answer, ok := errors.AsType[slack.SlackErrorResponse](err); ok {
		return answer.Err
	}
	return ""
}

func set(list ...string) map[string]bool {
	out := map[string]bool{}
	for _, s := range list {
		out[s] = true
	}
	return out
}

// appAdvice is advice about the errors of the app-level token.
var appAdvice = map[string]string{
	"invalid_auth":           "check slack.app_token: Slack does not know it",
	"not_authed":             "check slack.app_token: it is empty",
	"account_inactive":       "the app is deactivated; install it again and set a new slack.app_token",
	"token_revoked":          "slack.app_token was revoked; generate a new app-level token",
	"missing_scope":          "generate an app-level token with the scope connections:write and set slack.app_token",
	"not_allowed_token_type": "slack.app_token is not an app-level token (xapp-…)",
}

// openConnection is the method that opens a Socket Mode connection, the only one with the app-level token.
const openConnection = "apps.connections.open"

// classify distinguishes transient errors from errors that someone must resolve.
func classify(method string, err error) outcome {
	var limited *slack.RateLimitedError
	var status slack.StatusCodeError
	var answer slack.SlackErrorResponse
	err = fmt.Errorf("%s: %w", method, err)
	retry := func(after time.Duration) error { return &alerts.RetryError{After: after, Err: err} }
	down := func() error { return &alerts.RetryError{Down: true, Err: err} }
	switch {
	case errors.As(err, &limited):
		return outcome{err: retry(limited.RetryAfter)}
	case errors.As(err, &status):
		if endpoint.Retryable(status.Code) {
			return outcome{err: down(), doubt: status.Code >= http.StatusInternalServerError || status.Code == http.StatusRequestTimeout}
		}
		return outcome{err: fmt.Errorf("%w; check slack.api_url", err)}
	case errors.As(err, &answer):
		switch answer.Err {
		case "ratelimited", "rate_limited":
			return outcome{err: retry(0), code: answer.Err}
		case "internal_error", "fatal_error", "service_unavailable", "request_timeout":
			return outcome{err: down(), doubt: true, code: answer.Err}
		}
		if answer.Needed != "" {
			err = fmt.Errorf("%w (needed: %s)", err, answer.Needed)
		}
		a := advice[answer.Err]
		if method == openConnection {
			a = appAdvice[answer.Err]
		}
		if a != "" {
			err = fmt.Errorf("%w; %s", err, a)
		}
		return outcome{err: err, code: answer.Err}
	}
	return outcome{err: down(), doubt: true} // network error, timeout, or an answer that is not from Slack
}
