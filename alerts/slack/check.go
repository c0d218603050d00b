package slack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/slack-go/slack"
)

const (
	// maxChannelPages is the maximum number of pages of channels to search for a name.
	maxChannelPages = 20
	channelsPerPage = 1000
)

// Scopes of the bot token. deploy/slack/manifest.yaml requests those that some configuration uses.
const (
	scopeWrite          = "chat:write"        // send, edit and reply
	scopeWritePublic    = "chat:write.public" // also in public channels that the app has not joined; not requested
	scopeRead           = "channels:read"     // find a channel by its name
	scopeReadPrivate    = "groups:read"
	scopeHistory        = "channels:history" // find a message in doubt
	scopeHistoryPrivate = "groups:history"
	scopeUsers          = "users:read"      // the time zone of "until tomorrow 9:00"
	scopeUserGroups     = "usergroups:read" // the members of user groups in slack.allowed
)

var channelID = regexp.MustCompile(`^[CGD][A-Z0-9]{6,}$`)

// check verifies the token, its scopes and the channel without posting. It returns the user and team of the token.
func (n *Notifier) check(ctx context.Context) (string, error) {
	answer, err := n.api.AuthTestContext(ctx)
	if err != nil {
		return "", n.checkError("verify the token", "auth.test", err)
	}
	var granted []string // nil: unknown
	if list := answer.Header.Get("X-Oauth-Scopes"); list != "" {
		granted = strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
		if !slices.Contains(granted, scopeWrite) {
			return "", fmt.Errorf("verify the token: it has the scopes %s, not chat:write; add the scope to the app and install it again", strings.Join(granted, ", "))
		}
	}
	note, err := n.checkChannel(ctx, granted)
	if err != nil {
		return "", err
	}
	if granted != nil && !slices.Contains(granted, scopeHistory) && !slices.Contains(granted, scopeHistoryPrivate) {
		note += "; a message whose post is in doubt is posted again: give the app the scope " + scopeHistory
	}
	buttons, err := n.checkButtons(ctx, granted)
	if err != nil {
		return "", fmt.Errorf("messages are sent, but buttons do not work: %w", err)
	}
	return fmt.Sprintf("posts as %s of %s%s%s", answer.User, answer.Team, note, buttons), nil
}

// checkButtons verifies the app-level token, and the scopes for presses. The note says what does not work fully.
func (n *Notifier) checkButtons(ctx context.Context, granted []string) (note string, err error) {
	if !n.appToken {
		return "", nil
	}
	if _, _, err := n.api.StartSocketModeContext(ctx); err != nil { // a connection that nobody uses ends by itself
		if _, limited := errors.AsType[*slack.RateLimitedError](err); limited {
			return "; the app-level token is not verified: Slack limits the rate", nil
		}
		return "", n.checkError("verify the app-level token", openConnection, err)
	}
	if granted == nil {
		return "", nil
	}
	if slices.ContainsFunc(n.allowed, isGroup) && !slices.Contains(granted, scopeUserGroups) {
		return "", errors.New("slack.allowed has user groups, but the bot token has no scope usergroups:read; add the scope to the app and install it again")
	}
	if !slices.Contains(granted, scopeUsers) {
		note = "; silences until tomorrow end at 9:00 UTC: give the app the scope users:read"
	}
	return note, nil
}

// checkChannel verifies that the token can post to the channel. The note says what was not verified.
func (n *Notifier) checkChannel(ctx context.Context, granted []string) (note string, err error) {
	const action = "find the channel"
	if !channelID.MatchString(n.channel) {
		return n.checkName(ctx, granted)
	}
	ch, err := n.api.GetConversationInfoContext(ctx, &slack.GetConversationInfoInput{ChannelID: n.channel})
	if err == nil {
		return "", n.checkMember(ch, granted)
	}
	if _, ok := errors.AsType[slack.SlackErrorResponse](err); !ok {
		return "", n.checkError(action, "conversations.info", err)
	}
	// The channel does not exist, or the token has no scope to read it. chat.getPermalink requires no scope, and returns
	// message_not_found only if the channel exists.
	_, err = n.api.GetPermalinkContext(ctx, &slack.PermalinkParameters{Channel: n.channel, Ts: "1.000000"})
	if refused, ok := errors.AsType[slack.SlackErrorResponse](err); err == nil || ok && refused.Err == "message_not_found" {
		return "", nil
	}
	return "", n.checkError(action, "chat.getPermalink", err)
}

// checkName searches for a channel by name.
func (n *Notifier) checkName(ctx context.Context, granted []string) (note string, err error) {
	const unknown = "; the channel is not verified: set slack.channel to its id (C0123456789), or give the app the scope channels:read"
	name := strings.TrimPrefix(n.channel, "#")
	p := slack.GetConversationsParameters{Limit: channelsPerPage, Types: []string{"public_channel"}}
	private := slices.Contains(granted, scopeReadPrivate)
	if private {
		p.Types = append(p.Types, "private_channel")
	}
	for range maxChannelPages {
		page, next, err := n.api.GetConversationsContext(ctx, &p)
		if refused, ok := errors.AsType[slack.SlackErrorResponse](err); ok && refused.Err == "missing_scope" {
			return unknown, nil
		}
		if _, limited := errors.AsType[*slack.RateLimitedError](err); limited {
			return unknown, nil
		}
		if err != nil {
			return "", n.checkError("find the channel", "conversations.list", err)
		}
		if i := slices.IndexFunc(page, func(ch slack.Channel) bool { return ch.Name == name }); i >= 0 {
			return "", n.checkMember(&page[i], granted)
		}
		if next != "" {
			p.Cursor = next
			continue
		}
		err = fmt.Errorf("find the channel: channel_not_found: no channel is named #%s; correct slack.channel", name)
		if !private {
			err = fmt.Errorf("%w, or set it to the channel's id if the channel is private", err)
		}
		return "", err
	}
	return unknown, nil
}

// checkMember verifies that the app can post to ch.
func (n *Notifier) checkMember(ch *slack.Channel, granted []string) error {
	code := ""
	switch {
	case ch.IsArchived:
		code = "is_archived"
	case !ch.IsMember && (ch.IsPrivate || !slices.Contains(granted, scopeWritePublic)):
		code = "not_in_channel"
	default:
		return nil
	}
	return fmt.Errorf("post to %s: %s; %s", n.channel, code, advice[code])
}

// checkError describes an error of method. It distinguishes an unreachable Slack from one that rejects the request.
func (n *Notifier) checkError(action, method string, err error) error {
	if unreachable, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("reach Slack: %s: %w; check the network, HTTPS_PROXY and slack.api_url: the token and channel are not verified", method, unreachable.Err)
	}
	return fmt.Errorf("%s: %w", action, classify(method, err).err)
}
